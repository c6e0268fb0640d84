"""Identifiers: those that sort by time (RFC 9562, UUID version 7), and tags of tenants.

Time and chance are arguments.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def tenant_tag(tenant: str) -> str:
    """What stands for a tenant in the names of its keys.

    A name with other characters than letters, digits and `._-` becomes its digest, so that no name can
    reach into another tenant's keys.
    """
    if _PLAIN_NAME.fullmatch(tenant) is not None:
        return tenant
    return "=" + hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()


def uuid7_hex(unix_ms: int, random_bits: int) -> str:
    """UUIDv7 as 32 hex digits: 48 bits of Unix milliseconds, version, variant, 74 random bits."""
    value = (unix_ms & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76
    value |= ((random_bits >> 62) & 0xFFF) << 64
    value |= 0b10 << 62
    value |= random_bits & ((1 << 62) - 1)
    return f"{value:032x}"
