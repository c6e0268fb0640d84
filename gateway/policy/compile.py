"""Policy files, as text, to a `CompiledPolicy`; whatever could break the promise is refused here.

Invariants
1. Unknown keys, names and files are refused: nothing that an administrator wrote is ignored.
2. Pure: the same files give the same policy and the same `sha256`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from gateway.domain.decision import Obligations
from gateway.errors import ConfigurationError
from gateway.policy.cases import Case, parse_cases
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.destinations import read_destinations, read_models
from gateway.policy.document import Plain, parse, plain, shown
from gateway.policy.fields import Field, Section, nearest
from gateway.policy.own_detectors import DICTIONARIES_PREFIX, read_detectors
from gateway.policy.prices import NO_PRICES, read_prices
from gateway.policy.quotas import read_shared, read_tenants
from gateway.policy.rules import Names, read_rules

ROUTING, LIMITS, OUTPUT, DETECTORS = "routing.yaml", "limits.yaml", "output.yaml", "detectors.yaml"
REQUIRED_FILES = (ROUTING, LIMITS, OUTPUT, DETECTORS)
#: What it costs; may be missing.
PRICES = "prices.yaml"
CASES_PREFIX = "cases/"

MAX_REVISION = 2**53 - 1
MAX_ATTRIBUTES = 16
#: An attribute's name is a word of CEL and, with `-` for `_`, the end of a header's name.
ATTRIBUTE_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def compile_bundle(files: Mapping[str, str]) -> CompiledPolicy:
    """The policy of these files (name → text): the four of `REQUIRED_FILES`, `PRICES` and any `cases/*.yaml`.

    Does not run the cases. Raises `ConfigurationError` at the first fault: file, line, column, key,
    expected, found.
    """
    for name in files:
        if name not in (*REQUIRED_FILES, PRICES) and not name.startswith((CASES_PREFIX, DICTIONARIES_PREFIX)):
            hint = nearest(name, REQUIRED_FILES)
            raise ConfigurationError(
                f"{name}: expected one of {', '.join(REQUIRED_FILES)}, found another file{hint}"
            )
    sections = {name: _root(files, name) for name in REQUIRED_FILES}
    routing = sections[ROUTING].only(
        "id", "version", "revision", "attributes", "models", "destinations", "rules"
    )
    profiles = _profiles(sections[OUTPUT])
    dictionaries = {name: files[name] for name in files if name.startswith(DICTIONARIES_PREFIX)}
    base_level, own_detectors = read_detectors(sections[DETECTORS], dictionaries)
    attributes, revision = _attributes(routing.get("attributes")), routing.get("revision")
    models = read_models(routing["models"].section())
    destinations = read_destinations(routing["destinations"].section(), models)
    if PRICES in files:
        sections[PRICES] = _root(files, PRICES)
    names = Names(
        models,
        destinations,
        read_tenants(sections[LIMITS], models),
        profiles,
        tuple(sorted(attributes)),
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
        sha256=_digest(sections, own_detectors.sha256),
        models=names.models,
        destinations=names.destinations,
        tenants=names.tenants,
        rules=read_rules(routing["rules"], names),
        output_profiles=profiles,
        base_level=base_level,
        detectors=plain(sections[DETECTORS].node),
        own_detectors=own_detectors,
        cases=cases,
        attributes=attributes,
        shared=read_shared(sections[LIMITS], destinations),
        prices=read_prices(sections[PRICES], destinations) if PRICES in sections else NO_PRICES,
        revision=0 if revision is None else revision.integer(0, MAX_REVISION),
    )


def _root(files: Mapping[str, str], name: str) -> Section:
    if name not in files:
        raise ConfigurationError(f"{name}: expected this file in the policy folder, found nothing")
    return Field(name, "", parse(files[name], name)).section()


def _digest(sections: Mapping[str, Section], own_sha256: str) -> str:
    tree: dict[str, Plain] = {name: plain(section.node) for name, section in sections.items()}
    tree["own_detectors"] = own_sha256
    canonical = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def _attributes(field: Field | None) -> dict[str, frozenset[str]]:
    """Attribute → values that a caller may send for it."""
    found: dict[str, frozenset[str]] = {}
    for name, item in () if field is None else field.section():
        if not ATTRIBUTE_NAME.fullmatch(name):
            raise item.fault("an attribute name of a-z, 0-9 and _ (at most 32)", shown(name))
        found[name] = frozenset(item.section().only("values")["values"].distinct(Field.name))
    if field is not None and len(found) > MAX_ATTRIBUTES:
        raise field.fault(f"at most {MAX_ATTRIBUTES} attributes", str(len(found)))
    return found


def _profiles(root: Section) -> dict[str, Plain]:
    root.only("version", "profiles")
    root["version"].name()
    profiles = {name: plain(field.section().node) for name, field in root["profiles"].section().named()}
    if Obligations().output_profile not in profiles:
        raise root["profiles"].fault("a profile named default", "none")
    return profiles


def _known_cases(cases: tuple[Case, ...], names: Names) -> tuple[Case, ...]:
    for case in cases:
        for name in (*(case.configured or ()), *(case.destinations or ())):
            if name not in names.destinations:
                hint = nearest(name, names.destinations)
                raise ConfigurationError(
                    f"{case.where}: expected a destination of routing.yaml{hint}, found {shown(name)}"
                )
    return cases
