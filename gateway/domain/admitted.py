"""The one value that opens a connection."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.chat import ResolvedRequest
from gateway.domain.decision import WORKLOADS, Facts, Permit
from gateway.domain.finding import Verdict
from gateway.domain.limits import Reservation
from gateway.domain.principal import Principal
from gateway.domain.record import Receipt


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that passed every stage: who, what, which label, where to, reserved, recorded.

    `facts` are what the policy was asked, so that it can be asked again before a further attempt.

    Only `gateway/pipeline/admit.py` constructs it (held by a test over the source tree). There is no
    other argument by which `Upstream.open` could be persuaded. `workload` is one of
    `gateway.domain.decision.WORKLOADS`; `max_wait_seconds` how long the caller would wait for a place.
    """

    request_id: str
    principal: Principal
    request: ResolvedRequest
    verdict: Verdict
    permit: Permit
    reservation: Reservation
    receipt: Receipt
    facts: Facts
    workload: str = WORKLOADS[0]
    max_wait_seconds: float | None = None

    def __post_init__(self) -> None:
        # fail-closed: parts of different requests cannot be combined into an admission.
        if not (self.request_id == self.receipt.request_id == self.reservation.request_id):
            raise ValueError("an admission is made of one request")
        if self.verdict.label.level > self.permit.label.level:
            raise ValueError("the permit was given for a lower label than the verdict")
