"""The shape of a model and its split over ranks."""

from __future__ import annotations

import pytest

from private_node.geometry import (
    GeometryRefusal,
    ModelGeometry,
    expert_share,
    geometry_from_config,
    padded_heads,
    rank_kv_heads,
)

MIXTRAL: dict[str, object] = {
    "architectures": ["MixtralForCausalLM"],
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
DEEPSEEK: dict[str, object] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "max_position_embeddings": 163840,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "dtype": "bfloat16",
}


def test_reads_a_mixture_with_grouped_queries() -> None:
    geometry = geometry_from_config(MIXTRAL)
    assert isinstance(geometry, ModelGeometry)
    assert geometry.is_mixture
    assert (geometry.head_width, geometry.kv_head_count, geometry.expert_count) == (128, 8, 8)
    assert geometry.latent_width == 0


def test_reads_latent_attention_and_the_width_of_its_experts() -> None:
    geometry = geometry_from_config(DEEPSEEK)
    assert isinstance(geometry, ModelGeometry)
    assert (geometry.latent_width, geometry.intermediate_width, geometry.expert_count) == (576, 2048, 256)


def test_reads_a_dense_model_whose_heads_are_all_key_value_heads() -> None:
    dense = {key: value for key, value in MIXTRAL.items() if "expert" not in key and "key_value" not in key}
    geometry = geometry_from_config(dense | {"architectures": None, "torch_dtype": None})
    assert isinstance(geometry, ModelGeometry)
    assert not geometry.is_mixture
    assert (geometry.kv_head_count, geometry.architecture, geometry.dtype) == (32, "unknown", "bfloat16")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", None),
        ("num_hidden_layers", 0),
        ("num_attention_heads", True),
        ("hidden_size", "4096"),
        ("intermediate_size", -1),
        ("max_position_embeddings", 1.5),
        ("torch_dtype", "int3"),
        ("sliding_window", 4096),
    ],
)
def test_refuses_what_it_cannot_plan_and_names_the_key(key: str, value: object) -> None:
    refusal = geometry_from_config(MIXTRAL | {key: value})
    assert isinstance(refusal, GeometryRefusal)
    assert str(refusal).startswith(f"config.json: {key}: ")


def test_refuses_layers_of_several_kinds() -> None:
    kinds = ["full_attention", "linear_attention"]
    assert isinstance(geometry_from_config(MIXTRAL | {"layer_types": kinds}), GeometryRefusal)
    assert isinstance(geometry_from_config(MIXTRAL | {"layer_types": kinds[:1] * 2}), ModelGeometry)


@pytest.mark.parametrize(
    ("kv_heads", "ranks", "kept"), [(8, 1, 8), (8, 4, 2), (8, 8, 1), (4, 8, 1), (1, 2, 1)]
)
def test_keeps_at_least_one_kv_head_on_each_rank(kv_heads: int, ranks: int, kept: int) -> None:
    assert rank_kv_heads(kv_heads, ranks) == kept


@pytest.mark.parametrize(
    ("heads", "kv_heads", "ranks", "padded"),
    [(9, 3, 2, (12, 4)), (9, 3, 1, (9, 3)), (9, 3, 3, (9, 3)), (32, 8, 2, (32, 8)), (15, 5, 4, (24, 8))],
)
def test_pads_heads_to_whole_groups_per_rank(
    heads: int, kv_heads: int, ranks: int, padded: tuple[int, int]
) -> None:
    assert padded_heads(heads, kv_heads, ranks) == padded
    assert padded[0] % ranks == padded[1] % ranks == 0


def test_refuses_to_pad_broken_groups() -> None:
    with pytest.raises(ValueError, match="no whole groups"):
        padded_heads(10, 3, 2)


@pytest.mark.parametrize(("experts", "ranks"), [(4, 2), (8, 3), (5, 5), (256, 48), (7, 1)])
def test_gives_each_expert_to_exactly_one_rank(experts: int, ranks: int) -> None:
    shares = [expert_share(experts, ranks, rank) for rank in range(ranks)]
    assert [expert for share in shares for expert in share] == list(range(experts))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
