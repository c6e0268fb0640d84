"""Development tokens and the key pair that signs them. Production tokens come from your own issuer.

Pure: nothing is read or written here; the command line does that.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class NewKey:
    """A fresh Ed25519 pair: PKCS#8 PEM of the private half, JWK set of the public one."""

    private_pem: bytes = field(repr=False)
    key_set: bytes
    key_id: str


@dataclass(frozen=True, slots=True)
class Grant:
    """What a minted token says. Times are Unix seconds; `lifetime_seconds` from `issued_at_seconds`."""

    issuer: str
    audience: str
    tenant: str
    subject: str
    issued_at_seconds: int
    lifetime_seconds: int
    roles: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    client_id: str = ""
    tenant_claim: str = "tenant"
    roles_claim: str = "roles"
    token_id: str = ""


def new_key() -> NewKey:
    """A new signing key. Its id is the RFC 7638 thumbprint of the public half."""
    private_key = Ed25519PrivateKey.generate()
    pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    jwk = _public_jwk(private_key)
    document = json.dumps({"keys": [jwk | {"alg": "EdDSA", "kid": _thumbprint(jwk), "use": "sig"}]}, indent=2)
    return NewKey(pem, document.encode() + b"\n", _thumbprint(jwk))


def mint_token(private_pem: bytes, grant: Grant) -> str:
    """A token signed with the Ed25519 key in `private_pem`, for the key set that `new_key` made.

    Raises `ConfigurationError` for a PEM that is no plain Ed25519 private key, or no lifetime.
    """
    if grant.lifetime_seconds <= 0:
        raise ConfigurationError("--ttl: expected an integer above 0")
    try:
        private_key = serialization.load_pem_private_key(private_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private_key = None
    if not isinstance(private_key, Ed25519PrivateKey):
        raise ConfigurationError("signing key: expected an Ed25519 private key in PEM (PKCS#8), unencrypted")
    claims: dict[str, object] = {
        "iss": grant.issuer,
        "aud": grant.audience,
        "sub": grant.subject,
        grant.tenant_claim: grant.tenant,
        grant.roles_claim: list(grant.roles),
        "scope": " ".join(grant.scopes),
        "iat": grant.issued_at_seconds,
        "nbf": grant.issued_at_seconds,
        "exp": grant.issued_at_seconds + grant.lifetime_seconds,
    }
    if grant.client_id:
        claims["azp"] = grant.client_id
    if grant.token_id:
        claims["jti"] = grant.token_id
    key_id = _thumbprint(_public_jwk(private_key))
    return jwt.encode(claims, private_key, algorithm="EdDSA", headers={"kid": key_id})


def _public_jwk(private_key: Ed25519PrivateKey) -> dict[str, str]:
    raw = private_key.public_key().public_bytes_raw()
    return {"crv": "Ed25519", "kty": "OKP", "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}


def _thumbprint(jwk: dict[str, str]) -> str:
    """RFC 7638: SHA-256 of the required members, sorted, without blanks."""
    canonical = json.dumps(jwk, sort_keys=True, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).rstrip(b"=").decode()
