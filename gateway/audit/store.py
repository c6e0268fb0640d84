"""Where the log's bytes are kept: durable appends to preallocated files.

Invariants
1. `append` and `append_checkpoint` return only once their bytes are durable.
2. A write that fails or falls short leaves nothing: what was written is overwritten with zeros and
   synced, then `StoreFull`. Where that is impossible the store is broken.
3. A failed sync is never retried (the kernel may have dropped the pages and would report success next
   time): `StoreBroken`, for ever.
4. One writer per directory, held by flock.
5. A new segment is the prepared spare, already allocated and zeroed: opening one needs no new space.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Protocol

from gateway.audit import layout
from gateway.audit.files import FileLayer
from gateway.audit.frames import HEADER_BYTES

#: Errors after which nothing was kept and a later attempt may succeed.
_RECOVERABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM})
_ZEROS = bytes(1 << 20)


class StoreFull(Exception):
    """Nothing was kept of this call; a later one may succeed (disk full, quota, read-only)."""


class StoreBroken(Exception):
    """What is on the disk is no longer known. Nothing more may be written."""


class StoreBusy(Exception):
    """Another process writes this log."""


class AuditStore(Protocol):
    """Durable storage of one log. All calls block; all but `prepare_spare` come from one thread."""

    def open(self) -> None:
        """Take the log for writing. Raises `StoreBusy`, `OSError`."""
        ...

    def segments(self) -> Iterator[tuple[str, bytes]]:
        """Name and contents of each segment in order."""
        ...

    def journals(self) -> Iterator[tuple[str, bytes]]:
        """Name and contents of each checkpoint file in order."""
        ...

    def published(self) -> bytes | None:
        """The published checkpoint, if there is one."""
        ...

    def cut(self, name: str, size: int) -> None:
        """Shorten a file for good. Raises `StoreBroken`."""
        ...

    def prepare_spare(self) -> bool:
        """Make the next segment's file ready; False when there is no room. Any thread."""
        ...

    @property
    def spare_is_ready(self) -> bool:
        """True when the next segment can be opened without new space."""
        ...

    def begin_segment(self, first_seq: int, header: bytes) -> None:
        """Close the current segment and go on in a new one. Raises `StoreFull`, `StoreBroken`."""
        ...

    @property
    def room_bytes(self) -> int:
        """Bytes that still fit into the current segment."""
        ...

    def append(self, frames: bytes) -> None:
        """Add frames to the segment, durably. Raises `StoreFull`, `StoreBroken`."""
        ...

    def begin_journal(self, first_ordinal: int, header: bytes) -> None:
        """Go on in a new checkpoint file. Raises `StoreFull`, `StoreBroken`."""
        ...

    @property
    def journal_room_bytes(self) -> int:
        """Bytes that still fit into the current checkpoint file."""
        ...

    def append_checkpoint(self, frame: bytes) -> None:
        """Add a checkpoint, durably. Raises `StoreFull`, `StoreBroken`."""
        ...

    def publish(self, note: bytes) -> None:
        """Replace the published checkpoint. Raises `StoreFull`, `StoreBroken`."""
        ...

    def close(self) -> None:
        """Release everything. Files are cut to what they hold."""
        ...


class StoredLog:
    """The files of a log, for reading: a `verify.LogSource`."""

    def __init__(self, files: FileLayer) -> None:
        self._files = files

    def segments(self) -> Iterator[tuple[str, bytes]]:
        """See `AuditStore`."""
        numbers = map(layout.segment_number, self._files.names(layout.SEGMENTS))
        for number in sorted(n for n in numbers if n is not None):
            name = layout.segment_name(number)
            yield name, self._files.read(name)

    def journals(self) -> Iterator[tuple[str, bytes]]:
        """See `AuditStore`."""
        numbers = map(layout.journal_number, self._files.names(layout.CHECKPOINTS))
        for number in sorted(n for n in numbers if n is not None):
            name = layout.journal_name(number)
            yield name, self._files.read(name)

    def published(self) -> bytes | None:
        """See `AuditStore`."""
        try:
            return self._files.read(layout.CHECKPOINT)
        except FileNotFoundError:
            return None


class _Tail:
    """The file that is being appended to: its handle, used bytes and size."""

    __slots__ = ("handle", "size", "used")

    def __init__(self, handle: int, used: int, size: int) -> None:
        self.handle = handle
        self.used = used
        self.size = size


class FileStore(StoredLog):
    """`AuditStore` over a `FileLayer`."""

    def __init__(self, files: FileLayer, segment_bytes: int, journal_bytes: int) -> None:
        super().__init__(files)
        self._segment_bytes = segment_bytes
        self._journal_bytes = journal_bytes
        self._lock: int | None = None
        self._segment: _Tail | None = None
        self._journal: _Tail | None = None
        self._spare: int | None = None
        self._is_broken = False

    def open(self) -> None:
        """See `AuditStore`."""
        self._files.make_directories()
        try:
            self._lock = self._files.lock(layout.LOCK)
        except BlockingIOError:
            raise StoreBusy("another process writes this log") from None

    def cut(self, name: str, size: int) -> None:
        """See `AuditStore`."""

        def shorten() -> None:
            handle = self._files.open(name)
            self._files.truncate(handle, size)
            self._files.sync(handle)
            self._files.close(handle)

        self._never_twice(shorten)

    def prepare_spare(self) -> bool:
        """See `AuditStore`."""
        if self._spare is not None:
            return True
        handle: int | None = None
        try:
            handle = self._files.create(layout.SPARE_DRAFT)
            # Renaming shows that the folder can be written: a spare that cannot become a segment is none.
            self._files.rename(layout.SPARE_DRAFT, layout.SPARE)
            self._files.reserve(handle, self._segment_bytes)
            # Zeros are written, not only reserved: an fdatasync into them then has no metadata to write.
            for offset in range(0, self._segment_bytes, len(_ZEROS)):
                self._write_whole(handle, _ZEROS[: self._segment_bytes - offset], offset)
                self._files.sync(handle)
        except OSError:
            # The spare holds nothing yet, so any failure here only means that there is none.
            if handle is not None:
                with contextlib.suppress(OSError):
                    self._files.truncate(handle, 0)
                with contextlib.suppress(OSError):
                    self._files.close(handle)
            return False
        self._spare = handle
        return True

    @property
    def spare_is_ready(self) -> bool:
        """See `AuditStore`."""
        return self._spare is not None

    def begin_segment(self, first_seq: int, header: bytes) -> None:
        """See `AuditStore`."""
        if self._spare is None:
            raise StoreFull("no room for a new segment")
        handle = self._spare
        # Whatever fails from here on, the spare is no longer empty; it is made anew.
        self._spare = None
        self._start(handle, header, layout.SPARE, layout.segment_name(first_seq), layout.SEGMENTS)
        old, self._segment = self._segment, _Tail(handle, HEADER_BYTES, self._segment_bytes)
        self._finish(old)

    @property
    def room_bytes(self) -> int:
        """See `AuditStore`."""
        return 0 if self._segment is None else self._segment.size - self._segment.used

    def append(self, frames: bytes) -> None:
        """See `AuditStore`."""
        self._append(self._segment, frames)

    def begin_journal(self, first_ordinal: int, header: bytes) -> None:
        """See `AuditStore`."""
        handle: int | None = None
        try:
            handle = self._files.create(layout.JOURNAL_DRAFT)
            self._files.reserve(handle, self._journal_bytes)
        except OSError as error:
            if handle is not None:
                with contextlib.suppress(OSError):
                    self._files.close(handle)
            raise self._judged(error) from error
        name = layout.journal_name(first_ordinal)
        self._start(handle, header, layout.JOURNAL_DRAFT, name, layout.CHECKPOINTS)
        old, self._journal = self._journal, _Tail(handle, HEADER_BYTES, self._journal_bytes)
        self._finish(old)

    @property
    def journal_room_bytes(self) -> int:
        """See `AuditStore`."""
        return 0 if self._journal is None else self._journal.size - self._journal.used

    def append_checkpoint(self, frame: bytes) -> None:
        """See `AuditStore`."""
        self._append(self._journal, frame)

    def publish(self, note: bytes) -> None:
        """See `AuditStore`."""
        handle: int | None = None
        try:
            handle = self._files.create(layout.CHECKPOINT_DRAFT)
            self._write_whole(handle, note, 0)
            self._files.sync(handle)
            self._files.rename(layout.CHECKPOINT_DRAFT, layout.CHECKPOINT)
        except OSError as error:
            raise self._judged(error) from error
        finally:
            if handle is not None:
                with contextlib.suppress(OSError):
                    self._files.close(handle)

    def close(self) -> None:
        """See `AuditStore`."""
        if not self._is_broken:
            self._finish(self._segment)
            self._finish(self._journal)
        self._segment = self._journal = None
        for handle in (self._spare, self._lock):
            if handle is not None:
                with contextlib.suppress(OSError):
                    self._files.close(handle)
        self._spare = self._lock = None

    def _start(self, handle: int, header: bytes, draft: str, name: str, directory: str) -> None:
        """Make a prepared file, with its header, part of the log under its name."""
        try:
            self._write_whole(handle, header, 0)
        except OSError as error:
            self._drop(handle)
            raise self._judged(error) from error

        self._never_twice(lambda: self._files.sync(handle))
        try:
            self._files.rename(draft, name)
        except OSError as error:
            # A rename that is refused changed nothing: the draft is still a draft.
            self._drop(handle)
            raise self._judged(error) from error
        self._never_twice(lambda: self._files.sync_directory(directory))

    def _append(self, tail: _Tail | None, content: bytes) -> None:
        if self._is_broken or tail is None:
            raise StoreBroken("the log is not open")
        if tail.used + len(content) > tail.size:
            raise StoreFull("the file has no room left")
        written = 0
        failure: OSError | None = None
        while written < len(content) and failure is None:
            try:
                step = self._files.write(tail.handle, content[written:], tail.used + written)
            except OSError as error:
                failure = error
            else:
                written += step
                if written < len(content):
                    failure = OSError(errno.ENOSPC, "short write")
        if failure is not None:
            self._erase(tail, written)
            raise self._judged(failure) from failure
        self._never_twice(lambda: self._files.sync(tail.handle))
        tail.used += len(content)

    def _erase(self, tail: _Tail, written: int) -> None:
        """Invariant 2: overwrite a torn write with zeros."""
        if written == 0:
            return

        def wipe() -> None:
            self._write_whole(tail.handle, bytes(written), tail.used)
            self._files.sync(tail.handle)

        self._never_twice(wipe)

    def _finish(self, tail: _Tail | None) -> None:
        """Cut a file that gets no more frames to what it holds, and close it."""
        if tail is None:
            return

        def shorten() -> None:
            self._files.truncate(tail.handle, tail.used)
            self._files.sync(tail.handle)
            self._files.close(tail.handle)

        self._never_twice(shorten)

    def _never_twice(self, action: Callable[[], None]) -> None:
        """Run something whose failure leaves the disk unknown. Invariant 3."""
        try:
            action()
        except OSError as error:
            self._is_broken = True
            raise StoreBroken(f"{errno.errorcode.get(error.errno or 0, 'unknown')}") from error

    def _judged(self, error: OSError) -> StoreFull | StoreBroken:
        code = errno.errorcode.get(error.errno or 0, "unknown")
        if error.errno in _RECOVERABLE and not self._is_broken:
            return StoreFull(code)
        # fail-closed: an error that is not known to leave the disk as it was ends the log.
        self._is_broken = True
        return StoreBroken(code)

    def _write_whole(self, handle: int, content: bytes, offset: int) -> None:
        if self._files.write(handle, content, offset) != len(content):
            raise OSError(errno.ENOSPC, "short write")

    def _drop(self, handle: int) -> None:
        with contextlib.suppress(OSError):
            self._files.close(handle)
