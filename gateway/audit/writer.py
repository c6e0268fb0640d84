"""The asyncio side of the audit log: `AuditLog.record` waits for a durable receipt.

Intents, denials and events wait at most 250 ms. Closing records wait until they are durable or the log
has failed; the caller bounds that wait.

Invariants
1. A receipt is given only after the record's bytes are durable.
2. `record` either returns a receipt or raises. For an `admitted` record that raises (deadline, cancel,
   refusal), the caller lets nothing leave and writes no closing record: a record that was not yet taken
   is dropped, and one that becomes durable late is closed by the log itself as `aborted` with reason
   `audit-deadline`. Every other record that was taken is written, whether or not its waiter stayed.
3. The queue is bounded in bytes. Intents and denials are refused at the bound; closing records have the
   same bound once more.
4. After a failed write or sync the log is failed for good: every record raises at once, `failed` resolves,
   and the process should end. It is never retried.
5. Records of one event loop keep their order. One thread writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gateway.audit import layout
from gateway.audit.canonical import LogEvent, WriterContext, encode_event, encode_request
from gateway.audit.clock import SystemClock, boot_id
from gateway.audit.commit import CommitLimits, Committer, Entry, Sealed
from gateway.audit.files import OsFiles
from gateway.audit.frames import MAX_PAYLOAD_BYTES
from gateway.audit.keys import KeySource, PemKey
from gateway.audit.store import AuditStore, FileStore, StoreBroken, StoreBusy, StoreFull
from gateway.domain.record import Phase, Receipt, RequestRecord
from gateway.domain.secret import Secret
from gateway.errors import AuditUnavailable, ConfigurationError
from gateway.settings import AuditSettings

MIN_SEGMENT_BYTES: Final = 256 * 1024
JOURNAL_BYTES: Final = 256 * 1024
QUEUE_BYTES: Final = 8 * 1024 * 1024
CLOSE_SECONDS: Final = 10.0
#: Most that one batch holds, so that one sync never has to carry the whole queue.
_BATCH_RECORDS: Final = 2048
#: Upper bound of what `seal` puts before a body.
_ENVELOPE_BYTES: Final = 512
_ORIGIN: Final = re.compile(r"[A-Za-z0-9._/-]{1,255}")
_SENTENCE: Final = "The audit log cannot take this request just now; nothing was sent. Try again later."


#: Closing records are written whatever their waiter does, so a deadline would only make a second one.
_WITHOUT_DEADLINE = frozenset({Phase.COMPLETED, Phase.ABORTED})


class _Ticket(Entry):
    """A record with its waiter (None: nobody waits) and its deadline (loop time, seconds)."""

    __slots__ = ("deadline", "future", "is_forsaken")

    def __init__(
        self,
        body: bytes,
        phase: Phase,
        request_id: str,
        deadline: float,
        future: asyncio.Future[Receipt] | None,
    ) -> None:
        super().__init__(body, phase, request_id)
        self.deadline = deadline
        self.future = future
        self.is_forsaken = False


class AuditLog:
    """`Journal` of the walk over one log directory."""

    def __init__(
        self,
        store: AuditStore,
        keys: KeySource,
        context: WriterContext,
        deadline_seconds: float,
        limits: CommitLimits,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self._context = context
        self._deadline_seconds = deadline_seconds
        self._queue_bytes = queue_bytes
        self._clock = SystemClock()
        self._aside: threading.Thread | None = None
        self._committer = Committer(store, keys, context, SystemClock(), limits, self._run_aside)
        self._queue: deque[_Ticket] = deque()
        self._queued_bytes = 0
        self._kick: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._is_kicked = False
        self._waiting: deque[_Ticket] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended: asyncio.Future[None] | None = None
        self._failed: asyncio.Future[str] | None = None
        self._failure: str | None = None
        self._is_open = False
        self._is_stalled = False
        self._stop_reason = "ok"
        self._batch: list[_Ticket] = []

    @classmethod
    def open(cls, settings: AuditSettings, key_pem: Secret, build: str, config_sha256: str) -> AuditLog:
        """A log over `settings.directory`; nothing is read or written before `start`.

        Raises `ConfigurationError` for an unusable key, origin or size.
        """
        if not _ORIGIN.fullmatch(settings.origin):
            raise ConfigurationError(
                "audit.origin: expected deployment/replica/slot of letters, digits, dot, dash and "
                f"underscore, found {settings.origin!r}"
            )
        if settings.segment_bytes < MIN_SEGMENT_BYTES:
            raise ConfigurationError(
                f"audit.segment_bytes: expected at least {MIN_SEGMENT_BYTES}, found {settings.segment_bytes}"
            )
        files = OsFiles(Path(settings.directory), (layout.SEGMENTS, layout.CHECKPOINTS))
        return cls(
            FileStore(files, settings.segment_bytes, JOURNAL_BYTES),
            PemKey(key_pem),
            WriterContext(settings.origin, build, config_sha256, boot_id()),
            settings.deadline_ms / 1000,
            CommitLimits(reserve_bytes=settings.segment_bytes // 16),
        )

    async def start(self) -> None:
        """Read the log back, close what a crash left open, and begin to take records.

        Raises `ConfigurationError` when the directory cannot be used or the log does not hold.
        """
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._failed = self._loop.create_future()
        try:
            await asyncio.to_thread(self._committer.start)
        except StoreBusy:
            raise ConfigurationError("audit.directory: another process writes this log") from None
        except (StoreFull, StoreBroken) as error:
            raise ConfigurationError(f"audit.directory: cannot be written ({error})") from None
        except OSError as error:
            raise ConfigurationError(f"audit.directory: cannot be used ({error.strerror})") from None
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._is_open = True
        self._thread.start()

    async def record(self, record: RequestRecord) -> Receipt:
        """Make a record durable. Raises `AuditUnavailable`; see invariant 2 for what then holds."""
        try:
            body = encode_request(record, self._context, self._clock.stamp())
        except ValueError:
            raise AuditUnavailable(_SENTENCE, code="audit-unavailable", detail="record-not-text") from None
        ticket = self._enqueue(body, record.phase, record.request_id)
        assert ticket.future is not None
        try:
            return await ticket.future
        except asyncio.CancelledError:
            self._forsake(ticket)
            raise

    async def record_event(self, event: LogEvent) -> Receipt:
        """Make an event of the log durable. Raises `AuditUnavailable`."""
        ticket = self._enqueue(encode_event(event, self._context, self._clock.stamp()), Phase.LOG, "")
        assert ticket.future is not None
        return await ticket.future

    async def close(self, reason_code: str = "ok") -> None:
        """Write what is queued, close open intents, sign, release. Bounded by `CLOSE_SECONDS`. Idempotent."""
        if not self._is_open or self._ended is None:
            return
        self._is_open = False
        self._stop_reason = reason_code
        self._kick.put(False)
        with contextlib.suppress(TimeoutError):
            # What a hung disk still owes is found and declared by the next start.
            await asyncio.wait_for(asyncio.shield(self._ended), CLOSE_SECONDS)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def healthy(self) -> bool:
        """True while records are being made durable in time."""
        return self._is_open and self._failure is None and not self._is_stalled and self._committer.can_admit

    @property
    def failed(self) -> asyncio.Future[str]:
        """Resolves with a short reason when the log has failed for good; the process should then end."""
        if self._failed is None:
            raise RuntimeError("the audit log was not started")
        return self._failed

    @property
    def size(self) -> int:
        """How many records are durable."""
        return self._committer.size

    # -- event loop side -----------------------------------------------------------------------------

    def _enqueue(self, body: bytes, phase: Phase, request_id: str) -> _Ticket:
        loop = self._loop
        if self._failure is not None or not self._is_open or loop is None:
            # fail-closed: no log, no service.
            raise AuditUnavailable(_SENTENCE, detail=self._failure or "not-open")
        if len(body) + _ENVELOPE_BYTES > MAX_PAYLOAD_BYTES:
            raise AuditUnavailable(_SENTENCE, detail="record-too-large")
        is_new_work = phase in (Phase.ADMITTED, Phase.DENIED)
        bound = self._queue_bytes if is_new_work else 2 * self._queue_bytes
        if self._queued_bytes + len(body) > bound or (self._is_stalled and phase is Phase.ADMITTED):
            raise AuditUnavailable(_SENTENCE, detail="stalled" if self._is_stalled else "queue-full")
        deadline = loop.time() + self._deadline_seconds
        ticket = _Ticket(body, phase, request_id, deadline, loop.create_future())
        if phase not in _WITHOUT_DEADLINE:
            self._waiting.append(ticket)
            if self._timer is None:
                self._timer = loop.call_at(deadline, self._sweep)
        self._put(ticket)
        return ticket

    def _put(self, ticket: _Ticket) -> None:
        self._queued_bytes += len(ticket.body)
        self._queue.append(ticket)
        if not self._is_kicked:
            self._is_kicked = True
            self._kick.put(True)

    def _sweep(self) -> None:
        """Refuse whoever has waited past the deadline. One timer serves all, since deadlines are in order."""
        assert self._loop is not None
        now = self._loop.time()
        waiting = self._waiting
        while waiting:
            ticket = waiting[0]
            assert ticket.future is not None
            if not ticket.future.done():
                if ticket.deadline > now:
                    break
                ticket.is_forsaken = True
                self._is_stalled = True
                ticket.future.set_exception(AuditUnavailable(_SENTENCE, detail="deadline"))
            waiting.popleft()
        self._timer = self._loop.call_at(waiting[0].deadline, self._sweep) if waiting else None

    def _forsake(self, ticket: _Ticket) -> None:
        """The waiter was cancelled: drop the intent, or close it if it is durable already."""
        ticket.is_forsaken = True
        future = ticket.future
        if ticket.phase is not Phase.ADMITTED or future is None or not future.done() or future.cancelled():
            return
        if future.exception() is None:
            self._abort(ticket, future.result().seq)

    def _deliver(self, batch: list[_Ticket], results: list[Sealed]) -> None:
        """Give receipts; the one callback of a batch."""
        self._is_stalled = False
        origin = self._context.origin
        for ticket, sealed in zip(batch, results, strict=True):
            self._queued_bytes -= len(ticket.body)
            future = ticket.future
            if future is None:
                continue
            if future.done():
                if sealed is not None and ticket.phase is Phase.ADMITTED:
                    self._abort(ticket, sealed[0])
            elif sealed is None:
                future.set_exception(AuditUnavailable(_SENTENCE, detail="no-room"))
            else:
                future.set_result(Receipt(ticket.request_id, origin, sealed[0], sealed[1].hex()))

    def _abort(self, ticket: _Ticket, seq: int) -> None:
        """Close an intent that became durable when nobody waited for it any more: nothing has left."""
        if self._failure is not None:
            return
        record = RequestRecord(Phase.ABORTED, ticket.request_id, "audit-deadline", "", intent_seq=seq)
        body = encode_request(record, self._context, self._clock.stamp())
        self._put(_Ticket(body, Phase.ABORTED, ticket.request_id, 0.0, None))

    def _forget(self, dropped: list[_Ticket]) -> None:
        self._is_stalled = False
        for ticket in dropped:
            self._queued_bytes -= len(ticket.body)

    def _fail(self, reason: str, batch: list[_Ticket]) -> None:
        """Invariant 4."""
        self._failure = reason
        for ticket in (*batch, *self._queue):
            if ticket.future is not None and not ticket.future.done():
                ticket.future.set_exception(AuditUnavailable(_SENTENCE, detail=reason))
        self._queue.clear()
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(reason)

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # -- writer thread side --------------------------------------------------------------------------

    def _run(self) -> None:
        reason: str | None = None
        try:
            self._serve()
        except StoreBroken as error:
            reason = f"store-broken {error}"
        except Exception:  # noqa: BLE001
            # fail-closed: a fault of the log's own code ends the log, not only one record.
            reason = "writer-fault"
        if reason is not None:
            self._call(partial(self._fail, reason, self._batch))
            self._committer.release()
        self._call(self._end)

    def _serve(self) -> None:
        wait_seconds = 0.0
        is_running = True
        while is_running or self._queue:
            if not self._queue:
                try:
                    is_running = self._kick.get(timeout=wait_seconds) and is_running
                except queue.Empty:
                    wait_seconds = self._committer.attend()
                    continue
                # Cleared before the queue is read: whoever appends from now on kicks again.
                self._is_kicked = False
            batch = self._batch = self._take()
            if batch:
                results = self._committer.commit(batch)
                self._batch = []
                self._call(partial(self._deliver, batch, results))
            wait_seconds = self._committer.attend()
        if self._aside is not None:
            self._aside.join(CLOSE_SECONDS)
        self._committer.stop(self._stop_reason)

    def _take(self) -> list[_Ticket]:
        """The next batch; intents that nobody waits for any more are dropped."""
        pending = self._queue
        batch: list[_Ticket] = []
        dropped: list[_Ticket] = []
        while pending and len(batch) < _BATCH_RECORDS:
            ticket = pending.popleft()
            if ticket.is_forsaken and ticket.phase is Phase.ADMITTED:
                dropped.append(ticket)
            else:
                batch.append(ticket)
        if dropped:
            self._call(partial(self._forget, dropped))
        return batch

    def _call(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            # The loop is closed: there is nobody left to tell.
            self._loop.call_soon_threadsafe(callback)

    def _run_aside(self, work: Callable[[], bool]) -> None:
        if self._aside is not None and self._aside.is_alive():
            return
        self._aside = threading.Thread(target=work, name="audit-spare", daemon=True)
        self._aside.start()
