"""What the commands about an audit log share: opening and verifying a directory, reading a trust file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from gateway.audit import layout
from gateway.audit.checkpoint import Trust, TrustedKey, trust_of
from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.keys import decode_trust
from gateway.audit.report import EXIT_BROKEN, Report
from gateway.audit.store import StoredLog
from gateway.audit.verify import verify_log
from gateway.errors import ConfigurationError

DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_TIME = re.compile(r"\d{4}-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?Z?)?)?", re.ASCII)


class BrokenLog(click.ClickException):
    """The log itself does not hold, so nothing can be said from it."""

    exit_code = EXIT_BROKEN


def open_log(directory: Path) -> StoredLog:
    """The log in a directory, for reading. Raises `ClickException`."""
    if not (directory / layout.SEGMENTS).is_dir():
        raise click.ClickException(f"{directory}: holds no audit log (no {layout.SEGMENTS}/)")
    return StoredLog(OsFiles(directory, ()))


def read_trust(trust_file: Path) -> Trust:
    """Trusted keys. Raises `ClickException`."""
    return trust_of(read_keys(trust_file))


def read_keys(trust_file: Path) -> tuple[TrustedKey, ...]:
    """The keys of a trust file. Raises `ClickException`."""
    try:
        return decode_trust(trust_file.read_text(encoding="utf-8"), str(trust_file))
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None


def verified(directory: Path, trust: Trust) -> Report:
    """The report on a log that holds. Raises `BrokenLog`, `ClickException`."""
    report = verify_log(open_log(directory), trust)
    if report.findings:
        first = report.findings[0]
        raise BrokenLog(
            f"the log does not hold: {first.code} at record {first.index}; run `tidegate audit verify`"
        )
    return report


def signed_records(directory: Path, report: Report) -> Iterator[bytes]:
    """The stored records that a trusted signature covers, in order."""
    yield from islice(stored_records(open_log(directory)), report.signed_tree.size)


def write_new(path: Path, option: str, text: str) -> None:
    """A new file; one that exists is left alone. Raises `ClickException`."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.ClickException(f"{option}: cannot be made: {error.strerror}") from None


def moment(value: str, option: str) -> str:
    """A time of the command line, comparable as text with `ts_utc`. Raises `UsageError`."""
    if value and _TIME.fullmatch(value) is None:
        raise click.UsageError(
            f"{option}: expected a time such as 2026-11-01 or 2026-11-01T09:30Z, found {value!r}"
        )
    return value.removesuffix("Z")
