"""Anthropic's dialect: whole equals any split, the order law, stream and body agree, both ways agree."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.anthropic_answer import MessagesPlainDecoder, MessagesStreamDecoder
from gateway.dialects.anthropic_encoder import MessagesStreamEncoder
from gateway.dialects.anthropic_plain import MessagesPlainEncoder
from gateway.dialects.anthropic_request import parse_messages
from gateway.dialects.sse import SseParser
from gateway.domain.chat import Thinking
from gateway.domain.stream import AnswerEnd, AnswerStart, Finish, RoleDelta, StreamEvent, TextDelta
from tests.fakes.messages_answers import event
from tests.unit.dialects.chat_bodies import place
from tests.unit.dialects.messages_bodies import PNG, asked, sent
from tests.unit.dialects.provider_answers import run

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PIECES = st.lists(WORDS, max_size=4)
HEAD = event(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "assistant",
            "usage": {"input_tokens": 5, "output_tokens": 1},
        },
    }
)


def block(kind: str, pieces: list[str]) -> list[dict[str, Any]]:
    """The events of one content block; `index` is still missing."""
    empty: dict[str, Any] = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    if kind == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
        deltas.append({"type": "signature_delta", "signature": "abc"})
    if kind == "tool_use":
        empty = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
        text = json.dumps({"words": "".join(pieces)})
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in (text[:5], text[5:])]
    return [
        {"type": "content_block_start", "content_block": empty},
        *({"type": "content_block_delta", "delta": delta} for delta in deltas),
        {"type": "content_block_stop"},
    ]


def stream(blocks: list[tuple[str, list[str]]], reason: str) -> list[bytes]:
    """A good stream of these blocks."""
    body = [{**part, "index": at} for at, (kind, pieces) in enumerate(blocks) for part in block(kind, pieces)]
    last = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}
    return [HEAD, *map(event, [{"type": "ping"}, *body, last, {"type": "message_stop"}])]


GOOD = st.builds(
    stream,
    st.lists(st.tuples(st.sampled_from(["text", "thinking", "tool_use"]), PIECES), max_size=4),
    st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal"]),
)
ODD = st.sampled_from(
    [
        HEAD,
        event({"type": "message_stop"}),
        event({"type": "content_block_stop", "index": 0}),
        event({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}),
        event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "é"}}),
        event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        event({"type": "error", "error": {"type": "overloaded_error"}}),
        b": comment\n\n",
        b"data: {\n\n",
    ]
)
BROKEN = st.builds(lambda good, odd: [*good[:-2], odd], GOOD, ODD)
CHUNKS = st.one_of(GOOD, st.lists(ODD, max_size=10), BROKEN)


def decoded(*chunks: bytes) -> tuple[list[StreamEvent], str | None]:
    """Events and code of the failure."""
    decoder = MessagesStreamDecoder(place("anthropic", "assistant"), asked(), max_answer_bytes=5000)
    events, failed = run(decoder, *chunks)
    return events, failed.code if failed else None


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at these places."""
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(borders)]


@given(chunks=CHUNKS, cuts=st.lists(st.integers(0, 4000), max_size=10))
@settings(max_examples=200)
def test_whole_equals_any_split(chunks: list[bytes], cuts: list[int]) -> None:
    data = b"".join(chunks)
    whole = decoded(data)
    assert decoded(*chunks) == whole
    assert decoded(*pieces(data, cuts)) == whole


@given(chunks=CHUNKS)
@settings(max_examples=200)
def test_the_order_law_holds_for_any_row_of_events(chunks: list[bytes]) -> None:
    events, code = decoded(*chunks)
    is_finished = False
    for at, item in enumerate(events):
        match item:
            case AnswerStart():
                assert at == 0
            case RoleDelta():
                assert at == 1
            case Finish():
                assert not is_finished
                is_finished = True
            case TextDelta():
                assert at > 1
                assert not is_finished
            case AnswerEnd():
                assert is_finished
                assert at == len(events) - 1
            case _:
                pass
    assert (code is None) == (bool(events) and isinstance(events[-1], AnswerEnd))


def read_stream(events: list[StreamEvent], cuts: list[int]) -> dict[str, Any]:
    """What a client that collects a stream ends with."""
    encoder = MessagesStreamEncoder(asked(thinking=Thinking.ADAPTIVE), "r")
    borders = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    data = b"".join(encoder.encode(events[start:end]) for start, end in pairwise(borders)) + encoder.end()
    content: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    for each in SseParser().feed(data):
        said = json.loads(each.data)
        match said["type"]:
            case "content_block_start":
                assert said["index"] == len(content)
                content.append({**said["content_block"], "json": ""})
            case "content_block_delta":
                assert said["index"] == len(content) - 1
                delta = said["delta"]
                name = {"text_delta": "text", "thinking_delta": "thinking"}.get(delta["type"], "json")
                content[-1][name] += delta[name if name != "json" else "partial_json"]
            case "message_delta":
                whole = {**said["delta"], "usage": said["usage"]}
            case _:
                pass
    for one in content:
        text = one.pop("json")
        if one["type"] == "tool_use":
            one["input"] = json.loads(text)
    return {**whole, "content": content}


def read_body(events: list[StreamEvent]) -> dict[str, Any]:
    """The same from the one body of a plain answer."""
    encoder = MessagesPlainEncoder(asked(thinking=Thinking.ADAPTIVE, stream=False), "r")
    encoder.encode(events)
    body = json.loads(encoder.end())
    return {name: body[name] for name in ("stop_reason", "stop_sequence", "usage", "content")}


@given(chunks=GOOD, cuts=st.lists(st.integers(0, 40), max_size=5))
@settings(max_examples=150)
def test_a_stream_and_a_plain_body_tell_the_same(chunks: list[bytes], cuts: list[int]) -> None:
    events, code = decoded(*chunks)
    assert code is None
    assert read_stream(events, cuts) == read_body(events)


@given(chunks=GOOD)
@settings(max_examples=100)
def test_what_the_gateway_wrote_reads_back_as_the_same_answer(chunks: list[bytes]) -> None:
    events, _ = decoded(*chunks)
    where = place("anthropic", "assistant")
    encoder = MessagesStreamEncoder(asked(thinking=Thinking.ADAPTIVE), "r")
    streamed, failed = run(MessagesStreamDecoder(where, asked()), encoder.encode(events) + encoder.end())
    assert failed is None
    body = MessagesPlainEncoder(asked(thinking=Thinking.ADAPTIVE, stream=False), "r")
    body.encode(events)
    plain, failed = run(MessagesPlainDecoder(where, asked(stream=False)), body.end())
    assert failed is None
    assert read_body(streamed) == read_body(plain) == read_body(events)


TEXTS = st.builds(lambda text: {"type": "text", "text": text}, WORDS)
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
NAMES = st.sampled_from(["f", "g"])
INPUT = st.dictionaries(WORDS, st.one_of(WORDS, st.integers(-5, 5), st.none()), max_size=2)
RESULT = st.builds(
    lambda text, failed: (
        {"type": "tool_result", "tool_use_id": "a", "content": text} | ({"is_error": True} if failed else {})
    ),
    st.one_of(WORDS, st.lists(st.one_of(TEXTS, st.just(IMAGE)), min_size=1, max_size=2)),
    st.booleans(),
)
USER = st.one_of(
    WORDS,
    st.tuples(
        st.lists(RESULT, max_size=2), st.lists(st.one_of(TEXTS, st.just(IMAGE)), min_size=1, max_size=2)
    ).map(lambda two: [*two[0], *two[1]]),
).map(lambda content: {"role": "user", "content": content})
ANSWER = st.one_of(
    WORDS,
    st.tuples(
        st.lists(TEXTS, min_size=1, max_size=2),
        st.lists(
            st.builds(lambda n, i: {"type": "tool_use", "id": "a", "name": n, "input": i}, NAMES, INPUT),
            max_size=2,
        ),
    ).map(lambda two: [*two[0], *two[1]]),
).map(lambda content: {"role": "assistant", "content": content})
TURNS = st.lists(st.tuples(USER, ANSWER), min_size=1, max_size=3).map(
    lambda pairs: [turn for pair in pairs for turn in pair]
)


@given(turns=TURNS, system=st.none() | WORDS | st.lists(TEXTS, min_size=2, max_size=3), stream_=st.booleans())
@settings(max_examples=150)
def test_a_conversation_arrives_as_it_was_sent(turns: list[Any], system: Any, stream_: bool) -> None:
    said = {"model": "claude", "max_tokens": 9, "messages": turns}
    if system is not None:
        said["system"] = system
    if stream_:
        said["stream"] = True
    assert sent(parse_messages(json.dumps(said).encode())) == said
