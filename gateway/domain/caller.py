"""Who asks for a protocol, as far as the choice of a version and of tools depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """Facts of one request beside its body.

    `now_seconds` is Unix time. `protocol` is the raw value of `x-tidegate-protocol`. `keyed_digest(data)`
    is a keyed hash in hex; it decides who belongs to a canary, so that nobody can choose it.
    """

    tenant: str
    roles: frozenset[str]
    now_seconds: int
    keyed_digest: Callable[[bytes], str] = field(repr=False)
    protocol: str | None = None
