"""Where people look at approvals and decide them.

Invariants
1. A decision is in the audit log before it acts; when it cannot be recorded, it does not act. When another
   decision or the end of the wait came first, a record says that it did not act.
2. An attempt that is refused, such as that of the person who asked, is in the log too.
3. A person sees only approvals of their own tenant: those of their role, and those they asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.approvals.judge import reason_not_to_decide, state_at
from gateway.approvals.store import RedisApprovals
from gateway.audit.canonical import LogEvent
from gateway.domain.approval import Approval, ApprovalAsk, ApprovalState
from gateway.domain.principal import Principal
from gateway.domain.record import Receipt
from gateway.errors import ApprovalDenied, ApprovalRequired, NotFound

_SENTENCES = {
    "approver-role-missing": "None of your roles may decide on this approval.",
    "approver-is-requester": "You asked for this approval yourself. Another person must decide.",
    "approval-closed": "This approval is decided, used or expired already.",
}


class ApprovalDesk:
    """`record` makes an event of the audit log durable; it raises `AuditUnavailable`."""

    def __init__(self, store: RedisApprovals, record: Callable[[LogEvent], Awaitable[Receipt]]) -> None:
        self._store = store
        self._record = record

    async def open_ones(self, principal: Principal) -> tuple[dict[str, Any], ...]:
        """The approvals that wait or can be used, as trees. Raises `ApprovalsUnavailable`."""
        found = await self._store.open_ones(principal.tenant)
        return tuple(_tree(each, now) for each, now in found if _may_see(principal, each.ask))

    async def one(self, principal: Principal, approval_id: str) -> dict[str, Any]:
        """One approval as a tree. Raises `NotFound`, `ApprovalsUnavailable`."""
        approval, now_ms = await self._found(principal, approval_id)
        return _tree(approval, now_ms)

    async def decide(self, principal: Principal, approval_id: str, *, is_granted: bool) -> dict[str, Any]:
        """Approve or deny. Raises `NotFound`, `ApprovalDenied` (403), `ApprovalRequired` (409: closed),
        `ApprovalsUnavailable`, `AuditUnavailable`."""
        approval, now_ms = await self._found(principal, approval_id)
        reason = reason_not_to_decide(approval, approval_id, principal, now_ms)
        if reason is not None:
            await self._record(_event("approval-refused", reason, approval, principal))
            kind = ApprovalRequired if reason == "approval-closed" else ApprovalDenied
            raise kind(_SENTENCES[reason], code=reason)
        state = ApprovalState.APPROVED if is_granted else ApprovalState.DENIED
        name = "approval-granted" if is_granted else "approval-denied"
        await self._record(_event(name, "ok", approval, principal))
        if not await self._store.move(approval, state, principal.subject_ref):
            await self._record(_event("approval-void", "approval-closed", approval, principal))
            raise ApprovalRequired(_SENTENCES["approval-closed"], code="approval-closed")
        return await self.one(principal, approval_id)

    async def _found(self, principal: Principal, approval_id: str) -> tuple[Approval, int]:
        found = await self._store.find(principal.tenant, approval_id)
        ask = None if found is None else found[0].ask
        if found is None or ask is None or not _may_see(principal, ask):
            # fail-closed: whoever has nothing to do with it is not told that there is something.
            raise NotFound("There is no approval of this id for you.", code="approval-unknown")
        return found


def _may_see(principal: Principal, ask: ApprovalAsk) -> bool:
    return ask.role in principal.roles or ask.subject_ref == principal.subject_ref


def _event(name: str, code: str, approval: Approval, principal: Principal) -> LogEvent:
    ask = approval.ask
    return LogEvent(
        name,
        code,
        (
            ("approval_id", approval.id),
            ("tenant", ask.tenant),
            ("approver_ref", principal.subject_ref),
            ("requester_ref", ask.subject_ref),
            ("request_id", ask.request_id),
            ("request_hmac", ask.request_hmac),
            ("policy_sha256", ask.policy_sha256),
            ("rule_ids", " ".join(ask.rule_ids)),
            ("destinations", " ".join(ask.destinations)),
            ("level", ask.level),
        ),
    )


def _tree(approval: Approval, now_ms: int) -> dict[str, Any]:
    ask = approval.ask
    return {
        "id": approval.id,
        "state": state_at(approval, now_ms).value,
        "seconds_left": max(0, approval.until_ms - now_ms) // 1000,
        "asked_at": approval.asked_ms // 1000,
        "request_id": ask.request_id,
        "requester_ref": ask.subject_ref,
        "client_id": ask.client_id,
        "model": ask.model,
        "level": ask.level,
        "tags": list(ask.tags),
        "destinations": list(ask.destinations),
        "rule_ids": list(ask.rule_ids),
        "policy_sha256": ask.policy_sha256,
        "request_hmac": ask.request_hmac,
        "approver_role": ask.role,
        "approver_ref": approval.approver_ref,
    }
