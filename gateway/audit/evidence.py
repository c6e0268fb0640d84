"""The records about one request, each proven to the signed root. Pure.

Invariant: only records below the signed size are read, and one that is not the signed one raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gateway.audit.proofs import inclusion_paths
from gateway.audit.reading import Unproven, read_record
from gateway.audit.schema import RecordDoc
from gateway.audit.tree import MerkleTree, leaf_hash, verify_inclusion
from gateway.audit.verify import RECORD


@dataclass(frozen=True, slots=True)
class Evidence:
    """One stored record, and the way of its leaf to the signed root."""

    seq: int
    stored: bytes
    record: RecordDoc
    proof: tuple[bytes, ...]


def gather(records: Callable[[], Iterable[bytes]], signed: MerkleTree, request_id: str) -> list[Evidence]:
    """Every record about a request, in order: its own, its further attempts, what became of its approval.

    `records` gives the stored records anew at each call; only the first `signed.size` count. Reads the log
    two or three times; memory: the records found. Raises `Unproven`.
    """
    found = dict(_matching(records(), signed.size, request_id, frozenset()))
    approvals = frozenset(
        each.decision.approval.id
        for each in map(read_record, found.values())
        if each.decision is not None and each.decision.approval is not None
    )
    if approvals:
        found = dict(_matching(records(), signed.size, request_id, approvals))
    if not found:
        return []
    paths = inclusion_paths(map(leaf_hash, records()), signed.size, list(found))
    root = signed.root()
    for seq, stored in found.items():
        if not verify_inclusion(leaf_hash(stored), seq, signed.size, paths[seq], root):
            # fail-closed: the files changed between the check of the log and now.
            raise Unproven(f"record {seq} is not the one that was signed")
    return [Evidence(seq, stored, read_record(stored), paths[seq]) for seq, stored in found.items()]


def _matching(
    records: Iterable[bytes], size: int, request_id: str, approvals: frozenset[str]
) -> Iterator[tuple[int, bytes]]:
    wanted = [each.encode() for each in (request_id, *approvals)]
    for seq, stored in zip(range(size), records, strict=False):
        if not any(each in stored for each in wanted):
            continue
        seen = RECORD.match(stored)
        if seen is None or int(seen[2]) != seq:
            # fail-closed: a record that names the request and cannot be placed leaves the story open.
            raise Unproven(f"record {seq} cannot be read")
        if seen[3] != b"log":
            if seen[5] == wanted[0]:
                yield seq, stored
            continue
        event = read_record(stored).event or {}
        is_attempt = seen[4] == b"upstream-attempt" and event.get("request_id") == request_id
        is_approval = seen[4].startswith(b"approval-") and (
            event.get("request_id") == request_id or event.get("approval_id") in approvals
        )
        if is_attempt or is_approval:
            yield seq, stored
