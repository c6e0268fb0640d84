"""Audit records from what the walk knows so far. Pure.

Invariant: nothing here takes text of a prompt or an answer; only labels, counts, ids and digests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.domain.admitted import Admitted
from gateway.domain.approval import ApprovalFact
from gateway.domain.chat import ResolvedRequest
from gateway.domain.decision import Denial, Destination, Facts, Permit
from gateway.domain.finding import Verdict
from gateway.domain.label import PUBLIC, Label, Level
from gateway.domain.limits import Reservation, Usage
from gateway.domain.principal import Principal
from gateway.domain.record import (
    Actor,
    AskedFact,
    ClassifierFact,
    LimitFact,
    Phase,
    PolicyFact,
    RequestRecord,
    ResultFact,
    RouteFact,
    ShadowFact,
    ToolCallFact,
)
from gateway.domain.stream import FilterAction
from gateway.errors import Refusal


@dataclass(slots=True)
class Trail:
    """What is known of one request while it walks; filled stage by stage.

    `latency_us` are (stage, microseconds) in the order of the stages. `own_tools` are the names of the
    client's own tools.
    """

    request_id: str
    endpoint: str
    request_hmac: str
    client_request_ref: str | None = None
    principal: Principal | None = None
    model_asked: str = ""
    resolved: ResolvedRequest | None = None
    verdict: Verdict | None = None
    decision: Permit | Denial | None = None
    reservation: Reservation | None = None
    latency_us: list[tuple[str, int]] = field(default_factory=list)
    facts: Facts | None = None
    own_tools: frozenset[str] = frozenset()
    shadow: ShadowFact | None = None
    approval: ApprovalFact | None = None
    inherited: Label = PUBLIC


@dataclass(slots=True)
class Outcome:
    """How an exchange ended, filled by the relay. `is_open`: a destination may have accepted the request."""

    phase: Phase = Phase.ABORTED
    reason_code: str = "internal-error"
    status: int = 500
    destination: Destination | None = None
    attempts: list[tuple[str, str]] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)
    usage: Usage | None = None
    bytes_out: int = 0
    is_client_gone: bool = False
    upstream_request_id: str | None = None
    response_hmac: str | None = None
    error_class: str | None = None
    filters: tuple[FilterAction, ...] = ()
    tool_calls: tuple[ToolCallFact, ...] = ()
    is_open: bool = False
    cost_usd_micros: int = 0


def actor_of(principal: Principal | None) -> Actor | None:
    """The caller without names: keyed digests only."""
    if principal is None:
        return None
    return Actor(
        tenant=principal.tenant,
        subject_ref=principal.subject_ref,
        token_ref=principal.token_ref,
        issuer=principal.issuer,
        client_id=principal.client_id,
        key_id=principal.key_id,
        roles=tuple(sorted(principal.roles)),
    )


def classifier_of(verdict: Verdict | None, inherited: Label = PUBLIC) -> ClassifierFact | None:
    """The verdict without spans."""
    if verdict is None:
        return None
    counts = Counter(part.coverage.value for part in verdict.parts)
    return ClassifierFact(
        detectors=verdict.detectors,
        level=verdict.label.level.word,
        tags=verdict.label.sorted_tags,
        kinds=verdict.kinds,
        finding_count=verdict.finding_count,
        coverage=tuple(sorted(counts.items())),
        degraded=verdict.degraded,
        inherited=inherited.level.word if inherited.level > Level.PUBLIC else None,
    )


def policy_of(decision: Permit | Denial | None) -> PolicyFact | None:
    """Which policy decided, and by which rules."""
    if decision is None:
        return None
    return PolicyFact(decision.policy_id, decision.policy_version, decision.policy_sha256, decision.rule_ids)


def intent(trail: Trail, permit: Permit) -> RequestRecord:
    """The record that must be durable before anything leaves."""
    return _record(trail, Phase.ADMITTED, "admitted", permit)


def denial(trail: Trail, refusal: Refusal) -> RequestRecord:
    """The record of a request that was refused before anything left."""
    permit = trail.decision if isinstance(trail.decision, Permit) else None
    result = ResultFact(
        status=refusal.http_status,
        latency_us=tuple(trail.latency_us),
        error_class=type(refusal).__name__,
    )
    return _record(trail, Phase.DENIED, refusal.code, permit, result)


def _record(
    trail: Trail, phase: Phase, reason: str, permit: Permit | None, result: ResultFact | None = None
) -> RequestRecord:
    names = tuple(place.name for place in permit.destinations) if permit else ()
    may_leave = any(place.hosted for place in permit.destinations) if permit else None
    reservation = trail.reservation
    return RequestRecord(
        phase=phase,
        request_id=trail.request_id,
        reason_code=reason,
        endpoint=trail.endpoint,
        client_request_ref=trail.client_request_ref,
        actor=actor_of(trail.principal),
        policy=policy_of(trail.decision),
        classifier=classifier_of(trail.verdict, trail.inherited),
        route=RouteFact(model_asked=_known_model(trail), destinations=names, hosted=may_leave),
        pins=trail.resolved.pins if trail.resolved else (),
        limits=LimitFact(reservation.tokens, None, reservation.degraded, reservation.cost_usd_micros)
        if reservation
        else None,
        request_hmac=trail.request_hmac,
        result=result,
        audit_level=permit.obligations.audit_level if permit else "metadata",
        asked=_asked(trail) if _is_known(trail.decision) else None,
        shadow=trail.shadow if _is_known(trail.decision) else None,
        approval=trail.approval,
    )


def _known_model(trail: Trail) -> str:
    """The model asked for, once the policy knows it: before that it is free text of the client."""
    return trail.model_asked if _is_known(trail.decision) else ""


def _is_known(decision: Permit | Denial | None) -> bool:
    """Whether the policy knew tenant, model and attributes, so that none of them is free text."""
    match decision:
        case Permit():
            return True
        case Denial(status=403, code=code):
            return code != "unknown-tenant"
        case _:
            return False


def _asked(trail: Trail) -> AskedFact | None:
    facts = trail.facts
    if facts is None:
        return None
    tools = facts.tool_names
    registered = tuple(sorted(tools - trail.own_tools)) if tools else ()
    return AskedFact(
        stream=facts.stream,
        prompt_tokens=facts.prompt_tokens,
        output_tokens=facts.output_tokens,
        at_seconds=facts.at_seconds,
        workload=facts.workload,
        scopes=tuple(sorted(facts.scopes)) if facts.scopes else (),
        tools=registered,
        other_tool_count=len(tools) - len(registered),
        prompt=facts.prompt,
        extensions=tuple(sorted(facts.extensions)) if facts.extensions else (),
        attributes=facts.attributes,
        region=facts.region,
        unsaid=facts.unsaid,
    )


def ending(admitted: Admitted, outcome: Outcome, latency_us: tuple[tuple[str, int], ...]) -> RequestRecord:
    """The record that closes an intent: completed or aborted."""
    place = outcome.destination
    permit = admitted.permit
    usage = outcome.usage
    return RequestRecord(
        phase=outcome.phase,
        request_id=admitted.request_id,
        reason_code=outcome.reason_code,
        endpoint="chat.completions",
        actor=actor_of(admitted.principal),
        policy=policy_of(permit),
        route=RouteFact(
            model_asked=admitted.request.chat.model,
            destinations=tuple(each.name for each in permit.destinations),
            destination=place.name if place else None,
            destination_model=place.model if place else None,
            hosted=place.hosted if place else None,
            region=place.region if place else None,
            clearance=place.clearance.word if place else None,
            attempt=len(outcome.attempts),
            attempts=tuple(outcome.attempts),
        ),
        limits=LimitFact(
            admitted.reservation.tokens,
            usage.total_tokens if usage else 0,
            admitted.reservation.degraded,
            outcome.cost_usd_micros,
        ),
        filters=outcome.filters,
        tool_calls=outcome.tool_calls,
        response_hmac=outcome.response_hmac,
        result=ResultFact(
            status=outcome.status,
            finish_reasons=tuple(outcome.finish_reasons),
            usage=usage,
            latency_us=latency_us,
            bytes_out=outcome.bytes_out,
            client_disconnected=outcome.is_client_gone,
            upstream_request_id=outcome.upstream_request_id,
            error_class=outcome.error_class,
        ),
        intent_seq=admitted.receipt.seq,
        audit_level=permit.obligations.audit_level,
    )
