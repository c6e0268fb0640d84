"""Texts that must not come out again: the request's own instructions, and canaries of other tenants.

Texts are compared as they fold: letters and digits alone, without case, accents, compatible forms, blanks and
hidden characters. So "T-I-D-E" is "tide", and a text spelled character by character is the text. Of each text
the forms in rot13, base64 (at each of its three phases), hexadecimal and reversed are watched for too.

Invariants
1. Folding goes character by character: the fold of two texts is the folds of both, one behind the other.
2. Nothing is held back. What comes before the character that completes a leak may have been released; a
   canary never leaves whole.
3. A watch's cost does not depend on how many texts it watches for.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Protocol

from gateway.output.guard import Asked, Watch, WatchMaker
from gateway.output.judge import Mask
from gateway.output.pieces import Piece, verbatim
from gateway.output.rules import Action

#: Folded characters by which the end of a canary is found, so the fewest that a canary may have.
CANARY_CHARS_MIN = 12
#: Most characters of a canary.
CANARY_CHARS_MAX = 128
#: Folded characters of the instructions that are compared at a time.
WINDOW = 32
#: Characters of instructions that are also watched for in other forms; making those takes time.
_ENCODED_CHARS = 16_384
_KEPT = 320
_BLOCK = 2048
_ROT13 = str.maketrans(ascii_lowercase, ascii_lowercase[13:] + ascii_lowercase[:13])
_DROPPED = re.compile(r"[\W_]+")


def fold(text: str) -> str:
    """Letters and digits of `text` as they compare."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
    return _DROPPED.sub("", text).casefold()


def forms(text: str) -> Iterator[str]:
    """`text` folded, as it is and in the encodings that a model can be talked into."""
    plain = fold(text)
    yield plain
    yield plain.translate(_ROT13)
    yield plain[::-1]
    octets = text.encode("utf-8", "replace")
    yield octets.hex()
    for phase in range(3):
        # Only what no neighbour changes: whole sextets of these bytes.
        written = base64.b64encode(b"\0" * phase + octets).decode("ascii").rstrip("=")
        first = -(-8 * phase // 6)
        last = 8 * (phase + len(octets)) // 6
        yield fold(written[first:last])


class _Trap(Protocol):
    """What a watch looks for in folded text."""

    def touches(self, view: str, base: int) -> bool:
        """Whether something may be complete in `view` behind `base`; never a false no."""
        ...

    def springs(self, tail: str, seen: set[str]) -> bool:
        """Whether the last character of `tail` completes a leak. `seen` is the watch's own."""
        ...


#: Forms of canaries with the tenant that may see each, by their last characters.
_Index = dict[str, list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class _Ends:
    """Canaries that `tenant` may not see. The index is the same for all tenants."""

    index: _Index
    tenant: str
    width: int = CANARY_CHARS_MIN

    def touches(self, view: str, base: int) -> bool:
        return _is_among(self.index.keys(), self.width, view, base)

    def springs(self, tail: str, seen: set[str]) -> bool:
        return any(
            tail.endswith(form)
            for form, owner in self.index.get(tail[-self.width :], ())
            if not owner or owner != self.tenant
        )


@dataclass(frozen=True, slots=True)
class _Windows:
    """Instructions, cut into windows; `needed` different ones are a leak."""

    windows: frozenset[str]
    needed: int
    width: int = WINDOW

    def touches(self, view: str, base: int) -> bool:
        return _is_among(self.windows, self.width, view, base)

    def springs(self, tail: str, seen: set[str]) -> bool:
        if (window := tail[-self.width :]) in self.windows:
            seen.add(window)
        return len(seen) >= self.needed


def _is_among(known: AbstractSet[str], width: int, view: str, base: int) -> bool:
    """Whether one of these stands in `view` and ends behind `base`."""
    first = max(base + 1 - width, 0)
    return not known.isdisjoint([view[at : at + width] for at in range(first, len(view) - width + 1)])


class LeakWatch:
    """Watch of one text. Tells a leak once."""

    __slots__ = ("_is_over", "_is_told", "_mask", "_seen", "_tail", "_trap")

    held_count = 0

    def __init__(self, trap: _Trap, mask: Mask) -> None:
        self._trap = trap
        self._mask = mask
        self._tail = ""  # the last folded characters
        self._seen: set[str] = set()
        self._is_told = False
        self._is_over = False

    def passes(self, text: str) -> bool:
        """Take `text` when nothing in it can complete a leak."""
        if self._is_told:
            return not self._is_over
        view = self._tail + fold(text)
        if self._trap.touches(view, len(self._tail)):
            return False
        self._tail = view[-_KEPT:]
        return True

    def feed(self, text: str) -> list[Piece]:
        """Pieces of `text`, all decided."""
        pieces: list[Piece] = []
        for begin in range(0, len(text), _BLOCK):
            block = text[begin : begin + _BLOCK]
            if self._is_over:
                pieces.append(Piece(len(block), ""))
            elif self.passes(block):
                pieces.append(verbatim(block))
            else:
                self._slowly(block, pieces)
        return pieces

    def flush(self) -> list[Piece]:
        """Nothing: nothing is held."""
        return []

    def _slowly(self, block: str, pieces: list[Piece]) -> None:
        """Character by character, to the one that completes the leak."""
        for at, character in enumerate(block):
            if not self._completes(character):
                continue
            self._is_told = True
            if self._mask.action is Action.FLAG:
                pieces.append(Piece(len(block), block, is_verbatim=True, mask=self._mask))
                return
            self._is_over = True
            if at:
                pieces.append(verbatim(block[:at]))
            is_stop = self._mask.action is Action.STOP
            pieces.append(Piece(len(block) - at, "", mask=self._mask, stops=is_stop))
            return
        pieces.append(verbatim(block))

    def _completes(self, character: str) -> bool:
        for each in fold(character):
            self._tail = (self._tail + each)[-_KEPT:]
            if self._trap.springs(self._tail, self._seen):
                return True
        return False


@dataclass(frozen=True, slots=True)
class _LeakMaker:
    trap: _Trap
    mask: Mask

    def __call__(self, is_json: bool) -> Watch:
        return LeakWatch(self.trap, self.mask)


@dataclass(frozen=True, slots=True)
class PromptRule:
    """Acts when an answer repeats the system and developer texts of its own request.

    `characters` of them (folded, counted in windows of 32, wherever they stand in the answer) are a leak.
    """

    name: str
    characters: int = 128
    action: Action = Action.STOP

    @property
    def is_first(self) -> bool:
        """True: masks would break what is compared."""
        return True

    def prepare(self, asked: Asked) -> WatchMaker | None:
        """The watches for this request's instructions; None when they are too short to tell."""
        if sum(map(len, asked.instructions)) < self.characters:
            return None
        needed = max(1, self.characters // WINDOW)
        windows = frozenset(_windows(asked.instructions))
        mask = Mask(0, 1, self.action, "instructions", self.name)
        return _LeakMaker(_Windows(windows, needed), mask)


def _windows(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        longer = (fold(text),) if len(text) > _ENCODED_CHARS else ()
        for form in (*longer, *forms(text[:_ENCODED_CHARS])):
            for begin in range(0, len(form) - WINDOW + 1, WINDOW):
                yield form[begin : begin + WINDOW]


@dataclass(frozen=True, slots=True)
class Canary:
    """A string that stands in one tenant's data to be recognised; empty tenant: nobody may see it."""

    text: str = field(repr=False)
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class CanaryRule:
    """Acts when a canary of another tenant than the one that asks comes out."""

    name: str
    canaries: tuple[Canary, ...]
    action: Action = Action.BLOCK
    _index: _Index = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for canary in self.canaries:
            for form in forms(canary.text):
                if len(form) >= CANARY_CHARS_MIN:
                    self._index.setdefault(form[-CANARY_CHARS_MIN:], []).append((form, canary.tenant))

    @property
    def is_first(self) -> bool:
        """True: masks would break what is compared."""
        return True

    def prepare(self, asked: Asked) -> WatchMaker:
        """The watches for the tenant that asks."""
        mask = Mask(0, 1, self.action, "canary", self.name)
        return _LeakMaker(_Ends(self._index, asked.tenant), mask)
