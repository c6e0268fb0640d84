"""Recall and false alarms at message level, with intervals. Pure.

`restricted`: is a restricted row seen as restricted, and how often is a public or internal row?
`sensitive`: the same for confidential and above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.domain.label import Level
from gateway.evaluation.corpus import Row

#: Two-sided 95 %.
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Judged:
    """A row with the level that the product gave it, and how long that took."""

    row: Row
    level: Level
    elapsed_us: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its Wilson interval at 95 %. `n` is what it is a share of; NaN when `n` is 0."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Score:
    """Recall over rows at or above a level, and false-positive rate over public and internal rows."""

    recall: Rate
    false_positive_rate: Rate


def wilson(hits: int, n: int) -> Rate:
    """Share `hits / n` with its Wilson score interval.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference,
    JASA 22 (1927).
    """
    if n == 0:
        return Rate(math.nan, 0.0, 1.0, 0)
    share = hits / n
    scale = 1 + _Z * _Z / n
    centre = (share + _Z * _Z / (2 * n)) / scale
    half = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n)) / scale
    # Rounding must not push a bound past the share itself (0 of n, n of n).
    return Rate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)), n)


def score(judged: Sequence[Judged], level: Level) -> Score:
    """Score for the question "is this row at or above `level`?"."""
    positive = [each for each in judged if each.row.level >= level]
    negative = [each for each in judged if each.row.level <= Level.INTERNAL]
    return Score(
        wilson(sum(each.level >= level for each in positive), len(positive)),
        wilson(sum(each.level >= level for each in negative), len(negative)),
    )


def by(judged: Sequence[Judged], keys: Callable[[Row], Sequence[str]], level: Level) -> dict[str, Score]:
    """Scores per key (a row may have several), in alphabetical order. Negatives are shared by all."""
    negative = [each for each in judged if each.row.level <= Level.INTERNAL]
    groups: dict[str, list[Judged]] = {}
    for each in judged:
        if each.row.level >= level:
            for key in keys(each.row):
                groups.setdefault(key, []).append(each)
    return {key: score([*groups[key], *negative], level) for key in sorted(groups)}


def errors(judged: Sequence[Judged]) -> list[dict[str, str]]:
    """Rows on the wrong side of a boundary, by id: `missed` (too low) or `false-alarm` (too high)."""
    wrong = []
    for each in judged:
        truth, seen = each.row.level, each.level
        if truth >= Level.CONFIDENTIAL and seen < truth:
            wrong.append({"id": each.row.id, "kind": "missed", "label": truth.word, "seen": seen.word})
        elif truth <= Level.INTERNAL and seen >= Level.CONFIDENTIAL:
            wrong.append({"id": each.row.id, "kind": "false-alarm", "label": truth.word, "seen": seen.word})
    return wrong


def quantile(values: Sequence[float], share: float) -> float:
    """Value below which `share` of `values` lie; NaN for none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
