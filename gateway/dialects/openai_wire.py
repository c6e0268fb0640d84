"""The body of `POST /v1/chat/completions` as types: what is not here is refused.

Source: OpenAI's API reference for chat completions; vLLM 0.32 `ChatCompletionRequest`. Fields that
name another place, another caller or storage at a vendor are left out on purpose.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

#: How many choices one request may ask for.
MAX_CHOICES = 8
MAX_OUTPUT_TOKENS = 1_048_576
MAX_MESSAGES = 4096
MAX_TOOLS = 128

_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")]
_Id = Annotated[str, Meta(min_length=1, max_length=256)]
_Speaker = Annotated[str, Meta(min_length=1, max_length=64)]
_Tokens = Annotated[int, Meta(ge=1, le=MAX_OUTPUT_TOKENS)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Stop = Annotated[str, Meta(min_length=1, max_length=512)]
_TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_TokenKey = Annotated[str, Meta(pattern=r"^[0-9]{1,10}$")]
_Bias = Annotated[float, Meta(ge=-100, le=100)]
_Phrase = Annotated[str, Meta(min_length=1, max_length=1024)]


class _Wire(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Root of all request structs: an unknown field is refused wherever it stands."""


class TextContent(_Wire, tag_field="type", tag="text"):
    """A text part."""

    text: str


class ImageUrl(_Wire):
    """Where an image is; only `data:` is taken."""

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImageContent(_Wire, tag_field="type", tag="image_url"):
    """An image part."""

    image_url: ImageUrl


class AudioData(_Wire):
    """Audio as base64."""

    data: str
    format: Literal["wav", "mp3"]


class AudioContent(_Wire, tag_field="type", tag="input_audio"):
    """An audio part."""

    input_audio: AudioData


class FileData(_Wire):
    """A file as a `data:` URL. A provider's file id is not taken: its content was not seen here."""

    file_data: str
    filename: Annotated[str, Meta(max_length=256)] | None = None


class FileContent(_Wire, tag_field="type", tag="file"):
    """A file part."""

    file: FileData


UserContent = TextContent | ImageContent | AudioContent | FileContent


class FunctionCall(_Wire):
    """Name and raw argument string of an earlier call."""

    name: _Name
    arguments: str


class CallWire(_Wire):
    """An earlier tool call of the assistant."""

    id: _Id
    type: Literal["function"]
    function: FunctionCall


class SystemMessage(_Wire, tag_field="role", tag="system"):
    """Instructions."""

    content: str | list[TextContent]
    name: _Speaker | None = None


class DeveloperMessage(_Wire, tag_field="role", tag="developer"):
    """Instructions, in OpenAI's newer word."""

    content: str | list[TextContent]
    name: _Speaker | None = None


class UserMessage(_Wire, tag_field="role", tag="user"):
    """A turn of the user."""

    content: str | list[UserContent]
    name: _Speaker | None = None


class AssistantMessage(_Wire, tag_field="role", tag="assistant"):
    """An earlier answer. SDKs send it back with empty `audio`, `function_call`, `annotations`."""

    content: str | list[TextContent] | None = None
    name: _Speaker | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Annotated[list[CallWire], Meta(max_length=MAX_TOOLS)] | None = None
    audio: None = None
    function_call: None = None
    annotations: Annotated[list[None], Meta(max_length=0)] | None = None


class ToolMessage(_Wire, tag_field="role", tag="tool"):
    """The result of a tool call."""

    content: str | list[TextContent]
    tool_call_id: _Id
    name: _Speaker | None = None


MessageWire = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class FunctionDefinition(_Wire):
    """A function with the JSON Schema of its parameters."""

    name: _Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolWire(_Wire):
    """A tool; only functions."""

    type: Literal["function"]
    function: FunctionDefinition


class ChosenFunction(_Wire):
    """The one function to call."""

    name: _Name


class ToolChoice(_Wire):
    """A forced call of one function."""

    type: Literal["function"]
    function: ChosenFunction


class TextFormat(_Wire, tag_field="type", tag="text"):
    """Answer as text."""


class ObjectFormat(_Wire, tag_field="type", tag="json_object"):
    """Answer as any JSON object."""


class SchemaBody(_Wire):
    """The schema that an answer obeys."""

    name: _Name
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class SchemaFormat(_Wire, tag_field="type", tag="json_schema"):
    """Answer as JSON of a schema."""

    json_schema: SchemaBody


class StreamOptions(_Wire):
    """Whether the last chunk tells the usage."""

    include_usage: bool | None = None


class PromptWire(_Wire):
    """A prompt of the registry."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]
    version: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    variables: Annotated[dict[str, str], Meta(max_length=256)] | None = None


class StructuredOutputs(_Wire):
    """vLLM's constraint on the answer: exactly one of these."""

    json: dict[str, Any] | None = None
    regex: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    choice: Annotated[list[_Phrase], Meta(min_length=1, max_length=256)] | None = None
    grammar: Annotated[str, Meta(min_length=1, max_length=65_536)] | None = None
    json_object: bool | None = None


class TemplateSwitches(_Wire):
    """The two switches of chat templates that hold no text. Any other key could replace the template."""

    enable_thinking: bool | None = None
    thinking: bool | None = None


class ChatBody(_Wire):
    """The whole body. `None` means that the client did not say."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[MessageWire], Meta(max_length=MAX_MESSAGES)] = []
    prompt: PromptWire | None = None
    tools: Annotated[list[ToolWire], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: TextFormat | ObjectFormat | SchemaFormat | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    stop: _Stop | Annotated[list[_Stop], Meta(max_length=16)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    logit_bias: Annotated[dict[_TokenKey, _Bias], Meta(max_length=1024)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    store: bool | None = None
    # vLLM's own fields, see `EXTENSIONS`.
    top_k: Annotated[int, Meta(ge=-1, le=1_000_000)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    length_penalty: Annotated[float, Meta(ge=-10, le=10)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=MAX_OUTPUT_TOKENS)] | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[list[_TokenId], Meta(max_length=256)] | None = None
    bad_words: Annotated[list[_Phrase], Meta(max_length=256)] | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    structured_outputs: StructuredOutputs | None = None
    chat_template_kwargs: TemplateSwitches | None = None


#: Fields beyond the common ones, each to be allowed by name per destination.
EXTENSIONS = (
    "top_k",
    "min_p",
    "repetition_penalty",
    "length_penalty",
    "min_tokens",
    "ignore_eos",
    "stop_token_ids",
    "bad_words",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "include_stop_str_in_output",
    "structured_outputs",
    "chat_template_kwargs",
)
