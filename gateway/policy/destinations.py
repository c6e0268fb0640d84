"""The `models` and `destinations` sections of routing.yaml.

Invariants
1. Every destination has a clearance, says whether it is hosted, and names its region and exact hosts.
2. A hosted destination states what its operator keeps, and for how long.
3. A model of a destination has one name, or two: a variant for speed and one for throughput.
4. A destination serves only logical models that the same file declares.
"""

from __future__ import annotations

from collections.abc import Mapping as Named

from gateway.domain.decision import OPERATIONS, Destination
from gateway.policy.compiled import SPEED, THROUGHPUT, DestinationPolicy
from gateway.policy.document import Mapping
from gateway.policy.fields import Field, Section

KINDS = ("openai", "vllm", "anthropic")


def read_models(section: Section) -> dict[str, str]:
    """Logical model → description. Raises `ConfigurationError`."""
    models = {}
    for name, field in section.named():
        models[name] = field.section().only("description")["description"].text()
    if not models:
        raise section.fault("at least one logical model", "none")
    return models


def read_destinations(section: Section, models: Named[str, str]) -> dict[str, DestinationPolicy]:
    """Name → destination, for the logical models of the file. Raises `ConfigurationError`."""
    found = {name: _destination(name, field.section(), models) for name, field in section.named()}
    if not found:
        raise section.fault("at least one destination", "none")
    return found


def _destination(name: str, section: Section, models: Named[str, str]) -> DestinationPolicy:
    section.only(
        "kind",
        "clearance",
        "hosted",
        "region",
        "retention",
        "zero_retention",
        "hosts",
        "models",
        "extensions",
        "operations",
    )
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
    stated = section.get("operations")
    operations = frozenset({"chat"}) if stated is None else frozenset(stated.distinct(_operation))
    served, batches = {}, {}
    for logical, field in section["models"].section().only(*models).named():
        speed, throughput = _variants(field)
        served[logical] = Destination(name, kind, clearance, hosted, region, speed, extensions, operations)
        if throughput is not None:
            batches[logical] = Destination(
                name, kind, clearance, hosted, region, throughput, extensions, operations
            )
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
        throughput=batches,
        keeps_nothing=not hosted or _keeps_nothing(section),
    )


def _variants(field: Field) -> tuple[str, str | None]:
    """A place's own name of a model; two when it has a fast variant and one for batches."""
    if not isinstance(field.node, Mapping):
        return field.name(), None
    section = field.section().only(SPEED, THROUGHPUT)
    return section[SPEED].name(), section[THROUGHPUT].name()


def _keeps_nothing(section: Section) -> bool:
    statement = section.get("zero_retention")
    return statement is not None and statement.boolean()


def _listed(field: Field) -> tuple[str, ...]:
    """A list of names that may be empty."""
    return field.distinct(Field.name) if field.items() else ()


def _operation(field: Field) -> str:
    words = sorted(set(OPERATIONS.values()))
    return field.choice(words, f"one of {', '.join(words)}")


def _host(field: Field) -> str:
    host = field.text(253)
    if not all(character.isascii() and (character.isalnum() or character in ".-:") for character in host):
        raise field.fault("a host name or address without scheme, port and path")
    if host != host.lower():
        raise field.fault("a host name in lowercase")
    return host
