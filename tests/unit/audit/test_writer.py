"""The asyncio side of the log, over the disk in memory."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.audit.bench import sample_record
from gateway.audit.canonical import LogEvent
from gateway.audit.commit import CommitLimits
from gateway.audit.export import stored_records
from gateway.audit.keys import new_pem
from gateway.audit.tree import leaf_hash
from gateway.audit.verify import verify_log
from gateway.audit.writer import AuditLog
from gateway.domain.record import Phase, RequestRecord
from gateway.errors import AuditUnavailable, ConfigurationError
from gateway.settings import AuditSettings
from tests.fakes.audit_files import Fault, MemoryFiles
from tests.fakes.audit_logs import CONTEXT, KEY, ORIGIN, TRUST, files_of, new_store

INTENT = sample_record(Phase.ADMITTED, "req_1")


def _log(
    disk: MemoryFiles, deadline_seconds: float = 20.0, queue_bytes: int = 1 << 20, reserve_bytes: int = 16_384
) -> AuditLog:
    limits = CommitLimits(reserve_bytes=reserve_bytes)
    return AuditLog(new_store(disk), KEY, CONTEXT, deadline_seconds, limits, queue_bytes)


@asynccontextmanager
async def _running(log: AuditLog) -> AsyncIterator[AuditLog]:
    await log.start()
    try:
        yield log
    finally:
        await log.close()


def _records(disk: MemoryFiles) -> list[dict[str, object]]:
    return [json.loads(stored) for stored in stored_records(files_of(disk))]


def _phases(disk: MemoryFiles, request_id: str) -> list[tuple[object, object]]:
    return [(r["phase"], r["reason_code"]) for r in _records(disk) if r["request_id"] == request_id]


async def _until_held(disk: MemoryFiles, count: int) -> None:
    """Wait until the writer thread has entered its next sync."""
    while disk.calls.count("sync") <= count:
        await asyncio.sleep(0.001)


async def test_a_receipt_names_the_durable_record() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk)) as log:
        assert log.healthy
        receipt = await log.record(INTENT)
        # Not the process's view: what a power cut would leave.
        safe = disk.names_safe["segments/00000000000000000000.seg"].safe
        assert receipt.request_id == "req_1"
        assert receipt.origin == ORIGIN
        await log.record(sample_record(Phase.COMPLETED, "req_1"))
    stored = list(stored_records(files_of(disk)))
    assert leaf_hash(stored[receipt.seq]).hex() == receipt.leaf_sha256
    assert stored[receipt.seq] in safe
    assert not log.healthy
    assert verify_log(files_of(disk), TRUST).exit_status == 0


async def test_many_waiters_share_a_sync_and_keep_their_order() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk)) as log:
        before = disk.calls.count("sync")
        names = [f"req_{n}" for n in range(200)]
        receipts = await asyncio.gather(*(log.record(sample_record(Phase.DENIED, name)) for name in names))
        assert disk.calls.count("sync") - before < 100
    numbers = [receipt.seq for receipt in receipts]
    assert numbers == sorted(set(numbers))
    assert [r["request_id"] for r in _records(disk) if r["phase"] == "denied"] == names


async def test_open_intents_are_closed_as_abandoned_at_close() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk)) as log:
        await log.record(INTENT)
    assert _phases(disk, "req_1") == [("admitted", "ok"), ("abandoned", "log-closed")]


async def test_open_intents_are_closed_as_abandoned_at_the_next_start() -> None:
    disk = MemoryFiles()
    log = _log(disk)
    await log.start()
    receipt = await log.record(INTENT)
    after = disk.after_kill()
    await log.close()
    async with _running(_log(after)) as again:
        assert again.size > receipt.seq
    assert _phases(after, "req_1") == [("admitted", "ok"), ("abandoned", "writer-restarted")]
    closing = next(r for r in _records(after) if r["phase"] == "abandoned")
    assert closing["intent_seq"] == receipt.seq


async def test_an_intent_that_becomes_durable_too_late_is_refused_and_closed_by_the_log() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk, deadline_seconds=0.05)) as log:
        syncs = disk.calls.count("sync")
        disk.hold = threading.Event()
        waiter = asyncio.ensure_future(log.record(INTENT))
        await _until_held(disk, syncs)
        with pytest.raises(AuditUnavailable) as refused:
            await waiter
        assert refused.value.detail == "deadline"
        assert not log.healthy
        disk.hold.set()
        disk.hold = None
        await _until_aborted(disk)
        assert log.healthy
    assert _phases(disk, "req_1") == [("admitted", "ok"), ("aborted", "audit-deadline")]
    assert verify_log(files_of(disk), TRUST).open_intents == {}


async def _until_aborted(disk: MemoryFiles) -> None:
    while not any(phase == "aborted" for phase, _ in _phases(disk, "req_1")):
        await asyncio.sleep(0.002)


async def test_intents_that_wait_behind_a_hung_disk_are_dropped_but_denials_are_kept() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk, deadline_seconds=0.05)) as log:
        syncs = disk.calls.count("sync")
        disk.hold = threading.Event()
        first = asyncio.ensure_future(log.record(sample_record(Phase.DENIED, "first")))
        await _until_held(disk, syncs)
        rest = [
            asyncio.ensure_future(log.record(INTENT)),
            asyncio.ensure_future(log.record(sample_record(Phase.DENIED, "late-denial"))),
        ]
        for waiter in (first, *rest):
            with pytest.raises(AuditUnavailable):
                await waiter
        with pytest.raises(AuditUnavailable) as refused:
            await log.record(INTENT)
        assert refused.value.detail == "stalled"
        disk.hold.set()
        disk.hold = None
    assert _phases(disk, "req_1") == []
    assert _phases(disk, "first") == [("denied", "ok")]
    assert _phases(disk, "late-denial") == [("denied", "ok")]


async def test_a_cancelled_waiter_leaves_no_open_intent() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk)) as log:
        syncs = disk.calls.count("sync")
        disk.hold = threading.Event()
        taken = asyncio.ensure_future(log.record(INTENT))
        await _until_held(disk, syncs)
        queued = asyncio.ensure_future(log.record(sample_record(Phase.ADMITTED, "req_2")))
        await asyncio.sleep(0)
        taken.cancel()
        queued.cancel()
        assert await asyncio.gather(taken, queued, return_exceptions=True)
        disk.hold.set()
        disk.hold = None
        await _until_aborted(disk)
    assert _phases(disk, "req_1") == [("admitted", "ok"), ("aborted", "audit-deadline")]
    assert _phases(disk, "req_2") == []


async def test_a_cancel_between_receipt_and_waiter_leaves_no_open_intent() -> None:
    """The receipt is given, but its waiter is cancelled before it can run: the log closes the intent."""
    disk = MemoryFiles()
    async with _running(_log(disk)) as log:
        syncs = disk.calls.count("sync")
        disk.hold = threading.Event()
        first = asyncio.ensure_future(log.record(sample_record(Phase.DENIED, "first")))
        await _until_held(disk, syncs)

        async def record_then_cancel() -> None:
            await log.record(sample_record(Phase.DENIED, "same-batch"))
            victim.cancel()

        canceller = asyncio.ensure_future(record_then_cancel())
        victim = asyncio.ensure_future(log.record(INTENT))
        await asyncio.sleep(0)
        disk.hold.set()
        disk.hold = None
        outcomes = await asyncio.gather(first, canceller, victim, return_exceptions=True)
        assert isinstance(outcomes[2], asyncio.CancelledError)
        await _until_aborted(disk)
    assert _phases(disk, "req_1") == [("admitted", "ok"), ("aborted", "audit-deadline")]


@pytest.mark.parametrize("call", ["sync", "write"])
async def test_an_io_error_fails_the_log_for_good(call: str) -> None:
    disk = MemoryFiles()
    log = _log(disk)
    await log.start()
    disk.on[call] = Fault(code=errno.EIO)
    with pytest.raises(AuditUnavailable) as refused:
        await log.record(INTENT)
    assert refused.value.detail == "store-broken EIO"
    assert await log.failed == "store-broken EIO"
    assert not log.healthy
    del disk.on[call]
    writes = disk.calls.count("write")
    with pytest.raises(AuditUnavailable):
        await log.record(INTENT)
    await log.close()
    assert disk.calls.count("write") == writes
    assert not disk.is_locked


async def test_everyone_who_waits_is_refused_when_the_log_fails() -> None:
    disk = MemoryFiles()
    log = _log(disk)
    await log.start()
    disk.on["sync"] = Fault(code=errno.EIO)
    outcomes = await asyncio.gather(
        *(log.record(sample_record(Phase.ADMITTED, f"r{n}")) for n in range(50)), return_exceptions=True
    )
    assert all(isinstance(outcome, AuditUnavailable) for outcome in outcomes)
    await log.close()


async def test_a_full_disk_refuses_and_recovers_without_a_restart() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk)) as log:
        disk.on["write"] = Fault(code=errno.ENOSPC)
        with pytest.raises(AuditUnavailable) as refused:
            await log.record(INTENT)
        assert refused.value.detail == "no-room"
        assert not log.healthy
        assert not log.failed.done()
        del disk.on["write"]
        while not log.healthy:
            await asyncio.sleep(0.01)
        await log.record(INTENT)
    assert [r["event_type"] for r in _records(disk)].count("resumed") == 1


async def test_the_queue_is_bounded_and_leaves_room_for_closing_records() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk, queue_bytes=10_000)) as log:
        syncs = disk.calls.count("sync")
        disk.hold = threading.Event()
        waiters = [asyncio.ensure_future(log.record(INTENT))]
        await _until_held(disk, syncs)
        while not waiters[-1].done():
            waiters.append(asyncio.ensure_future(log.record(INTENT)))
            await asyncio.sleep(0)
        assert 2 < len(waiters) < 20
        with pytest.raises(AuditUnavailable) as refused:
            await waiters.pop()
        assert refused.value.detail == "queue-full"
        closing = asyncio.ensure_future(log.record(sample_record(Phase.COMPLETED, "req_1")))
        await asyncio.sleep(0)
        assert not closing.done()
        disk.hold.set()
        disk.hold = None
        await asyncio.gather(*waiters, closing)


async def test_refuses_a_record_that_cannot_be_written_as_text_or_is_too_long() -> None:
    async with _running(_log(MemoryFiles())) as log:
        for record, detail in (
            (RequestRecord(Phase.ADMITTED, "bad id", "ok", "chat"), "record-not-text"),
            (RequestRecord(Phase.ADMITTED, "req_1", "ok", "\ud800"), "record-not-text"),
            (RequestRecord(Phase.ADMITTED, "req_1", "ok", "x" * 70_000), "record-too-large"),
        ):
            with pytest.raises(AuditUnavailable) as refused:
                await log.record(record)
            assert refused.value.detail == detail


async def test_events_of_the_log_are_recorded() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk)) as log:
        await log.record_event(LogEvent("export-created", "ok", (("size", 3),)))
    events = [r for r in _records(disk) if r["event_type"] == "export-created"]
    assert [event["event"] for event in events] == [{"size": 3}]


async def test_nothing_is_recorded_before_the_start_or_after_the_close() -> None:
    log = _log(MemoryFiles())
    with pytest.raises(AuditUnavailable):
        await log.record(INTENT)
    with pytest.raises(RuntimeError):
        _ = log.failed
    await log.close()
    await log.start()
    await log.close()
    await log.close()
    with pytest.raises(AuditUnavailable):
        await log.record(INTENT)


@pytest.mark.parametrize("call", ["make_directories", "lock", "create", "write", "sync", "rename"])
async def test_a_directory_that_cannot_be_written_does_not_start(call: str) -> None:
    disk = MemoryFiles()
    disk.on[call] = Fault(code=errno.EROFS)
    with pytest.raises(ConfigurationError, match="audit"):
        await _log(disk).start()


async def test_a_second_writer_does_not_start() -> None:
    disk = MemoryFiles()
    async with _running(_log(disk)):
        with pytest.raises(ConfigurationError, match="another process"):
            await _log(disk).start()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"origin": "has space"}, "audit.origin"),
        ({"origin": 'quo"te'}, "audit.origin"),
        ({"segment_bytes": 1000}, "audit.segment_bytes"),
    ],
)
def test_refuses_unusable_settings(changes: dict[str, object], named: str) -> None:
    settings = AuditSettings(**{"directory": "d", "signing_key": "file:k", **changes})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=named):
        AuditLog.open(settings, new_pem(), "build", "0" * 64)
