from __future__ import annotations

from gateway.domain.limits import Budget, Exceeded, Quota, Reservation, ScopeLimits, Usage
from gateway.limits.local import TENANTS_MAX, LocalCap, conservative

LIMITS = ScopeLimits(requests_per_minute=100, tokens_per_minute=1_000, concurrency=20)
QUOTAS = (Quota("tenant", "", LIMITS),)


def reserve(
    cap: LocalCap, request_id: str, tokens: int, tenant: str = "acme", now_ms: int = 0
) -> Reservation | Exceeded:
    hold = Reservation(request_id, tenant, tokens, False, (), QUOTAS)
    return cap.reserve(now_ms, hold, lease_ms=1_000, keep_ms=2_000)


def test_gives_a_tenth_of_each_limit_and_at_least_one_request_and_slot() -> None:
    assert conservative(LIMITS) == ScopeLimits(10, 100, 2)
    assert conservative(ScopeLimits(5, 5, 5)) == ScopeLimits(1, 0, 1)
    assert conservative(ScopeLimits(0, 0, 0)) == ScopeLimits(0, 0, 0)
    assert conservative(ScopeLimits(0, 0, 0, Budget(100, None, 7))).budget == Budget(10, None)


def test_marks_what_it_lets_through_as_degraded() -> None:
    granted = reserve(LocalCap(), "a", 50)
    assert isinstance(granted, Reservation)
    assert granted.degraded
    assert granted.tokens == 50


def test_refuses_reservation_when_the_local_cap_is_spent() -> None:
    cap = LocalCap()
    reserve(cap, "a", 100)
    refused = reserve(cap, "b", 1)
    assert isinstance(refused, Exceeded)
    assert (refused.bucket, refused.limit) == ("tokens", 100)


def test_settles_and_extends_its_own_reservations() -> None:
    cap = LocalCap()
    granted = reserve(cap, "a", 50)
    assert isinstance(granted, Reservation)
    assert cap.extend(900, granted, 90, lease_ms=1_000, keep_ms=2_000)
    assert isinstance(reserve(cap, "b", 11, now_ms=900), Exceeded)
    assert cap.settle(1_500, granted, Usage(40, 0))
    assert isinstance(reserve(cap, "c", 50, now_ms=1_500), Reservation)


def test_settle_and_extend_for_an_unknown_tenant_do_nothing() -> None:
    ghost = Reservation("a", "acme", 1, degraded=True, quotas=QUOTAS)
    assert not LocalCap().settle(0, ghost, None)
    assert not LocalCap().extend(0, ghost, 5, lease_ms=1, keep_ms=2)


def test_refuses_one_tenant_too_many_until_an_idle_one_can_be_forgotten() -> None:
    cap = LocalCap()
    for index in range(TENANTS_MAX):
        assert isinstance(reserve(cap, "a", 1, tenant=f"t{index}"), Reservation)
    assert isinstance(reserve(cap, "a", 1, tenant="one-more"), Exceeded)
    assert isinstance(reserve(cap, "a", 1, tenant="one-more", now_ms=200_000), Reservation)
