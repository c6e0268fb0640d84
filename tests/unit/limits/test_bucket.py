from __future__ import annotations

import pytest

from gateway.domain.limits import LIMIT_MAX, Exceeded, Reservation, TenantLimits, Usage
from gateway.limits.bucket import (
    NEVER_FITS_SECONDS,
    TOMBSTONE_MS,
    Outcome,
    Reply,
    TenantBuckets,
    bounded_tokens,
    bounded_usage,
    to_reservation,
)

LIMITS = TenantLimits(requests_per_minute=10, tokens_per_minute=600, concurrency=3)
LEASE_MS, KEEP_MS = 10_000, 20_000


def reserve(
    buckets: TenantBuckets, now_ms: int, request_id: str, tokens: int, limits: TenantLimits = LIMITS
) -> Reply:
    return buckets.reserve(now_ms, request_id, tokens, limits, LEASE_MS, KEEP_MS)


def test_grants_and_says_what_is_left() -> None:
    assert reserve(TenantBuckets(), 1_000, "a", 100) == Reply(
        outcome=Outcome.GRANTED,
        now_ms=1_000,
        tokens=100,
        requests_remaining=9,
        requests_reset_seconds=6,
        tokens_remaining=500,
        tokens_reset_seconds=10,
        concurrency_remaining=2,
        concurrency_reset_seconds=10,
        retry_after_seconds=0,
    )


def test_refuses_reservation_when_tokens_are_spent_and_says_when_they_are_back() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 600)
    refused = reserve(buckets, 0, "b", 25)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.TOKENS, 3)
    assert reserve(buckets, 2_499, "b", 25).outcome == Outcome.TOKENS
    assert reserve(buckets, 2_500, "b", 25).outcome == Outcome.GRANTED


def test_refuses_reservation_when_requests_are_spent() -> None:
    buckets = TenantBuckets()
    for index in range(10):
        reserve(buckets, 0, f"r{index}", 1)
        buckets.settle(0, f"r{index}", 1, LIMITS)
    refused = reserve(buckets, 0, "b", 1)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.REQUESTS, 6)


def test_refuses_reservation_when_all_slots_are_held_and_burns_no_request() -> None:
    buckets = TenantBuckets()
    for index in range(3):
        reserve(buckets, 0, f"r{index}", 1)
    refused = reserve(buckets, 0, "d", 1)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.CONCURRENCY, 1)
    assert (refused.requests_remaining, refused.tokens_remaining) == (7, 597)


def test_names_the_bucket_with_the_longest_wait() -> None:
    buckets = TenantBuckets()
    for index in range(3):
        reserve(buckets, 0, f"r{index}", 200)
    assert reserve(buckets, 0, "d", 100).outcome == Outcome.TOKENS


def test_says_that_a_request_larger_than_the_bucket_never_fits() -> None:
    refused = reserve(TenantBuckets(), 0, "a", 601)
    assert (refused.outcome, refused.retry_after_seconds) == (Outcome.TOKENS, NEVER_FITS_SECONDS)


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        (TenantLimits(0, 600, 3), Outcome.REQUESTS),
        (TenantLimits(10, 0, 3), Outcome.TOKENS),
        (TenantLimits(10, 600, 0), Outcome.CONCURRENCY),
    ],
)
def test_zero_of_one_limit_refuses_everything(limits: TenantLimits, outcome: Outcome) -> None:
    refused = reserve(TenantBuckets(), 0, "a", 1, limits)
    assert (refused.outcome, refused.retry_after_seconds) == (outcome, NEVER_FITS_SECONDS)


def test_same_id_again_is_the_same_grant_without_a_second_debit() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 100)
    again = reserve(buckets, 0, "a", 100)
    assert (again.outcome, again.tokens, again.tokens_remaining) == (Outcome.REPLAYED, 100, 500)
    assert again.requests_remaining == 9


def test_settled_id_is_closed_until_its_tombstone_is_gone() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 100)
    buckets.settle(0, "a", 100, LIMITS)
    assert reserve(buckets, KEEP_MS - 1, "a", 1).outcome == Outcome.CLOSED
    assert reserve(buckets, KEEP_MS, "a", 1).outcome == Outcome.GRANTED


def test_tombstone_does_not_outlive_its_own_time_when_the_lease_is_long() -> None:
    buckets = TenantBuckets()
    buckets.reserve(0, "a", 100, LIMITS, 600_000, 660_000)
    buckets.settle(5, "a", 100, LIMITS)
    assert reserve(buckets, TOMBSTONE_MS + 4, "a", 1).outcome == Outcome.CLOSED
    assert reserve(buckets, TOMBSTONE_MS + 5, "a", 1).outcome == Outcome.GRANTED


def test_settle_gives_back_what_was_not_used_and_frees_the_slot() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 500)
    assert buckets.settle(0, "a", 100, LIMITS)
    left = reserve(buckets, 0, "b", 1)
    assert (left.tokens_remaining, left.requests_remaining, left.concurrency_remaining) == (499, 8, 2)


def test_settle_of_what_was_never_sent_gives_back_the_request_too() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 500)
    assert buckets.settle(0, "a", None, LIMITS)
    left = reserve(buckets, 0, "b", 1)
    assert (left.tokens_remaining, left.requests_remaining) == (599, 9)


def test_request_that_was_sent_counts_though_it_used_no_tokens() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 500)
    buckets.settle(0, "a", 0, LIMITS)
    assert reserve(buckets, 0, "b", 1).requests_remaining == 8


def test_second_settle_does_nothing() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 500)
    buckets.settle(0, "a", 500, LIMITS)
    assert not buckets.settle(0, "a", None, LIMITS)
    assert reserve(buckets, 0, "b", 1).tokens_remaining == 99


def test_settle_of_an_unknown_id_does_nothing() -> None:
    assert not TenantBuckets().settle(0, "a", 5, LIMITS)


def test_overdraft_becomes_debt_that_must_be_repaid_first() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 600)
    buckets.settle(0, "a", 700, LIMITS)
    refused = reserve(buckets, 0, "b", 10)
    assert (refused.tokens_remaining, refused.retry_after_seconds) == (0, 11)


def test_debt_is_bounded_by_one_minute() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 600)
    buckets.settle(0, "a", LIMIT_MAX, LIMITS)
    assert reserve(buckets, 0, "b", 600).retry_after_seconds == 120
    assert reserve(buckets, 120_000, "b", 600).outcome == Outcome.GRANTED


def test_expired_lease_frees_its_slot_and_keeps_its_tokens_spent() -> None:
    buckets = TenantBuckets()
    one = TenantLimits(10, 600, 1)
    reserve(buckets, 0, "a", 600, one)
    assert reserve(buckets, LEASE_MS - 1, "b", 10, one).outcome == Outcome.CONCURRENCY
    granted = reserve(buckets, LEASE_MS, "b", 10, one)
    assert (granted.outcome, granted.tokens_remaining) == (Outcome.GRANTED, 90)


def test_id_whose_lease_is_over_is_closed_but_still_settles() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 600)
    assert reserve(buckets, LEASE_MS, "a", 600).outcome == Outcome.CLOSED
    assert buckets.settle(LEASE_MS, "a", 300, LIMITS)
    assert not buckets.settle(KEEP_MS, "a", 300, LIMITS)


def test_settle_after_the_record_is_gone_does_nothing() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 600)
    assert not buckets.settle(KEEP_MS, "a", 0, LIMITS)


def test_lower_limit_clamps_the_level_and_higher_limit_refills_from_there() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 0, "a", 100)
    lower = TenantLimits(10, 60, 3)
    assert reserve(buckets, 0, "b", 1, lower).tokens_remaining == 59
    higher = TenantLimits(10, 6_000, 3)
    assert reserve(buckets, 1_000, "c", 1, higher).tokens_remaining == 158


def test_clock_that_steps_back_refills_nothing_and_goes_on_from_there() -> None:
    buckets = TenantBuckets()
    reserve(buckets, 1_000_000, "a", 600)
    assert reserve(buckets, 900_000, "b", 1).outcome == Outcome.TOKENS
    buckets.settle(900_000, "a", 600, LIMITS)
    assert reserve(buckets, 900_100, "c", 1).outcome == Outcome.GRANTED


def test_is_idle_only_when_forgetting_changes_nothing() -> None:
    buckets = TenantBuckets()
    buckets.reserve(0, "a", 600, LIMITS, 150_000, 200_000)
    assert not buckets.is_idle(119_999)
    assert not buckets.is_idle(199_999)
    assert buckets.is_idle(200_000)


def test_tokens_and_usage_are_bounded() -> None:
    assert [bounded_tokens(value) for value in (-5, 0, 7, 10**15)] == [1, 1, 7, LIMIT_MAX + 1]
    assert [bounded_usage(Usage(value, 0)) for value in (-5, 0, 10**15)] == [0, 0, LIMIT_MAX + 1]
    assert bounded_usage(None) is None


@pytest.mark.parametrize("values", [(-1, 1, 1), (1, LIMIT_MAX + 1, 1), (1, 1, -1)])
def test_limits_out_of_bounds_are_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="expected 0 to"):
        TenantLimits(*values)


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
    reply = Reply(int(outcome), 0, 0, 1, 2, 3, 4, 5, 6, 7)
    refused = to_reservation(reply, "a", "acme", LIMITS, degraded=False)
    assert isinstance(refused, Exceeded)
    assert (refused.bucket, refused.limit, refused.retry_after_seconds) == (bucket, limit, 7)
    assert [(s.name, s.limit, s.remaining, s.reset_seconds) for s in refused.states] == [
        ("requests", 10, 1, 2),
        ("tokens", 600, 3, 4),
        ("concurrency", 3, 5, 6),
    ]


@pytest.mark.parametrize("outcome", [Outcome.GRANTED, Outcome.REPLAYED])
def test_grant_and_replay_are_reservations(outcome: Outcome) -> None:
    reply = Reply(int(outcome), 0, 42, 1, 2, 3, 4, 5, 6, 0)
    granted = to_reservation(reply, "a", "acme", LIMITS, degraded=True)
    assert isinstance(granted, Reservation)
    assert (granted.request_id, granted.tenant, granted.tokens, granted.degraded) == ("a", "acme", 42, True)
