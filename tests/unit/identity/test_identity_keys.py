"""Which keys of a JWK set are used, which are left out, which sets are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.identity.keys import MAX_KEY_SET_BYTES, InvalidKeySet, is_key_id, parse_key_set
from tests.fakes.tokens import as_json, eddsa_key, es256_key, key_set, rs256_key


def test_reads_one_key_of_each_kind_with_its_only_algorithm() -> None:
    keys = parse_key_set(key_set(eddsa_key(), es256_key(), rs256_key())).keys
    assert {key.key_id: key.algorithm for key in keys.values()} == {
        "ed-1": "EdDSA",
        "ec-1": "ES256",
        "rsa-1": "RS256",
    }


def test_does_not_show_the_key_itself() -> None:
    assert "public_key" not in repr(parse_key_set(key_set(eddsa_key())).keys["ed-1"])


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"use": 1},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"alg": "ES256"},
        {"alg": "HS256"},
        {"kid": "../../x"},
        {"kid": 7},
        {"kid": ""},
        {"crv": "Ed448"},
        {"crv": ["Ed25519"]},
        {"kty": ["OKP"]},
        {"kty": "EC"},
        {"x": "short"},
        {"x": 5},
    ],
)
def test_leaves_out_and_counts_a_key_of_another_kind(change: dict[str, Any]) -> None:
    odd = {**eddsa_key("odd").jwk, **change}
    keys = parse_key_set(as_json({"keys": [dict(eddsa_key().jwk), odd]}))
    assert list(keys.keys) == ["ed-1"]
    assert keys.skipped_count == 1


def test_leaves_out_weak_rsa_and_other_curves() -> None:
    keys = parse_key_set(key_set(eddsa_key(), rs256_key("weak", 1024), es256_key("p384", "P-384")))
    assert list(keys.keys) == ["ed-1"]
    assert keys.skipped_count == 2


def test_leaves_out_a_key_without_id() -> None:
    nameless = {name: value for name, value in eddsa_key("x").jwk.items() if name != "kid"}
    assert parse_key_set(as_json({"keys": [nameless, dict(eddsa_key().jwk)]})).skipped_count == 1


@pytest.mark.parametrize(
    "odd",
    [{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}, {"kty": "OKP", "crv": "Ed25519", "kid": "p", "d": "AA"}],
)
def test_refuses_a_set_that_shows_secret_material(odd: dict[str, str]) -> None:
    with pytest.raises(InvalidKeySet, match="private or symmetric"):
        parse_key_set(as_json({"keys": [dict(eddsa_key().jwk), odd]}))


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b'{"keys":["x"]}',
        b'{"keys":[],"keys":[]}',
        json.dumps({"keys": [{}] * 129}).encode(),
        b" " * (MAX_KEY_SET_BYTES + 1),
    ],
)
def test_refuses_a_document_that_is_no_usable_set(document: bytes) -> None:
    with pytest.raises(InvalidKeySet):
        parse_key_set(document)


def test_refuses_two_keys_with_one_id() -> None:
    twin = {**es256_key("ed-1").jwk}
    with pytest.raises(InvalidKeySet, match="same `kid`"):
        parse_key_set(as_json({"keys": [dict(eddsa_key().jwk), twin]}))


@pytest.mark.parametrize("text", ["a", "2026-11_k.1~x", "hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG+x/Y=", "x" * 128])
def test_takes_ordinary_key_ids(text: str) -> None:
    assert is_key_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "../../x",
        "/etc/x.pem",
        "https://evil.example/k",
        "k' OR 1=1 --",
        "a b",
        "a\n",
        "ä",
        "x" * 129,
        1,
        None,
    ],
)
def test_refuses_paths_addresses_and_queries_as_key_ids(text: object) -> None:
    assert not is_key_id(text)
