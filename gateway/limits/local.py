"""The conservative local cap of one process, for the time that Redis cannot be asked.

Invariants
1. It gives each tenant at most a `SHARE`th of each limit, and never more than the limit itself.
2. It is never unlimited: at most `TENANTS_MAX` tenants are remembered, and one more is refused.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.domain.limits import Budget, Exceeded, Reservation, ScopeLimits, Usage
from gateway.limits.bucket import (
    SLOT_RETRY_SECONDS,
    Buckets,
    bounded_cost,
    bounded_tokens,
    bounded_usage,
    to_reservation,
)

#: Each process gets this share of a limit, so up to ten replicas together stay within it.
SHARE = 10

#: Tenants that one process remembers while degraded.
TENANTS_MAX = 4096


def conservative(limits: ScopeLimits) -> ScopeLimits:
    """A tenth of each limit; of requests and slots at least one, when the limit itself allows one."""
    budget = limits.budget
    return ScopeLimits(
        requests_per_minute=max(min(1, limits.requests_per_minute), limits.requests_per_minute // SHARE),
        tokens_per_minute=limits.tokens_per_minute // SHARE,
        concurrency=max(min(1, limits.concurrency), limits.concurrency // SHARE),
        budget=Budget(
            None if budget.day_usd_micros is None else budget.day_usd_micros // SHARE,
            None if budget.month_usd_micros is None else budget.month_usd_micros // SHARE,
        ),
    )


class LocalCap:
    """Buckets of this process. Time is an argument: milliseconds of a monotonic clock."""

    __slots__ = ("_tenants",)

    def __init__(self) -> None:
        self._tenants: dict[str, Buckets] = {}

    def reserve(
        self, now_ms: int, hold: Reservation, *, lease_ms: int, keep_ms: int
    ) -> Reservation | Exceeded:
        """A degraded reservation under a tenth of the limits of `hold`, or a refusal."""
        quotas = tuple(replace(quota, limits=conservative(quota.limits)) for quota in hold.quotas)
        buckets = self._tenants.get(hold.tenant)
        if buckets is None:
            if len(self._tenants) >= TENANTS_MAX:
                self._forget_idle(now_ms)
            if len(self._tenants) >= TENANTS_MAX:
                # fail-closed: a tenant that cannot be counted is not served.
                return Exceeded("concurrency", quotas[0].limits.concurrency, SLOT_RETRY_SECONDS)
            buckets = self._tenants[hold.tenant] = Buckets()
        share = replace(hold, quotas=quotas, degraded=True)
        reply = buckets.reserve(
            now_ms, hold.request_id, hold.tokens, hold.cost_usd_micros, quotas, lease_ms, keep_ms
        )
        return to_reservation(reply, share, degraded=True)

    def settle(self, now_ms: int, reservation: Reservation, usage: Usage | None, cost: int = 0) -> bool:
        """Settle a degraded reservation; False: nothing to settle."""
        buckets = self._tenants.get(reservation.tenant)
        if buckets is None:
            return False
        used = bounded_usage(usage)
        return buckets.settle(now_ms, reservation.request_id, used, bounded_cost(cost), reservation.quotas)

    def extend(
        self, now_ms: int, reservation: Reservation, tokens: int, *, lease_ms: int, keep_ms: int
    ) -> bool:
        """Extend a degraded reservation; False: nothing to extend."""
        buckets = self._tenants.get(reservation.tenant)
        if buckets is None:
            return False
        return buckets.extend(
            now_ms, reservation.request_id, bounded_tokens(tokens), reservation.quotas, lease_ms, keep_ms
        )

    def _forget_idle(self, now_ms: int) -> None:
        for tenant in [name for name, buckets in self._tenants.items() if buckets.is_idle(now_ms)]:
            del self._tenants[tenant]
