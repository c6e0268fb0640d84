"""The connection pool against a fault-injecting upstream over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.dialects.openai_body import encode_body
from gateway.domain.admitted import Admitted
from gateway.domain.decision import Destination
from gateway.domain.label import Label, Level
from gateway.domain.outgoing import Outgoing
from gateway.domain.secret import Secret
from gateway.errors import (
    ConfigurationError,
    Refusal,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.pipeline.admit import admit
from gateway.upstream.answer import plain_id
from gateway.upstream.connector import Transport
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.pool import ConnectionPool
from gateway.upstream.server import Endpoint
from tests.fakes.fault_standin import read_log
from tests.fakes.rooms import Rooms, raw_request
from tests.fakes.stack import Child, free_port, start_child

pytestmark = pytest.mark.integration

KEY = Secret("the-key")
DEADLINES = Deadlines(connect_seconds=1, first_byte_seconds=1, idle_seconds=1, total_seconds=2.5)


class Faults:
    """A fault stand-in with its control file and log."""

    def __init__(self, directory: Path) -> None:
        self.control = directory / "control.json"
        self.log = directory / "log.jsonl"
        self.child: Child = start_child(
            [
                "tests.fakes.fault_standin",
                "--port=0",
                f"--log={self.log}",
                f"--control={self.control}",
                f"--record={directory / 'record'}",
            ]
        )

    def mode(self, mode: str, **more: object) -> None:
        self.control.write_text(json.dumps({"mode": mode, **more}))

    def request_count(self) -> int:
        return sum(entry["event"] == "request" for entry in read_log(self.log))


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Faults]:
    standin = Faults(tmp_path)
    try:
        yield standin
    finally:
        standin.child.stop()


async def admitted(stream: bool = True, level: Level = Level.INTERNAL) -> Admitted:
    rooms = Rooms(level=level)
    body = json.dumps(
        {"model": "assistant", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    ).encode()
    return await admit(rooms.walk(), rooms.snapshot(), raw_request(body))


@asynccontextmanager
async def pool_for(
    *urls: str,
    way: Transport | None = None,
    credential: Callable[[float], Secret] | None = lambda now: KEY,
    has_affinity: bool = True,
    deadlines: Deadlines = DEADLINES,
    hedge_after_seconds: float = 0.0,
    on_fault: Callable[[ConfigurationError], None] = lambda error: None,
) -> AsyncIterator[ConnectionPool]:
    weighted = tuple((url, 1) for url in urls)
    endpoint = Endpoint(
        weighted, credential, deadlines, way or Transport(), has_affinity, hedge_after_seconds, on_fault
    )
    endpoints = {"hosted-openai": endpoint, "private-moe": endpoint}

    def encode(request: Admitted, place: Destination) -> Outgoing:
        return Outgoing("/chat/completions", encode_body(request.request, place))

    async with ConnectionPool(endpoints, encode, "tests", chance=lambda: 0.0) as pool:
        yield pool


async def read(pool: ConnectionPool, request: Admitted, place: Destination) -> bytes:
    answer = await pool.open(request, place)
    try:
        body = b""
        async for chunk in answer.chunks():
            answer.note_progress()
            body += chunk
        return body
    finally:
        await answer.close()


async def test_an_answer_comes_whole_and_the_connection_is_used_again(faults: Faults) -> None:
    faults.mode("ok")
    request = await admitted()
    async with pool_for(faults.child.url) as pool:
        for _ in range(3):
            body = await read(pool, request, request.permit.destinations[0])
            assert body.endswith(b"data: [DONE]\n\n")
    connections = {entry["connection"] for entry in read_log(faults.log) if entry["event"] == "request"}
    assert len(connections) == 1


@pytest.mark.parametrize("level", [Level.CONFIDENTIAL, Level.RESTRICTED])
async def test_no_connection_is_opened_for_a_label_above_the_clearance(faults: Faults, level: Level) -> None:
    faults.mode("ok")
    request = await admitted(level=level)
    hosted = (await admitted()).permit.destinations[0]
    async with pool_for(faults.child.url) as pool:
        with pytest.raises(UpstreamUnavailable) as caught:
            await pool.open(request, hosted)
        assert caught.value.code == "not-permitted"
        lowered = replace(request.verdict, label=Label(Level.PUBLIC))
        forged = replace(hosted, clearance=Level.RESTRICTED)
        with pytest.raises(UpstreamUnavailable):
            await pool.open(replace(request, verdict=lowered), forged)
    assert faults.request_count() == 0


async def test_a_degraded_reservation_opens_nothing_hosted(faults: Faults) -> None:
    faults.mode("ok")
    request = await admitted()
    degraded = replace(request, reservation=replace(request.reservation, degraded=True))
    async with pool_for(faults.child.url) as pool:
        with pytest.raises(UpstreamUnavailable):
            await pool.open(degraded, request.permit.destinations[0])
    assert faults.request_count() == 0


@pytest.mark.parametrize(
    ("mode", "kind", "code"),
    [
        ("silence", UpstreamTimeout, "upstream-first-byte-timeout"),
        ("wrong-content-type", UpstreamFailed, "upstream-wrong-content-type"),
        ("500", UpstreamFailed, "upstream-failed"),
        ("401", UpstreamFailed, "upstream-failed"),
        ("302", UpstreamFailed, "upstream-failed"),
        ("503-retry", UpstreamUnavailable, "upstream-unavailable"),
        ("429-retry", UpstreamRejected, "upstream-rate-limited"),
        ("400", UpstreamRejected, "upstream-rejected"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_each_fault_before_the_body_is_one_refusal(
    faults: Faults, mode: str, kind: type[Refusal], code: str, stream: bool
) -> None:
    faults.mode(mode)
    request = await admitted(stream)
    async with pool_for(faults.child.url) as pool:
        with pytest.raises(kind) as caught:
            await pool.open(request, request.permit.destinations[0])
    assert caught.value.code == code
    assert "standin-provider-words" not in caught.value.message
    if mode.endswith("-retry"):
        assert caught.value.retry_after_seconds == 7


@pytest.mark.parametrize(
    ("mode", "kind", "code"),
    [
        ("silence-after-head", UpstreamTimeout, "upstream-idle-timeout"),
        ("pause-after-first", UpstreamTimeout, "upstream-idle-timeout"),
        ("endless-trickle", UpstreamTimeout, "upstream-total-timeout"),
        ("die-mid-event", UpstreamFailed, "upstream-truncated"),
    ],
)
async def test_each_fault_in_the_body_is_one_refusal(
    faults: Faults, mode: str, kind: type[Refusal], code: str
) -> None:
    faults.mode(mode)
    request = await admitted()
    async with pool_for(faults.child.url) as pool:
        started = time.monotonic()
        with pytest.raises(kind) as caught:
            await read(pool, request, request.permit.destinations[0])
        assert caught.value.code == code
        assert time.monotonic() - started < 4


async def test_a_reset_connection_is_a_refusal_that_may_be_tried_elsewhere(faults: Faults) -> None:
    faults.mode("refuse")
    request = await admitted()
    async with pool_for(faults.child.url) as pool:
        with pytest.raises((UpstreamUnavailable, UpstreamFailed)) as caught:
            await pool.open(request, request.permit.destinations[0])
    # Whether the reset is seen while connecting or while sending is up to the kernel.
    assert caught.value.code in {"upstream-unreachable", "upstream-disconnected"}


async def test_the_credential_is_in_no_repr() -> None:
    async with pool_for("http://127.0.0.1:9/v1") as pool:
        assert "the-key" not in repr(pool.__dict__)


async def test_nobody_listening_is_unavailable_and_opens_the_breaker() -> None:
    request = await admitted()
    place = request.permit.destinations[0]
    async with pool_for(f"http://127.0.0.1:{free_port()}/v1") as pool:
        codes = []
        for _ in range(7):
            with pytest.raises(UpstreamUnavailable) as caught:
                await pool.open(request, place)
            codes.append(caught.value.code)
            assert caught.value.retry_after_seconds is not None
        assert codes == ["upstream-unreachable"] * 5 + ["upstream-circuit-open"] * 2
        assert pool.order(request.permit.destinations)[-1] == place


async def test_answers_that_are_none_open_the_breaker(faults: Faults) -> None:
    faults.mode("malformed-json")
    request = await admitted()
    place = request.permit.destinations[0]
    async with pool_for(faults.child.url) as pool:
        for _ in range(5):
            answer = await pool.open(request, place)
            await answer.close(is_faulty=True)
        assert [lane.is_open for lane in pool.lanes()] == [True]
        with pytest.raises(UpstreamUnavailable) as caught:
            await pool.open(request, place)
    assert caught.value.code == "upstream-circuit-open"


async def test_closing_an_unfinished_answer_drops_the_connection_at_once(faults: Faults) -> None:
    faults.mode("endless-trickle")
    request = await admitted()
    async with pool_for(faults.child.url) as pool:
        answer = await pool.open(request, request.permit.destinations[0])
        stream = answer.chunks()
        assert await anext(stream)
        left_at = time.monotonic()
        await answer.close()
        while not any(entry["event"] == "client-closed" for entry in read_log(faults.log)):
            assert time.monotonic() - left_at < 1
            await asyncio.sleep(0.02)


async def test_cancelling_before_the_header_drops_the_connection_at_once(faults: Faults) -> None:
    faults.mode("silence")
    request = await admitted()
    async with pool_for(faults.child.url) as pool:
        task = asyncio.create_task(pool.open(request, request.permit.destinations[0]))
        while faults.request_count() == 0:
            await asyncio.sleep(0.02)
        left_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not any(entry["event"] == "client-closed" for entry in read_log(faults.log)):
            assert time.monotonic() - left_at < 1
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("told", ["req_0a1b.C-2:3", "x", "a" * 128])
async def test_a_plain_id_of_the_provider_is_kept(told: str) -> None:
    assert plain_id(told) == told


@pytest.mark.parametrize(
    "told",
    [None, "", "a" * 129, "the card is 4539 5787 6362 1486", "id\n", "\u00efd", "a/b", '"id"', "id\n\n"],
)
async def test_an_id_that_could_be_a_sentence_is_not_kept(told: str | None) -> None:
    assert plain_id(told) is None


async def test_only_own_headers_and_the_credential_are_sent(faults: Faults, tmp_path: Path) -> None:
    faults.mode("ok")
    request = await admitted()
    async with pool_for(faults.child.url) as pool:
        await read(pool, request, request.permit.destinations[0])
    [line] = (tmp_path / "record" / "requests.jsonl").read_text().splitlines()
    headers = {name.lower(): value for name, value in dict(json.loads(line)["headers"]).items()}
    assert headers["authorization"] == "Bearer the-key"
    assert set(headers) == {
        "host",
        "content-type",
        "content-length",
        "accept",
        "accept-encoding",
        "user-agent",
        "authorization",
    }
