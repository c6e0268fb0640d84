"""A detector as a row: what to look for, how to be sure, and what it means.

Adding a detector is adding a `Rule` to a table and vectors to its test. `pattern` finds candidates cheaply
(RE2 syntax, bytes, no long bounded repeats); `examine` is a pure function that looks at one candidate and
yields the spans that hold, so that a checksum, the neighbours and the words around can each say no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import re2

from gateway.domain.label import Label, Level, Tag
from gateway.sensitivity.views import CONTEXT_AFTER, CONTEXT_BEFORE, View

#: Spans (start, end) in the view, within or after the candidate.
Spans = Iterable[tuple[int, int]]
Examine = Callable[[View, int, int], Spans]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `kind` is a closed kebab-case word; `version` rises when a row may decide differently.
    `at_least`: findings in one text below which there is none. `price`: steps of work of one candidate.
    `is_about`: the span says what the text is about and is nothing to be masked by itself."""

    kind: str
    version: int
    label: Label
    pattern: bytes
    examine: Examine
    at_least: int = 1
    price: int = 1
    is_about: bool = False

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


class Words:
    """Finds one of a list of words, whatever the case, not inside a longer ASCII word.

    Words are RE2 syntax, written without accents, as canonical views write them. `_` and digits count as
    edges, so that `PAN_1` and `ssn=` are found. RE2 needs 1 µs for 100 characters and 60 words where `re`
    needs 17.
    """

    __slots__ = ("_expression", "alternatives")

    def __init__(self, *alternatives: str) -> None:
        self.alternatives = alternatives
        self._expression: Any = re2.compile(
            ("(?i)(?:^|[^a-z])(?:" + "|".join(alternatives) + ")(?:$|[^a-z])").encode()
        )

    def occur(self, text: str) -> bool:
        """Whether one of the words stands in `text`."""
        return self._expression.search(text.encode("utf-8", "replace")) is not None


def has_context(view: View, start: int, end: int, words: Words) -> bool:
    """Whether one of the words stands near `start:end`."""
    text = view.text
    before = text[max(0, start - CONTEXT_BEFORE) : start]
    return words.occur(before) or words.occur(text[end : end + CONTEXT_AFTER])


def is_word_byte(data: bytes, place: int) -> bool:
    """Whether an ASCII letter or digit stands at `place` (False outside the data)."""
    return 0 <= place < len(data) and data[place : place + 1].isalnum()
