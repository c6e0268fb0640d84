"""What is sent to a destination, beside the connection itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Path below the destination's base URL, and the body, made from the admitted request.

    `key_header` and `key_prefix` say how the destination's credential is sent. `headers` are the
    dialect's own.
    """

    path: str
    body: bytes = field(repr=False)
    key_header: bytes = b"Authorization"
    key_prefix: bytes = b"Bearer "
    headers: tuple[tuple[bytes, bytes], ...] = ()
