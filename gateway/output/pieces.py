"""What becomes of decided text: pieces that say how many characters went in and what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.output.judge import Mask
from gateway.output.rules import Action


@dataclass(frozen=True, slots=True)
class Piece:
    """What became of the next `size` characters: `text` is released for them.

    `is_verbatim`: they are the same characters. `mask`: why they are not. `stops`: the choice ends before
    them.
    """

    size: int
    text: str
    is_verbatim: bool = False
    mask: Mask | None = None
    stops: bool = False


def verbatim(text: str) -> Piece:
    """`text` as it is."""
    return Piece(len(text), text, is_verbatim=True)


def render(segment: str, masks: list[Mask], pieces: list[Piece]) -> bool:
    """Add `segment` with its masks to `pieces`; False when a mask stops the choice there."""
    done = 0
    for mask in masks:
        if mask.start > done:
            pieces.append(verbatim(segment[done : mask.start]))
        if mask.action is Action.STOP:
            pieces.append(Piece(len(segment) - mask.start, "", mask=mask, stops=True))
            return False
        pieces.append(Piece(mask.end - mask.start, mask.placeholder, mask=mask))
        done = mask.end
    if done < len(segment):
        pieces.append(verbatim(segment[done:]))
    return True


def render_number(segment: str, masks: list[Mask], pieces: list[Piece]) -> bool:
    """The same for a segment of JSON outside strings: a string takes the place of the whole number."""
    mask = max(masks, key=lambda item: item.action)
    number = segment.rstrip(" \t\r\n")
    if mask.action is Action.STOP:
        pieces.append(Piece(len(segment), "", mask=mask, stops=True))
        return False
    pieces.append(Piece(len(number), f'"{mask.placeholder}"', mask=mask))
    if len(number) < len(segment):
        pieces.append(verbatim(segment[len(number) :]))
    return True
