"""Who may use a destination of bounded capacity next. Pure: `now` is an argument, in seconds.

A destination runs at most `running` requests at a time. Who comes later waits, in a bounded queue for each
workload class. Classes share free places by weight; inside a class tenants take turns by deficit round robin
(Shreedhar and Varghese, 1996), so a tenant with a thousand waiting requests delays another by one turn and
not by a thousand. Inside a tenant the earliest deadline comes first.

Invariants
1. Never more than `running` tickets run, and of one class never more than its own share of them.
2. Whenever a place is free, no ticket waits whose class may still run one (work conserving).
3. A ticket runs at most once, and never after its deadline.
4. A ticket is refused on arrival when its class's queue is full, or when the wait that is expected is longer
   than it may wait. Its `retry_after_seconds` is that expectation, not a constant.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Half-life of what is remembered of the speed, seconds.
_HALF_LIFE: Final = 30.0
#: Tokens that a tenant's turn adds to what it may start. About one ordinary request.
QUANTUM_TOKENS: Final = 1024
MAX_RETRY_AFTER_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class ClassShare:
    """What one workload class gets of a destination: turns by weight, most that run, most that wait."""

    weight: int
    running: int
    waiting: int

    def __post_init__(self) -> None:
        if min(self.weight, self.running, self.waiting) < 1:
            raise ValueError("a class needs a weight, a running share and a queue of at least 1 each")


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a destination takes at a time, and each class's share of it."""

    running: int
    classes: Mapping[str, ClassShare]

    def __post_init__(self) -> None:
        if self.running < 1 or not self.classes:
            raise ValueError("a capacity needs at least one place and one class")


@dataclass(frozen=True, slots=True)
class Full:
    """No place, and none soon enough.

    `reason` is the refusal's code; `waiting_seconds` the wait that was expected (None: unknown).
    """

    reason: str
    retry_after_seconds: int
    waiting_seconds: float | None


@dataclass(eq=False, slots=True)
class Ticket:
    """One request at the door. `deadline` is the moment from which it will not wait any longer."""

    workload: str
    tenant: str
    tokens: int
    deadline: float
    is_running: bool = False
    is_gone: bool = False
    started_at: float = 0.0


@dataclass(slots=True)
class _Tenant:
    """Waiting tickets of one tenant in one class, and the tokens that its turns have saved up."""

    waiting: list[tuple[float, int, Ticket]] = field(default_factory=list)
    deficit: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Class:
    share: ClassShare
    running: int = 0
    waiting: int = 0
    tenants: dict[str, _Tenant] = field(default_factory=dict)
    turns: deque[str] = field(default_factory=deque)
    passed: float = 0.0  # tokens started so far, divided by weight


class FairQueue:
    """The waiting room of one destination."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._classes = {name: _Class(share) for name, share in capacity.classes.items()}
        self._running = 0
        self._order = 0
        self._clock = 0.0  # `passed` of the class that started last: where an idle class joins in
        self._done_tokens = 0.0
        self._done_seconds = 0.0
        self._decayed_at = 0.0

    @property
    def running_count(self) -> int:
        """Tickets that run now."""
        return self._running

    def waiting_count(self, workload: str) -> int:
        """Tickets of this class that wait now."""
        return self._classes[workload].waiting

    def offer(self, ticket: Ticket, now: float) -> Full | tuple[Ticket, ...]:
        """Take a ticket. Gives the tickets that start now, or why this one was turned away."""
        group = self._classes[ticket.workload]
        if group.waiting or not self._may_start(group):
            expected, patience = self.expected_seconds(ticket), ticket.deadline - now
            if group.waiting >= group.share.waiting:
                return Full("destination-queue-full", _retry_after(expected), expected)
            if expected is not None and expected > patience:
                return Full(
                    "destination-wait-too-long", _retry_after(expected - max(0.0, patience)), expected
                )
        self._join(group, ticket)
        return self._start(now)

    def leave(self, ticket: Ticket, now: float) -> tuple[Ticket, ...]:
        """A ticket is done, late, or its client went. Gives those that start now. Idempotent."""
        if ticket.is_gone:
            return ()
        ticket.is_gone = True
        group = self._classes[ticket.workload]
        if ticket.is_running:
            self._running -= 1
            group.running -= 1
            self._learn(ticket, now)
        else:
            self._unqueue(group, ticket)
        return self._start(now)

    def expected_seconds(self, ticket: Ticket) -> float | None:
        """How long this ticket would wait if it came now; None before anything was measured.

        Tokens that would go first, over the speed measured for one place times the places, times the
        class's part of the turns. Of another tenant's queue only as much goes first as of one's own.
        """
        if self._done_seconds <= 0.0 or self._done_tokens <= 0.0:
            return None
        group = self._classes[ticket.workload]
        own = group.tenants.get(ticket.tenant)
        before = own.tokens if own else 0
        reach = before + ticket.tokens
        ahead = before + sum(
            min(tenant.tokens, reach) for name, tenant in group.tenants.items() if name != ticket.tenant
        )
        rivals = [each for each in self._classes.values() if each.waiting or each is group]
        part = group.share.weight / sum(each.share.weight for each in rivals)
        places = min(self._capacity.running, group.share.running)
        speed = self._done_tokens / self._done_seconds
        # One more turn of a running request has to end before anything starts.
        first = ticket.tokens / speed / places
        return ahead / (speed * places * part) + first

    def _may_start(self, group: _Class) -> bool:
        return self._running < self._capacity.running and group.running < group.share.running

    def _join(self, group: _Class, ticket: Ticket) -> None:
        if not group.waiting:
            # An idle class has saved nothing up: it joins where the others are.
            group.passed = max(group.passed, self._clock)
        tenant = group.tenants.get(ticket.tenant)
        if tenant is None:
            tenant = group.tenants[ticket.tenant] = _Tenant()
            group.turns.append(ticket.tenant)
        self._order += 1
        heapq.heappush(tenant.waiting, (ticket.deadline, self._order, ticket))
        tenant.tokens += ticket.tokens
        group.waiting += 1

    def _unqueue(self, group: _Class, ticket: Ticket) -> None:
        """Take a waiting ticket out of every count; a tenant without tickets has saved nothing up."""
        tenant = group.tenants[ticket.tenant]
        tenant.tokens -= ticket.tokens
        group.waiting -= 1
        while tenant.waiting and (tenant.waiting[0][2].is_gone or tenant.waiting[0][2].is_running):
            heapq.heappop(tenant.waiting)
        if not tenant.waiting:
            del group.tenants[ticket.tenant]
            group.turns.remove(ticket.tenant)

    def _start(self, now: float) -> tuple[Ticket, ...]:
        started: list[Ticket] = []
        for group in self._classes.values():
            self._drop_late(group, now)
        while ready := [each for each in self._classes.values() if each.waiting and self._may_start(each)]:
            group = min(ready, key=_next_turn)
            ticket = _in_turn(group)
            ticket.is_running, ticket.started_at = True, now
            self._unqueue(group, ticket)
            self._clock = group.passed
            group.passed += ticket.tokens / group.share.weight
            group.running += 1
            self._running += 1
            started.append(ticket)
        return tuple(started)

    def _drop_late(self, group: _Class, now: float) -> None:
        """Forget tickets whose deadline has come: the earliest of each tenant is its first."""
        for tenant in list(group.tenants.values()):
            while tenant.waiting and (first := tenant.waiting[0][2]).deadline <= now:
                first.is_gone = True
                self._unqueue(group, first)

    def _learn(self, ticket: Ticket, now: float) -> None:
        fade = math.exp2((self._decayed_at - now) / _HALF_LIFE) if self._decayed_at else 1.0
        self._done_tokens = self._done_tokens * fade + ticket.tokens
        self._done_seconds = self._done_seconds * fade + max(now - ticket.started_at, 1e-3)
        self._decayed_at = now


def _next_turn(group: _Class) -> float:
    """Where one more ordinary request would bring this class. The lowest goes first, so weight is urgency."""
    return group.passed + QUANTUM_TOKENS / group.share.weight


def _in_turn(group: _Class) -> Ticket:
    """Deficit round robin: whose turn it is. Every tenant here has a ticket that waits."""
    turns, tenants = group.turns, group.tenants
    for _ in range(len(turns)):
        tenant = tenants[turns[0]]
        ticket = tenant.waiting[0][2]
        if tenant.deficit >= ticket.tokens:
            tenant.deficit -= ticket.tokens
            return ticket
        turns.rotate(-1)
    # Nobody has saved up enough: as many rounds pass at once as the first to start needs.
    missing = min(each.waiting[0][2].tokens - each.deficit for each in tenants.values())
    for each in tenants.values():
        each.deficit += QUANTUM_TOKENS * -(-missing // QUANTUM_TOKENS)
    return _in_turn(group)


def _retry_after(seconds: float | None) -> int:
    return max(1, min(MAX_RETRY_AFTER_SECONDS, math.ceil(seconds or 1.0)))
