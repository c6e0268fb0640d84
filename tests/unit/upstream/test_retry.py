from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import (
    Refusal,
    UpstreamFailed,
    UpstreamLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.upstream.retry import RESERVE, RetryBudget, may_ask_again, pause_seconds


@given(st.lists(st.booleans(), max_size=2000))
def test_retries_are_a_tenth_of_the_requests_and_a_reserve(wishes: list[bool]) -> None:
    budget = RetryBudget()
    retries = 0
    for requests, wants_retry in enumerate(wishes, start=1):
        budget.earn()
        retries += wants_retry and budget.spend()
        assert retries <= RESERVE + requests / 10


def test_what_is_not_spent_is_not_saved_for_ever() -> None:
    budget = RetryBudget()
    for _ in range(10_000):
        budget.earn()
    assert sum(budget.spend() for _ in range(100)) == RESERVE


@pytest.mark.parametrize(
    ("refusal", "with_another", "alone"),
    [
        (UpstreamUnavailable("x", code="upstream-unreachable"), True, False),
        (UpstreamUnavailable("x", detail="upstream-status-503"), True, False),
        (UpstreamTimeout("x", code="upstream-connect-timeout"), True, False),
        (UpstreamFailed("x", code="upstream-disconnected"), True, True),
        (UpstreamFailed("x", detail="upstream-status-500"), True, False),
        (UpstreamFailed("x", detail="upstream-status-401"), False, False),
        (UpstreamFailed("x", code="upstream-wrong-content-type"), False, False),
        (UpstreamTimeout("x", code="upstream-first-byte-timeout"), False, False),
        (UpstreamTimeout("x", code="upstream-total-timeout"), False, False),
        (UpstreamRejected("x", upstream_status=400), False, False),
        (UpstreamLimited("x", upstream_status=429), False, False),
        (UpstreamUnavailable("x", code="upstream-circuit-open"), False, False),
        (UpstreamUnavailable("x", code="upstream-address-not-allowed"), False, False),
        (UpstreamUnavailable("x", code="upstream-tls-failed"), False, False),
        (UpstreamUnavailable("x", code="not-cleared"), False, False),
    ],
)
def test_only_what_was_not_worked_on_is_asked_again(
    refusal: Refusal, with_another: bool, alone: bool
) -> None:
    assert may_ask_again(refusal, is_untried_left=True) is with_another
    assert may_ask_again(refusal, is_untried_left=False) is alone


@given(st.integers(2, 20), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_drawn_from_the_whole_interval(attempt: int, chance: float) -> None:
    assert 0 <= pause_seconds(attempt, chance) < 1
    assert pause_seconds(attempt, 0.0) == 0
    assert pause_seconds(attempt + 1, chance) >= pause_seconds(attempt, chance)
