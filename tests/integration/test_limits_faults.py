"""The limiter while its Redis is down, slow, read-only, full, evicting, locked or talking nonsense.

Each test also lets the server recover, and the same limiter must then use it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from gateway.domain.limits import Exceeded, Quota, Reservation, ScopeLimits, TenantLimits, Usage
from gateway.domain.principal import Principal
from gateway.limits.redis_store import RedisLimiter
from gateway.limits.scripts import quota_keys
from gateway.settings import LimitSettings
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration

LIMITS = TenantLimits(requests_per_minute=100, tokens_per_minute=10_000, concurrency=20)
CALLER = Principal("acme", "s", "s", "t", "i", "c", "k", frozenset(), frozenset(), 0)
SETTINGS = LimitSettings(timeout_ms=250)


def limiter_for(server: ValkeyServer, settings: LimitSettings = SETTINGS) -> RedisLimiter:
    return RedisLimiter(server.url, lambda tenant: LIMITS, settings, eviction_check_seconds=0.05)


async def until(claim: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


async def is_degraded(limiter: RedisLimiter, request_id: str) -> bool:
    answer = await limiter.reserve(CALLER, request_id, 10, 10)
    assert isinstance(answer, Reservation)
    await limiter.settle(answer, None)
    return answer.degraded


async def recovered(limiter: RedisLimiter, request_id: str) -> None:
    await until(lambda: limiter.health.is_connected)
    assert not await is_degraded(limiter, request_id)


async def test_killed_server_means_a_small_local_cap_and_a_new_one_is_found_again(
    own_valkey: ValkeyServer,
) -> None:
    async with limiter_for(own_valkey) as limiter:
        assert not await is_degraded(limiter, "before")
        own_valkey.kill()
        answers = [await limiter.reserve(CALLER, f"r{i}", 10, 10) for i in range(5)]
        held = [answer for answer in answers if isinstance(answer, Reservation)]
        assert [answer.degraded for answer in held] == [True, True]
        refused = [answer for answer in answers if isinstance(answer, Exceeded)]
        assert [(answer.bucket, answer.limit) for answer in refused] == [("concurrency", 2)] * 3
        assert not limiter.health.is_connected
        own_valkey.start()
        await recovered(limiter, "after")
        for answer in held:
            await limiter.settle(answer, Usage(5, 5))
        assert limiter.health.degraded_count == 5


async def test_server_that_was_never_there_is_found_when_it_comes(own_valkey: ValkeyServer) -> None:
    own_valkey.kill()
    async with limiter_for(own_valkey) as limiter:
        assert await is_degraded(limiter, "a")
        assert limiter.health.last_cause == "refused"
        own_valkey.start()
        await recovered(limiter, "b")


async def test_settlement_while_the_server_is_down_is_bounded_and_counted(own_valkey: ValkeyServer) -> None:
    async with limiter_for(own_valkey) as limiter:
        answer = await limiter.reserve(CALLER, "a", 10, 10)
        assert isinstance(answer, Reservation)
        own_valkey.kill()
        started = time.monotonic()
        await limiter.settle(answer, Usage(5, 5))
        assert time.monotonic() - started < 1
        assert limiter.health.settle_lost_count == 1


async def test_silent_server_is_left_at_the_deadline_and_holds_nothing_afterwards(
    own_valkey: ValkeyServer,
) -> None:
    async with limiter_for(own_valkey) as limiter:
        own_valkey.pause()
        started = time.monotonic()
        answers = await asyncio.gather(*(limiter.reserve(CALLER, f"r{i}", 10, 10) for i in range(5)))
        assert time.monotonic() - started < 2
        assert all(isinstance(answer, Exceeded) or answer.degraded for answer in answers)
        await until(lambda: limiter.health.last_cause == "timeout")
        own_valkey.resume()
        await recovered(limiter, "after")
        client = own_valkey.client()
        assert client.zcard(quota_keys("acme", Quota("tenant", "", ScopeLimits()))[1]) == 0
        fresh = await limiter.reserve(CALLER, "fresh", 10, 10)
        assert [state.remaining for state in fresh.states] == [99, 9_980, 19]


async def test_no_request_waits_for_a_server_that_is_known_to_be_silent(own_valkey: ValkeyServer) -> None:
    async with limiter_for(own_valkey) as limiter:
        own_valkey.pause()
        await limiter.reserve(CALLER, "first", 10, 10)
        await until(lambda: not limiter.health.is_connected)
        started = time.monotonic()
        for number in range(100):
            await limiter.reserve(CALLER, f"r{number}", 10, 10)
        assert time.monotonic() - started < 0.2


async def test_read_only_server_is_not_asked_until_it_takes_writes(own_valkey: ValkeyServer) -> None:
    client = own_valkey.client()
    async with limiter_for(own_valkey) as limiter:
        client.replicaof("127.0.0.1", "1")
        assert await is_degraded(limiter, "a")
        await until(lambda: limiter.health.last_cause == "readonly")
        await asyncio.sleep(0.2)
        assert await is_degraded(limiter, "b")
        client.replicaof("NO", "ONE")
        await recovered(limiter, "c")


async def test_read_only_server_does_not_answer_refusals_either(own_valkey: ValkeyServer) -> None:
    async with limiter_for(own_valkey) as limiter:
        for number in range(20):
            await limiter.reserve(CALLER, f"r{number}", 10, 10)
        own_valkey.client().replicaof("127.0.0.1", "1")
        assert await is_degraded(limiter, "one-more")


async def test_full_server_grants_nothing_but_still_settles(own_valkey: ValkeyServer) -> None:
    client = own_valkey.client()
    async with limiter_for(own_valkey) as limiter:
        held = await limiter.reserve(CALLER, "held", 10, 10)
        assert isinstance(held, Reservation)
        client.config_set("maxmemory", "1")
        await limiter.settle(held, Usage(5, 5))
        assert limiter.health.settle_lost_count == 0
        assert await is_degraded(limiter, "a")
        client.config_set("maxmemory", "0")
        await recovered(limiter, "b")


async def test_server_that_begins_to_evict_is_left(own_valkey: ValkeyServer) -> None:
    client = own_valkey.client()
    async with limiter_for(own_valkey) as limiter:
        client.config_set("maxmemory-policy", "volatile-lru")
        client.config_set("maxmemory", "100mb")
        await until(lambda: limiter.health.last_cause == "evicting")
        assert await is_degraded(limiter, "a")
        client.config_set("maxmemory-policy", "noeviction")
        await recovered(limiter, "b")


async def test_locked_server_is_used_with_its_password_only(own_valkey: ValkeyServer) -> None:
    own_valkey.client().config_set("requirepass", "open-sesame")
    async with limiter_for(own_valkey) as limiter:
        assert await is_degraded(limiter, "a")
        assert limiter.health.last_cause is not None
    for word, works in (("wrong", False), ("open-sesame", True)):
        url = own_valkey.url.replace("unix://", f"unix://:{word}@")
        async with RedisLimiter(url, lambda tenant: LIMITS, SETTINGS) as limiter:
            assert limiter.health.is_connected is works
            assert limiter.health.last_cause == (None if works else "auth")
            assert await is_degraded(limiter, word) is not works


class Nonsense:
    """Greets like a Redis and answers every script call with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            words = []
            for _ in range(int(head[1:])):
                length = int((await reader.readline())[1:])
                words.append((await reader.readexactly(length + 2))[:-2])
            match words[0]:
                case b"EVALSHA" | b"EVAL":
                    writer.write(self.answer)
                case b"INFO":
                    writer.write(b"$11\r\nmaxmemory:0\r\n")
                case _:
                    writer.write(b"+OK\r\n")
        writer.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"+OK\r\n",
        b"$-1\r\n",
        b":1\r\n",
        b"*0\r\n",
        b"*1\r\n:1\r\n",
        b"*10\r\n" + b":9\r\n" * 10,
        b"*10\r\n" + b"+1\r\n" * 10,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"-NOSCRIPT no\r\n",
        b"-ERR what\r\n",
        b":1\r\n:1\r\n:1\r\n",
    ],
)
async def test_nonsense_is_never_a_grant(answer: bytes, unused_tcp_port: int) -> None:
    server = await asyncio.start_server(Nonsense(answer).serve, "127.0.0.1", unused_tcp_port)
    async with server:
        url = f"redis://127.0.0.1:{unused_tcp_port}"
        async with RedisLimiter(url, lambda tenant: LIMITS, SETTINGS) as limiter:
            assert limiter.health.is_connected
            assert await is_degraded(limiter, "a")
