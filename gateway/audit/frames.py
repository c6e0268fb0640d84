"""Files of the log as bytes: a fixed header, then frames, then zeros.

A file is preallocated, so it ends in zeros until it is closed. All integers are big-endian.

    header  4096 bytes: magic 8 | version u16 | origin length u16 | frontier count u16 | zero u16 |
            first u64 | previous size u64 | previous root 32 | origin | frontier 32 each | zeros | crc u32
    frame   length u32 | crc u32 | batch position u32 | payload

Invariants
1. Frames follow each other without padding. A frame of length 0 ends the file's contents, and after it
   every byte is zero.
2. The checksum covers length, batch position and payload. It finds torn writes; who changed a file on
   purpose can renew it, and is found by the tree.
3. Batch position counts the frames that were made durable together, from 0. So an intact frame `s` with
   position `p` proves that every frame before `s - p` had been acknowledged when it was written.
4. The header's frontier with its previous size gives its previous root; a log whose older files were
   deleted by retention can therefore still be extended and checked.

The checksum is zlib's CRC-32, not CRC-32C: Python has no native CRC-32C without a further dependency,
and a table in Python would cost more than all the rest of an append.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from zlib import crc32

from gateway.audit.tree import HASH_BYTES, MerkleTree

HEADER_BYTES = 4096
FRAME_BYTES = 12
MAX_PAYLOAD_BYTES = 64 * 1024
MAX_ORIGIN_BYTES = 255
VERSION = 1

_HEADER = struct.Struct(">8sHHHHQQ32s")
_FRAME = struct.Struct(">III")
_CHECKED = struct.Struct(">II")
_CRC = struct.Struct(">I")


class FileKind(Enum):
    """What a file's frames hold. The value is its magic number."""

    SEGMENT = b"tgaudseg"
    CHECKPOINTS = b"tgaudckp"


@dataclass(frozen=True, slots=True)
class Header:
    """Start of a file.

    `first` is the sequence number of the first record of a segment, or the ordinal of the first
    checkpoint of a checkpoint file. `previous_size` and `previous_root` are those of the tree before the
    first record, or of the last checkpoint before the file.
    """

    kind: FileKind
    origin: str
    first: int
    previous_size: int
    previous_root: bytes
    frontier: tuple[bytes, ...]

    def encode(self) -> bytes:
        """The header's bytes. Raises `ValueError` when the origin is too long."""
        origin = self.origin.encode()
        if len(origin) > MAX_ORIGIN_BYTES:
            raise ValueError(f"an origin has at most {MAX_ORIGIN_BYTES} bytes")
        body = _HEADER.pack(
            self.kind.value,
            VERSION,
            len(origin),
            len(self.frontier),
            0,
            self.first,
            self.previous_size,
            self.previous_root,
        )
        body += origin + b"".join(self.frontier)
        body = body.ljust(HEADER_BYTES - _CRC.size, b"\x00")
        return body + _CRC.pack(crc32(body))

    def tree(self) -> MerkleTree | None:
        """The tree before this file, or None when frontier and root contradict each other."""
        try:
            tree = MerkleTree(self.previous_size, self.frontier)
        except ValueError:
            return None
        return tree if tree.root() == self.previous_root else None


@dataclass(frozen=True, slots=True)
class Frame:
    """One intact frame: where it starts in its file, its place in its batch, its payload."""

    offset: int
    position: int
    payload: bytes

    @property
    def end(self) -> int:
        """Offset of the first byte after this frame."""
        return self.offset + FRAME_BYTES + len(self.payload)


@dataclass(frozen=True, slots=True)
class Damage:
    """The first place of a file that cannot be read, and why (a fixed phrase)."""

    offset: int
    reason: str


def decode_header(content: bytes) -> Header | Damage:
    """Header of a file."""
    if len(content) < HEADER_BYTES:
        return Damage(0, "the file is shorter than its header")
    body = content[: HEADER_BYTES - _CRC.size]
    if _CRC.unpack_from(content, HEADER_BYTES - _CRC.size)[0] != crc32(body):
        return Damage(0, "the header's checksum does not match")
    magic, version, origin_length, hashes, _, first, size, root = _HEADER.unpack_from(body)
    kinds = {kind.value: kind for kind in FileKind}
    if magic not in kinds or version != VERSION:
        return Damage(0, "the header has an unknown magic number or version")
    start = _HEADER.size + origin_length
    end = start + hashes * HASH_BYTES
    if origin_length > MAX_ORIGIN_BYTES or end > len(body):
        return Damage(0, "the header's lengths do not fit into it")
    try:
        origin = body[_HEADER.size : start].decode()
    except UnicodeDecodeError:
        return Damage(0, "the origin is not UTF-8")
    frontier = tuple(body[at : at + HASH_BYTES] for at in range(start, end, HASH_BYTES))
    header = Header(kinds[magic], origin, first, size, root, frontier)
    # The rest of the header is zero and every field has one spelling, so encoding must give it back.
    return header if header.encode() == content[:HEADER_BYTES] else Damage(0, "the header is not canonical")


def encode_frame(payload: bytes, position: int) -> bytes:
    """One frame. `payload` has 1 to `MAX_PAYLOAD_BYTES` bytes (the caller holds the bound)."""
    length = len(payload)
    return _FRAME.pack(length, crc32(payload, crc32(_CHECKED.pack(length, position))), position) + payload


def read_frames(content: bytes) -> Iterator[Frame | Damage]:
    """The frames of a file in order; a `Damage` is the last item, if there is one."""
    offset = HEADER_BYTES
    total = len(content)
    unpack, checked = _FRAME.unpack_from, _CHECKED.pack
    while offset + FRAME_BYTES <= total:
        length, checksum, position = unpack(content, offset)
        start = offset + FRAME_BYTES
        end = start + length
        if length == 0:
            break
        if length > MAX_PAYLOAD_BYTES or end > total:
            yield Damage(offset, "a frame's length does not fit")
            return
        payload = content[start:end]
        if crc32(payload, crc32(checked(length, position))) != checksum:
            yield Damage(offset, "a frame's checksum does not match")
            return
        yield Frame(offset, position, payload)
        offset = end
    if content.count(0, offset) != total - offset:
        yield Damage(offset, "there are bytes after the last frame")


def intact_frames_after(content: bytes, offset: int, head: bytes) -> Iterator[Frame]:
    """Frames behind a damage whose payload starts with `head` and whose checksum matches."""
    at = content.find(head, offset)
    while at >= 0:
        start = at - FRAME_BYTES
        if start >= offset:
            length, checksum, position = _FRAME.unpack_from(content, start)
            payload = content[at : at + length]
            if 0 < length <= MAX_PAYLOAD_BYTES and (
                crc32(payload, crc32(_CHECKED.pack(length, position))) == checksum
            ):
                yield Frame(start, position, payload)
        at = content.find(head, at + 1)
