"""What a token of cache costs. Expected figures are vLLM's own logged capacities or written-out products."""

from __future__ import annotations

from dataclasses import replace

import pytest

from private_node.geometry import ModelGeometry
from private_node.kv_plan import kv_bytes_per_token, plan_kv

REFERENCE = ModelGeometry(
    architecture="MixtralForCausalLM",
    layer_count=30,
    head_count=12,
    kv_head_count=4,
    head_width=64,
    value_head_width=64,
    hidden_width=576,
    intermediate_width=1536,
    position_count=8192,
    dtype="bfloat16",
    expert_count=4,
    experts_per_token=2,
)
LATENT = replace(REFERENCE, layer_count=61, head_count=128, kv_head_count=128, latent_width=576)


@pytest.mark.parametrize(
    ("ranks", "dtype", "expected"),
    [
        (1, None, 30 * 4 * 128 * 2),
        (2, None, 30 * 2 * 128 * 2),
        (4, None, 30 * 1 * 128 * 2),
        (8, None, 30 * 1 * 128 * 2),
        (2, "float32", 30 * 2 * 128 * 4),
        (2, "fp8", 30 * 2 * 128 * 1),
    ],
)
def test_counts_grouped_query_bytes_per_rank(ranks: int, dtype: str | None, expected: int) -> None:
    assert kv_bytes_per_token(REFERENCE, ranks, dtype) == expected


def test_counts_key_and_value_widths_apart() -> None:
    uneven = replace(REFERENCE, head_width=192, value_head_width=128)
    assert kv_bytes_per_token(uneven, 1) == 30 * 4 * (192 + 128) * 2


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_keeps_the_whole_latent_on_every_tensor_rank(ranks: int) -> None:
    assert kv_bytes_per_token(LATENT, ranks) == 61 * 576 * 2


def test_matches_the_capacity_that_vllm_logged_for_the_reference_model() -> None:
    """vLLM 0.32.0, two ranks, 512 MiB each: "CPU KV cache size: 34,944 tokens ... 4.27x" (2026-12-01)."""
    plan = plan_kv(REFERENCE, tensor_ranks=2, cache_bytes=536_870_912, max_model_tokens=8192)
    assert (plan.bytes_per_token, plan.token_count, plan.request_count) == (15_360, 34_944, 4)


def test_rounds_down_to_blocks_and_up_per_request() -> None:
    plan = plan_kv(REFERENCE, tensor_ranks=2, cache_bytes=15_360 * 47, max_model_tokens=17)
    assert (plan.token_count, plan.request_count) == (32, 1)
    nothing = plan_kv(REFERENCE, tensor_ranks=2, cache_bytes=15_360 * 15, max_model_tokens=1)
    assert (nothing.token_count, nothing.request_count) == (0, 0)
