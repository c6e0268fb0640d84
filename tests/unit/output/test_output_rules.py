"""Unit tests of `gateway.output.rules`."""

from __future__ import annotations

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level
from gateway.errors import ConfigurationError
from gateway.output.rules import (
    DEFAULT_PROFILE,
    DEFAULT_RULES,
    Action,
    KindRule,
    OutputProfile,
    parse_profile,
)


def _finding(kind: str, level: Level = Level.RESTRICTED) -> Finding:
    return Finding(kind, "fake@1", Label(level), 0, 1)


def test_default_profile_masks_restricted_and_confidential_findings_of_any_kind() -> None:
    for level in (Level.RESTRICTED, Level.CONFIDENTIAL):
        judged = DEFAULT_PROFILE.judge(_finding("iban", level))
        assert judged is not None
        assert judged[1] is Action.REDACT
    assert DEFAULT_PROFILE.judge(_finding("iban", Level.INTERNAL)) is None


def test_kind_pattern_with_a_star_matches_the_beginning_only() -> None:
    rule = KindRule("keys@1", ("openai-*", "jwt"), Level.PUBLIC, Action.BLOCK)
    assert rule.judge(_finding("openai-key")) is Action.BLOCK
    assert rule.judge(_finding("jwt")) is Action.BLOCK
    assert rule.judge(_finding("jwt-like")) is None
    assert rule.judge(_finding("my-openai-key")) is None


@pytest.mark.parametrize("turn", [1, -1])
def test_strictest_action_wins_whatever_the_order_of_rules(turn: int) -> None:
    rules = (
        KindRule("all@1", ("*",), Level.PUBLIC, Action.REDACT),
        KindRule("cards@1", ("card",), Level.PUBLIC, Action.STOP),
    )
    judged = OutputProfile("p", rules[::turn]).judge(_finding("card"))
    assert judged is not None
    assert (judged[0].name, judged[1]) == ("cards@1", Action.STOP)


def test_empty_tree_gives_the_default_rules() -> None:
    assert parse_profile({}) == DEFAULT_PROFILE
    assert parse_profile({}, "strict") == OutputProfile("strict", DEFAULT_RULES)


def test_reads_every_key_of_a_profile() -> None:
    tree = {
        "name": "strict",
        "hold_chars": 512,
        "rules": [
            {
                "name": "secrets",
                "version": 3,
                "kinds": ["jwt", "aws-*"],
                "level": "internal",
                "action": "block",
            },
            {"name": "rest"},
        ],
    }
    assert parse_profile(tree) == OutputProfile(
        "strict",
        (
            KindRule("secrets@3", ("jwt", "aws-*"), Level.INTERNAL, Action.BLOCK),
            KindRule("rest@1", ("*",), Level.CONFIDENTIAL, Action.REDACT),
        ),
        512,
    )


@pytest.mark.parametrize(
    ("tree", "where"),
    [
        ({"rule": []}, "unknown key"),
        ({"name": "Not A Name"}, "name"),
        ({"name": 7}, "name"),
        ({"hold_chars": 127}, "hold_chars"),
        ({"hold_chars": 513}, "hold_chars"),
        ({"hold_chars": True}, "hold_chars"),
        ({"hold_chars": "256"}, "hold_chars"),
        ({"rules": []}, "at least one rule"),
        ({"rules": {}}, "at least one rule"),
        ({"rules": ["redact"]}, r"rules\[0\]: expected a mapping"),
        ({"rules": [{"name": "a", "when": "x"}]}, r"rules\[0\]: unknown key"),
        ({"rules": [{}]}, r"rules\[0\]: name"),
        ({"rules": [{"name": "a", "version": 0}]}, "version"),
        ({"rules": [{"name": "a", "version": True}]}, "version"),
        ({"rules": [{"name": "a", "kinds": []}]}, "kinds"),
        ({"rules": [{"name": "a", "kinds": "iban"}]}, "kinds"),
        ({"rules": [{"name": "a", "kinds": ["I*BAN"]}]}, "kinds"),
        ({"rules": [{"name": "a", "kinds": [1]}]}, "kinds"),
        ({"rules": [{"name": "a", "level": "secret"}]}, "level"),
        ({"rules": [{"name": "a", "action": "allow"}]}, "action"),
        ({"rules": [{"name": "a"}, {"name": "a"}]}, "names that differ"),
    ],
)
def test_refuses_what_it_does_not_know(tree: dict[str, object], where: str) -> None:
    with pytest.raises(ConfigurationError, match=where):
        parse_profile(tree)
