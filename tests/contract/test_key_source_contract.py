"""What every source of key sets must do, run against each one, the fake included."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.errors import KeySetUnavailable
from gateway.identity.jwks import FileKeySource, UrlKeySource
from gateway.identity.keys import KeySource
from tests.fakes.key_server import KeyServer
from tests.fakes.tokens import Clock, FakeKeySource, eddsa_key, key_set

pytestmark = pytest.mark.integration

GRACE_SECONDS = 60
REFRESH_SECONDS = 10


@dataclass
class Case:
    """A source, its clock, and how to publish a document (None: an outage)."""

    source: KeySource
    clock: Clock
    publish: Callable[[bytes | None], Awaitable[None]]

    async def after_refresh(self, document: bytes | None) -> None:
        """Publish, and let so much time pass that the source must have noticed."""
        await self.publish(document)
        self.clock.advance(REFRESH_SECONDS + 1)


@contextlib.asynccontextmanager
async def fake_case(folder: Path) -> AsyncIterator[Case]:
    source = FakeKeySource(key_set(eddsa_key()))

    async def publish(document: bytes | None) -> None:
        source.publish(document)

    yield Case(source, Clock(), publish)


@contextlib.asynccontextmanager
async def file_case(folder: Path) -> AsyncIterator[Case]:
    path, clock, second = folder / "jwks.json", Clock(), 1

    async def publish(document: bytes | None) -> None:
        nonlocal second
        second += 1
        if document is None:
            path.unlink()
        else:
            path.write_bytes(document)
            os.utime(path, (second, second))

    await publish(key_set(eddsa_key()))
    yield Case(FileKeySource(path, now=clock, stale_grace_seconds=GRACE_SECONDS), clock, publish)


@contextlib.asynccontextmanager
async def url_case(folder: Path) -> AsyncIterator[Case]:
    clock = Clock()
    async with KeyServer(key_set(eddsa_key())) as server:
        source = UrlKeySource(
            server.url,
            now=clock,
            refresh_seconds=REFRESH_SECONDS,
            cooldown_seconds=1,
            stale_grace_seconds=GRACE_SECONDS,
            fetch_timeout_seconds=2,
        )

        async def publish(document: bytes | None) -> None:
            server.status = 503 if document is None else 200
            server.body = document or b""

        yield Case(source, clock, publish)
        await source.aclose()


@pytest.fixture(params=[fake_case, file_case, url_case], ids=["fake", "file", "url"])
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    async with request.param(tmp_path) as case:
        await case.source.start()
        yield case


async def test_has_a_set_in_force_after_the_start(case: Case) -> None:
    generation = case.source.generation()
    assert isinstance(generation, int)
    assert case.source.generation() == generation


async def test_finds_a_published_key_and_no_other(case: Case) -> None:
    key = await case.source.find("ed-1")
    assert key is not None
    assert (key.key_id, key.algorithm) == ("ed-1", "EdDSA")
    assert await case.source.find("ed-2") is None


async def test_follows_a_rotation_and_raises_the_generation(case: Case) -> None:
    before = case.source.generation()
    assert before is not None
    await case.after_refresh(key_set(eddsa_key("ed-2")))
    assert await case.source.find("ed-2") is not None
    assert await case.source.find("ed-1") is None
    after = case.source.generation()
    assert after is not None
    assert after > before


async def test_is_unavailable_in_an_outage_longer_than_every_grace(case: Case) -> None:
    await case.after_refresh(None)
    case.clock.advance(GRACE_SECONDS + REFRESH_SECONDS)
    assert case.source.generation() is None
    with pytest.raises(KeySetUnavailable):
        await case.source.find("ed-1")


async def test_comes_back_after_an_outage(case: Case) -> None:
    await case.after_refresh(None)
    case.clock.advance(GRACE_SECONDS + REFRESH_SECONDS)
    with pytest.raises(KeySetUnavailable):
        await case.source.find("ed-1")
    await case.after_refresh(key_set(eddsa_key()))
    assert await case.source.find("ed-1") is not None
    assert case.source.generation() is not None


async def test_may_be_closed_twice(case: Case) -> None:
    await case.source.aclose()
    await case.source.aclose()
