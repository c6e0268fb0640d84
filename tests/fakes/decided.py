"""Stored records of decided requests, as a gateway with the small pack would write them."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.audit.canonical import LogEvent, Stamp, WriterContext, encode_event, encode_request, seal
from gateway.domain.decision import Facts, Permit
from gateway.domain.record import (
    Actor,
    AskedFact,
    ClassifierFact,
    LimitFact,
    Phase,
    PolicyFact,
    RequestRecord,
    RouteFact,
)
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import evaluate

CONTEXT = WriterContext("dep/replica/3", "1.2.3", "a" * 64, "boot-1")
EVENT_ID = "01a230dd-7979-7f13-9c59-f4ef069b00de"


def record_of(
    policy: CompiledPolicy,
    facts: Facts,
    configured: frozenset[str],
    request_id: str,
    *,
    other_tool_count: int = 0,
    degraded: bool = False,
) -> RequestRecord:
    """What the walk records about these facts."""
    decision = evaluate(policy, facts, configured)
    is_permit = isinstance(decision, Permit)
    places = tuple(place.name for place in decision.destinations) if isinstance(decision, Permit) else ()
    return RequestRecord(
        Phase.ADMITTED if is_permit else Phase.DENIED,
        request_id,
        "admitted" if isinstance(decision, Permit) else decision.code,
        facts.endpoint,
        actor=Actor(facts.tenant, "5" * 64, "7" * 64, "i", facts.client, "k1", tuple(sorted(facts.roles))),
        policy=PolicyFact(policy.id, policy.version, policy.sha256, decision.rule_ids),
        classifier=ClassifierFact(
            ("d@1",), facts.label.level.word, facts.label.sorted_tags, (), 0, (("scanned", 1),)
        ),
        route=RouteFact(facts.model, places),
        limits=LimitFact(100, None, degraded),
        asked=AskedFact(
            facts.stream,
            facts.prompt_tokens,
            facts.output_tokens,
            facts.at_seconds,
            facts.workload,
            tuple(sorted(facts.scopes)),
            tuple(sorted(facts.tool_names)),
            other_tool_count,
            facts.prompt,
            tuple(sorted(facts.extensions)),
            facts.attributes,
            facts.region,
            facts.unsaid,
        ),
    )


def stored(records: Iterable[RequestRecord | LogEvent], hour: int = 9) -> list[bytes]:
    """Stored bytes, one second apart."""
    lines = []
    for seq, each in enumerate(records):
        stamp = Stamp(EVENT_ID, f"2026-12-01T{hour:02d}:{seq // 60 % 60:02d}:{seq % 60:02d}.000000Z", seq)
        if isinstance(each, LogEvent):
            body = encode_event(each, CONTEXT, stamp)
        else:
            body = encode_request(each, CONTEXT, stamp)
        lines.append(seal(CONTEXT.head, seq, body))
    return lines


def activation(configured: str, destinations: str) -> LogEvent:
    """The event of a policy's activation."""
    return LogEvent("policy-activated", "ok", (("configured", configured), ("destinations", destinations)))
