"""Answers: whole equals any split, the order law holds for any row of chunks, both ways agree."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.openai_answer import ChatPlainDecoder, ChatStreamDecoder
from gateway.dialects.openai_encoder import ChatStreamEncoder
from gateway.dialects.openai_plain import ChatPlainEncoder
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Finish,
    RoleDelta,
    StreamEvent,
    TextDelta,
    ToolCallStart,
    UsageReport,
)
from tests.unit.dialects.chat_bodies import asked, place
from tests.unit.dialects.provider_answers import DONE, call, event, finish, piece, role, run, text

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
INDEX = st.integers(0, 1)
USAGE = event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 2})
CHUNKS = st.one_of(
    st.builds(text, WORDS, INDEX),
    st.builds(text, WORDS, INDEX),
    st.builds(role, INDEX),
    st.builds(lambda words, at: piece({"reasoning": words}, at), WORDS, INDEX),
    st.builds(lambda words, at: call(0, words, index=at, name="f", id="c"), WORDS, INDEX),
    st.builds(finish, st.sampled_from(["stop", "length"]), INDEX),
    st.sampled_from([USAGE, DONE, b": ping\n\n", b'data: {"error": {}}\n\n', b"data: {\n\n", text("a", 2)]),
)
GOOD = st.lists(
    st.one_of(
        st.builds(text, WORDS, INDEX),
        st.builds(lambda words, at: piece({"reasoning": words}, at), WORDS, INDEX),
        st.builds(lambda words, at: piece({"refusal": words}, at), WORDS, INDEX),
        st.builds(lambda words, at, tool: call(tool, words, index=at, name="f", id="c"), WORDS, INDEX, INDEX),
    ),
    max_size=12,
).map(lambda chunks: [role(0), role(1), *chunks, finish("stop", 1), finish("length", 0), USAGE, DONE])


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at these places."""
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(borders)]


def decoded(*chunks: bytes) -> tuple[list[StreamEvent], str | None]:
    """Events and code of the failure."""
    events, failed = run(ChatStreamDecoder(place(), asked(n=2), max_answer_bytes=5000), *chunks)
    return events, failed.code if failed else None


@given(chunks=st.lists(CHUNKS, max_size=12), cuts=st.lists(st.integers(0, 3000), max_size=10))
@settings(max_examples=200)
def test_whole_equals_any_split(chunks: list[bytes], cuts: list[int]) -> None:
    data = b"".join(chunks)
    whole = decoded(data)
    assert decoded(*chunks) == whole
    assert decoded(*pieces(data, cuts)) == whole


@given(chunks=st.lists(CHUNKS, max_size=20))
@settings(max_examples=200)
def test_the_order_law_holds_for_any_row_of_chunks(chunks: list[bytes]) -> None:
    events, code = decoded(*chunks)
    is_over = False
    finished: set[int] = set()
    roles: set[int] = set()
    for place_of, item in enumerate(events):
        assert not is_over
        match item:
            case AnswerStart():
                assert place_of == 0
            case Finish(choice=choice):
                assert choice not in finished
                finished.add(choice)
            case RoleDelta(choice=choice):
                assert choice not in finished | roles
                roles.add(choice)
            case TextDelta(choice=choice) | ToolCallStart(choice=choice):
                assert choice in roles
                assert choice not in finished
            case UsageReport():
                assert isinstance(events[place_of + 1], AnswerEnd)
            case AnswerEnd():
                is_over = True
                assert finished == {0, 1}
    assert is_over == (code is None)


def stream_body(events: list[StreamEvent], cuts: list[int]) -> Any:
    """What a client that collects the chunks of a stream ends with, per choice."""
    encoder = ChatStreamEncoder(asked(n=2), "r", 1)
    borders = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    data = b"".join(encoder.encode(events[start:end]) for start, end in pairwise(borders)) + encoder.end()
    assert data.endswith(DONE)
    choices: dict[int, dict[str, Any]] = {}
    for line in data.removesuffix(DONE).split(b"\n\n")[:-1]:
        (said,) = json.loads(line.removeprefix(b"data: "))["choices"]
        choice = choices.setdefault(said["index"], {"finish_reason": None})
        for name in ("content", "reasoning_content", "refusal"):
            if name in said["delta"]:
                choice[name] = choice.get(name, "") + said["delta"][name]
        for one in said["delta"].get("tool_calls", ()):
            calls = choice.setdefault("calls", {})
            calls[one["index"]] = calls.get(one["index"], "") + one["function"]["arguments"]
        choice["finish_reason"] = said["finish_reason"]
    return choices


def plain_body(events: list[StreamEvent]) -> Any:
    """The same from the one body of a plain answer."""
    encoder = ChatPlainEncoder(asked(n=2, stream=False), "r", 1)
    encoder.encode(events)
    choices: dict[int, dict[str, Any]] = {}
    for said in json.loads(encoder.end())["choices"]:
        message = said["message"]
        choice: dict[str, Any] = {"finish_reason": said["finish_reason"], "content": message["content"] or ""}
        for name in ("reasoning_content", "refusal"):
            if message.get(name) is not None:
                choice[name] = message[name]
        if "tool_calls" in message:
            choice["calls"] = {
                at: one["function"]["arguments"] for at, one in enumerate(message["tool_calls"])
            }
        choices[said["index"]] = choice
    return choices


def numbered(choices: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Tool calls under their rank, because a plain body does not tell their index."""
    for choice in choices.values():
        if "calls" in choice:
            choice["calls"] = dict(enumerate(text for _, text in sorted(choice["calls"].items())))
    return choices


@given(chunks=GOOD, cuts=st.lists(st.integers(0, 40), max_size=5))
@settings(max_examples=150)
def test_a_stream_and_a_plain_body_tell_the_same(chunks: list[bytes], cuts: list[int]) -> None:
    events, code = decoded(*chunks)
    assert code is None
    assert numbered(stream_body(events, cuts)) == plain_body(events)


@given(chunks=GOOD)
@settings(max_examples=100)
def test_a_plain_body_that_the_gateway_wrote_reads_back_as_the_same_answer(chunks: list[bytes]) -> None:
    events, _ = decoded(*chunks)
    encoder = ChatPlainEncoder(asked(n=2, stream=False), "r", 1)
    encoder.encode(events)
    decoder = ChatPlainDecoder(place(model="assistant"), asked(n=2, stream=False))
    again, failed = run(decoder, encoder.end())
    assert failed is None
    assert plain_body(again) == plain_body(events)
