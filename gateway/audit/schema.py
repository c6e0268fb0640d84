"""Schema `audit/1` as types: what one stored record looks like.

Fields are append-only. A new field has a default and is left out while it holds it; anything else would
be `audit/2`. The first three fields, `v`, `origin` and `seq`, are written by `canonical.seal`.
"""

from __future__ import annotations

import msgspec

SCHEMA = "audit/1"


class ActorDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asked. References are keyed digests."""

    subject_ref: str
    token_ref: str
    issuer: str
    client_id: str
    key_id: str
    roles: tuple[str, ...]


class WhoDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tenant and actor."""

    tenant: str
    actor: ActorDoc


class PolicyDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """Policy that decided."""

    id: str
    version: str
    sha256: str
    rule_ids: tuple[str, ...]


class ClassifierDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the classifier concluded; `coverage` counts parts by coverage word."""

    detectors: tuple[str, ...]
    level: str
    tags: tuple[str, ...]
    kinds: tuple[str, ...]
    finding_count: int
    coverage: dict[str, int]
    degraded: str | None = None
    inherited: str | None = None


class AttemptDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt: at which destination, and how it ended."""

    destination: str
    outcome: str


class RouteDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where it may go (intent; `hosted`: any of these places is) or went (closing record)."""

    model_asked: str
    destinations: tuple[str, ...]
    destination: str | None = None
    destination_model: str | None = None
    hosted: bool | None = None
    region: str | None = None
    clearance: str | None = None
    attempt: int = 0
    attempts: tuple[AttemptDoc, ...] = ()


class PinDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """One registry document that was used."""

    name: str
    version: str
    sha256: str


class LimitDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens reserved and settled; cost reserved, at the end settled."""

    reserved_tokens: int
    settled_tokens: int | None = None
    degraded: bool = False
    cost_usd_micros: int = 0


class FilterDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """One action of the output filter."""

    rule: str
    action: str
    kind: str
    count: int


class AskedDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the policy was asked beside the fields above; `at` is Unix time in seconds."""

    at: int
    prompt_tokens: int = 0
    output_tokens: int = 0
    stream: bool = False
    workload: str = "interactive"
    scopes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    other_tool_count: int = 0
    prompt: str | None = None
    extensions: tuple[str, ...] = ()
    attributes: dict[str, str] = {}
    region: str = ""
    unsaid: dict[str, str] = {}


class ShadowDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a candidate policy would have decided otherwise."""

    sha256: str
    destinations: tuple[str, ...] = ()
    denied: str | None = None
    rule_ids: tuple[str, ...] = ()


class ToolCallDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool call of the answer, and what became of it; see `gateway.domain.record.ToolCallFact`."""

    outcome: str
    name: str = ""
    source: str = ""
    schema: str = ""
    arguments_hmac: str | None = None


class ApprovalDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """The approval that was asked for or used, where it stood, and a keyed digest of who agreed."""

    id: str
    state: str
    approver_ref: str | None = None


class DecisionDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was decided, and by what."""

    endpoint: str
    policy: PolicyDoc | None = None
    classifier: ClassifierDoc | None = None
    route: RouteDoc | None = None
    pins: tuple[PinDoc, ...] = ()
    limits: LimitDoc | None = None
    filters: tuple[FilterDoc, ...] = ()
    tool_calls: tuple[ToolCallDoc, ...] = ()
    asked: AskedDoc | None = None
    shadow: ShadowDoc | None = None
    approval: ApprovalDoc | None = None


class ContentDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """Commitments to content; bodies themselves come later, encrypted."""

    level: str
    client_request_ref: str | None = None
    request_hmac: str | None = None
    response_hmac: str | None = None


class UsageDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens used, as `source` counted them."""

    input: int
    output: int
    cached: int
    reasoning: int
    source: str


class ResultDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """How it ended; `latency_us` by stage."""

    status: int
    finish_reasons: tuple[str, ...] = ()
    usage: UsageDoc | None = None
    latency_us: dict[str, int] | None = None
    bytes_out: int = 0
    client_disconnected: bool = False
    upstream_request_id: str | None = None
    error_class: str | None = None


class RecordDoc(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record after its first three fields. `clock` and `writer` are constants of the process."""

    phase: str
    event_type: str
    request_id: str
    event_id: str
    ts_utc: str
    ts_mono_ns: int
    boot_id: str
    clock: msgspec.Raw
    outcome: str
    reason_code: str
    writer: msgspec.Raw
    retention_class: str
    hold_ids: tuple[str, ...] = ()
    trace_id: str | None = None
    parent_event_id: str | None = None
    intent_seq: int | None = None
    who: WhoDoc | None = None
    decision: DecisionDoc | None = None
    content: ContentDoc | None = None
    result: ResultDoc | None = None
    event: dict[str, str | int] | None = None
