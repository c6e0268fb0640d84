"""Answers with tool calls, byte for byte as a server would send them, for `raw` of the failing stand-in."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

MODEL = "reference-moe"
USAGE = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
Call = tuple[str, str]


def plain(calls: Sequence[Call], *, text: str | None = None, finish: str = "tool_calls") -> dict[str, Any]:
    """Control of the stand-in for a plain answer with these calls (name, arguments)."""
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(calls)
        ],
    }
    body = {
        "id": "x", "object": "chat.completion", "created": 1, "model": MODEL, "usage": USAGE,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }  # fmt: skip
    return {"content_type": "application/json", "pieces": [_base64(json.dumps(body))]}


def stream(
    calls: Sequence[Call], *, text: Sequence[str] = (), finish: str = "tool_calls", piece: int = 5
) -> dict[str, Any]:
    """Control of the stand-in for a stream: the text, then the calls with arguments in small pieces."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": words} for words in text]
    for at, (name, arguments) in enumerate(calls):
        head = {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [{"index": at, **head}]})
        deltas += [
            {"tool_calls": [{"index": at, "function": {"arguments": arguments[begin : begin + piece]}}]}
            for begin in range(0, len(arguments), piece)
        ]
    events = [_event([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    events.append(_event([{"index": 0, "delta": {}, "finish_reason": finish}]))
    events.append(_event([], usage=USAGE))
    return {
        "content_type": "text/event-stream",
        "pieces": [_base64(event) for event in (*events, "data: [DONE]\n\n")],
    }


def _event(choices: list[dict[str, Any]], **more: Any) -> str:
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": choices}
    return f"data: {json.dumps(chunk | more)}\n\n"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
