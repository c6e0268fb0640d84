"""The reference model of reserve, settle and extend for one tenant or account; the Lua scripts do the same.

Requests and tokens per minute are counted in a sliding window of one-second slots. Slot numbers are Unix
seconds; a slot leaves the window when the second after it is 60 s old, so the window covers 60 to 61
seconds and no 60 seconds, wherever they begin, hold more than the limit. A token bucket holds a full
minute and refills meanwhile, so it grants up to twice the limit in its first minute (ADR 0012).
Over 400 lines because it follows the Lua scripts step by step and is read beside them.

Invariants
1. All or none: a refusal changes no window, no lease, no money and no record.
2. One id is debited once and settled once, whatever the number of calls.
3. A sum exceeds its limit only when the limit was lowered. Overdraft waits as debt (at most one limit) and
   takes room as soon as there is some, before any new request does.
4. Leases past their time hold nothing; tokens and money of a lease that was never settled stay spent.
5. `now_ms` may step back (a new primary): the newest slot seen stays the present one.
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import NamedTuple

from gateway.domain.limits import (
    LIMIT_MAX,
    USD_MICROS_MAX,
    Exceeded,
    LimitState,
    Quota,
    Reservation,
    ScopeLimits,
    Usage,
)

SLOT_MS = 1000

#: Slots of a window: 60 whole seconds and the one that is still running.
SLOTS = 61

#: Without calls for two windows, sums and debt are gone.
FORGOTTEN_MS = 2 * SLOTS * SLOT_MS

DAY_MS = 86_400_000

#: Retry-After when a request is larger than the whole limit: time alone will not help.
NEVER_FITS_SECONDS = 60

#: Retry-After when all slots are held: a slot is free when some call ends, which nobody knows before.
SLOT_RETRY_SECONDS = 1

#: How long a settled id is remembered, so that a second reserve or settle of it does nothing. Not until
#: the lease's end: at 3,000 requests/s that is two million records, for ids that nobody sends again.
TOMBSTONE_MS = 60_000

#: Numbers of one quota in a reply.
STATE_FIELDS = 8


class Outcome(IntEnum):
    """What a reserve call came to. The numbers are those that reserve.lua answers."""

    GRANTED = 1
    REPLAYED = 2
    REQUESTS = -1
    TOKENS = -2
    CONCURRENCY = -3
    CLOSED = -4
    DAY = -5
    MONTH = -6


BUCKETS = {
    Outcome.REQUESTS: "requests",
    Outcome.TOKENS: "tokens",
    Outcome.CONCURRENCY: "concurrency",
    Outcome.CLOSED: "concurrency",
    Outcome.DAY: "day",
    Outcome.MONTH: "month",
}


class Reply(NamedTuple):
    """Answer of a reserve call, field by field as reserve.lua gives it.

    `tokens` is what this id holds (0 when refused). `quota` is the position of the quota that refuses.
    `states` are eight numbers for each quota: requests left, seconds until all are back, tokens left,
    seconds, slots left, seconds, micro-dollars left of the day, of the month (-1: no such budget).
    `CLOSED`: the id was settled, or its lease is over.
    """

    outcome: int
    now_ms: int
    tokens: int
    retry_after_seconds: int
    quota: int
    states: tuple[int, ...]


@dataclass(slots=True)
class _Window:
    """One quota's state. `requests` and `tokens` go from slot number to count."""

    at: int = 0
    requests: dict[int, int] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    debt: int = 0
    leases: dict[str, int] = field(default_factory=dict)
    day: int = -1
    day_spent: int = 0
    month: int = -1
    month_spent: int = 0

    def debt_at(self, slot: int, limits: ScopeLimits) -> int:
        return 0 if slot - self.at >= 2 * SLOTS else min(self.debt, limits.tokens_per_minute)

    def money_at(self, now_ms: int) -> tuple[int, int, int, int]:
        """Day, spent in it, month, spent in it."""
        day = max(now_ms // DAY_MS, self.day)
        month = month_of(day)
        return (
            day,
            self.day_spent if day == self.day else 0,
            month,
            self.month_spent if month == self.month else 0,
        )

    def go(self, slot: int, limits: ScopeLimits, extra_debt: int = 0) -> None:
        """Make `slot` the present one, and let debt take the room there is."""
        debt, limit = self.debt_at(slot, limits) + extra_debt, limits.tokens_per_minute
        self.at = slot
        for counts in (self.requests, self.tokens):
            for number in [number for number in counts if number <= slot - SLOTS]:
                del counts[number]
        part = min(debt, max(0, limit - _sum(self.tokens, slot)))
        self.tokens[slot] = self.tokens.get(slot, 0) + part
        self.debt = min(debt - part, limit)


@dataclass(slots=True)
class _Record:
    tokens: int
    first_tokens: int
    slot: int
    cost: int
    day: int
    lease_until_ms: int
    kept_until_ms: int
    is_settled: bool = False


def _sum(counts: dict[int, int], slot: int) -> int:
    return sum(count for number, count in counts.items() if number > slot - SLOTS)


def month_of(day: int) -> int:
    """Year times twelve plus month (from 0) of a Unix day."""
    date = datetime.fromtimestamp(day * 86_400, UTC)
    return date.year * 12 + date.month - 1


def _next_month(day: int) -> int:
    date = datetime.fromtimestamp(day * 86_400, UTC)
    return day - date.day + 1 + calendar.monthrange(date.year, date.month)[1]


def _until_slot(number: int, now_ms: int) -> int:
    return -(-(number * SLOT_MS - now_ms) // 1000)


def _freed_seconds(counts: dict[int, int], slot: int, short: int, now_ms: int) -> int:
    """Seconds until `short` has left the window; debt beyond that takes a second window."""
    total = 0
    for number in sorted(number for number in counts if number > slot - SLOTS):
        total += counts[number]
        if total >= short:
            return _until_slot(number + SLOTS, now_ms)
    return _until_slot(slot + 2 * SLOTS, now_ms)


class Buckets:
    """State of all quotas of one tenant, or of one account. Time is an argument, in ms of one clock."""

    __slots__ = ("_records", "_windows")

    def __init__(self) -> None:
        self._windows: dict[tuple[str, str], _Window] = {}
        self._records: dict[str, _Record] = {}

    def reserve(
        self,
        now_ms: int,
        request_id: str,
        tokens: int,
        cost: int,
        quotas: Sequence[Quota],
        lease_ms: int,
        keep_ms: int,
    ) -> Reply:
        """Take one request, `tokens`, `cost` micro-dollars and one slot of every quota, or nothing.

        The slot is held for `lease_ms`; the record for `keep_ms` (not less), so that a late settlement
        still counts. Cost grows with the number of live leases.
        """
        self._drop_expired(now_ms)
        slot = self._slot(now_ms, quotas)
        record = self._records.get(request_id)
        if record is not None:
            is_held = not record.is_settled and now_ms < record.lease_until_ms
            outcome = Outcome.REPLAYED if is_held else Outcome.CLOSED
            held, wait = (record.tokens, 0) if is_held else (0, SLOT_RETRY_SECONDS)
            return self._reply(outcome, now_ms, slot, held, wait, 0, quotas)
        waits = [
            (wait, outcome, position)
            for position, quota in enumerate(quotas)
            for wait, outcome in self._waits(now_ms, slot, tokens, cost, quota)
        ]
        wait, refusal, position = max(waits, key=lambda each: each[0])
        if wait > 0:
            return self._reply(refusal, now_ms, slot, 0, wait, position, quotas)
        self._records[request_id] = _Record(
            tokens, tokens, slot, cost, now_ms // DAY_MS, now_ms + lease_ms, now_ms + keep_ms
        )
        for quota in quotas:
            window = self._window(quota)
            window.go(slot, quota.limits)
            window.requests[slot] = window.requests.get(slot, 0) + 1
            window.tokens[slot] += tokens
            window.leases[request_id] = now_ms + lease_ms
            self._spend(now_ms, quota, cost, None)
        return self._reply(Outcome.GRANTED, now_ms, slot, tokens, 0, 0, quotas)

    def settle(
        self, now_ms: int, request_id: str, used_tokens: int | None, used_cost: int, quotas: Sequence[Quota]
    ) -> bool:
        """Give back what was not used, or book the overdraft; free the slot. False: nothing to settle.

        `used_tokens` None means that nothing was sent: the request itself is given back too.
        """
        record = self._records.get(request_id)
        if record is None or record.is_settled or now_ms >= record.kept_until_ms:
            return False
        slot = self._slot(now_ms, quotas)
        used = used_tokens or 0
        change = (0 if used_tokens is None else used_cost) - record.cost
        back = max(0, min(record.tokens - used, record.first_tokens))
        for quota in quotas:
            window = self._window(quota)
            if slot - SLOTS < record.slot <= window.at:
                _take_back(window.requests, record.slot, 1 if used_tokens is None else 0)
                _take_back(window.tokens, record.slot, back)
            window.go(slot, quota.limits, max(0, used - record.tokens))
            window.leases.pop(request_id, None)
            self._spend(now_ms, quota, change, record.day)
        record.is_settled = True
        record.kept_until_ms = min(record.kept_until_ms, now_ms + TOMBSTONE_MS)
        return True

    def extend(
        self,
        now_ms: int,
        request_id: str,
        tokens: int,
        quotas: Sequence[Quota],
        lease_ms: int,
        keep_ms: int,
    ) -> bool:
        """Hold the slot for another `lease_ms`, and hold `tokens` from now on if that is more.

        What is more is booked whether it fits or not, because it has been used: the excess becomes debt.
        False: nothing to extend.
        """
        record = self._records.get(request_id)
        if record is None or record.is_settled or now_ms >= record.kept_until_ms:
            return False
        slot = self._slot(now_ms, quotas)
        for quota in quotas:
            window = self._window(quota)
            window.go(slot, quota.limits, max(0, tokens - record.tokens))
            window.leases[request_id] = now_ms + lease_ms
        record.tokens = max(record.tokens, tokens)
        record.lease_until_ms, record.kept_until_ms = now_ms + lease_ms, now_ms + keep_ms
        return True

    def is_idle(self, now_ms: int) -> bool:
        """True when forgetting all this changes nothing: no record, no window and no money left."""
        return all(now_ms >= record.kept_until_ms for record in self._records.values()) and all(
            now_ms - window.at * SLOT_MS >= FORGOTTEN_MS and window.day < 0
            for window in self._windows.values()
        )

    def _window(self, quota: Quota) -> _Window:
        return self._windows.setdefault((quota.scope, quota.owner), _Window())

    def _slot(self, now_ms: int, quotas: Sequence[Quota]) -> int:
        return max(now_ms // SLOT_MS, *(self._window(quota).at for quota in quotas))

    def _waits(
        self, now_ms: int, slot: int, tokens: int, cost: int, quota: Quota
    ) -> list[tuple[int, Outcome]]:
        """Seconds until each bucket of a quota has room; 0: it has room now."""
        window, limits, budget = self._window(quota), quota.limits, quota.limits.budget
        debt = window.debt_at(slot, limits)
        waits = []
        for counts, units, limit, owed, outcome in (
            (window.requests, 1, limits.requests_per_minute, 0, Outcome.REQUESTS),
            (window.tokens, tokens, limits.tokens_per_minute, debt, Outcome.TOKENS),
        ):
            short = _sum(counts, slot) + owed + units - limit
            if units > limit:
                waits.append((NEVER_FITS_SECONDS, outcome))
            else:
                waits.append((_freed_seconds(counts, slot, short, now_ms) if short > 0 else 0, outcome))
        if len(window.leases) >= limits.concurrency:
            wait = SLOT_RETRY_SECONDS if limits.concurrency else NEVER_FITS_SECONDS
            waits.append((wait, Outcome.CONCURRENCY))
        day, day_spent, _, month_spent = window.money_at(now_ms)
        if budget.day_usd_micros is not None and day_spent + cost > budget.day_usd_micros:
            waits.append((max(1, -(-((day + 1) * DAY_MS - now_ms) // 1000)), Outcome.DAY))
        if budget.month_usd_micros is not None and month_spent + cost > budget.month_usd_micros:
            waits.append((max(1, -(-(_next_month(day) * DAY_MS - now_ms) // 1000)), Outcome.MONTH))
        return waits

    def _spend(self, now_ms: int, quota: Quota, change: int, since_day: int | None) -> None:
        """Count money. What is given back goes to its own day and month only, while they last."""
        budget, window = quota.limits.budget, self._window(quota)
        if budget.day_usd_micros is None and budget.month_usd_micros is None:
            return
        window.day, window.day_spent, window.month, window.month_spent = window.money_at(now_ms)
        if since_day in (None, window.day) or change > 0:
            window.day_spent = max(0, window.day_spent + change)
        if since_day is None or month_of(since_day) == window.month or change > 0:
            window.month_spent = max(0, window.month_spent + change)

    def _drop_expired(self, now_ms: int) -> None:
        for window in self._windows.values():
            for request_id in [key for key, until_ms in window.leases.items() if until_ms <= now_ms]:
                del window.leases[request_id]
        for request_id in [key for key, kept in self._records.items() if kept.kept_until_ms <= now_ms]:
            del self._records[request_id]

    def _reply(
        self,
        outcome: Outcome,
        now_ms: int,
        slot: int,
        tokens: int,
        wait: int,
        position: int,
        quotas: Sequence[Quota],
    ) -> Reply:
        states = tuple(number for quota in quotas for number in self._state(now_ms, slot, quota))
        return Reply(int(outcome), now_ms, tokens, wait, position, states)

    def _state(self, now_ms: int, slot: int, quota: Quota) -> tuple[int, ...]:
        window, limits = self._window(quota), quota.limits
        requests, tokens = _sum(window.requests, slot), _sum(window.tokens, slot)
        debt = window.debt_at(slot, limits)
        back_seconds = max(0, _until_slot(window.at + SLOTS, now_ms))
        debt_seconds = max(0, _until_slot(slot + 2 * SLOTS, now_ms))
        last_ms = max(window.leases.values(), default=now_ms)
        _, day_spent, _, month_spent = window.money_at(now_ms)
        day, month = limits.budget.day_usd_micros, limits.budget.month_usd_micros
        return (
            max(0, limits.requests_per_minute - requests),
            back_seconds if requests else 0,
            max(0, limits.tokens_per_minute - tokens - debt),
            debt_seconds if debt else back_seconds if tokens else 0,
            max(0, limits.concurrency - len(window.leases)),
            -(-(last_ms - now_ms) // 1000),
            -1 if day is None else max(0, day - day_spent),
            -1 if month is None else max(0, month - month_spent),
        )


def _take_back(counts: dict[int, int], slot: int, amount: int) -> None:
    counts[slot] = counts.get(slot, 0) - min(amount, counts.get(slot, 0))


def bounded_tokens(tokens: int) -> int:
    """`tokens` within 1 to `LIMIT_MAX` + 1; the upper end fits into no bucket, so it is refused."""
    return min(max(1, tokens), LIMIT_MAX + 1)


def bounded_usage(usage: Usage | None) -> int | None:
    """Used tokens within 0 to `LIMIT_MAX` + 1; None when nothing was sent."""
    return None if usage is None else min(max(0, usage.total_tokens), LIMIT_MAX + 1)


def bounded_cost(cost: int) -> int:
    """Micro-dollars within 0 to `USD_MICROS_MAX` + 1; the upper end fits into no budget."""
    return min(max(0, cost), USD_MICROS_MAX + 1)


def to_reservation(reply: Reply, hold: Reservation, *, degraded: bool) -> Reservation | Exceeded:
    """The domain's words for a reply. A closed id is refused: nothing is held for it any more."""
    quotas = hold.quotas
    states = tuple(
        state
        for position, quota in enumerate(quotas)
        for state in _states(quota, reply.states[position * STATE_FIELDS : (position + 1) * STATE_FIELDS])
    )
    if reply.outcome > 0:
        return Reservation(
            hold.request_id,
            hold.tenant,
            reply.tokens,
            degraded,
            states,
            quotas,
            hold.cost_usd_micros,
            hold.account,
        )
    # fail-closed: a closed id holds no slot, so it counts as a slot that is not free.
    bucket, quota = BUCKETS[Outcome(reply.outcome)], quotas[reply.quota]
    limits = quota.limits
    limit = {
        "requests": limits.requests_per_minute,
        "tokens": limits.tokens_per_minute,
        "concurrency": limits.concurrency,
        "day": limits.budget.day_usd_micros or 0,
        "month": limits.budget.month_usd_micros or 0,
    }[bucket]
    return Exceeded(bucket, limit, max(1, reply.retry_after_seconds), states, quota.scope)


def _states(quota: Quota, numbers: tuple[int, ...]) -> list[LimitState]:
    """States of the buckets that bound something; a limit of `LIMIT_MAX` does not."""
    limits, prefix = quota.limits, "" if quota.scope == "tenant" else f"{quota.scope}-"
    rows = [
        LimitState(prefix + "requests", limits.requests_per_minute, numbers[0], numbers[1]),
        LimitState(prefix + "tokens", limits.tokens_per_minute, numbers[2], numbers[3]),
        LimitState(prefix + "concurrency", limits.concurrency, numbers[4], numbers[5]),
    ]
    if prefix:
        rows = [row for row in rows if row.limit < LIMIT_MAX]
    budget = limits.budget
    if budget.day_usd_micros is not None:
        soft, seconds = budget.soft_day_usd_micros, DAY_MS // 1000
        rows.append(LimitState(prefix + "day", budget.day_usd_micros, numbers[6], seconds, soft))
    if budget.month_usd_micros is not None:
        soft, seconds = budget.soft_month_usd_micros, 31 * DAY_MS // 1000
        rows.append(LimitState(prefix + "month", budget.month_usd_micros, numbers[7], seconds, soft))
    return rows
