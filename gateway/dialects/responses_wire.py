"""The body of `POST /v1/responses` as types: what is not here is refused.

Source: OpenAI's API reference for responses. What a provider would keep (`previous_response_id`,
`conversation`, `background`), tools that run at a provider, and fields that name another caller are left out
on purpose.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gateway.dialects.openai_wire import MAX_MESSAGES, MAX_OUTPUT_TOKENS, MAX_TOOLS, PromptWire

_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")]
_Id = Annotated[str, Meta(min_length=1, max_length=256)]
_Status = Literal["in_progress", "completed", "incomplete"]


class _Wire(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Root of all request structs: an unknown field is refused wherever it stands."""


class InputText(_Wire, tag_field="type", tag="input_text"):
    """Text."""

    text: str


class InputImage(_Wire, tag_field="type", tag="input_image"):
    """An image; only a `data:` URL is taken."""

    image_url: str
    detail: Literal["auto", "low", "high"] | None = None


class InputFile(_Wire, tag_field="type", tag="input_file"):
    """A file; only a `data:` URL is taken."""

    file_data: str
    filename: Annotated[str, Meta(max_length=256)] | None = None


class OutputText(_Wire, tag_field="type", tag="output_text"):
    """Text of an earlier answer. SDKs send it back with empty `annotations` and `logprobs`."""

    text: str
    annotations: Annotated[list[None], Meta(max_length=0)] | None = None
    logprobs: Annotated[list[None], Meta(max_length=0)] | None = None


class RefusalText(_Wire, tag_field="type", tag="refusal"):
    """A refusal in an earlier answer."""

    refusal: str


class SummaryText(_Wire, tag_field="type", tag="summary_text"):
    """A summary of reasoning."""

    text: str


class ReasoningText(_Wire, tag_field="type", tag="reasoning_text"):
    """Reasoning of an earlier answer."""

    text: str


InputContent = InputText | InputImage | InputFile


class MessageItem(_Wire):
    """A turn. `id` and `status` of an earlier answer are the gateway's own and are not sent on."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputText | InputImage | InputFile | OutputText | RefusalText]
    type: Literal["message"] = "message"
    id: _Id | None = None
    status: _Status | None = None
    phase: None = None


class CallItem(_Wire):
    """An earlier tool call."""

    type: Literal["function_call"]
    call_id: _Id
    name: _Name
    arguments: str
    id: _Id | None = None
    status: _Status | None = None


class ResultItem(_Wire):
    """The result of a tool call."""

    type: Literal["function_call_output"]
    call_id: _Id
    output: str | list[InputText | InputImage | InputFile]
    id: _Id | None = None
    status: _Status | None = None


class ReasoningItem(_Wire):
    """Reasoning before an earlier answer. What a provider encrypted is not taken: nobody could read it."""

    type: Literal["reasoning"]
    summary: list[SummaryText] = []
    content: list[ReasoningText] | None = None
    encrypted_content: None = None
    id: _Id | None = None
    status: _Status | None = None


class FunctionWire(_Wire):
    """A tool; only functions that the client runs by itself."""

    type: Literal["function"]
    name: _Name
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


class ChosenFunction(_Wire):
    """The one function to call."""

    type: Literal["function"]
    name: _Name


class TextFormat(_Wire, tag_field="type", tag="text"):
    """Answer as text."""


class ObjectFormat(_Wire, tag_field="type", tag="json_object"):
    """Answer as any JSON object."""


class SchemaFormat(_Wire, kw_only=True, tag_field="type", tag="json_schema"):
    """Answer as JSON of a schema."""

    name: _Name
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class TextConfig(_Wire):
    """In which form to answer."""

    format: TextFormat | ObjectFormat | SchemaFormat | None = None


class ReasoningConfig(_Wire):
    """How much to reason."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class ResponsesBody(_Wire, kw_only=True):
    """The whole body. `None` means that the client did not say."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    input: str | Annotated[list[dict[str, Any]], Meta(max_length=MAX_MESSAGES)] = []
    instructions: str | None = None
    prompt: PromptWire | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    tools: Annotated[list[FunctionWire], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenFunction | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    stream: bool | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    include: Annotated[list[None], Meta(max_length=0)] | None = None
    truncation: Literal["disabled"] | None = None
    background: Literal[False] | None = None
