"""Each way in which a token can be wrong has its own code and the same public sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gateway.errors import NotAuthenticated
from gateway.identity.keys import parse_key_set
from gateway.identity.tokens import (
    MAX_TOKEN_CHARACTERS,
    PUBLIC_SENTENCE,
    VerifiedClaims,
    bearer_token,
    check_claims,
    read_token,
    verify_signature,
)
from gateway.settings import IssuerSettings
from tests.fakes.tokens import (
    AUDIENCE,
    ISSUER,
    NOW,
    SigningKey,
    as_json,
    b64,
    claims,
    eddsa_key,
    es256_key,
    forge,
    hmac_signer,
    issuer_settings,
    key_set,
    rs256_key,
)

ED = eddsa_key()


MALFORMED = [
    "",
    "a.b",
    "a.b.c.d",
    "..",
    " " + forge(claims(), ED),
    forge(claims(), ED) + "\n",
    forge(claims(), ED).replace(".", "=.", 1),
    forge(claims(), ED).replace(".", "+.", 1),
    forge(claims(), ED) + "é",
    "e30A." + forge(claims(), ED).split(".", 1)[1],
    forge(b"[1]", ED),
    forge(b'{"iss":NaN}', ED),
    forge(b"\xff", ED),
    forge(b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", ED),
    forge(b"{}", ED, b"[]"),
]


def code_of(act: Callable[[], object]) -> str:
    """The code with which `act` is refused; the sentence must be the common one."""
    with pytest.raises(NotAuthenticated) as caught:
        act()
    assert caught.value.message == PUBLIC_SENTENCE
    assert (caught.value.param, caught.value.detail) == (None, None)
    return caught.value.code


def verify(token: str, key: SigningKey = ED, issuer: IssuerSettings | None = None) -> VerifiedClaims:
    """All three steps, with `key` published by the issuer."""
    issuer = issuer or issuer_settings()
    unverified = read_token(token)
    verify_signature(unverified, parse_key_set(key_set(key)).keys[key.key_id], issuer)
    return check_claims(unverified.claims, issuer, NOW, 30)


@pytest.mark.parametrize("make", [eddsa_key, es256_key, rs256_key])
def test_takes_a_good_token_of_each_algorithm(make: Callable[[], SigningKey]) -> None:
    key = make()
    verified = verify(forge(claims(azp="app-1"), key), key)
    assert verified == VerifiedClaims(
        ISSUER, "acme", "alice", "app-1", frozenset({"user"}), frozenset({"chat", "models"}), NOW + 600
    )
    assert "alice" not in repr(verified)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "bad-scheme"),
        ("Bearer", "bad-scheme"),
        ("Bearer ", "missing-token"),
        ("Basic dXNlcjpwYXNz", "bad-scheme"),
        ("Token abc", "bad-scheme"),
        (" Bearer abc", "bad-scheme"),
        ("Bearer\tabc", "bad-scheme"),
        ("Bearer " + "x" * (MAX_TOKEN_CHARACTERS + 1), "token-too-large"),
    ],
)
def test_refuses_other_schemes_and_empty_tokens(value: str, code: str) -> None:
    assert code_of(lambda: bearer_token(value)) == code


def test_takes_the_scheme_in_any_case_and_the_rest_as_it_is() -> None:
    assert bearer_token("bearer a.b.c") == "a.b.c"
    assert bearer_token("Bearer  a.b.c") == " a.b.c"


@pytest.mark.parametrize("token", MALFORMED, ids=range(len(MALFORMED)))
def test_refuses_what_is_not_three_canonical_segments_of_json(token: str) -> None:
    assert code_of(lambda: read_token(token)) == "malformed"


def test_refuses_a_second_spelling_of_the_same_signature() -> None:
    # The last character of a 64-byte signature carries unused bits; both spellings decode alike.
    token = forge(claims(), ED)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = token[:-1] + alphabet[alphabet.index(token[-1]) + 1]
    assert code_of(lambda: read_token(other)) == "malformed"


def test_refuses_a_token_over_its_bound() -> None:
    assert code_of(lambda: read_token("a." + "b" * MAX_TOKEN_CHARACTERS + ".c")) == "token-too-large"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 1, ["EdDSA"], {"a": 1}])
def test_refuses_no_algorithm_in_every_spelling(algorithm: object) -> None:
    header = {"alg": algorithm, "kid": "ed-1"}
    unsigned = f"{b64(as_json(header))}.{b64(as_json(claims()))}."
    assert code_of(lambda: read_token(unsigned)) == "bad-alg"
    assert code_of(lambda: read_token(forge(claims(), ED, header))) == "bad-alg"


@pytest.mark.parametrize(("algorithm", "code"), [("HS256", "bad-alg"), ("RS256", "bad-signature")])
def test_refuses_a_public_key_used_as_hmac_secret(algorithm: str, code: str) -> None:
    key = rs256_key()
    token = forge(claims(), key, {"alg": algorithm, "kid": key.key_id}, hmac_signer(key.public_pem))
    assert code_of(lambda: verify(token, key)) == code


@pytest.mark.parametrize("algorithm", ["ES384", "RS512", "PS256", "HS256", "ES256K", "eddsa", "Ed25519"])
def test_refuses_algorithms_that_are_not_on_the_list(algorithm: str) -> None:
    assert code_of(lambda: read_token(forge(claims(), ED, {"alg": algorithm, "kid": "ed-1"}))) == "bad-alg"


def test_refuses_an_algorithm_that_is_not_the_keys() -> None:
    token = forge(claims(), es256_key("ed-1"))
    assert code_of(lambda: verify(token, ED)) == "bad-alg"


def test_refuses_an_algorithm_that_the_issuer_does_not_allow() -> None:
    issuer = issuer_settings(algorithms=("ES256",))
    assert code_of(lambda: verify(forge(claims(), ED), ED, issuer)) == "bad-alg"


@pytest.mark.parametrize(
    "name", ["jku", "x5u", "jwk", "x5c", "x5t", "crit", "b64", "cty", "zip", "enc", "ALG"]
)
def test_refuses_a_header_field_that_is_not_alg_kid_typ(name: str) -> None:
    header = {"alg": "EdDSA", "kid": "ed-1", name: "https://evil.example/keys"}
    assert code_of(lambda: read_token(forge(claims(), ED, header))) == "header-not-allowed"


@pytest.mark.parametrize("kind", ["JWE", "secevent+jwt", 1, None])
def test_refuses_other_kinds_of_token(kind: object) -> None:
    header = {"alg": "EdDSA", "kid": "ed-1", "typ": kind}
    assert code_of(lambda: read_token(forge(claims(), ED, header))) == "bad-typ"


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_takes_access_tokens_by_either_name(kind: str) -> None:
    assert verify(forge(claims(), ED, {"alg": "EdDSA", "kid": "ed-1", "typ": kind})).subject == "alice"


@pytest.mark.parametrize(
    "key_id", ["../../x", "k' OR '1'='1", "https://evil.example/k", "x" * 129, "", None, 1, ["ed-1"]]
)
def test_refuses_a_key_id_that_is_none(key_id: object) -> None:
    header = {"alg": "EdDSA", "kid": key_id}
    assert code_of(lambda: read_token(forge(claims(), ED, header))) == "bad-kid"


def test_refuses_a_token_without_key_id() -> None:
    assert code_of(lambda: read_token(forge(claims(), ED, {"alg": "EdDSA"}))) == "bad-kid"


def test_refuses_a_huge_key_id() -> None:
    token = forge(claims(), ED, {"alg": "EdDSA", "kid": "k" * 10_240})
    assert code_of(lambda: read_token(token)) == "token-too-large"


@pytest.mark.parametrize(
    ("payload", "header"),
    [
        (as_json(claims())[:-1] + b',"sub":"mallory"}', None),
        (as_json(claims())[:-1] + b',"\\u0073ub":"mallory"}', None),
        (as_json(claims())[:-1] + b',"realm":{"a":1,"a":2}}', None),
        (as_json(claims()), b'{"alg":"EdDSA","alg":"none","kid":"ed-1"}'),
        (as_json(claims()), b'{"alg":"EdDSA","kid":"ed-1","kid":"ed-2"}'),
    ],
)
def test_refuses_a_claim_or_header_that_stands_twice(payload: bytes, header: bytes | None) -> None:
    assert code_of(lambda: read_token(forge(payload, ED, header))) == "duplicate-claim"


def test_refuses_a_signature_of_another_key_and_a_changed_payload() -> None:
    head, _, signature = forge(claims(), ED).split(".")
    changed = f"{head}.{b64(as_json(claims(tenant='bank')))}.{signature}"
    assert code_of(lambda: verify(changed)) == "bad-signature"
    assert code_of(lambda: verify(forge(claims(), ED, sign=eddsa_key("other").sign))) == "bad-signature"
    assert code_of(lambda: verify(forge(claims(), ED, sign=lambda _: b"short"))) == "bad-signature"


def test_judges_no_claim_before_the_signature_holds() -> None:
    stranger = forge(claims(exp=1), ED, sign=eddsa_key("other").sign)
    assert code_of(lambda: verify(stranger)) == "bad-signature"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"exp": NOW - 30}, "expired"),
        ({"exp": 0}, "expired"),
        ({"exp": None}, "missing-exp"),
        ({"exp": str(NOW + 600)}, "bad-exp"),
        ({"exp": float(NOW + 600)}, "bad-exp"),
        ({"exp": True}, "bad-exp"),
        ({"exp": -1}, "bad-exp"),
        ({"exp": 10**30}, "bad-exp"),
        ({"exp": [NOW + 600]}, "bad-exp"),
        ({"nbf": NOW + 31}, "not-yet-valid"),
        ({"nbf": "0"}, "bad-nbf"),
        ({"iat": NOW + 31}, "issued-in-future"),
        ({"iat": 1.5}, "bad-iat"),
        ({"aud": None}, "bad-audience"),
        ({"aud": "other"}, "bad-audience"),
        ({"aud": AUDIENCE.upper()}, "bad-audience"),
        ({"aud": AUDIENCE + " "}, "bad-audience"),
        ({"aud": []}, "bad-audience"),
        ({"aud": [AUDIENCE, 1]}, "bad-audience"),
        ({"aud": {"tidegate": 1}}, "bad-audience"),
        ({"iss": "https://issuer.example/bank"}, "bad-issuer"),
        ({"iss": ISSUER + "/"}, "bad-issuer"),
        ({"iss": [ISSUER]}, "bad-issuer"),
        ({"iss": None}, "bad-issuer"),
        ({"tenant": "clinic"}, "tenant-not-allowed"),
        ({"tenant": "ACME"}, "tenant-not-allowed"),
        ({"tenant": None}, "tenant-not-allowed"),
        ({"tenant": ["acme"]}, "tenant-not-allowed"),
        ({"sub": None}, "bad-subject"),
        ({"sub": ""}, "bad-subject"),
        ({"sub": 7}, "bad-subject"),
        ({"sub": "a\nb"}, "bad-subject"),
        ({"sub": "\ud800"}, "bad-subject"),
        ({"sub": "x" * 256}, "bad-subject"),
        ({"roles": "admin"}, "bad-roles"),
        ({"roles": [1]}, "bad-roles"),
        ({"roles": ["a b"]}, "bad-roles"),
        ({"roles": ["r"] * 129}, "bad-roles"),
        ({"roles": {"admin": True}}, "bad-roles"),
        ({"scope": 1}, "bad-scopes"),
        ({"scope": "a  b"}, "bad-scopes"),
        ({"scp": ["chat"]}, "bad-scopes"),
        ({"azp": ""}, "bad-client"),
        ({"azp": "a", "client_id": "b"}, "bad-client"),
        ({"azp": 1}, "bad-client"),
    ],
)
def test_refuses_each_wrong_claim_with_its_own_code(change: Mapping[str, Any], code: str) -> None:
    assert code_of(lambda: verify(forge(claims(**change), ED))) == code


def test_refuses_a_time_beyond_every_float() -> None:
    payload = as_json(claims()).replace(str(NOW + 600).encode(), b"1e400")
    assert code_of(lambda: verify(forge(payload, ED))) == "bad-exp"


@pytest.mark.parametrize(
    "change",
    [
        {"exp": NOW - 29},
        {"nbf": NOW + 30, "iat": NOW + 30},
        {"nbf": None, "iat": None},
        {"aud": ["other", AUDIENCE]},
        {"azp": "a", "client_id": "a"},
        {"sub": "Jörg Müller (Ωmega)"},
    ],
)
def test_takes_times_within_the_leeway_and_legal_shapes(change: Mapping[str, Any]) -> None:
    assert verify(forge(claims(**change), ED)).tenant == "acme"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"scope": ""}, set()),
        ({"scope": None}, set()),
        ({"scope": None, "scp": ["chat", "Files.Read"]}, {"chat", "Files.Read"}),
        ({"scope": None, "scp": "chat audit:read"}, {"chat", "audit:read"}),
    ],
)
def test_reads_scopes_in_the_usual_shapes(change: Mapping[str, Any], expected: set[str]) -> None:
    assert verify(forge(claims(**change), ED)).scopes == expected


def test_gives_no_roles_when_the_token_names_none() -> None:
    assert verify(forge(claims(roles=None), ED)).roles == frozenset()


def test_reads_tenant_and_roles_from_the_configured_claims() -> None:
    issuer = issuer_settings(tenant_claim="org", roles_claim="groups")
    token = forge(claims(tenant=None, roles=None, org="bank", groups=["ops"]), ED)
    verified = verify(token, ED, issuer)
    assert (verified.tenant, verified.roles) == ("bank", frozenset({"ops"}))


@pytest.mark.parametrize("change", [{}, {"azp": "app-2"}, {"client_id": "app-2"}])
def test_refuses_an_application_that_is_not_on_the_issuers_list(change: Mapping[str, Any]) -> None:
    issuer = issuer_settings(client_ids=("app-1",))
    assert code_of(lambda: verify(forge(claims(**change), ED), ED, issuer)) == "bad-client"
    assert verify(forge(claims(azp="app-1"), ED), ED, issuer).client_id == "app-1"


def test_shows_nothing_of_an_unverified_token() -> None:
    shown = repr(read_token(forge(claims(), ED)))
    assert "alice" not in shown
    assert forge(claims(), ED).split(".")[1] not in shown
