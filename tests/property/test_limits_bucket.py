"""Laws of the reference model on random histories."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.limits import Quota, ScopeLimits
from gateway.limits.bucket import NEVER_FITS_SECONDS, SLOT_MS, Buckets, Outcome, Reply

LEASE_MS, KEEP_MS = 5_000, 8_000


@dataclass(frozen=True)
class Step:
    """After a pause: reserve, or settle with a share of what was reserved (None: nothing was sent)."""

    pause_ms: int
    request_id: str
    tokens: int
    settle_percent: int | str | None


limits_values = st.builds(ScopeLimits, st.integers(0, 300), st.integers(0, 3_000), st.integers(0, 4))
steps = st.builds(
    Step,
    st.sampled_from((0, 0, 1, 7, 250, 1_000, 6_000, 40_000)),
    st.sampled_from("abcdefgh"),
    st.integers(1, 2_000),
    st.one_of(st.just("reserve"), st.none(), st.integers(0, 100)),
)
histories = st.lists(steps, max_size=60)


def of(limits: ScopeLimits) -> tuple[Quota, ...]:
    return (Quota("tenant", "", limits), Quota("user", "u", limits))


def reserve(buckets: Buckets, now_ms: int, request_id: str, tokens: int, limits: ScopeLimits) -> Reply:
    return buckets.reserve(now_ms, request_id, tokens, 0, of(limits), LEASE_MS, KEEP_MS)


def play(buckets: Buckets, limits: ScopeLimits, now_ms: int, step: Step) -> Reply | bool:
    match step.settle_percent:
        case "reserve":
            return reserve(buckets, now_ms, step.request_id, step.tokens, limits)
        case None:
            return buckets.settle(now_ms, step.request_id, None, 0, of(limits))
        case percent:
            used = step.tokens * int(percent) // 100
            return buckets.settle(now_ms, step.request_id, used, 0, of(limits))


def state(buckets: Buckets) -> object:
    """What counts of it: an untouched window is the same as none."""
    return {
        name: (window.at, dict(window.requests), dict(window.tokens), window.debt, dict(window.leases))
        for name, window in buckets._windows.items()
        if window.at
    }


@settings(max_examples=150, deadline=None)
@given(limits_values, histories)
def test_no_sixty_seconds_hold_more_than_the_limit(limits: ScopeLimits, history: list[Step]) -> None:
    """Wherever they begin; a call that was settled counts with what it used, as of its grant."""
    buckets, now_ms = Buckets(), 5_000_000
    grants: list[list[int]] = []
    held: dict[str, list[int]] = {}
    for step in history:
        now_ms += step.pause_ms
        result = play(buckets, limits, now_ms, step)
        if isinstance(result, Reply) and result.outcome == Outcome.GRANTED:
            held[step.request_id] = [now_ms, step.tokens, 1]
            grants.append(held[step.request_id])
        elif result is True:
            grant = held.pop(step.request_id)
            percent = step.settle_percent
            assert not isinstance(percent, str)
            # Step tokens stand for the usage, which may be more than was reserved: then it is debt, and no
            # grant; what was granted is the reservation.
            used = 0 if percent is None else step.tokens * percent // 100
            grant[1], grant[2] = min(grant[1], used), 0 if percent is None else 1
        live = [grant for grant in held.values() if grant[0] + LEASE_MS > now_ms]
        assert len(live) <= limits.concurrency
        recent = [grant for grant in grants if grant[0] > now_ms - 60 * SLOT_MS]
        assert sum(grant[1] for grant in recent) <= limits.tokens_per_minute
        assert sum(grant[2] for grant in recent) <= limits.requests_per_minute


@settings(max_examples=60, deadline=None)
@given(limits_values, histories)
def test_refusal_takes_nothing(limits: ScopeLimits, history: list[Step]) -> None:
    buckets, now_ms = Buckets(), 5_000_000
    for step in history:
        now_ms += step.pause_ms
        buckets._drop_expired(now_ms)
        before = state(buckets)
        result = play(buckets, limits, now_ms, step)
        if result is False or (isinstance(result, Reply) and result.outcome != Outcome.GRANTED):
            assert state(buckets) == before


@settings(max_examples=60, deadline=None)
@given(limits_values, histories, st.integers(1, 3_000))
def test_retry_after_is_honest(limits: ScopeLimits, history: list[Step], tokens: int) -> None:
    buckets, now_ms = Buckets(), 5_000_000
    for step in history:
        now_ms += step.pause_ms
        play(buckets, limits, now_ms, step)
    refused = reserve(buckets, now_ms, "new", tokens, limits)
    if refused.outcome not in (Outcome.REQUESTS, Outcome.TOKENS):
        return
    fits = tokens <= limits.tokens_per_minute and limits.requests_per_minute > 0
    later_ms = now_ms + refused.retry_after_seconds * 1000
    later = reserve(buckets, later_ms, "new", tokens, limits)
    if fits:
        assert later.outcome in (Outcome.GRANTED, Outcome.CONCURRENCY)
        assert refused.retry_after_seconds <= 122
    else:
        assert refused.retry_after_seconds >= NEVER_FITS_SECONDS
        assert later.outcome != Outcome.GRANTED


@settings(max_examples=60, deadline=None)
@given(limits_values, histories)
def test_every_step_done_twice_equals_once(limits: ScopeLimits, history: list[Step]) -> None:
    once, twice, now_ms = Buckets(), Buckets(), 5_000_000
    for step in history:
        now_ms += step.pause_ms
        first = play(once, limits, now_ms, step)
        assert play(twice, limits, now_ms, step) == first
        play(twice, limits, now_ms, step)
        assert state(once) == state(twice)


@settings(max_examples=60, deadline=None)
@given(limits_values, st.integers(1, 3_000))
def test_settling_what_was_never_sent_leaves_no_trace(limits: ScopeLimits, tokens: int) -> None:
    used, fresh = Buckets(), Buckets()
    reserve(used, 0, "a", tokens, limits)
    used.settle(0, "a", None, 0, of(limits))
    assert reserve(used, 0, "b", tokens, limits) == reserve(fresh, 0, "b", tokens, limits)
