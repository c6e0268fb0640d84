"""What every output rule must hold to. A new rule is added to `RULES` and has passed nothing before."""

from __future__ import annotations

import re

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level
from gateway.output.rules import DEFAULT_RULES, Action, KindRule, OutputRule


class _FakeRule:
    """Blocks one kind."""

    name = "fake@1"
    text = ""

    def judge(self, finding: Finding) -> Action | None:
        return Action.BLOCK if finding.kind == "card" else None


RULES: tuple[OutputRule, ...] = (
    *DEFAULT_RULES,
    KindRule("cards@2", ("card", "iban*"), Level.RESTRICTED, Action.STOP),
    _FakeRule(),
)
FINDINGS = tuple(
    Finding(kind, "fake@1", Label(level), 3, 9)
    for kind in ("card", "iban", "iban-like", "x")
    for level in Level
)

each = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@each
def test_name_is_name_at_version(rule: OutputRule) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*@[1-9][0-9]*", rule.name)


@each
def test_judges_the_same_finding_the_same_way(rule: OutputRule) -> None:
    for finding in FINDINGS:
        assert rule.judge(finding) is rule.judge(finding)


@each
def test_answers_with_an_action_or_none_and_acts_on_something(rule: OutputRule) -> None:
    answers = [rule.judge(finding) for finding in FINDINGS]
    assert all(answer is None or isinstance(answer, Action) for answer in answers)
    assert any(answer is not None for answer in answers)


@each
def test_is_not_milder_to_a_higher_level(rule: OutputRule) -> None:
    for kind in {finding.kind for finding in FINDINGS}:
        levels = [rule.judge(Finding(kind, "fake@1", Label(level), 0, 1)) or 0 for level in Level]
        assert levels == sorted(levels)


@each
def test_does_not_look_at_the_place_of_a_finding(rule: OutputRule) -> None:
    for finding in FINDINGS:
        moved = Finding(finding.kind, finding.detector, finding.label, 100, 101)
        assert rule.judge(moved) is rule.judge(finding)
