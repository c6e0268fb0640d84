"""Public keys of an issuer: a JWK set read strictly, and what a source of key sets must do.

Invariants
1. A key verifies with exactly one algorithm, fixed when the set is read; a token's header cannot
   choose another.
2. A set that shows private or symmetric material is refused whole: whoever published it lost it.
3. A key of a kind that is not used here (other curve, encryption, RSA below 2,048 bits, no usable id)
   is left out and counted, so it can never verify anything.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from gateway.identity.strict_json import NotStrict, parse_object

#: Largest key set that is read. A set of 100 RSA-4096 keys is about 80 KiB.
MAX_KEY_SET_BYTES = 256 * 1024
#: Most keys in one set; issuers publish two to ten.
MAX_KEY_COUNT = 128
#: RSA sizes that are used: below is weak (NIST SP 800-131A), above costs more than a request may.
RSA_BITS = (2048, 8192)

#: Key ids that are looked up: base64url words with dots, or plain base64 (some issuers publish that).
#: No path, no URL, no blank, no quote.
_KEY_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}|[A-Za-z0-9+/]{1,126}={0,2}")

_READERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "EdDSA": OKPAlgorithm.from_jwk,
    "ES256": ECAlgorithm.from_jwk,
    "RS256": RSAAlgorithm.from_jwk,
}
_ALGORITHM_OF_KIND = {("OKP", "Ed25519"): "EdDSA", ("EC", "P-256"): "ES256", ("RSA", None): "RS256"}

PublicKey = Ed25519PublicKey | EllipticCurvePublicKey | RSAPublicKey


class InvalidKeySet(ValueError):
    """The document is not a usable JWK set; the text says why and holds nothing of the set."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """One public key with its id and the only algorithm that it verifies."""

    key_id: str
    algorithm: str
    public_key: PublicKey = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by id. `skipped_count` keys were of kinds not used here. `sha256` is of the document."""

    keys: Mapping[str, VerificationKey]
    skipped_count: int
    sha256: str


class KeySource(Protocol):
    """Where the keys of one issuer come from (plug point).

    The set in force changes only through refreshes of the source itself. Times are the source's own.
    """

    def generation(self) -> int | None:
        """Number of the key set in force; rises when its content changes.

        None: no set may be used right now without asking (never loaded, too old); then `find` asks.
        Cheap, never blocks on the network.
        """
        ...

    async def find(self, key_id: str) -> VerificationKey | None:
        """The key in force with this id. None: the issuer has no such key, as of its cooldown.

        Raises `KeySetUnavailable` when that cannot be known.
        """
        ...

    async def start(self) -> None:
        """Try to load the first set. An outage is no error; a file that is unusable is one
        (`ConfigurationError`)."""
        ...

    async def aclose(self) -> None:
        """End what runs in the background. Idempotent."""
        ...


def is_key_id(text: object) -> bool:
    """True for a string that may be looked up as a key id (at most 128 characters, no path or URL)."""
    return isinstance(text, str) and _KEY_ID.fullmatch(text) is not None


def parse_key_set(document: bytes) -> KeySet:
    """The usable keys of a JWK set (RFC 7517).

    Raises `InvalidKeySet` for: over 256 KiB, not strict JSON, no `keys` array, more than 128 keys,
    private or symmetric material, two usable keys with one id, no usable key at all.
    """
    if len(document) > MAX_KEY_SET_BYTES:
        raise InvalidKeySet(f"larger than {MAX_KEY_SET_BYTES} bytes")
    try:
        entries = parse_object(document).get("keys")
    except NotStrict as error:
        raise InvalidKeySet(str(error)) from None
    if not isinstance(entries, list) or len(entries) > MAX_KEY_COUNT:
        raise InvalidKeySet(f"expected an array `keys` of at most {MAX_KEY_COUNT} keys")
    keys: dict[str, VerificationKey] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise InvalidKeySet("a key is not an object")
        if entry.get("kty") == "oct" or "d" in entry or "k" in entry:
            # fail-closed: a set that shows a secret key lets anyone sign; nothing of it is trusted.
            raise InvalidKeySet("holds private or symmetric key material")
        key = _usable_key(entry)
        if key is None:
            continue
        if key.key_id in keys:
            raise InvalidKeySet("two keys have the same `kid`")
        keys[key.key_id] = key
    if not keys:
        raise InvalidKeySet("holds no usable signing key (Ed25519, P-256, or RSA of 2048 bits and more)")
    digest = hashlib.sha256(document).hexdigest()
    return KeySet(MappingProxyType(keys), len(entries) - len(keys), digest)


def _usable_key(entry: dict[str, object]) -> VerificationKey | None:
    """The key of one JWK, or None when its kind, use or id is not one of ours."""
    key_id, kind, curve = entry.get("kid"), entry.get("kty"), entry.get("crv")
    if not isinstance(key_id, str) or not is_key_id(key_id) or not isinstance(kind, str):
        return None
    if curve is not None and not isinstance(curve, str):
        return None
    algorithm = _ALGORITHM_OF_KIND.get((kind, curve))
    operations = entry.get("key_ops", ["verify"])
    if (
        algorithm is None
        or entry.get("alg", algorithm) != algorithm
        or entry.get("use", "sig") != "sig"
        or not isinstance(operations, list)
        or "verify" not in operations
    ):
        return None
    public_key = _public_key(entry, algorithm)
    return None if public_key is None else VerificationKey(key_id, algorithm, public_key)


def _public_key(entry: dict[str, object], algorithm: str) -> PublicKey | None:
    """The key object of a JWK; None when its numbers are no key or of a refused size."""
    try:
        key: object = _READERS[algorithm](entry)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    match key:
        case RSAPublicKey():
            return key if RSA_BITS[0] <= key.key_size <= RSA_BITS[1] else None
        case Ed25519PublicKey() | EllipticCurvePublicKey():
            return key
        case _:
            return None
