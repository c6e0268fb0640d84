"""The shape of a model, read from its `config.json`, and what a split over ranks makes of it.

Pure: the caller reads the file, this module reads the mapping.

Invariants
1. A geometry holds positive numbers only; what cannot be read is a `GeometryRefusal`, never a guess.
2. `rank_kv_heads` is never 0: a rank without a key-value head of its own holds a copy of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ELEMENT_BYTES: Final[Mapping[str, int]] = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
"""Bytes of one element by the name that `config.json` and `--kv-cache-dtype` use."""


@dataclass(frozen=True, slots=True)
class ModelGeometry:
    """The numbers of a decoder that decide how it splits and what its cache costs.

    Shapes and units: counts, except `dtype`, a key of `ELEMENT_BYTES`. `expert_count` and
    `experts_per_token` are 0 for a dense model. `latent_width` is `kv_lora_rank + qk_rope_head_dim`
    of multi-head latent attention and 0 for grouped-query attention.
    """

    architecture: str
    layer_count: int
    head_count: int
    kv_head_count: int
    head_width: int
    value_head_width: int
    hidden_width: int
    intermediate_width: int
    position_count: int
    dtype: str
    expert_count: int = 0
    experts_per_token: int = 0
    latent_width: int = 0

    @property
    def is_mixture(self) -> bool:
        """Whether the model has experts to spread over ranks."""
        return self.expert_count > 0


@dataclass(frozen=True, slots=True)
class GeometryRefusal:
    """Why a `config.json` cannot be planned for. `key` is the field, `reason` what to do about it."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"config.json: {self.key}: {self.reason}"


def geometry_from_config(config: Mapping[str, object]) -> ModelGeometry | GeometryRefusal:
    """The geometry that a Hugging Face `config.json` states.

    Refuses: a missing or non-positive number, and a model whose layers differ in their cache (sliding
    window, Mamba, linear attention): one formula for all layers would be wrong for those.
    Source: field names of transformers 5.19 (`MixtralConfig`, `LlamaConfig`, `DeepseekV3Config`).
    """
    window = config.get("sliding_window")
    if window is not None:
        return GeometryRefusal("sliding_window", f"expected null, found {window!r}; full attention only")
    mixed = config.get("layer_types") or config.get("attn_type_list")
    if isinstance(mixed, list) and len({str(kind) for kind in mixed}) > 1:
        return GeometryRefusal("layer_types", "layers of several kinds need a plan per kind; not built in")
    numbers: dict[str, int] = {}
    for key in (
        "num_hidden_layers",
        "num_attention_heads",
        "hidden_size",
        "intermediate_size",
        "max_position_embeddings",
    ):
        found = _positive(config.get(key))
        if found is None:
            return GeometryRefusal(key, f"expected an integer above 0, found {config.get(key)!r}")
        numbers[key] = found
    heads = numbers["num_attention_heads"]
    width = _positive(config.get("head_dim")) or numbers["hidden_size"] // heads
    latent = _positive(config.get("kv_lora_rank")) or 0
    rope = _positive(config.get("qk_rope_head_dim")) or 0
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16")
    if dtype not in ELEMENT_BYTES:
        return GeometryRefusal("torch_dtype", f"expected one of {', '.join(ELEMENT_BYTES)}, found {dtype!r}")
    names = config.get("architectures")
    return ModelGeometry(
        architecture=str(names[0]) if isinstance(names, list) and names else "unknown",
        layer_count=numbers["num_hidden_layers"],
        head_count=heads,
        kv_head_count=_positive(config.get("num_key_value_heads")) or heads,
        head_width=width,
        value_head_width=_positive(config.get("v_head_dim")) or width,
        hidden_width=numbers["hidden_size"],
        intermediate_width=_positive(config.get("moe_intermediate_size")) or numbers["intermediate_size"],
        position_count=numbers["max_position_embeddings"],
        dtype=dtype,
        expert_count=_first_positive(config, "num_local_experts", "num_experts", "n_routed_experts"),
        experts_per_token=_first_positive(config, "num_experts_per_tok"),
        latent_width=latent + rope if latent else 0,
    )


def rank_kv_heads(kv_head_count: int, tensor_ranks: int) -> int:
    """Key-value heads that one tensor-parallel rank keeps: `max(1, kv_heads / ranks)`.

    With fewer heads than ranks the heads are copied, so the cache of a rank stops shrinking.
    """
    return max(1, kv_head_count // tensor_ranks)


def padded_heads(head_count: int, kv_head_count: int, ranks: int) -> tuple[int, int]:
    """Query and key-value head counts, rounded up so that `ranks` divide them and the group size stays.

    The added heads are meant to be all zeros: their keys, values and output columns add nothing.
    Example: 9 query and 3 key-value heads over 2 ranks become 12 and 4 (3 queries per key-value head).
    Refuses: a group size that is not whole raises ValueError, as no such model exists.
    """
    if head_count % kv_head_count:
        raise ValueError(f"{head_count} query heads are no whole groups over {kv_head_count} key-value heads")
    group = head_count // kv_head_count
    kv_padded = -(-kv_head_count // ranks) * ranks
    return kv_padded * group, kv_padded


def expert_share(expert_count: int, expert_ranks: int, rank: int) -> range:
    """The experts that `rank` owns under vLLM's linear placement; the first ranks take the remainder.

    Source: `determine_expert_map` of vLLM 0.32.0, strategy `linear`.
    """
    base, left = divmod(expert_count, expert_ranks)
    start = rank * base + min(rank, left)
    return range(start, start + base + (1 if rank < left else 0))


def _positive(found: object) -> int | None:
    """`found` when it is a true integer above 0 (a bool is none)."""
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def _first_positive(config: Mapping[str, object], *keys: str) -> int:
    """The first of `keys` that holds a positive integer, else 0."""
    for key in keys:
        found = _positive(config.get(key))
        if found is not None:
            return found
    return 0
