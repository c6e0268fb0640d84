"""What a sound policy still says to its author: parts that do nothing, and callers who get nothing.

A note refuses nothing. `tidegate policy lint` prints them, and with `--strict` ends with 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gateway.domain.decision import Obligations
from gateway.domain.label import Level
from gateway.policy.compiled import CompiledPolicy, Rule
from gateway.policy.detector_notes import detector_notes
from gateway.policy.rules import takes_all_of


def notes(policy: CompiledPolicy) -> tuple[str, ...]:
    """All notes, a sentence each, in the order: rules, destinations, models, tenants, the rest, detectors."""
    return (
        *_rules(policy),
        *_places(policy),
        *_tenants(policy),
        *_unused(policy),
        *detector_notes(policy.own_detectors, policy.base_level),
    )


def _rules(policy: CompiledPolicy) -> Iterator[str]:
    closing = [rule for rule in policy.rules if rule.deny is not None and rule.condition is None]
    for rule in _permits(policy):
        for denial in closing:
            if takes_all_of(denial, rule):
                yield f"rule {rule.id} permits nothing: {denial.id} denies all its requests"
        models = policy.models if rule.models is None else rule.models
        if not any(
            model in policy.destinations[name].models for name in rule.destinations for model in models
        ):
            yield f"rule {rule.id} permits nothing: none of its destinations serves one of its models"
        hosted = [policy.destinations[name].hosted for name in rule.destinations]
        if any(not before and after for before, after in pairwise(hosted)):
            yield f"rule {rule.id} falls back from a private destination to a hosted one"


def _places(policy: CompiledPolicy) -> Iterator[str]:
    named = {name for rule in policy.rules for name in rule.destinations}
    for name in policy.destinations:
        if name not in named:
            yield f"destination {name} is named by no rule"
    for model in policy.models:
        if not any(model in policy.destinations[name].models for name in named):
            yield f"model {model} is served by no destination of a rule"


def _tenants(policy: CompiledPolicy) -> Iterator[str]:
    for tenant in policy.tenants.values():
        open_to = [rule for rule in _permits(policy) if rule.tenants is None or tenant.name in rule.tenants]
        if not any(rule.highest >= tenant.floor.level for rule in open_to):
            yield f"tenant {tenant.name} is permitted nothing"
            continue
        for level in Level:
            if level >= tenant.floor.level and not any(
                rule.lowest <= level <= rule.highest for rule in open_to
            ):
                yield f"tenant {tenant.name} is permitted nothing at {level.word}"


def _unused(policy: CompiledPolicy) -> Iterator[str]:
    sources = [rule.condition.source for rule in policy.rules if rule.condition is not None]
    for name in policy.attribute_names:
        if not any(f"attributes.{name}" in source for source in sources):
            yield f"attribute {name} is asked by no rule"
    used = {rule.obligations.output_profile for rule in policy.rules} | {Obligations().output_profile}
    for name in policy.output_profiles:
        if name not in used:
            yield f"output profile {name} is used by no rule"
    if not policy.cases:
        yield "there are no cases, so nothing holds this policy to what it should do"


def _permits(policy: CompiledPolicy) -> Iterator[Rule]:
    return (rule for rule in policy.rules if rule.deny is None)
