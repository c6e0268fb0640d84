"""Development tokens verify like any other, and only plain Ed25519 keys sign them."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from gateway.errors import ConfigurationError
from gateway.identity.keys import parse_key_set
from gateway.identity.minting import Grant, mint_token, new_key
from gateway.identity.tokens import check_claims, read_token, verify_signature
from tests.fakes.tokens import AUDIENCE, ISSUER, NOW, issuer_settings

GRANT = Grant(ISSUER, AUDIENCE, "acme", "alice", NOW, 60, ("user", "auditor"), ("chat",), "app-1")


def test_mints_a_token_that_its_key_set_verifies() -> None:
    pair = new_key()
    token = read_token(mint_token(pair.private_pem, GRANT))
    verify_signature(token, parse_key_set(pair.key_set).keys[pair.key_id], issuer_settings())
    claims = check_claims(token.claims, issuer_settings(), NOW, 0)
    assert (claims.tenant, claims.subject, claims.client_id) == ("acme", "alice", "app-1")
    assert claims.roles == {"user", "auditor"}
    assert claims.scopes == {"chat"}
    assert claims.expires_at_seconds == NOW + 60


def test_makes_another_key_each_time_and_shows_only_its_id() -> None:
    one, two = new_key(), new_key()
    assert one.key_id != two.key_id
    assert "PRIVATE" not in repr(one)
    assert set(json.loads(one.key_set)["keys"][0]) == {"alg", "crv", "kid", "kty", "use", "x"}


def test_refuses_other_keys_than_a_plain_ed25519_one() -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    edwards = ed25519.Ed25519PrivateKey.generate()
    locked = edwards.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
    for pem in (curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), locked, b"", b"junk"):
        with pytest.raises(ConfigurationError, match="Ed25519"):
            mint_token(pem, GRANT)


def test_refuses_a_token_that_ends_before_it_begins() -> None:
    with pytest.raises(ConfigurationError, match="ttl"):
        mint_token(new_key().private_pem, Grant(ISSUER, AUDIENCE, "acme", "alice", NOW, 0))
