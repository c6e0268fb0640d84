"""A credential that is read again when its file changes: rotated without a restart.

Invariants
1. The last good value stays in use while the file is gone, empty or unreadable, and that is reported.
2. Nothing here holds or shows a value but as a `Secret`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError
from gateway.settings import read_secret

#: How often a file is looked at, at most.
LOOK_SECONDS = 1.0


class RotatingSecret:
    """The secret behind `file:PATH` or `env:NAME`; `current(now)` looks at a file once a second.

    `on_fault(error)` hears of a changed file that cannot be read. Raises `ConfigurationError` at the start.
    """

    __slots__ = ("_looked_at", "_on_fault", "_path", "_reference", "_seen", "_value")

    def __init__(self, reference: str, on_fault: Callable[[ConfigurationError], None]) -> None:
        self._reference = reference
        self._on_fault = on_fault
        self._path = reference.removeprefix("file:") if reference.startswith("file:") else ""
        self._seen = file_signature(self._path)
        self._value = read_secret(reference)
        self._looked_at = float("-inf")

    def current(self, now_seconds: float) -> Secret:
        """The value to use now. `now_seconds` is of a monotonic clock."""
        if not self._path or now_seconds - self._looked_at < LOOK_SECONDS:
            return self._value
        self._looked_at = now_seconds
        seen = file_signature(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._value = read_secret(self._reference)
            except ConfigurationError as error:
                self._on_fault(error)
        return self._value


def file_signature(path: str) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced (a mounted secret is a link that is swapped)."""
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
