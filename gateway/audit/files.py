"""The few file calls that the log makes, so that a test can make each of them fail.

Invariants
1. Nothing here retries. An `OSError` of any call reaches the store, which decides.
2. `write` may write fewer bytes than asked, as the operating system may.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol


class FileLayer(Protocol):
    """Blocking file calls. Names are relative to the log's directory; handles are integers."""

    def make_directories(self) -> None:
        """Create the log's directories where they are missing, durably."""
        ...

    def lock(self, name: str) -> int:
        """Take the exclusive lock; raises `BlockingIOError` when another process holds it."""
        ...

    def names(self, directory: str) -> list[str]:
        """Bare names in a directory."""
        ...

    def read(self, name: str) -> bytes:
        """Whole contents. Raises `FileNotFoundError`."""
        ...

    def create(self, name: str) -> int:
        """A new empty file, or an old one emptied, open for writing."""
        ...

    def open(self, name: str) -> int:
        """An existing file, open for writing."""
        ...

    def reserve(self, handle: int, size: int) -> None:
        """Give the file `size` bytes of its own on the disk."""
        ...

    def write(self, handle: int, content: bytes, offset: int) -> int:
        """Write at an offset; how many bytes were written."""
        ...

    def sync(self, handle: int) -> None:
        """fdatasync."""
        ...

    def truncate(self, handle: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def close(self, handle: int) -> None:
        """Close a handle."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Put `old` in the place of `new`, atomically."""
        ...

    def sync_directory(self, directory: str) -> None:
        """fsync of a directory, so that its names last."""
        ...


class OsFiles:
    """`FileLayer` over the operating system. Files are readable by their owner and group only."""

    def __init__(self, root: Path, directories: tuple[str, ...]) -> None:
        self._root = root
        self._directories = directories

    def make_directories(self) -> None:
        """See `FileLayer`."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o750)
        for directory in self._directories:
            (self._root / directory).mkdir(exist_ok=True, mode=0o750)
        self.sync_directory("")

    def lock(self, name: str) -> int:
        """See `FileLayer`."""
        handle = os.open(self._root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        return handle

    def names(self, directory: str) -> list[str]:
        """See `FileLayer`."""
        return os.listdir(self._root / directory)

    def read(self, name: str) -> bytes:
        """See `FileLayer`."""
        return (self._root / name).read_bytes()

    def create(self, name: str) -> int:
        """See `FileLayer`."""
        return os.open(self._root / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)

    def open(self, name: str) -> int:
        """See `FileLayer`."""
        return os.open(self._root / name, os.O_RDWR | os.O_CLOEXEC)

    def reserve(self, handle: int, size: int) -> None:
        """See `FileLayer`."""
        os.posix_fallocate(handle, 0, size)

    def write(self, handle: int, content: bytes, offset: int) -> int:
        """See `FileLayer`."""
        return os.pwrite(handle, content, offset)

    def sync(self, handle: int) -> None:
        """See `FileLayer`."""
        os.fdatasync(handle)

    def truncate(self, handle: int, size: int) -> None:
        """See `FileLayer`."""
        os.ftruncate(handle, size)

    def close(self, handle: int) -> None:
        """See `FileLayer`."""
        os.close(handle)

    def rename(self, old: str, new: str) -> None:
        """See `FileLayer`."""
        (self._root / old).rename(self._root / new)

    def sync_directory(self, directory: str) -> None:
        """See `FileLayer`."""
        handle = os.open(self._root / directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
