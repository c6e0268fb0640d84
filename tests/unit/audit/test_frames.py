"""Headers and frames."""

from __future__ import annotations

import pytest

from gateway.audit.frames import (
    FRAME_BYTES,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Damage,
    FileKind,
    Frame,
    Header,
    decode_header,
    encode_frame,
    intact_frames_after,
    read_frames,
)
from gateway.audit.tree import MerkleTree, leaf_hash


def _header(size: int = 3, origin: str = "a/b/0") -> Header:
    tree = MerkleTree()
    tree.extend(leaf_hash(bytes([n])) for n in range(size))
    return Header(FileKind.SEGMENT, origin, size, size, tree.root(), tree.frontier)


def test_a_header_comes_back_as_it_was() -> None:
    header = _header()
    encoded = header.encode()
    assert len(encoded) == HEADER_BYTES
    assert decode_header(encoded) == header
    tree = header.tree()
    assert tree is not None
    assert tree.size == 3


def test_a_header_whose_frontier_contradicts_its_root_gives_no_tree() -> None:
    header = _header()
    wrong_root = Header(header.kind, header.origin, 3, 3, b"\x01" * 32, header.frontier)
    wrong_size = Header(header.kind, header.origin, 3, 4, header.previous_root, header.frontier)
    assert wrong_root.tree() is None
    assert wrong_size.tree() is None


def test_a_header_holds_the_frontier_of_the_largest_log() -> None:
    size = 2**64 - 1
    header = Header(FileKind.CHECKPOINTS, "o" * 255, size, size, b"r" * 32, (b"f" * 32,) * 64)
    assert decode_header(header.encode()) == header


def test_refuses_an_origin_that_is_too_long() -> None:
    with pytest.raises(ValueError, match="origin"):
        _header(origin="x" * 256).encode()


@pytest.mark.parametrize("offset", [0, 8, 10, 12, 14, 16, 24, 32, 64, 70, 4000, 4095])
def test_a_changed_header_is_damage(offset: int) -> None:
    changed = bytearray(_header().encode())
    changed[offset] ^= 1
    assert isinstance(decode_header(bytes(changed)), Damage)


def test_a_header_with_a_new_checksum_is_still_held_to_its_form() -> None:
    from zlib import crc32

    for offset in (0, 8, 10, 14, 4000):
        changed = bytearray(_header().encode())
        changed[offset] ^= 0xFF
        changed[-4:] = crc32(bytes(changed[:-4])).to_bytes(4, "big")
        assert isinstance(decode_header(bytes(changed)), Damage)
    assert isinstance(decode_header(b"short"), Damage)


def test_frames_are_read_back_with_their_places() -> None:
    content = _header().encode() + encode_frame(b"one", 0) + encode_frame(b"two", 1) + bytes(100)
    first, second = read_frames(content)
    assert first == Frame(HEADER_BYTES, 0, b"one")
    assert second == Frame(HEADER_BYTES + FRAME_BYTES + 3, 1, b"two")
    assert isinstance(second, Frame)
    assert second.end == HEADER_BYTES + 2 * (FRAME_BYTES + 3)


@pytest.mark.parametrize(
    "tail",
    [
        encode_frame(b"two", 1)[:-1],
        encode_frame(b"two", 1)[:5] + bytes(50),
        b"\x00" * 20 + b"x",
        (MAX_PAYLOAD_BYTES + 1).to_bytes(4, "big") + bytes(MAX_PAYLOAD_BYTES + 100),
        b"\x01",
    ],
)
def test_a_torn_end_is_damage_at_its_first_byte(tail: bytes) -> None:
    content = _header().encode() + encode_frame(b"one", 0) + tail
    *intact, last = read_frames(content)
    assert [frame.payload for frame in intact if isinstance(frame, Frame)] == [b"one"]
    assert isinstance(last, Damage)
    assert last.offset == HEADER_BYTES + FRAME_BYTES + 3


def test_every_bit_of_a_frame_is_covered_by_its_checksum() -> None:
    frame = encode_frame(b"payload", 2)
    for at in range(len(frame)):
        for bit in range(8):
            changed = bytearray(frame)
            changed[at] ^= 1 << bit
            seen = list(read_frames(_header().encode() + bytes(changed)))
            assert not any(isinstance(item, Frame) and item.payload == b"payload" for item in seen)


def test_intact_frames_are_found_behind_a_damage() -> None:
    content = _header().encode() + b"torn!" + encode_frame(b"{head}two", 3) + b"{head} alone"
    found = list(intact_frames_after(content, HEADER_BYTES, b"{head}"))
    assert [(frame.position, frame.payload) for frame in found] == [(3, b"{head}two")]
