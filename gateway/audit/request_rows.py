"""The records about requests, each with its caller and label: what exports for people are made of. Pure.

Memory: the requests that are open at one time, whatever the length of the log. A crash leaves none open for
long: the next start closes them as `abandoned`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.audit.checkpoint import SignedCheckpoint
from gateway.audit.reading import Unproven, read_record
from gateway.audit.schema import RecordDoc, WhoDoc
from gateway.audit.tree import leaf_hash
from gateway.audit.verify import RECORD

#: The formats of the exports that are made of these rows.
CSV_FORMAT = "tidegate-export-csv/1"
OCSF_FORMAT = "tidegate-export-ocsf/1"
CEF_FORMAT = "tidegate-export-cef/1"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records: those of [`start`, `end`) in UTC, compared as text with `ts_utc`, and of one tenant.

    An empty text sets no bound.
    """

    start: str = ""
    end: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One record. `who` and `level` are its own; where it has none, those of its `admitted` record."""

    seq: int
    leaf: bytes
    record: RecordDoc
    who: WhoDoc | None
    level: str | None


@dataclass(slots=True)
class Tally:
    """How many rows were given, and how many were left out because no record names their tenant."""

    rows: int = 0
    without_tenant: int = 0


def request_rows(records: Iterable[bytes], wanted: Wanted, tally: Tally) -> Iterator[RequestRow]:
    """The rows in the order of the log; `records` start with number 0. Raises `Unproven`."""
    opened: dict[str, tuple[WhoDoc | None, str | None]] = {}
    for seq, stored in enumerate(records):
        seen = RECORD.match(stored)
        if seen is None or int(seen[2]) != seq:
            # fail-closed: what cannot be placed may be any record.
            raise Unproven(f"record {seq} cannot be read")
        if seen[3] == b"log":
            continue
        record = read_record(stored)
        classifier = record.decision.classifier if record.decision else None
        who, level = record.who, classifier.level if classifier else None
        if record.phase == "admitted":
            opened[record.request_id] = who, level
        else:
            known = opened.pop(record.request_id, (None, None))
            who, level = who or known[0], level or known[1]
        if not wanted.start <= record.ts_utc or (wanted.end and record.ts_utc >= wanted.end):
            continue
        if wanted.tenant and (who is None or who.tenant != wanted.tenant):
            # fail-closed: a record of nobody known is not given to one tenant.
            tally.without_tenant += who is None
            continue
        tally.rows += 1
        yield RequestRow(seq, leaf_hash(stored), record, who, level)


@dataclass(frozen=True, slots=True)
class Summary:
    """What such an export holds, and the checkpoint of the log that it was made from.

    `sha256` (hex) is over the file of rows.
    """

    format: str
    wanted: Wanted
    tally: Tally
    checkpoint: SignedCheckpoint
    created: str
    sha256: str

    def encode(self) -> str:
        """Text of the manifest file."""
        point = self.checkpoint.checkpoint
        tree = {
            "format": self.format,
            "origin": point.origin,
            "from": self.wanted.start or None,
            "to": self.wanted.end or None,
            "tenant": self.wanted.tenant or None,
            "rows": self.tally.rows,
            "left_out_without_tenant": self.tally.without_tenant,
            "created": self.created,
            "sha256": self.sha256,
            "size": point.size,
            "root": point.root.hex(),
            "checkpoint": self.checkpoint.encode().decode(),
        }
        return json.dumps(tree, indent=2, ensure_ascii=True) + "\n"


def is_summary(manifest: str) -> bool:
    """Whether this manifest is that of an export for reading, which proves nothing alone."""
    try:
        tree = json.loads(manifest)
    except (ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and tree.get("format") in (CSV_FORMAT, OCSF_FORMAT, CEF_FORMAT)
