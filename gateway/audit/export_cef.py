"""Records about requests as lines of the Common Event Format (ArcSight CEF 0), for a SIEM. Pure.

Invariants
1. A line is one event: characters that are not printable, line breaks among them, are written as their code.
2. No value ends its field: `\\` and `|` are escaped in the header, `\\` and `=` in the extension.

Source: ArcSight Common Event Format (CEF), its rules of header, extension and escaping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.audit.reading import milliseconds, plain
from gateway.audit.request_cells import COLUMNS, Cell, cells
from gateway.audit.request_rows import RequestRow
from gateway.audit.schema import SCHEMA

#: Severity by phase, 0 to 10: what ended well, what ended badly or is unknown, what was refused.
_SEVERITY = {"admitted": 1, "completed": 1, "aborted": 3, "abandoned": 3, "denied": 5}
#: Keys of the extension dictionary, by column; every other column has a key of its own, see `key_of`.
_STANDARD = {
    "outcome": "outcome",
    "reason_code": "reason",
    "request_id": "externalId",
    "subject_ref": "suid",
    "client_id": "sourceServiceName",
    "destination": "destinationServiceName",
    "bytes_out": "out",
}


def cef_lines(rows: Iterable[RequestRow]) -> Iterator[bytes]:
    """One event a line, UTF-8."""
    for row in rows:
        yield _line(row).encode()


def key_of(column: str) -> str:
    """The key of a column: `tidegate` and the column's words, where the dictionary has none."""
    known = _STANDARD.get(column)
    return known or "tidegate" + "".join(word.capitalize() for word in column.split("_"))


def _line(row: RequestRow) -> str:
    phase = row.record.phase
    head = ("CEF:0", "Tidegate", "Tidegate", SCHEMA, phase, f"request {phase}", str(_SEVERITY.get(phase, 3)))
    values = cells(row)
    fields = [f"rt={milliseconds(row.record.ts_utc)}"]
    fields += [
        f"{key_of(name)}={_value(values[name])}" for name in COLUMNS if values[name] not in (None, "", ())
    ]
    header = "|".join(plain(each).replace("\\", "\\\\").replace("|", "\\|") for each in head)
    return f"{header}|{' '.join(fields)}\n"


def _value(value: Cell) -> str:
    match value:
        case bool():
            text = "true" if value else "false"
        case tuple():
            text = ", ".join(value)
        case _:
            text = str(value)
    return plain(text).replace("\\", "\\\\").replace("=", "\\=")
