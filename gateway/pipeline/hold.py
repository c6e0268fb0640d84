"""What one exchange holds of the limits: the tenant's buckets from admission on, an account's for an attempt.

Invariants
1. Every hold is settled once, whatever the number of calls; a fault of the limiter is no fault of the answer.
2. An attempt that a shared account has no room for is not made, and burns nothing of the account.
3. A hold that is in use does not run out: it is extended long before its lease ends.
"""

from __future__ import annotations

import asyncio
import time

from gateway.domain.admitted import Admitted
from gateway.domain.decision import Destination
from gateway.domain.limits import Exceeded, Reservation, Usage
from gateway.errors import DestinationBusy
from gateway.pipeline.admit import Walk
from gateway.snapshot import Snapshot


class Hold:
    """The holds of one exchange. `attempt` before each attempt, `settle` at the end."""

    __slots__ = (
        "_account",
        "_admitted",
        "_booked",
        "_extended_at",
        "_extending",
        "_is_settled",
        "_snapshot",
        "_walk",
    )

    def __init__(self, walk: Walk, snapshot: Snapshot, admitted: Admitted) -> None:
        self._walk = walk
        self._snapshot = snapshot
        self._admitted = admitted
        self._account: Reservation | None = None
        self._booked = admitted.reservation.tokens
        self._extended_at = time.monotonic()
        self._extending: asyncio.Task[None] | None = None
        self._is_settled = False

    async def attempt(self, place: Destination) -> None:
        """Take the buckets that tenants share at this destination. Raises `DestinationBusy`.

        What an earlier attempt took of another account is given back: nothing was generated there.
        """
        await self._give_back_account()
        shared = self._snapshot.account(place.name)
        if shared is None:
            return
        answer = await self._walk.limiter.reserve_account(self._admitted.reservation, *shared)
        if isinstance(answer, Exceeded):
            raise DestinationBusy(
                f"The shared limit on {answer.bucket} of this destination is used up. "
                f"Try again in {answer.retry_after_seconds} s.",
                code="account-limit-exceeded",
                retry_after_seconds=answer.retry_after_seconds,
            )
        self._account = answer

    def keep(self, used_tokens: int) -> None:
        """Extend the holds when it is time, or when more was used than is held. Returns at once."""
        now = time.monotonic()
        is_due = now - self._extended_at >= self._walk.limiter.extend_seconds
        if self._is_settled or self._extending is not None or not (is_due or used_tokens > self._booked):
            return
        self._extended_at = now
        self._booked = max(self._booked, used_tokens)
        self._extending = asyncio.ensure_future(self._extend(self._booked))
        self._extending.add_done_callback(self._extended)

    def cost(self, place: Destination | None, usage: Usage | None) -> int:
        """What the exchange costs, in micro-dollars; what was reserved when no price is known any more."""
        reserved = self._admitted.reservation.cost_usd_micros
        if usage is None or place is None or not reserved:
            return 0
        cost = self._snapshot.cost(place, usage, self._admitted.facts.at_seconds)
        return reserved if cost is None else cost

    async def settle(self, place: Destination | None, usage: Usage | None) -> None:
        """Settle all holds, once; shielded from cancellation."""
        if self._is_settled:
            return
        self._is_settled = True
        if self._extending is not None:
            self._extending.cancel()
        settling = asyncio.ensure_future(self._settle(self.cost(place, usage), usage))
        try:
            await asyncio.shield(settling)
        except Exception as fault:  # noqa: BLE001
            # The lease heals the slot; the tokens stay spent, which is the safe side.
            self._walk.report_fault("settling failed", fault)

    async def _settle(self, cost: int, usage: Usage | None) -> None:
        account, self._account = self._account, None
        try:
            await self._walk.limiter.settle(self._admitted.reservation, usage, cost)
        finally:
            if account is not None:
                await self._walk.limiter.settle(account, usage, cost)

    async def _give_back_account(self) -> None:
        account, self._account = self._account, None
        if account is not None:
            await self._walk.limiter.settle(account, None)

    async def _extend(self, tokens: int) -> None:
        await self._walk.limiter.extend(self._admitted.reservation, tokens)
        if self._account is not None:
            await self._walk.limiter.extend(self._account, tokens)

    def _extended(self, task: asyncio.Task[None]) -> None:
        self._extending = None
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self._walk.report_fault("extending failed", fault)
