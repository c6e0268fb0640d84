"""Anthropic's messages requests: a client's body to a `ChatRequest`.

Invariants
1. Each field of the body becomes a field of the request, or the request is refused; none is dropped.
2. Images and documents become parts in OpenAI's form, which is the form that all encoders know.
3. The order of content is kept. An order that a neutral message cannot hold is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.dialects import anthropic_wire as wire
from gateway.dialects.attachments import FILE_TYPES, IMAGE_TYPES, check_base64, refuse_remote
from gateway.dialects.schema_words import check_keywords
from gateway.dialects.strict_json import decode, json_text, refuse_value
from gateway.domain.chat import (
    CacheLifetime,
    ChatRequest,
    JsonText,
    Message,
    OpaquePart,
    Part,
    PromptReference,
    Role,
    Sampling,
    Surface,
    TextPart,
    Thinking,
    ThinkingDisplay,
    ToolCall,
    ToolDefinition,
)

#: Name of a schema that came without one; the chat format asks for a name.
SCHEMA_NAME = "answer"

_NO_SAMPLING = Sampling()


def parse_messages(body: bytes) -> ChatRequest:
    """The request in `body` (`POST /v1/messages`).

    Bounds: those of `strict_json` and `anthropic_wire`. Refuses with `RequestRefused` (400): a code of
    `strict_json.decode`, or `remote-url-refused`.
    """
    asked = decode(body, wire.MessagesBody)
    budget = asked.thinking.budget_tokens if isinstance(asked.thinking, wire.ThinkingEnabled) else None
    if budget is not None and budget >= asked.max_tokens:
        raise refuse_value("thinking.budget_tokens", "a number below `max_tokens` is expected")
    if not asked.messages and asked.prompt is None:
        raise refuse_value("messages", "at least one message is needed when no `prompt` is named")
    sampling = Sampling(
        max_output_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        stop=tuple(asked.stop_sequences or ()),
    )
    extensions = () if asked.top_k is None else (("top_k", json_text(asked.top_k)),)
    prompt = asked.prompt
    return _request(
        asked,
        sampling=sampling,
        stream=bool(asked.stream),
        prompt=None
        if prompt is None
        else PromptReference(prompt.id, prompt.version, tuple((prompt.variables or {}).items())),
        extensions=extensions,
        end_user=None if asked.metadata is None else asked.metadata.user_id,
    )


def parse_count(body: bytes) -> ChatRequest:
    """The request whose tokens are to be counted (`POST /v1/messages/count_tokens`)."""
    return _request(decode(body, wire.CountBody))


def _request(
    asked: wire.CountBody,
    *,
    sampling: Sampling = _NO_SAMPLING,
    stream: bool = False,
    prompt: PromptReference | None = None,
    extensions: tuple[tuple[str, JsonText], ...] = (),
    end_user: str | None = None,
) -> ChatRequest:
    config = asked.output_config or wire.OutputConfig()
    thinking, budget_tokens, display = _thinking(asked)
    return ChatRequest(
        model=asked.model,
        messages=(*_system(asked.system), *_messages(asked.messages)),
        tools=_tools(asked.tools or ()),
        tool_choice=_tool_choice(asked),
        parallel_tool_calls=_parallel(asked),
        response_format=_format(config.format),
        sampling=sampling,
        stream=stream,
        prompt=prompt,
        reasoning_effort=config.effort,
        extensions=extensions,
        surface=Surface.MESSAGES,
        thinking=thinking,
        thinking_budget_tokens=budget_tokens,
        thinking_display=display,
        cache_lifetime=_cache_lifetime(asked),
        end_user=end_user,
    )


def _system(system: str | list[wire.TextBlock] | None) -> tuple[Message, ...]:
    if system is None:
        return ()
    parts, as_string = _texts(system)
    return (Message(Role.SYSTEM, parts, as_string=as_string),)


def _messages(turns: Sequence[wire.TurnWire]) -> list[Message]:
    found: list[Message] = []
    for at, turn in enumerate(turns):
        path = f"messages[{at}].content"
        match turn:
            case wire.UserTurn(content=str(text)):
                found.append(Message(Role.USER, (TextPart(text),)))
            case wire.UserTurn(content=list(blocks)):
                found += _user(blocks, path)
            case wire.AssistantTurn(content=str(text)):
                found.append(Message(Role.ASSISTANT, (TextPart(text),)))
            case wire.AssistantTurn(content=list(said)):
                found.append(_assistant(said, path))
            case wire.SystemTurn(content=content):
                parts, as_string = _texts(content)
                found.append(Message(Role.SYSTEM, parts, as_string=as_string))
    return found


def _texts(content: str | list[wire.TextBlock]) -> tuple[tuple[Part, ...], bool]:
    if isinstance(content, str):
        return (TextPart(content),), True
    return tuple([TextPart(block.text) for block in content]), False


def _user(blocks: Sequence[wire.UserBlock], path: str) -> list[Message]:
    """A user turn: each result of a tool is a message of its own, the rest one behind them."""
    if not blocks:
        raise refuse_value(path, "at least one content block is expected")
    results: list[Message] = []
    parts: list[Part] = []
    for at, block in enumerate(blocks):
        where = f"{path}[{at}]"
        match block:
            case wire.ToolResultBlock():
                if parts:
                    raise refuse_value(where, "results of tools are expected before other content")
                results.append(_result(block, where))
            case wire.TextBlock(text=text):
                parts.append(TextPart(text))
            case wire.ImageBlock() | wire.DocumentBlock():
                parts.append(_attachment(block, where))
    if parts:
        results.append(Message(Role.USER, tuple(parts), as_string=False))
    return results


def _result(block: wire.ToolResultBlock, path: str) -> Message:
    content = block.content
    parts: list[Part] = []
    if isinstance(content, str):
        parts.append(TextPart(content))
    else:
        for at, inner in enumerate(content or ()):
            if isinstance(inner, wire.TextBlock):
                parts.append(TextPart(inner.text))
            else:
                parts.append(_attachment(inner, f"{path}.content[{at}]"))
    return Message(
        Role.TOOL,
        tuple(parts),
        tool_call_id=block.tool_use_id,
        as_string=isinstance(content, str),
        is_error=bool(block.is_error),
    )


def _attachment(block: wire.ImageBlock | wire.DocumentBlock, path: str) -> OpaquePart:
    source = block.source
    if not isinstance(source, wire.Base64Source):
        # fail-closed: what lives elsewhere was not seen here, and the gateway fetches nothing.
        raise refuse_remote(f"{path}.source")
    types = IMAGE_TYPES if isinstance(block, wire.ImageBlock) else FILE_TYPES
    if source.media_type not in types:
        raise refuse_value(f"{path}.source.media_type", f"one of {', '.join(sorted(types))} is expected")
    check_base64(source.data, f"{path}.source.data")
    url = f"data:{source.media_type};base64,{source.data}"
    if isinstance(block, wire.ImageBlock):
        return OpaquePart("image_url", json_text({"type": "image_url", "image_url": {"url": url}}))
    file = {"file_data": url} if block.title is None else {"file_data": url, "filename": block.title}
    return OpaquePart("file", json_text({"type": "file", "file": file}))


def _assistant(blocks: Sequence[wire.AssistantBlock], path: str) -> Message:
    """An assistant turn: reasoning, then text, then tool calls."""
    if not blocks:
        raise refuse_value(path, "at least one content block is expected")
    thoughts: list[str] = []
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for at, block in enumerate(blocks):
        where = f"{path}[{at}]"
        match block:
            case wire.ThinkingBlock(thinking=text):
                if parts or calls:
                    raise refuse_value(where, "thinking is expected before text and tool calls")
                thoughts.append(text)
            case wire.TextBlock(text=text):
                if calls:
                    raise refuse_value(where, "text is expected before tool calls")
                parts.append(TextPart(text))
            case wire.ToolUseBlock(id=call_id, name=name, input=arguments):
                calls.append(ToolCall(call_id, name, json_text(arguments)))
    return Message(
        Role.ASSISTANT,
        tuple(parts),
        tool_calls=tuple(calls),
        reasoning="\n".join(thoughts) if thoughts else None,
        as_string=not parts,
    )


def _tools(tools: Sequence[wire.ToolWire]) -> tuple[ToolDefinition, ...]:
    seen: set[str] = set()
    found: list[ToolDefinition] = []
    for at, tool in enumerate(tools):
        if tool.name in seen:
            raise refuse_value(f"tools[{at}].name", "another tool has this name already")
        seen.add(tool.name)
        schema = json_text(tool.input_schema)
        check_keywords(tool.input_schema, schema, f"tools[{at}].input_schema")
        found.append(ToolDefinition(tool.name, tool.description, schema, tool.strict))
    return tuple(found)


def _tool_choice(asked: wire.CountBody) -> JsonText | None:
    match asked.tool_choice:
        case None:
            return None
        case wire.AutoChoice():
            return JsonText('"auto"')
        case wire.AnyChoice():
            return JsonText('"required"')
        case wire.NoneChoice():
            return JsonText('"none"')
        case wire.ToolChoice(name=name):
            return json_text({"type": "function", "function": {"name": name}})


def _parallel(asked: wire.CountBody) -> bool | None:
    choice = asked.tool_choice
    if choice is None or isinstance(choice, wire.NoneChoice) or choice.disable_parallel_tool_use is None:
        return None
    return not choice.disable_parallel_tool_use


def _format(wanted: wire.SchemaFormat | None) -> JsonText | None:
    if wanted is None:
        return None
    schema = json_text(wanted.schema)
    check_keywords(wanted.schema, schema, "output_config.format.schema")
    form = {"name": SCHEMA_NAME, "schema": wanted.schema, "strict": True}
    return json_text({"type": "json_schema", "json_schema": form})


def _thinking(asked: wire.CountBody) -> tuple[Thinking | None, int | None, ThinkingDisplay | None]:
    match asked.thinking:
        case None:
            return None, None, None
        case wire.ThinkingDisabled():
            return Thinking.DISABLED, None, None
        case wire.ThinkingAdaptive(display=shown):
            return Thinking.ADAPTIVE, None, None if shown is None else ThinkingDisplay(shown)
        case wire.ThinkingEnabled(budget_tokens=budget, display=shown):
            return Thinking.BUDGET, budget, None if shown is None else ThinkingDisplay(shown)


def _cache_lifetime(asked: wire.CountBody) -> CacheLifetime | None:
    """The longest lifetime that is asked for anywhere; None when no caching is asked for."""
    found = [asked.cache_control, *(tool.cache_control for tool in asked.tools or ())]
    contents = [asked.system, *(turn.content for turn in asked.messages)]
    for content in contents:
        if not isinstance(content, str):
            for block in content or ():
                if not isinstance(block, wire.ThinkingBlock):
                    found.append(block.cache_control)
                if isinstance(block, wire.ToolResultBlock) and not isinstance(block.content, str):
                    found += [inner.cache_control for inner in block.content or ()]
    lifetimes = {control.ttl or "5m" for control in found if control is not None}
    return CacheLifetime(max(lifetimes, key=("5m", "1h").index)) if lifetimes else None
