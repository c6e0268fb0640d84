"""Keys of the log: where signatures come from, and which public keys an examiner trusts."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Protocol

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.checkpoint import NoteSignature, TrustedKey, is_key_name, key_id
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError

TRUST_FORMAT = "tidegate-trust/1"


class KeySource(Protocol):
    """Something that signs checkpoints: a key file now, a key management service later.

    Blocking; called by the log's writer thread, about once a second. A source that cannot sign raises
    `OSError`; the log then goes on without a new checkpoint until it is overdue.
    """

    @property
    def public_key(self) -> bytes:
        """Ed25519 public key, 32 bytes."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Ed25519 signature, 64 bytes."""
        ...


class PemKey:
    """`KeySource` from an Ed25519 private key in PKCS#8 PEM."""

    def __init__(self, pem: Secret) -> None:
        try:
            key = serialization.load_pem_private_key(pem.reveal().encode(), password=None)
        except (ValueError, TypeError):
            raise ConfigurationError(
                "audit.signing_key: expected an unencrypted PKCS#8 PEM, as `tidegate audit new-key` makes"
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError("audit.signing_key: expected an Ed25519 key, found another kind")
        self._key = key
        self._public = key.public_key().public_bytes_raw()

    @property
    def public_key(self) -> bytes:
        """See `KeySource`."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """See `KeySource`."""
        return self._key.sign(message)


def sign_note(source: KeySource, name: str, text: str) -> NoteSignature:
    """Signature line of `source` under `name` over a checkpoint's text."""
    return NoteSignature(name, key_id(name, source.public_key), source.sign(text.encode()))


def new_pem() -> Secret:
    """A new Ed25519 private key as PKCS#8 PEM."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Secret(pem.decode())


def encode_trust(keys: tuple[TrustedKey, ...]) -> str:
    """Text of a trust file."""
    rows = [
        {
            "name": key.name,
            "algorithm": "ed25519",
            "key_id": key.key_id.hex(),
            "public_key": b64encode(key.public_key).decode(),
        }
        for key in keys
    ]
    return json.dumps({"format": TRUST_FORMAT, "keys": rows}, indent=2) + "\n"


def decode_trust(text: str, where: str) -> tuple[TrustedKey, ...]:
    """Keys of a trust file. Raises `ConfigurationError` that names `where` and the entry."""
    try:
        tree = json.loads(text)
    except ValueError:
        tree = None
    rows = tree.get("keys") if isinstance(tree, dict) and tree.get("format") == TRUST_FORMAT else None
    if not isinstance(rows, list) or not rows:
        raise ConfigurationError(f'{where}: expected {{"format": "{TRUST_FORMAT}", "keys": […]}}')
    return tuple(_trusted(row, f"{where}: keys[{place}]") for place, row in enumerate(rows))


def _trusted(row: object, where: str) -> TrustedKey:
    match row:
        case {"name": str(name), "algorithm": "ed25519", "public_key": str(encoded), **rest}:
            pass
        case _:
            raise ConfigurationError(f"{where}: expected name, algorithm ed25519 and public_key")
    try:
        key = TrustedKey(name, b64decode(encoded, validate=True))
    except ValueError:
        raise ConfigurationError(f"{where}: public_key is not base64") from None
    if len(key.public_key) != 32 or not is_key_name(name):
        raise ConfigurationError(f"{where}: expected 32 bytes of key and a name without spaces or plus")
    if rest.get("key_id", key.key_id.hex()) != key.key_id.hex():
        raise ConfigurationError(f"{where}: key_id does not belong to this name and key")
    return key
