from __future__ import annotations

import asyncio
import ssl
from typing import cast

import hiredis
import pytest

from gateway.errors import ConfigurationError
from gateway.limits.link import Link, LinkDown, is_evicting, parse_target


class RecordingTransport(asyncio.Transport):
    """Keeps what is written; no socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


def connected(timeout_seconds: float = 60) -> tuple[Link, RecordingTransport]:
    link, transport = Link(timeout_seconds), RecordingTransport()
    link.connection_made(transport)
    return link, transport


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_matches_answers_by_order_whatever_the_chunks(size: int) -> None:
    link, transport = connected()
    futures = [link.send(b"one"), link.send(b"two"), link.send(b"three")]
    answers = b"*2\r\n:1\r\n:-2\r\n$2\r\nok\r\n-READONLY no\r\n"
    for start in range(0, len(answers), size):
        link.data_received(answers[start : start + size])
    assert transport.written == [b"one", b"two", b"three"]
    assert [futures[0].result(), futures[1].result()] == [[1, -2], b"ok"]
    assert isinstance(futures[2].result(), hiredis.ReplyError)
    link.end("stopped")


async def test_forgotten_call_keeps_its_place_in_the_order() -> None:
    link, _ = connected()
    link.forget(b"undo")
    future = link.send(b"ask")
    link.data_received(b":1\r\n:2\r\n")
    assert future.result() == 2
    link.end("stopped")


async def test_lost_connection_fails_every_call_and_says_closed() -> None:
    link, _ = connected()
    future = link.send(b"ask")
    link.connection_lost(None)
    with pytest.raises(LinkDown, match="closed"):
        await future
    assert link.ended.result() == "closed"
    with pytest.raises(LinkDown, match="closed"):
        link.send(b"again")


async def test_end_writes_the_undo_of_what_is_unanswered_only() -> None:
    link, transport = connected()
    answered = link.send(b"first", lambda: b"undo first")
    pending = link.send(b"second", lambda: b"undo second")
    plain = link.send(b"third")
    link.data_received(b":1\r\n")
    link.end("timeout")
    assert answered.result() == 1
    assert transport.written == [b"first", b"second", b"third", b"undo second"]
    assert transport.is_closed
    for future in (pending, plain):
        with pytest.raises(LinkDown, match="timeout"):
            await future


async def test_ends_on_an_answer_that_nobody_asked_for() -> None:
    link, transport = connected()
    link.data_received(b":1\r\n")
    assert link.ended.result() == "protocol"
    assert transport.is_closed


async def test_ends_on_bytes_that_are_not_the_protocol() -> None:
    link, _ = connected()
    future = link.send(b"ask")
    link.data_received(b"HTTP/1.1 200 OK\r\n")
    with pytest.raises(LinkDown, match="protocol"):
        await future


async def test_call_without_an_answer_ends_the_link_at_its_deadline() -> None:
    link, _ = connected(timeout_seconds=0.01)
    future = link.send(b"ask")
    with pytest.raises(LinkDown, match="timeout"):
        await future


async def test_refuses_calls_beyond_its_backlog() -> None:
    link, transport = connected()
    calls = [link.send(b"x") for _ in range(4096)]
    with pytest.raises(LinkDown, match="backlog"):
        link.send(b"x")
    assert len(transport.written) == 4096
    link.data_received(b":1\r\n" * 4096)
    assert all(call.done() for call in calls)
    link.end("stopped")


async def test_cancelled_call_does_not_disturb_the_next_one() -> None:
    link, _ = connected()
    first, second = link.send(b"a"), link.send(b"b")
    first.cancel()
    link.data_received(b":1\r\n:2\r\n")
    assert second.result() == 2
    link.end("stopped")


def test_reads_all_parts_of_a_url() -> None:
    target = parse_target("redis://user:s3cret@db.example:6380/2")
    assert (target.host, target.port, target.database, target.username) == ("db.example", 6380, 2, "user")
    assert target.password is not None
    assert target.password.reveal() == "s3cret"
    assert target.tls is None
    assert "s3cret" not in repr(target)


def test_reads_a_unix_socket_url() -> None:
    target = parse_target("unix:///run/valkey.sock?db=3")
    assert (target.path, target.database, target.password) == ("/run/valkey.sock", 3, None)


def test_tls_url_verifies_certificate_and_name() -> None:
    tls = cast(ssl.SSLContext, parse_target("rediss://db.example").tls)
    assert tls.verify_mode == ssl.CERT_REQUIRED
    assert tls.check_hostname


@pytest.mark.parametrize(
    "url", ["", "http://u:pw@h", "redis://u:pw@h:port", "rediss://u:pw@h?ssl_ca_certs=/no/such/file"]
)
def test_refuses_an_unusable_url_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"limits\.redis_url: expected") as caught:
        parse_target(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "evicts"),
    [
        (b"# Memory\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n", False),
        (b"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", False),
        (b"maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n", True),
        (b"", True),
        (None, True),
        (hiredis.ReplyError("NOPERM no"), True),
    ],
)
def test_server_that_may_evict_or_does_not_tell_is_evicting(answer: object, evicts: bool) -> None:
    assert is_evicting(answer) is evicts
