"""Stages 1 to 7 of the walk: from bytes to an `Admitted`, or a refusal.

Invariants
1. One straight line; each stage's output is the next one's input. Nothing is skipped, for nobody.
2. What is classified is `resolved`, and `resolved` is what is sent.
3. Whatever raises after authentication is recorded as a denial before the client hears of it.
4. A reservation that does not end in an `Admitted` is given back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.domain.admitted import Admitted
from gateway.domain.approval import ApprovalFact
from gateway.domain.caller import Caller
from gateway.domain.chat import ChatRequest, ResolvedRequest, Surface
from gateway.domain.decision import WORKLOADS, Denial, Destination, Facts, Permit
from gateway.domain.finding import Verdict
from gateway.domain.label import PUBLIC, Label, Level
from gateway.domain.limits import Exceeded, LimitState, Reservation, Usage
from gateway.domain.principal import Principal
from gateway.domain.record import RequestRecord
from gateway.domain.request import RawRequest
from gateway.errors import (
    AuditUnavailable,
    LimitExceeded,
    LimitsUnavailable,
    NotFound,
    PolicyDenied,
    Refusal,
    RequestRefused,
)
from gateway.pipeline import records
from gateway.pipeline.approve import check_approval
from gateway.pipeline.capacity import excess
from gateway.pipeline.ports import (
    Approvals,
    Authenticator,
    Dialects,
    Doors,
    Journal,
    Limiter,
    Lineage,
    NewGate,
    Upstream,
)
from gateway.pipeline.records import Trail
from gateway.snapshot import Snapshot, SnapshotHolder

#: (status, headers, body) of a refusal, in the client's dialect.
Problem = Callable[[Refusal, str, Surface], tuple[int, list[tuple[bytes, bytes]], bytes]]


def _any_context(destination: str) -> int | None:
    """No context is known."""
    return None


@dataclass(frozen=True, slots=True)
class Walk:
    """The rooms, as the walk uses them. Built once by `assembly`.

    `estimate(chat)` gives (prompt tokens, allowed output tokens over all choices).
    `tokens_of_chars(count)` estimates tokens of text that came without a usage report.
    `keyed_digest(data)` is a keyed hash in hex; `digest_key` (16 to 64 bytes) keys the digest of
    answers. `observe(phase, reason, destination, elapsed_us)` feeds metrics.
    `limit_headers(states)` gives the rate-limit header fields. `report_fault(phrase, error)` logs a
    fault by its class, without its text; `report_refusal(refusal, request_id)` logs why an admitted
    request was ended. `clock_ns` is a monotonic clock. `context_tokens(destination)` is the context of its
    models, where it is known. `region` is the deployment's.
    """

    snapshots: SnapshotHolder
    authenticator: Authenticator
    limiter: Limiter
    approvals: Approvals
    lineage: Lineage
    journal: Journal
    upstream: Upstream
    doors: Doors
    dialects: Dialects
    new_gate: NewGate
    problem: Problem
    estimate: Callable[[ChatRequest], tuple[int, int]]
    tokens_of_chars: Callable[[int], int]
    keyed_digest: Callable[[bytes], str]
    digest_key: bytes
    limit_headers: Callable[[tuple[LimitState, ...]], list[tuple[bytes, bytes]]]
    observe: Callable[[str, str, str, int], None]
    report_fault: Callable[[str, BaseException], None]
    report_refusal: Callable[[Refusal, str], None]
    clock_ns: Callable[[], int]
    context_tokens: Callable[[str], int | None] = _any_context
    region: str = ""
    write_timeout_seconds: float = 30.0
    seal_timeout_seconds: float = 5.0

    def excess(
        self, facts: Facts, chat: ChatRequest, permit: Permit, place: Destination
    ) -> RequestRefused | None:
        """Why the models of a destination cannot take the request; None when they may."""
        asked, granted = chat.sampling.max_output_tokens, permit.obligations.max_output_tokens
        return excess(asked, granted, facts.prompt_tokens, self.context_tokens(place.name))


async def admit(walk: Walk, snapshot: Snapshot, raw: RawRequest) -> Admitted:
    """The whole admission. Raises `Refusal`; then nothing has left and nothing is reserved."""
    principal = await walk.authenticator.authenticate(raw)
    trail = _trail(walk, raw, principal)
    try:
        chat = walk.dialects.parse(raw.endpoint, raw.body)
        trail.model_asked = chat.model
        resolved = trail.resolved = snapshot.resolve(chat, _caller(walk, raw, principal))
        trail.inherited = await walk.lineage.floor(principal, resolved.chat)
        floor = _floor(raw, principal, resolved, snapshot).join(trail.inherited)
        started_ns = walk.clock_ns()
        verdict = trail.verdict = snapshot.classify(resolved, floor)
        trail.latency_us.append(("classify", (walk.clock_ns() - started_ns) // 1000))
        prompt_tokens, output_tokens = walk.estimate(resolved.chat)
        workload, max_wait = declared_workload(raw.workload), declared_wait(raw.max_wait)
        facts = _facts(walk, raw, principal, chat, resolved, verdict, prompt_tokens, output_tokens, workload)
        trail.facts, trail.own_tools = facts, frozenset(tool.name for tool in chat.tools)
        trail.decision = snapshot.decide(facts)
        if snapshot.shadow is not None:
            trail.shadow = snapshot.shadow(facts, trail.decision)
        permit = _permit(trail.decision)
        _check_context(walk, facts, resolved, permit)
        reservation = await _reserve(walk, snapshot, principal, raw.request_id, permit, facts)
        trail.reservation = reservation
        try:
            if permit.obligations.approver_role is not None:
                await _approve(walk, raw, trail, principal, resolved, permit)
            permit = trail.decision = _narrow(snapshot, permit, reservation)
            receipt = await walk.journal.record(records.intent(trail, permit))
            return Admitted(
                raw.request_id,
                principal,
                resolved,
                verdict,
                permit,
                reservation,
                receipt,
                facts,
                workload,
                max_wait,
            )
        except BaseException:
            await walk.limiter.settle(reservation, None)
            raise
    except AuditUnavailable:
        walk.observe("denied", "audit-unavailable", "none", _elapsed_us(walk, raw))
        raise
    except Refusal as refusal:
        await _deny(walk, raw, trail, refusal)
        raise
    except Exception as fault:  # noqa: BLE001
        walk.report_fault("admission failed", fault)
        # fail-closed: a fault in any stage is a refusal, and it is recorded as one.
        failure = Refusal("The gateway could not process the request. Report the request id.")
        await _deny(walk, raw, trail, failure)
        raise failure from None


def _trail(walk: Walk, raw: RawRequest, principal: Principal) -> Trail:
    client_id = raw.client_request_id
    return Trail(
        request_id=raw.request_id,
        endpoint=raw.endpoint,
        request_hmac=walk.keyed_digest(raw.body),
        client_request_ref=walk.keyed_digest(client_id.encode()) if client_id else None,
        principal=principal,
    )


def _caller(walk: Walk, raw: RawRequest, principal: Principal) -> Caller:
    return Caller(
        principal.tenant, principal.roles, raw.received_at_us // 1_000_000, walk.keyed_digest, raw.protocol
    )


def _floor(raw: RawRequest, principal: Principal, resolved: ResolvedRequest, snapshot: Snapshot) -> Label:
    """Join of the tenant's floor, the pinned documents' floor and the caller's own declaration."""
    floor = snapshot.tenant_floor(principal.tenant)
    if resolved.floor_level is not None:
        floor = floor.join(Label(Level.parse(resolved.floor_level)))
    return floor.join(declared(raw.declared_label))


def declared(value: str | None) -> Label:
    """Label that the caller declares; it can only raise. Raises `RequestRefused` for another word."""
    if value is None:
        return PUBLIC
    try:
        return Label(Level.parse(value))
    except ValueError:
        raise RequestRefused(
            "The header x-tidegate-label must be one of public, internal, confidential, restricted.",
            code="invalid-label",
            param="x-tidegate-label",
        ) from None


def declared_workload(value: str | None) -> str:
    """Workload class that the caller declares. Raises `RequestRefused` for another word."""
    if value is None:
        return WORKLOADS[0]
    if value not in WORKLOADS:
        raise RequestRefused(
            f"The header x-tidegate-workload must be one of {', '.join(WORKLOADS)}.",
            code="invalid-workload",
            param="x-tidegate-workload",
        )
    return value


def declared_wait(value: str | None) -> float | None:
    """How long the caller would wait for a place at a destination, seconds. Raises `RequestRefused`."""
    if value is None:
        return None
    if not (value.isdecimal() and value.isascii()) or len(value) > 4:
        raise RequestRefused(
            "The header x-tidegate-max-wait must be whole seconds, 0 to 9999.",
            code="invalid-max-wait",
            param="x-tidegate-max-wait",
        )
    return float(value)


def _facts(
    walk: Walk,
    raw: RawRequest,
    principal: Principal,
    asked: ChatRequest,
    resolved: ResolvedRequest,
    verdict: Verdict,
    prompt_tokens: int,
    output_tokens: int,
    workload: str,
) -> Facts:
    chat = resolved.chat
    pins = [f"{pin.name}@{pin.version}" for pin in resolved.pins]
    return Facts(
        tenant=principal.tenant,
        roles=principal.roles,
        scopes=principal.scopes,
        label=verdict.label,
        model=chat.model,
        endpoint=raw.endpoint,
        stream=chat.stream,
        tool_names=frozenset(tool.name for tool in chat.tools),
        # The prompt's own pin comes first; the client's reference may name no version.
        prompt=pins[0] if asked.prompt is not None and pins else None,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        extensions=frozenset(name for name, _ in chat.extensions),
        workload=workload,
        client=principal.client_id,
        protocols=frozenset(pins),
        attributes=raw.attributes,
        region=walk.region,
        at_seconds=raw.received_at_us // 1_000_000,
        unsaid=walk.dialects.unsaid(chat),
    )


def _permit(decision: Permit | Denial) -> Permit:
    if isinstance(decision, Permit):
        return decision
    if decision.status == 404:
        raise NotFound(decision.message, code=decision.code, param="model")
    if decision.status == 400:
        raise RequestRefused(decision.message, code=decision.code, param=decision.param)
    raise PolicyDenied(decision.message, code=decision.code)


def _check_context(walk: Walk, facts: Facts, resolved: ResolvedRequest, permit: Permit) -> None:
    """Raises `RequestRefused` when no destination of the permit has a model that could take the request."""
    faults = [walk.excess(facts, resolved.chat, permit, place) for place in permit.destinations]
    if all(fault is not None for fault in faults) and faults[0] is not None:
        raise faults[0]


async def _reserve(
    walk: Walk, snapshot: Snapshot, principal: Principal, request_id: str, permit: Permit, facts: Facts
) -> Reservation:
    """A hold on every bucket that applies. Raises `LimitExceeded`, or `PolicyDenied` without a price."""
    prompt, output = facts.prompt_tokens, facts.output_tokens
    costs = [
        snapshot.cost(place, most, facts.at_seconds)
        for place in permit.destinations
        for most in (Usage(prompt, output), Usage(prompt, output, reasoning_tokens=output))
    ]
    known = [cost for cost in costs if cost is not None]
    cost = max(known) if len(known) == len(costs) else None
    result = await walk.limiter.reserve(
        principal, request_id, facts.prompt_tokens, facts.output_tokens, facts.model, cost
    )
    if not isinstance(result, Exceeded):
        return result
    if result.bucket == "price":
        # fail-closed: what has no price cannot be held against a budget; zero is not a price.
        raise PolicyDenied(
            "There is a budget for this caller, and no price for a destination of this model.",
            code="price-unknown",
        )
    owner = "tenant" if result.scope == "tenant" else f"{result.scope} of this tenant"
    what = f"budget of the {result.bucket}" if result.bucket in ("day", "month") else result.bucket
    raise LimitExceeded(
        f"The limit on {what} of this {owner} is used up. Try again in {result.retry_after_seconds} s.",
        code=f"{'budget' if result.bucket in ('day', 'month') else result.bucket}-limit-exceeded",
        retry_after_seconds=result.retry_after_seconds,
        headers=tuple(walk.limit_headers(result.states)),
    )


async def _approve(
    walk: Walk,
    raw: RawRequest,
    trail: Trail,
    principal: Principal,
    resolved: ResolvedRequest,
    permit: Permit,
) -> None:
    """Return when somebody agreed to this request. Raises what `check_approval` raises."""

    def note(fact: ApprovalFact) -> None:
        trail.approval = fact

    await check_approval(
        walk.approvals, raw.approval, principal, resolved, permit, raw.request_id, walk.keyed_digest, note
    )


def _narrow(snapshot: Snapshot, permit: Permit, reservation: Reservation) -> Permit:
    """The permit without hosted destinations while limits run on the local cap."""
    if not reservation.degraded:
        return permit
    # fail-closed: without exact limits nothing is bought from a hosted provider.
    private = snapshot.private_only(permit)
    if private is None:
        raise LimitsUnavailable(
            "Limits cannot be checked just now, and no private destination is permitted. Try again later.",
            retry_after_seconds=5,
        )
    return private


def _elapsed_us(walk: Walk, raw: RawRequest) -> int:
    return (walk.clock_ns() - raw.received_mono_ns) // 1000


async def _deny(walk: Walk, raw: RawRequest, trail: Trail, refusal: Refusal) -> None:
    """Record a refusal. Raises `AuditUnavailable` instead when that is not possible."""
    walk.observe("denied", refusal.code, "none", _elapsed_us(walk, raw))
    record: RequestRecord = records.denial(trail, refusal)
    await walk.journal.record(record)
