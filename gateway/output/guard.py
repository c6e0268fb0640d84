"""Guards: rules that watch a whole text, for what no detector calls a finding.

A guard makes one watch for each text of an answer (a channel of a choice, the arguments of a tool call). A
watch is fed as the text comes, and says in pieces what becomes of it. `Hold` is the watch for findings.

Invariants of every watch
1. What is released, and what is recorded, is a function of the text alone, not of how it was cut.
2. Prose is never held back; anything else only up to a stated bound.
3. The sizes of all pieces, and of all texts that `passes` took, add up to what was fed, after `flush`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.output.pieces import Piece


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer answers: the tenant that asks, and the system and developer texts of its request."""

    tenant: str = ""
    instructions: tuple[str, ...] = ()


class Watch(Protocol):
    """Watcher of one text."""

    @property
    def held_count(self) -> int:
        """Characters that are held back now."""
        ...

    def passes(self, text: str) -> bool:
        """Take `text` as released and say so, or say no and take nothing. The fast path of prose."""
        ...

    def feed(self, text: str) -> list[Piece]:
        """Pieces that are decided now. Raises `OutputBlocked`."""
        ...

    def flush(self) -> list[Piece]:
        """Decide what is still held, at the end of the text. Raises `OutputBlocked`."""
        ...


class Guard(Protocol):
    """Plug point: a rule of a profile that watches texts. Pure."""

    @property
    def name(self) -> str:
        """name@version, as it stands in the record."""
        ...

    @property
    def is_first(self) -> bool:
        """True when it reads what the model wrote, False when it reads what is left after masking."""
        ...

    def prepare(self, asked: Asked) -> WatchMaker | None:
        """What makes the watches of one answer, or None when there is nothing to watch for."""
        ...


class WatchMaker(Protocol):
    """Makes the watch of one text; `is_json` for the arguments of a tool call."""

    def __call__(self, is_json: bool) -> Watch:
        """A new watch."""
        ...
