"""Events to the one body of a plain answer for an Anthropic client: a fold over the same events.

Invariants
1. A body comes only after a finish.
2. Reasoning is shown only to a client that asked for it, and without a signature.
3. The model is the logical one that the client asked for; the provider's name and id stay inside.

Source: Anthropic's API reference for the message object (version 2023-06-01).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from gateway.dialects.anthropic_errors import messages_error_body
from gateway.dialects.openai_plain import refuse_end
from gateway.domain.chat import ChatRequest, Thinking, ThinkingDisplay
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
from gateway.errors import Refusal, UpstreamFailed

_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


def is_reasoning_shown(request: ChatRequest) -> bool:
    """Whether the client asked to read the reasoning."""
    is_asked = request.thinking in {Thinking.ADAPTIVE, Thinking.BUDGET}
    return is_asked and request.thinking_display is not ThinkingDisplay.OMITTED


def stop_of(finish: Finish, *, has_refusal: bool) -> tuple[str, str | None]:
    """Anthropic's stop reason, and the stop sequence when a destination told it."""
    reason = _REASONS[finish.reason]
    if reason == "end_turn":
        told = None if finish.stop_reason is None else msgspec.json.decode(finish.stop_reason)
        if isinstance(told, str):
            return "stop_sequence", told
        if has_refusal:
            return "refusal", None
    return reason, None


def tool_input(arguments: str) -> str:
    """Arguments of a tool call, which are one JSON object here. Raises `UpstreamFailed`."""
    text = arguments or "{}"
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise UpstreamFailed(
            "The destination called a tool with something that is no JSON object; try again.",
            code="upstream-malformed",
            detail="tool-input",
        ) from None
    return text


def usage_fields(usage: Usage | None) -> dict[str, Any]:
    """Anthropic's usage object: `input_tokens` are those that no cache held."""
    told = usage or Usage(0, 0)
    return {
        "input_tokens": max(0, told.input_tokens - told.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": told.cached_tokens,
        "output_tokens": told.output_tokens,
        "output_tokens_details": {"thinking_tokens": told.reasoning_tokens},
    }


class MessagesPlainEncoder:
    """Encoder of one plain answer: a fold over the same events. `end` gives the body."""

    __slots__ = ("_blocks", "_calls", "_finish", "_has_refusal", "_request", "_request_id", "_usage")

    def __init__(self, request: ChatRequest, request_id: str) -> None:
        self._request = request
        self._request_id = request_id
        #: Prose in the order in which it came: block type and pieces.
        self._blocks: list[tuple[str, list[str]]] = []
        self._calls: dict[int, tuple[ToolCallStart, list[str]]] = {}
        self._has_refusal = False
        self._finish: Finish | None = None
        self._usage: Usage | None = None

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
        if self._finish is None:
            # fail-closed: a cut answer must not look like a whole one.
            raise refuse_end()
        reason, sequence = stop_of(self._finish, has_refusal=self._has_refusal)
        content: list[dict[str, Any]] = [_block(kind, "".join(pieces)) for kind, pieces in self._blocks]
        for start, pieces in self._calls.values():
            text = msgspec.Raw(tool_input("".join(pieces)))
            content.append({"type": "tool_use", "id": start.id, "name": start.name, "input": text})
        return _ENCODER.encode(
            {
                "id": f"msg_{self._request_id}",
                "type": "message",
                "role": "assistant",
                "model": self._request.model,
                "content": content,
                "stop_reason": reason,
                "stop_sequence": sequence,
                "usage": usage_fields(self._usage),
            }
        )

    def fail(self, refusal: Refusal) -> bytes:
        """The body of the error, in place of the answer."""
        return messages_error_body(refusal, self._request_id)

    def _event(self, event: StreamEvent) -> None:
        match event:
            case TextDelta(channel=Channel.TOOL_ARGUMENTS):
                call = self._calls.get(event.tool)
                if call is None:
                    raise refuse_end()
                call[1].append(event.text)
            case TextDelta():
                self._text(event)
            case ToolCallStart():
                self._calls[event.tool] = (event, [])
            case Finish():
                self._finish = event
            case UsageReport(usage=usage):
                self._usage = usage
            case AnswerStart() | RoleDelta() | AnswerEnd():
                pass
            case Vector():
                raise refuse_end()
            case _:
                assert_never(event)

    def _text(self, event: TextDelta) -> None:
        is_reasoning = event.channel is Channel.REASONING
        if is_reasoning and not is_reasoning_shown(self._request):
            return
        if event.channel is Channel.REFUSAL:
            self._has_refusal = True
        kind = "thinking" if is_reasoning else "text"
        if not self._blocks or self._blocks[-1][0] != kind:
            self._blocks.append((kind, []))
        self._blocks[-1][1].append(event.text)


def _block(kind: str, text: str) -> dict[str, str]:
    if kind == "thinking":
        return {"type": kind, "thinking": text, "signature": ""}
    return {"type": kind, "text": text}
