from __future__ import annotations

import pytest

from gateway.errors import ConfigurationError
from gateway.policy.compile import compile_bundle
from gateway.policy.rules import MAX_RULES
from tests.fakes.policy_pack import pack

RULE = "  - {{id: {id}, labels: {labels}, destinations: [private]{more}}}\n"


def rules(*lines: tuple[str, str, str]) -> str:
    return "rules:\n" + "".join(
        RULE.format(id=name, labels=labels, more=more) for name, labels, more in lines
    )


@pytest.mark.parametrize(
    ("above", "below"),
    [
        (("public..restricted", ""), ("public..internal", "")),
        (("public..internal", ""), ("public..internal", ", when: stream")),
        (("public..internal", ""), ("public..internal", ", models: [fast]")),
        (("public..internal", ", tenants: [acme, demo]"), ("public..internal", ", tenants: [acme]")),
        (("public..internal", ", models: [fast]"), ("public..internal", ", models: [fast], tenants: [acme]")),
        (("public..internal", ", when: stream"), ("public..public", ", when: stream")),
        (
            ("public..public", ", when: stream  &&  level < 2"),
            ("public..public", ", when: stream && level < 2"),
        ),
    ],
)
def test_refuses_rule_that_can_never_decide(above: tuple[str, str], below: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="below-rule below above-rule"):
        compile_bundle(pack(rules(("above-rule", *above), ("below-rule", *below))))


@pytest.mark.parametrize(
    ("above", "below"),
    [
        (("public..internal", ""), ("public..confidential", "")),
        (("public..internal", ", when: stream"), ("public..internal", "")),
        (("public..internal", ", models: [fast]"), ("public..internal", "")),
        (("public..internal", ", tenants: [acme]"), ("public..internal", ", tenants: [acme, demo]")),
        (("public..internal", ", models: [fast]"), ("public..internal", ", tenants: [acme]")),
        (("public..internal", ", when: stream"), ("public..internal", ", when: '!stream'")),
        (("public..public", ", when: stream"), ("public..internal", ", when: stream")),
    ],
)
def test_takes_rule_that_can_decide_something(above: tuple[str, str], below: tuple[str, str]) -> None:
    assert len(compile_bundle(pack(rules(("above-rule", *above), ("below-rule", *below)))).rules) == 2


def test_takes_permit_below_a_denial_of_the_same_requests() -> None:
    denial = "  - {id: closed, labels: public..restricted, deny: Closed for maintenance.}\n"
    text = rules(("open", "public..internal", "")).replace("rules:\n", "rules:\n" + denial)
    assert [rule.deny for rule in compile_bundle(pack(text)).rules] == ["Closed for maintenance.", None]


def test_refuses_more_rules_than_the_bound() -> None:
    many = rules(*((f"r{index}", "public..public", ", when: stream") for index in range(MAX_RULES + 1)))
    with pytest.raises(ConfigurationError, match=f"at most {MAX_RULES} rules"):
        compile_bundle(pack(many))


def test_a_condition_does_not_soften_the_clearance_proof() -> None:
    text = "rules:\n  - {id: sly, labels: public..restricted, when: level < 2, destinations: [hosted]}\n"
    with pytest.raises(ConfigurationError, match="a clearance of at least restricted"):
        compile_bundle(pack(text))
