"""Answers of providers of OpenAI's kind as events: streamed (SSE chunks) and plain (one body).

Invariants
1. The order law of `gateway.domain.stream` holds for every input; what breaks it is a failure.
2. Whole equals any split: events and failure do not depend on where the bytes were cut. A failure
   is raised by the call after the one that returned the last good events.
3. `AnswerEnd` comes only after `[DONE]` (stream) or a whole body (plain), with every choice finished.
   Both OpenAI and vLLM send `[DONE]`, so a stream without it was cut.
4. Only texts of the four channels are free text. Ids, fingerprints, stop reasons and tool names are
   held to narrow shapes, because the output filter reads channels only.
5. After `max_answer_bytes` bytes the answer fails, whatever they hold.
6. No word of the provider's error is passed on.
"""

from __future__ import annotations

import re

import msgspec

from gateway.dialects.openai_chunks import (
    MAX_TOOL_CALLS,
    AnswerSaid,
    CallSaid,
    ChoiceSaid,
    Words,
    logprobs_text,
    printable,
    usage_of,
)
from gateway.dialects.sse import SseEvent, SseParser
from gateway.domain.chat import ChatRequest, JsonText
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
)
from gateway.errors import UpstreamFailed

MAX_ANSWER_BYTES = 32 * 1024 * 1024

_DECODER = msgspec.json.Decoder(AnswerSaid)
_ENCODER = msgspec.json.Encoder()
TOOL_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
_BROKEN_REASONS = frozenset({"abort", "error"})
_SENTENCES = {
    "upstream-malformed": "The destination sent something that is not a chat answer; try again.",
    "upstream-truncated": "The destination's answer was cut off before its end; try again.",
    "upstream-error-in-stream": "The destination reported an error within its answer; try again.",
    "upstream-oversized": "The destination's answer is larger than the gateway reads; ask for less.",
}


def failure(code: str, detail: str) -> UpstreamFailed:
    """The failure for one of the four codes; `detail` is a closed word for operators."""
    return UpstreamFailed(_SENTENCES[code], code=code, detail=detail)


class _Choice:
    """What was seen of one choice."""

    __slots__ = ("finished", "has_role", "index", "tools")

    def __init__(self, index: int) -> None:
        self.index = index
        self.has_role = False
        self.finished = False
        self.tools: dict[int, str] = {}


class AnswerReader:
    """Turns parsed answers into events and keeps the order law. Shared by both decoders."""

    __slots__ = ("_choices", "_destination", "_started", "_stops", "_wants_logprobs", "usage")

    def __init__(self, destination: Destination, request: ChatRequest) -> None:
        self._destination = destination
        self._stops = frozenset(request.sampling.stop)
        self._choices = [_Choice(index) for index in range(request.sampling.n)]
        # Log probabilities repeat the text, so they are read only for a client that asked.
        self._wants_logprobs = bool(request.sampling.logprobs)
        self._started = False
        #: The last usage that was told.
        self.usage: Usage | None = None

    def read(self, said: AnswerSaid, out: list[StreamEvent]) -> None:
        """Append the events of one chunk or body to `out`. Raises `UpstreamFailed`."""
        if said.is_error:
            raise failure("upstream-error-in-stream", "error-object")
        if said.usage is not None:
            usage = usage_of(said.usage)
            if usage is None:
                raise failure("upstream-malformed", "usage")
            self.usage = usage
        for choice in said.choices:
            if not self._started:
                self._start(said, out)
            self._choice(choice, out)

    def end(self, out: list[StreamEvent]) -> None:
        """Append what closes a clean answer. Raises when a choice is missing or not finished."""
        if not all(choice.finished for choice in self._choices):
            raise failure("upstream-truncated", "unfinished-choice")
        if self.usage is not None:
            out.append(UsageReport(self.usage))
        out.append(AnswerEnd())

    def _start(self, said: AnswerSaid, out: list[StreamEvent]) -> None:
        asked = self._destination.model
        # Hosted models answer an alias with a dated name (`model-2026-01-01`); a private node repeats
        # the served name. Any other model was not what the permit named.
        if said.model != asked and not (
            self._destination.kind == "openai" and said.model.startswith(asked + "-")
        ):
            raise failure("upstream-malformed", "wrong-model")
        self._started = True
        out.append(
            AnswerStart(
                id=printable(said.id) or "",
                model=said.model,
                created_seconds=max(0, said.created or 0),
                system_fingerprint=printable(said.system_fingerprint),
            )
        )

    def _choice(self, said: ChoiceSaid, out: list[StreamEvent]) -> None:
        if not 0 <= said.index < len(self._choices):
            raise failure("upstream-malformed", "choice-index")
        choice = self._choices[said.index]
        words = said.delta or said.message
        if words is not None:
            logprobs = self._logprobs(said) if self._wants_logprobs else None
            # The shape of nearly every chunk: some content and nothing else.
            if (
                words.content
                and choice.has_role
                and not choice.finished
                and logprobs is None
                and not (
                    words.role
                    or words.reasoning
                    or words.reasoning_content
                    or words.refusal
                    or words.tool_calls
                )
            ):
                out.append(TextDelta(said.index, Channel.CONTENT, words.content))
            else:
                self._words(choice, words, logprobs, out)
        if said.finish_reason is not None:
            self._finish(choice, said, out)

    @staticmethod
    def _logprobs(said: ChoiceSaid) -> JsonText | None:
        try:
            return logprobs_text(said.logprobs)
        except (msgspec.DecodeError, RecursionError):
            raise failure("upstream-malformed", "logprobs") from None

    def _words(
        self, choice: _Choice, words: Words, logprobs: JsonText | None, out: list[StreamEvent]
    ) -> None:
        if words.role and words.role != "assistant":
            raise failure("upstream-malformed", "role")
        index = choice.index
        reasoning = words.reasoning or words.reasoning_content
        has_text = bool(reasoning or words.content or words.refusal or words.tool_calls or logprobs)
        if choice.finished:
            if has_text:
                raise failure("upstream-malformed", "delta-after-finish")
            return
        if not choice.has_role and (words.role or has_text):
            choice.has_role = True
            out.append(RoleDelta(index, "assistant"))
        if reasoning:
            out.append(TextDelta(index, Channel.REASONING, reasoning))
        if words.content or (logprobs is not None and not reasoning and not words.tool_calls):
            # A token that ends within a character has log probabilities and no text yet.
            out.append(TextDelta(index, Channel.CONTENT, words.content or "", logprobs=logprobs))
        if words.refusal:
            out.append(TextDelta(index, Channel.REFUSAL, words.refusal))
        for position, call in enumerate(words.tool_calls or ()):
            self._call(choice, position, call, out)

    def _call(self, choice: _Choice, position: int, call: CallSaid, out: list[StreamEvent]) -> None:
        tool = position if call.index is None else call.index
        name = call.function.name if call.function else None
        arguments = call.function.arguments if call.function else None
        known = choice.tools.get(tool)
        if known is None:
            tool_id = printable(call.id)
            if not name or tool_id is None or not TOOL_NAME.fullmatch(name):
                raise failure("upstream-malformed", "tool-call-start")
            if not 0 <= tool < MAX_TOOL_CALLS:
                raise failure("upstream-malformed", "tool-call-index")
            choice.tools[tool] = name
            out.append(ToolCallStart(choice.index, tool, tool_id, name))
        elif name and name != known:
            # Some servers repeat the name with each piece; another name is another call.
            raise failure("upstream-malformed", "tool-call-name")
        if arguments:
            out.append(TextDelta(choice.index, Channel.TOOL_ARGUMENTS, arguments, tool))

    def _finish(self, choice: _Choice, said: ChoiceSaid, out: list[StreamEvent]) -> None:
        reason = said.finish_reason or ""
        if reason in _BROKEN_REASONS:
            raise failure("upstream-error-in-stream", "finish-reason")
        if reason not in _REASONS:
            raise failure("upstream-malformed", "finish-reason")
        if choice.finished:
            raise failure("upstream-malformed", "second-finish")
        choice.finished = True
        if not choice.has_role:
            choice.has_role = True
            out.append(RoleDelta(choice.index, "assistant"))
        stop = said.stop_reason
        stop_reason: JsonText | None = None
        if isinstance(stop, int) or (stop is not None and stop in self._stops):
            stop_reason = JsonText(_ENCODER.encode(stop).decode())
        out.append(Finish(choice.index, reason, stop_reason))


def _parse(data: bytes | bytearray, *, may_be_cut: bool) -> AnswerSaid:
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        if may_be_cut and str(error) == "Input data was truncated":
            raise failure("upstream-truncated", "json") from None
        raise failure("upstream-malformed", "json") from None


class ChatStreamDecoder:
    """Decoder of one streamed answer (`text/event-stream`).

    Bounds: `max_answer_bytes` in all, 1 MiB a line (`gateway.dialects.sse`), `request.sampling.n`
    choices. What comes after `[DONE]` is not read.
    """

    __slots__ = ("_bytes_left", "_done", "_failure", "_parser", "_reader")

    def __init__(
        self, destination: Destination, request: ChatRequest, *, max_answer_bytes: int = MAX_ANSWER_BYTES
    ) -> None:
        self._parser = SseParser()
        self._reader = AnswerReader(destination, request)
        self._bytes_left = max_answer_bytes
        self._failure: UpstreamFailed | None = None
        self._done = False

    def feed(self, chunk: bytes) -> tuple[StreamEvent, ...]:
        """Events that this chunk completes. Raises `UpstreamFailed`."""
        if self._failure is not None:
            raise self._failure
        if self._done:
            return ()
        is_over = len(chunk) > self._bytes_left
        out: list[StreamEvent] = []
        try:
            for event in self._parser.feed(chunk[: self._bytes_left] if is_over else chunk):
                self._event(event, out)
                if self._done:
                    return tuple(out)
            self._bytes_left -= len(chunk)
            if is_over or self._parser.oversized:
                raise failure("upstream-oversized", "answer" if is_over else "line")
        except UpstreamFailed as fault:
            if not out:
                self._failure = fault
                raise
            # What was good is released first (invariant 2).
            self._failure = fault
        return tuple(out)

    def flush(self) -> tuple[StreamEvent, ...]:
        """Nothing, when `[DONE]` was seen. Raises `UpstreamFailed` when the answer was cut."""
        if self._failure is not None:
            raise self._failure
        if not self._done:
            raise failure("upstream-truncated", "no-done")
        return ()

    def _event(self, event: SseEvent, out: list[StreamEvent]) -> None:
        data = event.data
        if data == b"[DONE]":
            self._reader.end(out)
            self._done = True
            return
        if event.event == "error":
            raise failure("upstream-error-in-stream", "error-event")
        self._reader.read(_parse(data, may_be_cut=False), out)


class ChatPlainDecoder:
    """Decoder of one plain answer (`application/json`). All events come with `flush`.

    Bounds: `max_answer_bytes`.
    """

    __slots__ = ("_body", "_max_bytes", "_reader")

    def __init__(
        self, destination: Destination, request: ChatRequest, *, max_answer_bytes: int = MAX_ANSWER_BYTES
    ) -> None:
        self._body = bytearray()
        self._max_bytes = max_answer_bytes
        self._reader = AnswerReader(destination, request)

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
        out: list[StreamEvent] = []
        self._reader.read(_parse(self._body, may_be_cut=True), out)
        self._reader.end(out)
        return tuple(out)
