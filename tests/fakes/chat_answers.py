"""Deterministic chat answers for stand-ins: short English that never repeats the prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

SENTENCES = (
    "The tide turns twice a day, and the gate follows it.",
    "A harbour is calm when its gates are closed in time.",
    "Water takes the lowest way, so the wall stands higher.",
    "The keeper writes down each opening and each closing.",
)
CREATED = 1_767_225_600


def sample(schema: Any) -> Any:
    """A small value that fits a JSON Schema (types, enum, const, required properties)."""
    if not isinstance(schema, dict):
        return "harbour"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        names = schema.get("required", list(properties))
        return {name: sample(properties.get(name, {})) for name in names}
    plain: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "null": None}
    return plain.get(kind, "harbour") if isinstance(kind, str) else "harbour"


def called_tool(body: dict[str, Any]) -> tuple[str, str] | None:
    """Name and arguments of the tool to call: only when the request forces one."""
    tools = body.get("tools") or []
    choice = body.get("tool_choice")
    if not tools or choice in (None, "auto", "none"):
        return None
    wanted = choice["function"]["name"] if isinstance(choice, dict) else tools[0]["function"]["name"]
    for tool in tools:
        if tool["function"]["name"] == wanted:
            return wanted, json.dumps(sample(tool["function"].get("parameters", {"type": "object"})))
    return None


def words_of(body: dict[str, Any], choice: int) -> list[str]:
    """Pieces of the text of one choice, shortened to the request's limit of tokens."""
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        text = json.dumps(sample(form["json_schema"].get("schema", {})))
    elif form.get("type") == "json_object":
        text = '{"answer": "yes"}'
    else:
        text = SENTENCES[choice % len(SENTENCES)]
    pieces = [(" " if at else "") + word for at, word in enumerate(text.split(" "))]
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    return pieces if limit is None else pieces[:limit]


def _logprobs(piece: str) -> dict[str, Any]:
    raw = list(piece.encode())
    top = [{"token": piece, "logprob": -0.25, "bytes": raw}]
    return {
        "content": [{"token": piece, "logprob": -0.25, "bytes": raw, "top_logprobs": top}],
        "refusal": None,
    }


def _whole(body: dict[str, Any], choice: int) -> tuple[dict[str, Any], str, int, Any]:
    """Message, finish reason, output tokens and logprobs of one choice."""
    tool = called_tool(body)
    if tool is not None:
        call = {
            "id": f"call_standin_{choice}",
            "type": "function",
            "function": {"name": tool[0], "arguments": tool[1]},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls", 8, None
    pieces = words_of(body, choice)
    is_cut = len(pieces) < len(words_of({**body, "max_tokens": None, "max_completion_tokens": None}, choice))
    logprobs = None
    if body.get("logprobs"):
        content = [entry for piece in pieces for entry in _logprobs(piece)["content"]]
        logprobs = {"content": content, "refusal": None}
    message = {"role": "assistant", "content": "".join(pieces), "refusal": None}
    return message, "length" if is_cut else "stop", len(pieces), logprobs


def usage_of(body: dict[str, Any], output_tokens: int) -> dict[str, Any]:
    """Usage with a rough count of the prompt (a quarter of its JSON)."""
    prompt = max(1, len(json.dumps(body.get("messages", []))) // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output_tokens,
        "total_tokens": prompt + output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def plain_answer(body: dict[str, Any], *, number: int, fingerprint: str) -> dict[str, Any]:
    """A chat.completion object."""
    choices = []
    tokens = 0
    for index in range(body.get("n", 1)):
        message, reason, count, logprobs = _whole(body, index)
        tokens += count
        choices.append({"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason})
    return {
        "id": f"chatcmpl-standin{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": body["model"],
        "system_fingerprint": fingerprint,
        "choices": choices,
        "usage": usage_of(body, tokens),
    }


def legacy_answer(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A text_completion object, or its chunks when the request streams; the last one tells the usage."""
    head = {"id": "cmpl-standin", "object": "text_completion", "created": CREATED, "model": body["model"]}
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    limit = body.get("max_tokens")
    rows = [words_of({"max_tokens": limit}, index) for index in range(body.get("n", 1))]
    end = "stop" if limit is None else "length"
    if not body.get("stream"):
        choices = [
            {"index": at, "text": "".join(row), "logprobs": None, "finish_reason": end}
            for at, row in enumerate(rows)
        ]
        yield {**head, "choices": choices, "usage": usage}
        return
    for at, row in enumerate(rows):
        for text, reason in (*((piece, None) for piece in row), ("", end)):
            choice = {"index": at, "text": text, "logprobs": None, "finish_reason": reason}
            yield {**head, "choices": [choice], "usage": None}
    yield {**head, "choices": [], "usage": usage}


def embeddings_answer(body: dict[str, Any]) -> dict[str, Any]:
    """A list of embeddings, three numbers each unless the request says otherwise; the last one first."""
    given = body["input"]
    count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
    size = body.get("dimensions", 3)
    data = [
        {"object": "embedding", "index": at, "embedding": [at + 0.5] * size} for at in reversed(range(count))
    ]
    usage = {"prompt_tokens": 4 * count, "total_tokens": 4 * count}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


def chunk(body: dict[str, Any], number: int, fingerprint: str, choices: list[Any], **more: Any) -> bytes:
    """One chunk as an SSE event."""
    said = {
        "id": f"chatcmpl-standin{number}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": body["model"],
        "system_fingerprint": fingerprint,
        "choices": choices,
        **more,
    }
    return b"data: " + json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def delta(
    index: int, words: dict[str, Any], reason: str | None = None, logprobs: Any = None
) -> dict[str, Any]:
    """One choice of a chunk."""
    return {"index": index, "delta": words, "logprobs": logprobs, "finish_reason": reason}


def streamed_answer(body: dict[str, Any], *, number: int, fingerprint: str) -> Iterator[bytes]:
    """SSE events of an answer, choices interleaved, `[DONE]` included."""
    count = body.get("n", 1)
    wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    more: dict[str, Any] = {"usage": None} if wants_usage else {}

    def say(one: dict[str, Any]) -> bytes:
        return chunk(body, number, fingerprint, [one], **more)

    for index in range(count):
        yield say(delta(index, {"role": "assistant", "content": ""}))
    whole = [_whole(body, index) for index in range(count)]
    tool = called_tool(body)
    if tool is not None:
        for index in range(count):
            call = {
                "index": 0,
                "id": f"call_standin_{index}",
                "type": "function",
                "function": {"name": tool[0], "arguments": ""},
            }
            yield say(delta(index, {"tool_calls": [call]}))
            for at in range(0, len(tool[1]), 4):
                piece = {"index": 0, "function": {"arguments": tool[1][at : at + 4]}}
                yield say(delta(index, {"tool_calls": [piece]}))
    else:
        rows = [words_of(body, index) for index in range(count)]
        for at in range(max(len(row) for row in rows)):
            for index, row in enumerate(rows):
                if at < len(row):
                    logprobs = _logprobs(row[at]) if body.get("logprobs") else None
                    yield say(delta(index, {"content": row[at]}, logprobs=logprobs))
    for index in range(count):
        yield say(delta(index, {}, whole[index][1]))
    if wants_usage:
        usage = usage_of(body, sum(entry[2] for entry in whole))
        yield chunk(body, number, fingerprint, [], usage=usage)
    yield b"data: [DONE]\n\n"
