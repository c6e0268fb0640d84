"""Laws of token reading that hold for any input."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.secret import Secret
from gateway.errors import NotAuthenticated
from gateway.identity.authenticator import Authenticator
from gateway.identity.keys import InvalidKeySet, is_key_id, parse_key_set
from gateway.identity.strict_json import NotStrict, parse_object
from gateway.identity.tokens import PUBLIC_SENTENCE, check_claims, read_token
from tests.fakes.tokens import (
    ISSUER,
    NOW,
    Clock,
    FakeKeySource,
    claims,
    eddsa_key,
    forge,
    identity_settings,
    issuer_settings,
    key_set,
    request_with,
)

GOOD = forge(claims(), eddsa_key())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


def public_code(refusal: NotAuthenticated) -> str:
    """Its code; its sentence must be the common one."""
    assert refusal.message == PUBLIC_SENTENCE
    return refusal.code


def authenticate(authorization: str) -> str:
    """`ok`, or the code of the refusal."""
    authenticator = Authenticator(
        identity_settings(), {ISSUER: FakeKeySource(key_set(eddsa_key()))}, Secret("pepper"), Clock()
    )
    try:
        asyncio.run(authenticator.authenticate(request_with(authorization)))
    except NotAuthenticated as refusal:
        return public_code(refusal)
    return "ok"


@given(st.text())
def test_any_text_as_a_header_is_refused_and_nothing_else_comes_out(text: str) -> None:
    assert authenticate(text) != "ok"
    assert authenticate("Bearer " + text) != "ok"


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
def test_a_token_with_any_one_character_changed_is_refused(place: int, character: str) -> None:
    changed = GOOD[:place] + character + GOOD[place + 1 :]
    assert (authenticate("Bearer " + changed) == "ok") == (changed == GOOD)


@given(st.integers(0, len(GOOD)), st.text(min_size=1, max_size=3))
def test_a_token_with_anything_inserted_is_refused(place: int, text: str) -> None:
    assert authenticate("Bearer " + GOOD[:place] + text + GOOD[place:]) != "ok"


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "jku", "x"]), JSON, max_size=5))
def test_any_signed_header_is_read_or_refused(header: dict[str, object]) -> None:
    try:
        token = read_token(forge(claims(), eddsa_key(), header))
    except NotAuthenticated as refusal:
        public_code(refusal)
    else:
        assert header.keys() <= {"alg", "kid", "typ"}
        assert is_key_id(token.key_id)


@given(st.dictionaries(st.sampled_from([*claims(), "azp", "client_id", "scp"]), JSON, max_size=5))
def test_any_claims_give_allowed_values_or_a_refusal(changes: dict[str, object]) -> None:
    try:
        verified = check_claims(claims() | changes, issuer_settings(), NOW, 30)
    except NotAuthenticated as refusal:
        public_code(refusal)
    else:
        assert verified.tenant in issuer_settings().tenants
        assert verified.expires_at_seconds > NOW - 30
        verified.subject.encode("utf-8")


@given(st.binary(max_size=400) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_key_set_or_refused(document: bytes) -> None:
    with pytest.raises(InvalidKeySet):
        parse_key_set(document)


@given(st.dictionaries(st.sampled_from([*eddsa_key().jwk, "alg", "use", "key_ops", "n", "e", "y"]), JSON))
def test_any_member_of_a_key_is_used_left_out_or_refused(changes: dict[str, object]) -> None:
    odd = {**eddsa_key("odd").jwk, **changes}
    document = json.dumps({"keys": [dict(eddsa_key().jwk), odd]}).encode()
    try:
        keys = parse_key_set(document)
    except InvalidKeySet:
        return
    assert "ed-1" in keys.keys
    assert len(keys.keys) + keys.skipped_count == 2


@settings(max_examples=200)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), st.text(max_size=8), JSON)
def test_an_object_is_refused_exactly_when_a_key_stands_twice(
    value: dict[str, object], key: str, extra: object
) -> None:
    text = json.dumps(value, allow_nan=True)
    comma = "," if value else ""
    document = f"{text[:-1]}{comma}{json.dumps(key)}:{json.dumps(extra)}}}"
    try:
        parsed = parse_object(document.encode())
    except NotStrict:
        assert key in value or "NaN" in document or "Infinity" in document
    else:
        assert key not in value
        assert parsed == value | {key: extra}
