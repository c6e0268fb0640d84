"""OpenAI's completions, the format before chat, both ways: one text, continued.

Invariants
1. The prompt is one message of the user to every guard. Token numbers are a part that nobody can read.
2. Answers obey what `openai_answer` and `openai_encoder` say of chat; only the shape of a choice differs.

Source: OpenAI's API reference for completions; vLLM 0.32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, assert_never

import msgspec
from msgspec import Meta, Struct

from gateway.dialects import openai_wire as wire
from gateway.dialects.openai_answer import ChatPlainDecoder, ChatStreamDecoder, failure
from gateway.dialects.openai_body import KINDS, put_extensions, put_sampling
from gateway.dialects.openai_chunks import AnswerSaid, ChoiceSaid, UsageSaid, Words
from gateway.dialects.openai_errors import error_body
from gateway.dialects.openai_plain import refuse_end, usage_fields
from gateway.dialects.sse import SseEvent, write_event
from gateway.dialects.strict_json import decode, json_text, refuse_value
from gateway.domain.chat import (
    ChatRequest,
    Message,
    OpaquePart,
    Part,
    ResolvedRequest,
    Role,
    Sampling,
    Surface,
    TextPart,
)
from gateway.domain.decision import Destination
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
    Vector,
)
from gateway.errors import ConfigurationError, Refusal

_ENCODER = msgspec.json.Encoder()
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Stop = Annotated[str, Meta(min_length=1, max_length=512)]
_TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _Body(Struct, forbid_unknown_fields=True):
    """The whole body. `None` means that the client did not say."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    prompt: str | Annotated[list[str | _TokenId], Meta(min_length=1, max_length=65_536)]
    max_tokens: Annotated[int, Meta(ge=1, le=wire.MAX_OUTPUT_TOKENS)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    n: Annotated[int, Meta(ge=1, le=wire.MAX_CHOICES)] | None = None
    stop: _Stop | Annotated[list[_Stop], Meta(max_length=16)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    stream: bool | None = None
    stream_options: wire.StreamOptions | None = None
    echo: Literal[False] | None = None
    logprobs: None = None


def parse_completion(body: bytes) -> ChatRequest:
    """The request in `body` (`POST /v1/completions`). Refuses with `RequestRefused` (400)."""
    asked = decode(body, _Body)
    if asked.stream_options is not None and not asked.stream:
        raise refuse_value("stream_options", "it is only accepted together with `stream: true`")
    stop = asked.stop
    return ChatRequest(
        model=asked.model,
        messages=(Message(Role.USER, (_prompt(asked.prompt),)),),
        sampling=Sampling(
            max_output_tokens=asked.max_tokens,
            temperature=asked.temperature,
            top_p=asked.top_p,
            n=asked.n or 1,
            stop=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
            seed=asked.seed,
            presence_penalty=asked.presence_penalty,
            frequency_penalty=asked.frequency_penalty,
        ),
        stream=bool(asked.stream),
        include_usage=bool(asked.stream_options and asked.stream_options.include_usage),
        surface=Surface.COMPLETIONS,
    )


def _prompt(prompt: str | list[str | int]) -> Part:
    if isinstance(prompt, str):
        return TextPart(prompt)
    if all(isinstance(each, int) for each in prompt):
        # fail-closed: what the numbers say is known to the model's tokenizer only.
        return OpaquePart("token-ids", json_text(prompt))
    if len(prompt) != 1 or not isinstance(prompt[0], str):
        raise refuse_value("prompt", "one text is expected; send a request for each")
    return TextPart(prompt[0])


def encode_completion(
    resolved: ResolvedRequest,
    destination: Destination,
    *,
    max_output_tokens: int | None = None,
    cache_salt: str | None = None,
    priority: int | None = None,
) -> bytes:
    """JSON body of `resolved` for `destination`; the parameters are those of `openai_body.encode_body`."""
    chat = resolved.chat
    if destination.kind not in KINDS:
        raise ConfigurationError(f"no dialect asks a destination of kind {destination.kind!r} to continue")
    part = chat.messages[0].parts[0]
    body: dict[str, Any] = {
        "model": destination.model,
        "prompt": part.text if isinstance(part, TextPart) else msgspec.Raw(part.payload),
    }
    put_sampling(body, chat)
    bounds = [each for each in (chat.sampling.max_output_tokens, max_output_tokens) if each is not None]
    if bounds:
        body["max_tokens"] = min(bounds)
    if chat.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    put_extensions(body, chat, destination)
    if destination.kind == "vllm":
        own = {"cache_salt": cache_salt, "priority": priority}
        body |= {name: value for name, value in own.items() if value is not None}
    return _ENCODER.encode(body)


class _ChoiceSaid(Struct, gc=False):
    index: int
    text: str = ""
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _Said(Struct, gc=False):
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str = ""
    system_fingerprint: str | None = None
    choices: list[_ChoiceSaid] = []
    usage: UsageSaid | None = None
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_SAID = msgspec.json.Decoder(_Said)


def _parse(data: bytes | bytearray, *, may_be_cut: bool) -> AnswerSaid:
    """A chunk or a body, in the shape of a chat answer."""
    try:
        said = _SAID.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        is_cut = may_be_cut and str(error) == "Input data was truncated"
        raise failure("upstream-truncated" if is_cut else "upstream-malformed", "json") from None
    choices = [
        ChoiceSaid(
            each.index,
            delta=Words(content=each.text),
            finish_reason=each.finish_reason,
            stop_reason=each.stop_reason,
        )
        for each in said.choices
    ]
    return AnswerSaid(
        said.id,
        said.object,
        said.created,
        said.model,
        said.system_fingerprint,
        choices,
        said.usage,
        said.error,
    )


class CompletionStreamDecoder(ChatStreamDecoder):
    """Decoder of one streamed answer."""

    __slots__ = ()

    def _event(self, event: SseEvent, out: list[StreamEvent]) -> None:
        if event.data == b"[DONE]" or event.event == "error":
            super()._event(event, out)
            return
        self._reader.read(_parse(event.data, may_be_cut=False), out)


class CompletionPlainDecoder(ChatPlainDecoder):
    """Decoder of one plain answer. All events come with `flush`."""

    __slots__ = ()

    def flush(self) -> tuple[StreamEvent, ...]:
        """All events of the answer. Raises `UpstreamFailed` for anything but a whole, clean one."""
        if not self._body.strip():
            raise failure("upstream-truncated", "empty")
        out: list[StreamEvent] = []
        self._reader.read(_parse(self._body, may_be_cut=True), out)
        self._reader.end(out)
        return tuple(out)


class _Encoder:
    """What both encoders have in common: the head of the object, and the choices that were begun."""

    __slots__ = ("_fields", "_reasons", "_request_id", "_texts", "_usage")

    def __init__(self, request: ChatRequest, request_id: str, created_seconds: int) -> None:
        self._request_id = request_id
        self._fields: dict[str, Any] = {
            "id": f"cmpl-{request_id}",
            "object": "text_completion",
            "created": created_seconds,
            "model": request.model,
        }
        self._texts: dict[int, list[str]] = {}
        self._reasons: dict[int, str] = {}
        self._usage: Usage | None = None

    def _take(self, event: StreamEvent) -> dict[str, Any] | None:
        """The choice that an event adds to, in the words of the dialect; None when it adds to none."""
        match event:
            case TextDelta(channel=Channel.CONTENT, choice=index, text=text):
                self._texts.setdefault(index, []).append(text)
                return {"index": index, "text": text, "logprobs": None, "finish_reason": None}
            case Finish(choice=index, reason=reason):
                self._texts.setdefault(index, [])
                self._reasons[index] = reason
                return {"index": index, "text": "", "logprobs": None, "finish_reason": reason}
            case RoleDelta(choice=index):
                self._texts.setdefault(index, [])
            case UsageReport(usage=usage):
                self._usage = usage
            case TextDelta() | ToolCallStart() | Vector():
                # fail-closed: this dialect has no place for it, and to leave it out would not be told.
                raise refuse_end()
            case AnswerStart() | AnswerEnd():
                pass
            case _:
                assert_never(event)
        return None

    def _check_end(self) -> None:
        if not self._texts or self._texts.keys() != self._reasons.keys():
            # fail-closed: a cut answer must not look like a whole one.
            raise refuse_end()


class CompletionPlainEncoder(_Encoder):
    """Encoder of one plain answer: a fold over the same events. `end` gives the body."""

    __slots__ = ()

    @property
    def content_type(self) -> bytes:
        """Value of the content-type header."""
        return b"application/json"

    def encode(self, events: Sequence[StreamEvent]) -> bytes:
        """Collect; always empty."""
        for event in events:
            self._take(event)
        return b""

    def end(self) -> bytes:
        """The whole body. Raises `UpstreamFailed` when a choice has not finished."""
        self._check_end()
        choices = [
            {"index": at, "text": "".join(pieces), "logprobs": None, "finish_reason": self._reasons[at]}
            for at, pieces in sorted(self._texts.items())
        ]
        usage = {} if self._usage is None else {"usage": usage_fields(self._usage)}
        return _ENCODER.encode({**self._fields, "choices": choices, **usage})

    def fail(self, refusal: Refusal) -> bytes:
        """The body of the error, in place of the answer."""
        return error_body(refusal, self._request_id)


class CompletionStreamEncoder(_Encoder):
    """Encoder of one streamed answer. Each event has data; `[DONE]` only after a clean end."""

    __slots__ = ("_wants_usage",)

    def __init__(self, request: ChatRequest, request_id: str, created_seconds: int) -> None:
        super().__init__(request, request_id, created_seconds)
        self._wants_usage = request.include_usage

    @property
    def content_type(self) -> bytes:
        """Value of the content-type header."""
        return b"text/event-stream; charset=utf-8"

    def encode(self, events: Sequence[StreamEvent]) -> bytes:
        """Chunks for these events."""
        choices = [choice for event in events if (choice := self._take(event)) is not None]
        return b"".join([self._chunk([choice]) for choice in choices])

    def end(self) -> bytes:
        """The usage where it was asked for, and `[DONE]`. Raises `UpstreamFailed` for an open choice."""
        self._check_end()
        told = b""
        if self._wants_usage and self._usage is not None:
            told = self._chunk([], usage=usage_fields(self._usage))
        return told + b"data: [DONE]\n\n"

    def fail(self, refusal: Refusal) -> bytes:
        """One error event, and no clean end."""
        return write_event(error_body(refusal, self._request_id))

    def _chunk(self, choices: list[Any], **more: Any) -> bytes:
        return write_event(_ENCODER.encode({**self._fields, "choices": choices, **more}))
