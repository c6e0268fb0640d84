"""How sensitive data is: a level, tags, and their join.

Invariants
1. `join` is the maximum of levels and the union of tags: commutative, associative, idempotent.
2. Nothing in the project lowers a label; there is no `meet`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Level(IntEnum):
    """Ordered sensitivity: public < internal < confidential < restricted."""

    PUBLIC = 0
    INTERNAL = 1
    CONFIDENTIAL = 2
    RESTRICTED = 3

    @classmethod
    def parse(cls, word: str) -> Level:
        """Level named by its exact lowercase word. Raises `ValueError` for anything else."""
        for level in cls:
            if level.word == word:
                return level
        raise ValueError("expected one of public, internal, confidential, restricted")

    @property
    def word(self) -> str:
        """The lowercase name used in files, headers and records."""
        return self.name.lower()


class Tag(StrEnum):
    """What kind of sensitive data it is."""

    PII = "pii"
    PHI = "phi"
    PCI = "pci"
    SECRET = "secret"
    FIN = "fin"
    MNPI = "mnpi"
    LEGAL = "legal"
    HR = "hr"
    IP = "ip"
    BIOMETRIC = "biometric"
    SECURITY = "security"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Label:
    """A level with the tags that explain it."""

    level: Level
    tags: frozenset[Tag] = frozenset()

    def join(self, other: Label) -> Label:
        """Least label that is not below either: maximum level, union of tags."""
        if other.level <= self.level and other.tags <= self.tags:
            return self
        return Label(max(self.level, other.level), self.tags | other.tags)

    @property
    def sorted_tags(self) -> tuple[str, ...]:
        """Tag words in a fixed order, for records and headers."""
        return tuple(sorted(tag.value for tag in self.tags))


PUBLIC = Label(Level.PUBLIC)
#: What is unknown counts as this.
UNKNOWN = Label(Level.RESTRICTED, frozenset({Tag.OPAQUE}))


def join_all(labels: Iterable[Label]) -> Label:
    """Join of all labels; `PUBLIC` for none."""
    result = PUBLIC
    for label in labels:
        result = result.join(label)
    return result
