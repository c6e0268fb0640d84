"""One suite for every `AuditStore`: on real files, and on the disk in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.audit import layout
from gateway.audit.files import OsFiles
from gateway.audit.frames import HEADER_BYTES
from gateway.audit.store import AuditStore, FileStore, StoreBroken, StoreBusy, StoreFull
from tests.fakes.audit_files import MemoryFiles

SEGMENT_BYTES = 32 * 1024
JOURNAL_BYTES = 8 * 1024
HEADER = b"h" * HEADER_BYTES

#: Gives a new store over the same place each time it is called.
Reopen = Callable[[], AuditStore]


@pytest.fixture(params=["files", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    memory = MemoryFiles()
    opened: list[AuditStore] = []

    def new() -> AuditStore:
        files = (
            memory
            if request.param == "memory"
            else OsFiles(tmp_path / "log", (layout.SEGMENTS, layout.CHECKPOINTS))
        )
        opened.append(FileStore(files, SEGMENT_BYTES, JOURNAL_BYTES))
        return opened[-1]

    yield new
    for store in opened:
        store.close()


def _started(reopen: Reopen) -> AuditStore:
    store = reopen()
    store.open()
    assert store.prepare_spare()
    store.begin_segment(0, HEADER)
    store.begin_journal(0, HEADER)
    return store


def test_a_new_store_is_empty(reopen: Reopen) -> None:
    store = reopen()
    store.open()
    assert list(store.segments()) == []
    assert list(store.journals()) == []
    assert store.published() is None
    assert not store.spare_is_ready


def test_keeps_what_was_appended_in_order(reopen: Reopen) -> None:
    store = _started(reopen)
    store.append(b"one")
    store.append(b"two")
    store.append_checkpoint(b"point")
    store.publish(b"note")
    store.close()
    again = reopen()
    assert list(again.segments()) == [(layout.segment_name(0), HEADER + b"onetwo")]
    assert list(again.journals()) == [(layout.journal_name(0), HEADER + b"point")]
    assert again.published() == b"note"


def test_an_open_file_ends_in_zeros(reopen: Reopen) -> None:
    store = _started(reopen)
    store.append(b"one")
    ((_, content),) = store.segments()
    assert content == (HEADER + b"one").ljust(SEGMENT_BYTES, b"\x00")


def test_refuses_a_second_writer(reopen: Reopen) -> None:
    _started(reopen)
    with pytest.raises(StoreBusy):
        reopen().open()


def test_the_log_can_be_taken_again_after_a_close(reopen: Reopen) -> None:
    _started(reopen).close()
    reopen().open()


def test_room_shrinks_by_what_was_appended_and_is_never_exceeded(reopen: Reopen) -> None:
    store = _started(reopen)
    assert store.room_bytes == SEGMENT_BYTES - HEADER_BYTES
    assert store.journal_room_bytes == JOURNAL_BYTES - HEADER_BYTES
    store.append(b"x" * 1000)
    assert store.room_bytes == SEGMENT_BYTES - HEADER_BYTES - 1000
    with pytest.raises(StoreFull):
        store.append(b"x" * SEGMENT_BYTES)
    assert store.room_bytes == SEGMENT_BYTES - HEADER_BYTES - 1000


def test_a_new_segment_needs_a_spare_and_cuts_the_old_one(reopen: Reopen) -> None:
    store = _started(reopen)
    store.append(b"one")
    with pytest.raises(StoreFull):
        store.begin_segment(1, HEADER)
    assert store.prepare_spare()
    assert store.prepare_spare()
    assert store.spare_is_ready
    store.begin_segment(1, HEADER)
    assert not store.spare_is_ready
    store.append(b"two")
    store.close()
    assert [content for _, content in reopen().segments()] == [HEADER + b"one", HEADER + b"two"]


def test_a_new_checkpoint_file_follows_the_old_one(reopen: Reopen) -> None:
    store = _started(reopen)
    store.append_checkpoint(b"one")
    store.begin_journal(1, HEADER)
    store.append_checkpoint(b"two")
    store.close()
    assert [content for _, content in reopen().journals()] == [HEADER + b"one", HEADER + b"two"]


def test_the_published_checkpoint_is_replaced_whole(reopen: Reopen) -> None:
    store = _started(reopen)
    store.publish(b"a long first note")
    store.publish(b"short")
    assert store.published() == b"short"


def test_cuts_a_file_for_good(reopen: Reopen) -> None:
    store = _started(reopen)
    store.append(b"onetwo")
    store.close()
    again = reopen()
    again.open()
    again.cut(layout.segment_name(0), HEADER_BYTES + 3)
    assert list(again.segments()) == [(layout.segment_name(0), HEADER + b"one")]


def test_nothing_is_written_after_a_close(reopen: Reopen) -> None:
    store = _started(reopen)
    store.close()
    with pytest.raises(StoreBroken):
        store.append(b"late")
    with pytest.raises(StoreBroken):
        store.append_checkpoint(b"late")
