"""Signing keys and trust files."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from gateway.audit.checkpoint import TrustedKey
from gateway.audit.keys import PemKey, decode_trust, encode_trust, new_pem
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError

KEY = TrustedKey("dep/replica/0", PemKey(new_pem()).public_key)


def test_a_trust_file_comes_back_as_it_was() -> None:
    other = TrustedKey("dep/replica/1", PemKey(new_pem()).public_key)
    assert decode_trust(encode_trust((KEY, other)), "keys.json") == (KEY, other)


def test_refuses_a_key_that_is_no_ed25519_pem() -> None:
    with pytest.raises(ConfigurationError, match="PKCS#8"):
        PemKey(Secret("not a key"))
    other = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(ConfigurationError, match="Ed25519"):
        PemKey(Secret(other.decode()))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other/1", "keys": [{}]}'])
def test_refuses_a_file_that_is_no_trust_file(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"keys\.json"):
        decode_trust(text, "keys.json")


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("name", "with space"),
        ("name", 5),
        ("algorithm", "rsa"),
        ("public_key", "%%"),
        ("public_key", "AAAA"),
        ("key_id", "00000000"),
    ],
)
def test_refuses_an_entry_that_is_wrong(field: str, found: object) -> None:
    tree = json.loads(encode_trust((KEY,)))
    tree["keys"][0][field] = found
    with pytest.raises(ConfigurationError, match=r"keys\[0\]"):
        decode_trust(json.dumps(tree), "keys.json")
