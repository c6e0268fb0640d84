"""What a client of OpenAI's responses reads: streams and plain bodies that tell the same."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.responses_encoder import ResponsesStreamEncoder
from gateway.dialects.responses_output import ResponsesPlainEncoder
from gateway.dialects.sse import SseParser
from gateway.domain.chat import ChatRequest, Message, Role, Surface, TextPart
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
from gateway.errors import NotReady, UpstreamFailed

ASKED = ChatRequest("assistant", (Message(Role.USER, (TextPart("A"),)),), surface=Surface.RESPONSES)
HEAD: list[StreamEvent] = [AnswerStart("up", "gpt", 0), RoleDelta(0, "assistant")]
TAIL: list[StreamEvent] = [UsageReport(Usage(10, 4, 3, 1)), AnswerEnd()]
CALLS: list[StreamEvent] = [
    ToolCallStart(0, 0, "a", "f"),
    TextDelta(0, Channel.TOOL_ARGUMENTS, '{"at":', 0),
    TextDelta(0, Channel.TOOL_ARGUMENTS, '"x"}', 0),
]


def text(words: str, channel: Channel = Channel.CONTENT) -> TextDelta:
    return TextDelta(0, channel, words)


def streamed(events: list[StreamEvent], cuts: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    encoder = ResponsesStreamEncoder(ASKED, "r1", 1800)
    borders = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    data = b"".join(encoder.encode(events[start:end]) for start, end in pairwise(borders)) + encoder.end()
    found = SseParser().feed(data)
    told = [json.loads(each.data) for each in found]
    assert [each.event for each in found] == [each["type"] for each in told]
    assert [each["sequence_number"] for each in told] == list(range(len(told)))
    return told


def plain(events: list[StreamEvent]) -> Any:
    encoder = ResponsesPlainEncoder(ASKED, "r1", 1800)
    assert encoder.encode(events) == b""
    return json.loads(encoder.end())


def test_a_stream_has_the_events_of_the_dialect_in_their_order() -> None:
    events = [
        *HEAD,
        text("T", Channel.REASONING),
        text("A"),
        text("B"),
        *CALLS,
        Finish(0, "tool_calls"),
        *TAIL,
    ]
    told = streamed(events)
    assert [each["type"].removeprefix("response.") for each in told] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [each["output_index"] for each in told[2:-1]] == [0] * 6 + [1] * 7 + [2] * 4
    assert told[-1]["response"] == plain(events)


def test_a_plain_body_has_items() -> None:
    whole = plain([*HEAD, text("T", Channel.REASONING), text("A"), *CALLS, Finish(0, "tool_calls"), *TAIL])
    assert (whole["id"], whole["object"], whole["status"]) == ("resp_r1", "response", "completed")
    assert (whole["model"], whole["created_at"], whole["store"]) == ("assistant", 1800, False)
    assert whole["output"] == [
        {
            "id": "rs_r1_0",
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "T"}],
            "status": "completed",
        },
        {
            "id": "msg_r1_1",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "A", "annotations": [], "logprobs": []}],
        },
        {
            "id": "fc_r1_2",
            "type": "function_call",
            "status": "completed",
            "call_id": "a",
            "name": "f",
            "arguments": '{"at":"x"}',
        },
    ]
    assert whole["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 14,
    }


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_tells_how_the_answer_ended(reason: str, status: str, why: Any) -> None:
    events = [*HEAD, text("A"), Finish(0, reason)]
    assert (plain(events)["status"], plain(events)["incomplete_details"]) == (status, why)
    assert streamed(events)[-1]["type"] == f"response.{status}"


def test_a_refusal_is_a_part_of_its_own() -> None:
    (item,) = plain([*HEAD, text("No.", Channel.REFUSAL), Finish(0, "stop")])["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]


@pytest.mark.parametrize("kind", [ResponsesStreamEncoder, ResponsesPlainEncoder])
def test_a_cut_answer_has_no_clean_end(kind: Any) -> None:
    encoder = kind(ASKED, "r1", 1800)
    encoder.encode([*HEAD, text("A")])
    with pytest.raises(UpstreamFailed):
        encoder.end()
    with pytest.raises(UpstreamFailed):
        encoder.encode([TextDelta(0, Channel.TOOL_ARGUMENTS, "{}", 0)])


def test_a_stream_that_fails_ends_with_an_error_event() -> None:
    encoder = ResponsesStreamEncoder(ASKED, "r1", 1800)
    encoder.encode([*HEAD, text("A")])
    (found,) = SseParser().feed(encoder.fail(NotReady("Busy.")))
    told = json.loads(found.data)
    assert (found.event, told["type"], told["code"], told["message"]) == (
        "error",
        "error",
        "not-ready",
        "Busy.",
    )
    assert told["error"]["code"] == "not-ready"


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
CHANNELS = st.sampled_from([Channel.CONTENT, Channel.REASONING, Channel.REFUSAL])


@given(
    texts=st.lists(st.builds(text, WORDS, CHANNELS), max_size=8),
    with_calls=st.booleans(),
    cuts=st.lists(st.integers(0, 15), max_size=4),
)
def test_a_stream_and_a_plain_body_tell_the_same(
    texts: list[TextDelta], with_calls: bool, cuts: list[int]
) -> None:
    events = [*HEAD, *texts, *(CALLS if with_calls else []), Finish(0, "stop"), *TAIL]
    told = streamed(events, tuple(cuts))
    whole = plain(events)
    assert told[-1]["response"] == whole
    assert [each["item"] for each in told if each["type"] == "response.output_item.done"] == whole["output"]
    deltas: dict[int, str] = {}
    for each in told:
        if each["type"].endswith(".delta"):
            deltas[each["output_index"]] = deltas.get(each["output_index"], "") + each["delta"]
    for at, item in enumerate(whole["output"]):
        held = item.get("arguments")
        if held is None:
            (part,) = item["content"]
            held = part.get("text", part.get("refusal"))
        assert deltas.get(at, "") == held
