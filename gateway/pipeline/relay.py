"""Stages 8 to 12: one object owns an exchange from the open connection to the sealed record.

Invariants
1. Only filtered events reach the client, and only tool calls that were judged; a plain answer is a fold
   over the same events.
2. `Finish`, usage and the end marker are held until the answer ended cleanly and the `completed`
   record is durable. A cut answer therefore never shows a clean end.
3. Another destination is tried only before the first byte has reached the client, only from the same
   permit, and never after a refusal of the request itself.
4. Whatever happens, the connection is closed, the reservation settled and one closing record
   written, in a `finally` that is shielded from cancellation and bounded in time. There is never a
   second closing record: what was handed to the log is written, however late.
5. When the client goes or stalls, the exchange is ended at once, in every window, the last bytes included.

Over 400 lines because its states (open, started, sealing, settled) mean something only together.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from gateway.domain.admitted import Admitted
from gateway.domain.chat import Surface
from gateway.domain.decision import Destination
from gateway.domain.limits import Usage
from gateway.domain.record import Phase
from gateway.domain.stream import AnswerEnd, Finish, StreamEvent, TextDelta, UsageReport
from gateway.errors import (
    AuditUnavailable,
    NotReady,
    Refusal,
    UpstreamFailed,
)
from gateway.pipeline import records
from gateway.pipeline.admit import Walk
from gateway.pipeline.failover import Failover
from gateway.pipeline.hold import Hold
from gateway.pipeline.ports import AnswerEncoder, AnswerGate, Said, UpstreamAnswer
from gateway.pipeline.records import Outcome
from gateway.snapshot import Snapshot

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

_DRAIN_SECONDS = 0.25
#: A client that does not read cannot hold up a gateway that stops.
_FAREWELL_SECONDS = 2.0
_STOPPING = "gateway-shutdown"


class Relay:
    """The reply to one admitted request, as an ASGI application to be called once.

    `started_ns` is `time.perf_counter_ns()` at receipt, for latencies.
    """

    __slots__ = (
        "_admitted",
        "_answer",
        "_cause",
        "_chars_in",
        "_digest",
        "_encoder",
        "_failover",
        "_filter",
        "_held",
        "_hold",
        "_is_sealed",
        "_is_sealing",
        "_is_settled",
        "_is_started",
        "_latency_us",
        "_outcome",
        "_said",
        "_send",
        "_sending_since",
        "_started_ns",
        "_task",
        "_timer",
        "_walk",
    )

    def __init__(
        self, walk: Walk, snapshot: Snapshot, admitted: Admitted, started_ns: int, created_seconds: int
    ) -> None:
        self._walk = walk
        self._admitted = admitted
        self._started_ns = started_ns
        self._outcome = Outcome()
        self._encoder: AnswerEncoder = walk.dialects.encoder(
            admitted.request.chat, admitted.request_id, created_seconds
        )
        self._filter: AnswerGate = walk.new_gate(
            snapshot.new_filter(
                admitted.permit.obligations.output_profile, admitted.principal.tenant, admitted.request.chat
            ),
            admitted.request,
            walk.keyed_digest,
        )
        self._digest = hashlib.blake2b(digest_size=32, key=walk.digest_key)
        self._hold = Hold(walk, snapshot, admitted)
        self._failover = Failover(walk, snapshot, admitted, self._outcome, self._mark, self._hold)
        self._answer: UpstreamAnswer | None = None
        self._said: Said | None = walk.lineage.listen(admitted.principal, admitted.verdict.label)
        self._held: list[StreamEvent] = []
        self._latency_us: list[tuple[str, int]] = []
        self._chars_in = 0
        self._is_started = False  # the response start has been sent
        self._is_sealing = False  # the closing record is on its way; the client's leaving is ignored
        self._is_sealed = False  # the closing record was handed over; there is no other
        self._is_settled = False
        self._cause: str | None = None
        self._sending_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Run the exchange. Returns when the client has its answer or is gone, and all is sealed."""
        self._send = send
        self._task = asyncio.current_task()
        watcher = asyncio.create_task(self._watch(receive))
        self._arm_stall_timer()
        try:
            await self._exchange()
        except asyncio.CancelledError:
            if self._cause is None:
                self._abort("gateway-shutdown", 503)
                raise
            if self._task is not None:
                self._task.uncancel()
            if self._cause == _STOPPING:
                words = "The gateway is stopping. Send the request again."
                await self._refuse(NotReady(words, code=_STOPPING, retry_after_seconds=1))
            else:
                self._abort(self._cause, 499)
        except Refusal as refusal:
            await self._refuse(refusal)
        except Exception as fault:  # noqa: BLE001
            self._walk.report_fault("exchange failed", fault)
            # fail-closed: a fault ends the answer; nothing that is still held is released.
            await self._refuse(Refusal("The gateway could not finish the answer. Report the request id."))
        finally:
            watcher.cancel()
            if self._timer is not None:
                self._timer.cancel()
            await self._finish()

    def stop(self) -> None:
        """End the answer now: its client is told, its record written. Nothing once its end is on its way."""
        self._interrupt(_STOPPING)

    # -- the exchange ------------------------------------------------------------------------------

    async def _exchange(self) -> None:
        answer = self._answer = await self._failover.open()
        self._mark("first_byte")
        decoder = self._walk.dialects.decoder(answer.destination, self._admitted.request.chat)
        chunks = answer.chunks()
        is_ended = False
        async for chunk in chunks:
            events = decoder.feed(chunk)
            if events:
                answer.note_progress()
            released, is_ended = self._released(events)
            if released:
                await self._send_events(released)
            if is_ended:
                break
        if not is_ended:
            released, is_ended = self._released(decoder.flush())
            if released:
                await self._send_events(released)
        if not is_ended:
            raise UpstreamFailed("The destination's answer was cut off.", code="upstream-truncated")
        await self._complete()
        await _drain(chunks)

    def _released(self, events: tuple[StreamEvent, ...]) -> tuple[list[StreamEvent], bool]:
        """Filter events. Gives those that may be sent now, and whether the answer has ended."""
        released: list[StreamEvent] = []
        is_ended = False
        for event in events:
            if type(event) is TextDelta:
                self._chars_in += len(event.text)
            elif type(event) is UsageReport:
                self._outcome.usage = event.usage
            elif type(event) is AnswerEnd:
                is_ended = True
                self._sort(self._filter.flush(), released)
            self._sort(self._filter.feed(event), released)
        return released, is_ended

    def _sort(self, events: tuple[StreamEvent, ...], released: list[StreamEvent]) -> None:
        for event in events:
            if self._said is not None:
                self._said.feed(event)
            if type(event) is TextDelta:
                self._digest.update(event.text.encode("utf-8", "surrogatepass"))
                released.append(event)
            elif type(event) is Finish:
                self._outcome.finish_reasons.append(event.reason)
                self._held.append(event)
            elif type(event) is UsageReport or type(event) is AnswerEnd:
                self._held.append(event)
            else:
                released.append(event)

    # -- towards the client ------------------------------------------------------------------------

    async def _send_events(self, events: list[StreamEvent]) -> None:
        data = self._encoder.encode(events)
        if data:
            self._outcome.bytes_out += len(data)
            await self._send_bytes(data, more=True)

    async def _send_bytes(self, data: bytes, *, more: bool) -> None:
        self._sending_since = time.monotonic()
        if not self._is_started:
            self._is_started = True
            self._mark("first_event")
            headers = self._headers()
            if not more:
                headers.append((b"content-length", b"%d" % len(data)))
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self._sending_since = 0.0

    def _headers(self) -> list[tuple[bytes, bytes]]:
        admitted = self._admitted
        request_id = admitted.request_id.encode()
        place: Destination | None = self._outcome.destination
        return [
            (b"content-type", self._encoder.content_type),
            (b"cache-control", b"no-store"),
            (b"x-request-id", request_id),
            (b"x-tidegate-request-id", request_id),
            (b"x-tidegate-destination", (place.name if place else "none").encode()),
            (b"x-tidegate-label", admitted.verdict.label.level.word.encode()),
            # Anthropic's clients read the id of a request from this field.
            *(((b"request-id", request_id),) if admitted.request.chat.surface is Surface.MESSAGES else ()),
            *admitted.request.notices,
            *self._walk.limit_headers(admitted.reservation.states),
        ]

    async def _complete(self) -> None:
        """Seal as completed, then send what was held: the client never sees an unrecorded end."""
        self._outcome.phase = Phase.COMPLETED
        self._outcome.reason_code = "completed"
        self._outcome.status = 200
        data = self._encoder.encode(self._held) + self._encoder.end()
        self._outcome.bytes_out += len(data)
        await self._seal()
        await self._settle()
        self._is_sealing = False
        await self._send_bytes(data, more=False)
        self._is_sealing = True  # the answer is whole: what the server now says of the client is no news

    async def _refuse(self, refusal: Refusal) -> None:
        """Seal as aborted and tell the client, as an HTTP error or in-band."""
        self._abort(refusal.code, refusal.http_status, type(refusal).__name__)
        self._walk.report_refusal(refusal, self._admitted.request_id)
        try:
            await self._seal()
        except AuditUnavailable as failure:
            refusal = failure
        await self._settle()
        bound_seconds = _FAREWELL_SECONDS if self._cause == _STOPPING else self._walk.write_timeout_seconds
        try:
            async with asyncio.timeout(bound_seconds):
                if self._is_started:
                    await self._send_bytes(self._encoder.fail(refusal), more=False)
                else:
                    await self._send_problem(refusal)
        except (TimeoutError, OSError):
            return

    async def _send_problem(self, refusal: Refusal) -> None:
        admitted = self._admitted
        surface = admitted.request.chat.surface
        status, headers, body = self._walk.problem(refusal, admitted.request_id, surface)
        place = self._outcome.destination
        if place is not None:
            headers.append((b"x-tidegate-destination", place.name.encode()))
        headers.append((b"x-tidegate-label", admitted.verdict.label.level.word.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    # -- the end -----------------------------------------------------------------------------------

    def _abort(self, reason: str, status: int, error_class: str | None = None) -> None:
        outcome = self._outcome
        outcome.phase = Phase.ABORTED
        outcome.reason_code = reason
        outcome.status = status
        outcome.error_class = error_class
        outcome.is_client_gone = status == 499

    async def _seal(self) -> None:
        """Hand the one closing record over and wait for it. Raises `AuditUnavailable`. Idempotent."""
        if self._is_sealed:
            return
        self._is_sealing = True
        await self._remember()
        self._is_sealed = True
        outcome = self._outcome
        outcome.filters = self._filter.actions
        outcome.tool_calls = self._filter.calls
        outcome.response_hmac = self._digest.hexdigest() if self._is_started else None
        if outcome.phase is Phase.COMPLETED:
            outcome.response_hmac = self._digest.hexdigest()
        if outcome.is_open and outcome.usage is None:
            outcome.usage = self._estimated_usage()
        outcome.cost_usd_micros = self._hold.cost(outcome.destination, outcome.usage)
        self._mark("total")
        record = records.ending(self._admitted, outcome, tuple(self._latency_us))
        name = outcome.destination.name if outcome.destination else "none"
        try:
            async with asyncio.timeout(self._walk.seal_timeout_seconds):
                await self._walk.journal.record(record)
        except (TimeoutError, AuditUnavailable):
            self._walk.observe("abandoned", "audit-unavailable", name, self._latency_us[-1][1])
            raise AuditUnavailable(
                "The audit log cannot take the end of this answer just now. Try again later."
            ) from None
        self._walk.observe(outcome.phase.value, outcome.reason_code, name, self._latency_us[-1][1])

    async def _remember(self) -> None:
        """Let what was released keep the label of its request, before its last byte is sent."""
        if self._said is None:
            return
        try:
            await self._said.remember()
        except Exception:
            # fail-closed: an answer that would lose its label ends with an error, and is recorded so.
            self._said = None
            raise
        self._said = None

    async def _settle(self) -> None:
        self._is_settled = True
        await self._hold.settle(self._outcome.destination, self._outcome.usage)

    def _estimated_usage(self) -> Usage:
        """What a destination will charge when it did not say: the prompt and the text that came."""
        prompt_tokens = self._admitted.facts.prompt_tokens
        return Usage(prompt_tokens, self._walk.tokens_of_chars(self._chars_in), source="estimate")

    async def _finish(self) -> None:
        """Close, seal and settle, shielded from cancellation and bounded."""
        if self._is_settled and self._answer is None:
            return
        finishing = asyncio.ensure_future(self._finish_bounded())
        finishing.add_done_callback(lambda done: self._failover.leave())
        await asyncio.shield(finishing)

    async def _finish_bounded(self) -> None:
        try:
            async with asyncio.timeout(self._walk.seal_timeout_seconds):
                if self._answer is not None:
                    await self._answer.close(is_faulty=self._outcome.error_class == UpstreamFailed.__name__)
                await self._seal_late()
                await self._settle()
        except TimeoutError as fault:
            self._walk.report_fault("sealing took too long", fault)

    async def _seal_late(self) -> None:
        try:
            await self._seal()
        except AuditUnavailable as fault:
            # The intent stays open in the log; start-up closes it as abandoned.
            self._walk.report_fault("closing record not written", fault)

    # -- watching ----------------------------------------------------------------------------------

    async def _watch(self, receive: Receive) -> None:
        """Cancel the exchange when the client has gone."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._interrupt("client-disconnected")
                return

    def _arm_stall_timer(self) -> None:
        loop = asyncio.get_running_loop()
        seconds = min(self._walk.write_timeout_seconds / 4, self._walk.limiter.extend_seconds)
        self._timer = loop.call_later(seconds, self._check_stall)

    def _check_stall(self) -> None:
        since = self._sending_since
        if since and time.monotonic() - since > self._walk.write_timeout_seconds:
            self._interrupt("client-stalled")
        if self._cause is None:
            usage = self._outcome.usage or self._estimated_usage()
            self._hold.keep(usage.total_tokens)
            self._arm_stall_timer()

    def _interrupt(self, cause: str) -> None:
        if self._is_sealing or self._cause is not None or self._task is None:
            return
        self._cause = cause
        self._task.cancel()

    def _mark(self, stage: str) -> None:
        self._latency_us.append((stage, (time.perf_counter_ns() - self._started_ns) // 1000))


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the last bytes after the end marker, so that the connection can be used again."""
    with suppress(TimeoutError, Refusal):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass
