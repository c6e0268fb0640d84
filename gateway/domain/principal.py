"""Who asks, as far as a verified token says."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    """The verified caller.

    `subject_ref` and `token_ref` are keyed digests (hex): records carry these, never the names.
    `token_id` is the token's `jti`, empty when it has none.
    `expires_at_seconds` is Unix time. Only `identity` constructs it, after verification.
    """

    tenant: str
    subject: str = field(repr=False)
    subject_ref: str
    token_ref: str
    issuer: str
    client_id: str
    key_id: str
    roles: frozenset[str]
    scopes: frozenset[str]
    expires_at_seconds: int
    token_id: str = field(default="", repr=False)
