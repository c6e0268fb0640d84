"""Values that the tests of Anthropic's dialect share."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.anthropic_body import encode_messages
from gateway.domain.chat import ChatRequest, Message, ResolvedRequest, Role, Sampling, Surface, TextPart
from tests.unit.dialects.chat_bodies import place

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"


def body(**fields: Any) -> bytes:
    """A messages body: one short user turn, changed and widened by `fields`."""
    said = {"model": "assistant", "max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}]}
    return json.dumps({**said, **fields}).encode()


def turn(*blocks: dict[str, Any], role: str = "user") -> list[dict[str, Any]]:
    """One turn of content blocks."""
    return [{"role": role, "content": list(blocks)}]


def sent(chat: ChatRequest, **more: Any) -> Any:
    """What a destination of kind `anthropic` would receive."""
    where = place("anthropic", "claude", frozenset({"top_k"}))
    return json.loads(encode_messages(ResolvedRequest(chat), where, default_output_tokens=1024, **more))


def asked(*, stream: bool = True, stop: tuple[str, ...] = (), **more: Any) -> ChatRequest:
    """A parsed request of an Anthropic client."""
    return ChatRequest(
        model="assistant",
        messages=(Message(Role.USER, (TextPart("Hello"),)),),
        sampling=Sampling(max_output_tokens=64, stop=stop),
        stream=stream,
        surface=Surface.MESSAGES,
        **more,
    )
