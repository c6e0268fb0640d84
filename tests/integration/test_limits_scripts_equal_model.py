"""The Lua scripts, in a real Valkey, equal the reference model on random histories.

The scripts use the server's clock and say which time they used; the model replays with that time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.domain.limits import LIMIT_MAX, TenantLimits
from gateway.limits.bucket import Reply, TenantBuckets
from gateway.limits.scripts import RESERVE_SCRIPT, SETTLE_SCRIPT, tenant_keys
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Reserve:
    """Reserve call; leases are a few milliseconds, so that some expire within a history."""

    request_id: str
    tokens: int
    lease_ms: int
    keep_ms: int


@dataclass(frozen=True)
class Settle:
    """Settle call; -1 means that nothing was sent."""

    request_id: str
    used: int


@dataclass(frozen=True)
class Pause:
    """Real time passes on the server."""

    milliseconds: int


ids = st.sampled_from("abc")
# 600,000 a minute refill 10 each millisecond. The extremes check that no number loses a digit; they
# are the smaller part, because they refuse most calls.
ordinary_limits = st.builds(
    TenantLimits,
    st.sampled_from((7, 60, 599)),
    st.sampled_from((60, 600, 600_000)),
    st.sampled_from((1, 2, 3)),
)
extremes = st.sampled_from((0, 1, 6_000_007, LIMIT_MAX - 1, LIMIT_MAX))
extreme_limits = st.builds(TenantLimits, extremes, extremes, st.sampled_from((0, 1, LIMIT_MAX)))
limits_values = st.one_of(ordinary_limits, ordinary_limits, ordinary_limits, extreme_limits)
ordinary_amounts = st.integers(1, 60)
amounts = st.one_of(
    ordinary_amounts,
    ordinary_amounts,
    st.sampled_from((599, 300_001, 599_999, LIMIT_MAX, LIMIT_MAX + 1)),
)
reserves = st.builds(
    lambda request_id, tokens, lease_ms, extra_ms: Reserve(request_id, tokens, lease_ms, lease_ms + extra_ms),
    ids,
    ordinary_amounts | amounts,
    st.sampled_from((1, 3, 600_000)),
    st.sampled_from((0, 4, 60_000)),
)
settles = st.builds(Settle, ids, st.one_of(st.just(-1), st.just(0), amounts))
pauses = st.builds(Pause, st.integers(1, 5))
steps = st.one_of(reserves, reserves, reserves, settles, settles, pauses)
histories = st.lists(st.tuples(steps, limits_values), min_size=2, max_size=30)
same_limits = st.tuples(limits_values, st.lists(steps, min_size=2, max_size=30))

tenants = (f"model-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def scripts(valkey: ValkeyServer) -> tuple[Callable[..., Any], Callable[..., Any]]:
    client = valkey.client()
    return client.register_script(RESERVE_SCRIPT), client.register_script(SETTLE_SCRIPT)


def replay(
    scripts: tuple[Callable[..., Any], Callable[..., Any]],
    history: list[tuple[Reserve | Settle | Pause, TenantLimits]],
) -> None:
    reserve_script, settle_script = scripts
    model = TenantBuckets()
    buckets_key, leases_key, record_prefix = tenant_keys(next(tenants))
    for step, limits in history:
        rates_now = (limits.requests_per_minute, limits.tokens_per_minute)
        match step:
            case Pause(milliseconds):
                time.sleep(milliseconds / 1000)
            case Reserve(request_id, tokens, lease_ms, keep_ms):
                keys = [buckets_key, leases_key, record_prefix + request_id.encode()]
                args = [request_id, tokens, lease_ms, keep_ms, *rates_now, limits.concurrency]
                answer = Reply._make(reserve_script(keys=keys, args=args))
                assert answer == model.reserve(answer.now_ms, request_id, tokens, limits, lease_ms, keep_ms)
            case Settle(request_id, used):
                keys = [buckets_key, leases_key, record_prefix + request_id.encode()]
                done, now_ms = settle_script(keys=keys, args=[request_id, used, *rates_now])
                used_tokens = None if used < 0 else used
                assert bool(done) is model.settle(now_ms, request_id, used_tokens, limits)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=same_limits)
def test_scripts_equal_model_under_constant_limits(
    scripts: tuple[Callable[..., Any], Callable[..., Any]],
    case: tuple[TenantLimits, list[Reserve | Settle | Pause]],
) -> None:
    limits, steps = case
    replay(scripts, [(step, limits) for step in steps])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories)
def test_scripts_equal_model_when_limits_change_between_calls(
    scripts: tuple[Callable[..., Any], Callable[..., Any]],
    history: list[tuple[Reserve | Settle | Pause, TenantLimits]],
) -> None:
    replay(scripts, history)


@pytest.mark.parametrize("first_settled", [1, -1, 700])
def test_scripts_equal_model_when_an_id_comes_back_after_its_time(
    scripts: tuple[Callable[..., Any], Callable[..., Any]], first_settled: int
) -> None:
    low, high = TenantLimits(7, 600, 2), TenantLimits(60, 6_000, 2)
    replay(
        scripts,
        [
            (Reserve("a", 500, 1, 1), low),
            (Settle("a", first_settled), low),
            (Pause(3), low),
            (Reserve("a", 5, 600_000, 600_000), high),
            (Settle("a", 9_000), low),
            (Reserve("b", 5, 600_000, 600_000), high),
            (Settle("b", -1), high),
            (Reserve("c", 5, 600_000, 600_000), high),
        ],
    )


def test_scripts_equal_model_when_a_limit_is_lowered_in_debt_or_raised_when_full(
    scripts: tuple[Callable[..., Any], Callable[..., Any]],
) -> None:
    low, high, fast = TenantLimits(7, 60, 2), TenantLimits(7, 600, 2), TenantLimits(6_000_007, 600, 2)
    replay(
        scripts,
        [
            (Reserve("a", 600, 600_000, 600_000), high),
            (Settle("a", 1_200), high),
            (Reserve("b", 1, 600_000, 600_000), low),
            (Reserve("b", 1, 600_000, 600_000), high),
        ],
    )
    replay(
        scripts,
        [
            (Reserve("a", 1, 600_000, 600_000), fast),
            (Pause(5), fast),
            (Settle("a", -1), fast),
            (Reserve("b", 1, 600_000, 600_000), TenantLimits(LIMIT_MAX, 600, 2)),
        ],
    )


def test_everything_that_the_scripts_write_has_a_lifetime(
    valkey: ValkeyServer, scripts: tuple[Callable[..., Any], Callable[..., Any]]
) -> None:
    buckets_key, leases_key, record_prefix = tenant_keys("lifetime")
    keys = [buckets_key, leases_key, record_prefix + b"a"]
    scripts[0](keys=keys, args=["a", 10, 600_000, 660_000, 60, 600, 3])
    client = valkey.client()
    assert 120_000 < client.pttl(buckets_key) <= 121_000
    assert 600_000 < client.pttl(leases_key) <= 601_000
    assert 660_000 < client.pttl(keys[2]) <= 661_000
    scripts[1](keys=keys, args=["a", 5, 60, 600])
    assert 60_000 < client.pttl(keys[2]) <= 61_000
    assert 120_000 < client.pttl(buckets_key) <= 121_000
    assert client.exists(leases_key) == 0
