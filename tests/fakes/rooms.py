"""Fakes of the rooms behind the walk's ports: small, honest, and able to fail on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from gateway.assembly import problem
from gateway.audit.canonical import LogEvent
from gateway.dialects.table import WireFormats
from gateway.domain.admitted import Admitted
from gateway.domain.approval import Approval, ApprovalAsk, ApprovalFact, ApprovalState
from gateway.domain.chat import ChatRequest, ResolvedRequest
from gateway.domain.decision import Decision, Destination, Facts, Permit
from gateway.domain.finding import Coverage, PartVerdict, Verdict
from gateway.domain.label import PUBLIC, Label, Level
from gateway.domain.limits import Exceeded, Quota, Reservation, Usage
from gateway.domain.principal import Principal
from gateway.domain.record import Phase, Receipt, RequestRecord
from gateway.domain.request import RawRequest
from gateway.domain.secret import Secret
from gateway.domain.stream import FilterAction, StreamEvent, TextDelta
from gateway.errors import ApprovalRequired, Refusal
from gateway.pipeline.admit import Walk
from gateway.pipeline.ports import Again
from gateway.policy.bundle import read_files
from gateway.policy.compile import compile_bundle
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import evaluate, private_only
from gateway.protocols.resolve import resolve
from gateway.protocols.tool_gate import guard
from gateway.snapshot import Snapshot, SnapshotHolder
from tests.fakes.protocol_files import good_files, registry_of
from tests.fakes.stack import POLICIES

REGISTRY = registry_of(good_files())

PRINCIPAL = Principal(
    tenant="demo",
    subject="alice",
    subject_ref="s" * 64,
    token_ref="t" * 64,
    issuer="tests",
    client_id="",
    key_id="k",
    roles=frozenset({"user"}),
    scopes=frozenset(),
    expires_at_seconds=2**40,
)


@dataclass
class FakeAuthenticator:
    """Knows one principal, or refuses."""

    refusal: Refusal | None = None

    async def authenticate(self, raw: RawRequest) -> Principal:
        if self.refusal is not None:
            raise self.refusal
        return PRINCIPAL


@dataclass
class FakeDoors:
    """Open, or closed to the destinations that it is told; remembers who came in and who left."""

    busy: dict[str, Refusal] = field(default_factory=dict)
    entered: list[tuple[str, str, str, int, float | None]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    async def enter(
        self, destination: str, workload: str, tenant: str, tokens: int, wait_seconds: float | None
    ) -> FakePlace:
        if destination in self.busy:
            raise self.busy[destination]
        self.entered.append((destination, workload, tenant, tokens, wait_seconds))
        return FakePlace(destination, self)


@dataclass
class FakePlace:
    """A place, given on once."""

    destination: str
    doors: FakeDoors

    def leave(self) -> None:
        self.doors.left.append(self.destination)


@dataclass
class FakeLineage:
    """Knows one label for every request, and what it was told to remember."""

    label: Label = PUBLIC
    remembered: list[tuple[Label, str]] = field(default_factory=list)
    fault: Exception | None = None

    async def floor(self, principal: Principal, chat: ChatRequest) -> Label:
        return self.label

    def listen(self, principal: Principal, label: Label) -> FakeSaid:
        return FakeSaid(self, label)


@dataclass
class FakeSaid:
    """The text of an answer."""

    lineage: FakeLineage
    label: Label
    text: str = ""

    def feed(self, event: StreamEvent) -> None:
        if isinstance(event, TextDelta):
            self.text += event.text

    async def remember(self) -> None:
        if self.lineage.fault is not None:
            raise self.lineage.fault
        self.lineage.remembered.append((self.label, self.text))


@dataclass
class FakeLimiter:
    """Grants, or answers what it is told to; remembers settlements."""

    answer: Exceeded | None = None
    is_degraded: bool = False
    reserved: list[str] = field(default_factory=list)
    settled: list[tuple[str, Usage | None]] = field(default_factory=list)

    extend_seconds: float = 300.0
    extended: list[tuple[str, int]] = field(default_factory=list)
    account_answer: Exceeded | None = None
    accounts: list[str] = field(default_factory=list)

    async def reserve_account(
        self, reservation: Reservation, account: str, quotas: tuple[Quota, ...]
    ) -> Reservation | Exceeded:
        if self.account_answer is not None:
            return self.account_answer
        self.accounts.append(account)
        return replace(reservation, account=account, quotas=quotas)

    async def extend(self, reservation: Reservation, tokens: int) -> None:
        self.extended.append((reservation.request_id, tokens))

    async def reserve(
        self,
        principal: Principal,
        request_id: str,
        prompt_tokens: int,
        output_tokens: int,
        model: str = "",
        cost_usd_micros: int | None = 0,
    ) -> Reservation | Exceeded:
        if self.answer is not None:
            return self.answer
        self.reserved.append(request_id)
        return Reservation(request_id, principal.tenant, prompt_tokens + output_tokens, self.is_degraded)

    async def settle(self, reservation: Reservation, usage: Usage | None, cost_usd_micros: int = 0) -> None:
        self.settled.append((reservation.request_id, usage))


@dataclass
class FakeApprovals:
    """Gives ids and remembers what it was asked; what is in `granted` can be used once."""

    refusal: Refusal | None = None
    asks: list[ApprovalAsk] = field(default_factory=list)
    granted: dict[str, ApprovalAsk] = field(default_factory=dict)

    async def ask(self, ask: ApprovalAsk) -> Approval:
        if self.refusal is not None:
            raise self.refusal
        self.asks.append(ask)
        return Approval(f"apr_{len(self.asks):048x}", ApprovalState.PENDING, ask, 0, 1)

    async def use(self, approval_id: str, ask: ApprovalAsk) -> ApprovalFact:
        if self.refusal is not None:
            raise self.refusal
        if self.granted.pop(approval_id, None) != ask:
            raise ApprovalRequired("Not for this request.", code="approval-mismatch")
        return ApprovalFact(approval_id, "used", "a" * 64)


@dataclass
class FakeJournal:
    """Keeps records in order; fails for the phases it is told to fail for."""

    refusals: dict[Phase, Refusal] = field(default_factory=dict)
    records: list[RequestRecord] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)

    async def record(self, record: RequestRecord) -> Receipt:
        await asyncio.sleep(0)
        if record.phase in self.refusals:
            raise self.refusals[record.phase]
        self.records.append(record)
        return Receipt(record.request_id, "tests", len(self.records) - 1, "0" * 64)

    async def record_event(self, event: LogEvent) -> Receipt:
        await asyncio.sleep(0)
        if Phase.LOG in self.refusals:
            raise self.refusals[Phase.LOG]
        self.events.append(event)
        return Receipt("", "tests", len(self.records) + len(self.events) - 1, "0" * 64)

    @property
    def phases(self) -> list[str]:
        return [record.phase.value for record in self.records]


class FakeAnswer:
    """Chunks, then perhaps a refusal; a pause of None waits for ever."""

    def __init__(self, destination: Destination, script: Sequence[bytes | Refusal | None]) -> None:
        self.destination = destination
        self.upstream_request_id: str | None = "up-1"
        self.is_closed = False
        self.is_faulty = False
        self.progress_count = 0
        self._script = script

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self._script:
            await asyncio.sleep(0)
            if step is None:
                await asyncio.Event().wait()
            elif isinstance(step, Refusal):
                raise step
            else:
                yield step

    def note_progress(self) -> None:
        self.progress_count += 1

    async def close(self, *, is_faulty: bool = False) -> None:
        self.is_closed = True
        self.is_faulty = is_faulty


@dataclass
class FakeUpstream:
    """Answers by destination name: a script, a refusal to open, or None for silence.

    `again`: codes of attempts that fail inside a destination before its script runs.
    """

    scripts: dict[str, Sequence[bytes | Refusal | None] | Refusal | None]
    again: dict[str, Sequence[str]] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    waited_seconds: list[float] = field(default_factory=list)
    answers: list[FakeAnswer] = field(default_factory=list)

    async def open(
        self,
        admitted: Admitted,
        destination: Destination,
        *,
        waited_seconds: float = 0.0,
        again: Again | None = None,
    ) -> FakeAnswer:
        assert destination in admitted.permit.destinations
        self.opened.append(destination.name)
        self.waited_seconds.append(waited_seconds)
        for code in self.again.pop(destination.name, ()):
            assert again is not None
            await again(code)
        script = self.scripts[destination.name]
        if script is None:
            await asyncio.Event().wait()
        if isinstance(script, Refusal):
            raise script
        assert script is not None
        answer = FakeAnswer(destination, script)
        self.answers.append(answer)
        return answer

    def order(self, destinations: Sequence[Destination]) -> tuple[Destination, ...]:
        return tuple(destinations)


@dataclass
class FakeFilter:
    """Passes everything, or raises when a text holds `trap`."""

    refusal: Refusal | None = None
    trap: str = ""
    actions: tuple[FilterAction, ...] = ()

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        text = getattr(event, "text", "")
        if self.refusal is not None and self.trap and self.trap in text:
            raise self.refusal
        return (event,)

    def flush(self) -> tuple[StreamEvent, ...]:
        return ()


@cache
def _policy() -> CompiledPolicy:
    return compile_bundle(read_files(POLICIES))


@dataclass
class Rooms:
    """Everything that a walk is made of, to be bent by a test before `walk()` and `snapshot()`."""

    level: Level = Level.INTERNAL
    configured: frozenset[str] = frozenset({"private-moe", "hosted-openai"})
    authenticator: FakeAuthenticator = field(default_factory=FakeAuthenticator)
    limiter: FakeLimiter = field(default_factory=FakeLimiter)
    lineage: FakeLineage = field(default_factory=FakeLineage)
    approvals: FakeApprovals = field(default_factory=FakeApprovals)
    approver_role: str | None = None
    journal: FakeJournal = field(default_factory=FakeJournal)
    upstream: FakeUpstream = field(default_factory=lambda: FakeUpstream({}))
    filter: FakeFilter = field(default_factory=FakeFilter)
    decision_fault: Exception | None = None
    observed: list[tuple[str, str, str]] = field(default_factory=list)
    doors: FakeDoors = field(default_factory=FakeDoors)
    faults: list[str] = field(default_factory=list)
    refused: list[tuple[str, str | None]] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        policy = _policy()

        def classify(resolved: ResolvedRequest, floor: Label) -> Verdict:
            part = PartVerdict("messages[0]", Coverage.SCANNED)
            return Verdict(Label(self.level).join(floor), (part,), ("fake@1",))

        def decide(facts: Facts) -> Decision:
            if self.decision_fault is not None:
                raise self.decision_fault
            decision = evaluate(policy, facts, self.configured)
            if self.approver_role is None or not isinstance(decision, Permit):
                return decision
            wanted = replace(decision.obligations, approver_role=self.approver_role)
            return replace(decision, obligations=wanted)

        return Snapshot(
            resolve=lambda chat, caller: resolve(chat, caller, REGISTRY),
            classify=classify,
            decide=decide,
            private_only=private_only,
            tenant_floor=policy.floor,
            models=lambda tenant: ("assistant",),
            new_filter=lambda profile, tenant, chat: self.filter,
            policy_sha256=policy.sha256,
            protocols_sha256="0" * 64,
            detectors_sha256="0" * 64,
            loaded_at_us=0,
        )

    def walk(self) -> Walk:
        def estimate(chat: ChatRequest) -> tuple[int, int]:
            return 10, 20

        return Walk(
            snapshots=SnapshotHolder(self.snapshot()),
            authenticator=self.authenticator,
            limiter=self.limiter,
            approvals=self.approvals,
            lineage=self.lineage,
            journal=self.journal,
            upstream=self.upstream,
            doors=self.doors,
            dialects=WireFormats(),
            new_gate=guard,
            problem=problem,
            estimate=estimate,
            tokens_of_chars=lambda count: count // 3,
            keyed_digest=lambda data: "d" * 64,
            digest_key=b"k" * 32,
            limit_headers=lambda states: [],
            observe=lambda phase, reason, place, elapsed_us: self.observed.append((phase, reason, place)),
            report_fault=lambda phrase, error: self.faults.append(type(error).__name__),
            report_refusal=lambda refusal, request_id: self.refused.append((refusal.code, refusal.detail)),
            clock_ns=lambda: 0,
            write_timeout_seconds=0.2,
            seal_timeout_seconds=1.0,
        )


def raw_request(body: bytes, label: str | None = None) -> RawRequest:
    """A request as the web shell would hand it over."""
    return RawRequest(
        request_id="req_1",
        endpoint="chat.completions",
        authorization=Secret("Bearer x"),
        declared_label=label,
        client_request_id=None,
        body=body,
        peer="127.0.0.1",
        received_at_us=0,
        received_mono_ns=0,
    )
