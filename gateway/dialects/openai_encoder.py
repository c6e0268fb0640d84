"""Events to the chunks of a stream that an OpenAI client reads.

Invariants
1. `[DONE]` comes only when every choice has finished. `fail` ends a stream with one error event,
   without `[DONE]` and without a finish reason.
2. Each event has data: no comment, no `id`, no `retry` (OpenAI's SDKs fail on events without data).
3. The model is the logical one that the client asked for; the provider's name and id stay inside.
4. Each chunk tells `finish_reason`, null until the end. With `include_usage`, each chunk tells
   `usage` too: null, until one last chunk with empty `choices`.

Source: OpenAI's API reference for chat completion chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from gateway.dialects.openai_errors import error_body
from gateway.dialects.openai_plain import refuse_end, usage_fields
from gateway.dialects.sse import write_event
from gateway.domain.chat import ChatRequest, JsonText
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
_DONE = b"data: [DONE]\n\n"
_KEYS = {
    Channel.CONTENT: "content",
    Channel.REASONING: "reasoning_content",
    Channel.REFUSAL: "refusal",
}


class ChatStreamEncoder:
    """Encoder of one streamed answer. `created_seconds` is Unix time of the gateway."""

    __slots__ = ("_chunk_head", "_fast", "_fields", "_open", "_request_id", "_tail", "_wants_usage")

    def __init__(self, request: ChatRequest, request_id: str, created_seconds: int) -> None:
        self._request_id = request_id
        self._wants_usage = request.include_usage
        self._tail = b',"usage":null}\n\n' if request.include_usage else b"}\n\n"
        self._fields: dict[str, Any] = {
            "id": f"chatcmpl-{request_id}",
            "object": "chat.completion.chunk",
            "created": created_seconds,
            "model": request.model,
        }
        #: Choices that were begun: True until they finish.
        self._open: dict[int, bool] = {}
        self._chunk_head = b""
        #: Per choice, what stands before and after the text of a content chunk.
        self._fast: dict[int, tuple[bytes, bytes]] = {}

    @property
    def content_type(self) -> bytes:
        """Value of the content-type header."""
        return b"text/event-stream; charset=utf-8"

    def encode(self, events: Sequence[StreamEvent]) -> bytes:
        """Chunks for these events; deltas of one choice share a chunk."""
        if len(events) == 1:
            only = events[0]
            if type(only) is TextDelta and only.channel is Channel.CONTENT and only.logprobs is None:
                around = self._fast.get(only.choice)
                if around is not None:
                    return around[0] + _ENCODER.encode(only.text) + around[1]
        out: list[bytes] = []
        waiting: dict[int, dict[str, Any]] = {}
        for event in events:
            self._event(event, waiting, out)
        for choice, delta in waiting.items():
            out.append(self._chunk(choice, delta))
        return b"".join(out)

    def end(self) -> bytes:
        """`[DONE]`. Raises `UpstreamFailed` when a choice has not finished."""
        if not self._open or any(self._open.values()):
            # fail-closed: a cut answer must not look like a whole one.
            raise refuse_end()
        return _DONE

    def fail(self, refusal: Refusal) -> bytes:
        """One error event, and no clean end."""
        return write_event(error_body(refusal, self._request_id))

    def _event(self, event: StreamEvent, waiting: dict[int, dict[str, Any]], out: list[bytes]) -> None:
        match event:
            case TextDelta(choice=choice, logprobs=logprobs):
                if logprobs is not None:
                    self._release(choice, waiting, out)
                    out.append(self._chunk(choice, {"content": event.text}, logprobs=logprobs))
                    return
                _add_text(waiting.setdefault(choice, {}), event)
            case ToolCallStart(choice=choice):
                waiting.setdefault(choice, {}).setdefault("tool_calls", []).append(
                    {
                        "index": event.tool,
                        "id": event.id,
                        "type": "function",
                        "function": {"name": event.name, "arguments": ""},
                    }
                )
            case RoleDelta(choice=choice, role=role):
                # As OpenAI's first chunk: the speaker with empty content.
                delta = waiting.setdefault(choice, {})
                delta["role"] = role
                delta.setdefault("content", "")
            case Finish(choice=choice, reason=reason):
                self._release(choice, waiting, out)
                out.append(self._chunk(choice, {}, reason=reason, stop_reason=event.stop_reason))
                self._open[choice] = False
            case UsageReport(usage=usage):
                self._usage(usage, waiting, out)
            case AnswerStart(system_fingerprint=fingerprint):
                if fingerprint is not None and not self._chunk_head:
                    self._fields["system_fingerprint"] = fingerprint
            case AnswerEnd():
                pass
            case Vector():
                raise refuse_end()
            case _:
                assert_never(event)

    def _usage(self, usage: Usage, waiting: dict[int, dict[str, Any]], out: list[bytes]) -> None:
        for choice in list(waiting):
            self._release(choice, waiting, out)
        if self._wants_usage:
            out.append(self._usage_chunk(usage))

    def _release(self, choice: int, waiting: dict[int, dict[str, Any]], out: list[bytes]) -> None:
        delta = waiting.pop(choice, None)
        if delta is not None:
            out.append(self._chunk(choice, delta))

    def _chunk(
        self,
        choice: int,
        delta: dict[str, Any],
        *,
        reason: str | None = None,
        logprobs: JsonText | None = None,
        stop_reason: JsonText | None = None,
    ) -> bytes:
        if choice not in self._open:
            self._begin(choice)
        fields: dict[str, Any] = {
            "index": choice,
            "delta": delta,
            "logprobs": None if logprobs is None else msgspec.Raw(logprobs),
            "finish_reason": reason,
        }
        if stop_reason is not None:
            fields["stop_reason"] = msgspec.Raw(stop_reason)
        return self._chunk_head + _ENCODER.encode(fields) + b"]" + self._tail

    def _begin(self, choice: int) -> None:
        if not self._chunk_head:
            self._chunk_head = b"data: " + _ENCODER.encode(self._fields)[:-1] + b',"choices":['
        self._open[choice] = True
        self._fast[choice] = (
            self._chunk_head + b'{"index":%d,"delta":{"content":' % choice,
            b'},"logprobs":null,"finish_reason":null}]' + self._tail,
        )

    def _usage_chunk(self, usage: Usage) -> bytes:
        return write_event(_ENCODER.encode({**self._fields, "choices": [], "usage": usage_fields(usage)}))


def _add_text(delta: dict[str, Any], event: TextDelta) -> None:
    """Append the text of `event` to the field of its channel."""
    if event.channel is not Channel.TOOL_ARGUMENTS:
        key = _KEYS[event.channel]
        delta[key] = delta.get(key, "") + event.text
        return
    calls: list[dict[str, Any]] = delta.setdefault("tool_calls", [])
    for call in calls:
        if call["index"] == event.tool:
            call["function"]["arguments"] += event.text
            return
    calls.append({"index": event.tool, "function": {"arguments": event.text}})
