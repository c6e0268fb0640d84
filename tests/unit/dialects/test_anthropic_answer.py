"""Answers of Anthropic's kind: good ones as events, bad ones as one failure each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.anthropic_answer import MessagesPlainDecoder, MessagesStreamDecoder
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
from tests.fakes.messages_answers import SIGNATURE, THOUGHT, event, plain_answer, streamed_answer
from tests.unit.dialects.chat_bodies import place
from tests.unit.dialects.messages_bodies import asked
from tests.unit.dialects.provider_answers import run

SENT: dict[str, Any] = {"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": "A"}]}
TOOL = {"name": "read_gauge", "input_schema": {"properties": {"at": {"type": "string"}}}}
HEAD = event(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "usage": {"input_tokens": 5, "output_tokens": 1},
        },
    }
)
TEXT = event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
CALL = event(
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "a", "name": "read_gauge", "input": {}},
    }
)
STOP = event({"type": "content_block_stop", "index": 0})
LAST = event({"type": "message_stop"})


def delta(index: int = 0, **fields: Any) -> bytes:
    return event({"type": "content_block_delta", "index": index, "delta": fields})


def words(text: str, index: int = 0) -> bytes:
    return delta(index, type="text_delta", text=text)


def ending(reason: str = "end_turn", **fields: Any) -> bytes:
    said = {"stop_reason": reason, "stop_sequence": None, **fields}
    return event({"type": "message_delta", "delta": said, "usage": {"output_tokens": 2}})


def decoded(*chunks: bytes, **asking: Any) -> tuple[list[StreamEvent], str | None]:
    events, failed = run(MessagesStreamDecoder(place("anthropic", "claude"), asked(**asking)), *chunks)
    return events, f"{failed.code} {failed.detail}" if failed else None


def plain(body: Any, **asking: Any) -> tuple[list[StreamEvent], str | None]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    decoder = MessagesPlainDecoder(place("anthropic", "claude"), asked(stream=False, **asking))
    events, failed = run(decoder, data)
    return events, f"{failed.code} {failed.detail}" if failed else None


def folded(events: list[StreamEvent]) -> list[StreamEvent]:
    """Neighbouring deltas of one text as one."""
    out: list[StreamEvent] = []
    for each in events:
        last = out[-1] if out else None
        if (
            isinstance(each, TextDelta)
            and isinstance(last, TextDelta)
            and (last.channel, last.tool) == (each.channel, each.tool)
        ):
            out[-1] = TextDelta(0, each.channel, last.text + each.text, each.tool)
        else:
            out.append(each)
    return out


def test_reads_a_stream_with_reasoning() -> None:
    sent = {**SENT, "thinking": {"type": "adaptive"}}
    events, failed = decoded(*streamed_answer(sent, 1))
    assert failed is None
    assert folded(events) == [
        AnswerStart("msg_standin1", "claude", 0),
        RoleDelta(0, "assistant"),
        TextDelta(0, Channel.REASONING, THOUGHT),
        TextDelta(0, Channel.CONTENT, "The tide turns twice a day, and the gate follows it."),
        Finish(0, "stop"),
        UsageReport(Usage(13, 12, 3)),
        AnswerEnd(),
    ]
    assert SIGNATURE not in repr(events)
    assert folded(plain(plain_answer(sent, 1))[0]) == folded(events)


def test_reads_a_tool_call() -> None:
    sent = {**SENT, "tools": [TOOL], "tool_choice": {"type": "any"}}
    for events, failed in (decoded(*streamed_answer(sent, 1)), plain(plain_answer(sent, 1))):
        assert failed is None
        assert ToolCallStart(0, 0, "toolu_standin", "read_gauge") in events
        arguments = [e.text for e in events if isinstance(e, TextDelta)]
        assert json.loads("".join(arguments)) == {"at": "harbour"}
        assert Finish(0, "tool_calls") in events


def test_a_call_without_arguments_has_an_empty_object() -> None:
    events, failed = decoded(HEAD, CALL, STOP, ending("tool_use"), LAST)
    assert failed is None
    assert TextDelta(0, Channel.TOOL_ARGUMENTS, "{}", 0) in events


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
    ],
)
def test_translates_the_reason_of_the_end(reason: str, ours: str) -> None:
    assert Finish(0, ours) in decoded(HEAD, TEXT, words("A"), STOP, ending(reason), LAST)[0]


def test_a_stop_sequence_is_told_only_when_it_was_asked_for() -> None:
    end = ending("stop_sequence", stop_sequence="END")
    assert Finish(0, "stop", '"END"') in decoded(HEAD, end, LAST, stop=("END",))[0]  # type: ignore[arg-type]
    assert Finish(0, "stop") in decoded(HEAD, end, LAST)[0]


def test_sealed_content_and_later_events_are_left_out() -> None:
    block = {"type": "redacted_thinking", "data": "x"}
    sealed = event({"type": "content_block_start", "index": 0, "content_block": block})
    later = event({"type": "weather", "wind": 5})
    events, failed = decoded(HEAD, later, sealed, STOP, ending(), LAST)
    assert failed is None
    assert not any(isinstance(each, TextDelta) for each in events)


def test_a_dated_name_of_the_asked_model_is_taken_and_no_other() -> None:
    assert decoded(HEAD.replace(b'"claude"', b'"claude-20260101"'), ending(), LAST)[1] is None
    other = HEAD.replace(b'"claude"', b'"claude2"')
    assert decoded(other, ending(), LAST)[1] == "upstream-malformed wrong-model"


@pytest.mark.parametrize(
    ("chunks", "failure"),
    [
        ([], "upstream-truncated no-message-stop"),
        ([HEAD, TEXT, words("A")], "upstream-truncated no-message-stop"),
        ([HEAD, TEXT, words("A"), STOP, ending()], "upstream-truncated no-message-stop"),
        ([HEAD, LAST], "upstream-truncated unfinished-choice"),
        ([LAST], "upstream-truncated unfinished-choice"),
        ([HEAD, HEAD], "upstream-malformed message-start"),
        ([TEXT], "upstream-malformed block-start"),
        ([HEAD, TEXT, TEXT], "upstream-malformed block-start"),
        ([HEAD, TEXT, STOP, TEXT], "upstream-malformed block-index"),
        ([HEAD, TEXT, words("A", 1)], "upstream-malformed block-delta"),
        ([HEAD, words("A")], "upstream-malformed block-delta"),
        ([HEAD, STOP], "upstream-malformed block-stop"),
        ([HEAD, TEXT, ending()], "upstream-malformed message-delta"),
        ([ending()], "upstream-malformed message-delta"),
        ([HEAD, ending(), ending()], "upstream-malformed second-finish"),
        ([HEAD, ending("pause_turn")], "upstream-malformed finish-reason"),
        ([HEAD, ending(), TEXT, words("A")], "upstream-malformed delta-after-finish"),
        ([HEAD, TEXT, delta(type="input_json_delta", partial_json="{")], "upstream-malformed delta-type"),
        ([HEAD, CALL.replace(b"read_gauge", b"read gauge")], "upstream-malformed tool-call-start"),
        ([HEAD, CALL.replace(b"tool_use", b"server_tool_use")], "upstream-malformed block-type"),
        ([HEAD.replace(b'"input_tokens": 5', b'"input_tokens": -5')], "upstream-malformed usage"),
        ([HEAD.replace(b'"role": "assistant"', b'"role": "user"')], "upstream-malformed role"),
        ([HEAD, b"data: {\n\n"], "upstream-malformed json"),
        ([HEAD, event({"type": "error", "error": {}})], "upstream-error-in-stream error-event"),
        ([HEAD, b'data: {"type": "error"}\n\n'], "upstream-error-in-stream error-object"),
        ([HEAD, b"data: " + b"x" * (1024 * 1024 + 1)], "upstream-oversized line"),
    ],
)
def test_each_fault_of_a_stream_is_one_failure(chunks: list[bytes], failure: str) -> None:
    events, failed = decoded(*chunks)
    assert failed == failure
    assert AnswerEnd() not in events


GOOD = plain_answer(SENT, 1)
NO_INPUT = {"type": "tool_use", "id": "a", "name": "f"}


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (b"", "upstream-truncated empty"),
        (json.dumps(GOOD).encode()[:-5], "upstream-truncated json"),
        (b"[]", "upstream-malformed json"),
        ({"type": "error", "error": {}}, "upstream-error-in-stream error-object"),
        ({**GOOD, "type": "completion"}, "upstream-malformed type"),
        ({**GOOD, "stop_reason": None}, "upstream-malformed finish-reason"),
        ({**GOOD, "content": [{"type": "image"}]}, "upstream-malformed block-type"),
        (
            {**GOOD, "content": [NO_INPUT]},
            "upstream-malformed tool-input",
        ),
        ({**GOOD, "model": "gpt"}, "upstream-malformed wrong-model"),
    ],
)
def test_each_fault_of_a_plain_answer_is_one_failure(body: Any, failure: str) -> None:
    assert plain(body) == ([], failure)


@pytest.mark.parametrize("kind", [MessagesStreamDecoder, MessagesPlainDecoder])
def test_an_answer_has_a_bound(kind: Any) -> None:
    decoder = kind(place("anthropic", "claude"), asked(), max_answer_bytes=3)
    assert run(decoder, b"data")[1].code == "upstream-oversized"  # type: ignore[union-attr]
