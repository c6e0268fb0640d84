"""What the key-value cache of a model costs per token and rank, and how much fits.

Pure arithmetic. Source: vLLM 0.32.0 logs its capacity at start; these formulas gave the same number for
grouped-query attention and, after rounding down to blocks, for multi-head latent attention (2026-11).

Invariants
1. Grouped-query attention: `layers * max(1, kv_heads / tensor_ranks) * (key_width + value_width) * bytes`.
2. Multi-head latent attention: `layers * (kv_lora_rank + rope_width) * bytes`, not divided by tensor ranks:
   every rank keeps the whole latent. Only data parallelism spreads it, by spreading requests.
3. A plan rounds down to whole blocks, so it never promises a token that the node cannot keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from private_node.geometry import ELEMENT_BYTES, ModelGeometry, rank_kv_heads

BLOCK_TOKENS: Final = 16
"""Tokens of one cache block on GPUs; vLLM's CPU backend takes 128."""


@dataclass(frozen=True, slots=True)
class KvPlan:
    """What one rank keeps. `request_count` is how many requests of full length fit at once."""

    bytes_per_token: int
    token_count: int
    request_count: int


def kv_bytes_per_token(geometry: ModelGeometry, tensor_ranks: int, cache_dtype: str | None = None) -> int:
    """Bytes of cache that one token takes on one tensor-parallel rank.

    `cache_dtype` is a key of `ELEMENT_BYTES`; the model's own when None.
    """
    element = ELEMENT_BYTES[cache_dtype or geometry.dtype]
    if geometry.latent_width:
        return geometry.layer_count * geometry.latent_width * element
    width = geometry.head_width + geometry.value_head_width
    return geometry.layer_count * rank_kv_heads(geometry.kv_head_count, tensor_ranks) * width * element


def plan_kv(
    geometry: ModelGeometry,
    *,
    tensor_ranks: int,
    cache_bytes: int,
    max_model_tokens: int,
    cache_dtype: str | None = None,
    block_tokens: int = BLOCK_TOKENS,
) -> KvPlan:
    """How many tokens and how many full-length requests fit into `cache_bytes` of one rank."""
    per_token = kv_bytes_per_token(geometry, tensor_ranks, cache_dtype)
    blocks = cache_bytes // (per_token * block_tokens)
    per_request = -(-max_model_tokens // block_tokens)
    return KvPlan(per_token, blocks * block_tokens, blocks // per_request)
