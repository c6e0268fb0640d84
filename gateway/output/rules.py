"""Output rules: what is done with a finding in an answer, as policy data.

Invariants
1. A profile has at least one rule about findings, and every such rule masks something: "no filter" cannot be
   written.
2. Of all rules that match a finding the strictest action wins; the order of rules decides nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from gateway.domain.finding import Finding
from gateway.domain.label import Level

if TYPE_CHECKING:
    from gateway.output.guard import Guard


class Action(IntEnum):
    """What happens to a finding; a higher value is stricter.

    FLAG records it and changes nothing. In its place REDACT writes a placeholder that names its kind, MASK
    stars, REPLACE the rule's own text. NEUTRALISE takes the address out of a link and leaves its text. STOP
    ends the choice before it with finish_reason `content_filter`. BLOCK ends the whole answer with
    `OutputBlocked`.
    """

    FLAG = 1
    REDACT = 2
    MASK = 3
    REPLACE = 4
    NEUTRALISE = 5
    STOP = 6
    BLOCK = 7

    @property
    def word(self) -> str:
        """The lowercase name used in files and records."""
        return self.name.lower()


class OutputRule(Protocol):
    """Plug point: one reason to act on a finding. Pure; the same finding gives the same answer."""

    @property
    def name(self) -> str:
        """name@version, as it stands in the record."""
        ...

    @property
    def text(self) -> str:
        """What REPLACE writes in the place of a finding; empty for every other action."""
        ...

    def judge(self, finding: Finding) -> Action | None:
        """The action for this finding, or None when the rule is not about it."""
        ...


@dataclass(frozen=True, slots=True)
class KindRule:
    """Acts on findings whose kind matches `kinds` and whose level is `level` or higher.

    A pattern is an exact kind, a kind followed by `*` for its beginning, or `*` for every kind.
    """

    name: str
    kinds: tuple[str, ...]
    level: Level
    action: Action
    text: str = ""

    def judge(self, finding: Finding) -> Action | None:
        """The rule's action when kind and level match."""
        if finding.label.level < self.level:
            return None
        for pattern in self.kinds:
            if pattern == finding.kind or (pattern[-1] == "*" and finding.kind.startswith(pattern[:-1])):
                return self.action
        return None


#: Characters of one text that may be held back before its older half must be decided.
HOLD_CHARS = 256
#: Room for the longest key that is recognised only when whole, and a bound on memory per channel.
HOLD_CHARS_MIN, HOLD_CHARS_MAX = 128, 512
#: Masks identifiers, secrets (restricted) and contact data (confidential).
DEFAULT_RULES: tuple[OutputRule, ...] = (
    KindRule("identifiers-and-secrets@1", ("*",), Level.CONFIDENTIAL, Action.REDACT),
)


@dataclass(frozen=True, slots=True)
class OutputProfile:
    """A named set of rules. `hold_chars` bounds what is held back per channel (128 to 512).

    `guards` watch texts for what is no finding of a detector: links, leaks, dangerous code.
    """

    name: str
    rules: tuple[OutputRule, ...] = DEFAULT_RULES
    hold_chars: int = HOLD_CHARS
    guards: tuple[Guard, ...] = ()

    def judge(self, finding: Finding) -> tuple[OutputRule, Action] | None:
        """Strictest rule for this finding with its action, or None when it may pass."""
        strictest: tuple[OutputRule, Action] | None = None
        for rule in self.rules:
            action = rule.judge(finding)
            if action is not None and (strictest is None or action > strictest[1]):
                strictest = (rule, action)
        return strictest


DEFAULT_PROFILE = OutputProfile("default")
