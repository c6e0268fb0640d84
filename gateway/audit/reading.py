"""A stored record as a value, and its text as people may see it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from gateway.audit.schema import RecordDoc
from gateway.audit.tree import MerkleTree, leaf_hash
from gateway.audit.verify import RECORD

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECODER = msgspec.json.Decoder(RecordDoc)


class Unproven(Exception):
    """A record is not the one that was signed, or cannot be read. The message is for people."""


def read_record(stored: bytes) -> RecordDoc:
    """The record. Raises `Unproven`."""
    try:
        return _DECODER.decode(stored)
    except (msgspec.DecodeError, ValueError):
        seen = RECORD.match(stored)
        # fail-closed: an answer that leaves out a record would be another answer.
        raise Unproven(f"record {int(seen[2]) if seen else '?'} cannot be read") from None


def as_signed(records: Iterable[bytes], signed: MerkleTree) -> Iterator[bytes]:
    """The records as they come; raises `Unproven` at the end when they are not those of the signed tree."""
    tree = MerkleTree()
    for stored in records:
        tree.push(leaf_hash(stored))
        yield stored
    if (tree.size, tree.root()) != (signed.size, signed.root()):
        # fail-closed: the files changed between the check of the log and now.
        raise Unproven("the records are not those that were signed")


def plain(text: str) -> str:
    """Text in which every character that is not printable is written as its code."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def milliseconds(ts_utc: str) -> int:
    """Unix time in milliseconds of a record's `ts_utc`."""
    return (datetime.fromisoformat(ts_utc) - _EPOCH) // timedelta(milliseconds=1)
