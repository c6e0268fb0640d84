"""OpenAI chat requests: a client's body to a `ChatRequest`, a resolved request to a fresh body.

Invariants
1. What leaves is serialised from domain values; no byte of the client's body is passed on.
2. Content that lives elsewhere (a remote URL, a vendor's file id) is refused: it could not be
   classified, and fetching it would let a caller reach internal addresses.
3. An extension leaves only for a destination that lists it by name.
"""

from __future__ import annotations

from typing import Any

from gateway.dialects import openai_wire as wire
from gateway.dialects.attachments import FILE_TYPES, IMAGE_TYPES, check_base64, check_data_url
from gateway.dialects.openai_body import encode_body
from gateway.dialects.schema_words import check_keywords
from gateway.dialects.strict_json import decode, json_text, refuse_value
from gateway.domain.chat import (
    ChatRequest,
    JsonText,
    Message,
    OpaquePart,
    Part,
    PromptReference,
    Role,
    Sampling,
    TextPart,
    ToolCall,
    ToolDefinition,
)

__all__ = ["encode_body", "parse_chat"]


def parse_chat(body: bytes) -> ChatRequest:
    """The request in `body` (`POST /v1/chat/completions`).

    Bounds: those of `strict_json` and `openai_wire`; 4 µs for 1 KB of chat. Refuses with
    `RequestRefused` (400): a code of `strict_json.decode`, or `remote-url-refused`.
    """
    chat = decode(body, wire.ChatBody)
    if not chat.messages and chat.prompt is None:
        raise refuse_value("messages", "at least one message is needed when no `prompt` is named")
    if chat.store:
        raise refuse_value("store", "answers are not stored at a provider; remove it or send false")
    options = chat.stream_options
    if options is not None and not chat.stream:
        raise refuse_value("stream_options", "it is only accepted together with `stream: true`")
    return ChatRequest(
        model=chat.model,
        messages=tuple([_message(message, at) for at, message in enumerate(chat.messages)]),
        tools=_tools(chat.tools) if chat.tools else (),
        tool_choice=None if chat.tool_choice is None else json_text(chat.tool_choice),
        parallel_tool_calls=chat.parallel_tool_calls,
        response_format=_response_format(chat),
        sampling=_sampling(chat),
        stream=bool(chat.stream),
        include_usage=bool(options and options.include_usage),
        prompt=None if chat.prompt is None else _prompt(chat.prompt),
        reasoning_effort=chat.reasoning_effort,
        extensions=_extensions(chat),
    )


def _message(message: wire.MessageWire, at: int) -> Message:
    """Domain form of one message; `at` is its index, for the paths of refusals."""
    match message:
        case wire.UserMessage(content=content, name=name):
            if isinstance(content, str):
                return Message(Role.USER, (TextPart(content),), name)
            seen = tuple([_part(part, f"messages[{at}].content[{i}]") for i, part in enumerate(content)])
            return Message(Role.USER, seen, name, as_string=False)
        case wire.AssistantMessage():
            return _assistant(message, at)
        case wire.SystemMessage(content=content, name=name):
            parts, as_string = _texts(content)
            return Message(Role.SYSTEM, parts, name, as_string=as_string)
        case wire.DeveloperMessage(content=content, name=name):
            parts, as_string = _texts(content)
            return Message(Role.DEVELOPER, parts, name, as_string=as_string)
        case wire.ToolMessage(content=content, name=name):
            parts, as_string = _texts(content)
            return Message(Role.TOOL, parts, name, tool_call_id=message.tool_call_id, as_string=as_string)


def _assistant(message: wire.AssistantMessage, at: int) -> Message:
    reasoning = message.reasoning if message.reasoning is not None else message.reasoning_content
    if message.reasoning_content is not None and message.reasoning_content != reasoning:
        raise refuse_value(
            f"messages[{at}].reasoning_content", "it differs from `reasoning`; send one of the two"
        )
    parts, as_string = _texts(message.content)
    calls = tuple(
        [ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    )
    if not parts and not calls and message.refusal is None and reasoning is None:
        raise refuse_value(
            f"messages[{at}].content", "an assistant message needs content, tool calls or a refusal"
        )
    return Message(
        Role.ASSISTANT,
        parts,
        message.name,
        tool_calls=calls,
        refusal=message.refusal,
        reasoning=reasoning,
        as_string=as_string,
    )


def _texts(content: str | list[wire.TextContent] | None) -> tuple[tuple[Part, ...], bool]:
    if content is None:
        return (), True
    if isinstance(content, str):
        return (TextPart(content),), True
    return tuple([TextPart(part.text) for part in content]), False


def _part(part: wire.UserContent, path: str) -> Part:
    match part:
        case wire.TextContent(text=text):
            return TextPart(text)
        case wire.ImageContent(image_url=image):
            check_data_url(image.url, IMAGE_TYPES, f"{path}.image_url.url")
            return OpaquePart("image_url", json_text(part))
        case wire.AudioContent(input_audio=audio):
            check_base64(audio.data, f"{path}.input_audio.data")
            return OpaquePart("input_audio", json_text(part))
        case wire.FileContent(file=file):
            check_data_url(file.file_data, FILE_TYPES | IMAGE_TYPES, f"{path}.file.file_data")
            return OpaquePart("file", json_text(part))


def _tools(tools: list[wire.ToolWire]) -> tuple[ToolDefinition, ...]:
    seen: set[str] = set()
    found: list[ToolDefinition] = []
    for at, tool in enumerate(tools):
        function = tool.function
        if function.name in seen:
            raise refuse_value(f"tools[{at}].function.name", "another tool has this name already")
        seen.add(function.name)
        parameters = None
        if function.parameters is not None:
            parameters = json_text(function.parameters)
            check_keywords(function.parameters, parameters, f"tools[{at}].function.parameters")
        found.append(ToolDefinition(function.name, function.description, parameters, function.strict))
    return tuple(found)


def _response_format(chat: wire.ChatBody) -> JsonText | None:
    wanted = chat.response_format
    if wanted is None:
        return None
    text = json_text(wanted)
    if isinstance(wanted, wire.SchemaFormat) and wanted.json_schema.schema is not None:
        check_keywords(wanted.json_schema.schema, text, "response_format.json_schema.schema")
    return text


def _sampling(chat: wire.ChatBody) -> Sampling:
    limit = chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens
    if chat.max_tokens is not None and chat.max_tokens != limit:
        raise refuse_value("max_tokens", "it differs from `max_completion_tokens`; send one of the two")
    if chat.top_logprobs is not None and not chat.logprobs:
        raise refuse_value("top_logprobs", "it is only accepted together with `logprobs: true`")
    stop = chat.stop
    return Sampling(
        max_output_tokens=limit,
        temperature=chat.temperature,
        top_p=chat.top_p,
        n=chat.n or 1,
        stop=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
        seed=chat.seed,
        presence_penalty=chat.presence_penalty,
        frequency_penalty=chat.frequency_penalty,
        logprobs=chat.logprobs,
        top_logprobs=chat.top_logprobs,
        logit_bias=json_text(chat.logit_bias) if chat.logit_bias else None,
    )


def _prompt(prompt: wire.PromptWire) -> PromptReference:
    return PromptReference(prompt.id, prompt.version, tuple((prompt.variables or {}).items()))


def _extensions(chat: wire.ChatBody) -> tuple[tuple[str, JsonText], ...]:
    found: list[tuple[str, JsonText]] = []
    for name in wire.EXTENSIONS:
        value: Any = getattr(chat, name)
        if value is not None:
            found.append((name, json_text(value)))
    constraint = chat.structured_outputs
    if constraint is not None:
        if constraint.json is not None:
            check_keywords(constraint.json, json_text(constraint.json), "structured_outputs.json")
        given = [
            field for field in constraint.__struct_fields__ if getattr(constraint, field) not in (None, False)
        ]
        if len(given) != 1:
            raise refuse_value(
                "structured_outputs", "exactly one of json, regex, choice, grammar, json_object is expected"
            )
    return tuple(found)
