"""The log's own thread: seals records into the tree, makes them durable, signs checkpoints.

Invariants
1. The tree grows only by records that are durable; a record's sequence number is its leaf index.
2. A checkpoint is kept durably before it is published, and each is checked against the one before: never
   smaller, never another root for the same size.
3. Without a prepared spare segment, intents are refused while the last part of the segment is left, and
   closing records of requests that already left may use it. So what was admitted can be closed.
4. `StoreBroken` passes through: whoever runs this must stop for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.audit.canonical import LogEvent, WriterContext, encode_event, encode_request, seal
from gateway.audit.checkpoint import Checkpoint, SignedCheckpoint, key_id
from gateway.audit.clock import Clock
from gateway.audit.frames import FRAME_BYTES, FileKind, Header, encode_frame
from gateway.audit.keys import KeySource, sign_note
from gateway.audit.layout import segment_name
from gateway.audit.report import Gap, Report
from gateway.audit.store import AuditStore, StoreBroken, StoreFull
from gateway.audit.tree import leaf_hash
from gateway.audit.verify import verify_log
from gateway.domain.record import Phase, RequestRecord
from gateway.errors import ConfigurationError

#: Room kept at the end of a segment for its own `segment-close` record.
_CLOSE_ROOM_BYTES = 2048
_IDLE_SECONDS = 60.0
_RETRY_SECONDS = 0.5

#: Records that may use the reserve: they close what already left, or tell of the log itself.
_FAVOURED = frozenset({Phase.COMPLETED, Phase.ABORTED, Phase.ABANDONED, Phase.LOG})


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """When checkpoints are due, and how much of a segment is kept for closing records."""

    reserve_bytes: int
    checkpoint_records: int = 1000
    checkpoint_seconds: float = 1.0
    unsigned_grace_seconds: float = 10.0


class Entry:
    """One encoded record on its way to the disk."""

    __slots__ = ("body", "phase", "request_id")

    def __init__(self, body: bytes, phase: Phase, request_id: str) -> None:
        self.body = body
        self.phase = phase
        self.request_id = request_id


#: Sequence number and leaf hash of a durable record; None for one that found no room.
Sealed = tuple[int, bytes] | None


class Committer:
    """Owner of the store and the tree. Blocking; used by one thread at a time."""

    def __init__(
        self,
        store: AuditStore,
        keys: KeySource,
        context: WriterContext,
        clock: Clock,
        limits: CommitLimits,
        run_aside: Callable[[Callable[[], bool]], None],
    ) -> None:
        """`run_aside` runs a slow call without holding up the log, at most one at a time."""
        self._store = store
        self._keys = keys
        self._context = context
        self._clock = clock
        self._limits = limits
        self._run_aside = run_aside
        self._state = Report()
        self._signed_at = 0.0
        self._unsigned_since: float | None = None
        self._must_rotate = False
        self._refused_count = 0

    @property
    def size(self) -> int:
        """How many records are durable."""
        return self._state.tree.size

    @property
    def can_admit(self) -> bool:
        """False after a refusal for lack of room, until the log could be written again."""
        return self._refused_count == 0 and not self._is_unsigned()

    def start(self) -> None:
        """Read the log back, open a new segment, declare what a crash left behind.

        Raises `ConfigurationError`, `StoreBusy`, `StoreFull`, `StoreBroken`, `OSError`.
        """
        self._store.open()
        state = self._state = verify_log(self._store, None)
        if state.origin not in (None, self._context.origin):
            raise ConfigurationError(
                f"audit.directory: holds the log {state.origin}, expected {self._context.origin}"
            )
        for finding in state.findings:
            raise ConfigurationError(
                f"audit log: {finding.file}: offset {finding.offset}: {finding.code} at record "
                f"{finding.index}: {finding.detail}. Nothing was changed. Keep the directory, run "
                "`tidegate audit verify` on it, and start with a new, empty one"
            )
        if not self._store.prepare_spare():
            raise ConfigurationError("audit.directory: there is no room for a segment, or it is read-only")
        opened = segment_name(self.size)
        self._open_segment()
        if state.torn_journal is not None:
            # Never published, so nobody can miss it.
            self._store.cut(state.torn_journal.file, state.torn_journal.offset)
        self._begin_journal()
        torn = [gap for gap in state.gaps if not gap.is_cut]
        own_key = key_id(self._context.origin, self._keys.public_key).hex()
        old_keys = {s.key_id.hex() for s in state.last.signatures} if state.last else {own_key}
        # Gaps come first and are cut last: a crash in between leaves them either undeclared and whole, or
        # declared.
        self._write_events(
            *[_gap_event(gap) for gap in torn if not gap.is_declared],
            LogEvent("start", "ok", (("size", self.size), ("key_id", own_key))),
            *([] if own_key in old_keys else [LogEvent("key-rotated", "ok", (("key_id", own_key),))]),
        )
        for gap in torn:
            # A segment that held nothing but a torn write has been replaced by the new one, of its name.
            if gap.file != opened:
                self._store.cut(gap.file, gap.offset)
        self._abandon("writer-restarted")
        self._checkpoint()
        self._run_aside(self._store.prepare_spare)

    def commit(self, entries: Sequence[Entry]) -> list[Sealed]:
        """Make records durable, in order. Raises `StoreBroken`."""
        results: list[Sealed] = [None] * len(entries)
        at = 0
        while at < len(entries):
            if self._must_rotate and not self._rotated():
                break
            reached = self._commit_part(entries, at, results)
            if reached is None or (reached < len(entries) and not self._rotated()):
                break
            at = reached
        self._refused_count += results.count(None)
        return results

    def attend(self) -> float:
        """Do what is due (checkpoint, recovery from lack of room). Seconds until it must be called again."""
        now = self._clock.seconds()
        unsigned = self.size - self._signed_size
        age = now - self._signed_at
        due = self._limits.checkpoint_seconds if unsigned else _IDLE_SECONDS
        is_failing = self._unsigned_since is not None
        if unsigned >= self._limits.checkpoint_records or age >= due or is_failing:
            self._try_checkpoint(now)
        if not self._store.spare_is_ready:
            self._run_aside(self._store.prepare_spare)
        has_room = self._store.room_bytes > self._limits.reserve_bytes + _CLOSE_ROOM_BYTES
        if self._refused_count and (has_room or self._store.spare_is_ready):
            self._try_resume()
        if self._refused_count or self._unsigned_since is not None or not self._store.spare_is_ready:
            return _RETRY_SECONDS
        due = self._limits.checkpoint_seconds if self.size > self._signed_size else _IDLE_SECONDS
        return max(0.0, due - (self._clock.seconds() - self._signed_at))

    def stop(self, reason_code: str) -> None:
        """Close what is open, sign the last checkpoint, release the store. Raises as `commit` does."""
        try:
            self._abandon("log-closed")
            self._write_events(LogEvent("stop", reason_code, (("size", self.size),)))
            self._checkpoint()
        finally:
            self._store.close()

    def release(self) -> None:
        """Let go of the store after a failure; nothing is written."""
        self._store.close()

    def _commit_part(self, entries: Sequence[Entry], at: int, results: list[Sealed]) -> int | None:
        """Write what fits into the segment from `at` on. Where the next segment goes on; None: full."""
        has_spare = self._store.spare_is_ready
        room = self._store.room_bytes - _CLOSE_ROOM_BYTES
        intent_room = room if has_spare else room - self._limits.reserve_bytes
        if self._is_unsigned():
            intent_room = 0
        head, seq = self._context.head, self.size
        frames: list[bytes] = []
        taken: list[tuple[int, bytes]] = []
        reached, used = len(entries), 0
        for place in range(at, len(entries)):
            entry = entries[place]
            stored = seal(head, seq + len(taken), entry.body)
            need = FRAME_BYTES + len(stored)
            if used + need > (room if entry.phase in _FAVOURED else intent_room):
                if has_spare and used + need > room:
                    reached = place
                    break
                continue
            frames.append(encode_frame(stored, len(taken)))
            taken.append((place, leaf_hash(stored)))
            used += need
        if taken:
            try:
                self._store.append(b"".join(frames))
            except StoreFull:
                return None
            self._keep(entries, taken, results)
        return reached

    def _keep(self, entries: Sequence[Entry], taken: list[tuple[int, bytes]], results: list[Sealed]) -> None:
        tree, intents = self._state.tree, self._state.open_intents
        for place, leaf in taken:
            entry = entries[place]
            results[place] = (tree.size, leaf)
            if entry.phase is Phase.ADMITTED:
                intents[entry.request_id] = tree.size
            elif entry.phase is not Phase.LOG:
                intents.pop(entry.request_id, None)
            tree.push(leaf)

    def _write_events(self, *events: LogEvent) -> None:
        self._write_all([encode_event(event, self._context, self._clock.stamp()) for event in events])

    def _write_all(self, bodies: list[bytes]) -> None:
        results = self.commit([Entry(body, Phase.LOG, "") for body in bodies])
        if None in results:
            raise StoreFull("an event of the log found no room")

    def _abandon(self, reason_code: str) -> None:
        """Close the intents that nobody will close any more."""
        entries: list[Entry] = []
        for request_id, seq in self._state.open_intents.items():
            record = RequestRecord(Phase.ABANDONED, request_id, reason_code, "", intent_seq=seq)
            body = encode_request(record, self._context, self._clock.stamp())
            entries.append(Entry(body, Phase.ABANDONED, request_id))
        if entries and None in self.commit(entries):
            raise StoreFull("an abandoned request could not be closed")

    def _rotated(self) -> bool:
        """Go on in the spare segment; False when there is none."""
        if not self._store.spare_is_ready:
            return False
        try:
            if not self._must_rotate:
                self._append_event(LogEvent("segment-close", "ok", (("size", self.size),)))
                self._must_rotate = True
            self._open_segment()
            self._must_rotate = False
            root = self._state.tree.root().hex()
            self._append_event(LogEvent("segment-open", "ok", (("size", self.size), ("root", root))))
        except StoreFull:
            return False
        self._run_aside(self._store.prepare_spare)
        return True

    def _append_event(self, event: LogEvent) -> None:
        """Write one event into the current segment, closing room included."""
        body = encode_event(event, self._context, self._clock.stamp())
        stored = seal(self._context.head, self.size, body)
        self._store.append(encode_frame(stored, 0))
        self._state.tree.push(leaf_hash(stored))

    def _open_segment(self) -> None:
        self._store.begin_segment(self.size, self._header(FileKind.SEGMENT, self.size).encode())

    def _header(self, kind: FileKind, first: int) -> Header:
        tree = self._state.tree if kind is FileKind.SEGMENT else self._state.signed_tree
        return Header(kind, self._context.origin, first, tree.size, tree.root(), tree.frontier)

    def _begin_journal(self) -> None:
        ordinal = self._state.checkpoint_count
        self._store.begin_journal(ordinal, self._header(FileKind.CHECKPOINTS, ordinal).encode())

    @property
    def _signed_size(self) -> int:
        return self._state.signed_tree.size

    def _is_unsigned(self) -> bool:
        """True when checkpoints have failed for longer than the grace."""
        since = self._unsigned_since
        # fail-closed: records that nobody signs are no evidence, so nothing new is admitted.
        return since is not None and self._clock.seconds() - since > self._limits.unsigned_grace_seconds

    def _try_checkpoint(self, now: float) -> None:
        try:
            self._checkpoint()
        except StoreBroken:
            raise
        except (StoreFull, OSError):
            if self._unsigned_since is None:
                self._unsigned_since = now

    def _checkpoint(self) -> None:
        tree, last, stamp = self._state.tree, self._state.last, self._clock.stamp()
        root = tree.root()
        if last is not None:
            before = last.checkpoint
            if tree.size < before.size or (tree.size == before.size and root != before.root):
                raise StoreBroken("the tree contradicts the last checkpoint")
        point = Checkpoint(self._context.origin, tree.size, root, (f"time {stamp.ts_utc}",))
        signed = SignedCheckpoint(point, (sign_note(self._keys, point.origin, point.text()),))
        note = signed.encode()
        frame = encode_frame(note, 0)
        if self._store.journal_room_bytes < len(frame):
            self._begin_journal()
        self._store.append_checkpoint(frame)
        self._state.last = signed
        self._state.signed_tree = tree.copy()
        self._state.checkpoint_count += 1
        self._signed_at = self._clock.seconds()
        self._unsigned_since = None
        self._store.publish(note)

    def _try_resume(self) -> None:
        """After refusals: write down how many there were, which also shows whether writing works again."""
        refused, self._refused_count = self._refused_count, 0
        try:
            self._write_events(LogEvent("resumed", "no-room", (("refused_count", refused),)))
        except StoreFull:
            self._refused_count = refused


def _gap_event(gap: Gap) -> LogEvent:
    return LogEvent(
        "gap",
        "torn-write",
        (
            ("file", gap.file),
            ("offset", gap.offset),
            ("bytes", gap.length),
            ("sha256", gap.sha256),
            ("after_size", gap.after_size),
        ),
    )
