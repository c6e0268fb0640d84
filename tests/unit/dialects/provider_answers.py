"""What a provider sends, for the tests of decoders: chunks as OpenAI and vLLM write them."""

from __future__ import annotations

import json
from typing import Any

from gateway.domain.stream import StreamEvent
from gateway.errors import UpstreamFailed

DONE = b"data: [DONE]\n\n"


def event(**fields: Any) -> bytes:
    """One chunk as an SSE event; `fields` replace those of the head."""
    said = {
        "id": "chatcmpl-up",
        "object": "chat.completion.chunk",
        "created": 1700,
        "model": "moe",
        "system_fingerprint": "fp",
        **fields,
    }
    return b"data: " + json.dumps(said, ensure_ascii=False).encode() + b"\n\n"


def piece(delta: dict[str, Any], index: int = 0, **choice: Any) -> bytes:
    """A chunk with one choice."""
    return event(
        choices=[{"index": index, "delta": delta, "logprobs": None, "finish_reason": None, **choice}]
    )


def role(index: int = 0) -> bytes:
    """The first chunk of a choice."""
    return piece({"role": "assistant", "content": ""}, index)


def text(words: str, index: int = 0) -> bytes:
    """A chunk with some content."""
    return piece({"content": words}, index)


def finish(reason: str = "stop", index: int = 0, **choice: Any) -> bytes:
    """The last chunk of a choice."""
    return piece({}, index, finish_reason=reason, **choice)


def call(
    tool: int, arguments: str, *, index: int = 0, name: str | None = None, id: str | None = None
) -> bytes:
    """A chunk with a piece of a tool call."""
    function: dict[str, Any] = {"arguments": arguments}
    if name is not None:
        function["name"] = name
    said: dict[str, Any] = {"index": tool, "function": function}
    if id is not None:
        said |= {"id": id, "type": "function"}
    return piece({"tool_calls": [said]}, index)


def run(decoder: Any, *chunks: bytes) -> tuple[list[StreamEvent], UpstreamFailed | None]:
    """Events of the chunks and of the end, with the failure that ended them."""
    found: list[StreamEvent] = []
    try:
        for chunk in chunks:
            found += decoder.feed(chunk)
        found += decoder.flush()
    except UpstreamFailed as failed:
        return found, failed
    return found, None
