"""A detector as a row: what to look for, how to be sure, and what it means.

Adding a detector is adding a `Rule` to a table and vectors to its test. `pattern` finds candidates cheaply
(RE2 syntax, bytes, no long bounded repeats); `examine` is a pure function that looks at one candidate and
yields the spans that hold, so that a checksum, the neighbours and the words around can each say no.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.domain.label import Label, Level, Tag
from gateway.sensitivity.views import View

#: Spans (start, end) in the view, within or after the candidate.
Spans = Iterable[tuple[int, int]]
Examine = Callable[[View, int, int], Spans]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `kind` is a closed kebab-case word; `version` rises when a row may decide differently."""

    kind: str
    version: int
    label: Label
    pattern: bytes
    examine: Examine

    @property
    def identity(self) -> str:
        """name@version, as it stands in findings and records."""
        return f"{self.kind}@{self.version}"


def restricted(*tags: Tag) -> Label:
    """Label of a validated identifier or a credential."""
    return Label(Level.RESTRICTED, frozenset(tags))


def confidential(*tags: Tag) -> Label:
    """Label of contact data."""
    return Label(Level.CONFIDENTIAL, frozenset(tags))


#: Characters looked at before and after a candidate for words that say what it is.
CONTEXT_BEFORE = 72
CONTEXT_AFTER = 32


def words(*alternatives: str) -> re.Pattern[str]:
    """Expression that finds one of the words, whatever the case, not inside a longer ASCII word.

    Words are written without accents, as canonical views write them. `_` and digits count as edges, so that
    `PAN_1` and `ssn=` are found.
    """
    return re.compile(r"(?i)(?<![a-z])(?:" + "|".join(alternatives) + r")(?![a-z])")


def has_context(view: View, start: int, end: int, expression: re.Pattern[str]) -> bool:
    """Whether one of the words stands near `start:end`."""
    before = view.text[max(0, start - CONTEXT_BEFORE) : start]
    if expression.search(before) is not None:
        return True
    return expression.search(view.text[end : end + CONTEXT_AFTER]) is not None


def is_word_byte(data: bytes, place: int) -> bool:
    """Whether an ASCII letter or digit stands at `place` (False outside the data)."""
    return 0 <= place < len(data) and data[place : place + 1].isalnum()
