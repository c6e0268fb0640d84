"""Output rules: what is done with a finding in an answer, as policy data.

Invariants
1. A profile has at least one rule, and every rule masks something: "no filter" cannot be written.
2. Of all rules that match a finding the strictest action wins; the order of rules decides nothing else.
3. An unknown key, action or level is refused when the file is read, not when an answer comes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from gateway.domain.finding import Finding
from gateway.domain.label import Level
from gateway.errors import ConfigurationError


class Action(IntEnum):
    """What happens to a finding; a higher value is stricter.

    REDACT writes a placeholder in its place. STOP ends the choice before it with finish_reason
    `content_filter`. BLOCK ends the whole answer with `OutputBlocked`.
    """

    REDACT = 1
    STOP = 2
    BLOCK = 3

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
    """A named set of rules. `hold_chars` bounds what is held back per channel (128 to 512)."""

    name: str
    rules: tuple[OutputRule, ...] = DEFAULT_RULES
    hold_chars: int = HOLD_CHARS

    def judge(self, finding: Finding) -> tuple[OutputRule, Action] | None:
        """Strictest rule for this finding with its action, or None when it may pass."""
        strictest: tuple[OutputRule, Action] | None = None
        for rule in self.rules:
            action = rule.judge(finding)
            if action is not None and (strictest is None or action > strictest[1]):
                strictest = (rule, action)
        return strictest


DEFAULT_PROFILE = OutputProfile("default")

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_KIND = re.compile(r"[a-z][a-z0-9-]{0,63}\*?|\*")


def parse_profile(tree: Mapping[str, object], name: str = "default") -> OutputProfile:
    """Profile from a parsed policy tree; an empty tree gives the default rules.

    Keys: `name`, `hold_chars`, and `rules`, a list of {`name`, `version` (1), `kinds` (["*"]), `level`
    (confidential), `action` (redact)}. Refuses with `ConfigurationError` that names the key.
    """
    _only(tree, {"name", "hold_chars", "rules"}, name)
    name = _word(tree.get("name", name), f"{name}: name")
    hold = tree.get("hold_chars", HOLD_CHARS)
    if not _integer(hold) or not HOLD_CHARS_MIN <= int(str(hold)) <= HOLD_CHARS_MAX:
        raise ConfigurationError(
            f"{name}: hold_chars: expected an integer from {HOLD_CHARS_MIN} to {HOLD_CHARS_MAX}"
        )
    if "rules" not in tree:
        return OutputProfile(name, hold_chars=int(str(hold)))
    rules = tree["rules"]
    if not isinstance(rules, list) or not rules:
        raise ConfigurationError(f"{name}: rules: expected a list with at least one rule")
    parsed = tuple(_parse_rule(rule, f"{name}: rules[{index}]") for index, rule in enumerate(rules))
    if len({rule.name for rule in parsed}) < len(parsed):
        raise ConfigurationError(f"{name}: rules: expected names that differ")
    return OutputProfile(name, parsed, int(str(hold)))


def _parse_rule(tree: object, where: str) -> KindRule:
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{where}: expected a mapping")
    _only(tree, {"name", "version", "kinds", "level", "action"}, where)
    version = tree.get("version", 1)
    if not _integer(version) or int(str(version)) < 1:
        raise ConfigurationError(f"{where}: version: expected an integer above 0")
    kinds = tree.get("kinds", ["*"])
    if not isinstance(kinds, list) or not kinds:
        raise ConfigurationError(f"{where}: kinds: expected a list with at least one kind")
    for kind in kinds:
        if not isinstance(kind, str) or not _KIND.fullmatch(kind):
            raise ConfigurationError(f"{where}: kinds: expected kinds such as iban, openai-* or *")
    try:
        level = Level.parse(str(tree.get("level", "confidential")))
    except ValueError as error:
        raise ConfigurationError(f"{where}: level: {error}") from None
    words = {action.word: action for action in Action}
    action = words.get(str(tree.get("action", "redact")))
    if action is None:
        raise ConfigurationError(f"{where}: action: expected one of {', '.join(words)}")
    name = _word(tree.get("name"), f"{where}: name")
    return KindRule(f"{name}@{version}", tuple(kinds), level, action)


def _only(tree: Mapping[str, object], known: set[str], where: str) -> None:
    if any(key not in known for key in tree):
        raise ConfigurationError(f"{where}: unknown key; expected only {', '.join(sorted(known))}")


def _word(value: object, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ConfigurationError(f"{where}: expected lowercase letters, digits and dashes, at most 64")
    return value


def _integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
