"""Texts laid end to end, so that what was cut over parts, messages or turns is found whole.

Invariants
1. A strand is the texts of a conversation in order, or those of one speaker alone.
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

from gateway.domain.finding import Finding

#: Characters of each end of a long text that take part.
END = 512
BLOCK = 4096
OVERLAP = 1024
#: Stands for the middle of a long text. No pattern reaches over so many blanks.
_GAP = "\n" * 8


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


def _join(texts: Sequence[tuple[str, str]], apart: bool = False) -> Strand:
    """Strand of (path, text) rows. `apart` puts a line break where a digit meets a letter."""
    pieces: list[str] = []
    stretches: list[_Stretch] = []
    at = 0
    for path, text in texts:
        body = text.strip()
        if not body:
            continue
        if apart and pieces and _is_mixed(pieces[-1], body):
            pieces.append("\n")
            at += 1
        offset = len(text) - len(text.lstrip())
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


def _in_pairs(texts: Sequence[tuple[str, str]]) -> Strand:
    """Each text joined to the next one only, pair by pair."""
    pieces: list[str] = []
    stretches: list[_Stretch] = []
    at = 0
    for pair in pairwise(texts):
        strand = _join(pair, apart=True)
        pieces += (strand.text, _GAP)
        stretches += [replace(stretch, at=stretch.at + at) for stretch in strand.stretches]
        at += len(strand.text) + len(_GAP)
    return Strand("".join(pieces), tuple(stretches))


def _readings(texts: Sequence[tuple[str, str]]) -> Iterator[Strand]:
    """All as one; apart, where a digit meets a letter; in pairs, where digits meet digits."""
    yield _join(texts)
    filled = [(path, body) for path, text in texts if (body := text.strip())]
    seams = [(before[-1], after[0]) for (_, before), (_, after) in pairwise(filled)]
    if any(_is_mixed(*seam) for seam in seams):
        yield _join(texts, apart=True)
    if len(seams) > 1 and any(left.isdigit() and right.isdigit() for left, right in seams):
        yield _in_pairs([row for row in texts if row[1].strip()])


def strands_of(texts: Sequence[tuple[str, str, str]]) -> Iterator[Strand]:
    """Strands of (path, speaker, text) rows: all in order, then each speaker's where others come between.

    Nothing for fewer than two texts: the part itself was scanned.
    """
    if len(texts) < 2:
        return
    yield from _readings([(path, text) for path, _, text in texts])
    speakers = [speaker for _, speaker, _ in texts]
    for speaker in dict.fromkeys(speakers):
        places = [place for place, name in enumerate(speakers) if name == speaker]
        if places[-1] - places[0] + 1 > len(places):
            yield from _readings([(texts[place][0], texts[place][2]) for place in places])


def blocks_of(strand: Strand) -> Iterator[Block]:
    """Windows over the strand's text."""
    step = BLOCK - OVERLAP
    for at in range(0, max(1, len(strand.text) - OVERLAP), step):
        yield Block(strand.text[at : at + BLOCK], at, strand)
