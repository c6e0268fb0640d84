"""The body that a destination of kind `openai` or `vllm` receives, serialised anew.

Invariants
1. Every field comes from the resolved request, the destination or the gateway's own parameters.
2. A field that the client did not give is not sent, except `stream_options` (the gateway settles by
   usage) and a cap on output tokens that the permit obliges to.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.strict_json import refuse_unsaid
from gateway.domain.chat import (
    ChatRequest,
    JsonText,
    Message,
    OpaquePart,
    ResolvedRequest,
    Role,
    Surface,
    TextPart,
    Thinking,
)
from gateway.domain.decision import Destination
from gateway.errors import ConfigurationError, RequestRefused

KINDS = frozenset({"openai", "vllm"})

#: Stands before the result of a tool that failed, because the chat format has no field for it.
TOOL_FAILED = "The tool failed."

_ENCODER = msgspec.json.Encoder()
_PLAIN = (
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
)


def unsaid(chat: ChatRequest, kind: str) -> str | None:
    """First field that the chat format has no word for; None when all can be said."""
    if chat.surface is Surface.CHAT:
        return None
    if chat.thinking is Thinking.BUDGET:
        return "thinking.budget_tokens"
    if any(
        message.role is Role.TOOL and any(isinstance(part, OpaquePart) for part in message.parts)
        for message in chat.messages
    ):
        return "messages[].content[].content[]"
    is_begun = chat.surface is Surface.MESSAGES and chat.messages[-1:] != ()
    if kind == "openai" and is_begun and chat.messages[-1].role is Role.ASSISTANT:
        # There it would not be continued but followed by a new answer.
        return "messages[].role"
    return None


def encode_body(
    resolved: ResolvedRequest,
    destination: Destination,
    *,
    max_output_tokens: int | None = None,
    cache_salt: str | None = None,
    priority: int | None = None,
) -> bytes:
    """JSON body of `resolved` for `destination`.

    `max_output_tokens` is the permit's cap; the smaller of it and the client's own is sent.
    `cache_salt` (isolates vLLM's prefix cache per tenant) and `priority` (vLLM: lower goes first) are
    the gateway's own and are sent to kind `vllm` only. Reasoning of earlier turns is sent to kind
    `vllm` only, because OpenAI refuses the field.

    Refuses: `RequestRefused` for an extension that the destination does not list, and for a request
    without messages. Raises `ConfigurationError` for another kind.
    """
    if destination.kind not in KINDS:
        raise ConfigurationError(f"no dialect speaks to a destination of kind {destination.kind!r}")
    chat = resolved.chat
    if not chat.messages:
        # fail-closed: a prompt that was not rendered would ask the destination for something else.
        raise RequestRefused("The request holds no message after its prompt was resolved.", param="messages")
    if (field := unsaid(chat, destination.kind)) is not None:
        # fail-closed: the policy has checked this already; a gap there must not reach the wire.
        raise refuse_unsaid(field)
    is_vllm = destination.kind == "vllm"
    body: dict[str, Any] = {
        "model": destination.model,
        "messages": [_message(message, is_vllm) for message in chat.messages],
    }
    _put_tools(body, chat)
    put_sampling(body, chat)
    limit = chat.sampling.max_output_tokens
    if max_output_tokens is not None:
        limit = max_output_tokens if limit is None else min(limit, max_output_tokens)
    if limit is not None:
        body["max_tokens" if is_vllm else "max_completion_tokens"] = limit
    if chat.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    put_extensions(body, chat, destination)
    if is_vllm:
        if chat.surface is Surface.MESSAGES and chat.messages[-1].role is Role.ASSISTANT:
            body["continue_final_message"] = True
            body["add_generation_prompt"] = False
        if cache_salt is not None:
            body["cache_salt"] = cache_salt
        if priority is not None:
            body["priority"] = priority
    return _ENCODER.encode(body)


def _raw(text: JsonText) -> msgspec.Raw:
    return msgspec.Raw(text)


def _message(message: Message, is_vllm: bool) -> dict[str, Any]:
    content: Any
    if message.is_error:
        content = [{"type": "text", "text": TOOL_FAILED}, *map(_part, message.parts)]
    elif message.role is Role.TOOL and not message.parts:
        content = ""
    elif not message.as_string:
        content = [_part(part) for part in message.parts]
    elif not message.parts:
        content = None
    elif len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
        content = message.parts[0].text
    else:
        # A rendered prompt may join several texts; they stay parts rather than run together.
        content = [_part(part) for part in message.parts]
    found: dict[str, Any] = {"role": message.role.value, "content": content}
    if message.name is not None:
        found["name"] = message.name
    if message.tool_call_id is not None:
        found["tool_call_id"] = message.tool_call_id
    if message.role is Role.ASSISTANT:
        if message.tool_calls:
            found["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.tool_calls
            ]
        if message.refusal is not None:
            found["refusal"] = message.refusal
        if message.reasoning is not None and is_vllm:
            found["reasoning"] = message.reasoning
    return found


def _part(part: TextPart | OpaquePart) -> Any:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return _raw(part.payload)


def _put_tools(body: dict[str, Any], chat: ChatRequest) -> None:
    if chat.tools:
        tools: list[dict[str, Any]] = []
        for tool in chat.tools:
            function: dict[str, Any] = {"name": tool.name}
            if tool.description is not None:
                function["description"] = tool.description
            if tool.parameters is not None:
                function["parameters"] = _raw(tool.parameters)
            if tool.strict is not None:
                function["strict"] = tool.strict
            tools.append({"type": "function", "function": function})
        body["tools"] = tools
    if chat.tool_choice is not None:
        body["tool_choice"] = _raw(chat.tool_choice)
    if chat.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = chat.parallel_tool_calls
    if chat.response_format is not None:
        body["response_format"] = _raw(chat.response_format)
    effort = chat.reasoning_effort
    if chat.thinking is Thinking.DISABLED:
        effort = "none"
    if effort is not None:
        # Anthropic's `max` is above the highest word of this dialect.
        body["reasoning_effort"] = "xhigh" if effort == "max" else effort


def put_sampling(body: dict[str, Any], chat: ChatRequest) -> None:
    """Put how to sample into a body, as far as the client said it."""
    sampling = chat.sampling
    for field in _PLAIN:
        value = getattr(sampling, field)
        if value is not None:
            body[field] = value
    if sampling.n != 1:
        body["n"] = sampling.n
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.logit_bias is not None:
        body["logit_bias"] = _raw(sampling.logit_bias)


def put_extensions(body: dict[str, Any], chat: ChatRequest, destination: Destination) -> None:
    """Put the extensions into a body. Raises `RequestRefused` for one that the destination does not list."""
    for name, value in chat.extensions:
        if name not in destination.extensions or name in body:
            # fail-closed: the policy has checked this already; a gap there must not reach the wire.
            raise RequestRefused(
                f"The field `{name}` is not accepted where this request may go; remove it.",
                code="unsupported-field",
                param=name,
            )
        body[name] = _raw(value)
