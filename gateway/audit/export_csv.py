"""Records about requests as comma-separated values (RFC 4180), safe to open in a spreadsheet. Pure.

Invariants
1. No value is a formula: at its start, and after every character that some spreadsheet takes for a separator,
   what could begin one (= + - @, tab, carriage return) stands behind an apostrophe.
2. No character acts: one that is not printable is written as its code. A row is one line.
3. Every value stands in quotation marks, so columns never move.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gateway.audit.reading import plain
from gateway.audit.request_cells import COLUMNS, Cell, cells
from gateway.audit.request_rows import RequestRow

#: Quotation marks hide no formula where another separator is in use. Full-width forms are taken for the
#: plain ones by spreadsheets with East Asian settings.
_FORMULA = re.compile("(^|[,;|\t\r\n])(?=[\\s\"']*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20])")


def csv_lines(rows: Iterable[RequestRow]) -> Iterator[bytes]:
    """The header, then a line for each record."""
    yield _line(COLUMNS)
    for row in rows:
        values = cells(row)
        yield _line([_text(values[name]) for name in COLUMNS])


def neutral(text: str) -> str:
    """The text without what a spreadsheet would run (invariants 1 and 2)."""
    return plain(_FORMULA.sub(r"\1'", text))


def _text(value: Cell) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case tuple():
            return neutral(", ".join(value))
        case _:
            return neutral(value)


def _line(values: Iterable[str]) -> bytes:
    quoted = ",".join('"' + value.replace('"', '""') + '"' for value in values)
    return (quoted + "\r\n").encode()
