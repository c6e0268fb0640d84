"""A chat request in provider-neutral form: everything that was parsed, and nothing else.

Invariants
1. What is not in these values is not forwarded: bodies are re-serialised from them.
2. `JsonText` is compact JSON produced by the gateway's own encoder from parsed input; keys are
   unique, depth and size are bounded by the dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

#: Compact JSON text, re-serialised by the gateway.
JsonText = NewType("JsonText", str)
#: Judges the text of a tool call's arguments: a closed word for what is wrong, or None.
CheckArguments = Callable[[str], str | None]


class Surface(StrEnum):
    """What the client speaks and reads, in the closed names of endpoints."""

    CHAT = "chat.completions"
    MESSAGES = "messages"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    COMPLETIONS = "completions"


class Thinking(StrEnum):
    """Whether the model shall reason, where a client says so by itself (Anthropic's `thinking`)."""

    DISABLED = "disabled"
    ADAPTIVE = "adaptive"
    BUDGET = "enabled"


class ThinkingDisplay(StrEnum):
    """What the client gets to read of the reasoning."""

    SUMMARIZED = "summarized"
    OMITTED = "omitted"


class CacheLifetime(StrEnum):
    """How long the client asks a provider to keep the prompt's prefix cached."""

    SHORT = "5m"
    LONG = "1h"


class Role(StrEnum):
    """Speaker of a message, in OpenAI's words."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text content."""

    text: str


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """Content that cannot be read as text (image, audio, file). `payload` is the whole part as JSON."""

    kind: str
    payload: JsonText


Part = TextPart | OpaquePart


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant made earlier; `arguments` is the raw string that the model wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `parts` may be empty (an assistant turn with only tool calls).

    `as_string` remembers that content came as one plain string, so that it is sent the same way.
    `is_error`: the result of a tool that failed.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    as_string: bool = True
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A function the model may call. `parameters` is its JSON Schema."""

    name: str
    description: str | None = None
    parameters: JsonText | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class PromptReference:
    """A prompt of the registry, by name and version, with its variables."""

    id: str
    version: str | None
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. `None` means: the client did not say, so nothing is sent."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: JsonText | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """How the client wants the vectors of its inputs. `is_list`: the inputs came as a list."""

    dimensions: int | None = None
    is_base64: bool = False
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One parsed chat request.

    `tool_choice` and `response_format` are JSON. `extensions` are a server's own fields (for example
    vLLM's `top_k`), as (name, JSON value), from a closed list; a destination must allow each by name.
    `include_usage` is the client's `stream_options.include_usage`. `thinking_budget_tokens` bounds the
    reasoning when `thinking` is `BUDGET`. `end_user` names the client's own user; it is never sent as it is.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: JsonText | None = None
    parallel_tool_calls: bool | None = None
    response_format: JsonText | None = None
    sampling: Sampling = Sampling()
    stream: bool = False
    include_usage: bool = False
    prompt: PromptReference | None = None
    reasoning_effort: str | None = None
    extensions: tuple[tuple[str, JsonText], ...] = ()
    surface: Surface = Surface.CHAT
    thinking: Thinking | None = None
    thinking_budget_tokens: int | None = None
    thinking_display: ThinkingDisplay | None = None
    cache_lifetime: CacheLifetime | None = None
    end_user: str | None = None
    embedding: EmbeddingOptions | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """One document of the registry that this request used: name, version and sha256 (hex)."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as one request offers it: where it comes from, and what judges the arguments of its calls.

    `source` is name@version of its tool set, or `client`. `schema_sha256` (hex) is that of the parameters
    as they are sent.
    """

    name: str
    source: str
    schema_sha256: str
    fault: CheckArguments = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request with its prompt rendered into `chat.messages` and its tools into `chat.tools`.

    What is classified, decided on and sent is exactly this value. `floor_level` is the highest label
    floor of the pins and of the tools whose results came in, as a word of `Level` (None: no floor).
    `offered` are the tools of `chat.tools`, in their order; no other may be called. `notices` are header
    fields that tell the client which version it got and when that ends.
    """

    chat: ChatRequest
    pins: tuple[Pin, ...] = ()
    floor_level: str | None = None
    offered: tuple[OfferedTool, ...] = ()
    notices: tuple[tuple[bytes, bytes], ...] = ()
