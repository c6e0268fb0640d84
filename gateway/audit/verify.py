"""Checks a whole log: frames, tree, checkpoints, sequence, declared gaps, open intents.

The same code checks a log for an examiner and for the writer that wants to continue it. It needs only
the standard library and `cryptography`.

Invariants
1. Bytes are hashed as they stand in the file. Nothing is decoded and encoded again.
2. A record counts as signed only up to the last checkpoint that holds: good signature, right origin, the
   root of exactly these records. Reading stops at the first record that does not hold.
3. A damaged end is taken for a torn write only behind everything that is known to have been acknowledged:
   behind every checkpoint, never in a file after its `stop` record, and not when a later intact frame
   proves (frames, invariant 3) that the damaged place had been acknowledged. Everything else is damage.
4. Without an outside copy of a checkpoint, a log that was cut back together with all its later
   checkpoints looks like a shorter log. `more_notes` takes such copies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Protocol

from gateway.audit.checkpoint import (
    Checkpoint,
    NoteFault,
    SignedCheckpoint,
    Trust,
    parse_checkpoint,
    verify_signatures,
)
from gateway.audit.frames import (
    Damage,
    FileKind,
    Frame,
    Header,
    decode_header,
    intact_frames_after,
    read_frames,
)
from gateway.audit.report import Finding, Gap, Report
from gateway.audit.tree import leaf_hash

RECORD_HEAD = b'{"v":"audit/1",'
#: The fixed beginning of a record: origin, seq, phase, event type, request id.
RECORD = re.compile(
    rb'\{"v":"audit/1","origin":"([^"\\]*)","seq":(0|[1-9][0-9]{0,18}),"phase":"([a-z]+)",'
    rb'"event_type":"([a-z-]+)","request_id":"([^"\\]*)",'
)
_CLOSING = frozenset({b"completed", b"denied", b"aborted", b"abandoned"})
_NEED_INTENT = frozenset({b"completed", b"aborted", b"abandoned"})
_MAX_LISTED = 1000


class LogSource(Protocol):
    """The files of one log, in order, as bytes."""

    def segments(self) -> Iterator[tuple[str, bytes]]:
        """Name and contents of each segment."""
        ...

    def journals(self) -> Iterator[tuple[str, bytes]]:
        """Name and contents of each checkpoint file."""
        ...

    def published(self) -> bytes | None:
        """The published checkpoint."""
        ...


def verify_log(
    source: LogSource, trust: Trust | None, more_notes: Sequence[tuple[str, bytes]] = ()
) -> Report:
    """Report on a log.

    `trust` None leaves signatures unjudged: that is for the writer, which reads its own directory back.
    `more_notes` are names and bytes of checkpoints that were kept elsewhere.
    """
    check = _Check(trust)
    # Read first: a writer that is running keeps a checkpoint in the journal before it publishes it.
    note = source.published()
    check.read_journals(source.journals())
    outside = [("checkpoint", note)] if note is not None else []
    check.read_notes(outside, is_kept=True)
    check.read_notes(more_notes, is_kept=False)
    check.read_segments(source.segments())
    check.conclude()
    return check.report


class _Check:
    """State of one check."""

    def __init__(self, trust: Trust | None) -> None:
        self.report = Report()
        self._trust = trust
        self._points: dict[int, tuple[bytes, str]] = {}
        self._is_readable = True

    # -- checkpoints ---------------------------------------------------------------------------------

    def read_journals(self, files: Iterable[tuple[str, bytes]]) -> None:
        """All kept checkpoints, in the order in which they were signed."""
        report = self.report
        torn: Gap | None = None
        for name, content in files:
            if torn is not None:
                self._find("frame-damage", torn.file, torn.offset, "damaged, and a later file exists")
            torn = None
            header = self._header(name, content, FileKind.CHECKPOINTS)
            last = report.last.checkpoint if report.last else None
            if header is None:
                continue
            if (
                header.first != report.checkpoint_count
                or header.previous_size != (last.size if last else 0)
                or (last is not None and header.previous_root != last.root)
            ):
                self._find("missing-checkpoint", name, 0, "does not continue the checkpoints before it")
            for frame in read_frames(content):
                if isinstance(frame, Frame):
                    self._kept_note(name, frame)
                elif self._follows_checkpoint(content, frame.offset):
                    self._find("frame-damage", name, frame.offset, frame.reason)
                else:
                    torn = _torn(name, content, frame.offset, 0)
        report.torn_journal = torn

    def read_notes(self, notes: Iterable[tuple[str, bytes]], is_kept: bool) -> None:
        """Checkpoints outside the journal; `is_kept` ones must be in the journal too."""
        for name, note in notes:
            signed = self._judge(name, None, note)
            if signed is None:
                continue
            point = signed.checkpoint
            if is_kept and self._points.get(point.size, (b"", ""))[0] != point.root:
                self._find("missing-checkpoint", name, None, "not among the kept checkpoints")
            self._add_point(point, name, None)

    def _kept_note(self, name: str, frame: Frame) -> None:
        report = self.report
        report.checkpoint_count += 1
        signed = self._judge(name, frame.offset, frame.payload)
        if signed is None:
            return
        if report.last is not None and signed.checkpoint.size < report.last.checkpoint.size:
            self._find("inconsistent-checkpoint", name, frame.offset, "smaller than the one before")
            return
        self._add_point(signed.checkpoint, name, frame.offset)
        report.last = signed

    def _judge(self, name: str, offset: int | None, note: bytes) -> SignedCheckpoint | None:
        signed = parse_checkpoint(note)
        fault: NoteFault | None
        if isinstance(signed, NoteFault):
            fault = signed
        elif not self._is_own(signed.checkpoint.origin):
            fault = NoteFault("inconsistent-checkpoint", "a checkpoint of another log")
        else:
            fault = None if self._trust is None else verify_signatures(signed, self._trust)
        if fault is not None:
            self._find(fault.code, name, offset, fault.detail, self._proven_size())
            return None
        assert isinstance(signed, SignedCheckpoint)
        return signed

    def _add_point(self, point: Checkpoint, name: str, offset: int | None) -> None:
        known = self._points.setdefault(point.size, (point.root, name))
        if known[0] != point.root:
            detail = f"two roots were signed for {point.size} records"
            smaller = max((size for size in self._points if size < point.size), default=0)
            self._find("inconsistent-checkpoint", name, offset, detail, smaller)

    def _follows_checkpoint(self, content: bytes, offset: int) -> bool:
        head = (self.report.origin or "").encode() + b"\n"
        return any(True for _ in intact_frames_after(content, offset, head))

    def _proven_size(self) -> int:
        return self.report.last.checkpoint.size if self.report.last else 0

    # -- records -------------------------------------------------------------------------------------

    def read_segments(self, files: Iterable[tuple[str, bytes]]) -> None:
        """All records in order, until one does not hold."""
        tree = self.report.tree
        self._meet_checkpoint("", 0)
        for name, content in files:
            header = self._header(name, content, FileKind.SEGMENT)
            if header is None:
                self._is_readable = False
            elif header.first != tree.size or header.previous_root != tree.root():
                # What changed lies somewhere behind the last signed record; no header is signed.
                first = self.report.signed_tree.size
                self._stop("broken-chain", name, 0, "does not continue the segment before it", first)
            if not self._is_readable or not self._read_segment(name, content):
                return

    def _read_segment(self, name: str, content: bytes) -> bool:
        report, tree, points = self.report, self.report.tree, self._points
        origin = (report.origin or "").encode()
        is_stopped = False
        for frame in read_frames(content):
            if isinstance(frame, Damage):
                self._damage(name, content, frame, is_stopped)
                return self._is_readable
            stored = frame.payload
            seen = RECORD.match(stored)
            if seen is None or int(seen[2]) != tree.size or seen[1] != origin:
                self._stop("wrong-record", name, frame.offset, f"not record {tree.size} of this log")
                return False
            if is_stopped:
                self._stop("wrong-record", name, frame.offset, "a record after the log was stopped")
                return False
            phase = seen[3]
            self._count(phase, seen[5].decode(errors="replace"))
            tree.push(leaf_hash(stored))
            is_stopped = phase == b"log" and seen[4] == b"stop"
            if phase == b"log" and seen[4] == b"gap" and not self._declare(stored):
                detail = "a gap record without its facts"
                self._stop("wrong-record", name, frame.offset, detail, tree.size - 1)
                return False
            if tree.size in points and not self._meet_checkpoint(name, frame.offset):
                return False
        return True

    def _count(self, phase: bytes, request_id: str) -> None:
        report = self.report
        word = phase.decode()
        report.phase_counts[word] = report.phase_counts.get(word, 0) + 1
        if phase == b"admitted":
            report.open_intents[request_id] = report.tree.size
        elif phase in _CLOSING:
            is_orphan = report.open_intents.pop(request_id, None) is None and phase in _NEED_INTENT
            if is_orphan and len(report.surplus_outcomes) < _MAX_LISTED:
                report.surplus_outcomes.append(report.tree.size)

    def _meet_checkpoint(self, name: str, offset: int) -> bool:
        """Compare the root with the checkpoint of this size, if there is one."""
        tree = self.report.tree
        point = self._points.get(tree.size)
        if point is None:
            return True
        if point[0] != tree.root():
            first = self.report.signed_tree.size
            detail = f"records {first} to {tree.size - 1} are not those that {point[1]} signed"
            self._stop("inconsistent-checkpoint", name, offset, detail, first)
            return False
        self.report.signed_tree = tree.copy()
        return True

    def _damage(self, name: str, content: bytes, damage: Damage, is_stopped: bool) -> None:
        """Invariant 3."""
        size = self.report.tree.size
        if is_stopped or any(signed > size for signed in self._points):
            self._stop("frame-damage", name, damage.offset, damage.reason)
            return
        for frame in intact_frames_after(content, damage.offset, RECORD_HEAD):
            seen = RECORD.match(frame.payload)
            if seen is not None and int(seen[2]) - frame.position > size:
                self._stop("frame-damage", name, damage.offset, f"{damage.reason}; it had been acknowledged")
                return
        self.report.gaps.append(_torn(name, content, damage.offset, size))

    def _declare(self, stored: bytes) -> bool:
        """Take in a `gap` record, of bytes that are still there or were cut; False when it is malformed."""
        try:
            tree = json.loads(stored)
        except (ValueError, RecursionError):
            return False
        match tree:
            case {
                "event": {
                    "file": str(file),
                    "offset": int(offset),
                    "bytes": int(length),
                    "sha256": str(digest),
                    "after_size": int(after_size),
                }
            }:
                gap = Gap(file, offset, length, digest, after_size, True, True)
            case _:
                return False
        gaps = self.report.gaps
        for place, torn in enumerate(gaps):
            if (torn.file, torn.offset, torn.sha256) == (gap.file, gap.offset, gap.sha256):
                gaps[place] = replace(torn, is_declared=True)
                return True
        gaps.append(gap)
        return True

    # -- end -----------------------------------------------------------------------------------------

    def conclude(self) -> None:
        """Judge what can only be judged when everything was read."""
        report = self.report
        size = report.tree.size
        if not self._is_readable:
            return
        for gap in report.gaps:
            if not gap.is_declared and gap.after_size < size:
                # fail-closed: records follow, so this was no torn end, and nobody declared it.
                self._find("frame-damage", gap.file, gap.offset, "not declared", gap.after_size)
        longest = max(self._points, default=0)
        if longest > size:
            name = self._points[longest][1]
            self._find("truncated", name, None, f"{longest} records were signed, {size} are here", size)
        if not self._points and self._trust is not None:
            # fail-closed: every log has a checkpoint from its start on, so without one nothing is proven.
            self._find("no-checkpoint", "checkpoints", None, "nothing is signed", 0)

    def _header(self, name: str, content: bytes, kind: FileKind) -> Header | None:
        header = decode_header(content)
        if isinstance(header, Damage):
            self._find("frame-damage", name, header.offset, header.reason)
            return None
        if header.kind is not kind or not self._is_own(header.origin) or header.tree() is None:
            self._find("broken-chain", name, 0, "a file of another kind or log, or with a false root")
            return None
        return header

    def _is_own(self, origin: str) -> bool:
        if self.report.origin is None:
            self.report.origin = origin
        return self.report.origin == origin

    def _stop(self, code: str, name: str, offset: int, detail: str, index: int | None = None) -> None:
        self._is_readable = False
        self._find(code, name, offset, detail, index)

    def _find(self, code: str, name: str, offset: int | None, detail: str, index: int | None = None) -> None:
        at = self.report.tree.size if index is None else index
        self.report.findings.append(Finding(code, at, name, offset, detail))


def _torn(name: str, content: bytes, offset: int, size: int) -> Gap:
    torn = content[offset:].rstrip(b"\x00")
    return Gap(name, offset, len(torn), sha256(torn).hexdigest(), size, False, False)
