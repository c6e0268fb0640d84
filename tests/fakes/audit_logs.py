"""Audit logs for tests: over the disk in memory, with a clock that is moved by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from gateway.audit.bench import sample_record
from gateway.audit.canonical import Stamp, WriterContext, encode_request, uuid7
from gateway.audit.checkpoint import Trust, TrustedKey, trust_of
from gateway.audit.commit import CommitLimits, Committer, Entry
from gateway.audit.files import FileLayer
from gateway.audit.keys import PemKey, new_pem
from gateway.audit.store import FileStore
from gateway.domain.record import Phase, RequestRecord
from tests.fakes.audit_files import MemoryFiles

ORIGIN = "test/replica/0"
KEY = PemKey(new_pem())
TRUST: Trust = trust_of((TrustedKey(ORIGIN, KEY.public_key),))
CONTEXT = WriterContext(ORIGIN, "build", "0" * 64, "boot")
SEGMENT_BYTES = 256 * 1024
JOURNAL_BYTES = 8 * 1024


class HandClock:
    """`Clock` that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._count = 0

    def stamp(self) -> Stamp:
        """A stamp with a new id."""
        self._count += 1
        return Stamp(uuid7(self._count, self._count), "2026-12-01T00:00:00.000000Z", self._count)

    def seconds(self) -> float:
        """Seconds as they were set."""
        return self.now


def run_now(work: Callable[[], bool]) -> None:
    """`run_aside` without a thread."""
    work()


def entry(request_id: str, phase: Phase = Phase.ADMITTED, **changes: object) -> Entry:
    """An encoded record of usual size."""
    record: RequestRecord = dataclasses.replace(sample_record(phase, request_id), **changes)  # type: ignore[arg-type]
    body = encode_request(record, CONTEXT, HandClock().stamp())
    return Entry(body, phase, request_id)


def new_store(files: FileLayer, segment_bytes: int = SEGMENT_BYTES) -> FileStore:
    """A store over a file layer."""
    return FileStore(files, segment_bytes, JOURNAL_BYTES)


def new_committer(
    files: FileLayer,
    clock: HandClock | None = None,
    key: PemKey = KEY,
    context: WriterContext = CONTEXT,
    segment_bytes: int = SEGMENT_BYTES,
    run_aside: Callable[[Callable[[], bool]], None] = run_now,
) -> Committer:
    """The writer's side of a log, not yet started."""
    limits = CommitLimits(reserve_bytes=segment_bytes // 16, checkpoint_records=10)
    store = new_store(files, segment_bytes)
    return Committer(store, key, context, clock or HandClock(), limits, run_aside)


@dataclasses.dataclass
class Files:
    """`LogSource` over plain bytes, for tampering with."""

    segment_files: list[tuple[str, bytes]]
    journal_files: list[tuple[str, bytes]]
    note: bytes | None

    def segments(self) -> Iterator[tuple[str, bytes]]:
        """See `LogSource`."""
        return iter(self.segment_files)

    def journals(self) -> Iterator[tuple[str, bytes]]:
        """See `LogSource`."""
        return iter(self.journal_files)

    def published(self) -> bytes | None:
        """See `LogSource`."""
        return self.note


def files_of(disk: MemoryFiles) -> Files:
    """What is on a disk, as bytes."""
    store = new_store(disk)
    return Files(list(store.segments()), list(store.journals()), store.published())


def closed_log(
    request_count: int = 30,
    key: PemKey = KEY,
    context: WriterContext = CONTEXT,
    name: str = "r",
    segment_bytes: int = SEGMENT_BYTES,
) -> MemoryFiles:
    """A disk with a log of so many completed requests, named and numbered, closed cleanly."""
    disk = MemoryFiles()
    log = new_committer(disk, key=key, context=context, segment_bytes=segment_bytes)
    log.start()
    for number in range(request_count):
        log.commit([entry(f"{name}{number}")])
        log.commit([entry(f"{name}{number}", Phase.COMPLETED)])
        log.attend()
    log.stop("ok")
    return disk
