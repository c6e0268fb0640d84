"""What the walk needs from the rooms, as types. `gateway.assembly` fills them in.

Every port raises only `gateway.errors.Refusal` for what a client may be told. Anything else that
comes out of a port is a fault: the walk refuses the request and nothing leaves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from gateway.audit.canonical import LogEvent
from gateway.domain.admitted import Admitted
from gateway.domain.approval import Approval, ApprovalAsk, ApprovalFact
from gateway.domain.chat import ChatRequest, ResolvedRequest
from gateway.domain.decision import Destination
from gateway.domain.label import Label
from gateway.domain.limits import Exceeded, Quota, Reservation, Usage
from gateway.domain.principal import Principal
from gateway.domain.record import Receipt, RequestRecord, ToolCallFact
from gateway.domain.request import RawRequest
from gateway.domain.stream import OutputFilter, StreamEvent
from gateway.errors import Refusal


class Authenticator(Protocol):
    """Stage 1. Raises `NotAuthenticated` or `KeySetUnavailable`."""

    async def authenticate(self, raw: RawRequest) -> Principal:
        """The verified principal of this request."""
        ...


class Limiter(Protocol):
    """Stages 6 and 12."""

    @property
    def extend_seconds(self) -> float:
        """How often a hold that is in use is to be extended."""
        ...

    async def reserve(
        self,
        principal: Principal,
        request_id: str,
        prompt_tokens: int,
        output_tokens: int,
        model: str = "",
        cost_usd_micros: int | None = 0,
    ) -> Reservation | Exceeded:
        """Take all buckets or none. A degraded reservation is good for private destinations only.

        `cost_usd_micros` is the most that the request may cost; None: its price is unknown.
        """
        ...

    async def reserve_account(
        self, reservation: Reservation, account: str, quotas: tuple[Quota, ...]
    ) -> Reservation | Exceeded:
        """Take the same from buckets that tenants share, or nothing."""
        ...

    async def settle(self, reservation: Reservation, usage: Usage | None, cost_usd_micros: int = 0) -> None:
        """Give back what was not used. `None`: nothing was spent. Idempotent; bounded in time."""
        ...

    async def extend(self, reservation: Reservation, tokens: int) -> None:
        """Hold for another lease, and `tokens` when they are more than reserved. Bounded in time."""
        ...


class Approvals(Protocol):
    """Between stages 6 and 7, for a permit that wants a person to agree."""

    async def ask(self, ask: ApprovalAsk) -> Approval:
        """The open approval of exactly this request, or a new one. Raises `ApprovalsUnavailable`."""
        ...

    async def use(self, approval_id: str, ask: ApprovalAsk) -> ApprovalFact:
        """Use an approval up; one call at most returns. Raises `ApprovalRequired`, `ApprovalDenied`,
        `ApprovalsUnavailable`."""
        ...


class Lineage(Protocol):
    """Around stages 4 and 12: what was said before keeps its label when it comes back."""

    async def floor(self, principal: Principal, chat: ChatRequest) -> Label:
        """The highest label of an earlier answer in this request. Never raises for what is down."""
        ...

    def listen(self, principal: Principal, label: Label) -> Said | None:
        """What takes an answer's released events under this label; None when they need not be kept."""
        ...


class Said(Protocol):
    """The words of an answer."""

    def feed(self, event: StreamEvent) -> None:
        """Take a released event."""
        ...

    async def remember(self) -> None:
        """Keep what was said so far. Never raises for what is down."""
        ...


class Journal(Protocol):
    """Stages 7 and 12."""

    async def record(self, record: RequestRecord) -> Receipt:
        """Make a record durable. Raises `AuditUnavailable`; for an intent or a denial after 250 ms.

        A closing record is written once it was handed over, so the caller never hands over a second one.
        """
        ...

    async def record_event(self, event: LogEvent) -> Receipt:
        """Make an event durable that is no request's beginning or end. Raises `AuditUnavailable`."""
        ...


class UpstreamAnswer(Protocol):
    """An open answer of a destination: status 200 was received, the body is still coming."""

    @property
    def destination(self) -> Destination:
        """Who answers."""
        ...

    @property
    def upstream_request_id(self) -> str | None:
        """The provider's own id (bounded, printable ASCII)."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they come. Raises `UpstreamFailed` or `UpstreamTimeout` when cut."""
        ...

    def note_progress(self) -> None:
        """The chunk that came last held tokens: only these keep a stream alive and a destination healthy."""
        ...

    async def close(self, *, is_faulty: bool = False) -> None:
        """Close the connection (cancels generation when the body is not finished). Idempotent.

        `is_faulty`: what came was no valid answer, which counts against the destination.
        """
        ...


#: Hears how an attempt ended (a code) before the next one at the same destination begins.
Again = Callable[[str], Awaitable[None]]


class Upstream(Protocol):
    """Stage 8: the only place that opens a connection."""

    async def open(
        self,
        admitted: Admitted,
        destination: Destination,
        *,
        waited_seconds: float = 0.0,
        again: Again | None = None,
    ) -> UpstreamAnswer:
        """Send the request. Raises `UpstreamUnavailable`, `-Timeout`, `-Failed`, `-Rejected`.

        `waited_seconds` is what earlier attempts took of the total. `again` is awaited before each further
        attempt at this destination; what it raises ends them.
        """
        ...

    def order(self, destinations: Sequence[Destination]) -> tuple[Destination, ...]:
        """The same destinations, those with an open breaker last."""
        ...


class Place(Protocol):
    """A place at a destination of bounded capacity."""

    def leave(self) -> None:
        """Give it on. Idempotent."""
        ...


class Doors(Protocol):
    """Before stage 8: who waits for a destination of bounded capacity, and who goes first."""

    async def enter(
        self, destination: str, workload: str, tenant: str, tokens: int, wait_seconds: float | None
    ) -> Place | None:
        """Wait for a place; None where none is needed. Raises `DestinationBusy`."""
        ...


class AnswerGate(OutputFilter, Protocol):
    """Stage 10, second half: the output filter with the tool calls behind it judged.

    Raises `ToolCallRefused` beside what the filter raises.
    """

    @property
    def calls(self) -> tuple[ToolCallFact, ...]:
        """The calls that were judged so far."""
        ...


#: The gate of one exchange: its output filter, what was admitted, and a keyed hash (hex) for commitments.
NewGate = Callable[[OutputFilter, ResolvedRequest, Callable[[bytes], str]], AnswerGate]


class AnswerDecoder(Protocol):
    """Stage 9: bytes of a provider to events. Whole equals any split. Raises `UpstreamFailed`."""

    def feed(self, chunk: bytes) -> tuple[StreamEvent, ...]:
        """Events completed by this chunk."""
        ...

    def flush(self) -> tuple[StreamEvent, ...]:
        """Events at the end of the body. Raises `UpstreamFailed` when the answer is cut short."""
        ...


class AnswerEncoder(Protocol):
    """Stage 11: events to the client's bytes, streamed or as one body."""

    @property
    def content_type(self) -> bytes:
        """Value of the content-type header."""
        ...

    def encode(self, events: Sequence[StreamEvent]) -> bytes:
        """Bytes to send now; empty when a plain answer is still being collected."""
        ...

    def end(self) -> bytes:
        """The last bytes of a clean end: `[DONE]`, or the whole body of a plain answer."""
        ...

    def fail(self, refusal: Refusal) -> bytes:
        """The last bytes of a stream that failed after its start: an error event, no clean end."""
        ...


class Dialects(Protocol):
    """Wire formats, by destination kind and by what the client asked for."""

    def parse(self, endpoint: str, body: bytes) -> ChatRequest:
        """Stage 2: the request in a body that came to this endpoint. Raises `RequestRefused`."""
        ...

    def unsaid(self, request: ChatRequest) -> tuple[tuple[str, str], ...]:
        """(kind, field) for each kind of destination that cannot be told all of this request."""
        ...

    def decoder(self, destination: Destination, request: ChatRequest) -> AnswerDecoder:
        """Decoder for one answer of this destination."""
        ...

    def encoder(self, request: ChatRequest, request_id: str, created_seconds: int) -> AnswerEncoder:
        """Encoder for one answer to this client."""
        ...
