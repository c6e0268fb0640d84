"""Records to stored bytes, schema `audit/1`.

Invariants
1. A stored record is one JSON object on one line of printable ASCII (0x20 to 0x7E): newlines, escape
   sequences, C1 controls and bidirectional marks of any text can neither end the line nor reach a
   terminal.
2. The order of fields is fixed: `v`, `origin`, `seq`, then as `schema.RecordDoc` says. A record is hashed
   as stored; nothing is ever encoded again to verify it.
3. Ids and times are arguments. The same arguments give the same bytes.

Measured: see docs/audit-format.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from gateway.audit import schema as doc
from gateway.domain.record import AskedFact, Phase, RequestRecord, ResultFact, RouteFact

_ENCODER = msgspec.json.Encoder()
_PLAIN_ID = re.compile(r"[A-Za-z0-9._:/-]{1,200}")
_UNSAFE = re.compile("[^\x20-\x7e]")

#: How the word in `outcome` follows from the phase.
_OUTCOME = {
    Phase.ADMITTED: "permitted",
    Phase.COMPLETED: "success",
    Phase.DENIED: "refused",
    Phase.ABORTED: "failure",
    Phase.ABANDONED: "unknown",
    Phase.LOG: "success",
}
STANDARD_RETENTION = "standard"


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What is the same for every record of one process. `origin` is deployment/replica/slot.

    `head` is how each stored record starts, up to its sequence number.
    """

    origin: str
    build: str
    config_sha256: str
    boot_id: str
    clock_source: str = "system"
    head: bytes = field(init=False)
    clock: msgspec.Raw = field(init=False)
    writer: msgspec.Raw = field(init=False)

    def __post_init__(self) -> None:
        _, _, tail = self.origin.partition("/")
        replica, _, slot = tail.partition("/")
        writer = {
            "replica": replica,
            "slot": slot,
            "build": self.build,
            "config_sha256": self.config_sha256,
        }
        head = b'{"v":"%b","origin":%b,"seq":' % (doc.SCHEMA.encode(), _ENCODER.encode(self.origin))
        object.__setattr__(self, "head", head)
        object.__setattr__(self, "clock", msgspec.Raw(_ENCODER.encode({"source": self.clock_source})))
        object.__setattr__(self, "writer", msgspec.Raw(_ENCODER.encode(writer)))


@dataclass(frozen=True, slots=True)
class Stamp:
    """When, by which clocks, and under which id (UUIDv7) a record was made."""

    event_id: str
    ts_utc: str
    ts_mono_ns: int


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Something that happened to the log itself. `facts` are names with plain values, never text of users.

    Event types: start, stop, segment-open, segment-close, gap, key-rotated, resumed,
    export-created, audit-read, policy-activated, policy-rolled-back, policy-rejected, policy-shadowed,
    admin-call,
    approval-granted, approval-denied, approval-refused, approval-void,
    upstream-attempt (a further attempt of a request, written before it is made).
    """

    event_type: str
    reason_code: str
    facts: tuple[tuple[str, str | int], ...] = ()


def rfc3339_us(ts_utc_us: int, second_text: str) -> str:
    """Time of day with microseconds: `second_text` is `YYYY-MM-DDTHH:MM:SS` of the same second, UTC."""
    return f"{second_text}.{ts_utc_us % 1_000_000:06d}Z"


def uuid7(ts_utc_us: int, random_bits: int) -> str:
    """UUID version 7 (RFC 9562): milliseconds since 1970, then 74 bits of `random_bits`."""
    value = (ts_utc_us // 1000 & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | (random_bits >> 62 & 0xFFF) << 64
    value |= 0b10 << 62 | random_bits & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def encode_request(record: RequestRecord, context: WriterContext, stamp: Stamp) -> bytes:
    """Bytes of a request's record after its sequence number, for `seal`.

    Raises `ValueError` for text that is not Unicode (lone surrogates), and for a request id that is not
    printable ASCII without quotes and backslashes: the gateway makes these ids itself.
    """
    if not _PLAIN_ID.fullmatch(record.request_id):
        raise ValueError("the request id is not one that the gateway makes")
    actor = record.actor
    body = doc.RecordDoc(
        phase=record.phase.value,
        event_type="request",
        request_id=record.request_id,
        event_id=stamp.event_id,
        ts_utc=stamp.ts_utc,
        ts_mono_ns=stamp.ts_mono_ns,
        boot_id=context.boot_id,
        clock=context.clock,
        outcome=_OUTCOME[record.phase],
        reason_code=record.reason_code,
        writer=context.writer,
        retention_class=STANDARD_RETENTION,
        intent_seq=record.intent_seq,
        who=None
        if actor is None
        else doc.WhoDoc(
            actor.tenant,
            doc.ActorDoc(
                actor.subject_ref, actor.token_ref, actor.issuer, actor.client_id, actor.key_id, actor.roles
            ),
        ),
        decision=_decision(record),
        content=doc.ContentDoc(
            record.audit_level, record.client_request_ref, record.request_hmac, record.response_hmac
        ),
        result=None if record.result is None else _result(record.result),
    )
    return _ascii(_ENCODER.encode(body))


def encode_event(event: LogEvent, context: WriterContext, stamp: Stamp) -> bytes:
    """Bytes of an event of the log after its sequence number, for `seal`."""
    body = doc.RecordDoc(
        phase=Phase.LOG.value,
        event_type=event.event_type,
        request_id="",
        event_id=stamp.event_id,
        ts_utc=stamp.ts_utc,
        ts_mono_ns=stamp.ts_mono_ns,
        boot_id=context.boot_id,
        clock=context.clock,
        outcome=_OUTCOME[Phase.LOG],
        reason_code=event.reason_code,
        writer=context.writer,
        retention_class=STANDARD_RETENTION,
        event=dict(event.facts),
    )
    return _ascii(_ENCODER.encode(body))


def seal(head: bytes, seq: int, body: bytes) -> bytes:
    """The stored record: `head` of the context, its sequence number, the encoded body."""
    return b"%b%d,%b" % (head, seq, body)


def _decision(record: RequestRecord) -> doc.DecisionDoc:
    policy, seen, limits = record.policy, record.classifier, record.limits
    return doc.DecisionDoc(
        endpoint=record.endpoint,
        policy=None
        if policy is None
        else doc.PolicyDoc(policy.id, policy.version, policy.sha256, policy.rule_ids),
        classifier=None
        if seen is None
        else doc.ClassifierDoc(
            seen.detectors,
            seen.level,
            seen.tags,
            seen.kinds,
            seen.finding_count,
            dict(seen.coverage),
            seen.degraded,
            seen.inherited,
        ),
        route=None if record.route is None else _route(record.route),
        pins=tuple([doc.PinDoc(pin.name, pin.version, pin.sha256) for pin in record.pins]),
        limits=None
        if limits is None
        else doc.LimitDoc(
            limits.reserved_tokens, limits.settled_tokens, limits.degraded, limits.cost_usd_micros
        ),
        filters=tuple([doc.FilterDoc(f.rule, f.action, f.kind, f.count) for f in record.filters]),
        tool_calls=tuple(
            [
                doc.ToolCallDoc(call.outcome, call.name, call.source, call.schema, call.arguments_hmac)
                for call in record.tool_calls
            ]
        ),
        asked=None if record.asked is None else _asked(record.asked),
        shadow=None
        if record.shadow is None
        else doc.ShadowDoc(
            record.shadow.sha256, record.shadow.destinations, record.shadow.denied, record.shadow.rule_ids
        ),
        approval=None
        if record.approval is None
        else doc.ApprovalDoc(record.approval.id, record.approval.state, record.approval.approver_ref),
    )


def _asked(asked: AskedFact) -> doc.AskedDoc:
    return doc.AskedDoc(
        asked.at_seconds,
        asked.prompt_tokens,
        asked.output_tokens,
        asked.stream,
        asked.workload,
        asked.scopes,
        asked.tools,
        asked.other_tool_count,
        asked.prompt,
        asked.extensions,
        dict(asked.attributes),
        asked.region,
        dict(asked.unsaid),
    )


def _route(route: RouteFact) -> doc.RouteDoc:
    return doc.RouteDoc(
        route.model_asked,
        route.destinations,
        route.destination,
        route.destination_model,
        route.hosted,
        route.region,
        route.clearance,
        route.attempt,
        tuple([doc.AttemptDoc(place, outcome) for place, outcome in route.attempts]),
    )


def _result(result: ResultFact) -> doc.ResultDoc:
    usage = result.usage
    return doc.ResultDoc(
        result.status,
        result.finish_reasons,
        None
        if usage is None
        else doc.UsageDoc(
            usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens, usage.source
        ),
        dict(result.latency_us) or None,
        result.bytes_out,
        result.client_disconnected,
        result.upstream_request_id,
        result.error_class,
    )


def _ascii(encoded: bytes) -> bytes:
    """The encoded object without its opening brace, as printable ASCII (invariant 1)."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded[1:]
    return _UNSAFE.sub(_escape, encoded.decode()).encode("ascii")[1:]


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
