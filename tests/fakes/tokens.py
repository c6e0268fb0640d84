"""Keys and tokens of a pretended issuer, right ones and wrong ones."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.domain.request import RawRequest
from gateway.domain.secret import Secret
from gateway.errors import KeySetUnavailable
from gateway.identity.keys import VerificationKey, parse_key_set
from gateway.settings import IdentitySettings, IssuerSettings

#: The moment at which all unit tests happen.
NOW = 1_800_000_000
ISSUER = "https://issuer.example/acme"
AUDIENCE = "tidegate"


def b64(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def as_json(value: object) -> bytes:
    """Compact JSON bytes."""
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass(frozen=True)
class SigningKey:
    """A private key with its public JWK; `sign` gives the raw JWS signature."""

    key_id: str
    algorithm: str
    jwk: Mapping[str, Any]
    public_pem: bytes
    sign: Callable[[bytes], bytes]


def _integer(value: int, size: int) -> str:
    return b64(value.to_bytes(size, "big"))


@functools.cache
def eddsa_key(key_id: str = "ed-1") -> SigningKey:
    """An Ed25519 key; the same for the same id in every run, so that tokens are too."""
    key = ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(key_id.encode()).digest())
    public = key.public_key()
    jwk = {"kty": "OKP", "crv": "Ed25519", "kid": key_id, "x": b64(public.public_bytes_raw())}
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return SigningKey(key_id, "EdDSA", jwk, pem, key.sign)


@functools.cache
def es256_key(key_id: str = "ec-1", curve: str = "P-256") -> SigningKey:
    """A key on P-256 (or P-384, to be left out)."""
    key = ec.generate_private_key(ec.SECP256R1() if curve == "P-256" else ec.SECP384R1())
    size = 32 if curve == "P-256" else 48
    numbers = key.public_key().public_numbers()

    def sign(data: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")

    jwk = {
        "kty": "EC",
        "crv": curve,
        "kid": key_id,
        "x": _integer(numbers.x, size),
        "y": _integer(numbers.y, size),
    }
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return SigningKey(key_id, "ES256", jwk, pem, sign)


@functools.cache
def rs256_key(key_id: str = "rsa-1", bits: int = 2048) -> SigningKey:
    """An RSA key of `bits` bits."""
    key = rsa.generate_private_key(65537, bits)
    numbers = key.public_key().public_numbers()
    jwk = {"kty": "RSA", "kid": key_id, "n": _integer(numbers.n, bits // 8), "e": _integer(65537, 3)}
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return SigningKey(
        key_id, "RS256", jwk, pem, lambda data: key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    )


def key_set(*keys: SigningKey) -> bytes:
    """A JWK set document of the public halves."""
    return as_json({"keys": [dict(key.jwk) for key in keys]})


def claims(**changes: object) -> dict[str, object]:
    """Claims of a good token at `NOW`; a change to None takes the claim away."""
    good: dict[str, object] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "tenant": "acme",
        "roles": ["user"],
        "scope": "chat models",
        "iat": NOW - 10,
        "nbf": NOW - 10,
        "exp": NOW + 600,
    }
    good.update(changes)
    return {name: value for name, value in good.items() if value is not None}


def forge(
    payload: bytes | Mapping[str, object],
    key: SigningKey,
    header: bytes | Mapping[str, object] | None = None,
    sign: Callable[[bytes], bytes] | None = None,
) -> str:
    """A token with exactly this payload and header, signed by `key` (or by `sign`)."""
    if header is None:
        header = {"alg": key.algorithm, "typ": "JWT", "kid": key.key_id}
    head = header if isinstance(header, bytes) else as_json(header)
    body = payload if isinstance(payload, bytes) else as_json(payload)
    signing_input = f"{b64(head)}.{b64(body)}"
    return f"{signing_input}.{b64((sign or key.sign)(signing_input.encode()))}"


def hmac_signer(secret: bytes) -> Callable[[bytes], bytes]:
    """HS256 with `secret`: for the attack that signs with a public key."""
    return lambda data: hmac.new(secret, data, hashlib.sha256).digest()


def issuer_settings(**changes: Any) -> IssuerSettings:
    """Settings of the pretended issuer."""
    good: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "keys": "file:unused.json",
        "tenants": ("acme", "bank"),
    }
    return IssuerSettings(**(good | changes))


def identity_settings(*issuers: IssuerSettings) -> IdentitySettings:
    """Settings with these issuers, or the pretended one."""
    return IdentitySettings(issuers or (issuer_settings(),))


def request_with(authorization: str | None) -> RawRequest:
    """A raw request with this `Authorization` value."""
    secret = None if authorization is None else Secret(authorization)
    return RawRequest("req-1", "chat.completions", secret, None, None, b"{}", "127.0.0.1", NOW * 10**6, 0)


class FakeKeySource:
    """A key source in memory; `document` None is an outage. Counts look-ups."""

    def __init__(self, document: bytes | None) -> None:
        self._generation = 0
        self.find_count = 0
        self.is_closed = False
        self._keys: Mapping[str, VerificationKey] | None = None
        self.publish(document)

    def publish(self, document: bytes | None) -> None:
        """Put another set (or an outage) in force at once."""
        self._keys = None if document is None else parse_key_set(document).keys
        self._generation += 1

    def generation(self) -> int | None:
        """Number of the set in force."""
        return None if self._keys is None else self._generation

    async def find(self, key_id: str) -> VerificationKey | None:
        """The key with this id."""
        self.find_count += 1
        if self._keys is None:
            raise KeySetUnavailable("Tokens cannot be verified just now. Try again later.")
        return self._keys.get(key_id)

    async def start(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True


class Clock:
    """A clock that moves only when told to."""

    def __init__(self, seconds: float = NOW) -> None:
        self.seconds = float(seconds)

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
