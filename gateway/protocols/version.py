"""Versions of documents and the ranges in which a client may ask for one.

Invariants
1. A version is three plain numbers; there are no pre-releases, so order is the order of the numbers.
2. A range is `^` or `~` and one to three numbers, nothing else: no `*`, no `>=`, no list.

Source: Semantic Versioning 2.0.0; ranges as npm and Cargo read `^` and `~`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})")
_RANGE = re.compile(rf"([\^~])({_NUMBER})(?:\.({_NUMBER}))?(?:\.({_NUMBER}))?")


class Version(NamedTuple):
    """A version; compares by its numbers."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Range(NamedTuple):
    """Versions from `lowest` (included) to `end` (not included)."""

    lowest: Version
    end: Version

    def best(self, versions: Iterable[Version]) -> Version | None:
        """The highest of `versions` inside, or None."""
        return max((one for one in versions if self.lowest <= one < self.end), default=None)


def is_version(text: str) -> bool:
    """True for three plain numbers joined by dots (semantic version without suffixes)."""
    return _VERSION.fullmatch(text) is not None


def parse_version(text: str) -> Version | None:
    """The version that `text` is, or None when it is none."""
    match = _VERSION.fullmatch(text)
    return None if match is None else Version(*map(int, match.groups()))


def parse_range(text: str) -> Range | None:
    """The range that `text` is, or None when it is none.

    `^1.2.3` ends before 2.0.0, `^0.2.3` before 0.3.0, `^0.0.3` before 0.0.4 (the first number that is not
    zero stays); `~1.2.3` and `~1.2` end before 1.3.0, `~1` before 2.0.0. Numbers left out are zero.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    sign, *given = match.groups()
    numbers = [int(one) for one in given if one is not None]
    lowest = Version(*numbers, *[0] * (3 - len(numbers)))
    return Range(lowest, _end(sign, lowest, len(numbers)))


def _end(sign: str, lowest: Version, count: int) -> Version:
    major, minor, patch = lowest
    if sign == "~":
        return Version(major + 1, 0, 0) if count == 1 else Version(major, minor + 1, 0)
    if major or count == 1:
        return Version(major + 1, 0, 0)
    if minor or count == 2:
        return Version(0, minor + 1, 0)
    return Version(0, 0, patch + 1)
