"""Answers of Anthropic's kind as events: streamed and plain.

Invariants
1. The order law of `gateway.domain.stream` holds for every input; what breaks it is a failure.
2. Whole equals any split: events and failure do not depend on where the bytes were cut. A failure
   is raised by the call after the one that returned the last good events.
3. `AnswerEnd` comes only after `message_stop` (stream) or a whole body (plain).
4. Only texts of the channels are free text. Ids, stop sequences and tool names are held to narrow
   shapes. Signatures and other sealed content of the provider are dropped: nobody here could read them.
5. After `max_answer_bytes` bytes the answer fails, whatever they hold.
6. No word of the provider's error is passed on.

Source: Anthropic's API reference for streaming messages (version 2023-06-01).
"""

from __future__ import annotations

import msgspec

from gateway.dialects.anthropic_said import (
    BlockSaid,
    EventSaid,
    MessageSaid,
    UsageSaid,
    plain_message,
    stream_event,
)
from gateway.dialects.openai_answer import MAX_ANSWER_BYTES, TOOL_NAME, failure
from gateway.dialects.openai_chunks import MAX_TOOL_CALLS, printable
from gateway.dialects.sse import SseParser
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

_ENCODER = msgspec.json.Encoder()
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
#: Blocks that the gateway never asks for, and whose content nobody here could read.
_SEALED = frozenset({"redacted_thinking"})
_MAX_COUNT = 2**48


class MessageReader:
    """Turns parts of one message into events and keeps the order law. Shared by both decoders."""

    __slots__ = ("_destination", "_finished", "_started", "_stops", "_tools", "_usage")

    def __init__(self, destination: Destination, request: ChatRequest) -> None:
        self._destination = destination
        self._stops = frozenset(request.sampling.stop)
        self._started = False
        self._finished = False
        self._tools = 0
        self._usage: dict[str, int] = {}

    @property
    def is_started(self) -> bool:
        """Whether the head of the message was read."""
        return self._started

    @property
    def tool(self) -> int:
        """Index of the last tool call."""
        return self._tools - 1

    def start(self, said: MessageSaid, out: list[StreamEvent]) -> None:
        """The head of the message."""
        asked = self._destination.model
        # An alias is answered by its dated name (`model-20260101`); any other was not what the permit named.
        if said.model != asked and not said.model.startswith(asked + "-"):
            raise failure("upstream-malformed", "wrong-model")
        if said.role != "assistant":
            raise failure("upstream-malformed", "role")
        self._started = True
        self.count(said.usage)
        out.append(AnswerStart(id=printable(said.id) or "", model=said.model, created_seconds=0))
        out.append(RoleDelta(0, "assistant"))

    def text(self, channel: Channel, text: str, out: list[StreamEvent]) -> None:
        """Some text; that of a tool's arguments belongs to the last call."""
        if self._finished:
            raise failure("upstream-malformed", "delta-after-finish")
        if text:
            tool = self.tool if channel is Channel.TOOL_ARGUMENTS else -1
            out.append(TextDelta(0, channel, text, tool))

    def call(self, block: BlockSaid, out: list[StreamEvent]) -> None:
        """A tool call begins."""
        tool_id = printable(block.id)
        if self._finished or tool_id is None or not TOOL_NAME.fullmatch(block.name or ""):
            raise failure("upstream-malformed", "tool-call-start")
        if self._tools >= MAX_TOOL_CALLS:
            raise failure("upstream-malformed", "tool-call-index")
        out.append(ToolCallStart(0, self._tools, tool_id, block.name or ""))
        self._tools += 1

    def finish(self, reason: str | None, sequence: str | None, out: list[StreamEvent]) -> None:
        """The end of the message's content."""
        if self._finished:
            raise failure("upstream-malformed", "second-finish")
        word = _REASONS.get(reason or "")
        if word is None:
            raise failure("upstream-malformed", "finish-reason")
        self._finished = True
        is_told = sequence is not None and sequence in self._stops
        out.append(Finish(0, word, JsonText(_ENCODER.encode(sequence).decode()) if is_told else None))

    def count(self, said: UsageSaid | None) -> None:
        """Take counts over those that were told before (they are cumulative)."""
        for name, value in () if said is None else said.counts():
            if not 0 <= value <= _MAX_COUNT:
                raise failure("upstream-malformed", "usage")
            self._usage[name] = value

    def end(self, out: list[StreamEvent]) -> None:
        """What closes a clean answer. Raises when it is not finished."""
        if not self._started or not self._finished:
            raise failure("upstream-truncated", "unfinished-choice")
        told = self._usage
        if "input_tokens" in told and "output_tokens" in told:
            cached = told.get("cache_read_input_tokens", 0)
            fresh = told["input_tokens"] + told.get("cache_creation_input_tokens", 0)
            out.append(
                UsageReport(
                    Usage(cached + fresh, told["output_tokens"], cached, told.get("thinking_tokens", 0))
                )
            )
        out.append(AnswerEnd())


class MessagesStreamDecoder:
    """Decoder of one streamed answer (`text/event-stream`).

    Bounds: `max_answer_bytes` in all, 1 MiB a line. What comes after `message_stop` is not read.
    """

    __slots__ = ("_block", "_bytes_left", "_done", "_failure", "_input", "_next_index", "_parser", "_reader")

    def __init__(
        self, destination: Destination, request: ChatRequest, *, max_answer_bytes: int = MAX_ANSWER_BYTES
    ) -> None:
        self._parser = SseParser()
        self._reader = MessageReader(destination, request)
        self._bytes_left = max_answer_bytes
        self._failure: UpstreamFailed | None = None
        self._done = False
        #: Type of the open content block, and the index that the next one must have.
        self._block: str | None = None
        self._next_index = 0
        #: Arguments of the open tool call, in case that no delta brings any.
        self._input = ""

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
                if event.event == "error":
                    raise failure("upstream-error-in-stream", "error-event")
                self._event(stream_event(event.data), out)
                if self._done:
                    return tuple(out)
            self._bytes_left -= len(chunk)
            if is_over or self._parser.oversized:
                raise failure("upstream-oversized", "answer" if is_over else "line")
        except UpstreamFailed as fault:
            self._failure = fault
            if not out:
                raise
            # What was good is released first (invariant 2).
        return tuple(out)

    def flush(self) -> tuple[StreamEvent, ...]:
        """Nothing, when `message_stop` was seen. Raises `UpstreamFailed` when the answer was cut."""
        if self._failure is not None:
            raise self._failure
        if not self._done:
            raise failure("upstream-truncated", "no-message-stop")
        return ()

    def _event(self, said: EventSaid, out: list[StreamEvent]) -> None:
        match said.type:
            case "error":
                raise failure("upstream-error-in-stream", "error-object")
            case "message_start":
                if self._reader.is_started or said.message is None:
                    raise failure("upstream-malformed", "message-start")
                self._reader.start(said.message, out)
            case "content_block_start":
                self._open(said, out)
            case "content_block_delta":
                self._delta(said, out)
            case "content_block_stop":
                if self._block is None or said.index != self._next_index - 1:
                    raise failure("upstream-malformed", "block-stop")
                if self._block == "tool_use":
                    self._reader.text(Channel.TOOL_ARGUMENTS, self._input, out)
                self._block = None
            case "message_delta":
                if not self._reader.is_started or self._block is not None or said.delta is None:
                    raise failure("upstream-malformed", "message-delta")
                self._reader.count(said.usage)
                self._reader.finish(said.delta.stop_reason, said.delta.stop_sequence, out)
            case "message_stop":
                self._reader.end(out)
                self._done = True
            case _:
                # `ping`, and events of a later version that carry no content of a block.
                return

    def _open(self, said: EventSaid, out: list[StreamEvent]) -> None:
        block = said.content_block
        if not self._reader.is_started or self._block is not None or block is None:
            raise failure("upstream-malformed", "block-start")
        if said.index != self._next_index:
            raise failure("upstream-malformed", "block-index")
        self._next_index += 1
        self._block = block.type
        match block.type:
            case "text":
                self._reader.text(Channel.CONTENT, block.text or "", out)
            case "thinking":
                self._reader.text(Channel.REASONING, block.thinking or "", out)
            case "tool_use":
                self._reader.call(block, out)
                self._input = bytes(block.input).decode() if isinstance(block.input, msgspec.Raw) else "{}"
            case sealed if sealed in _SEALED:
                pass
            case _:
                raise failure("upstream-malformed", "block-type")

    def _delta(self, said: EventSaid, out: list[StreamEvent]) -> None:
        delta = said.delta
        if self._block is None or delta is None or said.index != self._next_index - 1:
            raise failure("upstream-malformed", "block-delta")
        match self._block, delta.type:
            case "text", "text_delta":
                self._reader.text(Channel.CONTENT, delta.text or "", out)
            case "thinking", "thinking_delta":
                self._reader.text(Channel.REASONING, delta.thinking or "", out)
            case "thinking", "signature_delta":
                pass
            case "tool_use", "input_json_delta":
                self._input = "" if delta.partial_json else self._input
                self._reader.text(Channel.TOOL_ARGUMENTS, delta.partial_json or "", out)
            case _:
                raise failure("upstream-malformed", "delta-type")


class MessagesPlainDecoder:
    """Decoder of one plain answer (`application/json`). All events come with `flush`.

    Bounds: `max_answer_bytes`.
    """

    __slots__ = ("_body", "_max_bytes", "_reader")

    def __init__(
        self, destination: Destination, request: ChatRequest, *, max_answer_bytes: int = MAX_ANSWER_BYTES
    ) -> None:
        self._body = bytearray()
        self._max_bytes = max_answer_bytes
        self._reader = MessageReader(destination, request)

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
        said = plain_message(self._body)
        out: list[StreamEvent] = []
        self._reader.start(said, out)
        for block in said.content:
            self._block(block, out)
        self._reader.finish(said.stop_reason, said.stop_sequence, out)
        self._reader.end(out)
        return tuple(out)

    def _block(self, block: BlockSaid, out: list[StreamEvent]) -> None:
        match block.type:
            case "text":
                self._reader.text(Channel.CONTENT, block.text or "", out)
            case "thinking":
                self._reader.text(Channel.REASONING, block.thinking or "", out)
            case "tool_use":
                self._reader.call(block, out)
                if not isinstance(block.input, msgspec.Raw):
                    raise failure("upstream-malformed", "tool-input")
                self._reader.text(Channel.TOOL_ARGUMENTS, bytes(block.input).decode(), out)
            case sealed if sealed in _SEALED:
                pass
            case _:
                raise failure("upstream-malformed", "block-type")
