"""Who may decide an approval, and which request it lets through. Pure.

Invariants
1. An approval lets through the one request that it was asked for: same tenant, caller, resolved request,
   policy, destinations and label.
2. Nobody decides on a request of their own.
3. An id names its place in the store and one round there: a new round never answers to an older id.
"""

from __future__ import annotations

from typing import Literal

from gateway.domain.approval import APPROVAL_ID, Approval, ApprovalAsk, ApprovalState
from gateway.domain.principal import Principal

#: Why an approval does not let a request through.
UseReason = Literal[
    "approval-unknown",
    "approval-not-yours",
    "approval-denied",
    "approval-mismatch",
    "approval-used",
    "approval-expired",
    "approval-pending",
]
#: Why somebody may not decide.
DecideReason = Literal[
    "approval-unknown", "approver-role-missing", "approver-is-requester", "approval-closed"
]


def new_id(place: str, nonce: str) -> str:
    """Id of a new round at `place` (32 hex digits); `nonce` is 16 random hex digits."""
    return f"apr_{place}{nonce}"


def place_of(approval_id: str) -> str | None:
    """Where the approval of this id is kept: 32 hex digits; None for what is no id."""
    match = APPROVAL_ID.fullmatch(approval_id)
    return None if match is None else match[1]


def state_at(approval: Approval, now_ms: int) -> ApprovalState:
    """Its state at a time: what waits too long has expired."""
    is_open = approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    return ApprovalState.EXPIRED if is_open and now_ms >= approval.until_ms else approval.state


def reason_not_to_use(
    approval: Approval | None, approval_id: str, ask: ApprovalAsk, now_ms: int
) -> UseReason | None:
    """Why this approval does not let the request of `ask` through; None when it does."""
    if approval is None or approval.id != approval_id or approval.ask.tenant != ask.tenant:
        return "approval-unknown"
    if approval.ask.subject_ref != ask.subject_ref:
        # fail-closed: what one caller was allowed does not hold for another, who learns nothing more.
        return "approval-not-yours"
    if bound(approval.ask) != bound(ask):
        return "approval-mismatch"
    match state_at(approval, now_ms):
        case ApprovalState.APPROVED:
            return None
        case ApprovalState.DENIED:
            return "approval-denied"
        case ApprovalState.USED:
            return "approval-used"
        case ApprovalState.EXPIRED:
            return "approval-expired"
        case ApprovalState.PENDING:
            return "approval-pending"


def reason_not_to_decide(
    approval: Approval | None, approval_id: str, principal: Principal, now_ms: int
) -> DecideReason | None:
    """Why this person may not approve or deny; None when they may."""
    if approval is None or approval.id != approval_id or approval.ask.tenant != principal.tenant:
        return "approval-unknown"
    if approval.ask.role not in principal.roles:
        return "approver-role-missing"
    if approval.ask.subject_ref == principal.subject_ref:
        # fail-closed: four eyes. The digest is over tenant and subject, so another token does not help.
        return "approver-is-requester"
    if state_at(approval, now_ms) is not ApprovalState.PENDING:
        return "approval-closed"
    return None


def bound(ask: ApprovalAsk) -> tuple[str | tuple[str, ...], ...]:
    """Everything that must be the same when the request comes again."""
    return (
        ask.tenant,
        ask.subject_ref,
        ask.request_hmac,
        ask.policy_sha256,
        ask.destinations,
        ask.level,
        ask.tags,
        ask.role,
    )
