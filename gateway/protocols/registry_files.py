"""Reads the registry's folder. The only place of this room that touches files.

Invariants
1. Only names that the folder itself lists are opened, and only regular files: a symbolic link anywhere
   below the folder is an error, not a way out. Nothing a client sends gets here.
2. Depth, number and size of files are bounded before anything is parsed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gateway.errors import ConfigurationError
from gateway.protocols.document import MAX_FILE_BYTES, ParseYaml
from gateway.protocols.registry import LOCK_NAME, Registry, build_registry

MAX_FILE_COUNT = 10_000
#: `name/version/tests/file`.
MAX_DEPTH = 4
MAX_LOCK_BYTES = 4 * 1024 * 1024


def load_registry(directory: Path, parse_yaml: ParseYaml) -> Registry:
    """The registry in `directory` (usually `policies/protocols`), with `protocols.lock` beside it.

    A folder that does not exist, or is empty, gives an empty registry only together with a lock that
    is empty or not there. Raises `ConfigurationError`.
    """
    return build_registry(read_files(directory), read_lock(directory), parse_yaml)


def lock_path(directory: Path) -> Path:
    """Where the lock of `directory` is: beside it."""
    return directory.parent / LOCK_NAME


def read_lock(directory: Path) -> bytes:
    """Content of the lock beside `directory`; empty when there is none."""
    path = lock_path(directory)
    try:
        return _read(path, MAX_LOCK_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None


def read_files(directory: Path) -> dict[str, bytes]:
    """All files below `directory`, by their path with `/` between its parts."""
    files: dict[str, bytes] = {}
    if directory.exists():
        _collect(directory, "", files, 1)
    return files


def _collect(directory: Path, prefix: str, files: dict[str, bytes], depth: int) -> None:
    try:
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            path = prefix + entry.name
            if entry.is_symlink():
                # fail-closed: a link can lead anywhere, and elsewhere tomorrow.
                raise ConfigurationError(f"{directory / entry.name}: expected no symbolic link")
            if entry.is_dir(follow_symlinks=False):
                if depth >= MAX_DEPTH:
                    raise ConfigurationError(
                        f"{directory / entry.name}: expected name/version/tests/file at most"
                    )
                _collect(directory / entry.name, path + "/", files, depth + 1)
            else:
                if len(files) >= MAX_FILE_COUNT:
                    raise ConfigurationError(f"{directory}: expected at most {MAX_FILE_COUNT} files")
                files[path] = _read(directory / entry.name, MAX_FILE_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{directory}: cannot be read: {error.strerror}") from None


def _read(path: Path, max_bytes: int) -> bytes:
    """Content of a regular file; a link put there after the listing is refused by the system itself."""
    # O_NONBLOCK: opening a named pipe must not wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigurationError(f"{path}: expected a regular file")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ConfigurationError(f"{path}: expected at most {max_bytes} bytes")
    return content
