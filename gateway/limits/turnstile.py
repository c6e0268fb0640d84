"""The doors of destinations with bounded capacity: a request waits here for its place, or is told at once.

Invariants
1. A `Pass` is given only while `FairQueue` counts its ticket as running; `Pass.leave` gives the place on.
2. Whoever stops waiting (deadline, cancel) is out of the queue before the exception is seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.errors import DestinationBusy
from gateway.limits.fair_queue import Capacity, FairQueue, Full, Ticket


@dataclass(frozen=True, slots=True)
class Door:
    """Capacity of one destination, and how long a request waits for it when its caller does not say."""

    capacity: Capacity
    wait_seconds: float


class Pass:
    """A place at a destination, held until `leave`."""

    __slots__ = ("_leave",)

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def leave(self) -> None:
        """Give the place on. Idempotent."""
        self._leave()


class Turnstile:
    """All doors of one process. `clock` is a monotonic clock in seconds."""

    def __init__(self, doors: Mapping[str, Door], clock: Callable[[], float]) -> None:
        self._doors = doors
        self._queues = {name: FairQueue(door.capacity) for name, door in doors.items()}
        self._waiters: dict[Ticket, asyncio.Future[None]] = {}
        self._clock = clock

    @property
    def queues(self) -> Mapping[str, FairQueue]:
        """The waiting room of each destination that has a door."""
        return self._queues

    async def enter(
        self, destination: str, workload: str, tenant: str, tokens: int, wait_seconds: float | None
    ) -> Pass | None:
        """Wait for a place; None when the destination has no door. Raises `DestinationBusy`.

        `tokens` is the request's estimate, prompt and allowed output. `wait_seconds` is how long its caller
        would wait; it can only shorten the door's own bound.
        """
        queue = self._queues.get(destination)
        if queue is None:
            return None
        now = self._clock()
        bound = self._doors[destination].wait_seconds
        patience = bound if wait_seconds is None else min(bound, wait_seconds)
        ticket = Ticket(workload, tenant, max(1, tokens), now + max(patience, 1e-3))
        started = queue.offer(ticket, now)
        if isinstance(started, Full):
            raise _busy(started.reason, started.retry_after_seconds)
        self._wake(started)
        if not ticket.is_running:
            await self._wait(queue, ticket, patience)
        return Pass(lambda: self._wake(queue.leave(ticket, self._clock())))

    async def _wait(self, queue: FairQueue, ticket: Ticket, patience: float) -> None:
        future = self._waiters[ticket] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(patience):
                await future
        except TimeoutError:
            self._wake(queue.leave(ticket, self._clock()))
            expected = queue.expected_seconds(ticket)
            raise _busy("destination-wait-too-long", max(1, round(expected or 1.0))) from None
        except BaseException:
            self._wake(queue.leave(ticket, self._clock()))
            raise
        finally:
            self._waiters.pop(ticket, None)

    def _wake(self, started: tuple[Ticket, ...]) -> None:
        for ticket in started:
            future = self._waiters.get(ticket)
            if future is not None and not future.done():
                future.set_result(None)


def _busy(reason: str, retry_after_seconds: int) -> DestinationBusy:
    return DestinationBusy(
        f"The destination has no place for this request soon enough. Try again in {retry_after_seconds} s.",
        code=reason,
        retry_after_seconds=retry_after_seconds,
    )
