"""Records about requests as comma-separated values (RFC 4180), safe to open in a spreadsheet. Pure.

Invariants
1. No value is a formula: at its start, and after every character that some spreadsheet takes for a separator,
   what could begin one (= + - @, tab, carriage return) stands behind an apostrophe.
2. No character acts: one that is not printable is written as its code. A row is one line.
3. Every value stands in quotation marks, so columns never move.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gateway.audit.reading import plain
from gateway.audit.request_rows import RequestRow
from gateway.audit.schema import DecisionDoc, RouteDoc

#: Quotation marks hide no formula where another separator is in use. Full-width forms are taken for the
#: plain ones by spreadsheets with East Asian settings.
_FORMULA = re.compile("(^|[,;|\t\r\n])(?=[\\s\"']*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20])")
_Value = str | int | bool | None

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


def csv_lines(rows: Iterable[RequestRow]) -> Iterator[bytes]:
    """The header, then a line for each record."""
    yield _line(COLUMNS)
    for row in rows:
        values = cells(row)
        yield _line([_text(values[name]) for name in COLUMNS])


def neutral(text: str) -> str:
    """The text without what a spreadsheet would run (invariants 1 and 2)."""
    return plain(_FORMULA.sub(r"\1'", text))


def cells(row: RequestRow) -> dict[str, _Value]:
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


def _own(row: RequestRow) -> dict[str, _Value]:
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


def _who(row: RequestRow) -> dict[str, _Value]:
    actor = row.who.actor if row.who else None
    return {
        "tenant": row.who.tenant if row.who else None,
        "subject_ref": actor.subject_ref if actor else None,
        "token_ref": actor.token_ref if actor else None,
        "issuer": actor.issuer if actor else None,
        "client_id": actor.client_id if actor else None,
        "roles": _listed(actor.roles) if actor else None,
    }


def _judged(row: RequestRow, decision: DecisionDoc) -> dict[str, _Value]:
    seen, policy, approval = decision.classifier, decision.policy, decision.approval
    return {
        "endpoint": decision.endpoint,
        "label": row.level,
        "tags": _listed(seen.tags) if seen else None,
        "kinds": _listed(seen.kinds) if seen else None,
        "finding_count": seen.finding_count if seen else None,
        "inherited": seen.inherited if seen else None,
        "degraded": seen.degraded if seen else None,
        "policy_id": policy.id if policy else None,
        "policy_version": policy.version if policy else None,
        "policy_sha256": policy.sha256 if policy else None,
        "rule_ids": _listed(policy.rule_ids) if policy else None,
        "approval_id": approval.id if approval else None,
        "approval_state": approval.state if approval else None,
        "approver_ref": approval.approver_ref if approval else None,
    }


def _route(route: RouteDoc | None) -> dict[str, _Value]:
    return {
        "model_asked": route.model_asked if route else None,
        "destinations": _listed(route.destinations) if route else None,
        "destination": route.destination if route else None,
        "destination_model": route.destination_model if route else None,
        "hosted": route.hosted if route else None,
        "region": route.region if route else None,
        "clearance": route.clearance if route else None,
        "attempts": _listed(f"{a.destination}: {a.outcome}" for a in route.attempts) if route else None,
    }


def _acts(decision: DecisionDoc) -> dict[str, _Value]:
    limits = decision.limits
    return {
        "filters": _listed(f"{f.rule} {f.action} {f.kind} {f.count}" for f in decision.filters),
        "tool_calls": _listed(f"{call.name or 'unnamed'}: {call.outcome}" for call in decision.tool_calls),
        "tokens_reserved": limits.reserved_tokens if limits else None,
        "tokens_settled": limits.settled_tokens if limits else None,
        "limits_degraded": limits.degraded if limits else None,
    }


def _result(row: RequestRow) -> dict[str, _Value]:
    result = row.record.result
    usage = result.usage if result else None
    return {
        "input_tokens": usage.input if usage else None,
        "output_tokens": usage.output if usage else None,
        "status": result.status if result else None,
        "finish_reasons": _listed(result.finish_reasons) if result else None,
        "error_class": result.error_class if result else None,
        "latency_us": (result.latency_us or {}).get("total") if result else None,
        "bytes_out": result.bytes_out if result else None,
        "client_disconnected": result.client_disconnected if result else None,
    }


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)


def _text(value: _Value) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            return neutral(value)


def _line(values: Iterable[str]) -> bytes:
    quoted = ",".join('"' + value.replace('"', '""') + '"' for value in values)
    return (quoted + "\r\n").encode()
