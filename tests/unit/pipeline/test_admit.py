from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.domain.admitted import Admitted
from gateway.domain.label import Label, Level, Tag
from gateway.domain.limits import Exceeded
from gateway.domain.record import Phase, ShadowFact
from gateway.errors import (
    AuditUnavailable,
    LimitExceeded,
    LimitsUnavailable,
    NotAuthenticated,
    NotFound,
    PolicyDenied,
    Refusal,
    RequestRefused,
)
from gateway.pipeline.admit import admit
from tests.fakes.rooms import Rooms, raw_request

BODY = json.dumps({"model": "assistant", "messages": [{"role": "user", "content": "hello"}]}).encode()


async def _admit(rooms: Rooms, body: bytes = BODY, label: str | None = None) -> Admitted:
    return await admit(rooms.walk(), rooms.snapshot(), raw_request(body, label))


async def test_admits_and_the_intent_is_recorded_with_all_places() -> None:
    rooms = Rooms()
    admitted = await _admit(rooms)
    assert [place.name for place in admitted.permit.destinations] == ["hosted-openai", "private-moe"]
    record = rooms.journal.records[0]
    assert record.phase is Phase.ADMITTED
    assert record.route is not None
    assert record.route.destinations == ("hosted-openai", "private-moe")
    assert rooms.limiter.settled == []


@pytest.mark.parametrize("level", [Level.CONFIDENTIAL, Level.RESTRICTED])
async def test_sensitive_requests_get_private_places_only(level: Level) -> None:
    admitted = await _admit(Rooms(level=level))
    assert [place.hosted for place in admitted.permit.destinations] == [False]


async def test_a_declared_label_raises_and_never_lowers() -> None:
    raised = await _admit(Rooms(level=Level.PUBLIC), label="restricted")
    assert raised.verdict.label.level is Level.RESTRICTED
    lowered = await _admit(Rooms(level=Level.RESTRICTED), label="public")
    assert lowered.verdict.label.level is Level.RESTRICTED


async def test_a_misspelt_label_is_refused_and_recorded() -> None:
    rooms = Rooms()
    with pytest.raises(RequestRefused) as caught:
        await _admit(rooms, label="Restricted")
    assert caught.value.code == "invalid-label"
    assert rooms.journal.phases == ["denied"]


async def test_a_stranger_is_refused_without_a_record() -> None:
    rooms = Rooms()
    rooms.authenticator.refusal = NotAuthenticated("no", code="expired")
    with pytest.raises(NotAuthenticated):
        await _admit(rooms)
    assert rooms.journal.records == []


async def test_an_unknown_model_is_404_and_recorded() -> None:
    rooms = Rooms()
    with pytest.raises(NotFound):
        await _admit(rooms, BODY.replace(b"assistant", b"Assistant"))
    assert rooms.journal.records[0].reason_code == "model-not-found"
    assert rooms.limiter.reserved == []


async def test_a_denied_request_reserves_nothing() -> None:
    rooms = Rooms(level=Level.RESTRICTED, configured=frozenset({"hosted-openai"}))
    with pytest.raises(PolicyDenied):
        await _admit(rooms)
    assert rooms.limiter.reserved == []
    assert rooms.journal.phases == ["denied"]


async def test_a_spent_limit_is_429_with_its_wait_and_recorded() -> None:
    rooms = Rooms()
    rooms.limiter.answer = Exceeded("tokens", 100, 7)
    with pytest.raises(LimitExceeded) as caught:
        await _admit(rooms)
    assert caught.value.retry_after_seconds == 7
    assert rooms.journal.records[0].reason_code == "tokens-limit-exceeded"


async def test_without_exact_limits_only_private_places_remain() -> None:
    rooms = Rooms()
    rooms.limiter.is_degraded = True
    admitted = await _admit(rooms)
    assert [place.name for place in admitted.permit.destinations] == ["private-moe"]
    record = rooms.journal.records[0]
    assert record.limits is not None
    assert record.limits.degraded


async def test_without_exact_limits_and_without_a_private_place_it_is_503() -> None:
    rooms = Rooms(configured=frozenset({"hosted-openai"}))
    rooms.limiter.is_degraded = True
    with pytest.raises(LimitsUnavailable):
        await _admit(rooms)
    assert rooms.limiter.settled == [("req_1", None)]


async def test_without_a_durable_intent_nothing_is_admitted_and_the_reservation_returns() -> None:
    rooms = Rooms()
    rooms.journal.refusals[Phase.ADMITTED] = AuditUnavailable("no")
    with pytest.raises(AuditUnavailable):
        await _admit(rooms)
    assert rooms.limiter.settled == [("req_1", None)]


async def test_a_denial_that_cannot_be_recorded_is_503_audit() -> None:
    rooms = Rooms()
    rooms.journal.refusals[Phase.DENIED] = AuditUnavailable("no")
    with pytest.raises(AuditUnavailable):
        await _admit(rooms, b"{")


async def test_a_fault_in_a_stage_is_a_recorded_refusal_without_its_text() -> None:
    rooms = Rooms(decision_fault=RuntimeError("IBAN DE89"))
    with pytest.raises(Refusal) as caught:
        await _admit(rooms)
    assert caught.value.http_status == 500
    assert "DE89" not in caught.value.message
    assert rooms.journal.records[0].reason_code == "internal-error"
    assert rooms.faults == ["RuntimeError"]


async def test_the_record_holds_what_the_policy_was_asked() -> None:
    rooms = Rooms()
    tools = [{"type": "function", "function": {"name": "own.tool", "parameters": {"type": "object"}}}]
    body = json.dumps({**json.loads(BODY), "stream": True, "top_k": 3, "tools": tools}).encode()
    raw = replace(raw_request(body), workload="batch", received_at_us=1_796_000_000_000_000)
    await admit(replace(rooms.walk(), region="eu"), rooms.snapshot(), raw)
    asked = rooms.journal.records[0].asked
    assert asked is not None
    assert (asked.stream, asked.prompt_tokens, asked.output_tokens) == (True, 10, 20)
    assert (asked.workload, asked.region, asked.at_seconds) == ("batch", "eu", 1_796_000_000)
    assert asked.extensions == ("top_k",)
    # The client's own names are its free text.
    assert (asked.tools, asked.other_tool_count) == ((), 1)


async def test_a_misspelt_workload_is_refused_and_recorded() -> None:
    rooms = Rooms()
    with pytest.raises(RequestRefused) as caught:
        await admit(rooms.walk(), rooms.snapshot(), replace(raw_request(BODY), workload="Batch"))
    assert caught.value.code == "invalid-workload"
    assert rooms.journal.phases == ["denied"]


async def test_an_attribute_that_the_policy_does_not_declare_is_refused_and_kept_out_of_the_record() -> None:
    rooms = Rooms()
    raw = replace(raw_request(BODY), attributes=(("purpose", "secret-words"),))
    with pytest.raises(RequestRefused) as caught:
        await admit(rooms.walk(), rooms.snapshot(), raw)
    assert (caught.value.code, caught.value.param) == ("invalid-attribute", "x-tidegate-attribute-purpose")
    record = rooms.journal.records[0]
    assert record.asked is None
    assert "secret-words" not in repr(record)


async def test_what_a_shadow_would_have_decided_is_recorded_and_changes_nothing() -> None:
    rooms = Rooms()
    said = ShadowFact("c" * 64, ("private-moe",), None, ("candidate",))
    snapshot = replace(rooms.snapshot(), shadow=lambda facts, decision: said)
    admitted = await admit(rooms.walk(), snapshot, raw_request(BODY))
    assert [place.name for place in admitted.permit.destinations] == ["hosted-openai", "private-moe"]
    assert rooms.journal.records[0].shadow == said
    rooms = Rooms(level=Level.INTERNAL, configured=frozenset())
    with pytest.raises(PolicyDenied):
        await admit(rooms.walk(), replace(rooms.snapshot(), shadow=snapshot.shadow), raw_request(BODY))
    assert rooms.journal.records[0].shadow == said


async def test_without_a_shadow_nothing_of_it_is_recorded() -> None:
    rooms = Rooms()
    await _admit(rooms)
    assert rooms.journal.records[0].shadow is None


async def test_an_earlier_answer_in_the_history_is_the_floor_of_the_label_and_the_record_says_so() -> None:
    rooms = Rooms()
    rooms.lineage.label = Label(Level.RESTRICTED, frozenset({Tag.PHI}))
    admitted = await admit(rooms.walk(), rooms.snapshot(), raw_request(BODY))
    assert admitted.verdict.label == Label(Level.RESTRICTED, frozenset({Tag.PHI}))
    assert [place.name for place in admitted.permit.destinations] == ["private-moe"]
    seen = rooms.journal.records[-1].classifier
    assert seen is not None
    assert (seen.level, seen.inherited) == ("restricted", "restricted")
