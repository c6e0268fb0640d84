"""A request's timeline as lines of text, as one HTML page, and as JSON. Pure.

Invariants
1. No character of a record acts: in text and HTML every one that is not printable (terminal sequences, line
   breaks, direction marks) is written as its code, and HTML is escaped besides.
2. The page stands alone: no script, no link, no image; its policy forbids all but its own style.
3. Rows of the JSON are those of an export: `sha256(0x00 || record)` is the leaf, over the bytes of the row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gateway.audit.evidence import Evidence
from gateway.audit.export import export_row
from gateway.audit.reading import plain
from gateway.audit.timeline import Section
from gateway.audit.tree import leaf_hash

FORMAT = "tidegate-timeline/1"
_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#111;background:#fff}h1{font-size:1.5rem}h2{font-size:1.2rem;margin:1.5rem 0 .3rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;"
    "border:1px solid #767676;overflow-wrap:anywhere}tbody th{width:15rem;font-weight:600}"
    "code{font-size:.85rem}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The log that the records are proven against; `checkpoint` is the signed note, as text."""

    origin: str
    size: int
    root: bytes
    checkpoint: str


def as_text(sections: Sequence[Section], evidence: Sequence[Evidence], log: LogFacts) -> str:
    """Headings, rows, and the proof of each record."""
    lines: list[str] = []
    for section in sections:
        lines += [
            plain(section.title),
            *(f"  {plain(name):32} {plain(value)}" for name, value in section.rows),
            "",
        ]
    lines += [
        "Records",
        f"  {'log':32} {plain(log.origin)}, {log.size} signed records, root {log.root.hex()}",
    ]
    for each in evidence:
        record = each.record
        lines.append(f"  {'record ' + str(each.seq):32} {plain(_kind(each))} at {plain(record.ts_utc)}")
        lines.append(f"  {'':32} leaf {leaf_hash(each.stored).hex()}, proven by {len(each.proof)} hashes")
    return "\n".join(lines)


def as_json(request_id: str, sections: Sequence[Section], evidence: Sequence[Evidence], log: LogFacts) -> str:
    """One JSON object; its `records` hold sequence number, leaf, proof and the record as it is stored."""
    head = {
        "timeline": FORMAT,
        "request_id": request_id,
        "log": {
            "origin": log.origin,
            "size": log.size,
            "root": log.root.hex(),
            "checkpoint": log.checkpoint,
        },
        "sections": [
            {"title": each.title, "rows": [{"name": name, "value": value} for name, value in each.rows]}
            for each in sections
        ],
    }
    rows = (export_row(each.seq, leaf_hash(each.stored), each.proof, each.stored) for each in evidence)
    listed = ",\n".join(row.decode("ascii", errors="backslashreplace").rstrip("\n") for row in rows)
    return json.dumps(head, ensure_ascii=True)[:-1] + f', "records": [\n{listed}\n]}}'


def as_html(request_id: str, sections: Sequence[Section], evidence: Sequence[Evidence], log: LogFacts) -> str:
    """The page, for reading and printing."""
    name = _shown(request_id)
    body = "".join(_table(section) for section in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Request {name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Request <code>{name}</code></h1>\n{body}{_records(evidence, log)}"
        "</main>\n</body>\n</html>\n"
    )


def _table(section: Section) -> str:
    anchor = "s-" + "".join(c for c in section.title.lower() if c.isascii() and c.isalpha())
    rows = "".join(
        f'<tr><th scope="row">{_shown(name)}</th><td>{_shown(value)}</td></tr>\n'
        for name, value in section.rows
    )
    return (
        f'<section aria-labelledby="{anchor}">\n<h2 id="{anchor}">{_shown(section.title)}</h2>\n'
        f"<table>\n<tbody>\n{rows}</tbody>\n</table>\n</section>\n"
    )


def _records(evidence: Sequence[Evidence], log: LogFacts) -> str:
    rows = "".join(
        f'<tr><th scope="row">{each.seq}</th><td>{_shown(_kind(each))}</td>'
        f"<td>{_shown(each.record.ts_utc)}</td>"
        f"<td><code>{leaf_hash(each.stored).hex()}</code></td><td>{_path(each)}</td></tr>\n"
        for each in evidence
    )
    return (
        '<section aria-labelledby="records">\n<h2 id="records">Records and their proofs</h2>\n'
        f"<p>Log {_shown(log.origin)}: {log.size} signed records, root <code>{log.root.hex()}</code>. "
        "Each record below was proven to belong to it (RFC 6962, lowest sibling first).</p>\n"
        "<table>\n<thead>\n<tr>"
        '<th scope="col">Record</th><th scope="col">Kind</th><th scope="col">Time (UTC)</th>'
        '<th scope="col">Leaf hash</th><th scope="col">Inclusion proof</th></tr>\n</thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table>\n<h3>Signed checkpoint</h3>\n"
        f"<pre>{_lines(log.checkpoint)}</pre>\n</section>\n"
    )


def _path(each: Evidence) -> str:
    return "<br>".join(f"<code>{node.hex()}</code>" for node in each.proof) or "the only record"


def _kind(each: Evidence) -> str:
    record = each.record
    return record.event_type if record.phase == "log" else f"{record.phase}: {record.reason_code}"


def _lines(text: str) -> str:
    return "\n".join(_shown(line) for line in text.split("\n"))


def _shown(text: str) -> str:
    return escape(plain(text), quote=True)
