from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.breaker import Breaker


def test_stays_closed_below_the_threshold() -> None:
    breaker = Breaker(threshold=3, open_seconds=5)
    for now in (0.0, 1.0):
        assert breaker.allow(now)
        breaker.fail(now)
    assert breaker.allow(2.0)
    assert not breaker.is_open(2.0)


def test_a_success_between_failures_starts_the_count_anew() -> None:
    breaker = Breaker(threshold=2, open_seconds=5)
    breaker.fail(0.0)
    breaker.succeed()
    breaker.fail(1.0)
    assert breaker.allow(1.5)


def test_opens_at_the_threshold_and_lets_one_probe_through_after_the_pause() -> None:
    breaker = Breaker(threshold=2, open_seconds=5)
    breaker.fail(0.0)
    breaker.fail(1.0)
    assert not breaker.allow(5.9)
    assert breaker.retry_after_seconds(2.0) == 4
    assert breaker.allow(6.0)
    assert not breaker.allow(6.0), "only one probe at a time"
    breaker.succeed()
    assert breaker.allow(6.1)


def test_a_failed_probe_opens_it_again_at_once() -> None:
    breaker = Breaker(threshold=3, open_seconds=5)
    for _ in range(3):
        breaker.fail(0.0)
    assert breaker.allow(5.0)
    breaker.fail(5.0)
    assert not breaker.allow(9.9)
    assert breaker.allow(10.0)


def test_an_abandoned_probe_gives_its_place_back() -> None:
    breaker = Breaker(threshold=1, open_seconds=5)
    breaker.fail(0.0)
    assert breaker.allow(5.0)
    breaker.abandon()
    assert breaker.allow(5.0)


@given(st.lists(st.tuples(st.sampled_from(["ok", "bad", "gone"]), st.floats(0, 3)), max_size=40))
def test_never_more_than_one_attempt_while_not_closed(steps: list[tuple[str, float]]) -> None:
    breaker = Breaker(threshold=2, open_seconds=2)
    now = 0.0
    for kind, pause in steps:
        now += pause
        was_closed = breaker.opened_at_seconds is None
        if not breaker.allow(now):
            continue
        if not was_closed:
            assert not breaker.allow(now)
        if kind == "ok":
            breaker.succeed()
        elif kind == "bad":
            breaker.fail(now)
        else:
            breaker.abandon()
        assert breaker.retry_after_seconds(now) >= 1
