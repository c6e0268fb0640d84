"""The gate without a socket: what cannot be recorded does not act."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gateway.administration import ADMINISTRATOR, Administration, Operator
from gateway.domain.principal import Principal
from gateway.errors import AuditUnavailable, Conflict, Refusal
from gateway.running import Gateway
from gateway.web.admin import Gate
from gateway.web.admin_answers import Nothing
from gateway.web.admin_table import Answer, Call, Route

WHO = Operator(
    Principal("ops", "olga", "ref", "token", "iss", "", "kid", frozenset({ADMINISTRATOR}), frozenset(), 9),
    True,
)


@dataclass
class Desk:
    """Notes calls, until its disk is full."""

    down_after: int = 99
    notes: list[tuple[str, str]] = field(default_factory=list)

    async def note(self, operator: Operator, outcome: str, code: str, facts: Any) -> None:
        if len(self.notes) >= self.down_after:
            raise AuditUnavailable("down")
        self.notes.append((outcome, code))


@dataclass
class Office:
    """The part of a gateway that the gate asks."""

    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def walk(self) -> Office:
        return self

    def note_refusal(self, refusal: Refusal, request_id: str) -> None:
        self.refused.append(refusal.code)

    def report_fault(self, phrase: str, error: BaseException) -> None:
        self.faults.append(phrase)


async def act(
    desk: Desk, office: Office, fault: Refusal | None = None, method: str = "POST"
) -> tuple[Any, int]:
    """(reply, how often the handler ran)."""
    ran = 0

    async def handler(desk: Administration, call: Call) -> Answer:
        nonlocal ran
        ran += 1
        if fault is not None:
            raise fault
        return Answer(Nothing())

    route = Route(cast(Any, method), "/x", "x.do", frozenset({ADMINISTRATOR}), handler, Nothing, "X")
    gate = Gate(cast(Gateway, office), cast(Administration, desk))
    reply = await gate._act(route, Call(WHO, "req_1", {}, b"", ""))
    return reply, ran


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_what_cannot_be_recorded_does_not_act(method: str) -> None:
    office = Office()
    reply, ran = await act(Desk(down_after=0), office, method=method)
    assert (reply.status, json.loads(reply.body)["code"], ran) == (503, "audit-unavailable", 0)
    assert office.refused == ["audit-unavailable"]


async def test_a_change_is_recorded_before_and_after_a_reading_before() -> None:
    desk = Desk()
    assert (await act(desk, Office()))[1] == 1
    assert desk.notes == [("permitted", "ok"), ("done", "ok")]
    desk = Desk()
    await act(desk, Office(), method="GET")
    assert desk.notes == [("permitted", "ok")]


async def test_a_refusal_of_the_act_is_recorded_with_its_code() -> None:
    desk = Desk()
    reply, _ = await act(desk, Office(), Conflict("No.", code="already-active"))
    assert reply.status == 409
    assert desk.notes == [("permitted", "ok"), ("refused", "already-active")]


async def test_a_change_that_is_done_is_told_also_when_its_end_cannot_be_recorded() -> None:
    office = Office()
    reply, ran = await act(Desk(down_after=1), office)
    assert (reply.status, ran) == (200, 1)
    assert office.faults == ["admin change done, its end not recorded"]
