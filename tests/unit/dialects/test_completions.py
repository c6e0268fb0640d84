"""Completions: one text to be continued, read, sent, and answered whole or in pieces."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.completions import (
    CompletionPlainDecoder,
    CompletionPlainEncoder,
    CompletionStreamDecoder,
    CompletionStreamEncoder,
    encode_completion,
    parse_completion,
)
from gateway.domain.chat import ChatRequest, Message, OpaquePart, ResolvedRequest, Role, Surface, TextPart
from gateway.domain.limits import Usage
from gateway.domain.stream import AnswerEnd, AnswerStart, Channel, Finish, RoleDelta, TextDelta, UsageReport
from gateway.errors import ConfigurationError, RequestRefused, UpstreamFailed
from tests.fakes.chat_answers import SENTENCES, legacy_answer
from tests.unit.dialects.chat_bodies import place
from tests.unit.dialects.provider_answers import DONE, run


def parse(prompt: Any = "Once", **fields: Any) -> ChatRequest:
    return parse_completion(json.dumps({"model": "assistant", "prompt": prompt, **fields}).encode())


def sent(chat: ChatRequest, kind: str = "vllm", **more: Any) -> Any:
    return json.loads(encode_completion(ResolvedRequest(chat), place(kind), **more))


def stream(**fields: Any) -> list[bytes]:
    told = legacy_answer({"model": "moe", "stream": True, **fields})
    return [*(b"data: " + json.dumps(part).encode() + b"\n\n" for part in told), DONE]


def test_reads_and_sends_every_field() -> None:
    fields = {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "n": 2,
        "stop": ["END"],
        "seed": 3,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
    }
    chat = parse(**fields, stream=True, stream_options={"include_usage": True}, echo=False)
    assert chat.messages == (Message(Role.USER, (TextPart("Once"),)),)
    assert (chat.surface, chat.stream, chat.include_usage) == (Surface.COMPLETIONS, True, True)
    assert sent(chat, "openai", cache_salt="s", priority=1) == {
        "model": "moe",
        "prompt": "Once",
        **fields,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    own = sent(chat, cache_salt="s", priority=1, max_output_tokens=4)
    assert (own["cache_salt"], own["priority"], own["max_tokens"]) == ("s", 1, 4)


def test_a_list_of_one_text_is_that_text_and_token_numbers_are_opaque() -> None:
    assert parse(["Once"]).messages == parse("Once").messages
    chat = parse([15, 20])
    assert isinstance(chat.messages[0].parts[0], OpaquePart)
    assert sent(chat)["prompt"] == [15, 20]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": ["A", "B"]}, "invalid-value", "prompt"),
        ({"prompt": ["A", 5]}, "invalid-value", "prompt"),
        ({"prompt": []}, "invalid-value", "prompt"),
        ({"echo": True}, "invalid-value", "echo"),
        ({"logprobs": 5}, "unknown-field", "logprobs"),
        ({"suffix": "x"}, "unknown-field", "suffix"),
        ({"best_of": 2}, "unknown-field", "best_of"),
        ({"user": "u"}, "unknown-field", "user"),
        ({"stream_options": {"include_usage": True}}, "invalid-value", "stream_options"),
    ],
)
def test_refuses_what_it_does_not_carry(fields: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse(**fields)
    assert caught.value.code == code
    assert caught.value.param == param


def test_asks_no_other_kind() -> None:
    with pytest.raises(ConfigurationError):
        sent(parse(), "anthropic")


def test_reads_an_answer_whole_and_in_pieces() -> None:
    chat = parse(n=2)
    whole, failed = run(
        CompletionPlainDecoder(place(), chat),
        json.dumps(next(legacy_answer({"model": "moe", "n": 2}))).encode(),
    )
    assert failed is None
    assert whole == [
        AnswerStart("cmpl-standin", "moe", 1_767_225_600),
        RoleDelta(0, "assistant"),
        TextDelta(0, Channel.CONTENT, SENTENCES[0]),
        Finish(0, "stop"),
        RoleDelta(1, "assistant"),
        TextDelta(1, Channel.CONTENT, SENTENCES[1]),
        Finish(1, "stop"),
        UsageReport(Usage(3, 9)),
        AnswerEnd(),
    ]
    pieces, failed = run(CompletionStreamDecoder(place(), chat), *stream(n=2))
    assert failed is None
    for at in (0, 1):
        texts = [each.text for each in pieces if isinstance(each, TextDelta) and each.choice == at]
        assert "".join(texts) == SENTENCES[at]


@pytest.mark.parametrize(
    ("chunks", "code"),
    [
        (stream()[:-1], "upstream-truncated"),
        ([*stream()[:3], DONE], "upstream-truncated"),
        ([b"data: {\n\n"], "upstream-malformed"),
        ([b'data: {"error": {}}\n\n'], "upstream-error-in-stream"),
        ([b"event: error\ndata: {}\n\n"], "upstream-error-in-stream"),
        ([stream()[0].replace(b'"moe"', b'"other"')], "upstream-malformed"),
        ([stream()[0].replace(b'"index": 0', b'"index": 1')], "upstream-malformed"),
    ],
)
def test_each_fault_of_a_stream_is_one_failure(chunks: list[bytes], code: str) -> None:
    events, failed = run(CompletionStreamDecoder(place(), parse()), *chunks)
    assert failed is not None
    assert failed.code == code
    assert AnswerEnd() not in events


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", "upstream-truncated"), (b'{"id"', "upstream-truncated"), (b"[]", "upstream-malformed")],
)
def test_each_fault_of_a_plain_answer_is_one_failure(body: bytes, code: str) -> None:
    events, failed = run(CompletionPlainDecoder(place(), parse()), body)
    assert events == []
    assert failed is not None
    assert failed.code == code


@pytest.mark.parametrize("kind", [CompletionStreamEncoder, CompletionPlainEncoder])
def test_a_cut_answer_has_no_clean_end_and_no_reasoning_gets_lost(kind: Any) -> None:
    encoder = kind(parse(), "r1", 1800)
    encoder.encode([TextDelta(0, Channel.CONTENT, "A")])
    with pytest.raises(UpstreamFailed):
        encoder.end()
    with pytest.raises(UpstreamFailed):
        encoder.encode([TextDelta(0, Channel.REASONING, "A")])
    assert b"upstream-failed" in encoder.fail(UpstreamFailed("x"))


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def told(texts: list[tuple[int, str]]) -> bytes:
    """A stream of two choices."""
    rows: list[dict[str, Any]] = [{"index": at, "text": text, "finish_reason": None} for at, text in texts]
    rows += [{"index": at, "text": "", "finish_reason": "stop"} for at in (1, 0)]
    chunks = [
        json.dumps({"model": "assistant", "choices": [row]}, ensure_ascii=False).encode() for row in rows
    ]
    return b"".join(b"data: " + chunk + b"\n\n" for chunk in chunks) + DONE


@given(
    texts=st.lists(st.tuples(st.integers(0, 1), WORDS), max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=8),
)
@settings(max_examples=150)
def test_whole_equals_any_split_and_stream_equals_body(texts: list[tuple[int, str]], cuts: list[int]) -> None:
    data, chat, where = told(texts), parse(n=2), place(model="assistant")
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    whole, failed = run(CompletionStreamDecoder(where, chat), data)
    assert failed is None
    assert run(CompletionStreamDecoder(where, chat), *(data[a:b] for a, b in pairwise(borders))) == (
        whole,
        None,
    )
    plain, streamed = CompletionPlainEncoder(chat, "r", 1), CompletionStreamEncoder(chat, "r", 1)
    plain.encode(whole)
    body = json.loads(plain.end())
    again, failed = run(CompletionStreamDecoder(where, chat), streamed.encode(whole) + streamed.end())
    assert failed is None
    for at, choice in enumerate(body["choices"]):
        assert choice["text"] == "".join(text for index, text in texts if index == at)
        pieces = [each.text for each in again if isinstance(each, TextDelta) and each.choice == at]
        assert choice["text"] == "".join(pieces)
