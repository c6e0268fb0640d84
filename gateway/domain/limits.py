"""Reservations and usage."""

from __future__ import annotations

from dataclasses import dataclass

#: Largest value of one limit: keeps all arithmetic of the limiter exact in a Redis script (below 2^53).
LIMIT_MAX = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What one tenant may use: requests and tokens per minute, and requests at the same time.

    Bounds: each 0 to `LIMIT_MAX`; 0 refuses everything. Raises `ValueError` when out of bounds.
    """

    requests_per_minute: int
    tokens_per_minute: int
    concurrency: int

    def __post_init__(self) -> None:
        for name in ("requests_per_minute", "tokens_per_minute", "concurrency"):
            if not 0 <= getattr(self, name) <= LIMIT_MAX:
                raise ValueError(f"{name}: expected 0 to {LIMIT_MAX}")


@dataclass(frozen=True, slots=True)
class LimitState:
    """What is left of one bucket after a reservation, for the rate-limit headers.

    `name` is `requests`, `tokens` or `concurrency`; `reset_seconds` is when it is full again.
    """

    name: str
    limit: int
    remaining: int
    reset_seconds: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """A hold on the buckets of one tenant until it is settled or its lease ends.

    `tokens` are the reserved prompt and output tokens. `degraded` is True when Redis could not be
    asked and a conservative local cap let the request through, to private destinations only.
    """

    request_id: str
    tenant: str
    tokens: int
    degraded: bool
    states: tuple[LimitState, ...] = ()


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A refusal: which bucket is spent, and when to come back."""

    bucket: str
    limit: int
    retry_after_seconds: int
    states: tuple[LimitState, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one exchange. `source` is `provider` or `estimate`."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    source: str = "provider"

    @property
    def total_tokens(self) -> int:
        """Input and output together; cached and reasoning tokens are part of these."""
        return self.input_tokens + self.output_tokens
