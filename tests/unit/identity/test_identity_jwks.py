"""How key sets age, when they are fetched and when they may no longer be used. No socket: a pretended
transport answers; the clock moves by hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.errors import ConfigurationError, KeySetUnavailable
from gateway.identity.jwks import FileKeySource, UrlKeySource, key_source
from gateway.identity.keys import MAX_KEY_SET_BYTES
from gateway.settings import IdentitySettings
from tests.fakes.tokens import Clock, eddsa_key, identity_settings, issuer_settings, key_set

ONE = key_set(eddsa_key())
TWO = key_set(eddsa_key("ed-2"))
URL = "https://issuer.example/jwks"


class Issuer(httpx.AsyncBaseTransport):
    """Answers with `body`, or raises `fault`; waits for `gate` first."""

    def __init__(self, body: bytes = ONE) -> None:
        self.body = body
        self.status = 200
        self.headers: dict[str, str] = {}
        self.fault: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return httpx.Response(self.status, headers=self.headers, stream=httpx.ByteStream(self.body))


@pytest.fixture
async def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
async def source(issuer: Issuer, clock: Clock) -> AsyncIterator[UrlKeySource]:
    client = httpx.AsyncClient(transport=issuer, trust_env=False)
    source = UrlKeySource(
        URL,
        now=clock,
        refresh_seconds=100,
        cooldown_seconds=5,
        stale_grace_seconds=50,
        fetch_timeout_seconds=1,
        client=client,
    )
    yield source
    issuer.gate.set()
    await source.aclose()
    await client.aclose()


async def settle() -> None:
    """Let background tasks run to their end."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_has_no_set_before_the_first_fetch(source: UrlKeySource, issuer: Issuer) -> None:
    issuer.fault = httpx.ConnectError("refused")
    assert source.generation() is None
    with pytest.raises(KeySetUnavailable) as caught:
        await source.find("ed-1")
    assert caught.value.retry_after_seconds == 5


async def test_loads_on_start_and_finds_without_asking_again(source: UrlKeySource, issuer: Issuer) -> None:
    await source.start()
    key = await source.find("ed-1")
    assert key is not None
    assert key.key_id == "ed-1"
    assert source.generation() == 1
    assert [(request.method, str(request.url)) for request in issuer.requests] == [("GET", URL)]


async def test_asks_once_for_many_waiting_requests(source: UrlKeySource, issuer: Issuer) -> None:
    issuer.gate.clear()
    waiting = [asyncio.create_task(source.find("ed-1")) for _ in range(50)]
    await settle()
    issuer.gate.set()
    assert {key.key_id for key in await asyncio.gather(*waiting) if key} == {"ed-1"}
    assert len(issuer.requests) == 1


async def test_goes_on_fetching_when_the_request_that_waits_is_cancelled(
    source: UrlKeySource, issuer: Issuer
) -> None:
    issuer.gate.clear()
    leaving, staying = (asyncio.create_task(source.find("ed-1")) for _ in range(2))
    await settle()
    leaving.cancel()
    await settle()
    issuer.gate.set()
    assert await staying is not None
    assert leaving.cancelled()


async def test_asks_at_most_once_per_cooldown_for_unknown_ids(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    await source.start()
    for number in range(10_000):
        assert await source.find(f"random-{number}") is None
    assert len(issuer.requests) == 1
    clock.advance(5)
    for number in range(1000):
        assert await source.find(f"random-{number}") is None
        assert await source.find("ed-1") is not None
    assert len(issuer.requests) == 2


async def test_finds_a_new_key_at_the_end_of_the_cooldown(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    await source.start()
    issuer.body = key_set(eddsa_key(), eddsa_key("ed-2"))
    assert await source.find("ed-2") is None
    clock.advance(5)
    assert await source.find("ed-2") is not None
    assert source.generation() == 2


async def test_refreshes_ahead_in_the_background_and_keeps_the_number_of_an_equal_set(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    await source.start()
    clock.advance(81)
    issuer.gate.clear()
    assert await source.find("ed-1") is not None
    assert source.generation() == 1
    await settle()
    issuer.gate.set()
    await settle()
    assert len(issuer.requests) == 2
    assert source.generation() == 1


async def test_drops_a_withdrawn_key_with_the_next_refresh(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    await source.start()
    issuer.body = TWO
    clock.advance(81)
    source.generation()
    await settle()
    assert source.generation() == 2
    assert await source.find("ed-1") is None


async def test_asks_before_it_uses_a_set_that_is_due(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    await source.start()
    issuer.body = TWO
    clock.advance(101)
    assert source.generation() is None
    assert await source.find("ed-1") is None


async def test_uses_known_keys_inside_the_grace_of_an_outage_and_not_after(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    await source.start()
    issuer.fault = httpx.ConnectError("refused")
    clock.advance(101)
    assert await source.find("ed-1") is not None
    assert source.generation() == 1
    clock.advance(49)
    assert await source.find("ed-1") is not None
    clock.advance(1)
    with pytest.raises(KeySetUnavailable):
        await source.find("ed-1")
    assert source.generation() is None


async def test_does_not_say_unknown_while_the_issuer_cannot_be_asked(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    await source.start()
    issuer.fault = httpx.ConnectError("refused")
    clock.advance(6)
    with pytest.raises(KeySetUnavailable):
        await source.find("ed-2")
    assert await source.find("ed-1") is not None


async def test_comes_back_after_an_outage(source: UrlKeySource, issuer: Issuer, clock: Clock) -> None:
    issuer.fault = httpx.ConnectError("refused")
    await source.start()
    issuer.fault = None
    clock.advance(5)
    assert await source.find("ed-1") is not None
    assert source.generation() == 1


async def test_asks_a_dead_issuer_once_per_cooldown(
    source: UrlKeySource, issuer: Issuer, clock: Clock
) -> None:
    issuer.fault = httpx.ReadTimeout("slow")
    await source.start()
    for _ in range(100):
        with pytest.raises(KeySetUnavailable):
            await source.find("ed-1")
    assert len(issuer.requests) == 1
    clock.advance(5)
    with pytest.raises(KeySetUnavailable):
        await source.find("ed-1")
    assert len(issuer.requests) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"status": 302, "headers": {"location": "http://169.254.169.254/"}},
        {"status": 404},
        {"status": 500},
        {"status": 204},
        {"body": b"<html>"},
        {"body": b'{"keys":[]}'},
        {"body": ONE + b" " * MAX_KEY_SET_BYTES},
        {"headers": {"content-encoding": "gzip"}},
        {"fault": RuntimeError("anything")},
    ],
    ids=range(9),
)
async def test_keeps_the_last_good_set_when_the_answer_is_none(
    source: UrlKeySource, issuer: Issuer, clock: Clock, change: dict[str, Any]
) -> None:
    await source.start()
    for name, value in change.items():
        setattr(issuer, name, value)
    clock.advance(101)
    assert await source.find("ed-1") is not None
    assert len(issuer.requests) == 2
    assert {request.url.host for request in issuer.requests} == {"issuer.example"}
    clock.advance(100)
    with pytest.raises(KeySetUnavailable):
        await source.find("ed-1")


async def test_cancels_a_running_fetch_when_closed(source: UrlKeySource, issuer: Issuer) -> None:
    issuer.gate.clear()
    waiting = asyncio.create_task(source.find("ed-1"))
    await settle()
    await source.aclose()
    await source.aclose()
    with pytest.raises(KeySetUnavailable):
        await waiting
    assert [task for task in asyncio.all_tasks() if task.get_name() == "key-set-fetch"] == []


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/jwks",
        "http://169.254.169.254/jwks",
        "http://127.0.0.1.evil.example/jwks",
        "ftp://issuer.example/jwks",
        "https://user:word@issuer.example/jwks",
        "https://issuer.example/jwks#x",
        "https:///jwks",
        "jwks.json",
        "file:",
        "",
    ],
)
def test_refuses_an_address_on_which_keys_could_be_swapped(url: str, clock: Clock) -> None:
    with pytest.raises(ConfigurationError):
        key_source(issuer_settings(keys=url), identity_settings(), clock)


@pytest.mark.parametrize(
    "url",
    ["https://issuer.example/jwks", "http://127.0.0.1:8081/jwks", "http://[::1]/jwks", "http://localhost/j"],
)
async def test_takes_https_and_plain_loopback(url: str, clock: Clock) -> None:
    source = key_source(issuer_settings(keys=url), identity_settings(), clock)
    assert isinstance(source, UrlKeySource)
    await source.aclose()


class TestFile:
    """The same laws for a file."""

    def write(self, path: Path, content: bytes, second: int) -> None:
        path.write_bytes(content)
        os.utime(path, (second, second))

    async def test_reads_the_file_that_the_settings_name(self, tmp_path: Path, clock: Clock) -> None:
        path = tmp_path / "jwks.json"
        self.write(path, ONE, 1)
        settings = IdentitySettings((issuer_settings(keys=f"file:{path}"),), stale_grace_seconds=50)
        source = key_source(settings.issuers[0], settings, clock)
        await source.start()
        assert isinstance(source, FileKeySource)
        assert await source.find("ed-1") is not None
        assert await source.find("ed-2") is None

    async def test_takes_a_changed_file_within_a_second(self, tmp_path: Path, clock: Clock) -> None:
        path = tmp_path / "jwks.json"
        self.write(path, ONE, 1)
        source = FileKeySource(path, now=clock)
        await source.start()
        self.write(path, TWO, 2)
        assert source.generation() == 1
        clock.advance(1)
        assert source.generation() == 2
        assert await source.find("ed-1") is None
        assert await source.find("ed-2") is not None

    async def test_keeps_the_number_when_only_the_time_changed(self, tmp_path: Path, clock: Clock) -> None:
        path = tmp_path / "jwks.json"
        self.write(path, ONE, 1)
        source = FileKeySource(path, now=clock)
        self.write(path, ONE, 2)
        clock.advance(1)
        assert source.generation() == 1
        self.write(path, ONE, 3)
        clock.advance(1)
        assert source.generation() == 1

    @pytest.mark.parametrize("content", [b"", b'{"keys":[', None])
    async def test_keeps_the_last_good_set_of_a_broken_file_for_the_grace(
        self, tmp_path: Path, clock: Clock, content: bytes | None
    ) -> None:
        path = tmp_path / "jwks.json"
        self.write(path, ONE, 1)
        source = FileKeySource(path, now=clock, stale_grace_seconds=50)
        await source.start()
        path.unlink() if content is None else self.write(path, content, 2)
        clock.advance(50)
        assert await source.find("ed-1") is not None
        clock.advance(1)
        assert source.generation() is None
        with pytest.raises(KeySetUnavailable):
            await source.find("ed-1")
        self.write(path, TWO, 3)
        clock.advance(1)
        assert await source.find("ed-2") is not None
        await source.aclose()

    async def test_stays_good_while_an_unchanged_file_is_there(self, tmp_path: Path, clock: Clock) -> None:
        path = tmp_path / "jwks.json"
        self.write(path, ONE, 1)
        source = FileKeySource(path, now=clock, stale_grace_seconds=50)
        await source.start()
        clock.advance(100_000)
        assert await source.find("ed-1") is not None

    @pytest.mark.parametrize("content", [None, b"{}"])
    async def test_names_the_file_that_it_cannot_start_with(
        self, tmp_path: Path, clock: Clock, content: bytes | None
    ) -> None:
        path = tmp_path / "jwks.json"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=r"jwks\.json"):
            await FileKeySource(path, now=clock).start()
