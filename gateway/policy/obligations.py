"""The obligations of a rule, with the proof that each of its destinations can honour them.

Invariants
1. An obligation that a destination of the rule cannot honour is refused, with the destination's name.
2. An obligation that this version cannot keep is refused, not ignored: `mask`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.domain.decision import Obligations
from gateway.policy.cases import MAX_TOKENS
from gateway.policy.compiled import SPEED, THROUGHPUT, DestinationPolicy
from gateway.policy.document import Plain
from gateway.policy.fields import Field, Section

AUDIT_LEVELS = ("metadata",)
VARIANTS = (SPEED, THROUGHPUT)
#: Role of the people who may agree to a request, unless the rule names another.
APPROVER_ROLE = "approver"
_KEYS = (
    "output_profile", "audit_level", "max_output_tokens", "regions", "zero_retention", "variant",
    "approval_required", "approver_role", "mask",
)  # fmt: skip
#: What a policy may want and this version cannot do yet.
RESERVED = {
    "mask": "no mask, because prompts cannot be masked yet; keep such data on a private destination",
}


def read_obligations(
    field: Field | None,
    profiles: Mapping[str, Plain],
    places: Mapping[str, DestinationPolicy],
    models: Iterable[str],
) -> Obligations:
    """The obligations of a rule for these destinations and logical models. Raises `ConfigurationError`."""
    usual = Obligations()
    if field is None:
        return usual
    section = field.section().only(*_KEYS)
    for key, expected in RESERVED.items():
        if key in section:
            # fail-closed: an obligation that is read and not kept would be worse than none.
            raise section[key].fault(expected)
    profile, audit, tokens = (
        section.get(key) for key in ("output_profile", "audit_level", "max_output_tokens")
    )
    return Obligations(
        output_profile=usual.output_profile
        if profile is None
        else profile.choice(profiles, "a profile of output.yaml"),
        audit_level=usual.audit_level
        if audit is None
        else audit.choice(AUDIT_LEVELS, "audit level metadata"),
        max_output_tokens=None if tokens is None else tokens.integer(1, MAX_TOKENS),
        regions=_regions(section, places),
        zero_retention=_zero_retention(section, places),
        variant=_variant(section, places, models),
        approver_role=_approver_role(section),
    )


def _approver_role(section: Section) -> str | None:
    """Role of the people who may agree; None when nobody needs to."""
    field, role = section.get("approval_required"), section.get("approver_role")
    is_required = field is not None and field.boolean()
    if role is None:
        return APPROVER_ROLE if is_required else None
    if not is_required:
        # fail-closed: who names an approver means that one is asked.
        raise role.fault("approval_required: true beside it")
    return role.name()


def _regions(section: Section, places: Mapping[str, DestinationPolicy]) -> frozenset[str]:
    field = section.get("regions")
    if field is None:
        return frozenset()
    wanted = field.distinct(Field.name)
    for name, place in places.items():
        if place.region not in wanted:
            raise field.fault(
                f"a region of every destination of the rule; {name} is in {place.region}", ", ".join(wanted)
            )
    return frozenset(wanted)


def _zero_retention(section: Section, places: Mapping[str, DestinationPolicy]) -> bool:
    field = section.get("zero_retention")
    if field is None or not field.boolean():
        return False
    for name, place in places.items():
        if not place.keeps_nothing:
            raise field.fault(f"destinations that keep nothing; {name} does not state zero_retention: true")
    return True


def _variant(section: Section, places: Mapping[str, DestinationPolicy], models: Iterable[str]) -> str | None:
    field = section.get("variant")
    if field is None:
        return None
    variant = field.choice(VARIANTS, f"one of {', '.join(VARIANTS)}")
    for name, place in places.items():
        for model in models:
            if model in place.models and model not in place.throughput:
                raise field.fault(f"destinations with both variants; {name} has only one of {model}")
    return variant
