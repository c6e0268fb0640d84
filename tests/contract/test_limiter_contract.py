"""What every `ports.Limiter` does, whether Redis answers or not."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.domain.limits import Exceeded, Reservation, TenantLimits, Usage
from gateway.domain.principal import Principal
from gateway.limits.redis_store import RedisLimiter
from gateway.pipeline.ports import Limiter
from gateway.settings import LimitSettings
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration

#: Small enough that the local cap (a tenth) and Redis agree on what these tests ask.
LIMITS = TenantLimits(requests_per_minute=200, tokens_per_minute=2_000, concurrency=30)


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    valkey = ValkeyServer()
    try:
        valkey.start()
        yield valkey
    finally:
        valkey.remove()


@pytest.fixture(params=["redis", "without redis"])
async def limiter(request: pytest.FixtureRequest, server: ValkeyServer) -> AsyncIterator[Limiter]:
    url = server.url if request.param == "redis" else f"unix://{server.directory}/nobody"
    limiter = RedisLimiter(url, lambda tenant: LIMITS, LimitSettings(timeout_ms=5_000))
    async with limiter:
        assert limiter.health.is_connected is (request.param == "redis")
        yield limiter


@pytest.fixture
def caller() -> Principal:
    return Principal(uuid.uuid4().hex, "s", "s", "t", "i", "c", "k", frozenset(), frozenset(), 0)


async def hold(limiter: Limiter, caller: Principal, request_id: str, tokens: int = 1) -> Reservation:
    answer = await limiter.reserve(caller, request_id, tokens, 0)
    assert isinstance(answer, Reservation)
    return answer


async def test_reservation_names_request_tenant_and_tokens(limiter: Limiter, caller: Principal) -> None:
    answer = await limiter.reserve(caller, "a", 20, 30)
    assert isinstance(answer, Reservation)
    assert (answer.request_id, answer.tenant, answer.tokens) == ("a", caller.tenant, 50)
    assert [state.name for state in answer.states] == ["requests", "tokens", "concurrency"]


async def test_is_never_unlimited(limiter: Limiter, caller: Principal) -> None:
    answers = await asyncio.gather(*(limiter.reserve(caller, f"r{i}", 1, 0) for i in range(100)))
    granted = [answer for answer in answers if isinstance(answer, Reservation)]
    assert 1 <= len(granted) <= LIMITS.concurrency
    assert all(isinstance(answer, Exceeded) for answer in answers if answer not in granted)


async def test_refusal_says_bucket_and_a_wait_of_at_least_a_second(
    limiter: Limiter, caller: Principal
) -> None:
    refused = await limiter.reserve(caller, "a", 2_001, 0)
    assert isinstance(refused, Exceeded)
    assert refused.bucket == "tokens"
    assert refused.retry_after_seconds >= 1


async def test_refused_call_takes_nothing(limiter: Limiter, caller: Principal) -> None:
    assert isinstance(await limiter.reserve(caller, "a", 2_001, 0), Exceeded)
    states = (await hold(limiter, caller, "b")).states
    assert all(state.remaining == state.limit - 1 for state in states)


async def test_same_id_again_is_the_same_reservation(limiter: Limiter, caller: Principal) -> None:
    first = await hold(limiter, caller, "a", 10)
    again = await hold(limiter, caller, "a", 10)
    assert again.tokens == first.tokens
    states = (await hold(limiter, caller, "b", 10)).states
    assert states[2].remaining == states[2].limit - 2


async def test_settle_frees_the_slot_and_gives_back_tokens_once(limiter: Limiter, caller: Principal) -> None:
    held = await hold(limiter, caller, "a", 200)
    await limiter.settle(held, Usage(50, 0))
    await limiter.settle(held, Usage(50, 0))
    tokens, concurrency = (await hold(limiter, caller, "b", 1)).states[1:]
    assert tokens.limit - 51 <= tokens.remaining <= tokens.limit - 45
    assert concurrency.remaining == concurrency.limit - 1


async def test_nothing_spent_gives_back_everything(limiter: Limiter, caller: Principal) -> None:
    await limiter.settle(await hold(limiter, caller, "a", 200), None)
    states = (await hold(limiter, caller, "b", 1)).states
    assert all(state.remaining == state.limit - 1 for state in states)


async def test_settle_of_an_unknown_reservation_does_nothing(limiter: Limiter, caller: Principal) -> None:
    for degraded in (False, True):
        await limiter.settle(Reservation("ghost", caller.tenant, 100, degraded), None)
    states = (await hold(limiter, caller, "a", 1)).states
    assert all(state.remaining == state.limit - 1 for state in states)
