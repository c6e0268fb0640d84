"""What the commands about an audit log share: opening a directory, reading a trust file."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.audit import layout
from gateway.audit.checkpoint import Trust, TrustedKey, trust_of
from gateway.audit.files import OsFiles
from gateway.audit.keys import decode_trust
from gateway.audit.store import StoredLog
from gateway.errors import ConfigurationError

DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


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
