"""From the header to the principal, with and without the memory of verified tokens."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.principal import Principal
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError, KeySetUnavailable, NotAuthenticated
from gateway.identity.authenticator import Authenticator
from tests.fakes.tokens import (
    ISSUER,
    NOW,
    Clock,
    FakeKeySource,
    as_json,
    b64,
    claims,
    eddsa_key,
    forge,
    identity_settings,
    issuer_settings,
    key_set,
    request_with,
)

PEPPER = Secret("a pepper of the tests")


def make(source: FakeKeySource, clock: Clock | None = None, **options: Any) -> Authenticator:
    return Authenticator(identity_settings(), {ISSUER: source}, PEPPER, clock or Clock(), **options)


async def authenticate(authenticator: Authenticator, token: str) -> Principal:
    return await authenticator.authenticate(request_with(f"Bearer {token}"))


async def code_of(authenticator: Authenticator, authorization: str | None) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        await authenticator.authenticate(request_with(authorization))
    return caught.value.code


async def test_gives_the_principal_of_a_good_token() -> None:
    principal = await authenticate(make(FakeKeySource(key_set(eddsa_key()))), forge(claims(), eddsa_key()))
    assert (principal.tenant, principal.subject, principal.issuer, principal.key_id) == (
        "acme",
        "alice",
        ISSUER,
        "ed-1",
    )
    assert principal.roles == {"user"}
    assert principal.scopes == {"chat", "models"}
    assert principal.expires_at_seconds == NOW + 600


async def test_refuses_a_request_without_the_header() -> None:
    assert await code_of(make(FakeKeySource(key_set(eddsa_key()))), None) == "missing-token"


async def test_refuses_unknown_issuers_and_key_ids_without_saying_so_to_the_client() -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    authenticator = make(source)
    strange = forge(claims(iss="https://evil.example"), eddsa_key())
    assert await code_of(authenticator, f"Bearer {strange}") == "bad-issuer"
    assert source.find_count == 0
    unknown = forge(claims(), eddsa_key("ed-9"))
    assert await code_of(authenticator, f"Bearer {unknown}") == "unknown-kid"


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "kid": "ed-1"},
        {"alg": "EdDSA", "kid": "../../x"},
        {"alg": "EdDSA", "kid": "https://evil.example/k"},
        {"alg": "EdDSA", "kid": "k" * 5000},
        {"alg": "EdDSA", "kid": "ed-1", "jku": "https://evil.example/jwks"},
        {"alg": "EdDSA", "kid": "ed-1", "x5u": "https://evil.example/x.pem"},
        {"alg": "EdDSA", "kid": "ed-1", "jwk": {"kty": "OKP"}},
    ],
)
async def test_asks_no_key_source_for_a_token_with_a_bad_header(header: dict[str, object]) -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    await code_of(make(source), f"Bearer {forge(claims(), eddsa_key(), header)}")
    assert source.find_count == 0


async def test_verifies_the_same_token_once() -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    authenticator = make(source)
    token = forge(claims(), eddsa_key())
    first = await authenticate(authenticator, token)
    assert await authenticate(authenticator, token) is first
    assert source.find_count == 1


async def test_tells_tokens_with_the_same_beginning_apart() -> None:
    authenticator = make(FakeKeySource(key_set(eddsa_key())))
    alice, bob = forge(claims(), eddsa_key()), forge(claims(sub="bob", tenant="bank"), eddsa_key())
    assert alice[:60] == bob[:60]
    for _ in range(2):
        assert (await authenticate(authenticator, alice)).subject == "alice"
        assert (await authenticate(authenticator, bob)).subject == "bob"


async def test_refuses_a_remembered_token_with_another_signature() -> None:
    authenticator = make(FakeKeySource(key_set(eddsa_key())))
    token = forge(claims(), eddsa_key())
    await authenticate(authenticator, token)
    head, body, _ = token.split(".")
    assert await code_of(authenticator, f"Bearer {head}.{body}.{b64(bytes(64))}") == "bad-signature"


async def test_forgets_a_token_at_its_end() -> None:
    clock = Clock()
    authenticator = make(FakeKeySource(key_set(eddsa_key())), clock)
    token = forge(claims(), eddsa_key())
    await authenticate(authenticator, token)
    clock.advance(631)
    assert await code_of(authenticator, f"Bearer {token}") == "expired"


async def test_forgets_a_token_when_its_key_is_withdrawn() -> None:
    source = FakeKeySource(key_set(eddsa_key(), eddsa_key("ed-2")))
    authenticator = make(source)
    token = forge(claims(), eddsa_key())
    await authenticate(authenticator, token)
    source.publish(key_set(eddsa_key("ed-2")))
    assert await code_of(authenticator, f"Bearer {token}") == "unknown-kid"


async def test_refuses_a_remembered_token_when_no_key_set_may_be_used() -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    authenticator = make(source)
    token = forge(claims(), eddsa_key())
    await authenticate(authenticator, token)
    source.publish(None)
    with pytest.raises(KeySetUnavailable):
        await authenticate(authenticator, token)
    assert authenticator.unready_issuers == (ISSUER,)


async def test_verifies_again_after_a_changed_set_that_still_has_the_key() -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    authenticator = make(source)
    token = forge(claims(), eddsa_key())
    await authenticate(authenticator, token)
    source.publish(key_set(eddsa_key(), eddsa_key("ed-2")))
    await authenticate(authenticator, token)
    assert source.find_count == 2
    assert authenticator.unready_issuers == ()


async def test_remembers_at_most_its_bound_and_drops_the_oldest() -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    authenticator = make(source, max_remembered=2)
    tokens = [forge(claims(sub=f"user-{number}"), eddsa_key()) for number in range(3)]
    for token in tokens:
        await authenticate(authenticator, token)
    await authenticate(authenticator, tokens[2])
    assert source.find_count == 3
    await authenticate(authenticator, tokens[0])
    assert source.find_count == 4


async def test_gives_references_that_need_the_pepper_and_depend_on_the_tenant() -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    ours, theirs = (
        make(source),
        Authenticator(identity_settings(), {ISSUER: source}, Secret("other"), Clock()),
    )
    token, later = forge(claims(), eddsa_key()), forge(claims(exp=NOW + 601), eddsa_key())
    elsewhere = forge(claims(tenant="bank"), eddsa_key())
    mine, again, other = [await authenticate(ours, item) for item in (token, later, elsewhere)]
    assert mine.subject_ref == again.subject_ref
    assert mine.token_ref != again.token_ref
    assert mine.subject_ref != other.subject_ref
    assert (await authenticate(theirs, token)).subject_ref != mine.subject_ref
    assert {len(mine.subject_ref), len(mine.token_ref)} == {64}


async def test_tells_a_tenant_and_subject_apart_from_another_cut_of_the_same_letters() -> None:
    issuer = issuer_settings(tenants=("ac", "acme"))
    source = FakeKeySource(key_set(eddsa_key()))
    authenticator = Authenticator(identity_settings(issuer), {ISSUER: source}, PEPPER, Clock())
    one = await authenticate(authenticator, forge(claims(tenant="ac", sub="mebob"), eddsa_key()))
    two = await authenticate(authenticator, forge(claims(tenant="acme", sub="bob"), eddsa_key()))
    assert one.subject_ref != two.subject_ref


async def test_holds_each_issuer_to_its_own_keys_and_tenants() -> None:
    bank = issuer_settings(issuer="https://bank.example", tenants=("bank",))
    acme = issuer_settings(tenants=("acme",))
    sources = {
        ISSUER: FakeKeySource(key_set(eddsa_key("acme-1"))),
        bank.issuer: FakeKeySource(key_set(eddsa_key("bank-1"))),
    }
    authenticator = Authenticator(identity_settings(acme, bank), sources, PEPPER, Clock())
    stolen = forge(claims(tenant="bank"), eddsa_key("acme-1"))
    assert await code_of(authenticator, f"Bearer {stolen}") == "tenant-not-allowed"
    crossed = forge(claims(iss=bank.issuer, tenant="bank"), eddsa_key("acme-1"))
    assert await code_of(authenticator, f"Bearer {crossed}") == "unknown-kid"
    own = forge(claims(iss=bank.issuer, tenant="bank"), eddsa_key("bank-1"))
    assert (await authenticate(authenticator, own)).tenant == "bank"


async def test_closes_its_sources() -> None:
    source = FakeKeySource(key_set(eddsa_key()))
    authenticator = make(source)
    await authenticator.start()
    await authenticator.aclose()
    assert source.is_closed


@pytest.mark.parametrize("change", [{"audience": ""}, {"issuer": ""}, {"tenants": ()}, {"algorithms": ()}])
def test_refuses_an_issuer_that_would_accept_tokens_of_others(change: dict[str, Any]) -> None:
    issuer = issuer_settings(**change)
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        Authenticator(identity_settings(issuer), {issuer.issuer: FakeKeySource(None)}, PEPPER, Clock())


def test_refuses_settings_without_issuer_source_or_pepper_or_with_an_issuer_twice() -> None:
    source = {ISSUER: FakeKeySource(None)}
    twice = identity_settings(issuer_settings(), issuer_settings())
    for settings, sources, pepper in (
        (identity_settings(issuer_settings()), {}, PEPPER),
        (twice, source, PEPPER),
        (identity_settings(), source, Secret("")),
    ):
        with pytest.raises(ConfigurationError):
            Authenticator(settings, sources, pepper, Clock())


async def test_shows_no_token_in_its_refusal() -> None:
    token = f"{b64(as_json({'alg': 'EdDSA', 'kid': 'ed-1'}))}.{b64(b'hunter2-secret')}.{b64(b'x')}"
    with pytest.raises(NotAuthenticated) as caught:
        await authenticate(make(FakeKeySource(key_set(eddsa_key()))), token)
    shown = repr(caught.value) + str(caught.value) + repr(caught.value.__dict__)
    assert "hunter2" not in shown
    assert token not in shown
    assert caught.value.__cause__ is None
