"""The limiter on a real, healthy Valkey."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.domain.limits import Budget, Exceeded, Quota, Reservation, ScopeLimits, TenantLimits, Usage
from gateway.domain.principal import Principal
from gateway.limits.redis_store import RedisLimiter
from gateway.limits.scripts import quota_keys
from gateway.settings import LimitSettings
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration

#: Generous, so that a busy machine does not make a test degraded.
SETTINGS = LimitSettings(timeout_ms=5_000)


def window_key(tenant: str) -> bytes:
    return quota_keys(tenant, Quota("tenant", "", ScopeLimits()))[0]


def principal(tenant: str) -> Principal:
    return Principal(tenant, "s", "s", "t", "i", "c", "k", frozenset(), frozenset(), 0)


class Table:
    """Limits of every tenant; a test may change them, as a policy reload does."""

    def __init__(self, limits: TenantLimits) -> None:
        self.limits = limits

    def __call__(self, tenant: str) -> TenantLimits:
        return self.limits


@pytest.fixture
def table() -> Table:
    return Table(TenantLimits(requests_per_minute=1_000, tokens_per_minute=10_000, concurrency=50))


@pytest.fixture
async def limiter(valkey: ValkeyServer, table: Table) -> AsyncIterator[RedisLimiter]:
    async with RedisLimiter(valkey.url, table, SETTINGS) as limiter:
        assert limiter.health.is_connected
        yield limiter


@pytest.fixture
def caller() -> Principal:
    return principal(f"t-{uuid.uuid4().hex}")


def granted(answer: Reservation | Exceeded) -> Reservation:
    assert isinstance(answer, Reservation)
    assert not answer.degraded
    return answer


async def test_grants_with_the_state_of_every_bucket(limiter: RedisLimiter, caller: Principal) -> None:
    reservation = granted(await limiter.reserve(caller, "a", 100, 900))
    assert (reservation.request_id, reservation.tenant, reservation.tokens) == ("a", caller.tenant, 1_000)
    assert [(s.name, s.limit, s.remaining, s.reset_seconds) for s in reservation.states] == [
        ("requests", 1_000, 999, 61),
        ("tokens", 10_000, 9_000, 61),
        ("concurrency", 50, 49, LimitSettings().lease_seconds),
    ]


async def test_five_parallel_calls_never_beat_a_token_limit(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(1_000, 100, 50)
    answers = await asyncio.gather(*(limiter.reserve(caller, f"r{i}", 10, 40) for i in range(5)))
    refused = [answer for answer in answers if isinstance(answer, Exceeded)]
    assert len(refused) == 3
    assert {answer.bucket for answer in refused} == {"tokens"}
    assert all(60 <= answer.retry_after_seconds <= 61 for answer in refused)


async def test_two_gateways_share_one_limit(valkey: ValkeyServer, caller: Principal, table: Table) -> None:
    table.limits = TenantLimits(10, 10_000, 50)
    async with (
        RedisLimiter(valkey.url, table, SETTINGS) as one,
        RedisLimiter(valkey.url, table, SETTINGS) as two,
    ):
        calls = [
            limiter.reserve(caller, f"{n}-{i}", 1, 1)
            for n, limiter in enumerate((one, two))
            for i in range(10)
        ]
        answers = await asyncio.gather(*calls)
    assert sum(isinstance(answer, Reservation) for answer in answers) == 10


async def test_200_concurrent_tasks_never_over_grant_concurrency(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(1_000_000, 1_000_000, 7)
    running = peak = served = 0

    async def work(number: int) -> None:
        nonlocal running, peak, served
        for attempt in range(20):
            answer = await limiter.reserve(caller, f"{number}-{attempt}", 1, 1)
            if isinstance(answer, Reservation):
                running += 1
                peak = max(peak, running)
                await asyncio.sleep(0)
                running -= 1
                await limiter.settle(answer, Usage(1, 1))
                served += 1
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(200)))
    assert peak <= 7
    assert served >= 7
    assert granted(await limiter.reserve(caller, "last", 1, 1)).states[2].remaining == 6


async def test_same_id_twice_is_one_debit_and_one_slot(limiter: RedisLimiter, caller: Principal) -> None:
    first, again = await asyncio.gather(
        limiter.reserve(caller, "a", 500, 500), limiter.reserve(caller, "a", 500, 500)
    )
    assert granted(first).tokens == granted(again).tokens == 1_000
    other = granted(await limiter.reserve(caller, "b", 500, 500))
    assert other.states[2].remaining == 48
    assert other.states[1].remaining == 8_000


async def test_settled_id_cannot_be_reserved_again(limiter: RedisLimiter, caller: Principal) -> None:
    await limiter.settle(granted(await limiter.reserve(caller, "a", 5, 5)), Usage(5, 5))
    assert isinstance(await limiter.reserve(caller, "a", 5, 5), Exceeded)


async def test_settle_gives_back_unused_tokens_and_twice_is_once(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(10, 1_000, 50)
    reservation = granted(await limiter.reserve(caller, "a", 500, 500))
    for _ in range(2):
        await limiter.settle(reservation, Usage(100, 100))
    left = granted(await limiter.reserve(caller, "b", 1, 0)).states
    assert left[1].remaining == 799
    assert left[0].remaining == 8


async def test_refused_and_never_sent_calls_burn_no_quota(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(10, 1_000, 1)
    first = granted(await limiter.reserve(caller, "a", 10, 10))
    for number in range(30):
        refused = await limiter.reserve(caller, f"r{number}", 10, 10)
        assert isinstance(refused, Exceeded)
        assert refused.bucket == "concurrency"
    await limiter.settle(first, None)
    left = granted(await limiter.reserve(caller, "b", 10, 10)).states
    assert left[0].remaining == 9
    assert left[1].remaining == 980


async def test_overdraft_becomes_debt(limiter: RedisLimiter, caller: Principal, table: Table) -> None:
    table.limits = TenantLimits(10, 600, 5)
    await limiter.settle(granted(await limiter.reserve(caller, "a", 50, 50)), Usage(50, 850))
    refused = await limiter.reserve(caller, "b", 1, 0)
    assert isinstance(refused, Exceeded)
    assert refused.bucket == "tokens"
    assert 60 <= refused.retry_after_seconds <= 61


async def test_lowered_limit_acts_at_the_next_call(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    granted(await limiter.reserve(caller, "a", 1, 0))
    table.limits = TenantLimits(10, 100, 50)
    assert isinstance(await limiter.reserve(caller, "b", 101, 0), Exceeded)
    assert granted(await limiter.reserve(caller, "c", 99, 0)).states[1].remaining == 0


async def test_lease_of_a_crashed_gateway_heals_by_itself(
    valkey: ValkeyServer, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(100, 10_000, 1)
    short = LimitSettings(timeout_ms=5_000, lease_seconds=1)
    async with RedisLimiter(valkey.url, table, short) as crashed:
        granted(await crashed.reserve(caller, "lost", 10, 10))
    async with RedisLimiter(valkey.url, table, short) as limiter:
        assert isinstance(await limiter.reserve(caller, "early", 10, 10), Exceeded)
        await asyncio.sleep(1.05)
        assert granted(await limiter.reserve(caller, "late", 10, 10)).states[2].remaining == 0


async def test_cancelled_reserve_leaves_nothing_held(
    valkey: ValkeyServer, limiter: RedisLimiter, caller: Principal
) -> None:
    calls = [asyncio.create_task(limiter.reserve(caller, f"r{i}", 10, 10)) for i in range(20)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    left = granted(await limiter.reserve(caller, "after", 10, 10)).states
    assert (left[0].remaining, left[2].remaining) == (999, 49)


async def test_flushed_scripts_are_sent_again(
    valkey: ValkeyServer, limiter: RedisLimiter, caller: Principal
) -> None:
    valkey.client().script_flush()
    reservation = granted(await limiter.reserve(caller, "a", 10, 10))
    valkey.client().script_flush()
    await limiter.settle(reservation, Usage(1, 1))
    assert granted(await limiter.reserve(caller, "b", 10, 10)).states[2].remaining == 49
    assert limiter.health.settle_lost_count == 0


async def test_broken_keys_of_one_tenant_do_not_hurt_another(
    valkey: ValkeyServer, limiter: RedisLimiter, caller: Principal
) -> None:
    valkey.client().set(window_key("broken"), "not a hash", px=60_000)
    answer = await limiter.reserve(principal("broken"), "a", 10, 10)
    assert isinstance(answer, Reservation)
    assert answer.degraded
    granted(await limiter.reserve(caller, "a", 10, 10))
    assert limiter.health.connect_count == 1


async def test_unknown_tenant_refuses_the_request(valkey: ValkeyServer, caller: Principal) -> None:
    def nobody(tenant: str) -> TenantLimits:
        raise KeyError(tenant)

    async with RedisLimiter(valkey.url, nobody, SETTINGS) as limiter:
        with pytest.raises(KeyError):
            await limiter.reserve(caller, "a", 10, 10)


async def test_slot_of_a_tenant_that_a_reload_removed_is_freed(
    valkey: ValkeyServer, caller: Principal, table: Table
) -> None:
    tenants = {caller.tenant: table.limits}
    async with RedisLimiter(valkey.url, tenants.__getitem__, SETTINGS) as limiter:
        reservation = granted(await limiter.reserve(caller, "a", 10, 10))
        limits = tenants.pop(caller.tenant)
        await limiter.settle(reservation, Usage(1, 1))
        assert limiter.health.settle_lost_count == 0
        tenants[caller.tenant] = limits
        assert granted(await limiter.reserve(caller, "b", 10, 10)).states[2].remaining == 49


async def test_database_of_the_url_is_used(valkey: ValkeyServer, caller: Principal, table: Table) -> None:
    async with RedisLimiter(valkey.url + "?db=3", table, SETTINGS) as limiter:
        granted(await limiter.reserve(caller, "a", 10, 10))
    assert valkey.client().exists(window_key(caller.tenant)) == 0


async def test_every_scope_must_fit_and_a_refusal_takes_nothing_of_any(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    narrow = {"m": ScopeLimits(tokens_per_minute=50)}
    table.limits = TenantLimits(100, 1_000, 50, key=ScopeLimits(3), user=ScopeLimits(2), models=narrow)
    refused = await limiter.reserve(caller, "a", 51, 0, "m")
    assert isinstance(refused, Exceeded)
    assert (refused.scope, refused.bucket, refused.limit) == ("model", "tokens", 50)
    assert [state.remaining for state in refused.states] == [100, 1_000, 50, 3, 2, 50]
    names = [state.name for state in granted(await limiter.reserve(caller, "b", 51, 0, "other")).states]
    assert names == ["requests", "tokens", "concurrency", "key-requests", "user-requests"]
    granted(await limiter.reserve(caller, "c", 50, 0, "m"))
    refused = await limiter.reserve(caller, "d", 1, 0)
    assert isinstance(refused, Exceeded)
    assert (refused.scope, refused.bucket) == ("user", "requests")


async def test_many_keys_and_users_stay_within_their_tenants_limit(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(1_000, 1_000, 1_000, key=ScopeLimits(2), user=ScopeLimits(2))
    callers = [replace(caller, client_id=f"app-{n}", subject_ref=f"u-{n}") for n in range(100)]
    answers = await asyncio.gather(
        *(limiter.reserve(each, f"{n}-{i}", 10, 15) for n, each in enumerate(callers) for i in range(3))
    )
    assert sum(answer.tokens for answer in answers if isinstance(answer, Reservation)) == 1_000


async def test_budget_is_reserved_settled_and_refused_before_it_is_exceeded(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(100, 10_000, 50, Budget(1_000, 5_000))
    first = granted(await limiter.reserve(caller, "a", 1, 1, "m", 700))
    refused = await limiter.reserve(caller, "b", 1, 1, "m", 301)
    assert isinstance(refused, Exceeded)
    assert (refused.bucket, refused.limit) == ("day", 1_000)
    assert 1 <= refused.retry_after_seconds <= 86_400
    await limiter.settle(first, Usage(1, 1), 250)
    left = granted(await limiter.reserve(caller, "c", 1, 1, "m", 750)).states
    assert [(state.name, state.remaining) for state in left[3:]] == [("day", 0), ("month", 4_000)]


async def test_request_of_unknown_price_fits_into_no_budget(
    limiter: RedisLimiter, caller: Principal, table: Table
) -> None:
    granted(await limiter.reserve(caller, "a", 1, 1, "m", None))
    table.limits = TenantLimits(100, 10_000, 50, Budget(soft_month_usd_micros=1))
    refused = await limiter.reserve(caller, "b", 1, 1, "m", None)
    assert isinstance(refused, Exceeded)
    assert refused.bucket == "price"


async def test_account_is_shared_by_tenants_and_its_refusal_leaves_the_tenants_hold(
    limiter: RedisLimiter, caller: Principal
) -> None:
    account = f"acc-{uuid.uuid4().hex}"
    shared = (Quota("account", account, ScopeLimits(tokens_per_minute=100)),)
    other = principal(f"t-{uuid.uuid4().hex}")
    one = granted(await limiter.reserve(caller, "a", 30, 30))
    two = granted(await limiter.reserve(other, "b", 30, 30))
    taken = granted(await limiter.reserve_account(one, account, shared))
    refused = await limiter.reserve_account(two, account, shared)
    assert isinstance(refused, Exceeded)
    assert (refused.scope, refused.bucket) == ("account", "tokens")
    await limiter.settle(taken, Usage(20, 20))
    granted(await limiter.reserve_account(two, account, shared))
    assert granted(await limiter.reserve(other, "c", 1, 0)).states[1].remaining == 10_000 - 61


async def test_long_stream_keeps_its_slot_and_books_what_it_used(
    valkey: ValkeyServer, caller: Principal, table: Table
) -> None:
    table.limits = TenantLimits(100, 1_000, 1)
    short = LimitSettings(timeout_ms=5_000, lease_seconds=1)
    async with RedisLimiter(valkey.url, table, short) as limiter:
        held = granted(await limiter.reserve(caller, "long", 100, 100))
        for _ in range(4):
            await asyncio.sleep(0.4)
            await limiter.extend(held, 700)
        refused = await limiter.reserve(caller, "early", 1, 0)
        assert isinstance(refused, Exceeded)
        assert refused.bucket == "concurrency"
        assert refused.states[1].remaining == 300
        await limiter.settle(held, Usage(100, 650))
        assert granted(await limiter.reserve(caller, "late", 1, 0)).states[1].remaining == 249
