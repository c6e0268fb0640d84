from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.affinity import Placements
from gateway.upstream.replicas import LOAD_BOUND, Hold, Replica, Verdict, by_load, by_prefix, placed, take

LOADS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1000)), min_size=1, max_size=6)


def replicas(*loads: tuple[int, int]) -> list[Replica]:
    return [Replica(at, weight, 8, outstanding_tokens=load) for at, (weight, load) in enumerate(loads)]


def taken(replica: Replica, tokens: int = 10, now: float = 0.0) -> Hold:
    hold = take(replica, "m", tokens, now)
    assert hold is not None
    return hold


def test_the_least_outstanding_tokens_for_the_weight_come_first() -> None:
    found = by_load(replicas((1, 100), (4, 200), (1, 60)))
    assert [each.index for each in found] == [1, 2, 0]


def test_idle_replicas_take_turns_by_weight() -> None:
    some = replicas((1, 0), (3, 0))
    turns: Counter[int] = Counter()
    for _ in range(400):
        first = by_load(some)[0]
        taken(first).end("good", 0.0)
        turns[first.index] += 1
    assert turns == {0: 100, 1: 300}


def test_a_conversation_returns_to_its_replica_until_that_is_overloaded() -> None:
    some = replicas((1, 0), (1, 0), (1, 0))
    placements = Placements()
    home = by_prefix(some, [7], placements, 100)[0]
    placements.note([7], home.index)
    assert by_prefix(some, [7, 8], placements, 100)[0] is home
    hold = taken(home, 900)
    moved = by_prefix(some, [7, 8], placements, 100)[0]
    assert moved is not home
    placements.note([7, 8], moved.index)
    hold.end("good", 0.0)
    assert by_prefix(some, [7, 8, 9], placements, 100)[0] is moved, "its newest cache is there"
    assert placed(placements.find([7, 8]), moved.index) == "home"


def test_an_idle_replica_takes_a_request_of_any_size() -> None:
    some = replicas((1, 0), (1, 0))
    first = by_prefix(some, [3], Placements(), 10_000)[0]
    placements = Placements()
    placements.note([3], 1 - first.index)
    assert by_prefix(some, [3], placements, 10_000)[0].index == 1 - first.index


@given(LOADS, st.lists(st.integers(0, 99), min_size=1, max_size=5), st.integers(1, 500), st.integers(0, 5))
def test_the_first_choice_is_within_the_bound_unless_it_is_idle(
    loads: list[tuple[int, int]], hashes: list[int], tokens: int, known: int
) -> None:
    some = replicas(*loads)
    placements = Placements()
    placements.note(hashes[:1], known % len(some))
    order = by_prefix(some, hashes, placements, tokens)
    assert sorted(each.index for each in order) == list(range(len(some)))
    total = sum(load for _, load in loads) + tokens
    weights = sum(weight for weight, _ in loads)
    first = order[0]
    bound = LOAD_BOUND * total * first.weight / weights + 1
    assert (
        first.outstanding_tokens == 0
        or first.outstanding_tokens + tokens <= bound
        or all(each.outstanding_tokens + tokens > LOAD_BOUND * total * each.weight / weights for each in some)
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["good", "bad", "limited", "refused", "unknown"])),
        max_size=60,
    )
)
def test_nothing_is_left_of_holds_that_ended(steps: list[tuple[int, Verdict]]) -> None:
    some = replicas((1, 0), (1, 0), (1, 0))
    now = 0.0
    for at, verdict in steps:
        now += 3.0
        hold = take(some[at], "m", 10, now)
        if hold is not None:
            hold.end(verdict, now)
            hold.end("good", now)
    for each in some:
        assert each.outstanding_tokens == 0
        assert each.lane("m").concurrency.in_flight == 0
        assert not each.lane("m").breaker.is_probing


def test_a_429_shrinks_the_limit_and_never_opens_the_breaker() -> None:
    [replica] = replicas((1, 0))
    for now in range(0, 40, 2):
        hold = take(replica, "m", 1, float(now))
        assert hold is not None
        hold.end("limited", float(now))
    lane = replica.lane("m")
    assert not lane.breaker.is_open(40.0)
    assert lane.concurrency.limit == 1
    first = taken(replica, now=50.0)
    assert take(replica, "m", 1, 50.0) is None
    first.end("good", 50.0)
    assert take(replica, "m", 1, 51.0) is not None


def test_a_model_that_fails_does_not_close_its_neighbour() -> None:
    [replica] = replicas((1, 0))
    for _ in range(5):
        hold = take(replica, "bad", 1, 0.0)
        assert hold is not None
        hold.end("bad", 0.0)
    assert take(replica, "bad", 1, 1.0) is None
    assert take(replica, "good", 1, 1.0) is not None


def test_a_probe_closes_the_breaker_when_tokens_come_not_at_its_end() -> None:
    [replica] = replicas((1, 0))
    for _ in range(5):
        taken(replica).end("bad", 0.0)
    probe = taken(replica, now=6.0)
    assert take(replica, "m", 1, 6.0) is None, "one probe at a time"
    probe.progress()
    assert take(replica, "m", 1, 6.0) is not None
    probe.end("bad", 7.0)
    assert not replica.lane("m").breaker.is_open(7.0), "one failure after it is one failure"
