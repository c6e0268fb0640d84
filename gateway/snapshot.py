"""The set of rules that one request keeps from its first stage to its last.

Invariants
1. A snapshot is immutable. Activation swaps the holder's reference; running requests keep theirs.
2. The holder starts empty and is never emptied again: no first good snapshot, no service.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.domain.caller import Caller
from gateway.domain.chat import ChatRequest, ResolvedRequest
from gateway.domain.decision import Decision, Destination, Facts, Permit
from gateway.domain.finding import Verdict
from gateway.domain.label import Label
from gateway.domain.limits import Quota, Usage
from gateway.domain.record import ShadowFact
from gateway.domain.stream import OutputFilter
from gateway.errors import NotReady


def _no_price(place: Destination, usage: Usage, at_seconds: int) -> int | None:
    return None


def _no_account(destination: str) -> tuple[str, tuple[Quota, ...]] | None:
    return None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Compiled protocols, detectors and policy, as the functions that the walk calls.

    `resolve(request, caller)` raises `Refusal`. `classify(resolved, floor)` never raises and never gives
    a label below `floor`. `decide(facts)` never raises. `private_only(permit)` drops hosted
    destinations (None when none is left). `models(tenant)` lists logical models. `new_filter(profile,
    tenant, request)` gives the output filter of one exchange. `shadow(facts, decision)` says what a candidate
    would have decided otherwise; it never raises and is only recorded. `cost(destination, usage,
    unix_seconds)` is in micro-dollars, None when no price is known. `account(destination)` gives the account
    whose limits tenants share there, and these limits; None: there are none.
    Digests are sha256 in hex.
    """

    resolve: Callable[[ChatRequest, Caller], ResolvedRequest]
    classify: Callable[[ResolvedRequest, Label], Verdict]
    decide: Callable[[Facts], Decision]
    private_only: Callable[[Permit], Permit | None]
    tenant_floor: Callable[[str], Label]
    models: Callable[[str], tuple[str, ...]]
    new_filter: Callable[[str, str, ChatRequest], OutputFilter]
    policy_sha256: str
    protocols_sha256: str
    detectors_sha256: str
    loaded_at_us: int
    shadow: Callable[[Facts, Decision], ShadowFact | None] | None = None
    cost: Callable[[Destination, Usage, int], int | None] = _no_price
    account: Callable[[str], tuple[str, tuple[Quota, ...]] | None] = _no_account


class SnapshotHolder:
    """Holds the active snapshot; swapped whole."""

    __slots__ = ("_current",)

    def __init__(self, current: Snapshot | None = None) -> None:
        self._current = current

    @property
    def current(self) -> Snapshot:
        """The active snapshot. Raises `NotReady` before the first one."""
        if self._current is None:
            # fail-closed: without a first good policy nothing is decided.
            raise NotReady("The gateway has no valid policy yet. Try again later.", code="no-policy")
        return self._current

    @property
    def is_empty(self) -> bool:
        """True until the first activation."""
        return self._current is None

    def activate(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the active one for requests that start from now on."""
        self._current = snapshot
