"""Audit records as values. `gateway.audit` turns them into stored bytes.

The field names are those of schema `audit/1`. Fields are append-only; a new one has a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.domain.approval import ApprovalFact
from gateway.domain.chat import Pin
from gateway.domain.limits import Usage
from gateway.domain.stream import FilterAction


class Phase(StrEnum):
    """When in the life of a request a record is written."""

    ADMITTED = "admitted"
    COMPLETED = "completed"
    DENIED = "denied"
    ABORTED = "aborted"
    ABANDONED = "abandoned"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asked. References are keyed digests; there is no name here."""

    tenant: str
    subject_ref: str
    token_ref: str
    issuer: str
    client_id: str
    key_id: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyFact:
    """Which policy decided, and by which rules."""

    id: str
    version: str
    sha256: str
    rule_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassifierFact:
    """What the classifier concluded. `coverage` counts parts by coverage word; `inherited` is the level that
    came with earlier answers of this gateway in the request."""

    detectors: tuple[str, ...]
    level: str
    tags: tuple[str, ...]
    kinds: tuple[str, ...]
    finding_count: int
    coverage: tuple[tuple[str, int], ...]
    degraded: str | None = None
    inherited: str | None = None


@dataclass(frozen=True, slots=True)
class RouteFact:
    """Where it goes or went. In an intent: every destination that the permit allows, in order, and in
    `hosted` whether any of them is."""

    model_asked: str
    destinations: tuple[str, ...]
    destination: str | None = None
    destination_model: str | None = None
    hosted: bool | None = None
    region: str | None = None
    clearance: str | None = None
    attempt: int = 0
    attempts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AskedFact:
    """What the policy was asked beside tenant, roles, label, model and pins: enough to ask it again.

    `tools` names only tools of the registry; a client's own tool names are its free text, so they are
    counted in `other_tool_count`. `at_seconds` is Unix time. `unsaid` are
    (kind, field) of wire formats that could not say the request; paths of fields are closed words.
    """

    stream: bool
    prompt_tokens: int
    output_tokens: int
    at_seconds: int
    workload: str = "interactive"
    scopes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    other_tool_count: int = 0
    prompt: str | None = None
    extensions: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    region: str = ""
    unsaid: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ShadowFact:
    """What a candidate policy would have decided otherwise; `denied` is the code of a denial."""

    sha256: str
    destinations: tuple[str, ...]
    denied: str | None
    rule_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolCallFact:
    """One tool call of the answer, and what became of it.

    `name` is that of a registry's tool, else empty: other names are free text. `source` is name@version of
    the tool set, `client`, or empty for a tool that was not offered. `schema` is `sha256:` or (a client's
    own) `hmac:` and a digest in hex; `arguments_hmac` is a keyed digest. `outcome` is `released`,
    `withheld` (good, but another call of its choice was not), `dropped` (its choice was stopped),
    `not-granted` or the closed word of a fault.
    """

    name: str
    source: str
    schema: str
    arguments_hmac: str | None
    outcome: str


@dataclass(frozen=True, slots=True)
class LimitFact:
    """What was reserved and settled, in tokens; the cost is the reserved one, at the end the settled one."""

    reserved_tokens: int
    settled_tokens: int | None = None
    degraded: bool = False
    cost_usd_micros: int = 0


@dataclass(frozen=True, slots=True)
class ResultFact:
    """How it ended. `latency_us` are (stage, microseconds); no text of an error, only its class."""

    status: int
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    latency_us: tuple[tuple[str, int], ...] = ()
    bytes_out: int = 0
    client_disconnected: bool = False
    upstream_request_id: str | None = None
    error_class: str | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One record about one request. What a phase does not know yet is None.

    `request_hmac` and `response_hmac` are keyed digests in hex (HMAC-SHA-256 of the body received, keyed
    BLAKE2b of the text released), so that short texts cannot be guessed from the log.
    """

    phase: Phase
    request_id: str
    reason_code: str
    endpoint: str
    client_request_ref: str | None = None
    actor: Actor | None = None
    policy: PolicyFact | None = None
    classifier: ClassifierFact | None = None
    route: RouteFact | None = None
    pins: tuple[Pin, ...] = ()
    limits: LimitFact | None = None
    filters: tuple[FilterAction, ...] = ()
    request_hmac: str | None = None
    response_hmac: str | None = None
    result: ResultFact | None = None
    intent_seq: int | None = None
    audit_level: str = "metadata"
    tool_calls: tuple[ToolCallFact, ...] = ()
    asked: AskedFact | None = None
    shadow: ShadowFact | None = None
    approval: ApprovalFact | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a record is durable: its place in the log of `origin` and its leaf hash (hex)."""

    request_id: str
    origin: str
    seq: int
    leaf_sha256: str
