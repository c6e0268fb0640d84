"""When one destination is asked again for the same request, and after which pause. Pure.

Invariants
1. Retries are at most a tenth of the requests, and a small reserve: a destination in trouble is never
   met with a multiple of its load.
2. Only what the destination has surely or probably not worked on is tried again: never a refusal of the
   request, never a timeout after it was accepted, never a 429 (that one shrinks the limit instead).
3. A pause is drawn from the whole interval (full jitter), so that clients do not come back in step.
   Source: Brooker, "Exponential Backoff And Jitter", AWS 2015.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import Refusal, UpstreamFailed, UpstreamTimeout, UpstreamUnavailable

#: Attempts at one destination for one request, the first included.
MAX_ATTEMPTS = 3
_BASE_SECONDS = 0.05
_LONGEST_SECONDS = 1.0
#: Earned by one request and spent by one retry.
_EARNED, _SPENT = 1, 10
#: Retries that are there before anything was earned, and that can be saved up at most.
RESERVE = 10

_NOT_ACCEPTED = frozenset({"upstream-unreachable", "upstream-connect-timeout", "upstream-unavailable"})
#: Statuses with which a proxy or a server says that it failed before an answer.
_FAILED = frozenset({"upstream-status-500", "upstream-status-502"})


@dataclass(slots=True)
class RetryBudget:
    """Credit of one destination: a tenth of a retry for each request."""

    credit: int = RESERVE * _SPENT

    def earn(self) -> None:
        """A request begins."""
        self.credit = min(RESERVE * _SPENT, self.credit + _EARNED)

    def spend(self) -> bool:
        """Take one retry, when there is one."""
        if self.credit < _SPENT:
            return False
        self.credit -= _SPENT
        return True


def may_ask_again(refusal: Refusal, *, is_untried_left: bool) -> bool:
    """Whether this destination may be asked again after this refusal of one of its replicas.

    `is_untried_left`: another replica has not been asked yet. Without one, only a connection that was
    closed before an answer is worth a second try: the server had closed it while it was idle.
    """
    if isinstance(refusal, UpstreamFailed) and refusal.code == "upstream-disconnected":
        return True
    if not is_untried_left:
        return False
    if isinstance(refusal, UpstreamUnavailable | UpstreamTimeout):
        return refusal.code in _NOT_ACCEPTED
    return isinstance(refusal, UpstreamFailed) and refusal.detail in _FAILED


def pause_seconds(attempt: int, chance: float) -> float:
    """Pause before attempt number `attempt` (the first retry is 2); `chance` is uniform in [0, 1)."""
    return float(chance * min(_LONGEST_SECONDS, _BASE_SECONDS * 2 ** (attempt - 2)))
