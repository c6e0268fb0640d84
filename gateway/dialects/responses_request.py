"""OpenAI's responses requests: a client's body to a `ChatRequest`.

Invariants
1. Each field of the body becomes a field of the request, or the request is refused; left out are only ids
   and states of items, which the gateway wrote itself.
2. Nothing is kept here: a request that refers to an earlier response, or wants to be stored, is refused.
3. Items of one answer (reasoning, message, calls) become one message, in this order.
"""

from __future__ import annotations

from typing import Any

from gateway.dialects import responses_wire as wire
from gateway.dialects.attachments import FILE_TYPES, IMAGE_TYPES, check_data_url
from gateway.dialects.schema_words import check_keywords
from gateway.dialects.strict_json import convert, decode, json_text, refuse_value
from gateway.domain.chat import (
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
    ToolCall,
    ToolDefinition,
)
from gateway.errors import RequestRefused

_ITEMS: dict[str, type[Any]] = {
    "message": wire.MessageItem,
    "function_call": wire.CallItem,
    "function_call_output": wire.ResultItem,
    "reasoning": wire.ReasoningItem,
}


def parse_responses(body: bytes) -> ChatRequest:
    """The request in `body` (`POST /v1/responses`).

    Bounds: those of `strict_json` and `responses_wire`. Refuses with `RequestRefused` (400): a code of
    `strict_json.decode`, `remote-url-refused`, or `not-stored`.
    """
    asked = decode(body, wire.ResponsesBody)
    if asked.previous_response_id is not None:
        raise _refuse_stored("previous_response_id", "send the earlier items in `input`")
    if asked.store:
        raise _refuse_stored("store", "remove it or send false")
    messages = _messages(asked)
    if not messages and asked.prompt is None:
        raise refuse_value("input", "at least one item is needed when no `prompt` is named")
    prompt, choice = asked.prompt, asked.tool_choice
    chosen: JsonText | None = None
    if isinstance(choice, wire.ChosenFunction):
        chosen = json_text({"type": "function", "function": {"name": choice.name}})
    elif choice is not None:
        chosen = json_text(choice)
    return ChatRequest(
        model=asked.model,
        messages=messages,
        tools=_tools(asked.tools or []),
        tool_choice=chosen,
        parallel_tool_calls=asked.parallel_tool_calls,
        response_format=_format(asked.text),
        sampling=Sampling(
            max_output_tokens=asked.max_output_tokens, temperature=asked.temperature, top_p=asked.top_p
        ),
        stream=bool(asked.stream),
        prompt=None
        if prompt is None
        else PromptReference(prompt.id, prompt.version, tuple((prompt.variables or {}).items())),
        reasoning_effort=None if asked.reasoning is None else asked.reasoning.effort,
        surface=Surface.RESPONSES,
    )


def _refuse_stored(field: str, instead: str) -> RequestRefused:
    return RequestRefused(
        f"The field `{field}` asks for what is not kept here: answers are not stored; {instead}.",
        code="not-stored",
        param=field,
    )


class _Answer:
    """Items of one earlier answer, until something else comes."""

    def __init__(self) -> None:
        self.thoughts: list[str] = []
        self.parts: list[Part] = []
        self.refusal: str | None = None
        self.calls: list[ToolCall] = []
        self.is_string = True

    @property
    def has_message(self) -> bool:
        """Whether its message has come."""
        return bool(self.parts) or self.refusal is not None


class _Conversation:
    """Items to messages."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._answer: _Answer | None = None

    def take(self, item: Any, path: str) -> None:
        """One item."""
        match item:
            case wire.ReasoningItem():
                answer = self._open(path, is_new=True)
                answer.thoughts += [part.text for part in (*item.summary, *(item.content or ()))]
            case wire.CallItem():
                call = ToolCall(item.call_id, item.name, item.arguments)
                self._open(path, is_new=False).calls.append(call)
            case wire.MessageItem(role="assistant"):
                _say(self._open(path, is_new=True), item, path)
            case wire.MessageItem():
                self.close(path)
                parts, is_string = _parts(item.content, f"{path}.content")
                if item.role != "user" and any(isinstance(part, OpaquePart) for part in parts):
                    raise refuse_value(f"{path}.content", "text is expected in instructions")
                self.messages.append(Message(Role(item.role), parts, as_string=is_string))
            case wire.ResultItem():
                self.close(path)
                parts, is_string = _parts(item.output, f"{path}.output")
                self.messages.append(
                    Message(Role.TOOL, parts, tool_call_id=item.call_id, as_string=is_string)
                )

    def close(self, path: str) -> None:
        """End of an answer."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        if not answer.has_message and not answer.calls:
            raise refuse_value(path, "a message or a call is expected after reasoning")
        self.messages.append(
            Message(
                Role.ASSISTANT,
                tuple(answer.parts),
                tool_calls=tuple(answer.calls),
                refusal=answer.refusal,
                reasoning="\n".join(answer.thoughts) if answer.thoughts else None,
                as_string=answer.is_string,
            )
        )

    def _open(self, path: str, *, is_new: bool) -> _Answer:
        """The answer that is going on; with `is_new`, none that has said something already."""
        answer = self._answer
        if is_new and answer is not None and (answer.has_message or answer.calls):
            self.close(path)
        self._answer = self._answer or _Answer()
        return self._answer


def _say(answer: _Answer, item: wire.MessageItem, path: str) -> None:
    """The message of an answer."""
    if isinstance(item.content, str):
        answer.parts.append(TextPart(item.content))
        return
    for at, part in enumerate(item.content):
        match part:
            case wire.OutputText(text=text) | wire.InputText(text=text):
                answer.parts.append(TextPart(text))
                answer.is_string = False
            case wire.RefusalText(refusal=text) if answer.refusal is None:
                answer.refusal = text
            case _:
                raise refuse_value(f"{path}.content[{at}]", "text, or one refusal, is expected in an answer")
    if not answer.has_message:
        raise refuse_value(f"{path}.content", "at least one part is expected")


def _messages(asked: wire.ResponsesBody) -> tuple[Message, ...]:
    head = () if asked.instructions is None else (Message(Role.SYSTEM, (TextPart(asked.instructions),)),)
    if isinstance(asked.input, str):
        return (*head, Message(Role.USER, (TextPart(asked.input),)))
    conversation = _Conversation()
    for at, tree in enumerate(asked.input):
        path = f"input[{at}]"
        kind = _ITEMS.get(str(tree.get("type", "message")))
        if kind is None:
            raise refuse_value(f"{path}.type", f"one of {', '.join(_ITEMS)} is expected")
        conversation.take(convert(tree, kind, path), path)
    conversation.close(f"input[{len(asked.input) - 1}]")
    return (*head, *conversation.messages)


def _parts(content: str | list[Any], path: str) -> tuple[tuple[Part, ...], bool]:
    """Content of a turn that is no answer, and whether it came as one string."""
    if isinstance(content, str):
        return (TextPart(content),), True
    if not content:
        raise refuse_value(path, "at least one part is expected")
    return tuple([_part(part, f"{path}[{at}]") for at, part in enumerate(content)]), False


def _part(part: Any, path: str) -> Part:
    match part:
        case wire.InputText(text=text):
            return TextPart(text)
        case wire.InputImage(image_url=url, detail=detail):
            check_data_url(url, IMAGE_TYPES, f"{path}.image_url")
            image = {"url": url} if detail is None else {"url": url, "detail": detail}
            return OpaquePart("image_url", json_text({"type": "image_url", "image_url": image}))
        case wire.InputFile(file_data=url, filename=name):
            check_data_url(url, FILE_TYPES | IMAGE_TYPES, f"{path}.file_data")
            file = {"file_data": url} if name is None else {"file_data": url, "filename": name}
            return OpaquePart("file", json_text({"type": "file", "file": file}))
        case _:
            raise refuse_value(path, "text, an image or a file is expected")


def _tools(tools: list[wire.FunctionWire]) -> tuple[ToolDefinition, ...]:
    seen: set[str] = set()
    found: list[ToolDefinition] = []
    for at, tool in enumerate(tools):
        if tool.name in seen:
            raise refuse_value(f"tools[{at}].name", "another tool has this name already")
        seen.add(tool.name)
        parameters = None
        if tool.parameters is not None:
            parameters = json_text(tool.parameters)
            check_keywords(tool.parameters, parameters, f"tools[{at}].parameters")
        found.append(ToolDefinition(tool.name, tool.description, parameters, tool.strict))
    return tuple(found)


def _format(text: wire.TextConfig | None) -> JsonText | None:
    wanted = None if text is None else text.format
    if not isinstance(wanted, wire.SchemaFormat):
        return None if wanted is None else json_text(wanted)
    check_keywords(wanted.schema, json_text(wanted.schema), "text.format.schema")
    form: dict[str, Any] = {"name": wanted.name, "schema": wanted.schema}
    if wanted.description is not None:
        form["description"] = wanted.description
    if wanted.strict is not None:
        form["strict"] = wanted.strict
    return json_text({"type": "json_schema", "json_schema": form})
