"""The `rules` section of routing.yaml, with the proof that no rule can exceed a clearance.

Invariants
1. The highest label that a permit rule admits is within the clearance of every destination it names,
   its fallbacks included. The proof reads `labels` only; a condition may narrow, so it cannot widen.
2. A rule either permits (destinations) or denies (a public sentence), never both, never neither.
3. No rule stands below another of its kind that takes all of its requests: one without a condition, or with
   the same one.
4. Every destination of a rule honours all of the rule's obligations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.domain.label import Level
from gateway.policy.compiled import DestinationPolicy, Rule, TenantPolicy
from gateway.policy.document import Mark, Plain, Scalar, fault, shown
from gateway.policy.expression import Condition, ConditionRefused, compile_condition
from gateway.policy.fields import Field, Section
from gateway.policy.obligations import read_obligations

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
    shadows: dict[str | None, list[Rule]] = {}
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
        shadows.setdefault(_asks(rule), []).append(rule)
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
    places = () if deny is not None else _cleared(section["destinations"], lowest, highest, names)
    asked = None if models is None else _chosen(models, names.models, "a logical model of this file")
    return Rule(
        id=rule_id,
        lowest=lowest,
        highest=highest,
        models=asked,
        tenants=None if tenants is None else _chosen(tenants, names.tenants, "a tenant of limits.yaml"),
        condition=None if when is None else _condition(when, names.attributes),
        destinations=places,
        obligations=read_obligations(
            section.get("obligations"),
            names.profiles,
            {name: names.destinations[name] for name in places},
            names.models if asked is None else asked,
        ),
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


def _asks(rule: Rule) -> str | None:
    """The condition as text that equals that of the same condition; None for none."""
    return None if rule.condition is None else " ".join(rule.condition.source.split())


def _refuse_unreachable(item: Field, rule: Rule, shadows: Mapping[str | None, list[Rule]]) -> None:
    asks = _asks(rule)
    above = shadows.get(None, [])
    for one in above if asks is None else [*above, *shadows.get(asks, [])]:
        if (one.deny is None) == (rule.deny is None) and takes_all_of(one, rule):
            raise item.fault(
                "a rule that can be reached", f"{rule.id} below {one.id}, which takes all its requests"
            )


def takes_all_of(one: Rule, other: Rule) -> bool:
    """Whether each request that `other` speaks about is one that `one` speaks about, conditions aside."""
    return (
        one.lowest <= other.lowest
        and other.highest <= one.highest
        and (one.models is None or (other.models is not None and other.models <= one.models))
        and (one.tenants is None or (other.tenants is not None and other.tenants <= one.tenants))
    )
