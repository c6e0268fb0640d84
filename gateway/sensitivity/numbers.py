"""Groups of digits, and what a row of groups may be.

A candidate is a run of digits with little between them. Identifiers are windows of whole groups: a group
is never cut, so that a part of a longer number is not taken for a card (a UUID, a decimal fraction, a
millisecond timestamp can pass Luhn).

Invariants
1. Work on a run is linear in its groups times the longest identifier: windows hold at most 19 digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.sensitivity.views import View

#: Nine digits and more, with up to three separators between any two.
DIGIT_RUN = rb"[0-9](?:[ \t\r\n._/-]{0,3}[0-9]){8,}"

_GROUP = re.compile(rb"[0-9]+")
_UUID = re.compile(rb"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}")


@dataclass(frozen=True, slots=True)
class Run:
    """Digit groups of one candidate: spans in the view, and the digits of each."""

    view: View
    spans: tuple[tuple[int, int], ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
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
        return tuple(len(group) for group in self.run.groups[self.first : self.last + 1])

    @property
    def separators(self) -> frozenset[str]:
        """What stands between the groups."""
        spans, text = self.run.spans, self.run.view.text
        return frozenset(text[spans[i][1] : spans[i + 1][0]] for i in range(self.first, self.last))

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


def read_run(view: View, start: int, end: int) -> Run:
    """Groups of the candidate `start:end`."""
    spans = tuple(match.span() for match in _GROUP.finditer(view.data, start, end))
    return Run(view, spans, tuple(view.text[first:last] for first, last in spans))


def windows(run: Run, least: int, most: int) -> Iterator[Window]:
    """Every row of whole groups that holds `least` to `most` digits, by beginning, short before long."""
    groups = run.groups
    for first in range(len(groups)):
        total = 0
        for last in range(first, min(first + most, len(groups))):
            total += len(groups[last])
            if total > most:
                break
            if total >= least:
                yield Window(run, first, last, "".join(groups[first : last + 1]))


def is_fraction(window: Window) -> bool:
    """Whether the window is one side of a decimal number: `0.4111…` or `4111….25`."""
    if window.first != window.last:
        return False
    data = window.run.view.data
    before = data[max(0, window.start - 2) : window.start]
    after = data[window.end : window.end + 2]
    return (before[-1:] == b"." and before[:1].isdigit()) or (after[:1] == b"." and after[1:].isdigit())


def in_uuid(window: Window) -> bool:
    """Whether the window lies in a UUID."""
    data = window.run.view.data
    near = _UUID.finditer(data, max(0, window.start - 36), min(len(data), window.end + 36))
    return any(match.start() < window.end and match.end() > window.start for match in near)


def touches_letters(window: Window) -> bool:
    """Whether a letter stands directly before or behind: part of a hash, a key or a product code."""
    data = window.run.view.data
    return (
        data[max(0, window.start - 1) : window.start].isalpha() or data[window.end : window.end + 1].isalpha()
    )


def stands_alone(window: Window) -> bool:
    """Whether no further group hangs on the window by the separator that the window itself uses."""
    inner = window.separators or {"-", ".", "/", "_"}
    return window.gap_before() not in inner and window.gap_after() not in inner


def is_whole_row(window: Window) -> bool:
    """Whether the groups next to the window have another size than its first group.

    `4 5 4 7 …` spoken digit by digit is one row; a window inside a longer row of single digits is not.
    """
    groups, size = window.run.groups, len(window.run.groups[window.first])
    before_fits = window.first > 0 and len(groups[window.first - 1]) == size
    after_fits = window.last + 1 < len(groups) and len(groups[window.last + 1]) == size
    return not before_fits and not after_fits
