"""Tables in text, read with the head of each column beside its cells: CSV, TSV, Markdown, SQL.

A number far below its column's head has no words near it; in this view each cell of a telling column
stands as `head: cell`.

Invariants
1. Linear in the text: each line is looked at once as a head and once as a row.
2. A cell of the view comes from exactly that cell of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import re2

from gateway.sensitivity.digits import NearWords
from gateway.sensitivity.views import View, replaced
from gateway.sensitivity.work import Work

_NAME = r"[ \t]*[\"'`\[]?[A-Za-z_#?][A-Za-z0-9_ .#/()?-]*[\"'`\]]?[ \t]*"
_HEAD = rf"^\|?{_NAME}(?:,{_NAME})+\r?$|^\|?{_NAME}(?:;{_NAME})+\r?$|^\|?{_NAME}(?:\|{_NAME})+\|?\r?$|^{_NAME}(?:\t{_NAME})+\r?$"  # noqa: E501
#: A line of names set apart by one kind of sign, or a statement that names its columns.
TRIGGER = rf"(?i)\binsert\s+into\b|^copy\s+\S+\s*\(|(?m:{_HEAD})".encode()
_HEADS = re2.compile(rf"(?m:{_HEAD})".encode())
_HEAD_LINE = re2.compile(_HEAD.encode())
_INSERT = re2.compile(
    rb"(?i)\binsert\s+(?:ignore\s+)?into\s+[^\s(]+\s*\(([^()]*)\)\s*(?:values|output)\s*"
    rb"|\bcopy\s+[^\s(]+\s*\(([^()]*)\)\s*from\s+stdin[^\n]*\n"
)
_TUPLE = re.compile(r"\s*,?\s*\(((?:'(?:[^'\\]|''|\\.)*'|\"[^\"]*\"|[^()'\"]){1,20000}+)\)")
_CELL = re.compile(r"[ \t]*(?:N?'((?:[^'\\]|''|\\.)*+)'|\"((?:[^\"]|\"\")*+)\"|([^,]*+))[ \t]*(?:,|$)")

#: A longer line is prose.
MAX_HEAD_CHARACTERS = 1024
#: Words of heads, besides those of the number rows, whose cells are to be read with their head.
_WORDS = (
    "account", "account number", "acct", "acct no", "accountno", "konto", "kontonummer", "compte", "cuenta",
    "conto", "conta", "rekening", "passport", "passport no", "passport number", "reisepass", "passeport",
    "pasaporte", "license", "licence", "license number", "driver license", "drivers license", "dl", "dob",
    "birth date", "birthdate", "date of birth", "birthday", "geburtsdatum", "geburtstag", "naissance",
    "fecha nacimiento", "data nascita", "geboortedatum", "phone", "telephone", "tel", "mobile", "cell",
    "telefon", "telefono", "telefone", "handy", "fax", "mrn", "patient id", "patient", "patient no",
    "medical record", "policy", "policy number", "policy no", "policyno", "claim", "claim number", "claim no",
    "claimno", "member id", "memberid", "member", "password", "passwd", "pwd", "passwort", "secret", "token",
    "api key", "apikey", "access key", "pin", "vin", "address", "adresse", "direccion", "indirizzo", "ip",
    "street", "street address", "anschrift", "bank account", "iban", "bic", "swift", "dea", "customer id",
    "diagnosis", "diagnose", "diagnostico", "diagnostic", "icd10", "icd",
    "allergies", "medication", "employee id", "voter id", "id number", "personal id", "national id", "mbi",
    "beneficiary id",
)  # fmt: skip


def _cells(line: str, sign: str) -> list[tuple[int, int]]:
    """Places of the line's cells; a sign inside double quotes does not end a cell."""
    places: list[tuple[int, int]] = []
    start, quoted = 0, False
    if '"' not in line:
        for part in line.split(sign):
            places.append((start, start + len(part)))
            start += len(part) + 1
        return places
    for place, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == sign and not quoted:
            places.append((start, place))
            start = place + 1
    places.append((start, len(line)))
    return places


def _sign_of(line: str) -> str:
    return max("\t|;,", key=line.count)


def _columns(listed: str) -> list[str]:
    return [name.strip(" \t\r\n\"'`[]") for name in listed.split(",")]


class Tables:
    """Reads tables; `words` tell heads besides those that every set knows. Immutable."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._near = NearWords([(*_WORDS, *words)])

    def _is_telling(self, head: str) -> bool:
        """Whether cells under this head are to be read with it."""
        return bool(self._near.near(f" {head} "))

    def _table(self, text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Pieces of the table whose head stands at `start:end`."""
        head = text[start:end].rstrip("\r")
        sign = _sign_of(head)
        names = [head[first:last].strip(" \t\"'`[]") for first, last in _cells(head, sign)]
        telling = [column for column, name in enumerate(names) if name and self._is_telling(name)]
        if not telling:
            return
        place = end + 1
        while place < len(text):
            stop = text.find("\n", place)
            stop = len(text) if stop < 0 else stop
            cells = _cells(text[place:stop].rstrip("\r"), sign)
            if len(cells) != len(names):
                return
            for column in telling:
                first, last = cells[column]
                value = text[place + first : place + last]
                if value.strip(" -:|"):
                    yield place + first, place + last, f"\n{names[column]}: {value.strip()}\n"
            place = stop + 1

    def _statement(self, text: str, names: list[str], place: int) -> Iterator[tuple[int, int, str]]:
        """Pieces of the rows of values that begin at `place`."""
        telling = {column for column, name in enumerate(names) if self._is_telling(name)}
        while telling:
            row = _TUPLE.match(text, place)
            if row is None:
                return
            at = row.start(1)
            for column in range(len(names)):
                cell = _CELL.match(text, at, row.end(1))
                if cell is None or cell.end() == at:
                    break
                at = cell.end()
                group = next((group for group in (1, 2, 3) if cell[group] is not None), 3)
                if column in telling and cell[group].strip():
                    yield *cell.span(group), f"\n{names[column]}: {cell[group].strip()}\n"
            place = row.end()

    def _heads(self, view: View) -> Iterator[tuple[int, int]]:
        """Places of lines that may be a telling head: those that hold one of the words."""
        data = view.data
        if not view.text.isascii():
            yield from (match.span() for match in _HEADS.finditer(data))
            return
        behind = 0
        for first, last in self._near.places(data):
            start = max(behind, data.rfind(b"\n", 0, first) + 1)
            stop = data.find(b"\n", last)
            stop = len(data) if stop < 0 else stop
            while start < stop:  # a word may go on in the next line
                end = data.find(b"\n", start, stop)
                end = stop if end < 0 else end
                if end - start <= MAX_HEAD_CHARACTERS and _HEAD_LINE.fullmatch(data[start:end]) is not None:
                    yield start, end
                start = end + 1
            behind = max(behind, stop)

    def labelled_cells(self, view: View, work: Work) -> View | None:
        """The view with each cell of a telling column behind its head, or None without such a table."""
        text = view.text
        found: list[tuple[int, Iterator[tuple[int, int, str]]]] = []
        for start, end in self._heads(view):
            work.spend(2)
            if end - start <= MAX_HEAD_CHARACTERS:
                found.append((start, self._table(text, start, end)))
        for match in _INSERT.finditer(view.data):
            work.spend(8)
            group = 1 if match.start(1) >= 0 else 2
            names = _columns(text[match.start(group) : match.end(group)])
            read = self._statement if group == 1 else self._copied
            found.append((match.start(), read(text, names, match.end())))
        pieces: list[tuple[int, int, str]] = []
        behind = 0
        for start, cells in sorted(found, key=lambda row: row[0]):
            if start < behind:
                continue
            for piece in cells:
                if piece[0] >= behind and piece[1] > piece[0]:
                    pieces.append(piece)
                    behind = piece[1]
        return replaced(view, "table", pieces, around=0) if pieces else None

    def _copied(self, text: str, names: list[str], place: int) -> Iterator[tuple[int, int, str]]:
        """Pieces of the tab-separated rows of PostgreSQL's COPY."""
        telling = [column for column, name in enumerate(names) if self._is_telling(name)]
        while telling and place < len(text):
            stop = text.find("\n", place)
            stop = len(text) if stop < 0 else stop
            cells = _cells(text[place:stop], "\t")
            if len(cells) != len(names):
                return
            for column in telling:
                first, last = cells[column]
                yield (
                    place + first,
                    place + last,
                    f"\n{names[column]}: {text[place + first : place + last]}\n",
                )
            place = stop + 1
