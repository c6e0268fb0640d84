"""Records about requests as events of the Open Cybersecurity Schema Framework, for a SIEM. Pure.

Class API Activity (6003), one JSON object a line, version 1.8.0 with the profiles `ai_operation` and
`security_control`. What the schema has no word for stands in `unmapped.tidegate` under the names of the csv
columns. No peer address is recorded, so `src_endpoint` names the client program.

Source: https://schema.ocsf.io/1.8.0/classes/api_activity
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from gateway.audit.reading import milliseconds
from gateway.audit.request_cells import cells
from gateway.audit.request_rows import RequestRow
from gateway.audit.schema import SCHEMA, DecisionDoc, RouteDoc, WhoDoc

OCSF_VERSION = "1.8.0"
_CLASS, _CATEGORY, _OTHER = 6003, 6, 99
_UNKNOWN = "unknown"
#: By phase: status_id and status. An intent is neither a success nor a failure.
_STATUS = {
    "admitted": (_OTHER, "Permitted"),
    "completed": (1, "Success"),
    "denied": (2, "Failure"),
    "aborted": (2, "Failure"),
    "abandoned": (0, "Unknown"),
}
#: Columns that have a place of their own in the schema.
# fmt: off
_MAPPED = frozenset((
    "seq", "ts_utc", "phase", "reason_code", "request_id", "endpoint", "tenant", "subject_ref", "issuer",
    "client_id", "roles", "policy_id", "policy_version", "policy_sha256", "destination", "destination_model",
    "input_tokens", "output_tokens", "status", "error_class", "bytes_out",
))
# fmt: on


def ocsf_lines(rows: Iterable[RequestRow]) -> Iterator[bytes]:
    """One event a line, in printable ASCII."""
    for row in rows:
        text = json.dumps(event(row), ensure_ascii=True, separators=(",", ":"))
        yield text.replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def event(row: RequestRow) -> dict[str, Any]:
    """The event of one record; members that the record says nothing about are left out."""
    record = row.record
    decision = record.decision or DecisionDoc("")
    status_id, status = _STATUS.get(record.phase, (0, "Unknown"))
    result = record.result
    total_us = (result.latency_us or {}).get("total") if result else None
    made = {
        "activity_id": _OTHER,
        "activity_name": record.phase.capitalize(),
        "category_name": "Application Activity",
        "category_uid": _CATEGORY,
        "class_name": "API Activity",
        "class_uid": _CLASS,
        "type_uid": _CLASS * 100 + _OTHER,
        "type_name": "API Activity: Other",
        "severity_id": 1,
        "severity": "Informational",
        "time": milliseconds(record.ts_utc),
        "duration": None if total_us is None else total_us // 1000,
        "status_id": status_id,
        "status": status,
        "status_code": record.reason_code,
        "metadata": _metadata(row),
        "actor": _actor(row.who),
        "src_endpoint": {"name": (row.who.actor.client_id if row.who else "") or _UNKNOWN},
        "dst_endpoint": _destination(decision.route),
        "api": _api(row, decision),
        "http_response": None if result is None else {"code": result.status, "body_length": result.bytes_out},
        **_control(row, decision),
        **_model(row, decision.route),
        "unmapped": {"tidegate": _rest(row)},
    }
    return _said(made)


def _metadata(row: RequestRow) -> dict[str, Any]:
    record = row.record
    return _said(
        {
            "version": OCSF_VERSION,
            "product": {"name": "Tidegate", "vendor_name": "Tidegate"},
            "profiles": ["ai_operation", "security_control"],
            "uid": record.event_id,
            "event_code": record.phase,
            "correlation_uid": record.request_id,
            "sequence": row.seq,
            "original_time": record.ts_utc,
            "log_format": SCHEMA,
            "tenant_uid": (row.who.tenant if row.who else "") or None,
        }
    )


def _actor(who: WhoDoc | None) -> dict[str, Any]:
    if who is None:
        return {"user": {"name": _UNKNOWN, "type_id": 0}}
    actor = who.actor
    user = {
        "uid": actor.subject_ref or _UNKNOWN,
        "type_id": 0,
        "groups": [{"name": role} for role in actor.roles] or None,
        "org": {"uid": who.tenant} if who.tenant else None,
    }
    idp = {"name": actor.issuer, "issuer": actor.issuer} if actor.issuer else None
    return _said({"user": _said(user), "idp": idp})


def _destination(route: RouteDoc | None) -> dict[str, Any] | None:
    return {"name": route.destination} if route and route.destination else None


def _api(row: RequestRow, decision: DecisionDoc) -> dict[str, Any]:
    result = row.record.result
    response = None if result is None else _said({"code": result.status, "error": result.error_class})
    return _said(
        {
            "operation": decision.endpoint or _UNKNOWN,
            "service": {"name": "Tidegate"},
            "request": {"uid": row.record.request_id},
            "response": response,
        }
    )


def _control(row: RequestRow, decision: DecisionDoc) -> dict[str, Any]:
    """What the policy did: profile `security_control`."""
    is_denied = row.record.phase == "denied"
    policy = decision.policy
    return {
        "action_id": 2 if is_denied else 1,
        "action": "Denied" if is_denied else "Allowed",
        "disposition_id": 2 if is_denied else 1,
        "disposition": "Blocked" if is_denied else "Allowed",
        "policy": {"name": policy.id, "version": policy.version, "uid": policy.sha256} if policy else None,
    }


def _model(row: RequestRow, route: RouteDoc | None) -> dict[str, Any]:
    """Which model, and how much: profile `ai_operation`. The provider is named as the destination is."""
    result = row.record.result
    usage = result.usage if result else None
    if route is None or route.destination is None:
        return {}
    context = {
        "service": {"name": route.destination},
        "prompt_tokens": usage.input if usage else None,
        "completion_tokens": usage.output if usage else None,
        "total_tokens": usage.input + usage.output if usage else None,
    }
    model = route.destination_model
    return {
        "ai_model": {"name": model, "ai_provider": route.destination} if model else None,
        "message_context": _said(context),
    }


def _rest(row: RequestRow) -> dict[str, Any]:
    values = {name: value for name, value in cells(row).items() if name not in _MAPPED}
    return {name: value for name, value in values.items() if value not in (None, "", ())}


def _said(members: dict[str, Any]) -> dict[str, Any]:
    """The members that say something."""
    return {name: value for name, value in members.items() if value is not None}
