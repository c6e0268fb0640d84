"""An answer as a row of events, the same for plain and streamed answers and for every provider.

Order law (decoders guarantee it, `gateway.dialects` tests it)
1. At most one `AnswerStart`, first.
2. Per choice: any number of deltas, then exactly one `Finish`; no delta after it.
3. At most one `UsageReport`, after which only `AnswerEnd` may come.
4. `AnswerEnd` only when the upstream itself ended cleanly. A cut answer has no `AnswerEnd`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway.domain.chat import JsonText
from gateway.domain.limits import Usage


class Channel(StrEnum):
    """Where in a choice the text belongs. Each is filtered as a text of its own."""

    CONTENT = "content"
    REASONING = "reasoning"
    REFUSAL = "refusal"
    TOOL_ARGUMENTS = "tool-arguments"


@dataclass(frozen=True, slots=True)
class AnswerStart:
    """Facts of the answer as a whole. `id` is the upstream's, and empty once filtered; `created_seconds` is
    Unix time."""

    id: str
    model: str
    created_seconds: int
    system_fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class RoleDelta:
    """The speaker of a choice, told once at its beginning."""

    choice: int
    role: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some text of one channel. `tool` is the index of the tool call for `TOOL_ARGUMENTS`, else -1.

    `logprobs` is the provider's logprobs object for exactly this text (JSON), content channel only.
    """

    choice: int
    channel: Channel
    text: str
    tool: int = -1
    logprobs: JsonText | None = None


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A new tool call of a choice: its index, id and function name. Arguments follow as `TextDelta`."""

    choice: int
    tool: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End of one choice. `reason` is stop, length, tool_calls, content_filter or function_call.

    `stop_reason` is vLLM's own field beside it, as JSON.
    """

    choice: int
    reason: str
    stop_reason: JsonText | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens, as the provider counts them."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """The upstream ended cleanly."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The embedding of one input: a JSON list of finite numbers, written by the gateway."""

    index: int
    values: JsonText


StreamEvent = AnswerStart | RoleDelta | TextDelta | ToolCallStart | Finish | UsageReport | AnswerEnd | Vector


@dataclass(frozen=True, slots=True)
class FilterAction:
    """One thing that the output filter did: rule name@version, action, kind, how often."""

    rule: str
    action: str
    kind: str
    count: int


class OutputFilter(Protocol):
    """The output filter of one exchange. Raises `OutputBlocked` (`gateway.errors`)."""

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        """Events that may be released now."""
        ...

    def flush(self) -> tuple[StreamEvent, ...]:
        """What was still held back, filtered, when the answer ends."""
        ...

    @property
    def actions(self) -> tuple[FilterAction, ...]:
        """What was done so far."""
        ...
