"""Unit tests of `gateway.output.rules` and `gateway.output.profiles`."""

from __future__ import annotations

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level
from gateway.errors import ConfigurationError
from gateway.output.dangerous_code import CodeRule
from gateway.output.hosts import HostRule
from gateway.output.leaks import Canary, CanaryRule, PromptRule
from gateway.output.links import LinkRule, Target
from gateway.output.profiles import parse_profile
from gateway.output.rules import (
    DEFAULT_PROFILE,
    DEFAULT_RULES,
    Action,
    KindRule,
    OutputProfile,
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


def test_reads_a_rule_of_every_kind() -> None:
    tree = {
        "rules": [
            {"name": "cards", "kinds": ["card"], "action": "replace", "text": "a card number"},
            {"name": "hosts", "about": "internal-hosts", "suffixes": ["firma.example"], "action": "mask"},
            {"name": "links", "about": "links", "allowed_hosts": ["*.firma.example"], "targets": ["image"]},
            {"name": "prompt", "about": "instructions", "characters": 96, "action": "flag"},
            {
                "name": "canaries",
                "about": "canaries",
                "canaries": [{"text": "heron-at-noon-42", "tenant": "a"}],
            },
            {"name": "code", "version": 2, "about": "dangerous-code"},
        ]
    }
    assert parse_profile(tree) == OutputProfile(
        "default",
        (
            KindRule("cards@1", ("card",), Level.CONFIDENTIAL, Action.REPLACE, "a card number"),
            HostRule("hosts@1", ("firma.example",), action=Action.MASK),
        ),
        guards=(
            LinkRule("links@1", ("*.firma.example",), frozenset({Target.IMAGE}), Action.NEUTRALISE),
            PromptRule("prompt@1", 96, Action.FLAG),
            CanaryRule("canaries@1", (Canary("heron-at-noon-42", "a"),), Action.BLOCK),
            CodeRule("code@2"),
        ),
    )


def _with(**rule: object) -> dict[str, object]:
    return {"rules": [{"name": "rest"}, {"name": "a", **rule}]}


@pytest.mark.parametrize(
    ("tree", "where"),
    [
        ({"rules": [{"name": "a", "about": "links"}]}, "at least one rule about findings"),
        (_with(about="toxicity"), "about: expected one of findings, internal-hosts"),
        (_with(action="flag"), "action: expected one of redact"),
        (_with(action="replace"), "text: expected with the action replace"),
        (_with(text="x"), "text: expected with the action replace"),
        (_with(action="replace", text='a "quote"'), "text: expected letters"),
        (_with(about="links", kinds=["iban"]), "unknown key"),
        (_with(about="links", allowed_hosts=["https://a.example"]), "allowed_hosts"),
        (_with(about="links", allowed_hosts="a.example"), "allowed_hosts"),
        (_with(about="links", targets=[]), "targets"),
        (_with(about="links", targets=["video"]), "targets: expected some of image"),
        (_with(about="links", action="redact"), "action: expected one of flag, neutralise"),
        (_with(about="internal-hosts", suffixes=[".corp"]), "suffixes"),
        (_with(about="internal-hosts", private_addresses="yes"), "private_addresses"),
        (_with(about="internal-hosts", suffixes=[], private_addresses=False), "expected suffixes or"),
        (_with(about="instructions", characters=10), "characters"),
        (_with(about="instructions", action="redact"), "action"),
        (_with(about="canaries"), "canaries: expected a list"),
        (_with(about="canaries", canaries=["x" * 20]), r"canaries\[0\]: expected a mapping"),
        (_with(about="canaries", canaries=[{"text": "short - - - -"}]), r"canaries\[0\]: text: expected 12"),
        (_with(about="canaries", canaries=[{"text": "x" * 129}]), "text"),
        (_with(about="canaries", canaries=[{"text": "x" * 20, "to": 1}]), "key"),
        (_with(about="canaries", canaries=[{"text": "x" * 20, "tenant": "no tenant"}]), "tenant"),
        (_with(about="dangerous-code", action="block"), "action: expected one of flag"),
    ],
)  # fmt: skip
def test_refuses_a_rule_that_its_kind_does_not_know(tree: dict[str, object], where: str) -> None:
    with pytest.raises(ConfigurationError, match=where):
        parse_profile(tree)


def test_does_not_quote_a_canary_that_it_refuses() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_profile(_with(about="canaries", canaries=[{"text": "my-short-c1"}]))
    assert "my-short" not in str(caught.value)
