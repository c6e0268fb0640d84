"""Output profiles read from a policy tree.

Invariants
1. An unknown key, action or level is refused when the file is read, not when an answer comes.
2. A key that a rule of its kind does not know is refused, so a rule never looks stricter than it is.
3. A profile without a rule about findings is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.output.dangerous_code import CodeRule
from gateway.output.hosts import SUFFIXES, HostRule
from gateway.output.leaks import (
    CANARY_CHARS_MAX,
    CANARY_CHARS_MIN,
    WINDOW,
    Canary,
    CanaryRule,
    PromptRule,
    fold,
)
from gateway.output.links import LinkRule, Target
from gateway.output.rules import (
    HOLD_CHARS,
    HOLD_CHARS_MAX,
    HOLD_CHARS_MIN,
    Action,
    KindRule,
    OutputProfile,
)

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_KIND = re.compile(r"[a-z][a-z0-9-]{0,63}\*?|\*")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_SUFFIX = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
#: Text that REPLACE may write: safe inside JSON strings and in Markdown.
_TEXT = re.compile(r"[A-Za-z0-9 .,:;()_-]{1,64}")
CHARACTERS_MIN, CHARACTERS_MAX = 64, 4096
CANARIES_MAX = 10_000

_MASKING = (Action.REDACT, Action.MASK, Action.REPLACE, Action.STOP, Action.BLOCK)
_LEAKING = (Action.FLAG, Action.STOP, Action.BLOCK)
Tree = Mapping[str, object]


def parse_profile(tree: Tree, name: str = "default") -> OutputProfile:
    """Profile from a parsed policy tree; an empty tree gives the default rules.

    Keys: `name`, `hold_chars`, and `rules`, a list of mappings with `name`, `version` (1), `about` (findings)
    and the keys of what it is about. Refuses with `ConfigurationError` that names the key.
    """
    _only(tree, {"name", "hold_chars", "rules"}, name)
    name = _word(tree.get("name", name), f"{name}: name")
    hold = _integer(tree.get("hold_chars", HOLD_CHARS), HOLD_CHARS_MIN, HOLD_CHARS_MAX, f"{name}: hold_chars")
    if "rules" not in tree:
        return OutputProfile(name, hold_chars=hold)
    rules = _list(tree["rules"], f"{name}: rules", "rule")
    parsed = tuple(_parse_rule(rule, f"{name}: rules[{index}]") for index, rule in enumerate(rules))
    if len({rule.name for rule in parsed}) < len(parsed):
        raise ConfigurationError(f"{name}: rules: expected names that differ")
    if not any(isinstance(rule, KindRule) for rule in parsed):
        # fail-closed: a profile that lets all findings pass is no filter.
        raise ConfigurationError(f"{name}: rules: expected at least one rule about findings")
    on_findings = tuple(rule for rule in parsed if isinstance(rule, KindRule | HostRule))
    guards = tuple(rule for rule in parsed if not isinstance(rule, KindRule | HostRule))
    return OutputProfile(name, on_findings, hold, guards)


def _parse_rule(
    tree: object, where: str
) -> KindRule | HostRule | LinkRule | PromptRule | CanaryRule | CodeRule:
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{where}: expected a mapping")
    version = _integer(tree.get("version", 1), 1, 10**9, f"{where}: version")
    name = f"{_word(tree.get('name'), f'{where}: name')}@{version}"
    match tree.get("about", "findings"):
        case "findings":
            return _findings(tree, name, where)
        case "internal-hosts":
            return _hosts(tree, name, where)
        case "links":
            return _links(tree, name, where)
        case "instructions":
            return _instructions(tree, name, where)
        case "canaries":
            return _canaries(tree, name, where)
        case "dangerous-code":
            _keys(tree, set(), where)
            _action(tree, Action.FLAG, (Action.FLAG,), where)
            return CodeRule(name)
        case _:
            raise ConfigurationError(f"{where}: about: expected one of {', '.join(ABOUT)}")


#: What a rule can be about.
ABOUT = ("findings", "internal-hosts", "links", "instructions", "canaries", "dangerous-code")


def _findings(tree: Tree, name: str, where: str) -> KindRule:
    _keys(tree, {"kinds", "level", "text"}, where)
    kinds = _strings(tree.get("kinds", ["*"]), _KIND, f"{where}: kinds", "kinds such as iban, openai-* or *")
    if not kinds:
        raise ConfigurationError(f"{where}: kinds: expected a list with at least one kind")
    try:
        level = Level.parse(str(tree.get("level", "confidential")))
    except ValueError as error:
        raise ConfigurationError(f"{where}: level: {error}") from None
    action = _action(tree, Action.REDACT, _MASKING, where)
    return KindRule(name, kinds, level, action, _text(tree, action, where))


def _hosts(tree: Tree, name: str, where: str) -> HostRule:
    _keys(tree, {"suffixes", "private_addresses", "text"}, where)
    suffixes = _strings(
        tree.get("suffixes", list(SUFFIXES)), _SUFFIX, f"{where}: suffixes", "suffixes such as corp.example"
    )
    has_addresses = tree.get("private_addresses", True)
    if not isinstance(has_addresses, bool):
        raise ConfigurationError(f"{where}: private_addresses: expected true or false")
    if not suffixes and not has_addresses:
        raise ConfigurationError(f"{where}: expected suffixes or private_addresses")
    action = _action(tree, Action.REDACT, _MASKING, where)
    return HostRule(name, suffixes, has_addresses, action, _text(tree, action, where))


def _links(tree: Tree, name: str, where: str) -> LinkRule:
    _keys(tree, {"allowed_hosts", "targets"}, where)
    hosts = _strings(
        tree.get("allowed_hosts", []),
        _HOST,
        f"{where}: allowed_hosts",
        "hosts such as docs.example or *.example",
    )
    known = {target.value: target for target in Target}
    words = _list(tree.get("targets", list(known)), f"{where}: targets", "target")
    if not all(isinstance(word, str) and word in known for word in words):
        raise ConfigurationError(f"{where}: targets: expected some of {', '.join(known)}")
    actions = (Action.FLAG, Action.NEUTRALISE, Action.STOP, Action.BLOCK)
    action = _action(tree, Action.NEUTRALISE, actions, where)
    return LinkRule(name, hosts, frozenset(known[str(word)] for word in words), action)


def _instructions(tree: Tree, name: str, where: str) -> PromptRule:
    _keys(tree, {"characters"}, where)
    characters = _integer(
        tree.get("characters", 4 * WINDOW), CHARACTERS_MIN, CHARACTERS_MAX, f"{where}: characters"
    )
    return PromptRule(name, characters, _action(tree, Action.STOP, _LEAKING, where))


def _canaries(tree: Tree, name: str, where: str) -> CanaryRule:
    _keys(tree, {"canaries"}, where)
    listed = _list(tree.get("canaries"), f"{where}: canaries", "canary")
    if len(listed) > CANARIES_MAX:
        raise ConfigurationError(f"{where}: canaries: expected at most {CANARIES_MAX}")
    canaries = tuple(_canary(one, f"{where}: canaries[{index}]") for index, one in enumerate(listed))
    return CanaryRule(name, canaries, _action(tree, Action.BLOCK, _LEAKING, where))


def _canary(tree: object, where: str) -> Canary:
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{where}: expected a mapping")
    _only(tree, {"text", "tenant"}, where)
    text, tenant = tree.get("text"), tree.get("tenant", "")
    if not isinstance(text, str) or len(text) > CANARY_CHARS_MAX or len(fold(text)) < CANARY_CHARS_MIN:
        # fail-closed: never quoted, for a canary in a log is one that is found where it does not belong.
        raise ConfigurationError(
            f"{where}: text: expected {CANARY_CHARS_MIN} letters and digits or more,"
            f" in at most {CANARY_CHARS_MAX} characters"
        )
    if not isinstance(tenant, str) or (tenant and not _TENANT.fullmatch(tenant)):
        raise ConfigurationError(f"{where}: tenant: expected the name of a tenant")
    return Canary(text, tenant)


def _action(tree: Tree, usual: Action, possible: tuple[Action, ...], where: str) -> Action:
    words = {action.word: action for action in possible}
    action = words.get(str(tree.get("action", usual.word)))
    if action is None:
        raise ConfigurationError(f"{where}: action: expected one of {', '.join(words)}")
    return action


def _text(tree: Tree, action: Action, where: str) -> str:
    text = tree.get("text", "")
    if (action is Action.REPLACE) != ("text" in tree):
        raise ConfigurationError(f"{where}: text: expected with the action replace, and only with it")
    if "text" in tree and (not isinstance(text, str) or not _TEXT.fullmatch(text)):
        raise ConfigurationError(f"{where}: text: expected letters, digits, blanks and .,:;()_-, at most 64")
    return str(text)


def _keys(tree: Tree, known: set[str], where: str) -> None:
    _only(tree, {"name", "version", "about", "action"} | known, where)


def _only(tree: Tree, known: set[str], where: str) -> None:
    if any(key not in known for key in tree):
        raise ConfigurationError(f"{where}: unknown key; expected only {', '.join(sorted(known))}")


def _word(value: object, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ConfigurationError(f"{where}: expected lowercase letters, digits and dashes, at most 64")
    return value


def _integer(value: object, least: int, most: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{where}: expected an integer from {least} to {most}")
    return value


def _list(value: object, where: str, item: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise ConfigurationError(f"{where}: expected a list with at least one {item}")
    return value


def _strings(value: object, shape: re.Pattern[str], where: str, expected: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(
        isinstance(each, str) and shape.fullmatch(each) for each in value
    ):
        raise ConfigurationError(f"{where}: expected a list of {expected}")
    return tuple(value)
