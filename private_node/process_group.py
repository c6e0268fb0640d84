"""The processes of one group and the shared memory that they hold, as Linux shows them in /proc.

vLLM's ranks exchange activations through files in /dev/shm. A process that is killed leaves them there,
readable by the next one of the same user; so who ends a group also removes what it had mapped.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

SHARED_MEMORY: Final = "/dev/shm/"  # noqa: S108 - read from process maps, never created here
_POLL_SECONDS: Final = 0.05


def group_members(group: int) -> list[int]:
    """The live processes of a group; zombies and those that end meanwhile are left out."""
    members: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, its_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(its_group) == group and state != "Z":
                members.append(int(entry.name))
    return members


def shared_memory_of(group: int) -> set[Path]:
    """The files of /dev/shm that a process of the group has mapped and that still have a name."""
    found: set[Path] = set()
    for pid in group_members(group):
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        for line in maps.splitlines():
            start = line.find(SHARED_MEMORY)
            if start >= 0 and not line.endswith(" (deleted)"):
                found.add(Path(line[start:]))
    return found


def end_group(group: int, timeout_seconds: float) -> bool:
    """Kills a group and waits until no process is left. False when one still is at the end of the time."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
