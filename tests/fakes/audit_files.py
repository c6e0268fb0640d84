"""A disk in memory for the audit log: it forgets what was not synced, and fails where it is told to."""

from __future__ import annotations

import errno
import random
import threading
from dataclasses import dataclass, field

SECTOR_BYTES = 512


class PowerCut(BaseException):
    """The machine stopped in the middle of a call. Not an error that code could handle."""


@dataclass
class FakeFile:
    """Contents as a process sees them, and as they are on the disk."""

    now: bytearray = field(default_factory=bytearray)
    safe: bytes = b""


@dataclass(frozen=True)
class Fault:
    """What happens at one call: `code` (an errno), `short` (bytes written of a write), a power cut."""

    code: int = 0
    short_bytes: int | None = None
    is_power_cut: bool = False
    is_permanent: bool = False


class MemoryFiles:
    """`FileLayer` in memory.

    `calls` lists the calls made so far, by name. `at_call` maps the number of a call to a fault;
    `on` maps a kind of call to a fault that lasts until it is taken away. `hold` makes `sync` wait.
    """

    def __init__(self) -> None:
        self.names_now: dict[str, FakeFile] = {}
        self.names_safe: dict[str, FakeFile] = {}
        self.handles: dict[int, FakeFile] = {}
        self.calls: list[str] = []
        self.at_call: dict[int, Fault] = {}
        self.on: dict[str, Fault] = {}
        self.hold: threading.Event | None = None
        self.is_locked = False
        self.is_off = False
        self._next_handle = 3

    def make_directories(self) -> None:
        """See `FileLayer`."""
        self._call("make_directories")

    def lock(self, name: str) -> int:
        """See `FileLayer`."""
        self._call("lock")
        if self.is_locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        self.is_locked = True
        handle = self._handle(FakeFile())
        self._lock_handle = handle
        return handle

    def names(self, directory: str) -> list[str]:
        """See `FileLayer`."""
        self._call("names")
        start = directory + "/"
        return [name.removeprefix(start) for name in self.names_now if name.startswith(start)]

    def read(self, name: str) -> bytes:
        """See `FileLayer`."""
        self._call("read")
        if name not in self.names_now:
            raise FileNotFoundError(errno.ENOENT, name)
        return bytes(self.names_now[name].now)

    def create(self, name: str) -> int:
        """See `FileLayer`."""
        self._call("create")
        file = self.names_now.setdefault(name, FakeFile())
        file.now = bytearray()
        return self._handle(file)

    def open(self, name: str) -> int:
        """See `FileLayer`."""
        self._call("open")
        return self._handle(self.names_now[name])

    def reserve(self, handle: int, size: int) -> None:
        """See `FileLayer`."""
        self._call("reserve")
        file = self.handles[handle]
        file.now.extend(bytes(size - len(file.now)))

    def write(self, handle: int, content: bytes, offset: int) -> int:
        """See `FileLayer`."""
        fault = self._call("write")
        count = len(content) if fault is None or fault.short_bytes is None else fault.short_bytes
        count = min(count, len(content))
        file = self.handles[handle]
        if len(file.now) < offset + count:
            file.now.extend(bytes(offset + count - len(file.now)))
        file.now[offset : offset + count] = content[:count]
        if fault is not None and fault.is_power_cut:
            self._cut()
        return count

    def sync(self, handle: int) -> None:
        """See `FileLayer`."""
        self._call("sync")
        if self.hold is not None:
            self.hold.wait()
        file = self.handles[handle]
        file.safe = bytes(file.now)

    def truncate(self, handle: int, size: int) -> None:
        """See `FileLayer`."""
        self._call("truncate")
        file = self.handles[handle]
        del file.now[size:]

    def close(self, handle: int) -> None:
        """See `FileLayer`."""
        self._call("close")
        self.handles.pop(handle, None)
        if handle == getattr(self, "_lock_handle", None):
            self.is_locked = False

    def rename(self, old: str, new: str) -> None:
        """See `FileLayer`."""
        self._call("rename")
        self.names_now[new] = self.names_now.pop(old)

    def sync_directory(self, directory: str) -> None:
        """See `FileLayer`."""
        self._call("sync_directory")
        start = directory + "/"
        kept = {name: file for name, file in self.names_safe.items() if not name.startswith(start)}
        kept |= {name: file for name, file in self.names_now.items() if name.startswith(start)}
        self.names_safe = kept

    def after_power_cut(self, chance: random.Random) -> MemoryFiles:
        """The disk after a restart: synced bytes, and any part of the others, sector by sector."""
        other = MemoryFiles()
        names = dict(self.names_safe)
        for name, file in self.names_now.items():
            if names.get(name) is not file and chance.random() < 0.5:
                names[name] = file
        for name, file in names.items():
            mixed = bytearray(file.safe)
            size = max(len(file.safe), len(file.now)) if chance.random() < 0.5 else len(file.safe)
            mixed.extend(bytes(size - len(mixed)))
            for at in range(0, min(size, len(file.now)), SECTOR_BYTES):
                if chance.random() < 0.5:
                    piece = file.now[at : min(at + SECTOR_BYTES, size)]
                    mixed[at : at + len(piece)] = piece
            other.names_now[name] = FakeFile(mixed, bytes(mixed))
        other.names_safe = dict(other.names_now)
        return other

    def after_kill(self) -> MemoryFiles:
        """The disk after kill -9: everything that was written, synced or not."""
        other = MemoryFiles()
        other.names_now = {n: FakeFile(bytearray(f.now), bytes(f.now)) for n, f in self.names_now.items()}
        other.names_safe = dict(other.names_now)
        return other

    def _handle(self, file: FakeFile) -> int:
        self._next_handle += 1
        self.handles[self._next_handle] = file
        return self._next_handle

    def _call(self, kind: str) -> Fault | None:
        if self.is_off:
            raise PowerCut
        number = len(self.calls)
        self.calls.append(kind)
        fault = self.at_call.get(number) or self.on.get(kind)
        if fault is None:
            return None
        if fault.is_permanent:
            self.on[kind] = fault
        if fault.is_power_cut and fault.short_bytes is None:
            self._cut()
        if fault.code:
            raise OSError(fault.code, "injected")
        return fault

    def _cut(self) -> None:
        self.is_off = True
        raise PowerCut
