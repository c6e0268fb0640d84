"""Groups of digits, and what a row of groups may be.

A candidate is a run of digits with little between them. Identifiers are windows of whole groups: a group
is never cut, so that a part of a longer number is not taken for a card (a UUID, a decimal fraction, a
millisecond timestamp can pass Luhn).

Invariants
1. Work on a run is linear in its groups: a window is found by its number of digits, not searched for.
2. Inside a run there are no words, so the words around it are looked up once for all its windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from gateway.sensitivity.rule import Words
from gateway.sensitivity.views import CONTEXT_AFTER, CONTEXT_BEFORE, View

#: Nine digits and more, with up to three separators between any two.
DIGIT_RUN = rb"[0-9](?:[ \t\r\n._/-]{0,3}[0-9]){8,}"

#: A fraction of nothing: a whole number that something wrote as a float.
_ZEROS = re.compile(rb"\.0{1,17}(?![0-9])")
_GROUP = re.compile(rb"[0-9]+")
_UUID = re.compile(rb"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}")


@dataclass(slots=True)
class Run:
    """Digit groups of one candidate.

    `spans` are places in the view, `sizes` digits per group, `digits` all digits, `counts[i]` the digits
    before group i, `ending` the group that ends after so many digits, `starts` the groups where a window
    may begin: of single digits in a row only the first.
    """

    view: View
    spans: list[tuple[int, int]]
    sizes: list[int]
    digits: str
    counts: list[int]
    ending: dict[int, int]
    starts: list[int]
    _context: dict[Words, tuple[bool, bool]] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """First offset in the view."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Offset behind the last digit."""
        return self.spans[-1][1]

    def context(self, words: Words) -> tuple[bool, bool]:
        """Whether one of the words stands shortly before the run, and shortly behind it."""
        known = self._context.get(words)
        if known is None:
            text = self.view.text
            before = text[max(0, self.start - CONTEXT_BEFORE) : self.start]
            after = text[self.end : self.end + CONTEXT_AFTER]
            known = (words.occur(before), words.occur(after))
            self._context[words] = known
        return known


@dataclass(slots=True)
class Window:
    """Groups `first` … `last` (both in) of a run."""

    run: Run
    first: int
    last: int
    digits: str

    @property
    def start(self) -> int:
        """First offset in the view."""
        return self.run.spans[self.first][0]

    @property
    def end(self) -> int:
        """Offset behind the last digit."""
        return self.run.spans[self.last][1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Digits per group."""
        return tuple(self.run.sizes[self.first : self.last + 1])

    @property
    def separators(self) -> frozenset[str]:
        """What stands between the groups."""
        spans, text = self.run.spans, self.run.view.text
        return frozenset(text[spans[i][1] : spans[i + 1][0]] for i in range(self.first, self.last))

    def has_context(self, words: Words) -> bool:
        """Whether one of the words stands near the window."""
        before, after = self.run.context(words)
        return (before and self.start - self.run.start <= CONTEXT_BEFORE) or (
            after and self.run.end - self.end <= CONTEXT_AFTER
        )

    def gap_before(self) -> str:
        """Separator between this window and the group before it; empty at the run's beginning."""
        if self.first == 0:
            return ""
        return self.run.view.text[self.run.spans[self.first - 1][1] : self.start]

    def gap_after(self) -> str:
        """Separator between this window and the group behind it; empty at the run's end."""
        if self.last + 1 == len(self.run.spans):
            return ""
        return self.run.view.text[self.end : self.run.spans[self.last + 1][0]]


def groups(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Places of the groups of digits in `start:end`."""
    return [match.span() for match in _GROUP.finditer(data, start, end)]


def read_run(view: View, start: int, end: int) -> Run:
    """Groups of the candidate `start:end`. Kept with the view, because several rules ask for the same."""
    known = view.memo.get(start)
    if isinstance(known, Run):
        return known
    spans = groups(view.data, start, end)
    sizes = [last - first for first, last in spans]
    counts = [0, *accumulate(sizes)]
    ending = {count: group for group, count in enumerate(counts[1:])}
    starts = [
        group
        for group, (size, before) in enumerate(zip(sizes, [0, *sizes], strict=False))
        if size > 1 or before != 1
    ]
    digits = "".join([view.text[first:last] for first, last in spans])
    run = Run(view, spans, sizes, digits, counts, ending, starts)
    view.memo.clear()
    view.memo[start] = run
    return run


def windows(run: Run, least: int, most: int) -> Iterator[Window]:
    """Every row of whole groups that holds `least` to `most` digits, by beginning, short before long."""
    digits, ending = run.digits, run.ending
    lengths = range(least, most + 1)
    for first in run.starts:
        count = run.counts[first]
        for length in lengths:
            last = ending.get(count + length)
            if last is not None:
                yield Window(run, first, last, digits[count : count + length])


def is_fraction(window: Window) -> bool:
    """Whether the window is one side of a decimal number: `0.4111…` or `4111….25`, but not `4111….0`."""
    if window.first != window.last:
        return False
    data = window.run.view.data
    before = data[max(0, window.start - 2) : window.start]
    after = data[window.end : window.end + 2]
    if before[-1:] == b"." and before[:1].isdigit():
        return True
    return after[:1] == b"." and after[1:].isdigit() and _ZEROS.match(data, window.end) is None


def in_uuid(window: Window) -> bool:
    """Whether the window lies in a UUID."""
    data = window.run.view.data
    near = _UUID.finditer(data, max(0, window.start - 36), min(len(data), window.end + 36))
    return any(match.start() < window.end and match.end() > window.start for match in near)


def touches_letters(window: Window) -> bool:
    """Whether a letter stands directly before or behind: part of a hash, a key or a product code."""
    data, start, end = window.run.view.data, window.start, window.end
    return data[max(0, start - 1) : start].isalpha() or data[end : end + 1].isalpha()


def stands_alone(window: Window) -> bool:
    """Whether no further group hangs on the window by the separator that the window itself uses."""
    inner = window.separators or {"-", ".", "/", "_"}
    return window.gap_before() not in inner and window.gap_after() not in inner


def is_whole_row(window: Window) -> bool:
    """Whether the groups next to the window have another size than its first group.

    `4 5 4 7 …` spoken digit by digit is one row; a window inside a longer row of single digits is not.
    """
    sizes, size = window.run.sizes, window.run.sizes[window.first]
    before_fits = window.first > 0 and sizes[window.first - 1] == size
    after_fits = window.last + 1 < len(sizes) and sizes[window.last + 1] == size
    return not before_fits and not after_fits
