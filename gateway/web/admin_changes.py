"""What the admin API changes: handlers that order the policy watch, and what its refusals become."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from gateway.administration import Administration
from gateway.errors import (
    AdminForbidden,
    CandidateRejected,
    ConfigurationError,
    Conflict,
    NotFound,
    PreconditionFailed,
    Refusal,
    RequestRefused,
)
from gateway.policy.signing import SignatureRefused, SignedBundle, parse_signed
from gateway.rollout.content import Content
from gateway.rollout.order import Order
from gateway.rollout.preparer import PolicyRefused
from gateway.web import admin_answers as doc
from gateway.web.admin_reads import active_name, bundle_doc, stored_row
from gateway.web.admin_table import Answer, Call

MAX_REASON_CHARACTERS = 200


async def upload(desk: Administration, call: Call) -> Answer:
    """Check a bundle and store it as a candidate. It does not act."""
    asked = call.read(doc.Upload)
    signature = None if asked.signature is None else msgspec.json.encode(asked.signature)
    read = partial(desk.store.read_upload, asked.files, signature)
    outcome = await desk.watch.check(read, call.order(), desk.record)
    if isinstance(outcome, PolicyRefused):
        raise refusal_of(outcome)
    return Answer(bundle_doc(desk, outcome), status=201)


async def countersign(desk: Administration, call: Call) -> Answer:
    """Put a second person's signature under a stored bundle. Its maker cannot."""
    row = stored_row(desk, call.names["sha256"])
    asked = call.read(doc.Countersign)
    if row.maker == call.operator.principal.subject_ref:
        # fail-closed: maker and checker are two persons, whatever roles one of them has.
        raise AdminForbidden(
            "You made this candidate. Another person has to check it.", code="maker-is-checker"
        )
    content = await _content(desk, row.sha256)
    signed = (
        SignedBundle("tidegate-bundle/1", row.policy_id, row.revision, row.sha256)
        if content.signature is None
        else parse_signed(content.signature)
    )
    mine = asked.signature
    if any(mine.name == each.name or mine.signature == each.signature for each in signed.signatures):
        raise AdminForbidden(
            "This signature is there already. Another person has to sign.", code="maker-is-checker"
        )
    signed = msgspec.structs.replace(signed, signatures=(*signed.signatures, mine))
    signed_content = _with(content, signed)
    outcome = await desk.watch.check(lambda: signed_content, call.order(), desk.record)
    if isinstance(outcome, PolicyRefused):
        raise refusal_of(outcome)
    if mine.name not in outcome.signers:
        raise AdminForbidden("This signature is not one of a signer in the settings.", code="unknown-signer")
    return Answer(bundle_doc(desk, outcome))


async def activate(desk: Administration, call: Call) -> Answer:
    """Let a stored bundle act."""
    row = stored_row(desk, call.read(doc.Activate).sha256)
    if row.sha256 == desk.watch.state.bundle.sha256 == call.if_match:
        raise Conflict("This bundle acts already. There is nothing to do.", code="already-active")
    await _act(desk, row.sha256, call.order())
    return _changed(desk, "activated")


async def rollback(desk: Administration, call: Call) -> Answer:
    """Go back to an older revision that acted before."""
    asked = call.read(doc.Rollback)
    reason = asked.reason.strip()
    if not reason or len(reason) > MAX_REASON_CHARACTERS or not reason.isprintable():
        raise RequestRefused(
            f"A rollback needs a reason of 1 to {MAX_REASON_CHARACTERS} printable characters.",
            code="invalid-reason",
            param="reason",
        )
    row = desk.store.acted(asked.to_revision)
    active = desk.watch.state.bundle
    if row is None:
        raise NotFound(
            "No bundle of this revision has acted here. See GET /admin/v1/policy/revisions.",
            code="unknown-revision",
        )
    if row.revision >= active.revision and call.if_match == active.sha256:
        raise Conflict(
            "This revision is not older than the active one. Use POST /admin/v1/policy/activate.",
            code="not-older",
        )
    await _act(desk, row.sha256, call.order(reason, is_rollback=True), asked.signature)
    return _changed(desk, "rolled-back")


async def compare(desk: Administration, call: Call) -> Answer:
    """Let a stored bundle decide beside the active one, only to be recorded."""
    row = stored_row(desk, call.read(doc.Activate).sha256)
    refused = await desk.watch.compare(partial(desk.store.content, row.sha256), call.order(), desk.record)
    if refused is not None:
        raise refusal_of(refused)
    return _changed(desk, "shadowed")


async def end_comparison(desk: Administration, call: Call) -> Answer:
    """End the comparison."""
    refused = await desk.watch.compare(None, call.order(), desk.record)
    if refused is not None:
        raise refusal_of(refused)
    return _changed(desk, "shadow-ended")


async def reload(desk: Administration, call: Call) -> Answer:
    """Look at the policy folder now."""
    before = desk.watch.state.bundle
    refused = await desk.watch.reload(call.order(), desk.record)
    if refused is not None:
        raise refusal_of(refused)
    return _changed(desk, "unchanged" if desk.watch.state.bundle == before else "activated")


async def _act(
    desk: Administration, sha256: str, order: Order, signature: SignedBundle | None = None
) -> None:
    def read() -> Content:
        content = desk.store.content(sha256)
        return content if signature is None else _with(content, signature)

    refused = await desk.watch.activate(read, order, desk.record)
    if refused is not None:
        raise refusal_of(refused)


async def _content(desk: Administration, sha256: str) -> Content:
    try:
        return await asyncio.to_thread(desk.store.content, sha256)
    except (ConfigurationError, SignatureRefused):
        # fail-closed: what is not what its digest says is not signed.
        raise Conflict("This bundle's files are damaged. Upload it again.", code="bundle-damaged") from None


def _with(content: Content, signed: SignedBundle) -> Content:
    raw = msgspec.json.format(msgspec.json.encode(signed), indent=2) + b"\n"
    return Content(content.policies, content.protocols, content.lock, raw, content.sha256)


def _changed(desk: Administration, outcome: str) -> Answer:
    name = active_name(desk)
    return Answer(doc.Changed(outcome, name), etag=name.sha256)


def refusal_of(refused: PolicyRefused) -> Refusal:
    """The answer for a policy that was not taken; the last good one stays."""
    match refused.code:
        case "stale-digest":
            return PreconditionFailed(
                "The active policy is another one than If-Match says. Read GET /admin/v1/policy, decide "
                "again, then send the change with its new digest."
            )
        case "maker-is-checker":
            return AdminForbidden(
                "Maker and checker are two persons: one signed twice. Ask another signer.",
                code="maker-is-checker",
            )
        case "unsigned":
            return AdminForbidden(
                "Signatures are missing. Let a checker sign this bundle, then activate it again.",
                code="unsigned",
            )
        case "older-revision" | "same-revision":
            return Conflict(
                "The revision is not above the active one. Raise it, or order a rollback; where signatures "
                "are demanded, the step back is signed too (`tidegate policy sign --rollback-from`).",
                code=refused.code,
            )
        case code:
            return CandidateRejected(
                "The policy was not taken; the active one stays. Mend what the findings name and try again.",
                findings=refused.reason,
                code="candidate-rejected" if code == "invalid" else code,
            )
