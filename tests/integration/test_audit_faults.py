"""A fault at every single file call: nothing acknowledged is lost, nothing torn is accepted."""

from __future__ import annotations

import contextlib
import errno
import random

import pytest

from gateway.audit.commit import Committer
from gateway.audit.export import stored_records
from gateway.audit.report import EXIT_GAPS, Report
from gateway.audit.store import StoreBroken, StoreFull
from gateway.audit.tree import leaf_hash
from gateway.audit.verify import verify_log
from gateway.domain.record import Phase
from gateway.errors import ConfigurationError
from tests.fakes.audit_files import Fault, MemoryFiles, PowerCut
from tests.fakes.audit_logs import TRUST, HandClock, entry, files_of, new_committer

SEGMENT_BYTES = 32 * 1024
PAIRS = 14

FAULTS = {
    "eio": Fault(code=errno.EIO),
    "enospc": Fault(code=errno.ENOSPC),
    "short": Fault(short_bytes=700),
    "power cut": Fault(is_power_cut=True),
    "power cut in a write": Fault(short_bytes=1100, is_power_cut=True),
}


class Run:
    """One life of a log: what was acknowledged, and how it ended."""

    def __init__(self, disk: MemoryFiles) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.refused_count = 0
        self.clock = HandClock()
        self.log: Committer = new_committer(disk, self.clock, segment_bytes=SEGMENT_BYTES)

    def live(self) -> str:
        """Start, work through several segments, stop. A word for how it ended."""
        try:
            self.log.start()
            for number in range(PAIRS):
                self._commit(f"r{number}", Phase.ADMITTED)
                self.clock.now += 0.3
                self.log.attend()
                self._commit(f"r{number}", Phase.COMPLETED)
            self._commit("left-open", Phase.ADMITTED)
            self.log.stop("ok")
        except PowerCut:
            return "power cut"
        except StoreBroken:
            return "broken"
        except (StoreFull, ConfigurationError, OSError):
            return "refused"
        return "done"

    def _commit(self, request_id: str, phase: Phase) -> None:
        batch = [entry(request_id, phase), entry(request_id + "-d", Phase.DENIED)]
        for sealed in self.log.commit(batch):
            if sealed is None:
                self.refused_count += 1
            else:
                self.acknowledged[sealed[0]] = sealed[1]


def _check(disk: MemoryFiles, run: Run) -> Report:
    """Restart on this disk; the log must hold and have everything that was acknowledged."""
    again = new_committer(disk, segment_bytes=SEGMENT_BYTES)
    again.start()
    again.stop("ok")
    source = files_of(disk)
    report = verify_log(source, TRUST)
    assert report.findings == []
    assert report.exit_status <= EXIT_GAPS
    assert all(gap.is_declared for gap in report.gaps)
    assert not report.open_intents
    leaves = [leaf_hash(stored) for stored in stored_records(source)]
    assert {seq: leaves[seq] for seq in run.acknowledged} == run.acknowledged
    return report


def _call_count() -> int:
    disk = MemoryFiles()
    run = Run(disk)
    assert run.live() == "done"
    assert run.refused_count == 0
    assert len([name for name in disk.names_now if name.endswith(".seg")]) > 2
    return len(disk.calls)


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_acknowledged_is_lost_whatever_call_fails(name: str) -> None:
    ends: set[str] = set()
    for number in range(_call_count()):
        disk = MemoryFiles()
        disk.at_call[number] = FAULTS[name]
        run = Run(disk)
        ends.add(run.live())
        _check(disk.after_kill(), run)
        for seed in range(2):
            _check(disk.after_power_cut(random.Random(number * 10 + seed)), run)
    expected = {"eio": "broken", "enospc": "done", "short": "done"}
    assert expected.get(name, "power cut") in ends


def test_a_second_crash_while_starting_again_loses_nothing_and_hides_no_gap() -> None:
    seen_gap = False
    for seed in range(12):
        first = MemoryFiles()
        run = Run(first)
        first.at_call[150 + 7 * seed] = Fault(short_bytes=1100 + 512 * (seed % 3), is_power_cut=True)
        run.live()
        for number in range(0, 40):
            second = first.after_kill()
            second.at_call[number] = Fault(short_bytes=300, is_power_cut=True)
            again = new_committer(second, segment_bytes=SEGMENT_BYTES)
            with contextlib.suppress(PowerCut):
                again.start()
            report = _check(second.after_power_cut(random.Random(seed)), run)
            seen_gap = seen_gap or bool(report.gaps)
    assert seen_gap


def test_a_failed_sync_is_never_tried_again() -> None:
    disk = MemoryFiles()
    log = new_committer(disk)
    log.start()
    disk.on["sync"] = Fault(code=errno.EIO)
    with pytest.raises(StoreBroken):
        log.commit([entry("a")])
    del disk.on["sync"]
    before = len(disk.calls)
    with pytest.raises(StoreBroken):
        log.commit([entry("b")])
    assert disk.calls[before:] == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_full_or_read_only_disk_refuses_and_recovers_without_restart(code: int) -> None:
    disk = MemoryFiles()
    log = new_committer(disk)
    log.start()
    disk.on["write"] = Fault(code=code)
    assert log.commit([entry("a")]) == [None]
    assert not log.can_admit
    del disk.on["write"]
    log.attend()
    assert log.can_admit
    assert log.commit([entry("a")]) != [None]
    log.stop("ok")
    source = files_of(disk)
    report = verify_log(source, TRUST)
    assert report.exit_status == 0
    assert any(b'"event_type":"resumed"' in stored for stored in stored_records(source))


def test_a_torn_write_is_erased_before_the_next_one() -> None:
    disk = MemoryFiles()
    log = new_committer(disk)
    log.start()
    disk.at_call[len(disk.calls)] = Fault(short_bytes=500)
    assert log.commit([entry("a")]) == [None]
    assert log.commit([entry("b")]) != [None]
    log.stop("ok")
    assert verify_log(files_of(disk), TRUST).exit_status == 0


def test_closing_records_find_room_when_no_new_segment_can_be_made() -> None:
    disk = MemoryFiles()
    log = new_committer(disk)
    log.start()
    disk.on["reserve"] = Fault(code=errno.ENOSPC)
    while log.commit([entry("filler"), entry("filler", Phase.COMPLETED)])[0] is not None:
        pass
    assert log.commit([entry("new")]) == [None]
    assert log.commit([entry("filler", Phase.ABORTED)]) != [None]
    del disk.on["reserve"]
    log.attend()
    assert log.commit([entry("new")]) != [None]
    assert verify_log(files_of(disk), TRUST).findings == []
