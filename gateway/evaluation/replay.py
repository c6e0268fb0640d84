"""Recorded requests as facts again, and what a candidate policy would have decided about them.

Enters: stored audit records (bytes). Leaves: `Replay`, with counts and request ids. No content is needed,
and none is in a record.

Invariants
1. What is compared is the decision that was really made: the one in the record.
2. A record that does not hold all facts is counted and left out; it is never filled with guesses. One whose
   tools are partly unnamed is decided without those names and counted as inexact when a rule asks for tools.
3. Only the deciding record of a request is read: `admitted`, or `denied` after the policy was asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import msgspec

from gateway.audit.schema import RecordDoc
from gateway.audit.verify import RECORD
from gateway.domain.decision import Facts, Permit
from gateway.domain.label import Label, Level, Tag
from gateway.policy.compare import Answer, Tally, answer_of
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import evaluate, private_only

_DECODER = msgspec.json.Decoder(RecordDoc)
_ASKS_TOOLS = re.compile(r"\btools\b")


@dataclass(frozen=True, slots=True)
class Deployment:
    """What an activation said of the deployment: destinations that it could reach, and those that the
    policy of that time knew."""

    configured: frozenset[str]
    known: frozenset[str]

    def configured_for(self, policy: CompiledPolicy) -> frozenset[str]:
        """Destinations that a replay can use: the same, and those that are new in `policy`."""
        return self.configured | (frozenset(policy.destinations) - self.known)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One decided request. `is_degraded`: limits ran on the local cap, so only private places counted."""

    request_id: str
    ts_utc: str
    facts: Facts
    answer: Answer
    other_tool_count: int
    is_degraded: bool
    deployment: Deployment | None


@dataclass(slots=True)
class Replay:
    """What a replay found. `skipped` counts records that were left out, by reason."""

    tally: Tally = field(default_factory=Tally)
    skipped: Counter[str] = field(default_factory=Counter)
    inexact: list[str] = field(default_factory=list)
    first_utc: str = ""
    last_utc: str = ""


def recorded(records: Iterable[bytes], skipped: Counter[str] | None = None) -> Iterator[Recorded]:
    """The decided requests of stored records, in order; `skipped` counts what is left out."""
    lost: Counter[str] = Counter() if skipped is None else skipped
    deployment: Deployment | None = None
    for stored in records:
        seen = RECORD.match(stored)
        if seen is None:
            lost["unreadable"] += 1
            continue
        if seen[3] == b"log":
            deployment = _deployment(stored, seen[4]) or deployment
            continue
        if seen[3] not in (b"admitted", b"denied"):
            continue
        try:
            found = _recorded(_DECODER.decode(stored), deployment)
        except (msgspec.DecodeError, ValueError):
            found = "unreadable"
        if isinstance(found, str):
            lost[found] += 1
        else:
            yield found


def replay_records(
    records: Iterable[bytes],
    candidate: CompiledPolicy,
    *,
    configured: frozenset[str] | None = None,
    start: str = "",
    end: str = "",
) -> Replay:
    """Every recorded decision under `candidate`.

    `start` (included) and `end` (not included) are beginnings of RFC 3339 times in UTC; empty: no bound.
    `configured` are the destinations to use; when None, those that the log names.
    """
    result = Replay()
    asks_tools = any(
        rule.condition is not None and _ASKS_TOOLS.search(rule.condition.source) for rule in candidate.rules
    )
    everywhere = frozenset(candidate.destinations)
    for one in recorded(records, result.skipped):
        if one.ts_utc < start or (end and one.ts_utc >= end):
            continue
        places = configured
        if places is None:
            places = everywhere if one.deployment is None else one.deployment.configured_for(candidate)
        answer = decide_again(candidate, one, places)
        result.tally.add(one.request_id, one.facts.tenant, one.answer, answer)
        if asks_tools and one.other_tool_count:
            result.inexact.append(one.request_id)
        result.first_utc = result.first_utc or one.ts_utc
        result.last_utc = one.ts_utc
    return result


def compare_recorded(records: Iterable[bytes], old: CompiledPolicy, new: CompiledPolicy) -> Tally:
    """Every recorded request, decided by both policies."""
    tally = Tally()
    for one in recorded(records):
        answers = []
        for policy in (old, new):
            places = (
                frozenset(policy.destinations)
                if one.deployment is None
                else one.deployment.configured_for(policy)
            )
            answers.append(decide_again(policy, one, places))
        tally.add(one.request_id, one.facts.tenant, answers[0], answers[1])
    return tally


def decide_again(candidate: CompiledPolicy, one: Recorded, configured: frozenset[str]) -> Answer:
    """The candidate's answer to a recorded request, its own floor for the tenant included."""
    facts = one.facts
    floor = candidate.floor(facts.tenant)
    if facts.tenant in candidate.tenants and floor.level > facts.label.level:
        facts = replace(facts, label=facts.label.join(floor))
    decision = evaluate(candidate, facts, configured)
    if one.is_degraded and one.answer.denied is None and isinstance(decision, Permit):
        private = private_only(decision)
        if private is None:
            return Answer((), "limits-unavailable", decision.rule_ids)
        decision = private
    return answer_of(decision)


def _recorded(record: RecordDoc, deployment: Deployment | None) -> Recorded | str:
    """The request of a record, or the reason why it is left out."""
    who, decision = record.who, record.decision
    if who is None or decision is None or decision.policy is None:
        return "not-decided"
    asked, route, seen = decision.asked, decision.route, decision.classifier
    if asked is None or route is None or seen is None or not route.model_asked:
        return "without-facts"
    pins = frozenset(f"{pin.name}@{pin.version}" for pin in decision.pins)
    facts = Facts(
        tenant=who.tenant,
        roles=frozenset(who.actor.roles),
        scopes=frozenset(asked.scopes),
        label=Label(Level.parse(seen.level), frozenset(Tag(tag) for tag in seen.tags)),
        model=route.model_asked,
        endpoint=decision.endpoint,
        stream=asked.stream,
        tool_names=frozenset(asked.tools),
        prompt=asked.prompt,
        prompt_tokens=asked.prompt_tokens,
        output_tokens=asked.output_tokens,
        extensions=frozenset(asked.extensions),
        workload=asked.workload,
        client=who.actor.client_id,
        protocols=pins,
        attributes=tuple(sorted(asked.attributes.items())),
        region=asked.region,
        at_seconds=asked.at,
        unsaid=tuple(sorted(asked.unsaid.items())),
    )
    denied = None if route.destinations else record.reason_code
    is_admitted = record.phase == "admitted"
    is_degraded = is_admitted and decision.limits is not None and decision.limits.degraded
    needs_approval = decision.approval is not None
    answer = Answer(route.destinations, denied, decision.policy.rule_ids, needs_approval)
    return Recorded(
        record.request_id, record.ts_utc, facts, answer, asked.other_tool_count, is_degraded, deployment
    )


def _deployment(stored: bytes, event_type: bytes) -> Deployment | None:
    """What an activation event says of the deployment; None for any other event."""
    if event_type not in (b"policy-activated", b"policy-rolled-back"):
        return None
    event = _DECODER.decode(stored).event or {}
    if "configured" not in event or "destinations" not in event:
        return None
    return Deployment(
        frozenset(str(event["configured"]).split()), frozenset(str(event["destinations"]).split())
    )


def find(records: Iterable[bytes], request_id: str) -> Recorded | None:
    """The deciding record of one request, or None."""
    for one in recorded(records):
        if one.request_id == request_id:
            return one
    return None
