"""The attempts of one exchange: which are made, what is recorded before each, when there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.domain.admitted import Admitted
from gateway.domain.decision import Denial, Facts, Permit
from gateway.domain.record import Phase
from gateway.errors import AuditUnavailable, Refusal, UpstreamFailed, UpstreamRejected, UpstreamUnavailable
from gateway.pipeline.admit import Walk, admit
from gateway.pipeline.failover import Failover
from gateway.pipeline.hold import Hold
from gateway.pipeline.records import Outcome
from gateway.snapshot import Snapshot
from tests.fakes.rooms import Rooms, raw_request

DOWN = UpstreamUnavailable("down", code="upstream-unreachable")
BODY = b'{"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}'


class Attempt:
    """One admitted request before its first attempt."""

    def __init__(self, rooms: Rooms, walk: Walk, snapshot: Snapshot, admitted: Admitted) -> None:
        self.rooms, self.walk, self.snapshot, self.admitted = rooms, walk, snapshot, admitted
        self.outcome = Outcome()

    async def refusal(self) -> Refusal:
        with pytest.raises(Refusal) as caught:
            await self.open()
        return caught.value

    async def open(self) -> str:
        answer = await Failover(
            self.walk,
            self.snapshot,
            self.admitted,
            self.outcome,
            lambda stage: None,
            Hold(self.walk, self.snapshot, self.admitted),
        ).open()
        return answer.destination.name


async def attempt(rooms: Rooms, change: Callable[[Walk], Walk] = lambda walk: walk) -> Attempt:
    walk, snapshot = change(rooms.walk()), rooms.snapshot()
    return Attempt(rooms, walk, snapshot, await admit(walk, snapshot, raw_request(BODY)))


def rooms_with(hosted: object, private: object = ()) -> Rooms:
    rooms = Rooms()
    rooms.upstream.scripts = {"hosted-openai": hosted, "private-moe": private}  # type: ignore[dict-item]
    return rooms


async def test_a_first_attempt_writes_no_record_of_its_own() -> None:
    made = await attempt(rooms_with([]))
    assert await made.open() == "hosted-openai"
    assert made.rooms.journal.events == []
    assert made.outcome.attempts == [("hosted-openai", "answered")]


async def test_a_fallback_is_in_the_log_before_it_is_made() -> None:
    made = await attempt(rooms_with(DOWN))
    assert await made.open() == "private-moe"
    [event] = made.rooms.journal.events
    assert (event.event_type, event.reason_code) == ("upstream-attempt", "upstream-unreachable")
    facts = dict(event.facts)
    assert facts["request_id"] == made.admitted.request_id
    assert facts["intent_seq"] == made.admitted.receipt.seq
    assert (facts["attempt"], facts["destination"], facts["hosted"]) == (2, "private-moe", 0)


async def test_a_retry_at_the_same_destination_is_in_the_log_too() -> None:
    rooms = rooms_with([])
    rooms.upstream.again = {"hosted-openai": ("upstream-disconnected", "upstream-unreachable")}
    made = await attempt(rooms)
    assert await made.open() == "hosted-openai"
    assert [(event.reason_code, dict(event.facts)["attempt"]) for event in rooms.journal.events] == [
        ("upstream-disconnected", 2),
        ("upstream-unreachable", 3),
    ]
    assert [code for _, code in made.outcome.attempts] == [
        "upstream-disconnected",
        "upstream-unreachable",
        "answered",
    ]


async def test_what_cannot_be_recorded_is_not_tried() -> None:
    rooms = rooms_with(DOWN)
    rooms.journal.refusals[Phase.LOG] = AuditUnavailable("full")
    made = await attempt(rooms)
    assert isinstance(await made.refusal(), AuditUnavailable)
    assert rooms.upstream.opened == ["hosted-openai"]


async def test_a_retry_that_cannot_be_recorded_is_not_made() -> None:
    rooms = rooms_with([])
    rooms.upstream.again = {"hosted-openai": ("upstream-disconnected",)}
    rooms.journal.refusals[Phase.LOG] = AuditUnavailable("full")
    made = await attempt(rooms)
    assert isinstance(await made.refusal(), AuditUnavailable)
    assert rooms.upstream.answers == []


async def test_a_policy_that_changed_meanwhile_is_asked_before_a_further_attempt() -> None:
    rooms = rooms_with(DOWN)
    made = await attempt(rooms)

    def decide(facts: Facts) -> Denial:
        assert facts is made.admitted.facts
        return Denial("revoked", "no", (), "p", "2", "0" * 64)

    made.walk.snapshots.activate(replace(made.snapshot, decide=decide))
    assert (await made.refusal()).code == "not-permitted"
    assert rooms.upstream.opened == ["hosted-openai"]
    assert rooms.journal.events == []


async def test_a_policy_that_no_longer_names_the_place_ends_the_attempts_there() -> None:
    rooms = rooms_with([])
    rooms.upstream.again = {"hosted-openai": ("upstream-disconnected",)}
    made = await attempt(rooms)
    permit = made.admitted.permit
    narrowed = replace(permit, destinations=permit.destinations[1:])

    def decide(facts: Facts) -> Permit:
        return narrowed

    made.walk.snapshots.activate(replace(made.snapshot, decide=decide))
    assert await made.open() == "private-moe"
    assert made.outcome.attempts[:2] == [
        ("hosted-openai", "upstream-disconnected"),
        ("hosted-openai", "not-permitted"),
    ]
    assert [answer.destination.name for answer in rooms.upstream.answers] == ["private-moe"]


async def test_a_policy_that_wants_more_than_the_request_honours_permits_no_further_attempt() -> None:
    rooms = rooms_with(DOWN)
    made = await attempt(rooms)
    duties = replace(made.admitted.permit.obligations, max_output_tokens=1)
    stricter = replace(made.admitted.permit, obligations=duties)

    def decide(facts: Facts) -> Permit:
        return stricter

    made.walk.snapshots.activate(replace(made.snapshot, decide=decide))
    assert (await made.refusal()).code == "not-permitted"
    assert rooms.upstream.opened == ["hosted-openai"]


async def test_a_token_that_ended_meanwhile_authorises_no_further_attempt() -> None:
    rooms = rooms_with(DOWN)
    times = iter([0, 0, 0, 0, *[120 * 10**9] * 10])
    made = await attempt(rooms, lambda walk: replace(walk, clock_ns=lambda: next(times)))
    made.admitted = replace(made.admitted, principal=replace(made.admitted.principal, expires_at_seconds=60))
    assert (await made.refusal()).code == "not-permitted"
    assert rooms.upstream.opened == ["hosted-openai"]


async def test_what_an_attempt_took_is_not_given_to_the_next_one_again() -> None:
    rooms = rooms_with(DOWN)
    ticks = iter(range(0, 1000, 2))
    made = await attempt(rooms, lambda walk: replace(walk, clock_ns=lambda: next(ticks) * 10**9))
    await made.open()
    first, second = rooms.upstream.waited_seconds
    assert second > first > 0


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refusal_of_the_request_is_the_answer(status: int) -> None:
    made = await attempt(rooms_with(UpstreamRejected("no", upstream_status=status)))
    assert isinstance(await made.refusal(), UpstreamRejected)
    assert made.rooms.upstream.opened == ["hosted-openai"]


async def test_the_last_refusal_is_the_answer_when_all_fail() -> None:
    made = await attempt(rooms_with(DOWN, UpstreamFailed("bad")))
    assert (await made.refusal()).code == "upstream-failed"
    assert [name for name, _ in made.outcome.attempts] == ["hosted-openai", "private-moe"]
