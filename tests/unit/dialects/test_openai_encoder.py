"""The stream that a client reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.openai_encoder import ChatStreamEncoder
from gateway.dialects.sse import SseParser
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
from gateway.errors import UpstreamFailed, UpstreamTimeout
from tests.unit.dialects.chat_bodies import asked

START = AnswerStart("up-id", "moe-1", 5, "fp")
ROLE = RoleDelta(0, "assistant")


def words(text: str, choice: int = 0) -> TextDelta:
    """A content delta."""
    return TextDelta(choice, Channel.CONTENT, text)


def chunks(data: bytes) -> list[Any]:
    """Parsed chunks of some stream bytes; `[DONE]` as its word."""
    events = SseParser().feed(data)
    assert all(event.event == "message" for event in events)
    return [json.loads(event.data) if event.data != b"[DONE]" else "[DONE]" for event in events]


def encoder(**asking: Any) -> ChatStreamEncoder:
    """An encoder for request `r1`."""
    return ChatStreamEncoder(asked(**asking), "r1", 1800)


def encoded(*calls: list[StreamEvent], **asking: Any) -> list[Any]:
    """Chunks of one call of `encode` each."""
    one = encoder(**asking)
    return chunks(b"".join(one.encode(events) for events in calls))


def choice(chunk: Any) -> Any:
    """The only choice of a chunk."""
    (found,) = chunk["choices"]
    return found


def test_writes_the_head_of_each_chunk_from_the_request_and_not_from_the_provider() -> None:
    first, second = encoded([START, ROLE], [words("a")])
    assert first == {
        "id": "chatcmpl-r1",
        "object": "chat.completion.chunk",
        "created": 1800,
        "model": "assistant",
        "system_fingerprint": "fp",
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": ""},
                "logprobs": None,
                "finish_reason": None,
            }
        ],
    }
    assert choice(second) == {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
    assert {**first, "choices": []} == {**second, "choices": []}


def test_leaves_the_fingerprint_out_when_it_is_not_known() -> None:
    assert "system_fingerprint" not in encoded([AnswerStart("i", "m", 1), ROLE])[0]


def test_writes_the_same_chunk_on_the_short_way_and_on_the_long_one() -> None:
    awkward = '"\\\n\u2028\x00é潮😀</script>'
    for include_usage in (False, True):
        short = encoded([START, ROLE], [words(awkward)], include_usage=include_usage)
        long = encoded([START, ROLE], [words(awkward), words("")], include_usage=include_usage)
        assert short == long
        assert choice(short[1])["delta"]["content"] == awkward


def test_merges_deltas_of_one_choice() -> None:
    found = encoded(
        [
            START,
            ROLE,
            words("a"),
            words("b"),
            TextDelta(0, Channel.REASONING, "r"),
            TextDelta(0, Channel.REFUSAL, "n"),
            TextDelta(0, Channel.REFUSAL, "o"),
        ]
    )
    assert [choice(chunk)["delta"] for chunk in found] == [
        {"role": "assistant", "content": "ab", "reasoning_content": "r", "refusal": "no"}
    ]


def test_keeps_choices_apart() -> None:
    found = encoded([START, ROLE, RoleDelta(1, "assistant"), words("a"), words("b", 1), words("c")])
    assert [(choice(chunk)["index"], choice(chunk)["delta"]["content"]) for chunk in found] == [
        (0, "ac"),
        (1, "b"),
    ]


def test_writes_tool_calls_as_openai_does() -> None:
    found = encoded(
        [START, ROLE],
        [ToolCallStart(0, 0, "c0", "look"), TextDelta(0, Channel.TOOL_ARGUMENTS, "{", 0)],
        [TextDelta(0, Channel.TOOL_ARGUMENTS, "}", 0), ToolCallStart(0, 1, "c1", "find")],
    )
    assert [choice(chunk)["delta"] for chunk in found[1:]] == [
        {
            "tool_calls": [
                {"index": 0, "id": "c0", "type": "function", "function": {"name": "look", "arguments": "{"}}
            ]
        },
        {
            "tool_calls": [
                {"index": 0, "function": {"arguments": "}"}},
                {"index": 1, "id": "c1", "type": "function", "function": {"name": "find", "arguments": ""}},
            ]
        },
    ]


def test_tells_a_finish_reason_in_a_chunk_of_its_own_and_null_before() -> None:
    found = encoded([START, ROLE, words("a"), Finish(0, "stop", JsonText("13")), AnswerEnd()])
    assert [choice(chunk)["finish_reason"] for chunk in found] == [None, "stop"]
    assert choice(found[1])["delta"] == {}
    assert choice(found[1])["stop_reason"] == 13
    assert "stop_reason" not in choice(found[0])


def test_tells_usage_in_a_last_chunk_without_choices() -> None:
    found = encoded(
        [START, ROLE, words("a")],
        [words("b")],
        [Finish(0, "stop"), UsageReport(Usage(9, 3, 2, 1)), AnswerEnd()],
        include_usage=True,
    )
    assert [chunk["usage"] for chunk in found[:-1]] == [None] * (len(found) - 1)
    assert found[-1]["choices"] == []
    assert found[-1]["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }


def test_tells_no_usage_to_a_client_that_did_not_ask() -> None:
    found = encoded([START, ROLE, Finish(0, "stop"), UsageReport(Usage(9, 3)), AnswerEnd()])
    assert all("usage" not in chunk and chunk["choices"] for chunk in found)


def test_keeps_log_probabilities_with_their_text() -> None:
    scored = TextDelta(0, Channel.CONTENT, "b", logprobs=JsonText('{"content":[1]}'))
    found = encoded([START, ROLE, words("a"), scored, words("c")], [scored])
    assert [(choice(c)["delta"]["content"], choice(c)["logprobs"]) for c in found] == [
        ("a", None),
        ("b", {"content": [1]}),
        ("c", None),
        ("b", {"content": [1]}),
    ]


def test_ends_with_done_when_every_choice_has_finished() -> None:
    one = encoder(n=2)
    one.encode([START, ROLE, RoleDelta(1, "assistant"), Finish(0, "stop")])
    with pytest.raises(UpstreamFailed):
        one.end()
    one.encode([Finish(1, "stop")])
    assert one.end() == b"data: [DONE]\n\n"


def test_does_not_end_an_answer_that_never_began() -> None:
    with pytest.raises(UpstreamFailed):
        encoder().end()


def test_ends_a_failed_stream_with_one_error_event_and_nothing_that_looks_clean() -> None:
    one = encoder()
    data = one.encode([START, ROLE, words("a")]) + one.fail(UpstreamTimeout("Too slow.", detail="idle"))
    found = chunks(data)
    assert found[-1] == {
        "error": {"message": "Too slow.", "type": "api_error", "param": None, "code": "upstream-timeout"},
        "request_id": "r1",
    }
    assert "[DONE]" not in found
    assert b'"stop"' not in data


def test_writes_nothing_but_data_lines() -> None:
    one = encoder(include_usage=True)
    data = one.encode([START, ROLE, words("a\n\nretry: 1\r\rid: 1")])
    data += one.encode([Finish(0, "stop"), UsageReport(Usage(1, 1)), AnswerEnd()]) + one.end()
    assert all(line.startswith(b"data: ") or not line for line in data.split(b"\n"))
    assert b"\r" not in data
    assert one.content_type.startswith(b"text/event-stream")


def test_writes_nothing_for_no_events() -> None:
    assert encoder().encode([]) == b""
    assert encoder().encode([START]) == b""
