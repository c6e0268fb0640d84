"""What the commands of `tidegate protocol` share: the folder, the reader of YAML, a whole write."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gateway.errors import ConfigurationError
from gateway.policy.document import parse, plain

DEFAULT_DIRECTORY = "policies/protocols"

directory_option = click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="Folder of the documents; protocols.lock stands beside it.",
)


def parse_yaml(text: str, file: str) -> object:
    """YAML 1.2 core as the policy files use it. Raises `ConfigurationError`."""
    return plain(parse(text, file))


def replace_file(path: Path, content: bytes) -> None:
    """Write beside and rename, so that no reader sees half a file."""
    draft = path.with_name(path.name + ".new")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
