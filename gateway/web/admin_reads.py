"""What the admin API tells: handlers that read and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from gateway.administration import Administration
from gateway.errors import ConfigurationError, NotFound
from gateway.policy.compiled import TenantPolicy
from gateway.policy.signing import parse_signed
from gateway.rollout.store import StoredBundle, files_of
from gateway.web import admin_answers as doc
from gateway.web.admin_problems import findings_of
from gateway.web.admin_table import Answer, Call

API_VERSION = "1"


def time_text(at_us: int) -> str:
    """Unix microseconds as RFC 3339, in seconds."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def active_name(desk: Administration) -> doc.PolicyName:
    """The policy that decides now."""
    state = desk.watch.state
    policy = state.policy
    return doc.PolicyName(policy.id, policy.version, policy.revision, state.bundle.sha256, policy.sha256)


def bundle_doc(desk: Administration, row: StoredBundle) -> doc.Bundle:
    """A stored bundle, as it is told."""
    return doc.Bundle(
        name=doc.PolicyName(row.policy_id, row.policy_version, row.revision, row.sha256, row.policy_sha256),
        signers=row.signers,
        missing_signatures=max(0, desk.required_signers - len(row.signers)),
        maker=row.maker,
        stored_at=time_text(row.stored_at_us),
        activated_at=time_text(row.activated_at_us) if row.activated_at_us else None,
        activated_by=row.activated_by,
        is_active=row.sha256 == desk.watch.state.bundle.sha256,
    )


def stored_row(desk: Administration, sha256: str) -> StoredBundle:
    """The row of a bundle. Raises `NotFound`."""
    row = desk.store.row(sha256)
    if row is None:
        raise NotFound(
            "No bundle with this digest is stored. See GET /admin/v1/policy/revisions.", code="unknown-bundle"
        )
    return row


async def policy(desk: Administration, call: Call) -> Answer:
    """What decides now, who signed it, the shadow, and the last rejection."""
    state = desk.watch.state
    shadow = state.shadow
    rejection = None
    if state.rejected is not None:
        at_us, refused = state.rejected
        rejection = doc.Rejection(time_text(at_us), refused.code, findings_of(refused.reason))
    answer = doc.PolicyAnswer(
        active=active_name(desk),
        signers=state.signers,
        since=time_text(state.since_us),
        required_signers=desk.required_signers,
        shadow=None
        if shadow is None
        else doc.Shadow(shadow.id, shadow.version, shadow.revision, shadow.sha256),
        last_rejection=rejection,
    )
    return Answer(answer, etag=state.bundle.sha256)


async def revisions(desk: Administration, call: Call) -> Answer:
    """Stored bundles, newest first."""
    return Answer(doc.Bundles(tuple(bundle_doc(desk, row) for row in reversed(desk.store.rows))))


async def bundle(desk: Administration, call: Call) -> Answer:
    """One stored bundle with its text."""
    row = stored_row(desk, call.names["sha256"])
    try:
        content = await asyncio.to_thread(desk.store.content, row.sha256)
    except ConfigurationError:
        # fail-closed: what is not what its digest says is not shown for review.
        raise NotFound("This bundle's files are damaged. Upload it again.", code="bundle-damaged") from None
    signature = None if content.signature is None else parse_signed(content.signature)
    return Answer(doc.BundleFiles(bundle_doc(desk, row), files_of(content), signature))


async def protocols(desk: Administration, call: Call) -> Answer:
    """Prompts and tool sets of the active bundle."""
    registry = desk.watch.state.protocols
    prompts = tuple(
        doc.ProtocolVersions(name, tuple(str(each) for each in versions))
        for name, versions in sorted(registry.versions.items())
    )
    tool_sets = tuple(sorted("@".join(key) for key in registry.tool_sets))
    return Answer(doc.Protocols(registry.sha256, prompts, tool_sets))


async def destinations(desk: Administration, call: Call) -> Answer:
    """Destinations of the active policy, and how this process finds them."""
    lanes: dict[str, list[doc.Lane]] = {}
    for lane in desk.lanes():
        state = "open" if lane.is_open else "closed"
        lanes.setdefault(lane.destination, []).append(doc.Lane(lane.replica, lane.model, state))
    found = [
        doc.DestinationState(
            name=name,
            kind=place.kind,
            clearance=place.clearance.word,
            hosted=place.hosted,
            region=place.region,
            retention=place.retention,
            models=tuple(sorted(place.models)),
            health=_health(lanes.get(name, [])) if name in desk.configured else "not-configured",
            lanes=tuple(lanes.get(name, [])),
        )
        for name, place in sorted(desk.watch.state.policy.destinations.items())
    ]
    return Answer(doc.Destinations(tuple(found)))


def _health(lanes: Sequence[doc.Lane]) -> str:
    """A destination that was not used yet has no lanes, and nothing against it."""
    open_count = sum(lane.breaker == "open" for lane in lanes)
    if not open_count:
        return "ok"
    return "down" if open_count == len(lanes) else "degraded"


async def limits(desk: Administration, call: Call) -> Answer:
    """Limits of every tenant that the caller may see."""
    known = desk.watch.state.policy.tenants
    seen = tuple(_limit(known[name]) for name in sorted(known) if call.operator.may_see(name))
    return Answer(doc.Limits(seen, "ok" if desk.limits_are_shared() else "degraded"))


async def tenant_limits(desk: Administration, call: Call) -> Answer:
    """Limits of one tenant. Another's is as unknown as none's."""
    name = call.names["tenant"]
    found = desk.watch.state.policy.tenants.get(name)
    if found is None or not call.operator.may_see(name):
        # fail-closed: one answer for both, so that nobody learns whose customer a tenant is.
        raise NotFound("No such tenant. See GET /admin/v1/limits.", code="unknown-tenant")
    return Answer(_limit(found))


def _limit(tenant: TenantPolicy) -> doc.TenantLimit:
    return doc.TenantLimit(
        tenant.name,
        tenant.floor.level.word,
        tenant.limits.requests_per_minute,
        tenant.limits.tokens_per_minute,
        tenant.limits.concurrency,
    )


async def version(desk: Administration, call: Call) -> Answer:
    """What runs."""
    return Answer(doc.Version(desk.build, API_VERSION))
