"""The reference model of reserve and settle for one tenant; the Lua scripts do exactly the same.

Requests and tokens per minute are token buckets with continuous refill, not GCRA: both keep one number
per bucket, but only a bucket can carry debt and refunds without moving a "theoretical arrival time"
into the past. A bucket holds at most one minute's worth, so in any span of s seconds at most
limit x (1 + s/60) is granted.

Levels are counted in grains: 60,000 grains are one request or token, so that the refill is exactly
`limit` grains in each millisecond. No rounding anywhere, and every number stays below 2^53, which is
what a Lua script can hold.

Invariants
1. All or none: a refusal changes no bucket, no lease and no record.
2. One id is debited once and settled once, whatever the number of calls.
3. A level stays within [-capacity, capacity]. Below 0 is debt: nothing is granted until it is repaid.
4. Leases past their time hold nothing; tokens of a lease that was never settled stay spent.
5. `now_ms` may step back (a new primary): nothing is refilled then, and time goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from gateway.domain.limits import LIMIT_MAX, Exceeded, LimitState, Reservation, TenantLimits, Usage

#: Grains in one request or token: milliseconds in a minute.
GRAINS = 60_000

#: A bucket in its deepest debt is full again after two minutes.
REFILL_MS_MAX = 120_000

#: Retry-After when a request is larger than the whole bucket: time alone will not help.
NEVER_FITS_SECONDS = 60

#: Retry-After when all slots are held: a slot is free when some call ends, which nobody knows before.
SLOT_RETRY_SECONDS = 1

#: How long a settled id is remembered, so that a second reserve or settle of it does nothing. Not until
#: the lease's end: at 3,000 requests/s that is two million records, for ids that nobody sends again.
TOMBSTONE_MS = 60_000


class Outcome(IntEnum):
    """What a reserve call came to. The numbers are those that reserve.lua answers."""

    GRANTED = 1
    REPLAYED = 2
    REQUESTS = -1
    TOKENS = -2
    CONCURRENCY = -3
    CLOSED = -4


class Reply(NamedTuple):
    """Answer of a reserve call, field by field as reserve.lua gives it.

    `tokens` is what this id holds (0 when refused). `CLOSED`: the id was settled, or its lease is over.
    """

    outcome: int
    now_ms: int
    tokens: int
    requests_remaining: int
    requests_reset_seconds: int
    tokens_remaining: int
    tokens_reset_seconds: int
    concurrency_remaining: int
    concurrency_reset_seconds: int
    retry_after_seconds: int


@dataclass(slots=True)
class _Record:
    tokens: int
    lease_until_ms: int
    kept_until_ms: int
    is_settled: bool = False


def refill(level: int | None, since_ms: int, now_ms: int, limit: int) -> int:
    """Level in grains at `now_ms` of a bucket that had `level` at `since_ms`; None means new, so full."""
    capacity = limit * GRAINS
    if level is None:
        return capacity
    elapsed_ms = min(max(0, now_ms - since_ms), REFILL_MS_MAX)
    return min(capacity, max(-capacity, min(capacity, level)) + elapsed_ms * limit)


def wait_seconds(level: int, need: int, limit: int) -> int:
    """Seconds until `need` requests or tokens fit; 0 when they fit now."""
    if need > limit:
        return NEVER_FITS_SECONDS
    short = need * GRAINS - level
    return max(1, -(-short // (limit * 1000))) if short > 0 else 0


def _reset_seconds(level: int, limit: int) -> int:
    return -(-(limit * GRAINS - level) // (limit * 1000)) if limit else 0


class TenantBuckets:
    """State of one tenant. Time is an argument, in milliseconds of one clock."""

    __slots__ = ("_at_ms", "_leases", "_records", "_requests", "_tokens")

    def __init__(self) -> None:
        self._requests: int | None = None
        self._tokens: int | None = None
        self._at_ms = 0
        self._leases: dict[str, int] = {}
        self._records: dict[str, _Record] = {}

    def reserve(
        self, now_ms: int, request_id: str, tokens: int, limits: TenantLimits, lease_ms: int, keep_ms: int
    ) -> Reply:
        """Take one request, `tokens` and one slot, or nothing.

        The slot is held for `lease_ms`; the record for `keep_ms` (not less), so that a late settlement
        still counts. Cost grows with the number of live leases.
        """
        self._drop_expired(now_ms)
        requests = refill(self._requests, self._at_ms, now_ms, limits.requests_per_minute)
        level = refill(self._tokens, self._at_ms, now_ms, limits.tokens_per_minute)
        record = self._records.get(request_id)
        if record is not None:
            is_held = not record.is_settled and now_ms < record.lease_until_ms
            outcome = Outcome.REPLAYED if is_held else Outcome.CLOSED
            held, wait = (record.tokens, 0) if is_held else (0, SLOT_RETRY_SECONDS)
            return self._reply(outcome, now_ms, held, requests, level, limits, wait)
        slot_wait = 0
        if len(self._leases) >= limits.concurrency:
            slot_wait = SLOT_RETRY_SECONDS if limits.concurrency else NEVER_FITS_SECONDS
        waits = (
            (wait_seconds(requests, 1, limits.requests_per_minute), Outcome.REQUESTS),
            (wait_seconds(level, tokens, limits.tokens_per_minute), Outcome.TOKENS),
            (slot_wait, Outcome.CONCURRENCY),
        )
        wait, refusal = max(waits, key=lambda pair: pair[0])
        if wait > 0:
            return self._reply(refusal, now_ms, 0, requests, level, limits, wait)
        self._requests = requests - GRAINS
        self._tokens = level - tokens * GRAINS
        self._at_ms = now_ms
        self._leases[request_id] = now_ms + lease_ms
        self._records[request_id] = _Record(tokens, now_ms + lease_ms, now_ms + keep_ms)
        return self._reply(Outcome.GRANTED, now_ms, tokens, self._requests, self._tokens, limits, 0)

    def settle(self, now_ms: int, request_id: str, used_tokens: int | None, limits: TenantLimits) -> bool:
        """Give back what was not used, or book the overdraft; free the slot. False: nothing to settle.

        `used_tokens` None means that nothing was sent: the request itself is given back too.
        """
        record = self._records.get(request_id)
        if record is None or record.is_settled or now_ms >= record.kept_until_ms:
            return False
        requests = refill(self._requests, self._at_ms, now_ms, limits.requests_per_minute)
        level = refill(self._tokens, self._at_ms, now_ms, limits.tokens_per_minute)
        if used_tokens is None:
            requests = min(limits.requests_per_minute * GRAINS, requests + GRAINS)
        capacity = limits.tokens_per_minute * GRAINS
        level += (record.tokens - (used_tokens or 0)) * GRAINS
        self._requests = requests
        self._tokens = max(-capacity, min(capacity, level))
        self._at_ms = now_ms
        self._leases.pop(request_id, None)
        record.is_settled = True
        record.kept_until_ms = min(record.kept_until_ms, now_ms + TOMBSTONE_MS)
        return True

    def is_idle(self, now_ms: int) -> bool:
        """True when forgetting this tenant changes nothing: no record left, and both buckets full."""
        return now_ms - self._at_ms >= REFILL_MS_MAX and all(
            now_ms >= record.kept_until_ms for record in self._records.values()
        )

    def _drop_expired(self, now_ms: int) -> None:
        for request_id in [key for key, until_ms in self._leases.items() if until_ms <= now_ms]:
            del self._leases[request_id]
        for request_id in [key for key, kept in self._records.items() if kept.kept_until_ms <= now_ms]:
            del self._records[request_id]

    def _reply(
        self,
        outcome: int,
        now_ms: int,
        tokens: int,
        requests: int,
        level: int,
        limits: TenantLimits,
        wait: int,
    ) -> Reply:
        last_ms = max(self._leases.values(), default=now_ms)
        return Reply(
            int(outcome),
            now_ms,
            tokens,
            max(0, requests // GRAINS),
            _reset_seconds(requests, limits.requests_per_minute),
            max(0, level // GRAINS),
            _reset_seconds(level, limits.tokens_per_minute),
            max(0, limits.concurrency - len(self._leases)),
            -(-(last_ms - now_ms) // 1000),
            wait,
        )


def bounded_tokens(tokens: int) -> int:
    """`tokens` within 1 to `LIMIT_MAX` + 1; the upper end fits into no bucket, so it is refused."""
    return min(max(1, tokens), LIMIT_MAX + 1)


def bounded_usage(usage: Usage | None) -> int | None:
    """Used tokens within 0 to `LIMIT_MAX` + 1; None when nothing was sent."""
    return None if usage is None else min(max(0, usage.total_tokens), LIMIT_MAX + 1)


def to_reservation(
    reply: Reply, request_id: str, tenant: str, limits: TenantLimits, *, degraded: bool
) -> Reservation | Exceeded:
    """The domain's words for a reply. A closed id is refused: nothing is held for it any more."""
    states = (
        LimitState(
            "requests", limits.requests_per_minute, reply.requests_remaining, reply.requests_reset_seconds
        ),
        LimitState("tokens", limits.tokens_per_minute, reply.tokens_remaining, reply.tokens_reset_seconds),
        LimitState(
            "concurrency", limits.concurrency, reply.concurrency_remaining, reply.concurrency_reset_seconds
        ),
    )
    if reply.outcome > 0:
        return Reservation(request_id, tenant, reply.tokens, degraded, states)
    match reply.outcome:
        case Outcome.REQUESTS:
            return Exceeded("requests", limits.requests_per_minute, reply.retry_after_seconds, states)
        case Outcome.TOKENS:
            return Exceeded("tokens", limits.tokens_per_minute, reply.retry_after_seconds, states)
        case _:
            # fail-closed: a closed id holds no slot, so it counts as a slot that is not free.
            return Exceeded("concurrency", limits.concurrency, max(1, reply.retry_after_seconds), states)
