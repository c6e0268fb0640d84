from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.concurrency import Concurrency


def test_has_room_up_to_the_limit() -> None:
    limit = Concurrency(2)
    limit.enter()
    assert limit.has_room
    limit.enter()
    assert not limit.has_room
    limit.leave()
    assert limit.has_room


def test_a_429_halves_what_was_in_flight_and_a_burst_says_it_once() -> None:
    limit = Concurrency(512)
    for _ in range(40):
        limit.enter()
    for _ in range(10):
        limit.shrink(100.0)
        limit.leave()
    assert int(limit.limit) == 20
    limit.shrink(101.5)
    assert int(limit.limit) == 10


def test_grows_by_one_for_each_round_of_the_limit() -> None:
    limit = Concurrency(64)
    for _ in range(8):
        limit.enter()
    limit.shrink(0.0)
    assert int(limit.limit) == 4
    for _ in range(5):
        limit.grow()
    assert int(limit.limit) == 5


def test_comes_back_to_the_maximum_and_no_further() -> None:
    limit = Concurrency(3)
    limit.shrink(0.0)
    for _ in range(100):
        limit.grow()
    assert limit.limit == 3


@given(st.integers(1, 50), st.lists(st.tuples(st.sampled_from(["in", "out", "ok", "429"]), st.floats(0, 3))))
def test_the_limit_stays_between_one_and_the_maximum(maximum: int, steps: list[tuple[str, float]]) -> None:
    limit = Concurrency(maximum)
    now = 0.0
    for kind, pause in steps:
        now += pause
        if kind == "in" and limit.has_room:
            limit.enter()
        elif kind == "out" and limit.in_flight:
            limit.leave()
        elif kind == "ok":
            limit.grow()
        elif kind == "429":
            limit.shrink(now)
        assert 1 <= limit.limit <= maximum
        assert 0 <= limit.in_flight <= maximum
