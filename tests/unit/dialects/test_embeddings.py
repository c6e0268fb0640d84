"""Embeddings: requests in their four shapes, answers of finite numbers only."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.embeddings import (
    EmbeddingsDecoder,
    EmbeddingsEncoder,
    encode_embeddings,
    parse_embeddings,
)
from gateway.domain.chat import ChatRequest, OpaquePart, ResolvedRequest, Surface, TextPart
from gateway.domain.limits import Usage
from gateway.domain.stream import AnswerEnd, Channel, Finish, TextDelta, UsageReport, Vector
from gateway.errors import ConfigurationError, RequestRefused, UpstreamFailed
from tests.unit.dialects.chat_bodies import place
from tests.unit.dialects.provider_answers import run

GOOD: dict[str, Any] = {
    "object": "list",
    "model": "moe",
    "data": [{"index": 1, "embedding": [0.5, -2]}, {"index": 0, "embedding": [1.0, 2.5]}],
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}


def parse(given: Any, **fields: Any) -> ChatRequest:
    return parse_embeddings(json.dumps({"model": "embedder", "input": given, **fields}).encode())


def sent(chat: ChatRequest) -> Any:
    return json.loads(encode_embeddings(ResolvedRequest(chat), place()))


def decoded(body: Any, chat: ChatRequest | None = None) -> tuple[list[Any], str | None]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    events, failed = run(EmbeddingsDecoder(place(), chat or parse(["A", "B"])), data)
    return events, f"{failed.code} {failed.detail}" if failed else None


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        ("Hello", [TextPart]),
        (["A"], [TextPart]),
        (["A", "B"], [TextPart, TextPart]),
        ([1, 2], [OpaquePart]),
        ([[1, 2], [3]], [OpaquePart, OpaquePart]),
        (["A", [3]], [TextPart, OpaquePart]),
    ],
)
def test_each_shape_is_read_and_arrives_as_it_was_sent(shape: Any, kinds: list[type]) -> None:
    chat = parse(shape)
    assert chat.surface is Surface.EMBEDDINGS
    assert [type(part) for message in chat.messages for part in message.parts] == kinds
    assert sent(chat) == {"model": "moe", "input": shape, "encoding_format": "float"}


def test_dimensions_are_sent() -> None:
    assert sent(parse("A", dimensions=256, encoding_format="base64"))["dimensions"] == 256


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": ""}, "invalid-value", "input"),
        ({"input": []}, "invalid-value", "input"),
        ({"input": ["A", ""]}, "invalid-value", "input[1]"),
        ({"input": [[]]}, "invalid-value", "input[0]"),
        ({"input": [-1]}, "invalid-value", "input"),
        ({"input": [1, "A"]}, "invalid-value", "input"),
        ({"input": [True]}, "invalid-value", "input"),
        ({"input": [{"text": "A"}]}, "invalid-value", "input[0]"),
        ({"input": ["A"] * 2049}, "invalid-value", "input"),
        ({"dimensions": 0}, "invalid-value", "dimensions"),
        ({"user": "u"}, "unknown-field", "user"),
    ],
)
def test_refuses_what_it_does_not_carry(fields: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse(**{"given": fields.pop("input", "A"), **fields})
    assert (caught.value.code, caught.value.param) == (code, param)


def test_asks_no_other_kind() -> None:
    with pytest.raises(ConfigurationError):
        encode_embeddings(ResolvedRequest(parse("A")), place("anthropic"))


def test_reads_an_answer_in_the_order_of_its_inputs() -> None:
    events, failed = decoded(GOOD)
    assert failed is None
    assert events[1:] == [
        Vector(0, "[1.0,2.5]"),  # type: ignore[arg-type]
        Vector(1, "[0.5,-2.0]"),  # type: ignore[arg-type]
        Finish(0, "stop"),
        UsageReport(Usage(7, 0)),
        AnswerEnd(),
    ]


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (b"", "upstream-truncated empty"),
        (json.dumps(GOOD).encode()[:-3], "upstream-truncated json"),
        (b"[]", "upstream-malformed json"),
        ({**GOOD, "model": "other"}, "upstream-malformed wrong-model"),
        ({**GOOD, "data": GOOD["data"][:1]}, "upstream-malformed vector-index"),
        ({**GOOD, "data": [GOOD["data"][0]] * 2}, "upstream-malformed vector-index"),
        ({**GOOD, "data": [GOOD["data"][0], {"index": 0, "embedding": []}]}, "upstream-malformed vector"),
        ({**GOOD, "data": [GOOD["data"][0], {"index": 0, "embedding": ["text"]}]}, "upstream-malformed json"),
        ({**GOOD, "usage": {"prompt_tokens": -1}}, "upstream-malformed usage"),
        ({"error": {"message": "no"}}, "upstream-error-in-stream error-object"),
    ],
)
def test_each_fault_is_one_failure(body: Any, failure: str) -> None:
    assert decoded(body) == ([], failure)


def test_an_answer_has_a_bound() -> None:
    decoder = EmbeddingsDecoder(place(), parse("A"), max_answer_bytes=3)
    with pytest.raises(UpstreamFailed) as caught:
        decoder.feed(b"data")
    assert caught.value.code == "upstream-oversized"


def test_writes_numbers_or_base64_as_asked() -> None:
    for wanted in ("float", "base64"):
        chat = parse(["A", "B"], encoding_format=wanted)
        encoder = EmbeddingsEncoder(chat, "r1")
        assert encoder.encode(decoded(GOOD, chat)[0]) == b""
        body = json.loads(encoder.end())
        vectors = [each["embedding"] for each in body["data"]]
        if wanted == "base64":
            vectors = [list(struct.unpack("<2f", base64.b64decode(each))) for each in vectors]
        assert vectors == [[1.0, 2.5], [0.5, -2.0]]
        assert (body["model"], body["usage"]["total_tokens"]) == ("embedder", 7)


def test_a_cut_answer_or_one_with_text_has_no_body() -> None:
    encoder = EmbeddingsEncoder(parse("A"), "r1")
    with pytest.raises(UpstreamFailed):
        encoder.end()
    with pytest.raises(UpstreamFailed):
        encoder.encode([TextDelta(0, Channel.CONTENT, "A")])


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(
    vectors=st.lists(st.lists(NUMBERS, min_size=1, max_size=4), min_size=1, max_size=4),
    cut=st.integers(0, 200),
)
def test_what_the_gateway_wrote_reads_back_as_the_same_answer(vectors: list[list[float]], cut: int) -> None:
    chat = parse(["A"] * len(vectors))
    body = {**GOOD, "data": [{"index": at, "embedding": each} for at, each in enumerate(vectors)]}
    data = json.dumps(body).encode()
    whole, failed = run(EmbeddingsDecoder(place(), chat), data)
    assert failed is None
    assert run(EmbeddingsDecoder(place(), chat), data[:cut], data[cut:]) == (whole, None)
    encoder = EmbeddingsEncoder(chat, "r1")
    encoder.encode(whole)
    again, _ = run(EmbeddingsDecoder(place(model="embedder"), chat), encoder.end())
    assert [each for each in again if isinstance(each, Vector)] == [
        each for each in whole if isinstance(each, Vector)
    ]
