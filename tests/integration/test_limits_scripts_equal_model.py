"""The Lua scripts, in a real Valkey, equal the reference model on random histories.

The scripts use the server's clock and say which time they used; the model replays with that time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.domain.ids import tenant_tag
from gateway.domain.limits import LIMIT_MAX, USD_MICROS_MAX, Budget, Quota, ScopeLimits
from gateway.limits.bucket import STATE_FIELDS, Buckets, Reply
from gateway.limits.scripts import (
    EXTEND_SCRIPT,
    RESERVE_SCRIPT,
    SETTLE_SCRIPT,
    limit_words,
    quota_keys,
    record_prefix,
)
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration

Scripts = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]


@dataclass(frozen=True)
class Reserve:
    """Reserve call; leases are a few milliseconds, so that some expire within a history."""

    request_id: str
    tokens: int
    cost: int
    lease_ms: int
    keep_ms: int


@dataclass(frozen=True)
class Settle:
    """Settle call; -1 means that nothing was sent."""

    request_id: str
    used: int
    cost: int


@dataclass(frozen=True)
class Extend:
    """Extend call, to this many tokens."""

    request_id: str
    tokens: int
    lease_ms: int


@dataclass(frozen=True)
class Pause:
    """Real time passes on the server."""

    milliseconds: int


@dataclass(frozen=True)
class Age:
    """What the server keeps becomes older by this many slots, as if it had been written earlier."""

    slots: int


Step = Reserve | Settle | Extend | Pause | Age

ids = st.sampled_from("abc")
budgets = st.builds(
    Budget,
    st.none() | st.sampled_from((0, 90, 1_000, USD_MICROS_MAX)),
    st.none() | st.sampled_from((100, 2_000, USD_MICROS_MAX)),
)
# The extremes check that no number loses a digit; they are the smaller part, as they refuse most calls.
ordinary_limits = st.builds(
    ScopeLimits,
    st.sampled_from((2, 7, 60)),
    st.sampled_from((60, 600)),
    st.sampled_from((1, 2, 3)),
    budgets,
)
extremes = st.sampled_from((0, 1, LIMIT_MAX - 1, LIMIT_MAX))
extreme_limits = st.builds(ScopeLimits, extremes, extremes, st.sampled_from((0, 1, LIMIT_MAX)), budgets)
limits_values = st.one_of(ordinary_limits, ordinary_limits, ordinary_limits, extreme_limits)
SCOPES = (("tenant", ""), ("key", "app"), ("user", "u"))


def quotas_from(limits: Sequence[ScopeLimits]) -> tuple[Quota, ...]:
    return tuple(Quota(*scope, each) for scope, each in zip(SCOPES, limits, strict=False))


quota_sets = st.lists(limits_values, min_size=1, max_size=3).map(quotas_from)
ordinary_amounts = st.integers(1, 60)
amounts = st.one_of(
    ordinary_amounts, ordinary_amounts, st.sampled_from((599, 1_300, LIMIT_MAX, LIMIT_MAX + 1))
)
costs = st.sampled_from((0, 1, 40, 95, USD_MICROS_MAX))
reserves = st.builds(
    lambda request_id, tokens, cost, lease_ms, extra_ms: Reserve(
        request_id, tokens, cost, lease_ms, lease_ms + extra_ms
    ),
    ids,
    ordinary_amounts | amounts,
    st.sampled_from((0, 0, 1, 40, 95)),
    st.sampled_from((1, 3, 600_000)),
    st.sampled_from((0, 4, 60_000)),
)
settles = st.builds(Settle, ids, st.one_of(st.just(-1), st.just(0), amounts), costs)
extends = st.builds(Extend, ids, amounts, st.sampled_from((1, 600_000)))
pauses = st.builds(Pause, st.integers(1, 5))
ages = st.builds(Age, st.sampled_from((1, 2, 30, 59, 60, 61, 62, 90, 121, 122, 200)))
steps = st.one_of(reserves, reserves, reserves, settles, settles, extends, pauses, ages)
histories = st.lists(st.tuples(steps, quota_sets), min_size=2, max_size=30)
same_quotas = st.tuples(quota_sets, st.lists(steps, min_size=2, max_size=30))

tenants = (f"model-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def scripts(valkey: ValkeyServer) -> Scripts:
    client = valkey.client()
    return (
        client.register_script(RESERVE_SCRIPT),
        client.register_script(SETTLE_SCRIPT),
        client.register_script(EXTEND_SCRIPT),
    )


def age(client: Any, model: Buckets, tag: str, slots: int) -> None:
    """Shift slots on both sides: the server's clock cannot be moved, but what it keeps can."""
    for scope in SCOPES:
        key = quota_keys(tag, Quota(*scope, ScopeLimits()))[0]
        kept = client.hgetall(key)
        if kept:
            at = int(kept["i"]) - slots
            moved = {name: value for name, value in kept.items() if name in "RTD"} | {"i": at}
            for name, value in kept.items():
                if name[0] in "rt":
                    moved[f"{name[0]}{(int(name[1:]) - slots) % 61}"] = value
            client.delete(key)
            client.hset(key, mapping=moved)
    for key in client.scan_iter(record_prefix(tag).decode() + "*"):
        client.hincrby(key, "i", -slots)
    for window in model._windows.values():
        if window.at:
            window.at -= slots
        window.requests = {number - slots: count for number, count in window.requests.items()}
        window.tokens = {number - slots: count for number, count in window.tokens.items()}
    for record in model._records.values():
        record.slot -= slots


def replay(client: Any, scripts: Scripts, history: list[tuple[Step, tuple[Quota, ...]]]) -> None:
    reserve_script, settle_script, extend_script = scripts
    model, tag = Buckets(), tenant_tag(next(tenants))
    for step, quotas in history:
        words = limit_words(quotas)
        keys: list[bytes] = []
        if isinstance(step, Reserve | Settle | Extend):
            keys = [record_prefix(tag) + step.request_id.encode()]
            keys += [key for quota in quotas for key in quota_keys(tag, quota)]
        match step:
            case Pause(milliseconds):
                time.sleep(milliseconds / 1000)
            case Age(slots):
                age(client, model, tag, slots)
            case Reserve(request_id, tokens, cost, lease_ms, keep_ms):
                numbers = reserve_script(
                    keys=keys, args=[request_id, tokens, cost, lease_ms, keep_ms, *words]
                )
                answer = Reply._make((*numbers[:5], tuple(numbers[5:])))
                assert len(answer.states) == STATE_FIELDS * len(quotas)
                assert answer == model.reserve(
                    answer.now_ms, request_id, tokens, cost, quotas, lease_ms, keep_ms
                )
            case Settle(request_id, used, cost):
                done, now_ms = settle_script(keys=keys, args=[request_id, used, cost, *words])
                used_tokens = None if used < 0 else used
                assert bool(done) is model.settle(now_ms, request_id, used_tokens, cost, quotas)
            case Extend(request_id, tokens, lease_ms):
                done, now_ms = extend_script(
                    keys=keys, args=[request_id, tokens, lease_ms, lease_ms + 9, *words]
                )
                assert bool(done) is model.extend(now_ms, request_id, tokens, quotas, lease_ms, lease_ms + 9)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=same_quotas)
def test_scripts_equal_model_under_constant_limits(
    valkey: ValkeyServer, scripts: Scripts, case: tuple[tuple[Quota, ...], list[Step]]
) -> None:
    quotas, steps = case
    replay(valkey.client(), scripts, [(step, quotas) for step in steps])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories)
def test_scripts_equal_model_when_limits_change_between_calls(
    valkey: ValkeyServer, scripts: Scripts, history: list[tuple[Step, tuple[Quota, ...]]]
) -> None:
    replay(valkey.client(), scripts, history)


@pytest.mark.parametrize("first_settled", [1, -1, 700])
def test_scripts_equal_model_when_an_id_comes_back_after_its_time(
    valkey: ValkeyServer, scripts: Scripts, first_settled: int
) -> None:
    low, high = quotas_from([ScopeLimits(7, 600, 2)]), quotas_from([ScopeLimits(60, 6_000, 2)])
    replay(
        valkey.client(),
        scripts,
        [
            (Reserve("a", 500, 0, 1, 1), low),
            (Settle("a", first_settled, 0), low),
            (Pause(3), low),
            (Reserve("a", 5, 0, 600_000, 600_000), high),
            (Settle("a", 9_000, 0), low),
            (Reserve("b", 5, 0, 600_000, 600_000), high),
            (Settle("b", -1, 0), high),
            (Reserve("c", 5, 0, 600_000, 600_000), high),
        ],
    )


def test_everything_that_the_scripts_write_has_a_lifetime(valkey: ValkeyServer, scripts: Scripts) -> None:
    quota = Quota("tenant", "", ScopeLimits(60, 600, 3, Budget(1_000, 10_000)))
    window, leases, money = quota_keys("lifetime", quota)
    keys = [record_prefix("lifetime") + b"a", window, leases, money]
    words = limit_words((quota,))
    scripts[0](keys=keys, args=["a", 10, 5, 600_000, 660_000, *words])
    client = valkey.client()
    assert 121_000 < client.pttl(window) <= 123_000
    assert 600_000 < client.pttl(leases) <= 601_000
    assert 660_000 < client.pttl(keys[0]) <= 661_000
    assert 31 * 86_400_000 < client.pttl(money) <= 32 * 86_400_000
    scripts[1](keys=keys, args=["a", 5, 2, *words])
    assert 60_000 < client.pttl(keys[0]) <= 61_000
    assert 121_000 < client.pttl(window) <= 123_000
    assert client.exists(leases) == 0
