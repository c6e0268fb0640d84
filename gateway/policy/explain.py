"""Why a decision is what it is: every rule and every destination, with the reason, for people.

Slower than `evaluate` and never used to decide: `Explanation.decision` comes from `evaluate` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway.domain.decision import OPERATIONS, Decision, Destination, Facts, Permit
from gateway.policy.compiled import CompiledPolicy, Rule
from gateway.policy.evaluate import candidates, evaluate
from gateway.policy.expression import ConditionFailed, bind

Outcome = Literal["decides", "matches", "no match", "error"]


@dataclass(frozen=True, slots=True)
class RuleStep:
    """One rule: whether it permits or denies, how it fared with these facts, and why."""

    rule_id: str
    effect: Literal["permit", "deny"]
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class DestinationStep:
    """One destination of the deciding rule: whether it is part of the permit, and why."""

    name: str
    is_permitted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision with its reasons, rules in file order, destinations in order of preference."""

    decision: Decision
    rules: tuple[RuleStep, ...]
    destinations: tuple[DestinationStep, ...]


def explain(policy: CompiledPolicy, facts: Facts, configured: frozenset[str]) -> Explanation:
    """Every step to the decision about `facts`. Never raises for facts of any value."""
    decision = evaluate(policy, facts, configured)
    bound = bind(facts, policy.attribute_names)
    steps = tuple(_rule_step(rule, facts, bound, decision) for rule in policy.rules)
    places: tuple[DestinationStep, ...] = ()
    for rule in policy.rules:
        if rule.id in decision.rule_ids:
            chosen = {place.name: place for place in candidates(policy, rule, facts, configured)}
            places = tuple(
                _destination_step(policy, name, facts, configured, chosen) for name in rule.destinations
            )
    return Explanation(decision, steps, places)


def _rule_step(rule: Rule, facts: Facts, bound: Any, decision: Decision) -> RuleStep:
    effect: Literal["permit", "deny"] = "permit" if rule.deny is None else "deny"
    missed = _miss(rule, facts)
    if missed is not None:
        return RuleStep(rule.id, effect, "no match", missed)
    try:
        holds = rule.condition is None or rule.condition.holds(bound)
    except ConditionFailed as error:
        return RuleStep(rule.id, effect, "error", f"the condition cannot be evaluated: {error}")
    source = "" if rule.condition is None else " ".join(rule.condition.source.split())
    if not holds:
        return RuleStep(rule.id, effect, "no match", f"the condition is false: {source}")
    why = f"the condition is true: {source}" if source else "label, model and tenant fit"
    if rule.id in decision.rule_ids:
        return RuleStep(rule.id, effect, "decides", why)
    return RuleStep(rule.id, effect, "matches", f"{why}; another rule comes first")


def _miss(rule: Rule, facts: Facts) -> str | None:
    """Which of the rule's own fields does not fit; None when all do."""
    level = facts.label.level
    if not rule.lowest <= level <= rule.highest:
        return f"label {level.word} is outside {rule.lowest.word}..{rule.highest.word}"
    if rule.models is not None and facts.model not in rule.models:
        return f"model {facts.model} is not one of {', '.join(sorted(rule.models))}"
    if rule.tenants is not None and facts.tenant not in rule.tenants:
        return f"tenant {facts.tenant} is not one of {', '.join(sorted(rule.tenants))}"
    return None


def _destination_step(
    policy: CompiledPolicy,
    name: str,
    facts: Facts,
    configured: frozenset[str],
    chosen: Mapping[str, Destination],
) -> DestinationStep:
    place = policy.destinations[name]
    if name not in configured:
        return DestinationStep(name, False, "not configured in this deployment")
    served = chosen.get(name)
    if served is None:
        return DestinationStep(name, False, f"does not serve {facts.model}")
    if OPERATIONS.get(facts.endpoint) not in served.operations:
        return DestinationStep(name, False, f"does not serve {facts.endpoint}")
    missing = facts.extensions - place.extensions
    if missing:
        return DestinationStep(name, False, f"does not take {', '.join(sorted(missing))}")
    if unsaid := dict(facts.unsaid).get(place.kind):
        return DestinationStep(name, False, f"has no word for {unsaid}")
    trust = f"clearance {place.clearance.word}, {'hosted' if place.hosted else 'private'}, {place.region}"
    return DestinationStep(name, True, f"as {served.model}; {trust}")


def verdict_line(decision: Decision) -> str:
    """The decision in one line."""
    if isinstance(decision, Permit):
        places = ", ".join(place.name for place in decision.destinations)
        role = decision.obligations.approver_role
        after = "" if role is None else f" after approval by the role {role}"
        return f"permit: {places}{after} (rule {', '.join(decision.rule_ids)})"
    rules = f" (rule {', '.join(decision.rule_ids)})" if decision.rule_ids else ""
    field = f" param={decision.param}" if decision.param else ""
    return f"deny: {decision.status} {decision.code}{field}{rules}: {decision.message}"
