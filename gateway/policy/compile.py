"""Policy files, as text, to a `CompiledPolicy`; whatever could break the promise is refused here.

Invariants
1. A rule that admits a label above the clearance of any destination it names, its fallbacks included,
   does not compile. The proof reads `labels` only, never the condition, so it is exact.
2. Unknown keys, names and files are refused: nothing that an administrator wrote is ignored.
3. Pure: the same files give the same policy and the same `sha256`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.domain.decision import Destination, Obligations
from gateway.domain.label import Label, Level
from gateway.errors import ConfigurationError
from gateway.policy.cases import MAX_TOKENS, Case, parse_cases
from gateway.policy.compiled import CompiledPolicy, DestinationPolicy, Rule, TenantPolicy
from gateway.policy.document import Plain, Scalar, fault, parse, plain, shown
from gateway.policy.expression import Condition, ConditionRefused, compile_condition
from gateway.policy.fields import Field, Section, nearest

ROUTING, LIMITS, OUTPUT, DETECTORS = "routing.yaml", "limits.yaml", "output.yaml", "detectors.yaml"
REQUIRED_FILES = (ROUTING, LIMITS, OUTPUT, DETECTORS)
CASES_PREFIX = "cases/"

KINDS = ("openai", "vllm")
AUDIT_LEVELS = ("metadata",)
MAX_RULES = 5_000
MAX_LIMIT = 1_000_000_000
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
class _Names:
    """What a rule may refer to."""

    models: Mapping[str, str]
    destinations: Mapping[str, DestinationPolicy]
    tenants: Mapping[str, TenantPolicy]
    profiles: Mapping[str, Plain]


def compile_bundle(files: Mapping[str, str]) -> CompiledPolicy:
    """The policy of these files (name → text): the four of `REQUIRED_FILES` and any `cases/*.yaml`.

    Does not run the cases. Raises `ConfigurationError` at the first fault: file, line, column, key,
    expected, found.
    """
    for name in files:
        if name not in REQUIRED_FILES and not name.startswith(CASES_PREFIX):
            hint = nearest(name, REQUIRED_FILES)
            raise ConfigurationError(
                f"{name}: expected one of {', '.join(REQUIRED_FILES)}, found another file{hint}"
            )
    sections = {name: _root(files, name) for name in REQUIRED_FILES}
    routing = sections[ROUTING].only("id", "version", "models", "destinations", "rules")
    profiles = _profiles(sections[OUTPUT])
    base_level = _base_level(sections[DETECTORS])
    models = _models(routing["models"].section())
    names = _Names(
        models, _destinations(routing["destinations"].section(), models), _tenants(sections[LIMITS]), profiles
    )
    cases = tuple(
        case
        for name in sorted(files)
        if name.startswith(CASES_PREFIX)
        for case in _known_cases(parse_cases(files[name], name), names)
    )
    return CompiledPolicy(
        id=routing["id"].name(),
        version=routing["version"].name(),
        sha256=_digest(sections),
        models=names.models,
        destinations=names.destinations,
        tenants=names.tenants,
        rules=_rules(routing["rules"], names),
        output_profiles=profiles,
        base_level=base_level,
        detectors=plain(sections[DETECTORS].node),
        cases=cases,
    )


def _root(files: Mapping[str, str], name: str) -> Section:
    if name not in files:
        raise ConfigurationError(f"{name}: expected this file in the policy folder, found nothing")
    return Field(name, "", parse(files[name], name)).section()


def _digest(sections: Mapping[str, Section]) -> str:
    tree = {name: plain(section.node) for name, section in sections.items()}
    canonical = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def _models(section: Section) -> dict[str, str]:
    models = {}
    for name, field in section.named():
        models[name] = field.section().only("description")["description"].text()
    if not models:
        raise section.fault("at least one logical model", "none")
    return models


def _destinations(section: Section, models: Mapping[str, str]) -> dict[str, DestinationPolicy]:
    found = {name: _destination(name, field.section(), models) for name, field in section.named()}
    if not found:
        raise section.fault("at least one destination", "none")
    return found


def _destination(name: str, section: Section, models: Mapping[str, str]) -> DestinationPolicy:
    section.only("kind", "clearance", "hosted", "region", "retention", "hosts", "models", "extensions")
    hosted = section["hosted"].boolean()
    if hosted and "retention" not in section:
        raise section.fault("a retention statement, because the destination is hosted", "none")
    kind, clearance = (
        section["kind"].choice(KINDS, f"one of {', '.join(KINDS)}"),
        section["clearance"].level(),
    )
    region = section["region"].name()
    retention = section.get("retention")
    allowed = section.get("extensions")
    extensions = frozenset() if allowed is None else frozenset(_listed(allowed))
    served = {}
    for logical, field in section["models"].section().only(*models).named():
        served[logical] = Destination(name, kind, clearance, hosted, region, field.name(), extensions)
    if not served:
        raise section["models"].fault("at least one logical model", "none")
    return DestinationPolicy(
        name=name,
        kind=kind,
        clearance=clearance,
        hosted=hosted,
        region=region,
        retention=None if retention is None else retention.text(),
        hosts=frozenset(section["hosts"].distinct(_host)),
        extensions=extensions,
        models=served,
    )


def _listed(field: Field) -> tuple[str, ...]:
    """A list of names that may be empty."""
    return field.distinct(Field.name) if field.items() else ()


def _host(field: Field) -> str:
    host = field.text(253)
    if not all(character.isascii() and (character.isalnum() or character in ".-:") for character in host):
        raise field.fault("a host name or address without scheme, port and path")
    if host != host.lower():
        raise field.fault("a host name in lowercase")
    return host


def _tenants(root: Section) -> dict[str, TenantPolicy]:
    root.only("version", "default", "tenants")
    root["version"].name()
    default_field = root.get("default")
    default: dict[str, int] = {}
    if default_field is not None:
        section = default_field.section().only(*_LIMIT_KEYS)
        default = {key: section[key].integer(1, MAX_LIMIT) for key in _LIMIT_KEYS}
    tenants = {}
    for name, field in root["tenants"].section().named():
        section = field.section().only("floor", *_LIMIT_KEYS)
        limits = {
            key: default[key] if key in default and key not in section else section[key].integer(1, MAX_LIMIT)
            for key in _LIMIT_KEYS
        }
        tenants[name] = TenantPolicy(name=name, floor=Label(section["floor"].level()), **limits)
    if not tenants:
        raise root["tenants"].fault("at least one tenant", "none")
    return tenants


_LIMIT_KEYS = ("requests_per_minute", "tokens_per_minute", "concurrency")


def _profiles(root: Section) -> dict[str, Plain]:
    root.only("version", "profiles")
    root["version"].name()
    profiles = {name: plain(field.node) for name, field in root["profiles"].section().named()}
    if Obligations().output_profile not in profiles:
        raise root["profiles"].fault("a profile named default", "none")
    return profiles


def _base_level(root: Section) -> Level:
    root.only("version", "base_level", "patterns")
    root["version"].name()
    patterns = root["patterns"]
    if patterns.items():
        raise patterns.fault("an empty list (own patterns are not supported in this version)", "patterns")
    return root["base_level"].level()


def _rules(field: Field, names: _Names) -> tuple[Rule, ...]:
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


def _rule(section: Section, names: _Names) -> Rule:
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
        condition=None if when is None else _condition(when),
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


def _cleared(field: Field, lowest: Level, highest: Level, names: _Names) -> tuple[str, ...]:
    chosen = field.distinct(lambda item: item.choice(names.destinations, "a destination of this file"))
    for item, name in zip(field.items(), chosen, strict=True):
        clearance = names.destinations[name].clearance
        if highest > clearance:
            # fail-closed: a condition cannot lower what `labels` admits, so it is not looked at.
            span = f"{lowest.word}..{highest.word}"
            expected = f"a clearance of at least {highest.word}, because the rule is for {span}"
            raise item.fault(expected, f"{name} with clearance {clearance.word}")
    return chosen


def _obligations(field: Field | None, names: _Names) -> Obligations:
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


def _condition(field: Field) -> Condition:
    source = field.text(max_characters=100_000)
    try:
        return compile_condition(source)
    except ConditionRefused as error:
        node = field.node
        if isinstance(node, Scalar) and node.is_one_line and node.style in {"", "'"} and error.line == 1:
            column = node.mark.column + (1 if node.style else 0) + error.column - 1
            place = type(node.mark)(node.mark.line, column)
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


def _known_cases(cases: tuple[Case, ...], names: _Names) -> tuple[Case, ...]:
    for case in cases:
        for name in (*(case.configured or ()), *(case.destinations or ())):
            if name not in names.destinations:
                hint = nearest(name, names.destinations)
                raise ConfigurationError(
                    f"{case.where}: expected a destination of routing.yaml{hint}, found {shown(name)}"
                )
    return cases
