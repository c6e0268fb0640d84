"""What the limits should be, from the audit log alone.

Enters: stored records, oldest first, of every writer's log. Leaves: a settlement for each request that ended,
and the money of each quota for a day and its month. A request without an end counts with what it reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date

import msgspec

from gateway.domain.limits import Usage


class _Actor(msgspec.Struct, frozen=True):
    subject_ref: str = ""
    client_id: str = ""


class _Who(msgspec.Struct, frozen=True):
    tenant: str
    actor: _Actor = _Actor()


class _Limits(msgspec.Struct, frozen=True):
    reserved_tokens: int
    settled_tokens: int | None = None
    degraded: bool = False
    cost_usd_micros: int = 0


class _Route(msgspec.Struct, frozen=True):
    model_asked: str = ""


class _Decision(msgspec.Struct, frozen=True):
    limits: _Limits | None = None
    route: _Route = _Route()


class _Record(msgspec.Struct, frozen=True):
    phase: str
    request_id: str
    ts_utc: str
    who: _Who | None = None
    decision: _Decision | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """One admitted request. `usage` is None while no record says how it ended, or when nothing was sent."""

    request_id: str
    tenant: str
    client_id: str
    subject_ref: str
    model: str
    day: str
    tokens: int
    cost_usd_micros: int
    is_ended: bool = False
    usage: Usage | None = None


@dataclass(slots=True)
class Rebuilt:
    """All admitted requests of the logs that did not run on the local cap, by id."""

    held: dict[str, Held] = field(default_factory=dict)

    def spent(self, today: date) -> dict[tuple[str, str, str], tuple[int, int]]:
        """(tenant, scope, owner) → micro-dollars of this day and of this month."""
        sums: dict[tuple[str, str, str], tuple[int, int]] = {}
        for each in self.held.values():
            if not each.day.startswith(today.isoformat()[:7]):
                continue
            of_day = each.cost_usd_micros if each.day == today.isoformat() else 0
            for scope, owner in (
                ("tenant", ""),
                ("key", each.client_id or "-"),
                ("user", each.subject_ref),
                ("model", each.model),
            ):
                day, month = sums.get((each.tenant, scope, owner), (0, 0))
                sums[each.tenant, scope, owner] = (day + of_day, month + each.cost_usd_micros)
        return sums

    def ended(self) -> Iterator[Held]:
        """Requests that a record says the end of."""
        return (each for each in self.held.values() if each.is_ended)


def rebuild(records: Iterable[bytes]) -> Rebuilt:
    """What these records say. Records of other kinds are passed over."""
    rebuilt, decoder = Rebuilt(), msgspec.json.Decoder(_Record)
    for stored in records:
        record = decoder.decode(stored)
        limits = record.decision.limits if record.decision is not None else None
        if limits is None or limits.degraded or record.who is None or record.decision is None:
            continue
        if record.phase == "admitted":
            rebuilt.held[record.request_id] = Held(
                record.request_id,
                record.who.tenant,
                record.who.actor.client_id,
                record.who.actor.subject_ref,
                record.decision.route.model_asked,
                record.ts_utc[:10],
                limits.reserved_tokens,
                limits.cost_usd_micros,
            )
        elif record.phase in ("completed", "aborted") and limits.settled_tokens is not None:
            _end(rebuilt, record.request_id, limits)
    return rebuilt


def _end(rebuilt: Rebuilt, request_id: str, limits: _Limits) -> None:
    begun = rebuilt.held.get(request_id)
    if begun is not None:
        # Nothing settled means that nothing was accepted anywhere: the request is given back too.
        usage = Usage(limits.settled_tokens or 0, 0) if limits.settled_tokens else None
        rebuilt.held[request_id] = replace(
            begun, cost_usd_micros=limits.cost_usd_micros, is_ended=True, usage=usage
        )
