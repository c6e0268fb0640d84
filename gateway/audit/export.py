"""Exports: records with proofs that stand without the log, and the check of such an export.

    records.jsonl   one row a record: {"seq":…,"leaf":"hex","proof":["base64",…],"record":{…}}
    manifest.json   what the rows are, and the signed checkpoint that they are proven against

Invariants
1. The record stands in its row exactly as it is stored; its leaf is the hash of those very bytes. A row
   that a tool has written anew no longer verifies.
2. Rows are proven against a signed checkpoint. Records that no checkpoint covers yet are not exported;
   the manifest counts them.
3. The manifest names the signing key by its id only: whom to trust is the examiner's own knowledge.
4. Nothing can be added: a row and the manifest hold exactly the members written here, once, in this order
   and spelling. What a reader of JSON could read otherwise than this check does not verify.
5. `created` and `unsigned_count` are the exporter's word, and no signature covers them.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from gateway.audit.checkpoint import NoteFault, SignedCheckpoint, Trust, parse_checkpoint, verify_signatures
from gateway.audit.frames import Frame, read_frames
from gateway.audit.report import Finding, Report
from gateway.audit.tree import ProofTree, leaf_hash, verify_inclusion
from gateway.audit.verify import RECORD, LogSource

FORMAT = "tidegate-export/1"
RECORDS_NAME = "records.jsonl"
MANIFEST_NAME = "manifest.json"

_RECORD_MARK = b',"record":'
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export holds. `records_sha256` (hex) is over the bytes of the rows' file."""

    checkpoint: SignedCheckpoint
    count: int
    unsigned_count: int
    created: str
    records_sha256: str

    def encode(self) -> str:
        """Text of the manifest file."""
        point = self.checkpoint.checkpoint
        keys = [{"name": s.name, "key_id": s.key_id.hex()} for s in self.checkpoint.signatures]
        tree = {
            "format": FORMAT,
            "record_schema": "audit/1",
            "origin": point.origin,
            "first_seq": 0,
            "count": self.count,
            "unsigned_count": self.unsigned_count,
            "created": self.created,
            "records_sha256": self.records_sha256,
            "size": point.size,
            "root": point.root.hex(),
            "signed_by": keys,
            "checkpoint": self.checkpoint.encode().decode(),
            "verify_with": "tidegate audit verify DIR --trust keys.json",
        }
        return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def stored_records(source: LogSource) -> Iterator[bytes]:
    """The stored bytes of every record up to the first damage. Verify the log first."""
    for _, content in source.segments():
        for frame in read_frames(content):
            if isinstance(frame, Frame):
                yield frame.payload


def find_request(source: LogSource, request_id: str) -> Iterator[bytes]:
    """The stored bytes of the records of one request, in order."""
    wanted = request_id.encode()
    for stored in stored_records(source):
        if wanted in stored:
            seen = RECORD.match(stored)
            if seen is not None and seen[5] == wanted:
                yield stored


def export_rows(source: LogSource, size: int) -> Iterator[bytes]:
    """One line for each of the first `size` records. Memory: about 64 bytes a record."""
    leaves: list[bytes] = []
    for stored in stored_records(source):
        if len(leaves) == size:
            break
        leaves.append(leaf_hash(stored))
    proofs = ProofTree(leaves)
    for seq, stored in zip(range(size), stored_records(source), strict=False):
        yield export_row(seq, leaves[seq], proofs.inclusion(seq), stored)


def export_row(seq: int, leaf: bytes, proof: Sequence[bytes], stored: bytes) -> bytes:
    """One row: a JSON object that holds the record byte for byte, and the end of the line."""
    path = [b64encode(node).decode() for node in proof]
    head = json.dumps({"seq": seq, "leaf": leaf.hex(), "proof": path}, separators=(",", ":"))
    return head[:-1].encode() + _RECORD_MARK + stored + b"}\n"


def verify_export(manifest: str, rows: Iterable[bytes], trust: Trust) -> Report:
    """Report on an export: every row proven, none missing, the checkpoint signed by a trusted key, and the
    manifest saying what is here (invariant 4)."""
    report = Report()
    signed, fault = _checkpoint(manifest, trust)
    if signed is None:
        report.findings.append(Finding(fault.code, 0, MANIFEST_NAME, None, fault.detail))
        return report
    point = signed.checkpoint
    report.origin, report.last, report.checkpoint_count = point.origin, signed, 1
    seq = 0
    digest = sha256()
    for row in rows:
        leaf = None if seq >= point.size else _proven_leaf(row, seq, signed)
        if leaf is None:
            report.findings.append(
                Finding("bad-row", seq, RECORDS_NAME, None, f"row {seq} is not record {seq} of the log")
            )
            return report
        digest.update(row)
        report.tree.push(leaf)
        seq += 1
    if seq != point.size:
        report.findings.append(
            Finding("truncated", seq, RECORDS_NAME, None, f"{point.size} records were signed, {seq} are here")
        )
    elif detail := _untrue(manifest, signed, seq, digest.hexdigest()):
        report.findings.append(Finding("bad-manifest", seq, MANIFEST_NAME, None, detail))
    report.signed_tree = report.tree.copy()
    return report


def digest_of(chunks: Iterable[bytes]) -> str:
    """sha256 (hex) of a file that is read in pieces."""
    digest = sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _checkpoint(manifest: str, trust: Trust) -> tuple[SignedCheckpoint | None, NoteFault]:
    malformed = NoteFault("malformed-checkpoint", "the manifest holds no checkpoint")
    try:
        tree = json.loads(manifest)
    except (ValueError, RecursionError):
        return None, malformed
    match tree:
        case {"format": "tidegate-export/1", "checkpoint": str(note)}:
            signed = parse_checkpoint(note.encode(errors="replace"))
        case _:
            return None, malformed
    if isinstance(signed, NoteFault):
        return None, signed
    fault = verify_signatures(signed, trust)
    return (signed, malformed) if fault is None else (None, fault)


def _untrue(manifest: str, signed: SignedCheckpoint, count: int, records_sha256: str) -> str:
    """What the manifest says that is not so of these proven rows, or nothing.

    It is written anew from what was checked and compared, so that no member goes unread.
    """
    told = json.loads(manifest)
    unsigned, created = told.get("unsigned_count"), told.get("created")
    if type(unsigned) is not int or unsigned < 0:
        return "unsigned_count: expected an integer from 0 on"
    if not isinstance(created, str) or _CREATED.fullmatch(created) is None:
        return "created: expected a time such as 2026-12-01T00:00:00Z"
    due = Manifest(signed, count, unsigned, created, records_sha256).encode()
    if manifest == due:
        return ""
    for name, value in json.loads(due).items():
        if name not in told or told[name] != value:
            return f"{name}: expected what the rows and the checkpoint say"
    return "expected the members that an export writes, each once, as it writes them"


def _proven_leaf(row: bytes, seq: int, signed: SignedCheckpoint) -> bytes | None:
    """Leaf hash of a row that holds, else None."""
    head, mark, tail = row.partition(_RECORD_MARK)
    if not mark or not tail.endswith(b"}\n"):
        return None
    stored = tail[:-2]
    leaf = leaf_hash(stored)
    try:
        proof = [b64decode(node, validate=True) for node in json.loads(head + b"}")["proof"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    # fail-closed: a row that says anything else, or the same in other words, can tell a reader another story.
    if row != export_row(seq, leaf, proof, stored):
        return None
    point = signed.checkpoint
    return leaf if verify_inclusion(leaf, seq, point.size, proof, point.root) else None
