"""The revision that acted last, kept on disk, so that a restart does not forget it.

The file is one JSON object beside the audit log. Who can delete it can also delete the log: the audit
folder's permissions protect both.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from gateway.errors import ConfigurationError
from gateway.policy.signing import Active

STATE_NAME = "policy-revision.json"
_MAX_BYTES = 4096


class _State(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    revision: int
    sha256: str


def read_active(path: Path) -> Active | None:
    """What acted last; None when nothing ever did. Raises `ConfigurationError`."""
    try:
        with path.open("rb") as file:
            state = msgspec.json.decode(file.read(_MAX_BYTES), type=_State)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.DecodeError:
        # fail-closed: without the last revision an older one could come back unseen.
        raise ConfigurationError(
            f"{path}: expected the revision that acted last; compare it with the last policy-activated "
            "record, then write or remove the file"
        ) from None
    return Active(state.revision, state.sha256)


def write_active(path: Path, active: Active) -> None:
    """Keep `active`, whole or not at all. Raises `ConfigurationError`."""
    draft = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(_State(active.revision, active.sha256)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
