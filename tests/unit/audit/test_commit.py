"""The log's own thread, called by hand."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable

import pytest

from gateway.audit.checkpoint import parse_checkpoint
from gateway.audit.commit import CommitLimits, Committer
from gateway.audit.export import stored_records
from gateway.audit.keys import PemKey, new_pem
from gateway.audit.report import EXIT_BROKEN, EXIT_SOUND
from gateway.audit.store import StoreFull
from gateway.audit.verify import verify_log
from gateway.domain.record import Phase
from gateway.errors import ConfigurationError
from tests.fakes.audit_files import Fault, MemoryFiles
from tests.fakes.audit_logs import (
    CONTEXT,
    KEY,
    TRUST,
    HandClock,
    closed_log,
    entry,
    files_of,
    new_committer,
    new_store,
    run_now,
)

SMALL = 48 * 1024


class FlakyKey:
    """A key source that cannot sign while `is_down`."""

    is_down = False
    public_key = KEY.public_key

    def sign(self, message: bytes) -> bytes:
        """A signature, or `OSError`."""
        if self.is_down:
            raise OSError(errno.ETIMEDOUT, "key service")
        return KEY.sign(message)


def _events(disk: MemoryFiles) -> list[str]:
    rows = [json.loads(stored) for stored in stored_records(files_of(disk))]
    return [row["event_type"] for row in rows if row["phase"] == "log"]


def _published_size(disk: MemoryFiles) -> int:
    signed = parse_checkpoint(new_store(disk).published() or b"")
    assert not hasattr(signed, "code")
    return signed.checkpoint.size


def test_checkpoints_are_due_after_a_second_or_a_number_of_records() -> None:
    disk, clock = MemoryFiles(), HandClock()
    log = new_committer(disk, clock)
    log.start()
    assert _published_size(disk) == 1
    log.commit([entry("a")])
    assert 0 < log.attend() <= 1.0
    assert _published_size(disk) == 1
    clock.now += 1.0
    log.attend()
    assert _published_size(disk) == 2
    log.commit([entry(f"r{n}") for n in range(10)])
    log.attend()
    assert _published_size(disk) == 12


def test_an_empty_period_is_signed_once_a_minute() -> None:
    disk, clock = MemoryFiles(), HandClock()
    log = new_committer(disk, clock)
    log.start()
    before = new_store(disk).published()
    clock.now += 59
    assert log.attend() == pytest.approx(1.0)
    assert new_store(disk).published() == before
    clock.now += 1
    log.attend()
    log.stop("ok")
    assert verify_log(files_of(disk), TRUST).checkpoint_count == 3


def test_a_checkpoint_is_kept_before_it_is_published() -> None:
    disk, clock = MemoryFiles(), HandClock()
    log = new_committer(disk, clock)
    log.start()
    log.commit([entry("a")])
    clock.now += 1
    start = len(disk.calls)
    log.attend()
    assert disk.calls[start : start + 5] == ["write", "sync", "create", "write", "sync"]
    assert "rename" in disk.calls[start:]


def test_rotation_declares_both_ends_and_keeps_the_log_sound() -> None:
    disk = MemoryFiles()
    log = new_committer(disk, segment_bytes=SMALL)
    log.start()
    sealed = log.commit([entry(f"r{n}", Phase.DENIED) for n in range(80)])
    log.stop("ok")
    assert None not in sealed
    assert _events(disk).count("segment-close") == _events(disk).count("segment-open") > 1
    assert verify_log(files_of(disk), TRUST).exit_status == EXIT_SOUND


def test_a_new_key_is_declared_and_old_checkpoints_keep_their_key() -> None:
    disk = closed_log(2)
    other = PemKey(new_pem())
    log = new_committer(disk, key=other)
    log.start()
    log.stop("ok")
    assert _events(disk).count("key-rotated") == 1
    report = verify_log(files_of(disk), TRUST)
    assert report.exit_status == EXIT_BROKEN
    assert {finding.code for finding in report.findings} == {"rogue-signature"}


def test_a_log_that_does_not_hold_is_not_continued_and_not_changed() -> None:
    disk = closed_log(5)
    name = "segments/00000000000000000000.seg"
    disk.names_now[name].now[5000] ^= 1
    before = bytes(disk.names_now[name].now)
    disk.calls.append("stopped")
    with pytest.raises(ConfigurationError, match=r"segments/00000000000000000000\.seg: offset \d+"):
        new_committer(disk).start()
    assert bytes(disk.names_now[name].now) == before
    assert not {"create", "write", "truncate", "rename"} & set(disk.calls[disk.calls.index("stopped") :])


def test_nothing_is_signed_over_records_that_contradict_the_last_checkpoint() -> None:
    disk, other = closed_log(5), closed_log(5, name="x")
    name = "segments/00000000000000000000.seg"
    disk.names_now[name].now = other.names_now[name].now
    note = new_store(disk).published()
    with pytest.raises(ConfigurationError, match="inconsistent-checkpoint"):
        new_committer(disk).start()
    assert new_store(disk).published() == note


def test_a_log_of_another_origin_is_not_continued() -> None:
    disk = closed_log(1)
    context = type(CONTEXT)("other/replica/0", "build", "0" * 64, "boot")
    with pytest.raises(ConfigurationError, match="other/replica/0"):
        new_committer(disk, context=context).start()


def test_a_key_that_cannot_sign_stops_intents_after_a_grace_and_then_resumes() -> None:
    disk, clock, key = MemoryFiles(), HandClock(), FlakyKey()
    limits = CommitLimits(reserve_bytes=16_384, unsigned_grace_seconds=10.0)
    log = Committer(new_store(disk), key, CONTEXT, clock, limits, run_now)
    log.start()
    key.is_down = True
    assert log.commit([entry("a")]) != [None]
    clock.now += 2
    assert log.attend() == 0.5
    assert log.commit([entry("b")]) != [None]
    clock.now += 11
    assert not log.can_admit
    assert log.commit([entry("c"), entry("a", Phase.COMPLETED)])[0] is None
    key.is_down = False
    log.attend()
    assert log.can_admit
    log.stop("ok")
    assert verify_log(files_of(disk), TRUST).exit_status == EXIT_SOUND


def test_intents_wait_for_a_spare_segment_that_is_still_being_made() -> None:
    disk = MemoryFiles()
    queued: list[Callable[[], bool]] = []
    log = new_committer(disk, segment_bytes=SMALL, run_aside=queued.append)
    log.start()
    sealed = log.commit([entry(f"r{n}", Phase.DENIED) for n in range(60)])
    assert None in sealed
    assert not log.can_admit
    queued[-1]()
    log.attend()
    assert log.can_admit
    assert None not in log.commit([entry("later", Phase.DENIED)])


def test_a_rotation_that_fails_is_made_up_for_later() -> None:
    disk = MemoryFiles()
    log = new_committer(disk, segment_bytes=SMALL)
    log.start()
    while True:
        calls = len(disk.calls)
        assert log.commit([entry("x", Phase.DENIED)]) != [None]
        if "rename" in disk.calls[calls:]:
            break
    size = log.size
    # One record of room is left over and over until the next rotation, whose header cannot be written.
    while log.size < size + 200:
        disk.at_call.clear()
        room_before = len(disk.calls)
        disk.at_call[room_before + 2] = Fault(code=errno.ENOSPC)
        if log.commit([entry("x", Phase.DENIED)]) == [None]:
            break
    else:
        raise AssertionError("no rotation came")
    disk.at_call.clear()
    log.attend()
    assert log.commit([entry("y", Phase.DENIED)]) != [None]
    log.stop("ok")
    assert verify_log(files_of(disk), TRUST).exit_status == EXIT_SOUND


def test_a_stop_without_room_says_so_and_lets_go() -> None:
    disk = MemoryFiles()
    log = new_committer(disk)
    log.start()
    disk.on["write"] = Fault(code=errno.ENOSPC)
    with pytest.raises(StoreFull):
        log.stop("ok")
    assert not disk.is_locked
