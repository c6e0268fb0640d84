"""Test cases that stand beside the rules: facts, and the decision that they must get.

They run before a policy acts, so that a change of meaning is seen by whoever makes the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.domain.decision import WORKLOADS, Denial, Facts, Permit
from gateway.domain.label import Label, Tag
from gateway.policy.document import parse
from gateway.policy.fields import Field, Section

_FACT_KEYS = (
    "tenant", "label", "tags", "model", "roles", "scopes", "endpoint", "stream", "tools", "prompt",
    "prompt_tokens", "output_tokens", "extensions", "workload", "client", "protocols", "attributes", "region",
    "at",
)  # fmt: skip
ENDPOINTS = ("chat.completions", "responses", "completions", "embeddings", "messages")
MAX_TOKENS = 100_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `configured` is None for "every destination of the policy". Exactly one of
    `destinations` (in order) and `denied` (a code) is set; `rule` may name the rule that decides."""

    where: str
    name: str
    facts: Facts
    configured: frozenset[str] | None
    destinations: tuple[str, ...] | None
    denied: str | None
    rule: str | None

    def difference(self, decision: Permit | Denial) -> str | None:
        """What is wrong with a decision, in words; None when it is the expected one."""
        wanted = _sentence(self.destinations, self.denied)
        match decision:
            case Permit():
                places = tuple(place.name for place in decision.destinations)
                got, fits = _sentence(places, None), places == self.destinations
            case Denial():
                got, fits = _sentence(None, decision.code), decision.code == self.denied
        if not fits:
            return f"expected {wanted}, found {got} by {_rules(decision.rule_ids)}"
        if self.rule is not None and self.rule not in decision.rule_ids:
            return f"expected the decision of rule {self.rule}, found {_rules(decision.rule_ids)}"
        return None


def _sentence(destinations: tuple[str, ...] | None, code: str | None) -> str:
    return f"denial {code}" if destinations is None else f"permit for {', '.join(destinations)}"


def _rules(ids: tuple[str, ...]) -> str:
    return f"rule {', '.join(ids)}" if ids else "no rule"


def parse_cases(text: str, file: str) -> tuple[Case, ...]:
    """The cases of one file. Raises `ConfigurationError`."""
    root = Field(file, "", parse(text, file)).section().only("cases")
    return tuple(_case(item) for item in root["cases"].items())


def _case(item: Field) -> Case:
    section = item.section().only("name", "facts", "configured", "expect")
    expect = section["expect"].section().only("destinations", "denied", "rule")
    if ("destinations" in expect) == ("denied" in expect):
        raise expect.fault("either destinations or denied", "both" if "denied" in expect else "neither")
    configured = section.get("configured")
    destinations, denied, rule = expect.get("destinations"), expect.get("denied"), expect.get("rule")
    return Case(
        where=f"{item.file}:{item.mark.line}",
        name=section["name"].text(),
        facts=_facts(section["facts"].section()),
        configured=None if configured is None else frozenset(field.name() for field in configured.items()),
        destinations=None if destinations is None else destinations.distinct(Field.name),
        denied=None if denied is None else denied.name(),
        rule=None if rule is None else rule.name(),
    )


def _facts(section: Section) -> Facts:
    section.only(*_FACT_KEYS)
    tags = section.get("tags")
    prompt, stream = section.get("prompt"), section.get("stream")
    endpoint, workload = section.get("endpoint"), section.get("workload")
    client, region, at = section.get("client"), section.get("region"), section.get("at")
    attributes = section.get("attributes")
    return Facts(
        tenant=section["tenant"].text(),
        roles=_words(section.get("roles")),
        scopes=_words(section.get("scopes")),
        label=Label(section["label"].level(), frozenset() if tags is None else _tags(tags)),
        model=section["model"].text(),
        endpoint=ENDPOINTS[0] if endpoint is None else endpoint.choice(ENDPOINTS, "a known endpoint"),
        stream=False if stream is None else stream.boolean(),
        tool_names=_words(section.get("tools")),
        prompt=None if prompt is None else prompt.text(),
        prompt_tokens=_count(section.get("prompt_tokens")),
        output_tokens=_count(section.get("output_tokens")),
        extensions=_words(section.get("extensions")),
        workload=WORKLOADS[0] if workload is None else workload.choice(WORKLOADS, "a known workload"),
        client="" if client is None else client.text(),
        protocols=_words(section.get("protocols")),
        attributes=()
        if attributes is None
        else tuple(sorted((name, value.name()) for name, value in attributes.section())),
        region="" if region is None else region.name(),
        at_seconds=0 if at is None else _instant(at),
    )


def instant(text: str) -> int:
    """Unix time of `YYYY-MM-DDTHH:MM:SSZ`. Raises `ValueError`."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return int(moment.timestamp())


def _instant(field: Field) -> int:
    try:
        return instant(field.text())
    except ValueError:
        raise field.fault("a time such as 2026-11-30T08:15:00Z") from None


def _words(field: Field | None) -> frozenset[str]:
    return frozenset() if field is None else frozenset(item.text() for item in field.items())


def _tags(field: Field) -> frozenset[Tag]:
    names = tuple(tag.value for tag in Tag)
    return frozenset(Tag(item.choice(names, "a known tag")) for item in field.items())


def _count(field: Field | None) -> int:
    return 0 if field is None else field.integer(0, MAX_TOKENS)
