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
        words = self.words()
        words.feed(text)
        return words.mark()

    def words(self) -> Words:
        """Takes a text in pieces, for its mark."""
        return Words(self._wide.copy(), self._short.copy())

    def call(self, name: str, arguments: str) -> str | None:
        """Mark of a tool call. Arguments that are no JSON are taken as words."""
        try:
            canonical = _ENCODER.encode(msgspec.json.decode(arguments)).decode()
        except (ValueError, RecursionError):
            canonical = "".join(arguments.split())
        words = self.words()
        words.feed(f"{name}({canonical})", is_whole=True)
        return words.mark()


class Words:
    """A text that comes in pieces, of which only digests are kept: an answer may be long."""

    __slots__ = ("_count", "_short", "_wide")

    def __init__(self, wide: hashlib.blake2b, short: hashlib.blake2b) -> None:
        self._wide = wide
        self._short = short
        self._count = 0

    def feed(self, text: str, *, is_whole: bool = False) -> None:
        """Take a piece; of a `is_whole` one the white space counts too."""
        words = text if is_whole else "".join(text.split())
        data = words.encode("utf-8", "surrogatepass")
        self._wide.update(data)
        if self._count < SHORT_CHARS:
            self._short.update(data)
        self._count += len(words)

    def mark(self) -> str | None:
        """The mark of what came so far, in hex; None when there were no words."""
        if not self._count:
            return None
        return (self._short if self._count < SHORT_CHARS else self._wide).hexdigest()


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
    """The words of an answer while they are released. Fed with filtered events only.

    Prose is kept as digests. The arguments of a tool call are kept until the end, since their members are put
    in order; they are held whole for their judgement anyway.
    """

    __slots__ = ("_arguments", "_calls", "_marker", "_prose")

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self._prose: dict[tuple[int, Channel], Words] = {}
        self._calls: dict[tuple[int, int], str] = {}
        self._arguments: dict[tuple[int, int], list[str]] = {}

    def feed(self, event: StreamEvent) -> None:
        """Take a released event."""
        if type(event) is ToolCallStart:
            self._calls[event.choice, event.tool] = event.name
        elif type(event) is not TextDelta:
            return
        elif event.channel is Channel.TOOL_ARGUMENTS:
            self._arguments.setdefault((event.choice, event.tool), []).append(event.text)
        else:
            key = (event.choice, event.channel)
            words = self._prose.get(key)
            if words is None:
                words = self._prose[key] = self._marker.words()
            words.feed(event.text)

    def marks(self) -> tuple[str, ...]:
        """Marks of every text and tool call so far, that of a cut answer too."""
        marks = [words.mark() for words in self._prose.values()]
        for key, name in self._calls.items():
            marks.append(self._marker.call(name, "".join(self._arguments.get(key, ()))))
        return _distinct(marks)


def _distinct(marks: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(mark for mark in marks if mark is not None))
