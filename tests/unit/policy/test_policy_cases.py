from __future__ import annotations

import pytest

from gateway.domain.decision import Facts
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.policy.cases import parse_cases
from gateway.policy.compile import compile_bundle
from gateway.policy.evaluate import evaluate
from tests.fakes.policy_pack import ALL, pack

START = "cases:\n  - name: one\n    facts: {tenant: demo, label: public, model: fast}\n    expect: "


def test_reads_every_fact() -> None:
    text = """\
cases:
  - name: everything
    facts:
      tenant: demo
      label: restricted
      tags: [phi, pii]
      model: fast
      roles: [a]
      scopes: [b]
      endpoint: embeddings
      stream: true
      tools: [t]
      prompt: p@1
      prompt_tokens: 1
      output_tokens: 2
      extensions: [top_k]
      workload: batch
      client: app
      protocols: [p@1]
      attributes: {purpose: audit}
      region: eu
      at: 2026-11-30T08:15:00Z
    configured: []
    expect: {denied: no-destination, rule: sensitive}
"""
    (case,) = parse_cases(text, "cases/a.yaml")
    label = Label(Level.RESTRICTED, frozenset({Tag.PHI, Tag.PII}))
    assert case.facts == Facts(
        "demo", frozenset({"a"}), frozenset({"b"}), label, "fast", "embeddings", True, frozenset({"t"}),
        "p@1", 1, 2, frozenset({"top_k"}), "batch", "app", frozenset({"p@1"}), (("purpose", "audit"),), "eu",
        1_796_026_500,
    )  # fmt: skip
    assert (case.where, case.name, case.configured) == ("cases/a.yaml:2", "everything", frozenset())
    assert (case.destinations, case.denied, case.rule) == (None, "no-destination", "sensitive")


@pytest.mark.parametrize(
    ("expect", "difference"),
    [
        ("{destinations: [hosted, private]}", None),
        ("{destinations: [hosted, private], rule: ordinary}", None),
        ("{destinations: [private, hosted]}",
         "expected permit for private, hosted, found permit for hosted, private by rule ordinary"),
        ("{destinations: [hosted]}",
         "expected permit for hosted, found permit for hosted, private by rule ordinary"),
        ("{denied: no-rule}", "expected denial no-rule, found permit for hosted, private by rule ordinary"),
        ("{destinations: [hosted, private], rule: sensitive}",
         "expected the decision of rule sensitive, found rule ordinary"),
    ],
)  # fmt: skip
def test_says_how_a_decision_differs(expect: str, difference: str | None) -> None:
    (case,) = parse_cases(START + expect, "cases/a.yaml")
    assert case.difference(evaluate(compile_bundle(pack()), case.facts, ALL)) == difference


def test_says_how_a_denial_differs() -> None:
    denial = evaluate(
        compile_bundle(pack("rules: []\n")), parse_cases(START + "{denied: x}", "a")[0].facts, ALL
    )
    for expect, difference in (
        ("{denied: no-rule}", None),
        ("{denied: other}", "expected denial other, found denial no-rule by no rule"),
        ("{destinations: [private]}", "expected permit for private, found denial no-rule by no rule"),
        ("{denied: no-rule, rule: a}", "expected the decision of rule a, found no rule"),
    ):
        assert parse_cases(START + expect, "a")[0].difference(denial) == difference


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{denied: x}", "{}", "4:13: cases[0].expect: expected either destinations or denied, found neither"),
        (
            "{denied: x}",
            "{denied: x, destinations: [a]}",
            "expected either destinations or denied, found both",
        ),
        ("{denied: x}", "{denied: x, because: y}", "expected a known key (destinations, denied, rule)"),
        ("label: public", "label: low", "3:34: cases[0].facts.label: expected one of public"),
        (
            "label: public",
            "label: public, tags: [phy]",
            'expected a known tag (did you mean phi?), found "phy"',
        ),
        ("label: public", "lable: public", 'expected a known key (did you mean label?), found "lable"'),
        ("label: public", "label: public, endpoint: chat", "expected a known endpoint"),
        ("label: public", "label: public, workload: bath", "expected a known workload (did you mean batch?)"),
        ("label: public", "label: public, at: 2026-11-31T00:00:00Z", "expected a time such as 2026-11-30T08"),
        ("label: public", "label: public, at: yesterday", "expected a time such as 2026-11-30T08"),
        ("label: public", "label: public, attributes: [a]", "expected a mapping"),
        ("label: public", "label: public, prompt_tokens: -1", "expected an integer from 0"),
        ("label: public", "label: public, stream: yes", "expected true or false"),
        ("name: one", "name: ''", "2:11: cases[0].name: expected text"),
        ("cases:", "case:", "1:1: case: expected a known key (did you mean cases?)"),
    ],
)
def test_refuses_broken_case(old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_cases((START + "{denied: x}").replace(old, new, 1), "cases/a.yaml")
    assert str(caught.value).startswith("cases/a.yaml:")
    assert message in str(caught.value)
