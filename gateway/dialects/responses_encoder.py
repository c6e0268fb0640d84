"""Events to the stream that a client of OpenAI's responses reads.

Invariants
1. `response.completed` or `response.incomplete` comes only after a finish. `fail` ends a stream with one
   `error` event and without either.
2. Events are numbered without gaps. Items do not overlap; each that was begun is done before the next.
3. The model is the logical one that the client asked for; the provider's name and id stay inside.

Source: OpenAI's API reference for streaming responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from gateway.dialects.openai_plain import refuse_end
from gateway.dialects.responses_output import Item, ResponseFold, part_of
from gateway.dialects.sse import write_event
from gateway.domain.chat import ChatRequest
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
from gateway.errors import Refusal

_ENCODER = msgspec.json.Encoder()
#: Per channel: stem of the event names, and the field of the whole text.
_NAMES = {
    Channel.CONTENT: ("response.output_text", "text"),
    Channel.REASONING: ("response.reasoning_text", "text"),
    Channel.REFUSAL: ("response.refusal", "refusal"),
    Channel.TOOL_ARGUMENTS: ("response.function_call_arguments", "arguments"),
}


class ResponsesStreamEncoder:
    """Encoder of one streamed answer. `created_seconds` is Unix time of the gateway."""

    __slots__ = ("_calls", "_fold", "_is_started", "_open", "_request_id", "_sequence")

    def __init__(self, request: ChatRequest, request_id: str, created_seconds: int) -> None:
        self._fold = ResponseFold(request, request_id, created_seconds)
        self._request_id = request_id
        self._is_started = False
        self._open: Item | None = None
        #: Tool calls whose arguments are still coming, in the order in which they began.
        self._calls: dict[int, tuple[ToolCallStart, list[str]]] = {}
        self._sequence = 0

    @property
    def content_type(self) -> bytes:
        """Value of the content-type header."""
        return b"text/event-stream; charset=utf-8"

    def encode(self, events: Sequence[StreamEvent]) -> bytes:
        """Events of the stream for these events."""
        out: list[bytes] = []
        for event in events:
            self._event(event, out)
        return b"".join(out)

    def end(self) -> bytes:
        """The whole response in its last event. Raises `UpstreamFailed` without a finish."""
        whole = self._fold.ended()
        return self._said(f"response.{whole['status']}", response=whole)

    def fail(self, refusal: Refusal) -> bytes:
        """One `error` event, and no clean end. `error` repeats it for clients that look there."""
        told = {"message": refusal.message, "code": refusal.public_code, "param": refusal.param}
        return self._said("error", **told, error={"type": refusal.kind, **told}, request_id=self._request_id)

    def _event(self, event: StreamEvent, out: list[bytes]) -> None:
        match event:
            case TextDelta(channel=Channel.TOOL_ARGUMENTS):
                call = self._calls.get(event.tool)
                if call is None:
                    raise refuse_end()
                call[1].append(event.text)
            case TextDelta(channel=channel, text=text):
                self._start(out)
                if self._open is None or self._open.channel is not channel:
                    self._close(out)
                    self._begin(self._fold.begin(channel), out)
                self._add(text, out)
            case ToolCallStart():
                self._start(out)
                self._calls[event.tool] = (event, [])
            case RoleDelta():
                self._start(out)
            case Finish():
                self._start(out)
                self._close(out)
                for start, pieces in self._calls.values():
                    self._begin(self._fold.begin(Channel.TOOL_ARGUMENTS, start), out)
                    self._add("".join(pieces), out)
                    self._close(out)
                self._fold.finish = event
            case UsageReport(usage=usage):
                self._fold.usage = usage
            case AnswerStart() | AnswerEnd():
                pass
            case Vector():
                raise refuse_end()
            case _:
                assert_never(event)

    def _start(self, out: list[bytes]) -> None:
        if self._is_started:
            return
        self._is_started = True
        for name in ("response.created", "response.in_progress"):
            out.append(self._said(name, response=self._fold.response("in_progress")))

    def _begin(self, item: Item, out: list[bytes]) -> None:
        self._open = item
        out.append(self._at("response.output_item.added", {"item": item.fields("in_progress")}))
        if item.start is None:
            out.append(self._part("response.content_part.added", item, part_of(item.channel, "")))

    def _add(self, text: str, out: list[bytes]) -> None:
        item = self._open
        if item is None:
            raise refuse_end()
        item.pieces.append(text)
        if text:
            out.append(self._text(item, "delta", text, "delta"))

    def _close(self, out: list[bytes]) -> None:
        item, self._open = self._open, None
        if item is None:
            return
        out.append(self._text(item, _NAMES[item.channel][1], item.text, "done"))
        if item.start is None:
            out.append(self._part("response.content_part.done", item, item.part()))
        out.append(self._at("response.output_item.done", {"item": item.fields("completed")}))

    def _text(self, item: Item, field: str, text: str, word: str) -> bytes:
        more: dict[str, Any] = {} if item.start is not None else {"content_index": 0}
        if item.channel is Channel.CONTENT:
            more["logprobs"] = []
        fields = {"item_id": item.id, **more, field: text}
        return self._at(f"{_NAMES[item.channel][0]}.{word}", fields)

    def _part(self, name: str, item: Item, part: dict[str, Any]) -> bytes:
        return self._at(name, {"item_id": item.id, "content_index": 0, "part": part})

    def _at(self, name: str, fields: dict[str, Any]) -> bytes:
        """An event about the item that was begun last."""
        return self._said(name, output_index=len(self._fold.items) - 1, **fields)

    def _said(self, name: str, **fields: Any) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        return write_event(_ENCODER.encode({"type": name, "sequence_number": number, **fields}), name)
