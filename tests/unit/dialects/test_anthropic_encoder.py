"""What an Anthropic client reads: streams, plain bodies and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.anthropic_encoder import MessagesStreamEncoder
from gateway.dialects.anthropic_errors import messages_error_body
from gateway.dialects.anthropic_plain import MessagesPlainEncoder
from gateway.dialects.sse import SseParser
from gateway.domain.chat import JsonText, Thinking, ThinkingDisplay
from gateway.domain.limits import Usage
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Channel,
    Finish,
    RoleDelta,
    StreamEvent,
    TextDelta,
    ToolCallStart,
    UsageReport,
)
from gateway.errors import (
    LimitExceeded,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    NotReady,
    PayloadTooLarge,
    PolicyDenied,
    Refusal,
    RequestRefused,
    UpstreamFailed,
    UpstreamTimeout,
)
from tests.unit.dialects.messages_bodies import asked

HEAD: list[StreamEvent] = [AnswerStart("up", "claude", 0), RoleDelta(0, "assistant")]
TAIL: list[StreamEvent] = [UsageReport(Usage(10, 4, 3, 1)), AnswerEnd()]
CALLS: list[StreamEvent] = [
    ToolCallStart(0, 0, "a", "f"),
    TextDelta(0, Channel.TOOL_ARGUMENTS, '{"at":', 0),
    TextDelta(0, Channel.TOOL_ARGUMENTS, '"x"}', 0),
    ToolCallStart(0, 1, "b", "g"),
]
USAGE = {
    "input_tokens": 7,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 3,
    "output_tokens": 4,
    "output_tokens_details": {"thinking_tokens": 1},
}


def text(words: str, channel: Channel = Channel.CONTENT) -> TextDelta:
    return TextDelta(0, channel, words)


def streamed(events: list[StreamEvent], **asking: Any) -> list[dict[str, Any]]:
    encoder = MessagesStreamEncoder(asked(**asking), "r1")
    data = b"".join(encoder.encode([each]) for each in events) + encoder.end()
    found = SseParser().feed(data)
    said = [json.loads(each.data) for each in found]
    assert [each.event for each in found] == [each["type"] for each in said]
    return said


def plain(events: list[StreamEvent], **asking: Any) -> Any:
    encoder = MessagesPlainEncoder(asked(stream=False, **asking), "r1")
    assert encoder.encode(events) == b""
    return json.loads(encoder.end())


def test_a_stream_has_the_events_of_the_dialect_in_their_order() -> None:
    said = streamed([*HEAD, text("A"), text("B"), Finish(0, "stop"), *TAIL])
    assert said == [
        {
            "type": "message_start",
            "message": {
                "id": "msg_r1",
                "type": "message",
                "role": "assistant",
                "model": "assistant",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            },
        },
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "B"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": USAGE,
        },
        {"type": "message_stop"},
    ]


def test_blocks_are_numbered_and_closed() -> None:
    events = [*HEAD, text("T", Channel.REASONING), text("A"), *CALLS, Finish(0, "tool_calls"), *TAIL]
    said = streamed(events, thinking=Thinking.ADAPTIVE)
    blocks = [each["content_block"] for each in said if each["type"] == "content_block_start"]
    assert blocks == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}},
    ]
    assert [each["index"] for each in said if each["type"] == "content_block_stop"] == [0, 1, 2, 3]
    inputs = [each["delta"].get("partial_json") for each in said if each["type"] == "content_block_delta"]
    assert inputs == [None, None, '{"at":"x"}', "{}"]
    assert said[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_plain_body_has_the_same_content() -> None:
    events = [*HEAD, text("T", Channel.REASONING), text("A"), *CALLS, Finish(0, "tool_calls"), *TAIL]
    assert plain(events, thinking=Thinking.BUDGET) == {
        "id": "msg_r1",
        "type": "message",
        "role": "assistant",
        "model": "assistant",
        "content": [
            {"type": "thinking", "thinking": "T", "signature": ""},
            {"type": "text", "text": "A"},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"at": "x"}},
            {"type": "tool_use", "id": "b", "name": "g", "input": {}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
    }


@pytest.mark.parametrize(
    "asking",
    [
        {},
        {"thinking": Thinking.DISABLED},
        {"thinking": Thinking.ADAPTIVE, "thinking_display": ThinkingDisplay.OMITTED},
    ],
)
def test_reasoning_is_shown_only_to_who_asked_for_it(asking: dict[str, Any]) -> None:
    events = [*HEAD, text("T", Channel.REASONING), text("A"), Finish(0, "stop")]
    assert plain(events, **asking)["content"] == [{"type": "text", "text": "A"}]
    assert "T" not in json.dumps([each.get("delta") for each in streamed(events, **asking)])


@pytest.mark.parametrize(
    ("finish", "reason", "sequence"),
    [
        (Finish(0, "stop"), "end_turn", None),
        (Finish(0, "stop", JsonText('"END"')), "stop_sequence", "END"),
        (Finish(0, "stop", JsonText("128009")), "end_turn", None),
        (Finish(0, "length"), "max_tokens", None),
        (Finish(0, "content_filter"), "refusal", None),
    ],
)
def test_translates_the_reason_of_the_end(finish: Finish, reason: str, sequence: str | None) -> None:
    whole = plain([*HEAD, text("A"), finish])
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, sequence)
    last = streamed([*HEAD, text("A"), finish])[-2]["delta"]
    assert last == {"stop_reason": reason, "stop_sequence": sequence}


def test_a_refusal_is_told_as_text_with_its_reason() -> None:
    events = [*HEAD, text("No.", Channel.REFUSAL), Finish(0, "stop")]
    whole = plain(events)
    assert (whole["content"], whole["stop_reason"]) == ([{"type": "text", "text": "No."}], "refusal")
    assert streamed(events)[-2]["delta"]["stop_reason"] == "refusal"


@pytest.mark.parametrize("kind", [MessagesStreamEncoder, MessagesPlainEncoder])
def test_a_cut_answer_has_no_clean_end(kind: Any) -> None:
    encoder = kind(asked(), "r1")
    encoder.encode([*HEAD, text("A")])
    with pytest.raises(UpstreamFailed):
        encoder.end()
    encoder = kind(asked(), "r1")
    with pytest.raises(UpstreamFailed):
        encoder.encode([TextDelta(0, Channel.TOOL_ARGUMENTS, "{}", 0)])


@pytest.mark.parametrize("kind", [MessagesStreamEncoder, MessagesPlainEncoder])
def test_arguments_that_are_no_object_are_a_failure(kind: Any) -> None:
    encoder = kind(asked(), "r1")
    events = [*HEAD, CALLS[0], TextDelta(0, Channel.TOOL_ARGUMENTS, '"x"', 0), Finish(0, "tool_calls")]
    with pytest.raises(UpstreamFailed, match="no JSON object"):
        _ = encoder.encode(events) + encoder.end()


def test_a_stream_that_fails_ends_with_an_error_event() -> None:
    encoder = MessagesStreamEncoder(asked(), "r1")
    encoder.encode([*HEAD, text("A")])
    (found,) = SseParser().feed(encoder.fail(NotReady("Busy.", code="not-ready")))
    assert found.event == "error"
    assert json.loads(found.data) == {
        "type": "error",
        "error": {
            "type": "overloaded_error",
            "message": "Busy.",
            "details": {"error_code": "not-ready", "param": None},
        },
        "request_id": "r1",
    }


@pytest.mark.parametrize(
    ("refusal", "word"),
    [
        (RequestRefused("x"), "invalid_request_error"),
        (NotAuthenticated("x"), "authentication_error"),
        (PolicyDenied("x"), "permission_error"),
        (NotFound("x"), "not_found_error"),
        (MethodNotAllowed("x"), "invalid_request_error"),
        (PayloadTooLarge("x"), "request_too_large"),
        (LimitExceeded("x"), "rate_limit_error"),
        (NotReady("x"), "overloaded_error"),
        (UpstreamTimeout("x"), "timeout_error"),
        (UpstreamFailed("x"), "api_error"),
        (Refusal("x"), "api_error"),
    ],
)
def test_an_error_has_the_dialects_own_word(refusal: Refusal, word: str) -> None:
    assert json.loads(messages_error_body(refusal, "r1"))["error"]["type"] == word
