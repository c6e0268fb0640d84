"""Texts laid end to end, so that what was cut over parts, messages or turns is found whole.

Invariants
1. A strand is the texts of a conversation in order, those of one speaker alone, those of all but the
   assistant, or texts of one other kind (names, identifiers, tools).
2. Texts are joined without the blanks they begin and end with; where that could hide the ends of a number
   there are further readings. Of a long text only both ends take part: its middle was scanned with the
   part itself and touches no seam.
3. Blocks are cut at fixed places from the beginning, so that a longer conversation repeats earlier blocks
   exactly, and a cache knows them. Neighbouring blocks overlap by `OVERLAP`, longer than any identifier.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from gateway.domain.finding import Finding

#: Characters of each end of a long text that take part.
END = 512
BLOCK = 4096
OVERLAP = 1024
#: The speaker whose answers stand between what others say.
ASSISTANT = "assistant"
#: Stands for the middle of a long text. No pattern reaches over so many blanks.
_GAP = "\n" * 8


class Row(NamedTuple):
    """A text to be joined: it is `path`'s text from `offset` on."""

    path: str
    text: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A stretch of the strand: it begins at `at` and is `path`'s text from `offset` on."""

    at: int
    path: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Strand:
    """Joined text and where each stretch of it came from."""

    text: str
    stretches: tuple[_Stretch, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A window of a strand, beginning at `at`."""

    text: str
    at: int
    strand: Strand

    def place(self, finding: Finding) -> tuple[str, Finding]:
        """Path of the part where the finding begins, and the finding with that part's offsets.

        A finding that goes on in the next part ends with the stretch of the first.
        """
        stretches = self.strand.stretches
        start = finding.start + self.at
        index = max(0, bisect_right([stretch.at for stretch in stretches], start) - 1)
        stretch = stretches[index]
        first = min(start - stretch.at, stretch.length)
        last = max(first, min(finding.end + self.at - stretch.at, stretch.length))
        placed = replace(finding, start=stretch.offset + first, end=stretch.offset + last)
        return stretch.path, placed


def _is_mixed(before: str, after: str) -> bool:
    """Whether a digit meets a letter at this seam: there, joining hides where a number ends."""
    left, right = before[-1], after[0]
    return left.isalnum() and right.isalnum() and left.isdigit() != right.isdigit()


def _join(rows: Sequence[Row], apart: bool = False) -> Strand:
    """Strand of rows. `apart` puts a line break where a digit meets a letter."""
    pieces: list[str] = []
    stretches: list[_Stretch] = []
    at = 0
    for path, text, base in rows:
        body = text.strip()
        if not body:
            continue
        if apart and pieces and _is_mixed(pieces[-1], body):
            pieces.append("\n")
            at += 1
        offset = base + len(text) - len(text.lstrip())
        if len(body) <= 2 * END:
            ends = [(offset, body)]
        else:
            ends = [(offset, body[:END]), (offset + len(body) - END, body[-END:])]
        for number, (where, piece) in enumerate(ends):
            if number:
                pieces.append(_GAP)
                at += len(_GAP)
            pieces.append(piece)
            stretches.append(_Stretch(at, path, where, len(piece)))
            at += len(piece)
    return Strand("".join(pieces), tuple(stretches))


def _in_pairs(rows: Sequence[Row]) -> Strand:
    """Each text joined to the next one only, pair by pair."""
    pieces: list[str] = []
    stretches: list[_Stretch] = []
    at = 0
    for pair in pairwise(rows):
        strand = _join(pair, apart=True)
        pieces += (strand.text, _GAP)
        stretches += [replace(stretch, at=stretch.at + at) for stretch in strand.stretches]
        at += len(strand.text) + len(_GAP)
    return Strand("".join(pieces), tuple(stretches))


def readings(rows: Sequence[Row]) -> Iterator[Strand]:
    """All as one; apart, where a digit meets a letter; in pairs, where digits meet digits.

    Nothing for fewer than two texts: the part itself was scanned.
    """
    if len(rows) < 2:
        return
    yield _join(rows)
    bodies = [body for row in rows if (body := row.text.strip())]
    seams = [(before[-1], after[0]) for before, after in pairwise(bodies)]
    if any(_is_mixed(*seam) for seam in seams):
        yield _join(rows, apart=True)
    if len(seams) > 1 and any(left.isdigit() and right.isdigit() for left, right in seams):
        yield _in_pairs([row for row in rows if row.text.strip()])


def strands_of(texts: Sequence[tuple[str, str, str]]) -> Iterator[Strand]:
    """Strands of (path, speaker, text) rows: all in order, then where others come between all but the
    assistant's, so that a question is read together with the result of a tool, and each speaker's.
    """
    rows = [Row(path, text) for path, _, text in texts]
    yield from readings(rows)
    speakers = [speaker for _, speaker, _ in texts]
    names = dict.fromkeys(speakers)
    asked = [place for place, speaker in enumerate(speakers) if speaker != ASSISTANT]
    if len(names) > 2:
        yield from _where_others_come_between(rows, asked)
    for name in names:
        if len(names) > 2 and name != ASSISTANT:
            within = [place for place, at in enumerate(asked) if speakers[at] == name]
            if within[-1] - within[0] + 1 == len(within):
                continue  # they are neighbours there
        yield from _where_others_come_between(
            rows, [place for place, speaker in enumerate(speakers) if speaker == name]
        )


def _where_others_come_between(rows: Sequence[Row], places: Sequence[int]) -> Iterator[Strand]:
    if places and places[-1] - places[0] + 1 > len(places):
        yield from readings([rows[place] for place in places])


def blocks_of(strand: Strand) -> Iterator[Block]:
    """Windows over the strand's text."""
    step = BLOCK - OVERLAP
    for at in range(0, max(1, len(strand.text) - OVERLAP), step):
        yield Block(strand.text[at : at + BLOCK], at, strand)
