"""Deterministic answers of Anthropic's kind for stand-ins, in the shapes that its API sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.chat_answers import SENTENCES, sample

THOUGHT = "The gate follows the water, so the water comes first."
SIGNATURE = "RXJRQ0NrWUlDQmdDSWtB"


def event(said: dict[str, Any]) -> bytes:
    """One event of a stream."""
    return f"event: {said['type']}\ndata: {json.dumps(said, ensure_ascii=False)}\n\n".encode()


def called_tool(body: dict[str, Any]) -> dict[str, Any] | None:
    """The tool to call: only when the request forces one."""
    choice = body.get("tool_choice") or {}
    tools = body.get("tools") or []
    if choice.get("type") == "any" and tools:
        return dict(tools[0])
    return next((tool for tool in tools if tool["name"] == choice.get("name")), None)


def blocks_of(body: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Content and stop reason of the answer to a request."""
    blocks: list[dict[str, Any]] = []
    if (body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}:
        blocks.append({"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE})
    tool = called_tool(body)
    if tool is not None:
        given = sample(tool["input_schema"])
        blocks.append({"type": "tool_use", "id": "toolu_standin", "name": tool["name"], "input": given})
        return blocks, "tool_use"
    form = (body.get("output_config") or {}).get("format")
    text = SENTENCES[0] if form is None else json.dumps(sample(form["schema"]))
    words = text.split(" ")
    is_cut = len(words) > body["max_tokens"]
    blocks.append({"type": "text", "text": " ".join(words[: body["max_tokens"]])})
    return blocks, "max_tokens" if is_cut else "end_turn"


def usage_of(body: dict[str, Any]) -> dict[str, Any]:
    """Usage with a rough count of the prompt (a quarter of its JSON); 3 tokens came from a cache."""
    return {
        "input_tokens": max(1, len(json.dumps(body["messages"])) // 4),
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 3,
        "output_tokens": 12,
        "service_tier": "standard",
    }


def plain_answer(body: dict[str, Any], number: int) -> dict[str, Any]:
    """A message object."""
    content, reason = blocks_of(body)
    return {
        "id": f"msg_standin{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage_of(body),
    }


def streamed_answer(body: dict[str, Any], number: int) -> Iterator[bytes]:
    """Events of an answer, `message_stop` included."""
    whole = plain_answer(body, number)
    usage = whole["usage"]
    head = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield event({"type": "message_start", "message": head})
    yield event({"type": "ping"})
    for index, block in enumerate(whole["content"]):
        yield from _block(index, block)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    tokens = {"output_tokens": usage["output_tokens"]}
    yield event({"type": "message_delta", "delta": delta, "usage": tokens})
    yield event({"type": "message_stop"})


def _block(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    match block:
        case {"type": "tool_use", "input": given}:
            empty: dict[str, Any] = {**block, "input": {}}
            text = json.dumps(given)
            deltas = [{"type": "input_json_delta", "partial_json": ""}]
            deltas += [
                {"type": "input_json_delta", "partial_json": text[at : at + 4]}
                for at in range(0, len(text), 4)
            ]
        case {"type": "thinking", "thinking": str(text)}:
            empty = {**block, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(text)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case _:
            empty = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    yield event({"type": "content_block_start", "index": index, "content_block": empty})
    for delta in deltas:
        yield event({"type": "content_block_delta", "index": index, "delta": delta})
    yield event({"type": "content_block_stop", "index": index})


def _pieces(text: str) -> list[str]:
    return [(" " if at else "") + word for at, word in enumerate(text.split(" "))]
