"""The proof of no egress over random months: a planted violation is always found, and nothing else is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.bench import sample_record
from gateway.audit.canonical import Stamp, encode_request, seal, uuid7
from gateway.audit.egress import HOSTED, Egress, Question, Sighting, examine, known_places
from gateway.domain.label import Level
from gateway.domain.record import Phase, RequestRecord, RouteFact
from tests.fakes.audit_logs import CONTEXT

PLACES = {"hosted-openai": True, "hosted-spare": True, "private-moe": False}
ENDS = (Phase.COMPLETED, Phase.ABORTED, Phase.ABANDONED, None)


def record(request_id: str, phase: Phase, level: Level, day: int, route: RouteFact | None) -> bytes:
    base: RequestRecord = sample_record(phase, request_id)
    assert base.classifier is not None
    seen = dataclasses.replace(base.classifier, level=level.word) if phase is Phase.ADMITTED else None
    made = dataclasses.replace(base, classifier=seen, route=route)
    stamp = Stamp(uuid7(day, day), f"2026-11-{day:02}T12:00:00.000000Z", day)
    return seal(CONTEXT.head, 0, encode_request(made, CONTEXT, stamp))


def request(
    number: int, level: Level, day: int, permitted: Sequence[str], tried: Sequence[str], end: Phase | None
) -> list[bytes]:
    """The records of one request that was permitted some places and tried some of them."""
    name = f"req_{number}"
    hosted = any(PLACES[place] for place in permitted)
    intent = RouteFact("assistant", tuple(permitted), hosted=hosted)
    made = [record(name, Phase.ADMITTED, level, day, intent)]
    if end is None:
        return made
    if end is Phase.ABANDONED:
        return [*made, record(name, end, level, day, None)]
    last = tried[-1]
    attempts = tuple((place, "answered" if place == last else "upstream-timeout") for place in tried)
    route = RouteFact(
        "assistant", tuple(permitted), last, "m", PLACES[last], "eu", "restricted", len(tried), attempts
    )
    return [*made, record(name, end, level, day, route)]


REQUEST = st.tuples(
    st.sampled_from(list(Level)),
    st.integers(1, 30),
    st.lists(st.sampled_from(sorted(PLACES)), min_size=1, max_size=3, unique=True),
    st.integers(1, 3),
    st.sampled_from(ENDS),
)
PRIVATE_ONLY = st.tuples(
    st.sampled_from(list(Level)),
    st.integers(1, 30),
    st.just(["private-moe"]),
    st.just(1),
    st.sampled_from(ENDS),
)


def month(rows: Sequence[tuple[Level, int, list[str], int, Phase | None]]) -> list[bytes]:
    records: list[bytes] = []
    for number, (level, day, permitted, count, end) in enumerate(rows):
        records += request(number, level, day, permitted, permitted[:count], end)
    return records


def answer(records: list[bytes], question: Question) -> Egress:
    numbered = [each.replace(b'"seq":0,', b'"seq":%d,' % seq, 1) for seq, each in enumerate(records)]
    return examine(numbered, question, known_places(numbered))


@given(st.lists(PRIVATE_ONLY, max_size=20), st.sampled_from(list(Level)))
def test_a_month_that_stayed_private_is_proven_with_the_count_of_its_requests(
    rows: list[tuple[Level, int, list[str], int, Phase | None]], level: Level
) -> None:
    found = answer(month(rows), Question(level, HOSTED))
    assert found.holds
    assert sum(found.counts.values()) == len(rows)
    assert {where for _, where in found.counts} <= {"private"}


@given(st.lists(PRIVATE_ONLY, max_size=12), st.data())
def test_one_planted_request_is_found_wherever_it_stands_and_with_whatever_it_ended(
    rows: list[tuple[Level, int, list[str], int, Phase | None]], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.sampled_from([Phase.COMPLETED, Phase.ABORTED]))
    tried = data.draw(st.sampled_from([["hosted-openai"], ["hosted-openai", "private-moe"]]))
    planted = request(999, Level.RESTRICTED, 15, tried, tried, end)
    clean = month(rows[:place])
    # Another, harmless request made the hosted place known to the records.
    public = request(500, Level.PUBLIC, 1, ["hosted-openai"], ["hosted-openai"], Phase.COMPLETED)
    rest = [request(100 + n, *row[:3], row[2], row[4]) for n, row in enumerate(rows[place:])]
    records = [*public, *clean, *planted, *[each for group in rest for each in group]]
    found = answer(records, Question(Level.RESTRICTED, HOSTED))
    seq = len(public) + len(clean)
    assert found.violations == [Sighting("req_999", seq, "restricted", "hosted-openai")]
    assert not found.holds
    assert answer(records, Question(Level.RESTRICTED, "hosted-openai")).violations == found.violations
    assert answer(records, Question(Level.RESTRICTED, "hosted-spare")).violations == []


@given(st.lists(REQUEST, max_size=20), st.sampled_from(list(Level)))
def test_every_request_is_counted_once_and_what_is_open_is_never_taken_for_private(
    rows: list[tuple[Level, int, list[str], int, Phase | None]], level: Level
) -> None:
    found = answer(month(rows), Question(level, HOSTED))
    assert sum(found.counts.values()) == len(rows)
    may_have_left = sum(
        each_level >= level and end in (None, Phase.ABANDONED) and any(PLACES[p] for p in permitted)
        for each_level, _, permitted, _, end in rows
    )
    assert len(found.undecided) == may_have_left
    went = sum(
        each_level >= level
        and end in (Phase.COMPLETED, Phase.ABORTED)
        and any(PLACES[place] for place in permitted[:count])
        for each_level, _, permitted, count, end in rows
    )
    assert len(found.violations) == went


@given(st.lists(REQUEST, max_size=20))
def test_a_period_takes_exactly_its_days(
    rows: list[tuple[Level, int, list[str], int, Phase | None]],
) -> None:
    records = month(rows)
    first = answer(records, Question(Level.PUBLIC, HOSTED, end="2026-11-16"))
    second = answer(records, Question(Level.PUBLIC, HOSTED, start="2026-11-16"))
    whole = answer(records, Question(Level.PUBLIC, HOSTED))
    assert first.counts + second.counts == whole.counts
    late = sum(day >= 16 for _, day, *_ in rows)
    assert sum(second.counts.values()) == late


def test_a_record_that_cannot_be_read_leaves_nothing_proven() -> None:
    records = request(1, Level.PUBLIC, 1, ["private-moe"], ["private-moe"], Phase.COMPLETED)
    broken = records[0].replace(b'"outcome"', b'"0utcome"')
    found = answer([broken, records[1]], Question(Level.RESTRICTED, HOSTED))
    assert found.unreadable == [0]
    assert not found.holds
