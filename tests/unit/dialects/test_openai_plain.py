"""The one body that a client of a plain answer reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.openai_plain import ChatPlainEncoder
from gateway.domain.chat import JsonText
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
from gateway.errors import OutputBlocked, UpstreamFailed
from tests.unit.dialects.chat_bodies import asked

START = AnswerStart("up-id", "moe-1", 5, "fp")
ROLE = RoleDelta(0, "assistant")


def folded(*events: StreamEvent) -> Any:
    """The body for these events."""
    one = ChatPlainEncoder(asked(stream=False), "r1", 1800)
    assert all(one.encode([event]) == b"" for event in events)
    return json.loads(one.end())


def words(text: str, choice: int = 0, **more: Any) -> TextDelta:
    """A content delta."""
    return TextDelta(choice, Channel.CONTENT, text, **more)


def test_folds_events_to_a_body_under_the_gateways_own_names() -> None:
    assert folded(
        START, ROLE, words("a"), words("b"), Finish(0, "stop"), UsageReport(Usage(9, 3)), AnswerEnd()
    ) == {
        "id": "chatcmpl-r1",
        "object": "chat.completion",
        "created": 1800,
        "model": "assistant",
        "system_fingerprint": "fp",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ab", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def test_folds_tool_calls_with_null_content() -> None:
    body = folded(
        ROLE,
        ToolCallStart(0, 1, "c1", "g"),
        ToolCallStart(0, 0, "c0", "f"),
        TextDelta(0, Channel.TOOL_ARGUMENTS, "{", 0),
        TextDelta(0, Channel.TOOL_ARGUMENTS, "}", 0),
        Finish(0, "tool_calls"),
    )
    message = body["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "c0", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c1", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]


def test_folds_refusal_and_reasoning() -> None:
    body = folded(
        ROLE, TextDelta(0, Channel.REASONING, "r"), TextDelta(0, Channel.REFUSAL, "no"), Finish(0, "stop")
    )
    assert body["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": "no",
        "reasoning_content": "r",
    }


def test_gives_an_empty_string_for_an_answer_without_words() -> None:
    body = folded(ROLE, Finish(0, "length"))
    assert body["choices"][0]["message"]["content"] == ""
    assert "usage" not in body
    assert "system_fingerprint" not in body


def test_orders_choices_and_keeps_a_stop_reason() -> None:
    body = folded(
        RoleDelta(1, "assistant"),
        words("b", 1),
        ROLE,
        words("a"),
        Finish(1, "stop", JsonText('"END"')),
        Finish(0, "length"),
    )
    assert [(each["index"], each["message"]["content"]) for each in body["choices"]] == [(0, "a"), (1, "b")]
    assert body["choices"][1]["stop_reason"] == "END"
    assert "stop_reason" not in body["choices"][0]


def test_joins_log_probabilities() -> None:
    body = folded(
        ROLE,
        words("a", logprobs=JsonText('{"content":[{"token":"a"}]}')),
        words("b"),
        words("c", logprobs=JsonText('{"content":[{"token":"c"}]}')),
        Finish(0, "stop"),
    )
    assert body["choices"][0]["logprobs"] == {"content": [{"token": "a"}, {"token": "c"}], "refusal": None}


@pytest.mark.parametrize("events", [(), (START,), (START, ROLE, words("a"))])
def test_gives_no_body_for_an_answer_that_did_not_finish(events: tuple[StreamEvent, ...]) -> None:
    with pytest.raises(UpstreamFailed):
        folded(*events)


def test_refuses_arguments_of_a_call_that_never_began() -> None:
    with pytest.raises(UpstreamFailed):
        folded(ROLE, TextDelta(0, Channel.TOOL_ARGUMENTS, "{", 0))


def test_gives_an_error_body_in_place_of_the_answer() -> None:
    one = ChatPlainEncoder(asked(stream=False), "r1", 1800)
    one.encode([START, ROLE, words("a")])
    found = json.loads(one.fail(OutputBlocked("Stopped.")))
    assert found["error"]["code"] == "output-blocked"
    assert set(found) == {"error", "request_id"}
    assert one.content_type == b"application/json"
