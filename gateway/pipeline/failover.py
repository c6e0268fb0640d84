"""Stage 8: from an admitted request to an open answer, over the destinations of its permit.

Invariants
1. Only destinations of the permit are tried, in the order that the upstream gives them.
2. A refusal of the request itself is never routed around.
3. Each further attempt, at another destination or again at the same one, is authorised anew (the token
   still holds, and the policy in force permits this destination for these facts) and is in the audit log
   before a byte of it leaves.
4. The total deadline is that of the exchange: an attempt gets what the earlier ones have left.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.audit.canonical import LogEvent
from gateway.domain.admitted import Admitted
from gateway.domain.decision import Destination, Permit
from gateway.errors import (
    DestinationBusy,
    Refusal,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.pipeline.admit import Walk
from gateway.pipeline.hold import Hold
from gateway.pipeline.ports import Place, UpstreamAnswer
from gateway.pipeline.records import Outcome
from gateway.snapshot import Snapshot


def may_try_next(refusal: Refusal) -> bool:
    """Whether another destination of the permit may be asked after this refusal."""
    if isinstance(refusal, UpstreamRejected):
        # A refusal of the request itself is never routed around; a provider's 429 says "not now".
        return refusal.upstream_status == 429
    if isinstance(refusal, UpstreamTimeout):
        return refusal.code == "upstream-connect-timeout"
    return isinstance(refusal, UpstreamUnavailable | UpstreamFailed | DestinationBusy)


def still_permits(used: Snapshot, current: Snapshot, admitted: Admitted, place: Destination) -> bool:
    """Whether the policy in force still permits this destination; `used` is the request's own snapshot."""
    if current is used:
        return place in admitted.permit.destinations
    decision = current.decide(admitted.facts)
    if not isinstance(decision, Permit) or place not in decision.destinations:
        return False
    # fail-closed: what this exchange honours was fixed when it was admitted; other duties need a new request.
    return decision.obligations == admitted.permit.obligations


class Failover:
    """The attempts of one exchange. `open` is called once, `leave` at the end of the answer.

    `mark(stage)` notes when a stage was over.
    """

    __slots__ = (
        "_admitted",
        "_began_ns",
        "_count",
        "_entered",
        "_hold",
        "_mark",
        "_outcome",
        "_snapshot",
        "_walk",
    )

    def __init__(
        self,
        walk: Walk,
        snapshot: Snapshot,
        admitted: Admitted,
        outcome: Outcome,
        mark: Callable[[str], None],
        hold: Hold,
    ) -> None:
        self._walk = walk
        self._snapshot = snapshot
        self._admitted = admitted
        self._outcome = outcome
        self._began_ns = walk.clock_ns()
        self._count = 1
        self._mark = mark
        self._hold = hold
        self._entered: Place | None = None

    async def open(self) -> UpstreamAnswer:
        """The first destination of the permit that begins to answer.

        Raises the refusal of the last one asked, `AuditUnavailable`.
        """
        outcome, upstream = self._outcome, self._walk.upstream
        refusal: Refusal = UpstreamUnavailable("No permitted destination is available. Try again later.")
        for position, place in enumerate(self._places()):
            if position and not may_try_next(refusal):
                break
            outcome.destination = place
            try:
                await self._enter(place)
                await self._hold.attempt(place)
                if position:
                    await self._admit_again(place, refusal.code)
                outcome.is_open = True
                answer = await upstream.open(
                    self._admitted, place, waited_seconds=self._waited_seconds(), again=self._again
                )
            except Refusal as failure:
                self.leave()
                refusal = failure
                # A destination that accepted the request and then was silent may still charge for it.
                outcome.is_open = isinstance(refusal, UpstreamTimeout)
                outcome.attempts.append((place.name, refusal.code))
            else:
                outcome.attempts.append((place.name, "answered"))
                outcome.upstream_request_id = answer.upstream_request_id
                return answer
        raise refusal

    def _places(self) -> tuple[Destination, ...]:
        """Destinations of the permit whose models could take the request, in the order to try them."""
        admitted, permit = self._admitted, self._admitted.permit
        chat = admitted.request.chat
        fitting = [
            place
            for place in permit.destinations
            if self._walk.excess(admitted.facts, chat, permit, place) is None
        ]
        return self._walk.upstream.order(fitting)

    def leave(self) -> None:
        """Give the place at a destination of bounded capacity on. Idempotent."""
        if self._entered is not None:
            self._entered.leave()
            self._entered = None

    async def _enter(self, place: Destination) -> None:
        """A place at a destination that takes a bounded number at a time. Raises `DestinationBusy`."""
        admitted = self._admitted
        tenant, tokens = admitted.principal.tenant, admitted.reservation.tokens
        self._entered = await self._walk.doors.enter(
            place.name, admitted.workload, tenant, tokens, admitted.max_wait_seconds
        )
        if self._entered is not None:
            self._mark("queue")

    async def _again(self, code: str) -> None:
        """An attempt at the same destination ended so; another one is about to begin there."""
        place = self._outcome.destination
        assert place is not None
        self._outcome.attempts.append((place.name, code))
        await self._admit_again(place, code)

    def _is_authorised(self, place: Destination) -> bool:
        admitted = self._admitted
        now_seconds = admitted.facts.at_seconds + int(self._waited_seconds())
        if now_seconds >= admitted.principal.expires_at_seconds:
            # fail-closed: a token that has ended in the meantime authorises nothing more.
            return False
        return still_permits(self._snapshot, self._walk.snapshots.current, admitted, place)

    async def _admit_again(self, place: Destination, code: str) -> None:
        """Authorise a further attempt and make it durable before it is made. `code` is why there is one.

        Raises `UpstreamUnavailable`, `AuditUnavailable`; then nothing leaves.
        """
        if not self._is_authorised(place):
            # fail-closed: what was permitted a moment ago is not any more.
            raise UpstreamUnavailable("This destination is no longer permitted.", code="not-permitted")
        self._count += 1
        facts: tuple[tuple[str, str | int], ...] = (
            ("request_id", self._admitted.request_id),
            ("intent_seq", self._admitted.receipt.seq),
            ("attempt", self._count),
            ("destination", place.name),
            ("destination_model", place.model),
            ("region", place.region),
            ("clearance", place.clearance.word),
            ("hosted", int(place.hosted)),
        )
        await self._walk.journal.record_event(LogEvent("upstream-attempt", code, facts))

    def _waited_seconds(self) -> float:
        return (self._walk.clock_ns() - self._began_ns) / 1e9
