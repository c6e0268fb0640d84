"""Whatever is changed in a closed log is found, and the first bad index is not after the change."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit.canonical import WriterContext
from gateway.audit.checkpoint import SignedCheckpoint, parse_checkpoint
from gateway.audit.frames import HEADER_BYTES, Frame, encode_frame, read_frames
from gateway.audit.keys import PemKey, new_pem, sign_note
from gateway.audit.report import EXIT_BROKEN, EXIT_SOUND, Report
from gateway.audit.verify import verify_log
from tests.fakes.audit_logs import ORIGIN, TRUST, Files, closed_log, files_of

_SEGMENT_BYTES = 48 * 1024
_BASE = files_of(closed_log(30, segment_bytes=_SEGMENT_BYTES))
#: Same key and origin, another history: what a forked or restored writer would have signed.
_FORK = files_of(closed_log(31, name="f", segment_bytes=_SEGMENT_BYTES))
_OTHER = files_of(
    closed_log(
        30, context=WriterContext("test/replica/1", "build", "0" * 64, "boot"), segment_bytes=_SEGMENT_BYTES
    )
)


def _payloads(files: Files) -> list[list[bytes]]:
    """Payloads by segment."""
    return [
        [frame.payload for frame in read_frames(content) if isinstance(frame, Frame)]
        for _, content in files.segment_files
    ]


_RECORDS = _payloads(_BASE)
_SIZE = sum(len(records) for records in _RECORDS)
_PLACES = [(segment, place) for segment, records in enumerate(_RECORDS) for place in range(len(records))]


def _with_records(records: list[list[bytes]]) -> Files:
    """The base log with other records in intact frames."""
    rebuilt = [
        (name, content[:HEADER_BYTES] + b"".join(encode_frame(payload, 0) for payload in payloads))
        for (name, content), payloads in zip(_BASE.segment_files, records, strict=True)
    ]
    return Files(rebuilt, _BASE.journal_files, _BASE.note)


def _assert_broken(files: Files, changed_index: int, is_forged: bool = False) -> Report:
    """The log is broken and nothing from the change on counts as proven.

    A forger who mends what follows moves the place where it shows, never what is proven.
    """
    report = verify_log(files, TRUST)
    assert report.exit_status == EXIT_BROKEN
    assert report.first_bad_index is not None
    assert report.signed_tree.size <= changed_index
    assert is_forged or report.first_bad_index <= changed_index
    return report


def _renumbered(records: list[list[bytes]]) -> list[list[bytes]]:
    """The same records with their sequence numbers mended, as a careful forger would."""
    numbers: Iterator[int] = iter(range(10_000))
    return [
        [re.sub(rb'"seq":\d+', b'"seq":%d' % next(numbers), one, count=1) for one in part] for part in records
    ]


def test_the_log_is_sound_before_it_is_touched() -> None:
    report = verify_log(_BASE, TRUST)
    assert report.exit_status == EXIT_SOUND
    assert report.tree.size == report.signed_tree.size == _SIZE
    assert len(_BASE.segment_files) > 2
    assert report.checkpoint_count > 5


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_flipped_bit_is_found(data: st.DataObject) -> None:
    files = Files(list(_BASE.segment_files), list(_BASE.journal_files), _BASE.note)
    where = data.draw(st.sampled_from(["segment", "journal", "published"]))
    if where == "published":
        files.note = _flip(_BASE.note or b"", data)
    else:
        kept = files.segment_files if where == "segment" else files.journal_files
        place = data.draw(st.integers(0, len(kept) - 1))
        kept[place] = (kept[place][0], _flip(kept[place][1], data))
    _assert_broken(files, _SIZE)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_changed_record_is_found_even_with_a_new_checksum(data: st.DataObject) -> None:
    segment, place = data.draw(st.sampled_from(_PLACES))
    records = [list(part) for part in _RECORDS]
    records[segment][place] = _flip(records[segment][place], data)
    _assert_broken(_with_records(records), _PLACES.index((segment, place)))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(_PLACES),
    st.sampled_from(["drop", "swap", "duplicate", "splice", "insert"]),
    st.booleans(),
)
def test_any_moved_record_is_found_even_when_renumbered(
    at: tuple[int, int], kind: str, is_renumbered: bool
) -> None:
    segment, place = at
    records = [list(part) for part in _RECORDS]
    part = records[segment]
    foreign = _payloads(_FORK)[0][5]
    match kind:
        case "drop":
            del part[place]
        case "swap":
            part[place : place + 2] = part[place : place + 2][::-1]
        case "duplicate":
            part.insert(place, part[place])
        case "splice":
            part[place] = foreign
        case _:
            part.insert(place, foreign)
    if is_renumbered:
        records = _renumbered(records)
    if records == _RECORDS:
        return
    # A foreign record with the right number pushes the true one out of its place: that shows next.
    changed_index = _PLACES.index(at) + (kind in ("duplicate", "insert"))
    _assert_broken(_with_records(records), changed_index, is_renumbered)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, _SIZE - 1))
def test_any_truncation_is_found(kept: int) -> None:
    records = [list(part) for part in _RECORDS]
    while sum(len(part) for part in records) > kept:
        next(part for part in reversed(records) if part).pop()
    files = _with_records(records)
    full = next((n for n, part in enumerate(records) if not part), len(records))
    files.segment_files = files.segment_files[: max(full, 1)]
    report = _assert_broken(files, kept)
    assert report.first_bad_index == kept


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_cut_in_the_middle_of_a_file_is_found(data: st.DataObject) -> None:
    files = Files(list(_BASE.segment_files), _BASE.journal_files, _BASE.note)
    place = data.draw(st.integers(0, len(files.segment_files) - 1))
    name, content = files.segment_files[place]
    files.segment_files[place] = (name, content[: data.draw(st.integers(0, len(content) - 1))])
    _assert_broken(files, _SIZE)


def test_missing_and_swapped_segments_are_found() -> None:
    for place in range(len(_BASE.segment_files)):
        files = Files(list(_BASE.segment_files), _BASE.journal_files, _BASE.note)
        first = sum(len(part) for part in _RECORDS[:place])
        del files.segment_files[place]
        _assert_broken(files, first)
    names = [name for name, _ in _BASE.segment_files]
    contents = [content for _, content in _BASE.segment_files]
    swapped = list(zip(names, [contents[1], contents[0], *contents[2:]], strict=True))
    _assert_broken(Files(swapped, _BASE.journal_files, _BASE.note), 0)


def test_a_fork_is_found_by_the_checkpoints_of_the_other_branch() -> None:
    report = _assert_broken(Files(_FORK.segment_files, _BASE.journal_files, _BASE.note), _SIZE)
    assert {finding.code for finding in report.findings} == {"inconsistent-checkpoint"}
    forked = verify_log(_BASE, TRUST, [("kept elsewhere", _FORK.note or b"")])
    assert forked.exit_status == EXIT_BROKEN


def test_another_log_under_this_name_is_found() -> None:
    _assert_broken(Files(_OTHER.segment_files, _BASE.journal_files, _BASE.note), 0)
    report = verify_log(_OTHER, TRUST)
    assert {finding.code for finding in report.findings} == {"rogue-signature", "no-checkpoint"}


def test_a_log_signed_anew_by_a_rogue_key_is_found() -> None:
    rogue = PemKey(new_pem())
    journals = []
    for name, content in _BASE.journal_files:
        frames = [frame.payload for frame in read_frames(content) if isinstance(frame, Frame)]
        notes = [encode_frame(_signed_by(rogue, note), 0) for note in frames]
        journals.append((name, content[:HEADER_BYTES] + b"".join(notes)))
    files = Files(_BASE.segment_files, journals, _signed_by(rogue, _BASE.note or b""))
    report = _assert_broken(files, 0)
    assert {finding.code for finding in report.findings} == {"rogue-signature", "no-checkpoint"}


def test_a_log_cut_back_with_its_checkpoints_needs_one_kept_elsewhere() -> None:
    """The limit that the documentation states, and how an outside copy closes it."""
    name, content = _BASE.journal_files[0]
    first_note = next(f for f in read_frames(content) if isinstance(f, Frame))
    size = _point(first_note.payload).checkpoint.size
    segment, stored = _BASE.segment_files[0][0], _RECORDS[0][:size]
    shorter = Files(
        [(segment, _BASE.segment_files[0][1][:HEADER_BYTES] + b"".join(encode_frame(s, 0) for s in stored))],
        [(name, content[: first_note.end])],
        first_note.payload,
    )
    assert verify_log(shorter, TRUST).exit_status == EXIT_SOUND
    report = verify_log(shorter, TRUST, [("kept elsewhere", _BASE.note or b"")])
    assert report.exit_status == EXIT_BROKEN
    assert (report.findings[0].code, report.first_bad_index) == ("truncated", size)


def _flip(content: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    return bytes(changed)


def _point(note: bytes) -> SignedCheckpoint:
    signed = parse_checkpoint(note)
    assert isinstance(signed, SignedCheckpoint)
    return signed


def _signed_by(key: PemKey, note: bytes) -> bytes:
    point = _point(note).checkpoint
    return SignedCheckpoint(point, (sign_note(key, ORIGIN, point.text()),)).encode()
