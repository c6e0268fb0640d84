"""An approval: what a person is asked to allow, and what became of it. Digests and facts, never content."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

#: Shape of an approval's id: its place (32 hex digits), and a number of the round there (16).
APPROVAL_ID = re.compile(r"apr_([0-9a-f]{32})[0-9a-f]{16}")


class ApprovalState(StrEnum):
    """Where an approval stands. `expired` is never stored; time makes it so."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class ApprovalAsk:
    """What one approval is bound to, and facts for the person who decides.

    Bound: all up to `tags`. `request_hmac` is a keyed digest (hex) of the resolved request, so a change of
    one character is another request. `subject_ref` is a keyed digest of the caller. `role` is that of the
    people who may decide. `request_id` is the request that asked.
    """

    tenant: str
    subject_ref: str
    request_hmac: str
    policy_sha256: str
    destinations: tuple[str, ...]
    level: str
    tags: tuple[str, ...]
    role: str
    rule_ids: tuple[str, ...]
    model: str
    client_id: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Approval:
    """A stored approval. Times are Unix milliseconds of the store's clock.

    `approver_ref` is a keyed digest of who decided. `until_ms` is when it ends: the decision must come
    before it, and after an approval the request.
    """

    id: str
    state: ApprovalState
    ask: ApprovalAsk
    asked_ms: int
    until_ms: int
    approver_ref: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalFact:
    """What a request's record says of its approval. `state` is a word of `ApprovalState`, or `refused` when
    the approval did not let the request through."""

    id: str
    state: str
    approver_ref: str | None = None
