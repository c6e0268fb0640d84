"""Between reserving and recording: does a person agree, where the rule wants one to?

Invariants
1. A permit without the obligation costs one comparison.
2. What is approved is the resolved request as a whole, with the caller, the policy, every destination of the
   permit and the label. Its digest is keyed, so it tells nothing about short texts.
3. The approval is used up before the intent is recorded: a fault after that costs one, never gives one.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.domain.approval import APPROVAL_ID, ApprovalAsk, ApprovalFact, ApprovalState
from gateway.domain.chat import ResolvedRequest
from gateway.domain.decision import Permit
from gateway.domain.principal import Principal
from gateway.errors import ApprovalRequired
from gateway.pipeline.ports import Approvals

HEADER = "x-tidegate-approval"


async def check_approval(
    approvals: Approvals,
    approval_id: str | None,
    principal: Principal,
    resolved: ResolvedRequest,
    permit: Permit,
    request_id: str,
    keyed_digest: Callable[[bytes], str],
    note: Callable[[ApprovalFact], None],
) -> None:
    """Return when nobody need agree, or somebody did; the approval is then used up.

    `note` takes what the record is to say, before this raises or returns. Raises `ApprovalRequired`,
    `ApprovalDenied`, `ApprovalsUnavailable`.
    """
    role = permit.obligations.approver_role
    if role is None:
        return
    ask = asked(principal, resolved, permit, role, request_id, keyed_digest)
    if approval_id is not None:
        if APPROVAL_ID.fullmatch(approval_id) is not None:
            note(ApprovalFact(approval_id, "refused"))
        note(await approvals.use(approval_id, ask))
        return
    approval = await approvals.ask(ask)
    note(ApprovalFact(approval.id, approval.state.value, approval.approver_ref))
    raise _required(approval.id, approval.state, role)


def asked(
    principal: Principal,
    resolved: ResolvedRequest,
    permit: Permit,
    role: str,
    request_id: str,
    keyed_digest: Callable[[bytes], str],
) -> ApprovalAsk:
    """What an approval of this request is bound to."""
    return ApprovalAsk(
        tenant=principal.tenant,
        subject_ref=principal.subject_ref,
        request_hmac=keyed_digest(b"approval request:" + canonical(resolved)),
        policy_sha256=permit.policy_sha256,
        destinations=tuple(f"{place.name}/{place.model}" for place in permit.destinations),
        level=permit.label.level.word,
        tags=permit.label.sorted_tags,
        role=role,
        rule_ids=permit.rule_ids,
        model=resolved.chat.model,
        client_id=principal.client_id,
        request_id=request_id,
    )


def canonical(resolved: ResolvedRequest) -> bytes:
    """One spelling of everything that could leave or act: messages, tools, settings, pins, schemas."""
    offered = [(tool.name, tool.source, tool.schema_sha256) for tool in resolved.offered]
    return msgspec.json.encode((resolved.chat, resolved.pins, resolved.floor_level, offered))


def _required(approval_id: str, state: ApprovalState, role: str) -> ApprovalRequired:
    if state is ApprovalState.APPROVED:
        sentence = (
            f"This request is approved. Send it again unchanged with the header {HEADER}: {approval_id}."
        )
    else:
        sentence = (
            f"This request needs the approval of a person with the role {role}. Its approval id is"
            f" {approval_id}. When it is approved, send the same request again with the header"
            f" {HEADER}: {approval_id}."
        )
    return ApprovalRequired(sentence, param=HEADER, headers=((HEADER.encode(), approval_id.encode()),))
