"""OpenAI's embeddings, both ways: `POST /v1/embeddings` of clients, and of destinations of OpenAI's kinds.

Invariants
1. An input of token numbers is a part that nobody here can read, and counts as such.
2. Destinations are asked for numbers and clients are told numbers or base64: an answer holds nothing but
   finite numbers, written anew, one list for each input.

Source: OpenAI's API reference for embeddings; vLLM 0.32.
"""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from gateway.dialects.openai_answer import MAX_ANSWER_BYTES, failure
from gateway.dialects.openai_chunks import UsageSaid, usage_of
from gateway.dialects.openai_errors import error_body
from gateway.dialects.openai_plain import refuse_end
from gateway.dialects.strict_json import decode, json_text, refuse_value
from gateway.domain.chat import (
    ChatRequest,
    EmbeddingOptions,
    JsonText,
    Message,
    OpaquePart,
    ResolvedRequest,
    Role,
    Surface,
    TextPart,
)
from gateway.domain.decision import Destination
from gateway.domain.limits import Usage
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Finish,
    RoleDelta,
    StreamEvent,
    TextDelta,
    ToolCallStart,
    UsageReport,
    Vector,
)
from gateway.errors import ConfigurationError, Refusal

MAX_INPUTS = 2048
MAX_DIMENSIONS = 65_536
KINDS = frozenset({"openai", "vllm"})

_ENCODER = msgspec.json.Encoder()
_TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Tokens = Annotated[list[_TokenId], Meta(min_length=1, max_length=65_536)]


class _Body(Struct, forbid_unknown_fields=True):
    """The whole body; `input` is read further by hand, because its four shapes are one JSON type."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    input: str | list[Any]
    dimensions: Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)] | None = None
    encoding_format: Literal["float", "base64"] | None = None


def parse_embeddings(body: bytes) -> ChatRequest:
    """The request in `body` (`POST /v1/embeddings`); each input is a message of the user.

    Bounds: `strict_json`, `MAX_INPUTS`. Refuses with `RequestRefused` (400).
    """
    asked = decode(body, _Body)
    return ChatRequest(
        model=asked.model,
        messages=tuple([Message(Role.USER, (part,)) for part in _parts(asked.input)]),
        surface=Surface.EMBEDDINGS,
        embedding=EmbeddingOptions(
            dimensions=asked.dimensions,
            is_base64=asked.encoding_format == "base64",
            is_list=not isinstance(asked.input, str) and not _is_tokens(asked.input),
        ),
    )


def _parts(given: str | list[Any]) -> list[TextPart | OpaquePart]:
    if isinstance(given, str):
        return [_text(given, "input")]
    if not given or len(given) > MAX_INPUTS:
        raise refuse_value("input", f"1 to {MAX_INPUTS} inputs are expected")
    if _is_tokens(given):
        return [_tokens(given, "input")]
    return [
        _text(each, f"input[{at}]") if isinstance(each, str) else _tokens(each, f"input[{at}]")
        for at, each in enumerate(given)
    ]


def _is_tokens(given: list[Any]) -> bool:
    return bool(given) and isinstance(given[0], int)


def _text(text: str, path: str) -> TextPart:
    if not text:
        raise refuse_value(path, "a text that is not empty is expected")
    return TextPart(text)


def _tokens(given: Any, path: str) -> OpaquePart:
    try:
        tokens = msgspec.convert(given, _Tokens)
    except msgspec.ValidationError:
        raise refuse_value(path, "a text, or a list of token numbers, is expected") from None
    # fail-closed: what the numbers say is known to the model's tokenizer only.
    return OpaquePart("token-ids", json_text(tokens))


def encode_embeddings(resolved: ResolvedRequest, destination: Destination) -> bytes:
    """JSON body of `resolved` for `destination`. Raises `ConfigurationError` for another kind."""
    if destination.kind not in KINDS:
        raise ConfigurationError(f"no dialect asks a destination of kind {destination.kind!r} for embeddings")
    options = resolved.chat.embedding or EmbeddingOptions()
    inputs: list[Any] = [
        part.text if isinstance(part, TextPart) else msgspec.Raw(part.payload)
        for message in resolved.chat.messages
        for part in message.parts
    ]
    body: dict[str, Any] = {
        "model": destination.model,
        "input": inputs if options.is_list or len(inputs) != 1 else inputs[0],
        "encoding_format": "float",
    }
    if options.dimensions is not None:
        body["dimensions"] = options.dimensions
    return _ENCODER.encode(body)


class _VectorSaid(Struct, gc=False):
    index: int
    embedding: list[float]


class _Said(Struct, gc=False):
    model: str = ""
    data: list[_VectorSaid] = []
    usage: UsageSaid | None = None
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_SAID = msgspec.json.Decoder(_Said)


class EmbeddingsDecoder:
    """Decoder of one answer. All events come with `flush`. Bounds: `max_answer_bytes`."""

    __slots__ = ("_body", "_count", "_destination", "_max_bytes")

    def __init__(
        self, destination: Destination, request: ChatRequest, *, max_answer_bytes: int = MAX_ANSWER_BYTES
    ) -> None:
        self._destination = destination
        self._count = len(request.messages)
        self._max_bytes = max_answer_bytes
        self._body = bytearray()

    def feed(self, chunk: bytes) -> tuple[StreamEvent, ...]:
        """Collect. Raises `UpstreamFailed` above the bound."""
        self._body += chunk
        if len(self._body) > self._max_bytes:
            self._body.clear()
            raise failure("upstream-oversized", "answer")
        return ()

    def flush(self) -> tuple[StreamEvent, ...]:
        """All events of the answer. Raises `UpstreamFailed` for anything but a whole, clean one."""
        if not self._body.strip():
            raise failure("upstream-truncated", "empty")
        try:
            said = _SAID.decode(self._body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            is_cut = str(error) == "Input data was truncated"
            raise failure("upstream-truncated" if is_cut else "upstream-malformed", "json") from None
        if said.error is not msgspec.UNSET:
            raise failure("upstream-error-in-stream", "error-object")
        asked = self._destination.model
        is_dated = self._destination.kind == "openai" and said.model.startswith(asked + "-")
        if said.model != asked and not is_dated:
            raise failure("upstream-malformed", "wrong-model")
        usage = None if said.usage is None else usage_of(said.usage)
        if said.usage is not None and usage is None:
            raise failure("upstream-malformed", "usage")
        out: list[StreamEvent] = [
            AnswerStart("", said.model, 0),
            *self._vectors(said.data),
            Finish(0, "stop"),
        ]
        if usage is not None:
            out.append(UsageReport(usage))
        return (*out, AnswerEnd())

    def _vectors(self, data: list[_VectorSaid]) -> list[Vector]:
        ordered = sorted(data, key=lambda each: each.index)
        if [each.index for each in ordered] != list(range(self._count)):
            raise failure("upstream-malformed", "vector-index")
        for each in ordered:
            if not 0 < len(each.embedding) <= MAX_DIMENSIONS or not all(map(math.isfinite, each.embedding)):
                raise failure("upstream-malformed", "vector")
        return [Vector(each.index, json_text(each.embedding)) for each in ordered]


class EmbeddingsEncoder:
    """Encoder of one answer. `end` gives the body."""

    __slots__ = ("_is_finished", "_request", "_request_id", "_usage", "_vectors")

    def __init__(self, request: ChatRequest, request_id: str) -> None:
        self._request = request
        self._request_id = request_id
        self._vectors: list[Vector] = []
        self._usage: Usage | None = None
        self._is_finished = False

    @property
    def content_type(self) -> bytes:
        """Value of the content-type header."""
        return b"application/json"

    def encode(self, events: Sequence[StreamEvent]) -> bytes:
        """Collect; always empty. Raises `UpstreamFailed` for text, which no embedding has."""
        for event in events:
            match event:
                case Vector():
                    self._vectors.append(event)
                case Finish():
                    self._is_finished = True
                case UsageReport(usage=usage):
                    self._usage = usage
                case TextDelta() | ToolCallStart() | RoleDelta():
                    raise refuse_end()
                case AnswerStart() | AnswerEnd():
                    pass
        return b""

    def end(self) -> bytes:
        """The whole body. Raises `UpstreamFailed` without a finish."""
        if not self._is_finished:
            # fail-closed: a cut answer must not look like a whole one.
            raise refuse_end()
        tokens = 0 if self._usage is None else self._usage.input_tokens
        return _ENCODER.encode(
            {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": each.index, "embedding": self._written(each.values)}
                    for each in self._vectors
                ],
                "model": self._request.model,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    def fail(self, refusal: Refusal) -> bytes:
        """The body of the error, in place of the answer."""
        return error_body(refusal, self._request_id)

    def _written(self, values: JsonText) -> Any:
        if self._request.embedding is None or not self._request.embedding.is_base64:
            return msgspec.Raw(values)
        # 32-bit floats in little-endian order, as OpenAI's clients read them.
        numbers = array("f", msgspec.json.decode(values, type=list[float]))
        return base64.b64encode(numbers.tobytes()).decode()
