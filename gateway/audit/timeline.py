"""What the records of one request tell, in words. Pure.

Invariant: what no record tells is called unknown, never nothing: a request without a closing record may have
gone to every place that was allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.audit.evidence import Evidence
from gateway.audit.schema import ClassifierDoc, DecisionDoc, LimitDoc, RecordDoc, ResultDoc, RouteDoc

_ENDS = ("completed", "aborted", "abandoned", "denied")
_OTHER_REASON = (
    "a floor (of the tenant, of a pinned document, or declared by the caller) or a part that was not read; "
    "the record does not say which"
)
_UNKNOWN = "unknown: it may have gone to every place that was allowed"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with (name, value) rows; values are text as it stands in the records, not yet escaped."""

    title: str
    rows: tuple[tuple[str, str], ...]


def tell(evidence: list[Evidence]) -> list[Section]:
    """What the records say, by question. `evidence` is not empty."""
    own = [each.record for each in evidence if each.record.phase != "log"]
    events = [each.record for each in evidence if each.record.phase == "log"]
    ends = [record for record in own if record.phase in _ENDS]
    first = next((r.decision for r in own if r.decision is not None), None)
    sections = [
        _request(own, ends),
        _who(own),
        _label(first.classifier if first else None),
        _policy(first),
        _approval(own, events),
        _allowed(first.route if first else None),
        _went(ends, events),
        _acts(ends),
        _costs(own),
    ]
    return [each for each in sections if each.rows]


def _rows(*rows: tuple[str, str | int | None]) -> tuple[tuple[str, str], ...]:
    """The rows that say something."""
    return tuple((name, str(value)) for name, value in rows if value not in (None, ""))


def _request(own: list[RecordDoc], ends: list[RecordDoc]) -> Section:
    if not own:
        return Section("Request", ())
    rows: list[tuple[str, str | int | None]] = [
        ("request id", own[0].request_id),
        ("endpoint", own[0].decision.endpoint if own[0].decision else None),
        ("first record", own[0].ts_utc),
    ]
    rows += [("end", f"{end.phase} at {end.ts_utc}: {end.reason_code}") for end in ends]
    if not ends:
        rows.append(("end", "none recorded: still open, or cut off by a crash"))
    level = own[0].content.level if own[0].content else None
    return Section("Request", _rows(*rows, ("audit level", level)))


def _who(own: list[RecordDoc]) -> Section:
    who = next((record.who for record in own if record.who is not None), None)
    if who is None:
        return Section("Who asked", (("caller", "not known: nobody had been authenticated"),) if own else ())
    actor = who.actor
    return Section(
        "Who asked",
        _rows(
            ("tenant", who.tenant),
            ("subject (keyed digest)", actor.subject_ref),
            ("token (keyed digest)", actor.token_ref),
            ("issuer", actor.issuer),
            ("client", actor.client_id),
            ("signing key", actor.key_id),
            ("roles", ", ".join(actor.roles) or "none"),
        ),
    )


def _label(seen: ClassifierDoc | None) -> Section:
    if seen is None:
        return Section("Label, and why", (("label", "none: it was not classified"),))
    return Section(
        "Label, and why",
        _rows(
            ("label", seen.level),
            ("tags", ", ".join(seen.tags)),
            ("kinds found", ", ".join(seen.kinds) or "none"),
            ("findings", seen.finding_count),
            ("other reason", _OTHER_REASON if _is_unexplained(seen) else None),
            ("inherited from earlier answers", seen.inherited or "nothing"),
            ("degraded", seen.degraded or "no"),
            ("parts read", ", ".join(f"{count} {word}" for word, count in sorted(seen.coverage.items()))),
            ("detectors", ", ".join(seen.detectors)),
        ),
    )


def _is_unexplained(seen: ClassifierDoc) -> bool:
    """Whether no finding, no earlier answer and no degraded detector made the label what it is."""
    return seen.level != "public" and not (
        seen.finding_count or seen.degraded or seen.inherited == seen.level
    )


def _policy(decision: DecisionDoc | None) -> Section:
    policy = decision.policy if decision else None
    if decision is None or policy is None:
        return Section("Policy and rules", (("policy", "none had decided"),))
    shadow = decision.shadow
    return Section(
        "Policy and rules",
        _rows(
            ("policy", f"{policy.id} version {policy.version}"),
            ("policy sha256", policy.sha256),
            ("rules", ", ".join(policy.rule_ids) or "none"),
            *(
                ("registry document", f"{pin.name} {pin.version}, sha256 {pin.sha256}")
                for pin in decision.pins
            ),
            (
                "a candidate policy would have",
                None
                if shadow is None
                else shadow.denied or "allowed " + (", ".join(shadow.destinations) or "nothing"),
            ),
        ),
    )


def _approval(own: list[RecordDoc], events: list[RecordDoc]) -> Section:
    rows: list[tuple[str, str | int | None]] = []
    for record in own:
        asked = record.decision.approval if record.decision else None
        if asked is not None:
            rows.append((asked.id, f"{asked.state} ({record.phase} record)"))
            rows.append(("agreed by (keyed digest)", asked.approver_ref))
    for record in events:
        if record.event_type.startswith("approval-"):
            event = record.event or {}
            rows.append((str(event.get("approval_id", "")), f"{record.event_type} at {record.ts_utc}"))
            rows.append(("decided by (keyed digest)", event.get("approver_ref")))
    return Section("Approvals", _rows(*rows))


def _allowed(route: RouteDoc | None) -> Section:
    title = "Where it was allowed to go"
    if route is None or not route.destinations:
        return Section(title, (("destinations", "nowhere"),))
    hosted = {True: "yes", False: "no", None: "not recorded"}[route.hosted]
    return Section(
        title,
        _rows(
            ("model asked", route.model_asked),
            ("destinations", ", ".join(route.destinations)),
            ("any of them hosted", hosted),
        ),
    )


def _went(ends: list[RecordDoc], events: list[RecordDoc]) -> Section:
    rows: list[tuple[str, str | int | None]] = []
    for event in (each.event or {} for each in events if each.event_type == "upstream-attempt"):
        rows.append((f"attempt {event.get('attempt', '?')} permitted to", event.get("destination")))
    for end in ends:
        route = end.decision.route if end.decision else None
        if end.phase == "denied":
            rows.append(("destination", "nowhere: it was refused before anything left"))
        elif end.phase == "abandoned" or route is None:
            # fail-closed: see the invariant.
            rows.append(("destination", _UNKNOWN))
        else:
            rows += _places(route)
    if not ends:
        rows.append(("destination", _UNKNOWN))
    return Section("Where it went", _rows(*rows))


def _places(route: RouteDoc) -> list[tuple[str, str | int | None]]:
    rows: list[tuple[str, str | int | None]] = [
        (f"attempt {number}", f"{tried.destination}: {tried.outcome}")
        for number, tried in enumerate(route.attempts, 1)
    ]
    if route.destination is None:
        return [*rows, ("destination", None if rows else "nowhere: nothing was tried")]
    hosted = {True: "yes", False: "no", None: "not recorded"}[route.hosted]
    return [
        *rows,
        ("destination", route.destination),
        ("hosted", hosted),
        ("model there", route.destination_model),
        ("region", route.region),
        ("clearance", route.clearance),
    ]


def _acts(ends: list[RecordDoc]) -> Section:
    """Of a request that was refused, or closed by the log itself, no record tells of an answer."""
    rows: list[tuple[str, str | int | None]] = []
    for end in ends:
        decision = end.decision
        if end.phase not in ("completed", "aborted") or decision is None or decision.route is None:
            continue
        rows += [
            ("output filter", f"{f.rule}: {f.action} {f.kind}, {f.count} times") for f in decision.filters
        ]
        if end.result is not None and end.result.error_class == "OutputBlocked":
            rows.append(("output filter", f"stopped the answer: {end.reason_code}"))
        elif not decision.filters:
            rows.append(("output filter", "did nothing"))
        for call in decision.tool_calls:
            name = call.name or "a tool that the registry does not name"
            rows.append(("tool call", f"{name} ({call.source or 'not offered'}): {call.outcome}"))
        if not decision.tool_calls:
            rows.append(("tool calls", "none"))
    return Section("What was done to the answer", _rows(*rows))


def _costs(own: list[RecordDoc]) -> Section:
    rows: list[tuple[str, str | int | None]] = []
    limits = [r.decision.limits for r in own if r.decision is not None and r.decision.limits is not None]
    if limits:
        rows += _limit(limits[-1])
    for result in (record.result for record in own if record.result is not None):
        rows += _result(result)
    return Section("Limits, usage, times", _rows(*rows))


def _limit(limit: LimitDoc) -> list[tuple[str, str | int | None]]:
    return [
        ("tokens reserved", limit.reserved_tokens),
        ("tokens settled", limit.settled_tokens),
        ("limits degraded", "yes" if limit.degraded else "no"),
    ]


def _result(result: ResultDoc) -> list[tuple[str, str | int | None]]:
    usage = result.usage
    return [
        ("status", result.status),
        ("error class", result.error_class),
        ("finish reasons", ", ".join(result.finish_reasons)),
        (
            "tokens used",
            None
            if usage is None
            else f"{usage.input} in, {usage.output} out, {usage.cached} cached, {usage.reasoning} reasoning "
            f"(counted by {usage.source})",
        ),
        *((f"time, {stage}", f"{us / 1000:.3f} ms") for stage, us in (result.latency_us or {}).items()),
        ("bytes out", result.bytes_out),
        ("client went away", "yes" if result.client_disconnected else "no"),
        ("upstream request id", result.upstream_request_id),
    ]
