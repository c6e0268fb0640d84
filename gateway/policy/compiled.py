"""A policy that passed every check, as values. Built by `gateway.policy.compile` only.

Invariants
1. No permit rule names a destination whose clearance is below the rule's `highest` level.
2. Every name in a rule (model, tenant, destination, profile) exists in the same policy.
3. Every tenant has all three limits, each above 0.
4. No permit rule has an obligation that one of its destinations does not honour.
5. `sha256` names the meaning of the files: comments, blanks and the order of keys do not change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.domain.custom import CustomDetectors
from gateway.domain.decision import Destination, Obligations
from gateway.domain.label import Label, Level
from gateway.domain.limits import Quota, TenantLimits
from gateway.policy.cases import Case
from gateway.policy.document import Plain
from gateway.policy.expression import Condition, Ladder
from gateway.policy.prices import NO_PRICES, PriceTable

SPEED, THROUGHPUT = "speed", "throughput"
UNKNOWN_TENANT_FLOOR = Level.RESTRICTED


@dataclass(frozen=True, slots=True)
class DestinationPolicy:
    """What the policy trusts a destination with.

    `hosts` are exact host names that the settings' URL may have. `models` maps each logical model that
    it serves to the `Destination` of a permit. `retention` is the contract's statement, for hosted ones.
    `keeps_nothing`: a hosted operator keeps nothing of a request, or the place is the company's own.
    `throughput` holds the models that have a second variant, for batches; then `models` has the fast one.
    """

    name: str
    kind: str
    clearance: Level
    hosted: bool
    region: str
    retention: str | None
    hosts: frozenset[str]
    extensions: frozenset[str]
    models: Mapping[str, Destination]
    throughput: Mapping[str, Destination] = field(default_factory=dict)
    keeps_nothing: bool = False

    def serving(self, model: str, variant: str) -> Destination | None:
        """The place that serves a logical model in this variant; its only one when it has no variants."""
        place = self.throughput.get(model) if variant == THROUGHPUT else None
        return place if place is not None else self.models.get(model)

    def honours(self, obligations: Obligations) -> bool:
        """Whether the place is in a wanted region and keeps nothing where that is demanded."""
        if obligations.regions and self.region not in obligations.regions:
            return False
        return self.keeps_nothing or not obligations.zero_retention


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """Limits of one tenant, and the label below which none of its requests is treated."""

    name: str
    floor: Label
    limits: TenantLimits


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `models` and `tenants` are None for "all". `deny` holds the public sentence of a denial;
    a rule with `deny` has no destinations."""

    id: str
    lowest: Level
    highest: Level
    models: frozenset[str] | None
    tenants: frozenset[str] | None
    condition: Condition | None
    destinations: tuple[str, ...]
    obligations: Obligations
    deny: str | None = None

    def covers(self, tenant: str, model: str, level: Level) -> bool:
        """Whether the rule speaks about this tenant, model and level, its condition aside."""
        return (
            self.lowest <= level <= self.highest
            and (self.models is None or model in self.models)
            and (self.tenants is None or tenant in self.tenants)
        )


@dataclass(frozen=True, slots=True)
class RuleList:
    """Rules that are asked in order. The ladder asks all conditions but the last rule's when that one
    has none: `falls_to_last` says so."""

    rules: tuple[Rule, ...]
    ladder: Ladder
    falls_to_last: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """What is left of the policy for one tenant, model and level."""

    denies: RuleList
    permits: RuleList


@dataclass(slots=True)
class Memory:
    """Scopes that were asked for, and the rule lists that they share. Bounded by tenants × models ×
    levels; holds nothing that the policy's other fields do not imply."""

    scopes: dict[tuple[str, str, Level], Scope] = field(default_factory=dict)
    rule_lists: dict[tuple[str, ...], RuleList] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """One whole policy. `models` are the logical models with their descriptions; `output_profiles` are
    the raw trees for the output room; `base_level` is the level of a text without findings.
    `detectors` is the whole tree of detectors.yaml; `own_detectors` what it says, for the sensitivity room.
    `attributes` maps the name of each attribute that a caller may send to its values. `shared` are limits
    that tenants share, by destination, with the account whose keys hold them. `revision` grows with every
    change that is to act; an older one is not taken.
    """

    id: str
    version: str
    sha256: str
    models: Mapping[str, str]
    destinations: Mapping[str, DestinationPolicy]
    tenants: Mapping[str, TenantPolicy]
    rules: tuple[Rule, ...]
    output_profiles: Mapping[str, Plain]
    base_level: Level
    detectors: Plain
    own_detectors: CustomDetectors = field(default_factory=CustomDetectors)
    cases: tuple[Case, ...] = ()
    attributes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    shared: Mapping[str, tuple[str, tuple[Quota, ...]]] = field(default_factory=dict)
    prices: PriceTable = NO_PRICES
    revision: int = 0
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes, sorted."""
        return tuple(sorted(self.attributes))

    def floor(self, tenant: str) -> Label:
        """Least label of this tenant's requests."""
        known = self.tenants.get(tenant)
        # fail-closed: who is not in limits.yaml is treated as if all of its data were restricted.
        return known.floor if known is not None else Label(UNKNOWN_TENANT_FLOOR)
