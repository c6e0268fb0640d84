"""Events to OpenAI's response object: its items, and the one body of a plain answer.

Invariants
1. A body comes only after a finish.
2. Items are numbered in the order in which they began; each text belongs to one item.
3. The model is the logical one that the client asked for; the provider's name and id stay inside.

Source: OpenAI's API reference for the response object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from gateway.dialects.openai_errors import error_body
from gateway.dialects.openai_plain import refuse_end
from gateway.domain.chat import ChatRequest
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
from gateway.errors import Refusal

_ENCODER = msgspec.json.Encoder()
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Item:
    """One item of the output while it grows. `channel` tells what kind of text it holds."""

    __slots__ = ("channel", "id", "pieces", "start")

    def __init__(self, item_id: str, channel: Channel, start: ToolCallStart | None = None) -> None:
        self.id = item_id
        self.channel = channel
        self.start = start
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """What it holds so far."""
        return "".join(self.pieces)

    def fields(self, status: str) -> dict[str, Any]:
        """The item in the words of the dialect."""
        if self.start is not None:
            return {
                "id": self.id,
                "type": "function_call",
                "status": status,
                "call_id": self.start.id,
                "name": self.start.name,
                "arguments": self.text,
            }
        content = [self.part()] if self.pieces else []
        if self.channel is Channel.REASONING:
            return {"id": self.id, "type": "reasoning", "summary": [], "content": content, "status": status}
        return {
            "id": self.id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def part(self) -> dict[str, Any]:
        """Its one part of content."""
        return part_of(self.channel, self.text)


def part_of(channel: Channel, text: str) -> dict[str, Any]:
    """A part of content that holds `text`."""
    match channel:
        case Channel.REASONING:
            return {"type": "reasoning_text", "text": text}
        case Channel.REFUSAL:
            return {"type": "refusal", "refusal": text}
        case _:
            return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ResponseFold:
    """What an answer is made of so far. Shared by both encoders."""

    __slots__ = ("_created_seconds", "_request", "_request_id", "finish", "items", "usage")

    def __init__(self, request: ChatRequest, request_id: str, created_seconds: int) -> None:
        self._request = request
        self._request_id = request_id
        self._created_seconds = created_seconds
        self.items: list[Item] = []
        self.finish: Finish | None = None
        self.usage: Usage | None = None

    def begin(self, channel: Channel, start: ToolCallStart | None = None) -> Item:
        """A new item."""
        prefix = "fc" if start is not None else "rs" if channel is Channel.REASONING else "msg"
        item = Item(f"{prefix}_{self._request_id}_{len(self.items)}", channel, start)
        self.items.append(item)
        return item

    def response(self, status: str) -> dict[str, Any]:
        """The response object. `status` is that of the whole."""
        request = self._request
        is_ended = status in {"completed", "incomplete"}
        reason = None if self.finish is None else _INCOMPLETE.get(self.finish.reason)
        return {
            "id": f"resp_{self._request_id}",
            "object": "response",
            "created_at": self._created_seconds,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "instructions": None,
            "max_output_tokens": request.sampling.max_output_tokens,
            "model": request.model,
            "output": [item.fields(status) for item in self.items] if is_ended else [],
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": request.reasoning_effort, "summary": None},
            "store": False,
            "temperature": request.sampling.temperature,
            "tool_choice": "auto",
            "tools": [],
            "top_p": request.sampling.top_p,
            "truncation": "disabled",
            "usage": usage_fields(self.usage) if is_ended and self.usage is not None else None,
            "metadata": {},
        }

    def ended(self) -> dict[str, Any]:
        """The response object of a whole answer. Raises `UpstreamFailed` without a finish."""
        if self.finish is None:
            # fail-closed: a cut answer must not look like a whole one.
            raise refuse_end()
        return self.response("incomplete" if self.finish.reason in _INCOMPLETE else "completed")


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Usage in the words of the dialect."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


class ResponsesPlainEncoder:
    """Encoder of one plain answer: a fold over the same events. `end` gives the body."""

    __slots__ = ("_calls", "_fold", "_request_id")

    def __init__(self, request: ChatRequest, request_id: str, created_seconds: int) -> None:
        self._fold = ResponseFold(request, request_id, created_seconds)
        self._request_id = request_id
        self._calls: dict[int, tuple[ToolCallStart, list[str]]] = {}

    @property
    def content_type(self) -> bytes:
        """Value of the content-type header."""
        return b"application/json"

    def encode(self, events: Sequence[StreamEvent]) -> bytes:
        """Collect; always empty."""
        for event in events:
            self._event(event)
        return b""

    def end(self) -> bytes:
        """The whole body. Raises `UpstreamFailed` without a finish."""
        return _ENCODER.encode(self._fold.ended())

    def fail(self, refusal: Refusal) -> bytes:
        """The body of the error, in place of the answer."""
        return error_body(refusal, self._request_id)

    def _event(self, event: StreamEvent) -> None:
        fold = self._fold
        match event:
            case TextDelta(channel=Channel.TOOL_ARGUMENTS):
                call = self._calls.get(event.tool)
                if call is None:
                    raise refuse_end()
                call[1].append(event.text)
            case TextDelta(channel=channel, text=text):
                last = fold.items[-1] if fold.items else None
                item = last if last is not None and last.channel is channel else fold.begin(channel)
                item.pieces.append(text)
            case ToolCallStart():
                self._calls[event.tool] = (event, [])
            case Finish():
                for start, pieces in self._calls.values():
                    fold.begin(Channel.TOOL_ARGUMENTS, start).pieces += pieces
                fold.finish = event
            case UsageReport(usage=usage):
                fold.usage = usage
            case AnswerStart() | RoleDelta() | AnswerEnd():
                pass
            case Vector():
                raise refuse_end()
            case _:
                assert_never(event)
