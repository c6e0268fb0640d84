"""Quotas, reservations and usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: Largest value of one limit: keeps all arithmetic of the limiter exact in a Redis script (below 2^53).
LIMIT_MAX = 1_000_000_000

#: Largest budget, in micro-dollars (10^9 dollars); also exact in a Redis script.
USD_MICROS_MAX = 1_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """Money for one UTC day and one UTC month, in micro-dollars; None: not limited.

    Above a hard budget a request is refused; above a soft one it is served, with a notice.
    """

    day_usd_micros: int | None = None
    month_usd_micros: int | None = None
    soft_day_usd_micros: int | None = None
    soft_month_usd_micros: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether money is counted at all."""
        return self != NO_BUDGET


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True)
class ScopeLimits:
    """What one key, user, model, destination or account may use: per minute, at the same time, in money.

    Bounds: each 0 to `LIMIT_MAX`; 0 refuses everything, and `LIMIT_MAX` is no limit in practice. Raises
    `ValueError` when out of bounds.
    """

    requests_per_minute: int = LIMIT_MAX
    tokens_per_minute: int = LIMIT_MAX
    concurrency: int = LIMIT_MAX
    budget: Budget = NO_BUDGET

    def __post_init__(self) -> None:
        _check_rates(self)


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What one tenant may use, and within it each key (application), each user and single models.

    `requests_per_minute`, `tokens_per_minute` and `concurrency` bound the whole tenant, whatever the
    number of its keys and users. Bounds as in `ScopeLimits`.
    """

    requests_per_minute: int
    tokens_per_minute: int
    concurrency: int
    budget: Budget = NO_BUDGET
    key: ScopeLimits | None = None
    user: ScopeLimits | None = None
    models: Mapping[str, ScopeLimits] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        _check_rates(self)

    @property
    def whole(self) -> ScopeLimits:
        """The limits of the tenant as a whole."""
        return ScopeLimits(self.requests_per_minute, self.tokens_per_minute, self.concurrency, self.budget)


def _check_rates(limits: ScopeLimits | TenantLimits) -> None:
    for name in ("requests_per_minute", "tokens_per_minute", "concurrency"):
        if not 0 <= getattr(limits, name) <= LIMIT_MAX:
            raise ValueError(f"{name}: expected 0 to {LIMIT_MAX}")


@dataclass(frozen=True, slots=True)
class Quota:
    """One set of buckets that a request must fit into.

    `scope` is `tenant`, `key`, `user`, `model`, `destination` or `account`; `owner` says which one of
    that kind (empty for the tenant itself).
    """

    scope: str
    owner: str
    limits: ScopeLimits


@dataclass(frozen=True, slots=True)
class LimitState:
    """What is left of one bucket after a reservation, for the rate-limit headers.

    `name` is `requests`, `tokens`, `concurrency`, `day` or `month` (the last two in micro-dollars), with
    the scope before it unless that is the tenant (`user-tokens`); `reset_seconds` is when it is full again.
    `soft` is the soft budget of a `day` or `month`.
    """

    name: str
    limit: int
    remaining: int
    reset_seconds: int
    soft: int | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A hold on all buckets that apply, until it is settled or its lease ends.

    `tokens` are the reserved prompt and output tokens, `cost_usd_micros` the reserved money. `quotas` are
    the buckets held, with the limits of that moment. `account` is empty for a hold on the tenant's
    buckets; else it names the provider account whose buckets are held. `degraded` is True when Redis could
    not be asked and a conservative local cap let the request through, to private destinations only.
    """

    request_id: str
    tenant: str
    tokens: int
    degraded: bool
    states: tuple[LimitState, ...] = ()
    quotas: tuple[Quota, ...] = ()
    cost_usd_micros: int = 0
    account: str = ""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A refusal: which bucket is spent, and when to come back."""

    bucket: str
    limit: int
    retry_after_seconds: int
    states: tuple[LimitState, ...] = ()
    scope: str = "tenant"


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
