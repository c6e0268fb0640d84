"""Key sets over real loopback HTTP: rotation, floods of unknown ids, outages, bad answers."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.domain.secret import Secret
from gateway.errors import KeySetUnavailable, NotAuthenticated
from gateway.identity.authenticator import Authenticator
from gateway.identity.jwks import UrlKeySource, key_source
from gateway.settings import IdentitySettings
from tests.fakes.key_server import KeyServer
from tests.fakes.tokens import (
    ISSUER,
    NOW,
    Clock,
    SigningKey,
    claims,
    eddsa_key,
    es256_key,
    forge,
    issuer_settings,
    key_set,
    request_with,
    rs256_key,
)

pytestmark = pytest.mark.integration

OLD, NEW = eddsa_key("old"), eddsa_key("new")


class Bench:
    """An authenticator whose keys come from `server`; both clocks move by hand."""

    def __init__(self, server: KeyServer, **times: int) -> None:
        issuer = issuer_settings(keys=server.url)
        bounds: dict[str, Any] = {"fetch_timeout_seconds": 1, **times}
        settings = IdentitySettings((issuer,), **bounds)
        self.server = server
        self.monotonic = Clock(1000.0)
        self.source = key_source(issuer, settings, self.monotonic)
        self.authenticator = Authenticator(settings, {ISSUER: self.source}, Secret("pepper"), Clock(NOW))

    async def ask(self, key: SigningKey = OLD, **changes: object) -> str:
        """`ok`, or the code of the refusal, for a token of `key`."""
        return await self.send(forge(claims(**changes), key))

    async def send(self, token: str) -> str:
        try:
            await self.authenticator.authenticate(request_with(f"Bearer {token}"))
        except (NotAuthenticated, KeySetUnavailable) as refusal:
            return refusal.code
        return "ok"


@pytest.fixture
async def server() -> AsyncIterator[KeyServer]:
    async with KeyServer(key_set(OLD)) as server:
        yield server


@pytest.fixture
async def bench(server: KeyServer) -> AsyncIterator[Bench]:
    bench = Bench(server)
    await bench.authenticator.start()
    yield bench
    await bench.authenticator.aclose()


async def test_takes_tokens_of_every_algorithm(bench: Bench) -> None:
    keys = (OLD, es256_key(), rs256_key())
    bench.server.body = key_set(*keys)
    bench.monotonic.advance(5)
    assert [await bench.ask(key) for key in keys] == ["ok"] * 3
    assert bench.server.requests == ["GET /jwks HTTP/1.1"] * 2


async def test_accepts_a_new_key_within_five_seconds_of_its_publication(bench: Bench) -> None:
    bench.monotonic.advance(4)
    assert await bench.ask(NEW) == "unknown-kid"
    assert len(bench.server.requests) == 2
    bench.server.body = key_set(OLD, NEW)
    published = bench.monotonic.seconds
    while await bench.ask(NEW) != "ok":
        bench.monotonic.advance(0.1)
    assert bench.monotonic.seconds - published <= 5
    assert await bench.ask(OLD) == "ok"


async def test_accepts_a_new_key_within_five_seconds_on_a_real_clock(server: KeyServer) -> None:
    source = UrlKeySource(server.url, now=time.monotonic)
    await source.start()
    server.body = key_set(NEW)
    published = time.monotonic()
    while await source.find("new") is None:
        await asyncio.sleep(0.05)
    assert time.monotonic() - published <= 5
    assert await source.find("old") is None
    await source.aclose()


async def test_asks_once_per_cooldown_under_a_flood_of_unknown_ids(bench: Bench) -> None:
    head = {"alg": "EdDSA", "typ": "JWT"}
    tokens = [forge(claims(), OLD, head | {"kid": secrets.token_hex(16)}) for _ in range(10_000)]
    assert await bench.ask() == "ok"
    bench.monotonic.advance(5)
    for start in range(0, len(tokens), 500):
        answers = await asyncio.gather(*(bench.send(token) for token in tokens[start : start + 500]))
        assert set(answers) == {"unknown-kid"}
        assert await bench.ask(sub=f"user-{start}") == "ok"
    assert len(bench.server.requests) == 2


async def test_serves_known_keys_while_a_flood_waits_for_a_slow_issuer(bench: Bench) -> None:
    bench.server.delay_seconds = 0.5
    bench.monotonic.advance(5)
    flood = [asyncio.create_task(bench.ask(eddsa_key(f"x-{number}"))) for number in range(20)]
    await asyncio.sleep(0.05)
    started = time.perf_counter()
    assert await bench.ask() == "ok"
    assert time.perf_counter() - started < 0.25
    assert set(await asyncio.gather(*flood)) == {"unknown-kid"}
    assert len(bench.server.requests) == 2


async def test_bridges_an_outage_for_the_grace_and_never_skips_verification(bench: Bench) -> None:
    forged = forge(claims(), OLD, sign=NEW.sign)
    assert await bench.ask() == "ok"
    await bench.server.stop()
    bench.monotonic.advance(301)
    assert await bench.ask() == "ok"
    assert await bench.send(forged) == "bad-signature"
    assert await bench.ask(NEW) == "key-set-unavailable"
    bench.monotonic.advance(3600)
    assert await bench.ask() == "key-set-unavailable"
    assert await bench.send(forged) == "key-set-unavailable"
    assert bench.authenticator.unready_issuers == (ISSUER,)
    await bench.server.start()
    bench.monotonic.advance(5)
    assert await bench.ask() == "ok"
    assert not bench.authenticator.unready_issuers


async def test_is_unavailable_until_an_issuer_that_was_down_at_the_start_comes(server: KeyServer) -> None:
    await server.stop()
    bench = Bench(server)
    await bench.authenticator.start()
    assert await bench.ask() == "key-set-unavailable"
    await server.start()
    bench.monotonic.advance(5)
    assert await bench.ask() == "ok"
    await bench.authenticator.aclose()


async def test_forgets_a_verified_token_when_its_key_is_withdrawn(bench: Bench) -> None:
    assert await bench.ask() == "ok"
    bench.server.body = key_set(NEW)
    bench.monotonic.advance(301)
    assert await bench.ask() == "unknown-kid"


@pytest.mark.parametrize(
    "header",
    [
        {"kid": "../../x"},
        {"kid": "k' OR 1=1 --"},
        {"kid": "http://127.0.0.1:9/k"},
        {"kid": "k" * 10_240},
        {"kid": "fresh", "jku": "URL"},
        {"kid": "fresh", "x5u": "URL"},
        {"kid": "fresh", "jwk": dict(NEW.jwk)},
        {"kid": "fresh", "x5c": ["URL"]},
        {"kid": "fresh", "crit": ["exp"]},
    ],
    ids=range(9),
)
async def test_fetches_nothing_for_a_token_with_a_bad_header(bench: Bench, header: dict[str, object]) -> None:
    bench.monotonic.advance(5)
    header = {name: bench.server.url if value == "URL" else value for name, value in header.items()}
    answer = await bench.send(forge(claims(), NEW, {"alg": "EdDSA", **header}))
    assert answer in ("bad-kid", "header-not-allowed", "token-too-large")
    assert len(bench.server.requests) == 1


async def test_does_not_follow_a_redirect(bench: Bench) -> None:
    async with KeyServer(key_set(OLD, NEW)) as elsewhere:
        bench.server.status = 302
        bench.server.headers = {"location": elsewhere.url}
        bench.monotonic.advance(5)
        assert await bench.ask(NEW) == "key-set-unavailable"
        assert elsewhere.requests == []
        assert await bench.ask() == "ok"


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"keys":[]}', key_set(NEW) + b" " * 300_000], ids=range(4)
)
async def test_keeps_the_last_good_set_when_the_answer_is_none(bench: Bench, body: bytes) -> None:
    bench.server.body = body
    bench.monotonic.advance(301)
    assert await bench.ask() == "ok"
    assert await bench.ask(NEW) == "key-set-unavailable"


async def test_gives_up_on_a_server_that_does_not_answer(bench: Bench) -> None:
    bench.server.delay_seconds = 30
    bench.monotonic.advance(301)
    started = time.perf_counter()
    assert await bench.ask() == "ok"
    assert time.perf_counter() - started < 3
