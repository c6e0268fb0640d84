"""Stamps for records: two clocks and an id."""

from __future__ import annotations

import os
import random
import time
import uuid
from pathlib import Path
from typing import Protocol

from gateway.audit.canonical import Stamp, rfc3339_us, uuid7


class Clock(Protocol):
    """Time and ids for one thread."""

    def stamp(self) -> Stamp:
        """Stamp for a record that is made now."""
        ...

    def seconds(self) -> float:
        """Monotonic seconds."""
        ...


class SystemClock:
    """`Clock` of the operating system. Not shared between threads."""

    __slots__ = ("_random", "_second", "_second_text")

    def __init__(self) -> None:
        # Ids must be unique, not secret; seeded from the system's entropy.
        self._random = random.Random(os.urandom(32))  # noqa: S311
        self._second = -1
        self._second_text = ""

    def stamp(self) -> Stamp:
        """See `Clock`."""
        now_us = time.time_ns() // 1000
        second = now_us // 1_000_000
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        event_id = uuid7(now_us, self._random.getrandbits(74))
        return Stamp(event_id, rfc3339_us(now_us, self._second_text), time.monotonic_ns())

    def seconds(self) -> float:
        """See `Clock`."""
        return time.monotonic()


def boot_id() -> str:
    """Id of this start of the machine; where the system gives none, a new one for this process."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(uuid.uuid4())
