from __future__ import annotations

import pytest

from gateway.domain.limits import (
    LIMIT_MAX,
    USD_MICROS_MAX,
    Budget,
    Exceeded,
    Quota,
    Reservation,
    ScopeLimits,
    TenantLimits,
    Usage,
)
from gateway.limits.bucket import (
    DAY_MS,
    NEVER_FITS_SECONDS,
    TOMBSTONE_MS,
    Buckets,
    Outcome,
    Reply,
    bounded_cost,
    bounded_tokens,
    bounded_usage,
    month_of,
    to_reservation,
)

LIMITS = ScopeLimits(requests_per_minute=10, tokens_per_minute=600, concurrency=3)
LEASE_MS, KEEP_MS = 10_000, 20_000


def of(limits: ScopeLimits) -> tuple[Quota, ...]:
    return (Quota("tenant", "", limits),)


def reserve(
    buckets: Buckets, now_ms: int, request_id: str, tokens: int, limits: ScopeLimits = LIMITS, cost: int = 0
) -> Reply:
    return buckets.reserve(now_ms, request_id, tokens, cost, of(limits), LEASE_MS, KEEP_MS)


def settle(
    buckets: Buckets,
    now_ms: int,
    request_id: str,
    used: int | None,
    cost: int = 0,
    limits: ScopeLimits = LIMITS,
) -> bool:
    return buckets.settle(now_ms, request_id, used, cost, of(limits))


def test_grants_and_says_what_is_left() -> None:
    assert reserve(Buckets(), 1_000, "a", 100) == Reply(
        outcome=Outcome.GRANTED,
        now_ms=1_000,
        tokens=100,
        retry_after_seconds=0,
        quota=0,
        states=(9, 61, 500, 61, 2, 10, -1, -1),
    )


def test_refuses_reservation_when_tokens_are_spent_and_says_when_they_are_back() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 600)
    refused = reserve(buckets, 0, "b", 25)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.TOKENS, 61)
    assert reserve(buckets, 60_999, "b", 25).outcome == Outcome.TOKENS
    assert reserve(buckets, 61_000, "b", 25).outcome == Outcome.GRANTED


def test_refuses_reservation_when_requests_are_spent() -> None:
    buckets = Buckets()
    for index in range(10):
        reserve(buckets, 0, f"r{index}", 1)
        settle(buckets, 0, f"r{index}", 1)
    refused = reserve(buckets, 0, "b", 1)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.REQUESTS, 61)


def test_refuses_reservation_when_all_slots_are_held_and_burns_no_request() -> None:
    buckets = Buckets()
    for index in range(3):
        reserve(buckets, 0, f"r{index}", 1)
    refused = reserve(buckets, 0, "d", 1)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.CONCURRENCY, 1)
    assert (refused.states[0], refused.states[2]) == (7, 597)


def test_names_the_bucket_with_the_longest_wait() -> None:
    buckets = Buckets()
    for index in range(3):
        reserve(buckets, 0, f"r{index}", 200)
    assert reserve(buckets, 0, "d", 100).outcome == Outcome.TOKENS


def test_says_that_a_request_larger_than_the_bucket_never_fits() -> None:
    refused = reserve(Buckets(), 0, "a", 601)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.TOKENS, NEVER_FITS_SECONDS)


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        (ScopeLimits(0, 600, 3), Outcome.REQUESTS),
        (ScopeLimits(10, 0, 3), Outcome.TOKENS),
        (ScopeLimits(10, 600, 0), Outcome.CONCURRENCY),
    ],
)
def test_zero_of_one_limit_refuses_everything(limits: ScopeLimits, outcome: Outcome) -> None:
    refused = reserve(Buckets(), 0, "a", 1, limits)
    assert (refused.outcome, refused.retry_after_seconds) == (outcome, NEVER_FITS_SECONDS)


def test_same_id_again_is_the_same_grant_without_a_second_debit() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 100)
    again = reserve(buckets, 0, "a", 100)
    assert (again.outcome, again.tokens, again.states[2]) == (Outcome.REPLAYED, 100, 500)
    assert again.states[0] == 9


def test_settled_id_is_closed_until_its_tombstone_is_gone() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 100)
    settle(buckets, 0, "a", 100)
    assert reserve(buckets, KEEP_MS - 1, "a", 1).outcome == Outcome.CLOSED
    assert reserve(buckets, KEEP_MS, "a", 1).outcome == Outcome.GRANTED


def test_tombstone_does_not_outlive_its_own_time_when_the_lease_is_long() -> None:
    buckets = Buckets()
    buckets.reserve(0, "a", 100, 0, of(LIMITS), 600_000, 660_000)
    settle(buckets, 5, "a", 100)
    assert reserve(buckets, TOMBSTONE_MS + 4, "a", 1).outcome == Outcome.CLOSED
    assert reserve(buckets, TOMBSTONE_MS + 5, "a", 1).outcome == Outcome.GRANTED


def test_settle_gives_back_what_was_not_used_and_frees_the_slot() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 500)
    assert settle(buckets, 0, "a", 100)
    left = reserve(buckets, 0, "b", 1)
    assert (left.states[2], left.states[0], left.states[4]) == (499, 8, 2)


def test_settle_of_what_was_never_sent_gives_back_the_request_too() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 500)
    assert settle(buckets, 0, "a", None)
    left = reserve(buckets, 0, "b", 1)
    assert (left.states[2], left.states[0]) == (599, 9)


def test_request_that_was_sent_counts_though_it_used_no_tokens() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 500)
    settle(buckets, 0, "a", 0)
    assert reserve(buckets, 0, "b", 1).states[0] == 8


def test_second_settle_does_nothing() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 500)
    settle(buckets, 0, "a", 500)
    assert not settle(buckets, 0, "a", None)
    assert reserve(buckets, 0, "b", 1).states[2] == 99


def test_settle_of_an_unknown_id_does_nothing() -> None:
    assert not settle(Buckets(), 0, "a", 5)


def test_overdraft_becomes_debt_that_must_be_repaid_first() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 600)
    settle(buckets, 0, "a", 700)
    refused = reserve(buckets, 0, "b", 10)
    assert (refused.states[2], refused.retry_after_seconds) == (0, 61)
    assert reserve(buckets, 61_000, "b", 501).outcome == Outcome.TOKENS
    assert reserve(buckets, 61_000, "b", 500).outcome == Outcome.GRANTED


def test_debt_is_bounded_by_one_minute() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 600)
    settle(buckets, 0, "a", LIMIT_MAX)
    assert reserve(buckets, 0, "b", 600).retry_after_seconds == 122
    assert reserve(buckets, 122_000, "b", 600).outcome == Outcome.GRANTED


def test_expired_lease_frees_its_slot_and_keeps_its_tokens_spent() -> None:
    buckets = Buckets()
    one = ScopeLimits(10, 600, 1)
    reserve(buckets, 0, "a", 500, one)
    assert reserve(buckets, LEASE_MS - 1, "b", 10, one).outcome == Outcome.CONCURRENCY
    granted = reserve(buckets, LEASE_MS, "b", 10, one)
    assert (granted.outcome, granted.states[2]) == (Outcome.GRANTED, 90)


def test_id_whose_lease_is_over_is_closed_but_still_settles() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 600)
    assert reserve(buckets, LEASE_MS, "a", 600).outcome == Outcome.CLOSED
    assert settle(buckets, LEASE_MS, "a", 300)
    assert not settle(buckets, KEEP_MS, "a", 300)


def test_settle_after_the_record_is_gone_does_nothing() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 600)
    assert not settle(buckets, KEEP_MS, "a", 0)


def test_lowered_and_raised_limits_act_on_what_is_in_the_window() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 100)
    lower = ScopeLimits(10, 60, 3)
    assert reserve(buckets, 0, "b", 1, lower).outcome == Outcome.TOKENS
    higher = ScopeLimits(10, 6_000, 3)
    assert reserve(buckets, 1_000, "c", 1, higher).states[2] == 5_899


def test_clock_that_steps_back_frees_nothing_and_goes_on_from_there() -> None:
    buckets = Buckets()
    reserve(buckets, 1_000_000, "a", 600)
    assert reserve(buckets, 900_000, "b", 1).outcome == Outcome.TOKENS
    settle(buckets, 900_000, "a", 500)
    assert reserve(buckets, 900_100, "c", 100).outcome == Outcome.GRANTED
    assert reserve(buckets, 1_060_000, "d", 1).outcome == Outcome.TOKENS
    assert reserve(buckets, 1_061_000, "d", 1).outcome == Outcome.GRANTED


def test_is_idle_only_when_forgetting_changes_nothing() -> None:
    buckets = Buckets()
    buckets.reserve(0, "a", 600, 0, of(LIMITS), 150_000, 200_000)
    assert not buckets.is_idle(119_999)
    assert not buckets.is_idle(199_999)
    assert buckets.is_idle(200_000)


def test_tokens_and_usage_are_bounded() -> None:
    assert [bounded_tokens(value) for value in (-5, 0, 7, 10**15)] == [1, 1, 7, LIMIT_MAX + 1]
    assert [bounded_usage(Usage(value, 0)) for value in (-5, 0, 10**15)] == [0, 0, LIMIT_MAX + 1]
    assert bounded_usage(None) is None
    assert [bounded_cost(value) for value in (-5, 7, 10**18)] == [0, 7, USD_MICROS_MAX + 1]


def test_money_is_counted_by_utc_day_and_month() -> None:
    buckets, rich = Buckets(), ScopeLimits(budget=Budget(100, 250))
    july_31 = 20_665 * DAY_MS
    assert month_of(july_31 // DAY_MS + 1) == month_of(july_31 // DAY_MS) + 1
    assert reserve(buckets, july_31, "a", 1, rich, 100).states[6:] == (0, 150)
    refused = reserve(buckets, july_31 + 1_000, "b", 1, rich, 1)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.DAY, 86_399)
    settle(buckets, july_31, "a", 1, 40, rich)
    assert reserve(buckets, july_31, "c", 1, rich, 1).states[6:] == (59, 209)
    assert reserve(buckets, july_31 + DAY_MS, "d", 1, rich, 60).states[6:] == (40, 190)


def test_spent_month_says_when_the_next_one_begins() -> None:
    buckets, rich = Buckets(), ScopeLimits(budget=Budget(None, 250))
    july_30 = 20_664 * DAY_MS
    reserve(buckets, july_30, "a", 1, rich, 250)
    refused = reserve(buckets, july_30, "b", 1, rich, 1)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.MONTH, 2 * 86_400)


def test_refund_of_yesterday_does_not_help_today_but_an_overdraft_counts() -> None:
    buckets, rich = Buckets(), ScopeLimits(budget=Budget(100, 1_000))
    midnight = 20_660 * DAY_MS
    reserve(buckets, midnight - 5, "a", 1, rich, 100)
    reserve(buckets, midnight - 4, "b", 1, ScopeLimits(budget=Budget(200, 1_000)), 100)
    reserve(buckets, midnight, "c", 1, rich, 70)
    settle(buckets, midnight, "a", 1, 0, rich)
    settle(buckets, midnight, "b", 1, 110, rich)
    assert reserve(buckets, midnight, "d", 1, rich, 0).states[6:] == (20, 820)


def test_extension_holds_the_slot_and_books_what_was_used() -> None:
    buckets = Buckets()
    reserve(buckets, 0, "a", 100)
    assert buckets.extend(9_000, "a", 550, of(LIMITS), LEASE_MS, KEEP_MS)
    left = reserve(buckets, 18_000, "b", 50)
    assert (left.states[2], left.states[4]) == (0, 1)
    settle(buckets, 18_500, "a", 580)
    assert reserve(buckets, 61_000, "c", 20).outcome == Outcome.GRANTED
    assert not buckets.extend(20_000, "a", 900, of(LIMITS), LEASE_MS, KEEP_MS)


@pytest.mark.parametrize("values", [(-1, 1, 1), (1, LIMIT_MAX + 1, 1), (1, 1, -1)])
def test_limits_out_of_bounds_are_refused(values: tuple[int, int, int]) -> None:
    for kind in (ScopeLimits, TenantLimits):
        with pytest.raises(ValueError, match="expected 0 to"):
            kind(*values)


@pytest.mark.parametrize(
    ("outcome", "bucket", "limit"),
    [
        (Outcome.REQUESTS, "requests", 10),
        (Outcome.TOKENS, "tokens", 600),
        (Outcome.CONCURRENCY, "concurrency", 3),
        (Outcome.CLOSED, "concurrency", 3),
    ],
)
def test_refusal_names_bucket_limit_and_wait(outcome: Outcome, bucket: str, limit: int) -> None:
    reply = Reply(int(outcome), 0, 0, 7, 0, (1, 2, 3, 4, 5, 6, -1, -1))
    refused = to_reservation(reply, Reservation("a", "acme", 9, False, quotas=of(LIMITS)), degraded=False)
    assert isinstance(refused, Exceeded)
    assert (refused.bucket, refused.limit, refused.retry_after_seconds) == (bucket, limit, 7)
    assert [(s.name, s.limit, s.remaining, s.reset_seconds) for s in refused.states] == [
        ("requests", 10, 1, 2),
        ("tokens", 600, 3, 4),
        ("concurrency", 3, 5, 6),
    ]


@pytest.mark.parametrize("outcome", [Outcome.GRANTED, Outcome.REPLAYED])
def test_grant_and_replay_are_reservations(outcome: Outcome) -> None:
    reply = Reply(int(outcome), 0, 42, 0, 0, (1, 2, 3, 4, 5, 6, -1, -1))
    granted = to_reservation(reply, Reservation("a", "acme", 9, False, quotas=of(LIMITS)), degraded=True)
    assert isinstance(granted, Reservation)
    assert (granted.request_id, granted.tenant, granted.tokens, granted.degraded) == ("a", "acme", 42, True)
