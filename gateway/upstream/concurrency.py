"""How many requests a destination may have at a time: a limit that learns from the provider's 429. Pure.

Additive increase, multiplicative decrease (Chiu and Jain 1989; TCP): each good answer adds one in a
round of the whole limit, a 429 halves it. A 429 is the provider's way to say "less", not "I am broken",
so it never opens a circuit breaker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Refusals of one burst say the same thing once.
_BURST_SECONDS = 1.0


@dataclass(slots=True)
class Concurrency:
    """Requests in flight and their limit, between 1 and `maximum`. Times are of a monotonic clock."""

    maximum: int
    limit: float = field(default=0.0)
    in_flight: int = 0
    _shrunk_at_seconds: float | None = None

    def __post_init__(self) -> None:
        self.limit = float(self.maximum)

    @property
    def has_room(self) -> bool:
        """Whether one more may start."""
        return self.in_flight < int(self.limit)

    def enter(self) -> None:
        """One more is in flight."""
        self.in_flight += 1

    def leave(self) -> None:
        """One is not any more."""
        self.in_flight -= 1

    def grow(self) -> None:
        """An answer came whole."""
        if self.limit < self.maximum:
            self.limit = min(float(self.maximum), self.limit + 1 / self.limit)

    def shrink(self, now_seconds: float) -> None:
        """The destination said 429. What was in flight was too much, so half of it is the new limit."""
        if self._shrunk_at_seconds is not None and now_seconds - self._shrunk_at_seconds < _BURST_SECONDS:
            return
        self._shrunk_at_seconds = now_seconds
        self.limit = max(1.0, min(self.limit, float(max(1, self.in_flight))) / 2)
