"""A circuit breaker for one destination, as a pure state machine.

Invariants
1. Closed lets everything through; `threshold` failures in a row open it.
2. Open lets nothing through until `open_seconds` have passed; then exactly one probe at a time.
3. A probe's success closes it, its failure opens it again. A probe that is abandoned (client left)
   gives its place back.

Times are seconds of a monotonic clock, handed in.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Breaker:
    """State of one destination. `allow` before each attempt, then exactly one of the other three."""

    threshold: int = 5
    open_seconds: float = 5.0
    failure_count: int = 0
    opened_at_seconds: float | None = None
    is_probing: bool = False

    def is_open(self, now_seconds: float) -> bool:
        """True while an attempt would be refused."""
        if self.opened_at_seconds is None:
            return False
        return self.is_probing or now_seconds - self.opened_at_seconds < self.open_seconds

    def allow(self, now_seconds: float) -> bool:
        """Whether an attempt may start now; takes the probe's place when half open."""
        if self.opened_at_seconds is None:
            return True
        if self.is_open(now_seconds):
            return False
        self.is_probing = True
        return True

    def succeed(self) -> None:
        """The destination answered."""
        self.failure_count = 0
        self.opened_at_seconds = None
        self.is_probing = False

    def fail(self, now_seconds: float) -> None:
        """The destination did not answer, or answered with a fault of its own."""
        self.failure_count += 1
        if self.is_probing or self.failure_count >= self.threshold:
            self.opened_at_seconds = now_seconds
        self.is_probing = False

    def abandon(self) -> None:
        """The attempt ended without telling anything about the destination."""
        self.is_probing = False

    def retry_after_seconds(self, now_seconds: float) -> int:
        """Whole seconds until a probe may start, at least 1."""
        if self.opened_at_seconds is None:
            return 1
        return max(1, int(self.opened_at_seconds + self.open_seconds - now_seconds + 0.999))
