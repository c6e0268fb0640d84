"""Events to the stream that an Anthropic client reads.

Invariants
1. `message_stop` comes only after a finish. `fail` ends a stream with one `error` event and without it.
2. Content blocks are numbered without gaps and never overlap; each one that was begun is closed.
3. Reasoning is shown only to a client that asked for it, and without a signature.
4. The model is the logical one that the client asked for; the provider's name and id stay inside.

Source: Anthropic's API reference for streaming messages (version 2023-06-01).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from gateway.dialects.anthropic_errors import messages_error_body
from gateway.dialects.anthropic_plain import (
    is_reasoning_shown,
    stop_of,
    tool_input,
    usage_fields,
)
from gateway.dialects.openai_plain import refuse_end
from gateway.dialects.sse import write_event
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
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
#: Per channel of prose: the empty block, and type and field of its deltas. A refusal is told as text.
_TEXT = ({"type": "text", "text": ""}, "text_delta", "text")
_BLOCKS: dict[Channel, tuple[dict[str, str], str, str]] = {
    Channel.CONTENT: _TEXT,
    Channel.REFUSAL: _TEXT,
    Channel.REASONING: ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking"),
}


class MessagesStreamEncoder:
    """Encoder of one streamed answer."""

    __slots__ = (
        "_finish",
        "_has_refusal",
        "_index",
        "_is_started",
        "_open",
        "_request",
        "_request_id",
        "_tools",
        "_usage",
    )

    def __init__(self, request: ChatRequest, request_id: str) -> None:
        self._request = request
        self._request_id = request_id
        self._is_started = False
        #: Type of the open block's deltas; None when no block is open.
        self._open: str | None = None
        self._index = -1
        #: Tool calls whose arguments are still coming, in the order in which they began.
        self._tools: dict[int, tuple[ToolCallStart, list[str]]] = {}
        self._has_refusal = False
        self._finish: Finish | None = None
        self._usage: Usage | None = None

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
        """`message_delta` and `message_stop`. Raises `UpstreamFailed` without a finish."""
        if self._finish is None:
            # fail-closed: a cut answer must not look like a whole one.
            raise refuse_end()
        reason, sequence = stop_of(self._finish, has_refusal=self._has_refusal)
        last = {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": usage_fields(self._usage),
        }
        return _event(last) + _event({"type": "message_stop"})

    def fail(self, refusal: Refusal) -> bytes:
        """One `error` event, and no clean end."""
        return write_event(messages_error_body(refusal, self._request_id), "error")

    def _event(self, event: StreamEvent, out: list[bytes]) -> None:
        match event:
            case TextDelta(channel=Channel.TOOL_ARGUMENTS):
                call = self._tools.get(event.tool)
                if call is None:
                    raise refuse_end()
                call[1].append(event.text)
            case TextDelta():
                self._text(event, out)
            case ToolCallStart():
                self._start(out)
                self._tools[event.tool] = (event, [])
            case RoleDelta():
                self._start(out)
            case Finish():
                self._start(out)
                self._close(out)
                for start, pieces in self._tools.values():
                    self._call(start, "".join(pieces), out)
                self._finish = event
            case UsageReport(usage=usage):
                self._usage = usage
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
        message: dict[str, Any] = {
            "id": f"msg_{self._request_id}",
            "type": "message",
            "role": "assistant",
            "model": self._request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            # What the prompt took is known at the end only; `message_delta` tells it.
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        out.append(_event({"type": "message_start", "message": message}))
        out.append(_PING)

    def _text(self, event: TextDelta, out: list[bytes]) -> None:
        if event.channel is Channel.REASONING and not is_reasoning_shown(self._request):
            return
        self._start(out)
        if event.channel is Channel.REFUSAL:
            self._has_refusal = True
        block, delta_type, field = _BLOCKS[event.channel]
        if self._open != delta_type:
            self._close(out)
            self._begin(block, out)
            self._open = delta_type
        if event.text:
            out.append(self._delta({"type": delta_type, field: event.text}))

    def _begin(self, block: dict[str, Any], out: list[bytes]) -> None:
        self._index += 1
        out.append(_event({"type": "content_block_start", "index": self._index, "content_block": block}))

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self, out: list[bytes]) -> None:
        if self._open is not None:
            self._open = None
            out.append(_event({"type": "content_block_stop", "index": self._index}))

    def _call(self, start: ToolCallStart, arguments: str, out: list[bytes]) -> None:
        text = tool_input(arguments)
        self._begin({"type": "tool_use", "id": start.id, "name": start.name, "input": {}}, out)
        out.append(self._delta({"type": "input_json_delta", "partial_json": text}))
        self._open = "input_json_delta"
        self._close(out)


def _event(said: dict[str, Any]) -> bytes:
    name: str = said["type"]
    return b"event: " + name.encode() + b"\ndata: " + _ENCODER.encode(said) + b"\n\n"
