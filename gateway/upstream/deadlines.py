"""The four named deadlines of an exchange, and which of them has passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Passed = Literal["idle", "total"]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds: to connect, to the response header, between two pieces of body, and for all of it."""

    connect_seconds: float
    first_byte_seconds: float
    idle_seconds: float
    total_seconds: float

    def next_check_seconds(self, started: float, progressed: float, now: float) -> float:
        """Seconds from `now` until the idle or total deadline could pass; never negative."""
        due = min(progressed + self.idle_seconds, started + self.total_seconds)
        return max(0.0, due - now)

    def passed(self, started: float, progressed: float, now: float) -> Passed | None:
        """The deadline that has passed at `now` while waiting for body bytes, if any."""
        if now - started >= self.total_seconds:
            return "total"
        if now - progressed >= self.idle_seconds:
            return "idle"
        return None
