"""Marks of assistant turns: keyed digests that are equal when the same words come back. Pure.

Invariants
1. A mark does not depend on white space, on how an answer was cut into events, nor, for a tool call, on the
   order of members, escapes and spacing of its arguments: clients trim texts and write JSON anew.
2. Marks of two tenants never meet. A text of fewer than `SHORT_CHARS` characters ("Yes.") is marked for its
   subject alone, or every short answer of a tenant would soon carry the highest label.
3. Empty texts have no mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from gateway.domain.chat import ChatRequest, Role, TextPart
from gateway.domain.stream import Channel, StreamEvent, TextDelta, ToolCallStart

SHORT_CHARS = 24
_DIGEST_BYTES = 20
_ENCODER = msgspec.json.Encoder(order="sorted")


class Marker:
    """Makes the marks of one tenant and subject. `key` has 16 to 64 bytes."""

    __slots__ = ("_short", "_wide")

    def __init__(self, key: bytes, tenant: str, subject_ref: str) -> None:
        wide = b"%d:%s" % (len(tenant.encode()), tenant.encode())
        self._wide = hashlib.blake2b(wide, digest_size=_DIGEST_BYTES, key=key, person=b"lineage-text")
        self._short = hashlib.blake2b(
            wide + subject_ref.encode(), digest_size=_DIGEST_BYTES, key=key, person=b"lineage-short"
        )

    def text(self, text: str) -> str | None:
        """Mark of a turn's words, in hex; None when there are none."""
        return self._mark("".join(text.split()))

    def call(self, name: str, arguments: str) -> str | None:
        """Mark of a tool call. Arguments that are no JSON are taken as words."""
        try:
            canonical = _ENCODER.encode(msgspec.json.decode(arguments)).decode()
        except (ValueError, RecursionError):
            canonical = "".join(arguments.split())
        return self._mark(f"{name}({canonical})")

    def _mark(self, words: str) -> str | None:
        if not words:
            return None
        digest = (self._short if len(words) < SHORT_CHARS else self._wide).copy()
        digest.update(words.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def turns_of(chat: ChatRequest, marker: Marker) -> tuple[str, ...]:
    """Marks of everything that this request says the assistant said."""
    marks: list[str | None] = []
    for message in chat.messages:
        if message.role is not Role.ASSISTANT:
            continue
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        # An answer comes back whole, or as the parts that a client made of it.
        marks += [marker.text(text) for text in texts]
        if len(texts) > 1:
            marks.append(marker.text("".join(texts)))
        marks += [marker.text(text) for text in (message.reasoning, message.refusal) if text]
        marks += [marker.call(call.name, call.arguments) for call in message.tool_calls]
    return _distinct(marks)


class Answer:
    """The words of an answer while they are released. Fed with filtered events only."""

    __slots__ = ("_calls", "_texts")

    def __init__(self) -> None:
        self._texts: dict[tuple[int, Channel, int], list[str]] = {}
        self._calls: dict[tuple[int, int], str] = {}

    def feed(self, event: StreamEvent) -> None:
        """Take a released event."""
        if type(event) is TextDelta:
            self._texts.setdefault((event.choice, event.channel, event.tool), []).append(event.text)
        elif type(event) is ToolCallStart:
            self._calls[event.choice, event.tool] = event.name

    def marks(self, marker: Marker) -> tuple[str, ...]:
        """Marks of every text and tool call so far, that of a cut answer too."""
        marks: list[str | None] = []
        for (choice, channel, tool), pieces in self._texts.items():
            if channel is not Channel.TOOL_ARGUMENTS:
                marks.append(marker.text("".join(pieces)))
            elif (choice, tool) in self._calls:
                marks.append(marker.call(self._calls[choice, tool], "".join(pieces)))
        for (choice, tool), name in self._calls.items():
            if (choice, Channel.TOOL_ARGUMENTS, tool) not in self._texts:
                marks.append(marker.call(name, ""))
        return _distinct(marks)


def _distinct(marks: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(mark for mark in marks if mark is not None))
