"""Two answers to the same facts: what a change of policy changes.

An answer is a decision without texts, so that one from the audit log and one that is made now compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.domain.decision import Decision, Permit
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import evaluate


@dataclass(frozen=True, slots=True)
class Answer:
    """Destinations in order, or the code of a denial; and the rules that decided. `needs_approval`: a person
    must agree first."""

    destinations: tuple[str, ...]
    denied: str | None
    rule_ids: tuple[str, ...]
    needs_approval: bool = False

    @property
    def words(self) -> str:
        """The answer without its rules, in words."""
        if self.denied is not None:
            return f"denial {self.denied}"
        places = ", ".join(self.destinations)
        return f"{places} after approval" if self.needs_approval else places

    @property
    def rule(self) -> str:
        """The deciding rule, or a word for none."""
        return ", ".join(self.rule_ids) or "(no rule)"


def answer_of(decision: Decision) -> Answer:
    """A decision as an answer."""
    if isinstance(decision, Permit):
        places = tuple(place.name for place in decision.destinations)
        return Answer(places, None, decision.rule_ids, decision.obligations.approver_role is not None)
    return Answer((), decision.code, decision.rule_ids)


class Kind(StrEnum):
    """How two answers differ. A change with a destination that was not permitted before is `widened`,
    whatever else it does: it is the one to look at first. `unattended`: nobody need agree any more."""

    SAME = "same"
    RULE = "rule-only"
    OPENED = "opened"
    CLOSED = "closed"
    WIDENED = "widened"
    NARROWED = "narrowed"
    REORDERED = "reordered"
    UNATTENDED = "unattended"
    ATTENDED = "attended"
    CODE = "denial-code"


def kind_of(old: Answer, new: Answer) -> Kind:
    """How `new` differs from `old`."""
    is_alike = old.needs_approval == new.needs_approval
    if is_alike and (old.destinations, old.denied) == (new.destinations, new.denied):
        return Kind.SAME if old.rule_ids == new.rule_ids else Kind.RULE
    if old.denied is not None:
        return Kind.CODE if new.denied is not None else Kind.OPENED
    if new.denied is not None:
        return Kind.CLOSED
    if not set(new.destinations) <= set(old.destinations):
        return Kind.WIDENED
    if not is_alike:
        return Kind.ATTENDED if new.needs_approval else Kind.UNATTENDED
    return Kind.NARROWED if len(new.destinations) < len(old.destinations) else Kind.REORDERED


@dataclass(frozen=True, slots=True)
class Change:
    """One subject (a case, or a request by its id) whose answer differs."""

    subject: str
    tenant: str
    kind: Kind
    old: Answer
    new: Answer


@dataclass(slots=True)
class Tally:
    """Counts over many comparisons, and every change. `rule_only_count` are the same answers by another
    rule; they are no changes."""

    compared_count: int = 0
    rule_only_count: int = 0
    changes: list[Change] = field(default_factory=list)

    def add(self, subject: str, tenant: str, old: Answer, new: Answer) -> Kind:
        """Compare two answers and count them."""
        kind = kind_of(old, new)
        self.compared_count += 1
        if kind is Kind.RULE:
            self.rule_only_count += 1
        elif kind is not Kind.SAME:
            self.changes.append(Change(subject, tenant, kind, old, new))
        return kind

    def by_kind(self) -> dict[str, list[str]]:
        """Kind → ids."""
        return _grouped((change.kind.value, change.subject) for change in self.changes)

    def by_rule(self) -> dict[str, list[str]]:
        """`old rule -> new rule` → ids."""
        pairs = ((f"{change.old.rule} -> {change.new.rule}", change.subject) for change in self.changes)
        return _grouped(pairs)

    def by_tenant(self) -> dict[str, list[str]]:
        """Tenant → ids."""
        return _grouped((change.tenant, change.subject) for change in self.changes)

    def by_destination(self) -> dict[str, list[str]]:
        """`+name` for a destination that was added, `-name` for one that went, `>name` for another first
        choice → ids."""
        return _grouped((mark, change.subject) for change in self.changes for mark in _marks(change))


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, subject in pairs:
        groups.setdefault(key, []).append(subject)
    return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))


def _marks(change: Change) -> list[str]:
    old, new = change.old.destinations, change.new.destinations
    marks = [f"+{name}" for name in new if name not in old] + [f"-{name}" for name in old if name not in new]
    if new and old and new[0] != old[0] and new[0] in old and old[0] in new:
        marks.append(f">{new[0]}")
    return marks


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two policies as files: names by part, added, removed and changed."""

    part: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def differences(old: CompiledPolicy, new: CompiledPolicy) -> tuple[Difference, ...]:
    """Parts with at least one difference. Rules are compared by id; their order is a part of its own."""
    before, after = ({rule.id: rule for rule in policy.rules} for policy in (old, new))
    parts: list[tuple[str, Mapping[str, object], Mapping[str, object]]] = [
        ("models", old.models, new.models),
        ("destinations", old.destinations, new.destinations),
        ("tenants", old.tenants, new.tenants),
        ("attributes", old.attributes, new.attributes),
        ("output profiles", old.output_profiles, new.output_profiles),
        ("detectors", {"detectors.yaml": old.detectors}, {"detectors.yaml": new.detectors}),
        (
            "rules",
            {name: _meaning(policy_rule) for name, policy_rule in before.items()},
            {name: _meaning(policy_rule) for name, policy_rule in after.items()},
        ),
    ]
    found = [mapping_difference(part, a, b) for part, a, b in parts]
    common = [name for name in after if name in before]
    if common != [name for name in before if name in after]:
        found.append(Difference("rule order", (), (), tuple(common)))
    return tuple(each for each in found if each.added or each.removed or each.changed)


def _meaning(rule: object) -> tuple[object, ...]:
    """A rule's fields; a compiled condition counts by its source."""
    names = type(rule).__dataclass_fields__  # type: ignore[attr-defined]
    values = (getattr(rule, name) for name in names)
    return tuple(getattr(value, "source", value) for value in values)


def mapping_difference(part: str, old: Mapping[str, object], new: Mapping[str, object]) -> Difference:
    """Names that were added, removed and changed between two mappings."""
    return Difference(
        part,
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
        tuple(name for name in new if name in old and new[name] != old[name]),
    )


def compare_cases(old: CompiledPolicy, new: CompiledPolicy) -> Tally:
    """The cases of both policies, each decided by both; a case that both have is taken once."""
    tally = Tally()
    seen: set[tuple[object, ...]] = set()
    for case in (*new.cases, *old.cases):
        key = (case.facts, case.configured)
        if key in seen:
            continue
        seen.add(key)
        answers = []
        for policy in (old, new):
            configured = frozenset(policy.destinations) if case.configured is None else case.configured
            answers.append(answer_of(evaluate(policy, case.facts, configured)))
        tally.add(f"{case.where}: {case.name}", case.facts.tenant, answers[0], answers[1])
    return tally
