"""Tool calls of an answer in the stored record."""

from __future__ import annotations

import json

from gateway.audit.canonical import Stamp, WriterContext, encode_request, seal
from gateway.domain.record import Phase, RequestRecord, ToolCallFact

CONTEXT = WriterContext("tests/a/0", "tidegate/0", "0" * 64, "boot")
STAMP = Stamp("00000000-0000-7000-8000-000000000000", "2026-12-01T00:00:00.000000Z", 1)


def stored(*calls: ToolCallFact) -> dict[str, object]:
    record = RequestRecord(Phase.COMPLETED, "req_1", "completed", "chat.completions", tool_calls=calls)
    found: dict[str, object] = json.loads(seal(CONTEXT.head, 1, encode_request(record, CONTEXT, STAMP)))[
        "decision"
    ]
    return found


def test_a_call_is_stored_with_its_source_schema_commitment_and_outcome() -> None:
    call = ToolCallFact("get_balance", "accounts-read@1.1.0", "sha256:" + "a" * 64, "b" * 64, "released")
    assert stored(call)["tool_calls"] == [
        {
            "outcome": "released",
            "name": "get_balance",
            "source": "accounts-read@1.1.0",
            "schema": "sha256:" + "a" * 64,
            "arguments_hmac": "b" * 64,
        }
    ]


def test_a_call_that_was_not_offered_is_stored_without_its_name() -> None:
    assert stored(ToolCallFact("", "", "", None, "not-granted"))["tool_calls"] == [{"outcome": "not-granted"}]


def test_an_answer_without_calls_takes_no_room() -> None:
    assert "tool_calls" not in stored()
