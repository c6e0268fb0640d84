"""Labelled rows from JSON Lines: `{"text", "label", "categories", …}`, one object a line.

Pure: lines in, rows out. Reading and unpacking files is the command line's work.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.domain.label import Level
from gateway.errors import ConfigurationError

MAX_ROW_CHARACTERS = 4 * 1024 * 1024


class _Row(msgspec.Struct):
    """A row as written; fields that are not named here are ignored."""

    text: str
    label: str
    id: str | int | None = None
    categories: list[str] = []
    lang: str | None = None
    evasion: str | None = None
    channel: str | None = None


class Row(msgspec.Struct, frozen=True):
    """One labelled text. `id` is the row's own, or its place as `file:line`."""

    id: str
    text: str
    level: Level
    tags: frozenset[str]
    lang: str | None = None
    evasion: str | None = None
    channel: str | None = None


_DECODER = msgspec.json.Decoder(_Row)


def parse_rows(lines: Iterable[bytes], name: str) -> Iterable[Row]:
    """Rows of one file; blank lines are passed over.

    Raises `ConfigurationError` with file and line for a row that cannot be read. Never quotes the text.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            row = _DECODER.decode(line)
            level = Level.parse(row.label)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise ConfigurationError(f"{place}: expected an object with text and label") from None
        except ValueError as error:
            raise ConfigurationError(f"{place}: label: {error}") from None
        if len(row.text) > MAX_ROW_CHARACTERS:
            raise ConfigurationError(f"{place}: text: expected at most {MAX_ROW_CHARACTERS} characters")
        yield Row(
            id=str(row.id) if row.id is not None else place,
            text=row.text,
            level=level,
            tags=frozenset(row.categories),
            lang=row.lang,
            evasion=row.evasion,
            channel=row.channel,
        )
