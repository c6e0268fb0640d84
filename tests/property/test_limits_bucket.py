"""Laws of the reference model on random histories."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.limits import TenantLimits
from gateway.limits.bucket import NEVER_FITS_SECONDS, Outcome, Reply, TenantBuckets

LEASE_MS, KEEP_MS = 5_000, 8_000


@dataclass(frozen=True)
class Step:
    """After a pause: reserve, or settle with a share of what was reserved (None: nothing was sent)."""

    pause_ms: int
    request_id: str
    tokens: int
    settle_percent: int | str | None


limits_values = st.builds(TenantLimits, st.integers(0, 300), st.integers(0, 3_000), st.integers(0, 4))
steps = st.builds(
    Step,
    st.sampled_from((0, 0, 1, 7, 250, 1_000, 6_000, 40_000)),
    st.sampled_from("abcdefgh"),
    st.integers(1, 2_000),
    st.one_of(st.just("reserve"), st.none(), st.integers(0, 100)),
)
histories = st.lists(steps, max_size=60)


def play(buckets: TenantBuckets, limits: TenantLimits, now_ms: int, step: Step) -> Reply | bool:
    match step.settle_percent:
        case "reserve":
            return buckets.reserve(now_ms, step.request_id, step.tokens, limits, LEASE_MS, KEEP_MS)
        case None:
            return buckets.settle(now_ms, step.request_id, None, limits)
        case percent:
            used = step.tokens * int(percent) // 100
            return buckets.settle(now_ms, step.request_id, used, limits)


def state(buckets: TenantBuckets) -> tuple[object, ...]:
    return tuple(copy.deepcopy(getattr(buckets, name)) for name in ("_requests", "_tokens", "_leases"))


@settings(max_examples=100, deadline=None)
@given(limits_values, histories)
def test_never_grants_more_than_one_bucket_and_its_refill(limits: TenantLimits, history: list[Step]) -> None:
    buckets, now_ms = TenantBuckets(), 0
    held: dict[str, tuple[int, int]] = {}
    spent_tokens = spent_requests = 0
    for step in history:
        now_ms += step.pause_ms
        result = play(buckets, limits, now_ms, step)
        if isinstance(result, Reply) and result.outcome == Outcome.GRANTED:
            held[step.request_id] = (step.tokens, now_ms)
            spent_tokens += step.tokens
            spent_requests += 1
        elif result is True:
            tokens, _ = held.pop(step.request_id)
            if step.settle_percent is None:
                spent_tokens, spent_requests = spent_tokens - tokens, spent_requests - 1
            else:
                assert isinstance(step.settle_percent, int)
                spent_tokens += step.tokens * step.settle_percent // 100 - tokens
        live = [start for _, start in held.values() if start + LEASE_MS > now_ms]
        assert len(live) <= limits.concurrency
        if isinstance(result, Reply) and result.outcome == Outcome.GRANTED:
            assert spent_tokens * 60_000 <= limits.tokens_per_minute * (60_000 + now_ms)
            assert spent_requests * 60_000 <= limits.requests_per_minute * (60_000 + now_ms)


@settings(max_examples=60, deadline=None)
@given(limits_values, histories)
def test_refusal_takes_nothing(limits: TenantLimits, history: list[Step]) -> None:
    buckets, now_ms = TenantBuckets(), 0
    for step in history:
        now_ms += step.pause_ms
        buckets._drop_expired(now_ms)
        before = state(buckets)
        result = play(buckets, limits, now_ms, step)
        if result is False or (isinstance(result, Reply) and result.outcome != Outcome.GRANTED):
            assert state(buckets) == before


@settings(max_examples=60, deadline=None)
@given(limits_values, histories, st.integers(1, 3_000))
def test_retry_after_is_honest(limits: TenantLimits, history: list[Step], tokens: int) -> None:
    buckets, now_ms = TenantBuckets(), 0
    for step in history:
        now_ms += step.pause_ms
        play(buckets, limits, now_ms, step)
    refused = buckets.reserve(now_ms, "new", tokens, limits, LEASE_MS, KEEP_MS)
    if refused.outcome not in (Outcome.REQUESTS, Outcome.TOKENS):
        return
    fits = tokens <= limits.tokens_per_minute and limits.requests_per_minute > 0
    later_ms = now_ms + refused.retry_after_seconds * 1000
    later = buckets.reserve(later_ms, "new", tokens, limits, LEASE_MS, KEEP_MS)
    if fits:
        assert later.outcome in (Outcome.GRANTED, Outcome.CONCURRENCY)
        assert refused.retry_after_seconds <= 120
    else:
        assert refused.retry_after_seconds >= NEVER_FITS_SECONDS
        assert later.outcome != Outcome.GRANTED


@settings(max_examples=60, deadline=None)
@given(limits_values, histories)
def test_every_step_done_twice_equals_once(limits: TenantLimits, history: list[Step]) -> None:
    once, twice, now_ms = TenantBuckets(), TenantBuckets(), 0
    for step in history:
        now_ms += step.pause_ms
        first = play(once, limits, now_ms, step)
        assert play(twice, limits, now_ms, step) == first
        play(twice, limits, now_ms, step)
        assert state(once) == state(twice)


@settings(max_examples=60, deadline=None)
@given(limits_values, st.integers(1, 3_000))
def test_settling_what_was_never_sent_leaves_no_trace(limits: TenantLimits, tokens: int) -> None:
    used, fresh = TenantBuckets(), TenantBuckets()
    used.reserve(0, "a", tokens, limits, LEASE_MS, KEEP_MS)
    used.settle(0, "a", None, limits)
    assert used.reserve(0, "b", tokens, limits, LEASE_MS, KEEP_MS) == fresh.reserve(
        0, "b", tokens, limits, LEASE_MS, KEEP_MS
    )
