"""Whether anything of a label went to a destination in a period, from the records alone. Pure.

A record `admitted` is durable before a connection is opened and names every place that the request may go to;
nothing is opened outside it. So a request whose `admitted` record names no such place did not go there,
whatever came after: a crash in between takes nothing from the proof. Where the record names such a place,
the closing record tells whether it was tried.

What counts
- violation: the closing record's destination or one of its attempts is such a place. An attempt that failed
  counts: bytes may have left.
- undecided: the place was permitted, and no closing record tells what happened, or it is `abandoned`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.audit.schema import RecordDoc, RouteDoc
from gateway.audit.verify import RECORD
from gateway.domain.label import Level

#: The selector for every hosted destination, whatever its name.
HOSTED = "hosted"
_DECODER = msgspec.json.Decoder(RecordDoc)
_ENDS = (b"completed", b"aborted", b"abandoned")
_PHASES = (b"admitted", b"denied", *_ENDS)


@dataclass(frozen=True, slots=True)
class Question:
    """Did anything labelled `level` or above go to `destination` (a name, or `hosted`)?

    The period is [`start`, `end`) in UTC, compared as text with the records' `ts_utc`; empty: unbounded.
    """

    level: Level
    destination: str
    start: str = ""
    end: str = ""

    def is_within(self, ts_utc: str) -> bool:
        """Whether a record of this time belongs to the period."""
        return self.start <= ts_utc and (not self.end or ts_utc < self.end)


@dataclass(frozen=True, slots=True)
class Sighting:
    """One request that went there, or may have gone; `seq` is that of its `admitted` record."""

    request_id: str
    seq: int
    label: str
    place: str


@dataclass(slots=True)
class Egress:
    """What the records say. `counts` are requests by (label, where): hosted, private, denied, undecided."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    policies: dict[str, str] = field(default_factory=dict)
    violations: list[Sighting] = field(default_factory=list)
    undecided: list[Sighting] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    first_utc: str = ""
    last_utc: str = ""

    @property
    def holds(self) -> bool:
        """True when nothing went there, and nothing is left open."""
        return not (self.violations or self.undecided or self.unreadable)


@dataclass(slots=True)
class _Open:
    """A request between its `admitted` and its closing record."""

    seq: int
    label: Level
    route: RouteDoc | None


def examine(records: Iterable[bytes], question: Question, hosted_names: Mapping[str, bool]) -> Egress:
    """The answer from stored records in order; `hosted_names` says which known places are hosted."""
    found = Egress()
    waiting: dict[str, _Open] = {}
    seq = -1
    for stored in records:
        seen = RECORD.match(stored)
        seq = int(seen[2]) if seen else seq + 1
        phase = seen[3] if seen else b""
        if phase == b"log":
            continue
        record = _decoded(stored) if phase in _PHASES else None
        if record is None:
            # fail-closed: a request that cannot be read may have been any.
            found.unreadable.append(seq)
            continue
        if phase in _ENDS:
            opened = waiting.pop(record.request_id, None)
            if opened is not None:
                _close(found, question, record, opened, hosted_names)
        elif question.is_within(record.ts_utc):
            _begin(found, record, seq, waiting)
    for request_id, opened in waiting.items():
        _unclosed(found, question, request_id, opened, hosted_names)
    return found


def known_places(records: Iterable[bytes]) -> dict[str, bool]:
    """Which places are hosted, as closing records say it; a place that was ever hosted counts as such."""
    names: dict[str, bool] = {}
    for stored in records:
        seen = RECORD.match(stored)
        if seen is None or seen[3] not in _ENDS:
            continue
        record = _decoded(stored)
        route = record.decision.route if record and record.decision else None
        if route is not None and route.destination is not None:
            names[route.destination] = names.get(route.destination, False) or route.hosted is not False
    return names


def _decoded(stored: bytes) -> RecordDoc | None:
    try:
        return _DECODER.decode(stored)
    except (msgspec.DecodeError, ValueError):
        return None


def _begin(found: Egress, record: RecordDoc, seq: int, waiting: dict[str, _Open]) -> None:
    found.first_utc = found.first_utc or record.ts_utc
    found.last_utc = record.ts_utc
    decision = record.decision
    seen = decision.classifier if decision else None
    # fail-closed: without a label it counts as the highest.
    label = Level.RESTRICTED if seen is None else Level.parse(seen.level)
    if decision is not None and decision.policy is not None:
        found.policies.setdefault(decision.policy.sha256, record.ts_utc)
    if record.phase == "denied":
        found.counts["unlabelled" if seen is None else label.word, "denied"] += 1
    else:
        waiting[record.request_id] = _Open(seq, label, decision.route if decision else None)


def _close(
    found: Egress, question: Question, record: RecordDoc, opened: _Open, names: Mapping[str, bool]
) -> None:
    route = record.decision.route if record.decision else None
    if record.phase == "abandoned" or route is None:
        _unclosed(found, question, record.request_id, opened, names)
        return
    tried = [attempt.destination for attempt in route.attempts]
    if route.destination is not None and route.destination not in tried:
        tried.append(route.destination)
    hosted = [place for place in tried if _is_hosted(place, route, names)]
    found.counts[opened.label.word, "hosted" if hosted else "private"] += 1
    if opened.label < question.level:
        return
    there = hosted if question.destination == HOSTED else [p for p in tried if p == question.destination]
    for place in there[:1]:
        found.violations.append(Sighting(record.request_id, opened.seq, opened.label.word, place))


def _unclosed(
    found: Egress, question: Question, request_id: str, opened: _Open, names: Mapping[str, bool]
) -> None:
    """A request of which only the permit is known."""
    route = opened.route
    places = route.destinations if route else ()
    if question.destination != HOSTED:
        may = [place for place in places if place == question.destination]
    elif route is not None and route.hosted is False:
        may = []
    else:
        # fail-closed: a place that no record calls private may be hosted.
        may = [place for place in places if names.get(place, True)] or ([] if places else ["unknown"])
    found.counts[opened.label.word, "undecided" if may or route is None else "private"] += 1
    if opened.label >= question.level and (may or route is None):
        place = may[0] if may else "unknown"
        found.undecided.append(Sighting(request_id, opened.seq, opened.label.word, place))


def _is_hosted(place: str, route: RouteDoc, names: Mapping[str, bool]) -> bool:
    if place == route.destination:
        return route.hosted is not False
    return names.get(place, True)
