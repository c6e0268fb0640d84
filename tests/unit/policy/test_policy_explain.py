from __future__ import annotations

from gateway.domain.label import Level
from gateway.policy.compile import compile_bundle
from gateway.policy.evaluate import evaluate
from gateway.policy.explain import DestinationStep, RuleStep, explain, verdict_line
from tests.fakes.policy_pack import ALL, facts, pack

RULES = """\
rules:
  - {id: no-fast, labels: public..restricted, models: [fast], deny: Fast is closed.}
  - {id: no-acme, labels: public..restricted, tenants: [acme], deny: Acme is closed.}
  - {id: long, labels: public..internal, when: "prompt_tokens  >  100", destinations: [private]}
  - {id: odd, labels: public..internal, when: prompt_tokens == 7 && 1 / (prompt_tokens - 7) > 0, deny: Odd.}
  - {id: ordinary, labels: public..internal, destinations: [hosted, private]}
  - {id: spare, labels: public..confidential, destinations: [private]}
"""
POLICY = compile_bundle(pack(RULES))


def test_says_of_every_rule_why_it_does_or_does_not_match() -> None:
    explanation = explain(POLICY, facts(), ALL)
    assert explanation.rules == (
        RuleStep("no-fast", "deny", "no match", "model assistant is not one of fast"),
        RuleStep("no-acme", "deny", "no match", "tenant demo is not one of acme"),
        RuleStep("long", "permit", "no match", "the condition is false: prompt_tokens > 100"),
        RuleStep("odd", "deny", "no match", explanation.rules[3].reason),
        RuleStep("ordinary", "permit", "decides", "label, model and tenant fit"),
        RuleStep("spare", "permit", "matches", "label, model and tenant fit; another rule comes first"),
    )
    assert explanation.rules[3].reason.startswith("the condition is false: prompt_tokens == 7")
    assert explanation.decision == evaluate(POLICY, facts(), ALL)


def test_says_of_every_destination_why_it_is_permitted_or_not() -> None:
    assert explain(POLICY, facts(extensions=frozenset({"top_k"})), ALL).destinations == (
        DestinationStep("hosted", False, "does not take top_k"),
        DestinationStep("private", True, "as moe; clearance restricted, private, home"),
    )
    assert explain(POLICY, facts(model="embedder"), frozenset({"private"})).destinations == (
        DestinationStep("hosted", False, "not configured in this deployment"),
        DestinationStep("private", False, "does not serve embedder"),
    )


def test_names_the_rule_that_cannot_be_evaluated() -> None:
    explanation = explain(POLICY, facts(prompt_tokens=7), ALL)
    (faulty,) = (step for step in explanation.rules if step.outcome == "error")
    assert faulty.rule_id == "odd"
    assert "divide by zero" in faulty.reason
    assert verdict_line(explanation.decision).startswith("deny: 403 rule-error: ")


def test_says_that_a_true_condition_decides() -> None:
    steps = {step.rule_id: step for step in explain(POLICY, facts(prompt_tokens=101), ALL).rules}
    assert steps["long"] == RuleStep(
        "long", "permit", "decides", "the condition is true: prompt_tokens > 100"
    )


def test_says_that_a_label_is_out_of_range() -> None:
    explanation = explain(POLICY, facts(Level.RESTRICTED), ALL)
    assert explanation.rules[4].reason == "label restricted is outside public..internal"
    assert explanation.destinations == ()
    assert verdict_line(explanation.decision).startswith("deny: 403 no-rule: No rule permits")


def test_writes_the_decision_in_one_line() -> None:
    assert verdict_line(evaluate(POLICY, facts(), ALL)) == "permit: hosted, private (rule ordinary)"
    wants = "hosted, private], obligations: {approval_required: true, approver_role: boss}"
    attended = compile_bundle(pack(RULES.replace("hosted, private]", wants)))
    said = "permit: hosted, private after approval by the role boss (rule ordinary)"
    assert verdict_line(evaluate(attended, facts(), ALL)) == said
    denial = evaluate(POLICY, facts(tenant="acme"), ALL)
    assert verdict_line(denial) == "deny: 403 denied-by-rule (rule no-acme): Acme is closed."
    unknown = evaluate(POLICY, facts(model="x"), ALL)
    assert verdict_line(unknown).startswith("deny: 404 model-not-found param=model: ")


def test_explains_requests_of_unknown_tenants_and_models() -> None:
    assert explain(POLICY, facts(tenant="x"), ALL).destinations == ()
    assert explain(POLICY, facts(model="x"), ALL).destinations == ()
