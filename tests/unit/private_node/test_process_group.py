"""Processes and shared memory of a group, read from this test's own."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from private_node.process_group import end_group, group_members, shared_memory_of

UNUSED_GROUP = 2**22 + 1
"""Above the highest process id that Linux gives."""


def test_finds_the_own_process_in_its_group() -> None:
    assert os.getpid() in group_members(os.getpgid(0))
    assert group_members(UNUSED_GROUP) == []


def test_finds_mapped_shared_memory_until_it_has_no_name() -> None:
    path = Path(f"/dev/shm/tidegate-unit-{os.getpid()}")
    with path.open("w+b") as file:
        file.truncate(4096)
        mapped = mmap.mmap(file.fileno(), 4096)
    try:
        assert path in shared_memory_of(os.getpgid(0))
    finally:
        path.unlink()
    assert path not in shared_memory_of(os.getpgid(0))
    mapped.close()


def test_says_at_once_that_a_group_is_gone() -> None:
    assert end_group(UNUSED_GROUP, 0.0)
