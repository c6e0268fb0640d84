"""The `rules` section of routing.yaml, with the proof that no rule can exceed a clearance.

Invariants
1. The highest label that a permit rule admits is within the clearance of every destination it names,
   its fallbacks included. The proof reads `labels` only; a condition may narrow, so it cannot widen.
2. A rule either permits (destinations) or denies (a public sentence), never both, never neither.
3. No rule stands below another of its kind that takes all of its requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.domain.decision import Obligations
from gateway.domain.label import Level
from gateway.policy.cases import MAX_TOKENS
from gateway.policy.compiled import DestinationPolicy, Rule, TenantPolicy
from gateway.policy.document import Mark, Plain, Scalar, fault, shown
from gateway.policy.expression import Condition, ConditionRefused, compile_condition
from gateway.policy.fields import Field, Section

AUDIT_LEVELS = ("metadata",)
MAX_RULES = 5_000
_RULE_KEYS = (
    "id",
    "labels",
    "when",
    "models",
    "tenants",
    "destinations",
    "obligations",
    "deny",
    "description",
)


@dataclass(frozen=True, slots=True)
class Names:
    """What a rule may refer to."""

    models: Mapping[str, str]
    destinations: Mapping[str, DestinationPolicy]
    tenants: Mapping[str, TenantPolicy]
    profiles: Mapping[str, Plain]
    attributes: tuple[str, ...] = ()


def read_rules(field: Field, names: Names) -> tuple[Rule, ...]:
    """The rules in file order. Raises `ConfigurationError` at the first that is not sound."""
    items = field.items()
    if len(items) > MAX_RULES:
        raise field.fault(f"at most {MAX_RULES} rules", str(len(items)))
    rules: list[Rule] = []
    places: dict[str, int] = {}
    shadows: list[Rule] = []
    for item in items:
        rule = _rule(item.section(), names)
        if rule.id in places:
            id_field = item.section()["id"]
            raise id_field.fault(
                "each rule id once", f"{shown(rule.id)} again (first at line {places[rule.id]})"
            )
        _refuse_unreachable(item, rule, shadows)
        places[rule.id] = item.mark.line
        rules.append(rule)
        if rule.condition is None:
            shadows.append(rule)
    return tuple(rules)


def _rule(section: Section, names: Names) -> Rule:
    section.only(*_RULE_KEYS)
    rule_id = section["id"].name()
    lowest, highest = _range(section["labels"])
    if ("deny" in section) == ("destinations" in section):
        found = "both" if "deny" in section else "neither"
        raise section.fault("either destinations or deny", found)
    models, tenants = section.get("models"), section.get("tenants")
    when, deny = section.get("when"), section.get("deny")
    if deny is not None and "obligations" in section:
        raise section["obligations"].fault("no obligations on a rule that denies")
    if (description := section.get("description")) is not None:
        description.text()
    return Rule(
        id=rule_id,
        lowest=lowest,
        highest=highest,
        models=None if models is None else _chosen(models, names.models, "a logical model of this file"),
        tenants=None if tenants is None else _chosen(tenants, names.tenants, "a tenant of limits.yaml"),
        condition=None if when is None else _condition(when, names.attributes),
        destinations=() if deny is not None else _cleared(section["destinations"], lowest, highest, names),
        obligations=_obligations(section.get("obligations"), names),
        deny=None if deny is None else deny.text(),
    )


def _range(field: Field) -> tuple[Level, Level]:
    words = field.text().split("..")
    expected = "a range such as public..internal"
    if len(words) != 2:
        raise field.fault(expected)
    try:
        lowest, highest = Level.parse(words[0]), Level.parse(words[1])
    except ValueError:
        raise field.fault(expected) from None
    if lowest > highest:
        raise field.fault(expected)
    return lowest, highest


def _chosen(field: Field, known: Mapping[str, object], kind: str) -> frozenset[str]:
    return frozenset(field.distinct(lambda item: item.choice(known, kind)))


def _cleared(field: Field, lowest: Level, highest: Level, names: Names) -> tuple[str, ...]:
    chosen = field.distinct(lambda item: item.choice(names.destinations, "a destination of this file"))
    for item, name in zip(field.items(), chosen, strict=True):
        clearance = names.destinations[name].clearance
        if highest > clearance:
            # fail-closed: a condition cannot lower what `labels` admits, so it is not looked at.
            span = f"{lowest.word}..{highest.word}"
            expected = f"a clearance of at least {highest.word}, because the rule is for {span}"
            raise item.fault(expected, f"{name} with clearance {clearance.word}")
    return chosen


def _obligations(field: Field | None, names: Names) -> Obligations:
    if field is None:
        return Obligations()
    section = field.section().only("output_profile", "audit_level", "max_output_tokens")
    profile, audit, tokens = (
        section.get(key) for key in ("output_profile", "audit_level", "max_output_tokens")
    )
    usual = Obligations()
    return Obligations(
        output_profile=usual.output_profile
        if profile is None
        else profile.choice(names.profiles, "a profile of output.yaml"),
        audit_level=usual.audit_level
        if audit is None
        else audit.choice(AUDIT_LEVELS, "audit level metadata"),
        max_output_tokens=None if tokens is None else tokens.integer(1, MAX_TOKENS),
    )


def _condition(field: Field, attributes: tuple[str, ...]) -> Condition:
    source = field.text(max_characters=100_000)
    try:
        return compile_condition(source, attributes)
    except ConditionRefused as error:
        start = field.node.text_mark if isinstance(field.node, Scalar) else None
        if start is not None:
            place = Mark(start.line + error.line - 1, start.column + error.column - 1)
            raise fault(field.file, place, field.path, error.expected, error.found) from None
        found = f"{error.found} (line {error.line}, column {error.column} of the condition)"
        raise field.fault(error.expected, found) from None


def _refuse_unreachable(item: Field, rule: Rule, shadows: list[Rule]) -> None:
    for above in shadows:
        if (
            (above.deny is None) == (rule.deny is None)
            and above.lowest <= rule.lowest
            and rule.highest <= above.highest
            and (above.models is None or (rule.models is not None and rule.models <= above.models))
            and (above.tenants is None or (rule.tenants is not None and rule.tenants <= above.tenants))
        ):
            raise item.fault(
                "a rule that can be reached", f"{rule.id} below {above.id}, which takes all its requests"
            )
