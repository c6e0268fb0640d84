"""Identifiers that sort by time (RFC 9562, UUID version 7). Time and chance are arguments."""

from __future__ import annotations


def uuid7_hex(unix_ms: int, random_bits: int) -> str:
    """UUIDv7 as 32 hex digits: 48 bits of Unix milliseconds, version, variant, 74 random bits."""
    value = (unix_ms & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76
    value |= ((random_bits >> 62) & 0xFFF) << 64
    value |= 0b10 << 62
    value |= random_bits & ((1 << 62) - 1)
    return f"{value:032x}"
