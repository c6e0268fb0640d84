"""The body of `POST /v1/messages` as types: what is not here is refused.

Source: Anthropic's API reference for messages (version 2023-06-01). Fields that name another place, a
vendor's storage, a server-side tool or another caller are left out on purpose.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gateway.dialects.openai_wire import MAX_MESSAGES, MAX_OUTPUT_TOKENS, MAX_TOOLS, PromptWire

_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")]
_Id = Annotated[str, Meta(min_length=1, max_length=256)]
_Stop = Annotated[str, Meta(min_length=1, max_length=512)]
_Tokens = Annotated[int, Meta(ge=1, le=MAX_OUTPUT_TOKENS)]


class _Wire(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Root of all request structs: an unknown field is refused wherever it stands."""


class CacheControl(_Wire):
    """A wish that the prefix up to here be cached."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class _Block(_Wire):
    """Root of content blocks: each may carry a cache wish."""

    cache_control: CacheControl | None = None


class TextBlock(_Block, tag_field="type", tag="text"):
    """Text. SDKs send an answer's block back with empty `citations`."""

    text: str = ""
    citations: Annotated[list[None], Meta(max_length=0)] | None = None


class Base64Source(_Wire, tag_field="type", tag="base64"):
    """Inline content."""

    media_type: str
    data: str


class UrlSource(_Wire, tag_field="type", tag="url"):
    """Content at an address: refused with its own reason."""

    url: str


class FileSource(_Wire, tag_field="type", tag="file"):
    """Content in a vendor's storage: refused with its own reason."""

    file_id: str


Source = Base64Source | UrlSource | FileSource


class ImageBlock(_Block, kw_only=True, tag_field="type", tag="image"):
    """An image."""

    source: Source


class DocumentBlock(_Block, kw_only=True, tag_field="type", tag="document"):
    """A PDF."""

    source: Source
    title: Annotated[str, Meta(max_length=256)] | None = None


class ToolUseBlock(_Block, kw_only=True, tag_field="type", tag="tool_use"):
    """An earlier tool call of the assistant."""

    id: _Id
    name: _Name
    input: dict[str, Any]


class ToolResultBlock(_Block, kw_only=True, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: _Id
    content: str | list[TextBlock | ImageBlock] | None = None
    is_error: bool | None = None


class ThinkingBlock(_Wire, tag_field="type", tag="thinking"):
    """Reasoning of an earlier answer. The gateway gives no signature out and takes none back."""

    thinking: str
    signature: Annotated[str, Meta(max_length=0)] | None = None


UserBlock = TextBlock | ImageBlock | DocumentBlock | ToolResultBlock
AssistantBlock = TextBlock | ThinkingBlock | ToolUseBlock


class UserTurn(_Wire, tag_field="role", tag="user"):
    """A turn of the user: words and results of tools."""

    content: str | list[UserBlock]


class AssistantTurn(_Wire, tag_field="role", tag="assistant"):
    """An earlier answer; as the last turn, the beginning of the answer."""

    content: str | list[AssistantBlock]


class SystemTurn(_Wire, tag_field="role", tag="system"):
    """Instructions in the course of a conversation."""

    content: str | list[TextBlock]


TurnWire = UserTurn | AssistantTurn | SystemTurn


class ToolWire(_Wire):
    """A tool that the client runs by itself."""

    name: _Name
    input_schema: dict[str, Any]
    type: Literal["custom"] | None = None
    description: str | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class AutoChoice(_Wire, tag_field="type", tag="auto"):
    """The model decides."""

    disable_parallel_tool_use: bool | None = None


class AnyChoice(_Wire, tag_field="type", tag="any"):
    """Some tool must be called."""

    disable_parallel_tool_use: bool | None = None


class ToolChoice(_Wire, kw_only=True, tag_field="type", tag="tool"):
    """This tool must be called."""

    name: _Name
    disable_parallel_tool_use: bool | None = None


class NoneChoice(_Wire, tag_field="type", tag="none"):
    """No tool may be called."""


class ThinkingEnabled(_Wire, kw_only=True, tag_field="type", tag="enabled"):
    """Reason within a budget."""

    budget_tokens: Annotated[int, Meta(ge=1024, le=MAX_OUTPUT_TOKENS)]
    display: Literal["summarized", "omitted"] | None = None


class ThinkingAdaptive(_Wire, tag_field="type", tag="adaptive"):
    """Reason as much as it takes."""

    display: Literal["summarized", "omitted"] | None = None


class ThinkingDisabled(_Wire, tag_field="type", tag="disabled"):
    """Do not reason."""


class SchemaFormat(_Wire):
    """The schema that an answer obeys."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(_Wire):
    """How much effort, and in which form."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: SchemaFormat | None = None


class Metadata(_Wire):
    """Who asks, in the client's own words."""

    user_id: Annotated[str, Meta(max_length=512)] | None = None


class CountBody(_Wire, kw_only=True):
    """The body of `POST /v1/messages/count_tokens`. `None` means that the client did not say."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[TurnWire], Meta(max_length=MAX_MESSAGES)]
    system: str | list[TextBlock] | None = None
    tools: Annotated[list[ToolWire], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: AutoChoice | AnyChoice | ToolChoice | NoneChoice | None = None
    thinking: ThinkingEnabled | ThinkingAdaptive | ThinkingDisabled | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None


class MessagesBody(CountBody, kw_only=True):
    """The whole body of `POST /v1/messages`. `prompt` is the gateway's own field."""

    max_tokens: _Tokens
    prompt: PromptWire | None = None
    metadata: Metadata | None = None
    stop_sequences: Annotated[list[_Stop], Meta(max_length=16)] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
