"""The body that a destination of kind `anthropic` receives, serialised anew.

Invariants
1. Every field comes from the resolved request, the destination or the gateway's own parameters.
2. What this dialect cannot say is refused, with the field's name (`unsaid`), before anything leaves.
3. Arguments of earlier tool calls are sent as the text that was classified, once it is one JSON object.

Source: Anthropic's API reference for messages (version 2023-06-01).
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.attachments import split_data_url
from gateway.dialects.strict_json import refuse_unsaid
from gateway.domain.chat import (
    ChatRequest,
    Message,
    OpaquePart,
    ResolvedRequest,
    Role,
    Surface,
    TextPart,
    Thinking,
    ToolCall,
    ToolDefinition,
)
from gateway.domain.decision import Destination

KIND = "anthropic"
#: Extensions that this dialect can say.
EXTENSIONS = frozenset({"top_k"})

_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CHOICES = {'"auto"': "auto", '"required"': "any", '"none"': "none"}
#: Efforts by OpenAI's words. `none` turns reasoning off.
_EFFORTS = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
#: How the payload of an image ends that asks for a resolution, and how that of a PDF begins.
_DETAILED = ('"detail":"low"}}', '"detail":"high"}}')
_PDF = '{"type":"file","file":{"file_data":"data:application/pdf;'
_UNSAID = ("seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias")


def unsaid(chat: ChatRequest) -> str | None:
    """First field that Anthropic's format has no word for; None when all can be said.

    Paths have no index: what was parsed from one turn may be several messages here.
    """
    sampling = chat.sampling
    if sampling.n != 1:
        return "n"
    for name in _UNSAID:
        if getattr(sampling, name):
            return name
    if sampling.temperature is not None and sampling.temperature > 1:
        return "temperature"
    for name, _ in chat.extensions:
        if name not in EXTENSIONS:
            return name
    if chat.response_format is not None and not _is_sayable(chat.response_format):
        return "response_format"
    if chat.messages and chat.surface is not Surface.MESSAGES and chat.messages[-1].role is Role.ASSISTANT:
        # Here a last answer would be continued, which only an Anthropic client asks for.
        return "messages[].role"
    if all(message.role in {Role.SYSTEM, Role.DEVELOPER} for message in chat.messages):
        return "messages"
    return next(filter(None, map(_unsaid_of, chat.messages)), None)


def encode_messages(
    resolved: ResolvedRequest,
    destination: Destination,
    *,
    max_output_tokens: int | None = None,
    default_output_tokens: int,
    user_digest: str | None = None,
) -> bytes:
    """JSON body of `resolved` for `destination`.

    `max_output_tokens` is the permit's cap; the smaller of it and the client's own is sent, and
    `default_output_tokens` when there is neither, because the dialect asks for a bound. `user_digest` is
    a keyed hash of the end user whom the client named.
    """
    chat = resolved.chat
    if (field := unsaid(chat)) is not None:
        # fail-closed: the policy has checked this already; a gap there must not reach the wire.
        raise refuse_unsaid(field)
    bounds = [each for each in (chat.sampling.max_output_tokens, max_output_tokens) if each is not None]
    body: dict[str, Any] = {
        "model": destination.model,
        "max_tokens": min(bounds, default=default_output_tokens),
    }
    head = _head_count(chat)
    if head:
        body["system"] = _system(chat.messages[:head])
    body["messages"] = _turns(chat.messages[head:])
    _put_tools(body, chat)
    _put_reasoning(body, chat)
    for name in ("temperature", "top_p"):
        value = getattr(chat.sampling, name)
        if value is not None:
            body[name] = value
    if chat.sampling.stop:
        body["stop_sequences"] = list(chat.sampling.stop)
    for name, value in chat.extensions:
        body[name] = msgspec.Raw(value)
    if chat.cache_lifetime is not None:
        body["cache_control"] = {"type": "ephemeral", "ttl": chat.cache_lifetime.value}
    if user_digest is not None:
        body["metadata"] = {"user_id": user_digest}
    if chat.stream:
        body["stream"] = True
    return _ENCODER.encode(body)


class _Schema(msgspec.Struct):
    """A schema, kept as it is written, because that is the text that was classified."""

    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    description: str | None = None
    strict: bool | None = None


class _Form(msgspec.Struct):
    """A response format in OpenAI's words."""

    type: str
    json_schema: _Schema | None = None


_FORM = msgspec.json.Decoder(_Form)


def _is_sayable(form: str) -> bool:
    """Whether a response format is plain text, or a schema without a description and not loosened."""
    wanted = _FORM.decode(form)
    schema = wanted.json_schema
    if schema is None:
        return wanted.type == "text"
    return schema.schema is not msgspec.UNSET and schema.description is None and schema.strict is not False


def _unsaid_of(message: Message) -> str | None:
    if message.name is not None:
        return "messages[].name"
    if any(isinstance(part, OpaquePart) and not _is_attachable(part) for part in message.parts):
        return "messages[].content[]"
    if any(_arguments(call) is None for call in message.tool_calls):
        return "messages[].tool_calls[].function.arguments"
    return None


def _head_count(chat: ChatRequest) -> int:
    """How many messages at the beginning are instructions."""
    count = 0
    while chat.messages[count].role in {Role.SYSTEM, Role.DEVELOPER}:
        count += 1
    return count


def _system(messages: tuple[Message, ...]) -> Any:
    if len(messages) == 1 and messages[0].as_string and len(messages[0].parts) == 1:
        return _content(messages[0])
    return [block for message in messages for block in _blocks(message)]


def _turns(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Turns; results of tools and what the user said right behind them share one, as the API asks."""
    turns: list[dict[str, Any]] = []
    results: list[Any] | None = None
    for message in messages:
        match message.role:
            case Role.TOOL:
                if results is None:
                    results = []
                    turns.append({"role": "user", "content": results})
                results.append(_result(message))
                continue
            case Role.USER if results is not None:
                results += _blocks(message)
            case Role.USER:
                turns.append({"role": "user", "content": _content(message)})
            case Role.ASSISTANT:
                turns.append({"role": "assistant", "content": _answer(message)})
            case Role.SYSTEM | Role.DEVELOPER:
                turns.append({"role": "system", "content": _content(message)})
        results = None
    return turns


def _content(message: Message) -> Any:
    """Content as it came: one string, or blocks."""
    part = message.parts[0] if len(message.parts) == 1 else None
    return part.text if message.as_string and isinstance(part, TextPart) else _blocks(message)


def _blocks(message: Message) -> list[Any]:
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else _attachment(part)
        for part in message.parts
    ]


def _answer(message: Message) -> Any:
    """An earlier answer. Its reasoning is not sent: without the provider's own signature it is refused."""
    if not message.tool_calls and message.refusal is None and message.parts:
        return _content(message)
    blocks = _blocks(message)
    if message.refusal is not None:
        blocks.append({"type": "text", "text": message.refusal})
    for call in message.tool_calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call)})
    return blocks


def _result(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    if message.parts:
        found["content"] = _content(message)
    if message.is_error:
        found["is_error"] = True
    return found


def _arguments(call: ToolCall) -> msgspec.Raw | None:
    """Arguments as an object; None when they are none."""
    text = call.arguments or "{}"
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return msgspec.Raw(text)


def _is_attachable(part: OpaquePart) -> bool:
    """Whether there is a block for this part. Payloads of up to 4 MB are not decoded for it."""
    if part.kind == "image_url":
        return not part.payload.endswith(_DETAILED)
    return part.kind == "file" and part.payload.startswith(_PDF)


def _attachment(part: OpaquePart) -> dict[str, Any]:
    """An image or a PDF as a block."""
    said = msgspec.json.decode(part.payload)
    if part.kind == "image_url":
        return {"type": "image", "source": _source(said["image_url"]["url"])}
    file = said["file"]
    title = {"title": file["filename"]} if file.get("filename") is not None else {}
    return {"type": "document", "source": _source(file["file_data"]), **title}


def _source(url: str) -> dict[str, str]:
    media_type, data = split_data_url(url)
    return {"type": "base64", "media_type": media_type, "data": data}


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    schema: Any = {"type": "object"} if tool.parameters is None else msgspec.Raw(tool.parameters)
    found: dict[str, Any] = {"name": tool.name, "input_schema": schema}
    if tool.description is not None:
        found["description"] = tool.description
    if tool.strict is not None:
        found["strict"] = tool.strict
    return found


def _put_tools(body: dict[str, Any], chat: ChatRequest) -> None:
    if chat.tools:
        body["tools"] = [_tool(tool) for tool in chat.tools]
    choice: dict[str, Any] | None = None
    if chat.tool_choice is not None:
        word = _CHOICES.get(chat.tool_choice)
        if word is None:
            wanted = msgspec.json.decode(chat.tool_choice)
            choice = {"type": "tool", "name": wanted["function"]["name"]}
        else:
            choice = {"type": word}
    if chat.parallel_tool_calls is not None and chat.tools:
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = not chat.parallel_tool_calls
    if choice is not None:
        body["tool_choice"] = choice


def _put_reasoning(body: dict[str, Any], chat: ChatRequest) -> None:
    config: dict[str, Any] = {}
    thinking: dict[str, Any] | None = None if chat.thinking is None else {"type": chat.thinking.value}
    if chat.reasoning_effort == "none":
        thinking = thinking or {"type": Thinking.DISABLED.value}
    elif chat.reasoning_effort is not None:
        config["effort"] = _EFFORTS[chat.reasoning_effort]
        if chat.surface is not Surface.MESSAGES:
            thinking = {"type": Thinking.ADAPTIVE.value}
    if thinking is not None:
        if chat.thinking_budget_tokens is not None:
            thinking["budget_tokens"] = chat.thinking_budget_tokens
        if chat.thinking_display is not None:
            thinking["display"] = chat.thinking_display.value
        body["thinking"] = thinking
    if chat.response_format is not None:
        wanted = _FORM.decode(chat.response_format).json_schema
        if wanted is not None:
            config["format"] = {"type": "json_schema", "schema": wanted.schema}
    if config:
        body["output_config"] = config
