"""Approvals in Redis: each change is one atomic script, on the server's own clock.

Keys: `tg:{TENANT}:a:PLACE` holds one approval, `tg:{TENANT}:a` the ids of the open ones. `{TENANT}` is the
hash tag of the tenant's limits too, so one tenant's keys lie together in a cluster.

Invariants
1. Used once: the step from approved to used is one script, and only its winner goes on.
2. No answer of the store is a refusal (`ApprovalsUnavailable`), never a guess.
3. What is stored are digests and facts of `ApprovalAsk`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

import msgspec

from gateway.approvals.judge import bound, new_id, place_of, reason_not_to_use
from gateway.domain.approval import Approval, ApprovalAsk, ApprovalFact, ApprovalState
from gateway.domain.ids import tenant_tag
from gateway.errors import ApprovalDenied, ApprovalRequired, ApprovalsUnavailable, Refusal, StoreUnavailable

#: Runs a script in Redis: text, keys, arguments. Raises `StoreUnavailable`.
RunScript = Callable[[bytes, tuple[bytes, ...], tuple[bytes | str | int, ...]], Awaitable[Any]]

#: Open approvals of one tenant.
OPEN_MAX = 1_000
#: How long an approval that has ended can still be looked at.
KEEP_MS = 24 * 3600 * 1000

_ASK, _MOVE, _READ, _LIST = (
    (resources.files("gateway.approvals") / f"{name}.lua").read_bytes()
    for name in ("ask", "move", "read", "list")
)
_DOWN = "Approvals cannot be looked up just now. Nothing was sent. Try again later."
_FULL = "Too many requests of this tenant wait for approval. Try again when some are decided."
_SENTENCES = {
    "approval-unknown": "There is no approval of this id for your tenant. Send the request without the header"
    " x-tidegate-approval to ask for one.",
    "approval-not-yours": "This approval belongs to another caller. Ask for your own.",
    "approval-denied": "This request was not approved. Change it, or talk to the person who decides.",
    "approval-mismatch": "This approval is for another request, policy or set of destinations: something"
    " changed after it was asked for. Send the request without the header x-tidegate-approval to ask again.",
    "approval-used": "This approval was used already; it is good for one request. Send the request without"
    " the header x-tidegate-approval to ask again.",
    "approval-expired": "This approval has expired. Send the request without the header x-tidegate-approval"
    " to ask again.",
    "approval-pending": "This request still waits for approval. Send it again when it is approved.",
}


class RedisApprovals:
    """`gateway.pipeline.ports.Approvals` on Redis.

    `run` runs a script; `new_nonce` gives 16 random hex digits; `keyed_digest` a keyed hash in hex.
    An approval waits `wait_seconds` for a decision and is good for `use_seconds` after it.
    """

    def __init__(
        self,
        run: RunScript,
        new_nonce: Callable[[], str],
        keyed_digest: Callable[[bytes], str],
        wait_seconds: int,
        use_seconds: int,
    ) -> None:
        self._run_script = run
        self._new_nonce = new_nonce
        self._keyed_digest = keyed_digest
        self._wait_ms = wait_seconds * 1000
        self._use_ms = use_seconds * 1000

    async def ask(self, ask: ApprovalAsk) -> Approval:
        """The open approval for exactly this request, or a new one. Raises `ApprovalsUnavailable`."""
        place = self._keyed_digest(b"approval place:" + msgspec.json.encode(bound(ask)))[:32]
        wanted = new_id(place, self._new_nonce())
        facts = msgspec.json.encode(ask)
        answer = await self._run(_ASK, ask.tenant, place, (wanted, facts, self._wait_ms, KEEP_MS, OPEN_MAX))
        match answer:
            case [0, int(), _]:
                # fail-closed: what cannot be asked for does not pass.
                raise ApprovalsUnavailable(_FULL, code="too-many-approvals", retry_after_seconds=60)
            case [1 | 2, int(), bytes(approval_id)]:
                found = await self.find(ask.tenant, approval_id.decode("ascii", "replace"))
                if found is not None:
                    return found[0]
        raise ApprovalsUnavailable(_DOWN, retry_after_seconds=5)

    async def use(self, approval_id: str, ask: ApprovalAsk) -> ApprovalFact:
        """Use the approval up for the request of `ask`: at most one call ever returns.

        Raises `ApprovalRequired` (409), `ApprovalDenied` (403), `ApprovalsUnavailable`.
        """
        for _ in range(2):
            found = await self.find(ask.tenant, approval_id)
            approval, now_ms = (None, 0) if found is None else found
            reason = reason_not_to_use(approval, approval_id, ask, now_ms)
            if approval is None or reason is not None:
                raise not_usable(reason or "approval-unknown", approval_id)
            if await self.move(approval, ApprovalState.USED, None):
                return ApprovalFact(approval.id, ApprovalState.USED.value, approval.approver_ref)
        # Lost twice against somebody else: the next reading said approved and was not true any more.
        raise not_usable("approval-used", approval_id)

    async def move(self, approval: Approval, state: ApprovalState, approver_ref: str | None) -> bool:
        """Take the approval from the state it was read in to `state`; False when another was first."""
        place = place_of(approval.id) or ""
        arguments = (
            approval.id,
            approval.state.value,
            state.value,
            approver_ref or "",
            self._use_ms if state is ApprovalState.APPROVED else 0,
            KEEP_MS,
        )
        answer = await self._run(_MOVE, approval.ask.tenant, place, arguments)
        if answer not in (0, 1):
            raise ApprovalsUnavailable(_DOWN, retry_after_seconds=5)
        return bool(answer)

    async def find(self, tenant: str, approval_id: str) -> tuple[Approval, int] | None:
        """The approval of this id and the store's time (ms); None when there is none."""
        place = place_of(approval_id)
        if place is None:
            return None
        match await self._run(_READ, tenant, place, ()):
            case [int(now), bytes(known), bytes(state), bytes(facts), bytes(asked), bytes(until), *by]:
                if known.decode("ascii", "replace") != approval_id:
                    return None
                approver = by[0].decode() if by and isinstance(by[0], bytes) else None
                return _approval(approval_id, state, facts, int(asked), int(until), approver), now
            case [int(), *_]:
                return None
        raise ApprovalsUnavailable(_DOWN, retry_after_seconds=5)

    async def open_ones(self, tenant: str, most: int = 200) -> tuple[tuple[Approval, int], ...]:
        """The tenant's approvals that wait or can be used, with the store's time; first end first."""
        answer = await self._run(_LIST, tenant, None, (most,))
        if not isinstance(answer, list):
            raise ApprovalsUnavailable(_DOWN, retry_after_seconds=5)
        found = [await self.find(tenant, each.decode("ascii", "replace")) for each in answer]
        return tuple(each for each in found if each is not None)

    async def _run(
        self, script: bytes, tenant: str, place: str | None, arguments: tuple[bytes | str | int, ...]
    ) -> Any:
        index = f"tg:{{{tenant_tag(tenant)}}}:a".encode()
        record = index if place is None else index + b":" + place.encode()
        try:
            return await self._run_script(script, (record, index), arguments)
        except StoreUnavailable:
            # fail-closed: without the store nobody can say that a person agreed.
            raise ApprovalsUnavailable(_DOWN, retry_after_seconds=5) from None


def _approval(
    approval_id: str, state: bytes, facts: bytes, asked_ms: int, until_ms: int, approver: str | None
) -> Approval:
    try:
        ask = msgspec.json.decode(facts, type=ApprovalAsk)
        return Approval(approval_id, ApprovalState(state.decode()), ask, asked_ms, until_ms, approver)
    except (ValueError, msgspec.DecodeError):
        # fail-closed: what another version wrote, and this one cannot read, allows nothing.
        raise ApprovalsUnavailable(_DOWN, retry_after_seconds=5) from None


def not_usable(reason: str, approval_id: str) -> Refusal:
    """The refusal of a request whose approval does not let it through."""
    kind = (
        ApprovalDenied
        if reason in ("approval-unknown", "approval-not-yours", "approval-denied")
        else ApprovalRequired
    )
    return kind(_SENTENCES[reason], code=reason, param="x-tidegate-approval")
