"""A tenant's own detectors, as values: read and checked by the policy room, run by the sensitivity room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.domain.label import Label, Level


@dataclass(frozen=True, slots=True)
class CustomPattern:
    """RE2 expression over the canonical text (no accents, ASCII look-alikes of other scripts' letters).

    `near`: words, one of which must stand near a match; empty for none. `at_least`: matches in one text below
    which there is no finding. `where` is file, line and column, for errors.
    """

    name: str
    label: Label
    pattern: str
    near: tuple[str, ...]
    at_least: int
    where: str


@dataclass(frozen=True, slots=True)
class CustomDictionary:
    """Terms that are found as whole words, whatever their case. `near`, `at_least` and `where` as above."""

    name: str
    label: Label
    terms: tuple[str, ...]
    near: tuple[str, ...]
    at_least: int
    where: str


@dataclass(frozen=True, slots=True)
class CustomDetectors:
    """All of a policy's own detectors. `raised` gives built-in kinds a higher level; it never lowers one.
    `sha256` names all of it, the terms included."""

    patterns: tuple[CustomPattern, ...] = ()
    dictionaries: tuple[CustomDictionary, ...] = ()
    raised: Mapping[str, Level] = field(default_factory=dict)
    sha256: str = ""
