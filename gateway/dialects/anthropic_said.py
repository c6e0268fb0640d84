"""What a provider of Anthropic's kind may say, as types. Fields that are not here are dropped.

Source: Anthropic's API reference for messages and their streaming events (version 2023-06-01).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from gateway.dialects.openai_answer import failure


class _Said(Struct, gc=False):
    """Root of all answer structs: unknown fields are skipped."""


class DetailsSaid(_Said):
    """Part of the output that was reasoning."""

    thinking_tokens: int | None = None


class UsageSaid(_Said):
    """Tokens as the provider counts them. `input_tokens` are those that no cache held."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: DetailsSaid | None = None

    def counts(self) -> Iterator[tuple[str, int]]:
        """(name, count) of what was told."""
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ):
            value = getattr(self, name)
            if value is not None:
                yield name, value
        details = self.output_tokens_details
        if details is not None and details.thinking_tokens is not None:
            yield "thinking_tokens", details.thinking_tokens


class BlockSaid(_Said):
    """A content block, or the beginning of one."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET


class DeltaSaid(_Said):
    """A piece of a content block, or (without a type) the end of the message."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class MessageSaid(_Said):
    """A message. `type` is `message`, or `error` when it is none."""

    type: str
    id: str | None = None
    model: str = ""
    role: str = ""
    content: list[BlockSaid] = []
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: UsageSaid | None = None


class EventSaid(_Said):
    """One event of a stream."""

    type: str
    index: int | None = None
    message: MessageSaid | None = None
    content_block: BlockSaid | None = None
    delta: DeltaSaid | None = None
    usage: UsageSaid | None = None


_EVENT = msgspec.json.Decoder(EventSaid)
_MESSAGE = msgspec.json.Decoder(MessageSaid)
_BROKEN = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def stream_event(data: bytes) -> EventSaid:
    """The event in the data of one SSE event. Raises `UpstreamFailed`."""
    try:
        return _EVENT.decode(data)
    except _BROKEN:
        raise failure("upstream-malformed", "json") from None


def plain_message(body: bytes | bytearray) -> MessageSaid:
    """The message in a plain body. Raises `UpstreamFailed`."""
    try:
        said = _MESSAGE.decode(body)
    except _BROKEN as error:
        is_cut = str(error) == "Input data was truncated"
        raise failure("upstream-truncated" if is_cut else "upstream-malformed", "json") from None
    if said.type == "error":
        raise failure("upstream-error-in-stream", "error-object")
    if said.type != "message":
        raise failure("upstream-malformed", "type")
    return said
