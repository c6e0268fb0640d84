"""Events to the one body of a plain answer: a fold over the same events as a stream.

Invariants
1. A body comes only when every choice has finished.
2. The model is the logical one that the client asked for; the provider's name and id stay inside.

Source: OpenAI's API reference for the chat completion object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from gateway.dialects.openai_errors import error_body
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
from gateway.errors import Refusal, UpstreamFailed

_ENCODER = msgspec.json.Encoder()


def usage_fields(usage: Usage) -> dict[str, Any]:
    """OpenAI's usage object."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def refuse_end() -> UpstreamFailed:
    """The failure of an end that is asked for while a choice is still open."""
    return UpstreamFailed(
        "The destination's answer was cut off before its end; try again.",
        code="upstream-truncated",
        detail="end-without-finish",
    )


class _Folded:
    """What was collected of one choice."""

    __slots__ = ("calls", "logprobs", "reason", "role", "stop_reason", "texts")

    def __init__(self) -> None:
        self.role = "assistant"
        self.texts: dict[Channel, list[str]] = {}
        self.calls: dict[int, tuple[str, str, list[str]]] = {}
        self.logprobs: list[Any] | None = None
        self.reason: str | None = None
        self.stop_reason: JsonText | None = None


class ChatPlainEncoder:
    """Encoder of one plain answer: a fold over the same events. `end` gives the body."""

    __slots__ = ("_choices", "_fields", "_request_id", "_usage")

    def __init__(self, request: ChatRequest, request_id: str, created_seconds: int) -> None:
        self._request_id = request_id
        self._fields: dict[str, Any] = {
            "id": f"chatcmpl-{request_id}",
            "object": "chat.completion",
            "created": created_seconds,
            "model": request.model,
        }
        self._choices: dict[int, _Folded] = {}
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
        """The whole body. Raises `UpstreamFailed` when a choice has not finished."""
        if not self._choices or any(choice.reason is None for choice in self._choices.values()):
            # fail-closed: a cut answer must not look like a whole one.
            raise refuse_end()
        body = {
            **self._fields,
            "choices": [_choice_fields(index, self._choices[index]) for index in sorted(self._choices)],
        }
        if self._usage is not None:
            body["usage"] = usage_fields(self._usage)
        return _ENCODER.encode(body)

    def fail(self, refusal: Refusal) -> bytes:
        """The body of the error, in place of the answer."""
        return error_body(refusal, self._request_id)

    def _event(self, event: StreamEvent) -> None:
        match event:
            case TextDelta():
                self._text(event)
            case ToolCallStart(choice=choice):
                self._of(choice).calls.setdefault(event.tool, (event.id, event.name, []))
            case RoleDelta(choice=choice, role=role):
                self._of(choice).role = role
            case Finish(choice=choice):
                folded = self._of(choice)
                folded.reason = event.reason
                folded.stop_reason = event.stop_reason
            case UsageReport(usage=usage):
                self._usage = usage
            case AnswerStart(system_fingerprint=fingerprint):
                if fingerprint is not None:
                    self._fields["system_fingerprint"] = fingerprint
            case AnswerEnd():
                pass
            case Vector():
                raise refuse_end()
            case _:
                assert_never(event)

    def _of(self, choice: int) -> _Folded:
        folded = self._choices.get(choice)
        if folded is None:
            folded = self._choices[choice] = _Folded()
        return folded

    def _text(self, event: TextDelta) -> None:
        folded = self._of(event.choice)
        if event.channel is Channel.TOOL_ARGUMENTS:
            call = folded.calls.get(event.tool)
            if call is None:
                raise refuse_end()
            call[2].append(event.text)
            return
        folded.texts.setdefault(event.channel, []).append(event.text)
        if event.logprobs is not None:
            content = msgspec.json.decode(event.logprobs).get("content") or []
            folded.logprobs = [*(folded.logprobs or ()), *content]


def _choice_fields(index: int, folded: _Folded) -> dict[str, Any]:
    texts = {channel: "".join(pieces) for channel, pieces in folded.texts.items()}
    content = texts.get(Channel.CONTENT)
    if content is None and not folded.calls and Channel.REFUSAL not in texts:
        content = ""
    message: dict[str, Any] = {
        "role": folded.role,
        "content": content,
        "refusal": texts.get(Channel.REFUSAL),
    }
    if Channel.REASONING in texts:
        message["reasoning_content"] = texts[Channel.REASONING]
    if folded.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": "".join(pieces)}}
            for _, (call_id, name, pieces) in sorted(folded.calls.items())
        ]
    fields: dict[str, Any] = {
        "index": index,
        "message": message,
        "logprobs": None if folded.logprobs is None else {"content": folded.logprobs, "refusal": None},
        "finish_reason": folded.reason,
    }
    if folded.stop_reason is not None:
        fields["stop_reason"] = msgspec.Raw(folded.stop_reason)
    return fields
