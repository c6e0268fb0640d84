"""A rule that wants a person to agree: asked before anything leaves, used once, recorded in each case."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from gateway.dialects.openai_request import parse_chat
from gateway.domain.admitted import Admitted
from gateway.domain.approval import ApprovalAsk, ApprovalFact
from gateway.domain.chat import ChatRequest, Message, OfferedTool, Pin, ResolvedRequest
from gateway.domain.record import Phase
from gateway.errors import ApprovalRequired, ApprovalsUnavailable, AuditUnavailable
from gateway.pipeline.admit import admit
from gateway.pipeline.approve import canonical
from tests.fakes.rooms import Rooms, raw_request

BODY = json.dumps({"model": "assistant", "messages": [{"role": "user", "content": "hello"}]}).encode()
ID = "apr_" + "0" * 47 + "1"


async def admitted(rooms: Rooms, approval: str | None = None, body: bytes = BODY) -> Admitted:
    return await admit(rooms.walk(), rooms.snapshot(), replace(raw_request(body), approval=approval))


async def asked(rooms: Rooms) -> ApprovalAsk:
    with pytest.raises(ApprovalRequired):
        await admitted(rooms)
    return rooms.approvals.asks[-1]


async def test_nobody_is_asked_without_the_obligation() -> None:
    rooms = Rooms()
    assert (await admitted(rooms, "anything")).receipt is not None
    assert rooms.approvals.asks == []
    assert rooms.journal.records[0].approval is None


async def test_asking_leaves_a_record_and_no_reservation() -> None:
    rooms = Rooms(approver_role="boss")
    with pytest.raises(ApprovalRequired) as caught:
        await admitted(rooms)
    assert (caught.value.code, caught.value.http_status) == ("approval-required", 409)
    assert (b"x-tidegate-approval", ID.encode()) in caught.value.headers
    assert (b"x-should-retry", b"false") in caught.value.headers
    assert "role boss" in caught.value.message
    [record] = rooms.journal.records
    assert (record.phase, record.reason_code) == (Phase.DENIED, "approval-required")
    assert record.approval == ApprovalFact(ID, "pending")
    assert [usage for _, usage in rooms.limiter.settled] == [None]


async def test_a_granted_request_is_admitted_and_its_record_names_the_approver() -> None:
    rooms = Rooms(approver_role="boss")
    rooms.approvals.granted[ID] = await asked(rooms)
    await admitted(rooms, ID)
    assert rooms.journal.records[-1].phase is Phase.ADMITTED
    assert rooms.journal.records[-1].approval == ApprovalFact(ID, "used", "a" * 64)
    with pytest.raises(ApprovalRequired):
        await admitted(rooms, ID)
    assert rooms.journal.records[-1].approval == ApprovalFact(ID, "refused")


async def test_what_is_no_id_does_not_get_into_the_record() -> None:
    rooms = Rooms(approver_role="boss")
    with pytest.raises(ApprovalRequired):
        await admitted(rooms, "the client's own words")
    assert rooms.journal.records[-1].approval is None


async def test_without_a_durable_intent_the_approval_is_lost_and_nothing_is_admitted() -> None:
    rooms = Rooms(approver_role="boss")
    rooms.approvals.granted[ID] = await asked(rooms)
    rooms.journal.refusals[Phase.ADMITTED] = AuditUnavailable("no")
    with pytest.raises(AuditUnavailable):
        await admitted(rooms, ID)
    assert rooms.approvals.granted == {}


@pytest.mark.parametrize("approval", [None, ID])
async def test_without_the_store_it_is_503_private_places_included(approval: str | None) -> None:
    rooms = Rooms(approver_role="boss", configured=frozenset({"private-moe"}))
    rooms.approvals.refusal = ApprovalsUnavailable("no")
    with pytest.raises(ApprovalsUnavailable):
        await admitted(rooms, approval)
    assert rooms.journal.phases == ["denied"]


async def test_the_approval_is_bound_to_the_destinations_of_the_whole_permit() -> None:
    rooms = Rooms(approver_role="boss")
    ask = await asked(rooms)
    assert [place.split("/")[0] for place in ask.destinations] == ["hosted-openai", "private-moe"]
    rooms.configured = frozenset({"private-moe"})
    assert (await asked(rooms)).destinations == ask.destinations[1:]


def resolved(**more: Any) -> ResolvedRequest:
    return replace(ResolvedRequest(parse_chat(BODY)), **more)


def test_the_canonical_form_has_every_field_of_a_request() -> None:
    names = {field.name for kind in (ChatRequest, Message) for field in fields(kind)}
    spelling = canonical(resolved()).decode()
    assert [name for name in names if f'"{name}":' not in spelling] == []


@pytest.mark.parametrize(
    "other",
    [
        resolved(pins=(Pin("support", "1.0.0", "0" * 64),)),
        resolved(floor_level="internal"),
        resolved(offered=(OfferedTool("transfer", "client", "0" * 64, lambda text: None),)),
        resolved(chat=replace(parse_chat(BODY), messages=())),
        resolved(chat=replace(parse_chat(BODY), stream=True)),
    ],
    ids=["pins", "floor", "tools", "messages", "stream"],
)
def test_the_canonical_form_differs_where_the_request_does(other: ResolvedRequest) -> None:
    assert canonical(other) != canonical(resolved())
