"""Stage 1: from the `Authorization` value of a request to its `Principal`.

Invariants
1. A principal comes out only after a signature check with a key in force; a remembered one only while
   the same key set is in force (its generation) and before the token's own end.
2. Remembered tokens are found by the full SHA-256 of the whole token, never by a part of it.
3. Failures are never remembered: they cost the sender a signature check, and us no memory.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.domain.principal import Principal
from gateway.domain.request import RawRequest
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError
from gateway.identity.keys import KeySource
from gateway.identity.tokens import (
    UnverifiedToken,
    VerifiedClaims,
    bearer_token,
    check_claims,
    read_token,
    refusal,
    verify_signature,
)
from gateway.settings import IdentitySettings, IssuerSettings

#: Verified tokens that are remembered; about 1 KiB each.
MAX_REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class _Remembered:
    principal: Principal
    source: KeySource
    generation: int


class Authenticator:
    """Verifies bearer tokens of the configured issuers.

    `key_sources` has one source per issuer name. `pepper` keys the digests in the principal. `now`
    gives Unix seconds. Raises `ConfigurationError` for an issuer that is empty, stands twice, or has
    no source, audience or tenant.
    """

    def __init__(
        self,
        settings: IdentitySettings,
        key_sources: Mapping[str, KeySource],
        pepper: Secret,
        now: Callable[[], float],
        *,
        max_remembered: int = MAX_REMEMBERED,
    ) -> None:
        self._issuers = _checked_issuers(settings, key_sources)
        if not pepper:
            raise ConfigurationError("pepper: expected a secret of at least one character, found none")
        self._sources = dict(key_sources)
        self._leeway_seconds = settings.leeway_seconds
        self._pepper = pepper.reveal().encode("utf-8")
        self._now = now
        self._max_remembered = max_remembered
        self._remembered: dict[bytes, _Remembered] = {}

    async def authenticate(self, raw: RawRequest) -> Principal:
        """The verified principal of this request.

        Raises `NotAuthenticated` (one public sentence; the cause is its `code`) or
        `KeySetUnavailable`.
        """
        if raw.authorization is None:
            raise refusal("missing-token")
        token = bearer_token(raw.authorization.reveal())
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._remembered.get(digest)
        if known is not None:
            if known.generation == known.source.generation() and self._now() < (
                known.principal.expires_at_seconds
            ):
                return known.principal
            del self._remembered[digest]
        return await self._verify(read_token(token), digest)

    async def start(self) -> None:
        """Load the first key set of every issuer. Raises `ConfigurationError` for an unusable file."""
        for source in self._sources.values():
            await source.start()

    async def aclose(self) -> None:
        """End the background work of the key sources."""
        for source in self._sources.values():
            await source.aclose()

    @property
    def unready_issuers(self) -> tuple[str, ...]:
        """Issuers whose tokens cannot be verified right now: not ready while this is not empty."""
        return tuple(name for name, source in self._sources.items() if source.generation() is None)

    async def _verify(self, token: UnverifiedToken, digest: bytes) -> Principal:
        issuer = self._issuers.get(token.issuer)
        if issuer is None:
            raise refusal("bad-issuer")
        source = self._sources[token.issuer]
        # Read before the lookup: a set that changes meanwhile makes the entry stale, not immortal.
        generation = source.generation()
        key = await source.find(token.key_id)
        if key is None:
            raise refusal("unknown-kid")
        verify_signature(token, key, issuer)
        claims = check_claims(token.claims, issuer, self._now(), self._leeway_seconds)
        principal = self._principal(claims, token.key_id, digest)
        if generation is not None and generation == source.generation():
            self._remember(digest, _Remembered(principal, source, generation))
        return principal

    def _principal(self, claims: VerifiedClaims, key_id: str, digest: bytes) -> Principal:
        return Principal(
            tenant=claims.tenant,
            subject=claims.subject,
            subject_ref=self._reference(b"subject", claims.tenant.encode(), claims.subject.encode()),
            token_ref=self._reference(b"token", digest),
            issuer=claims.issuer,
            client_id=claims.client_id,
            key_id=key_id,
            roles=claims.roles,
            scopes=claims.scopes,
            expires_at_seconds=claims.expires_at_seconds,
            token_id=claims.token_id,
        )

    def _reference(self, *parts: bytes) -> str:
        """HMAC-SHA-256 in hex over the parts, each with its length, so that no two lists look alike."""
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._pepper, framed, "sha256").hex()

    def _remember(self, digest: bytes, entry: _Remembered) -> None:
        if len(self._remembered) >= self._max_remembered:
            # Oldest first: dicts keep insertion order. One out for one in keeps the cost flat.
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = entry


def _checked_issuers(
    settings: IdentitySettings, key_sources: Mapping[str, KeySource]
) -> dict[str, IssuerSettings]:
    """Issuers by name. An issuer without audience or tenants would accept tokens of other systems."""
    issuers: dict[str, IssuerSettings] = {}
    for index, issuer in enumerate(settings.issuers):
        place = f"identity.issuers[{index}]"
        if issuer.issuer in issuers:
            raise ConfigurationError(f"{place}.issuer: expected a name that stands once, found it twice")
        for key in ("issuer", "audience", "tenants", "algorithms"):
            if not getattr(issuer, key):
                # fail-closed: without it, tokens made for somebody else would be taken.
                raise ConfigurationError(f"{place}.{key}: expected a value, found nothing")
        if issuer.issuer not in key_sources:
            raise ConfigurationError(f"{place}.keys: no key source for this issuer")
        issuers[issuer.issuer] = issuer
    if not issuers:
        raise ConfigurationError("identity.issuers: expected at least one issuer, found none")
    return issuers
