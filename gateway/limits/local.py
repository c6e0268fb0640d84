"""The conservative local cap of one process, for the time that Redis cannot be asked.

Invariants
1. It gives each tenant at most a `SHARE`th of each limit, and never more than the limit itself.
2. It is never unlimited: at most `TENANTS_MAX` tenants are remembered, and one more is refused.
"""

from __future__ import annotations

from gateway.domain.limits import Exceeded, Reservation, TenantLimits, Usage
from gateway.limits.bucket import (
    SLOT_RETRY_SECONDS,
    TenantBuckets,
    bounded_tokens,
    bounded_usage,
    to_reservation,
)

#: Each process gets this share of a limit, so up to ten replicas together stay within it.
SHARE = 10

#: Tenants that one process remembers while degraded.
TENANTS_MAX = 4096


def conservative(limits: TenantLimits) -> TenantLimits:
    """A tenth of each limit; of requests and slots at least one, when the limit itself allows one."""
    return TenantLimits(
        requests_per_minute=max(min(1, limits.requests_per_minute), limits.requests_per_minute // SHARE),
        tokens_per_minute=limits.tokens_per_minute // SHARE,
        concurrency=max(min(1, limits.concurrency), limits.concurrency // SHARE),
    )


class LocalCap:
    """Buckets of this process. Time is an argument: milliseconds of a monotonic clock."""

    __slots__ = ("_shares", "_tenants")

    def __init__(self) -> None:
        self._tenants: dict[str, TenantBuckets] = {}
        self._shares: dict[str, TenantLimits] = {}

    def reserve(
        self,
        now_ms: int,
        tenant: str,
        request_id: str,
        tokens: int,
        limits: TenantLimits,
        *,
        lease_ms: int,
        keep_ms: int,
    ) -> Reservation | Exceeded:
        """A degraded reservation under a tenth of `limits`, or a refusal."""
        share = conservative(limits)
        buckets = self._tenants.get(tenant)
        if buckets is None:
            if len(self._tenants) >= TENANTS_MAX:
                self._forget_idle(now_ms)
            if len(self._tenants) >= TENANTS_MAX:
                # fail-closed: a tenant that cannot be counted is not served.
                return Exceeded("concurrency", share.concurrency, SLOT_RETRY_SECONDS)
            buckets = self._tenants[tenant] = TenantBuckets()
        self._shares[tenant] = share
        reply = buckets.reserve(now_ms, request_id, bounded_tokens(tokens), share, lease_ms, keep_ms)
        return to_reservation(reply, request_id, tenant, share, degraded=True)

    def settle(self, now_ms: int, reservation: Reservation, usage: Usage | None) -> bool:
        """Settle a degraded reservation under its tenant's last limits; False: nothing to settle."""
        buckets = self._tenants.get(reservation.tenant)
        if buckets is None:
            return False
        share = self._shares[reservation.tenant]
        return buckets.settle(now_ms, reservation.request_id, bounded_usage(usage), share)

    def _forget_idle(self, now_ms: int) -> None:
        for tenant in [name for name, buckets in self._tenants.items() if buckets.is_idle(now_ms)]:
            del self._tenants[tenant], self._shares[tenant]
