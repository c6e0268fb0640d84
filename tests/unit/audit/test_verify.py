"""The check of a log: what is sound, what is a gap, what is listed, what is broken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gateway.audit.frames import HEADER_BYTES, encode_frame
from gateway.audit.report import EXIT_BROKEN, EXIT_GAPS, EXIT_SOUND
from gateway.audit.verify import verify_log
from gateway.domain.record import Phase
from tests.fakes.audit_files import MemoryFiles
from tests.fakes.audit_logs import TRUST, Files, closed_log, entry, files_of, new_committer


def _running(*entries_in_batches: tuple[str, Phase]) -> MemoryFiles:
    """A disk whose writer was killed after these records, each a batch of its own."""
    disk = MemoryFiles()
    log = new_committer(disk)
    log.start()
    for request_id, phase in entries_in_batches:
        log.commit([entry(request_id, phase)])
    return disk.after_kill()


def _with_last_segment(files: Files, content: bytes) -> Files:
    name, _ = files.segment_files[-1]
    return Files([*files.segment_files[:-1], (name, content)], files.journal_files, files.note)


def test_a_log_that_was_only_started_and_stopped_is_sound() -> None:
    report = verify_log(files_of(closed_log(0)), TRUST)
    assert report.exit_status == EXIT_SOUND
    assert report.phase_counts == {"log": 2}
    assert report.tree.size == report.signed_tree.size == 2


def test_an_empty_directory_proves_nothing() -> None:
    report = verify_log(Files([], [], None), TRUST)
    assert report.exit_status == EXIT_BROKEN
    assert [finding.code for finding in report.findings] == ["no-checkpoint"]


def test_a_log_without_its_checkpoints_proves_nothing() -> None:
    files = files_of(closed_log(3))
    report = verify_log(Files(files.segment_files, [], None), TRUST)
    assert [finding.code for finding in report.findings] == ["no-checkpoint"]


def test_a_log_that_is_being_written_is_sound() -> None:
    disk = _running(("a", Phase.ADMITTED), ("a", Phase.COMPLETED))
    files = files_of(disk)
    assert files.segment_files[0][1].endswith(bytes(100))
    report = verify_log(files, TRUST)
    assert report.exit_status == EXIT_SOUND
    assert report.as_tree()["unsigned"] == 2


def test_intents_without_end_and_ends_without_intent_are_listed() -> None:
    disk = _running(
        ("open", Phase.ADMITTED),
        ("none", Phase.COMPLETED),
        ("denied", Phase.DENIED),
        ("a", Phase.ADMITTED),
        ("a", Phase.ABORTED),
    )
    report = verify_log(files_of(disk), TRUST)
    assert report.exit_status == EXIT_SOUND
    assert report.open_intents == {"open": 1}
    assert report.surplus_outcomes == [2]


def test_a_torn_end_behind_every_checkpoint_is_a_gap_until_and_after_it_is_declared() -> None:
    disk = _running(("a", Phase.ADMITTED))
    handle = disk.open("segments/00000000000000000000.seg")
    used = len(files_of(disk).segment_files[0][1].rstrip(b"\x00"))
    disk.write(handle, encode_frame(b"x" * 500, 0)[:300], used)
    report = verify_log(files_of(disk), TRUST)
    assert report.exit_status == EXIT_GAPS
    assert [(gap.after_size, gap.length, gap.is_declared) for gap in report.gaps] == [(2, 300, False)]

    log = new_committer(disk)
    log.start()
    log.stop("ok")
    report = verify_log(files_of(disk), TRUST)
    assert report.exit_status == EXIT_GAPS
    assert [(gap.after_size, gap.length, gap.is_declared, gap.is_cut) for gap in report.gaps] == [
        (2, 300, True, True)
    ]


def test_damage_that_a_later_batch_proves_acknowledged_is_no_torn_end() -> None:
    files = files_of(_running(("a", Phase.ADMITTED), ("b", Phase.ADMITTED)))
    content = bytearray(files.segment_files[0][1])
    content[content.index(b'"request_id":"a"') + 15] ^= 1
    report = verify_log(_with_last_segment(files, bytes(content)), TRUST)
    assert report.exit_status == EXIT_BROKEN
    assert [(f.code, f.index) for f in report.findings] == [("frame-damage", 1)]
    assert "acknowledged" in report.findings[0].detail


def test_damage_inside_the_last_batch_is_a_torn_end() -> None:
    disk = MemoryFiles()
    log = new_committer(disk)
    log.start()
    log.commit([entry("a"), entry("b")])
    files = files_of(disk)
    content = bytearray(files.segment_files[0][1])
    content[content.index(b'"request_id":"a"') + 15] ^= 1
    report = verify_log(_with_last_segment(files, bytes(content)), TRUST)
    assert report.exit_status == EXIT_GAPS
    assert report.tree.size == 1


@pytest.mark.parametrize("extra", [b"\x01", b"\x00" * 30 + b"\x01", encode_frame(b"{}", 0)])
def test_bytes_after_a_clean_stop_are_damage(extra: bytes) -> None:
    files = files_of(closed_log(1))
    report = verify_log(_with_last_segment(files, files.segment_files[-1][1] + extra), TRUST)
    assert report.exit_status == EXIT_BROKEN
    assert report.first_bad_index == report.tree.size


def test_a_gap_record_without_its_facts_is_wrong() -> None:
    files = files_of(_running())
    content = files.segment_files[0][1]
    head = (
        b'{"v":"audit/1","origin":"test/replica/0","seq":0,"phase":"log","event_type":"gap","request_id":"",'
    )
    stored = content[:HEADER_BYTES] + encode_frame(head + b'"event":{}}', 0)
    report = verify_log(Files([(files.segment_files[0][0], stored)], [], None), None)
    assert [(f.code, f.index) for f in report.findings] == [("wrong-record", 0)]


def test_a_checkpoint_file_that_is_missing_is_found() -> None:
    disk = closed_log(120)
    files = files_of(disk)
    assert len(files.journal_files) > 1
    for place in range(len(files.journal_files)):
        kept = files.journal_files[:place] + files.journal_files[place + 1 :]
        report = verify_log(Files(files.segment_files, kept, files.note), TRUST)
        assert report.exit_status == EXIT_BROKEN
        assert "missing-checkpoint" in {finding.code for finding in report.findings}


def test_a_torn_last_checkpoint_that_was_never_published_is_no_finding() -> None:
    disk = _running(("a", Phase.ADMITTED))
    files = files_of(disk)
    name, content = files.journal_files[-1]
    torn = content.rstrip(b"\x00") + encode_frame(b"test/replica/0\n5\n", 0)[:20]
    report = verify_log(Files(files.segment_files, [(name, torn)], files.note), TRUST)
    assert report.exit_status == EXIT_SOUND
    assert report.torn_journal is not None


def test_the_writer_reads_back_without_judging_signatures() -> None:
    report = verify_log(files_of(closed_log(2)), None)
    assert report.exit_status == EXIT_SOUND
    assert report.last is not None


def test_needs_nothing_beyond_the_standard_library_and_cryptography() -> None:
    code = (
        "import sys\n"
        "from gateway.audit import checkpoint, export, frames, layout, report, tree, verify\n"
        "roots = {name.partition('.')[0] for name in sys.modules}\n"
        "extra = roots - set(sys.stdlib_module_names)\n"
        "extra -= {'__main__', 'gateway', 'cryptography', '_cffi_backend'}\n"
        "print(sorted(n for n in extra if not n.startswith(('_', 'sitecustomize', 'distutils'))))\n"
        "ours = {name for name in sys.modules if name.startswith('gateway')}\n"
        "print(sorted(name for name in ours if not name.startswith('gateway.audit')))\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["[]", "['gateway']"]
