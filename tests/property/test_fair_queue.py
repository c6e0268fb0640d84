"""The waiting room of a destination, on random histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.fair_queue import QUANTUM_TOKENS, Capacity, ClassShare, FairQueue, Full, Ticket

SHARES = {
    "interactive": ClassShare(8, 4, 64),
    "batch": ClassShare(2, 2, 16),
    "evaluation": ClassShare(1, 1, 8),
}
STEP = st.tuples(
    st.sampled_from(["offer", "offer", "leave", "give-up", "wait"]),
    st.sampled_from(sorted(SHARES)),
    st.sampled_from(["red", "green", "blue"]),
    st.integers(1, 6000),
    st.integers(0, 2**16),
    st.floats(0.1, 100.0),
)


class History:
    """Drives a queue and holds on to what must be true after every step."""

    def __init__(self, running: int) -> None:
        self.queue = FairQueue(Capacity(running, SHARES))
        self.places = running
        self.now = 1000.0
        self.running: list[Ticket] = []
        self.waiting: list[Ticket] = []
        self.ever: list[Ticket] = []

    def step(self, kind: str, workload: str, tenant: str, tokens: int, which: int, seconds: float) -> None:
        self.now += 0.01
        if kind == "offer":
            ticket = Ticket(workload, tenant, tokens, self.now + seconds)
            given = self.queue.offer(ticket, self.now)
            if isinstance(given, Full):
                assert 1 <= given.retry_after_seconds <= 3600
                self.check()
                return
            self.waiting.append(ticket)
            self.start(given)
        elif kind == "wait":
            self.now += seconds / 4
        else:
            group = self.running if kind == "leave" else self.waiting
            if group:
                ticket = group.pop(which % len(group))
                self.start(self.queue.leave(ticket, self.now))
                assert self.queue.leave(ticket, self.now) == ()
        self.check()

    def start(self, tickets: tuple[Ticket, ...]) -> None:
        for ticket in tickets:
            assert ticket.deadline > self.now, "never after its deadline"
            assert ticket not in self.ever, "never twice"
            self.ever.append(ticket)
            self.running.append(ticket)
            self.waiting.remove(ticket)
        self.waiting = [ticket for ticket in self.waiting if not ticket.is_gone]

    def check(self) -> None:
        assert self.queue.running_count == len(self.running) <= self.places
        for name, share in SHARES.items():
            running = sum(ticket.workload == name for ticket in self.running)
            alive = [t for t in self.waiting if t.workload == name and not t.is_gone]
            assert running <= share.running
            assert self.queue.waiting_count(name) == len(alive) <= share.waiting
            if alive:
                assert len(self.running) == self.places or running == share.running, "work conserving"


@given(st.integers(1, 6), st.lists(STEP, max_size=120))
def test_places_shares_and_deadlines_hold_and_no_ticket_is_lost(
    running: int, steps: list[tuple[str, str, str, int, int, float]]
) -> None:
    history = History(running)
    for step in steps:
        history.step(*step)
    # Whatever happened, the room empties when those who run leave.
    while history.running:
        history.now += 0.001
        history.start(history.queue.leave(history.running.pop(), history.now))
        history.check()
    assert not [ticket for ticket in history.waiting if not ticket.is_gone]


@given(st.lists(st.integers(100, 5000), min_size=2, max_size=5), st.integers(20, 80))
def test_tenants_with_work_waiting_get_the_same_tokens(sizes: list[int], count: int) -> None:
    queue = FairQueue(Capacity(1, {"batch": ClassShare(1, 1, 1_000_000)}))
    first = Ticket("batch", "first", 1, 1e9)
    assert queue.offer(first, 0.0) == (first,)
    for tenant, tokens in enumerate(sizes):
        for _ in range(count * 5000 // tokens):
            queue.offer(Ticket("batch", f"t{tenant}", tokens, 1e9), 0.0)
    served = dict.fromkeys((f"t{tenant}" for tenant in range(len(sizes))), 0)
    current = first
    for _ in range(count):
        (current,) = queue.leave(current, 0.0)
        served[current.tenant] += current.tokens
    assert max(served.values()) - min(served.values()) <= 2 * max(*sizes, QUANTUM_TOKENS) + QUANTUM_TOKENS


def test_a_thousand_waiting_requests_of_one_tenant_delay_another_by_turns_and_not_by_a_thousand() -> None:
    queue = FairQueue(Capacity(1, {"interactive": ClassShare(1, 1, 2000)}))
    running = Ticket("interactive", "greedy", 500, 1e9)
    queue.offer(running, 0.0)
    for _ in range(1000):
        queue.offer(Ticket("interactive", "greedy", 500, 1e9), 0.0)
    modest = Ticket("interactive", "modest", 500, 1e9)
    queue.offer(modest, 0.0)
    turns = 0
    while not modest.is_running:
        (running,) = queue.leave(running, 0.0)
        turns += 1
    assert turns <= 4


def test_interactive_work_is_ahead_by_weight_and_batch_is_not_starved() -> None:
    shares = {"interactive": ClassShare(4, 1, 900), "batch": ClassShare(1, 1, 900)}
    queue = FairQueue(Capacity(1, shares))
    running = Ticket("batch", "t", 100, 1e9)
    queue.offer(running, 0.0)
    for workload in shares:
        for _ in range(900):
            queue.offer(Ticket(workload, "t", 100, 1e9), 0.0)
    order = []
    for _ in range(1000):
        (running,) = queue.leave(running, 0.0)
        order.append(running.workload)
    # Four fifths, and a head start of less than a quantum.
    assert 800 <= order.count("interactive") <= 810
    assert "batch" in order[:40]


def test_the_earliest_deadline_of_a_tenant_comes_first() -> None:
    queue = FairQueue(Capacity(1, {"batch": ClassShare(1, 1, 10)}))
    running = Ticket("batch", "t", 1, 1e9)
    queue.offer(running, 0.0)
    late, early = Ticket("batch", "t", 1, 500.0), Ticket("batch", "t", 1, 50.0)
    queue.offer(late, 0.0)
    queue.offer(early, 0.0)
    assert queue.leave(running, 1.0) == (early,)


@pytest.mark.parametrize("patience", [0.5, 4.0])
def test_who_would_wait_too_long_is_told_at_once_and_for_how_long(patience: float) -> None:
    """Ten seconds for 1,000 tokens at one place: 100 tokens a second; 2,000 tokens wait."""
    queue = FairQueue(Capacity(1, {"batch": ClassShare(1, 1, 100)}))
    now, running = 0.0, Ticket("batch", "t", 1000, 1e9)
    queue.offer(running, now)
    for _ in range(2):
        queue.offer(Ticket("batch", "t", 1000, 1e9), now)
    (running,) = queue.leave(running, 10.0)
    answer = queue.offer(Ticket("batch", "t", 1000, 10.0 + patience), 10.0)
    assert isinstance(answer, Full)
    assert answer.reason == "destination-wait-too-long"
    assert answer.waiting_seconds == pytest.approx(20.0)
    assert answer.retry_after_seconds == pytest.approx(20.0 - patience, abs=1.0)
