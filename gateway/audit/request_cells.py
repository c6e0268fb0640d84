"""A record about a request as flat values: the columns of csv, and what OCSF has no word for. Pure."""

from __future__ import annotations

from gateway.audit.request_rows import RequestRow
from gateway.audit.schema import DecisionDoc, RouteDoc

Cell = str | int | bool | tuple[str, ...] | None

#: Names of the columns, in order. New ones are added at the end.
# fmt: off
COLUMNS = (
    "seq", "leaf_sha256", "ts_utc", "phase", "outcome", "reason_code", "request_id", "intent_seq",
    "tenant", "subject_ref", "token_ref", "issuer", "client_id", "roles", "endpoint", "label", "tags",
    "kinds", "finding_count", "inherited", "degraded", "policy_id", "policy_version", "policy_sha256",
    "rule_ids", "approval_id", "approval_state", "approver_ref", "model_asked", "destinations",
    "destination", "destination_model", "hosted", "region", "clearance", "attempts", "filters",
    "tool_calls", "tokens_reserved", "tokens_settled", "limits_degraded", "input_tokens",
    "output_tokens", "status", "finish_reasons", "error_class", "latency_us", "bytes_out",
    "client_disconnected",
)
# fmt: on


def cells(row: RequestRow) -> dict[str, Cell]:
    """The value of each column; None where the record says nothing."""
    decision = row.record.decision or DecisionDoc("")
    return (
        _own(row)
        | _who(row)
        | _judged(row, decision)
        | _route(decision.route)
        | _acts(decision)
        | _result(row)
    )


def _own(row: RequestRow) -> dict[str, Cell]:
    record = row.record
    return {
        "seq": row.seq,
        "leaf_sha256": row.leaf.hex(),
        "ts_utc": record.ts_utc,
        "phase": record.phase,
        "outcome": record.outcome,
        "reason_code": record.reason_code,
        "request_id": record.request_id,
        "intent_seq": record.intent_seq,
    }


def _who(row: RequestRow) -> dict[str, Cell]:
    actor = row.who.actor if row.who else None
    return {
        "tenant": row.who.tenant if row.who else None,
        "subject_ref": actor.subject_ref if actor else None,
        "token_ref": actor.token_ref if actor else None,
        "issuer": actor.issuer if actor else None,
        "client_id": actor.client_id if actor else None,
        "roles": actor.roles if actor else None,
    }


def _judged(row: RequestRow, decision: DecisionDoc) -> dict[str, Cell]:
    seen, policy, approval = decision.classifier, decision.policy, decision.approval
    return {
        "endpoint": decision.endpoint,
        "label": row.level,
        "tags": seen.tags if seen else None,
        "kinds": seen.kinds if seen else None,
        "finding_count": seen.finding_count if seen else None,
        "inherited": seen.inherited if seen else None,
        "degraded": seen.degraded if seen else None,
        "policy_id": policy.id if policy else None,
        "policy_version": policy.version if policy else None,
        "policy_sha256": policy.sha256 if policy else None,
        "rule_ids": policy.rule_ids if policy else None,
        "approval_id": approval.id if approval else None,
        "approval_state": approval.state if approval else None,
        "approver_ref": approval.approver_ref if approval else None,
    }


def _route(route: RouteDoc | None) -> dict[str, Cell]:
    return {
        "model_asked": route.model_asked if route else None,
        "destinations": route.destinations if route else None,
        "destination": route.destination if route else None,
        "destination_model": route.destination_model if route else None,
        "hosted": route.hosted if route else None,
        "region": route.region if route else None,
        "clearance": route.clearance if route else None,
        "attempts": tuple(f"{a.destination}: {a.outcome}" for a in route.attempts) if route else None,
    }


def _acts(decision: DecisionDoc) -> dict[str, Cell]:
    limits = decision.limits
    return {
        "filters": tuple(f"{f.rule} {f.action} {f.kind} {f.count}" for f in decision.filters),
        "tool_calls": tuple(f"{call.name or 'unnamed'}: {call.outcome}" for call in decision.tool_calls),
        "tokens_reserved": limits.reserved_tokens if limits else None,
        "tokens_settled": limits.settled_tokens if limits else None,
        "limits_degraded": limits.degraded if limits else None,
    }


def _result(row: RequestRow) -> dict[str, Cell]:
    result = row.record.result
    usage = result.usage if result else None
    return {
        "input_tokens": usage.input if usage else None,
        "output_tokens": usage.output if usage else None,
        "status": result.status if result else None,
        "finish_reasons": result.finish_reasons if result else None,
        "error_class": result.error_class if result else None,
        "latency_us": (result.latency_us or {}).get("total") if result else None,
        "bytes_out": result.bytes_out if result else None,
        "client_disconnected": result.client_disconnected if result else None,
    }
