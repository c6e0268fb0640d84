from __future__ import annotations

from gateway.domain.limits import USD_MICROS_MAX, LimitState
from gateway.limits.headers import crossed, limit_headers

STATES = (
    LimitState("requests", 60, 50, 10),
    LimitState("tokens", 1_000, 500, 80),
    LimitState("concurrency", 10, 5, 600),
)


def test_gives_ietf_fields_for_all_buckets() -> None:
    headers = dict(limit_headers(STATES))
    assert headers[b"ratelimit-policy"] == (
        b'"requests";q=60;w=60, "tokens";q=1000;w=60, "concurrency";q=10;qu="concurrent-requests"'
    )
    assert headers[b"ratelimit"] == b'"requests";r=50;t=10, "tokens";r=500;t=80, "concurrency";r=5;t=600'


def test_gives_openai_fields_for_requests_and_tokens_only() -> None:
    assert limit_headers(STATES)[2:] == [
        (b"x-ratelimit-limit-requests", b"60"),
        (b"x-ratelimit-remaining-requests", b"50"),
        (b"x-ratelimit-reset-requests", b"10s"),
        (b"x-ratelimit-limit-tokens", b"1000"),
        (b"x-ratelimit-remaining-tokens", b"500"),
        (b"x-ratelimit-reset-tokens", b"1m20s"),
    ]


def test_gives_nothing_without_states() -> None:
    assert limit_headers(()) == []


def test_openai_fields_tell_of_the_scope_with_the_least_left() -> None:
    headers = dict(limit_headers((*STATES, LimitState("user-tokens", 600, 100, 61))))
    assert b'"user-tokens";q=600;w=60' in headers[b"ratelimit-policy"]
    assert headers[b"x-ratelimit-remaining-tokens"] == b"100"
    assert headers[b"x-ratelimit-limit-tokens"] == b"600"
    assert headers[b"x-ratelimit-remaining-requests"] == b"50"


def test_money_has_its_own_unit_and_a_notice_when_it_is_nearly_spent() -> None:
    low = LimitState("day", 1_000, 900, 86_400, 500)
    high = LimitState("user-month", 1_000, 150, 2_678_400, 800)
    soft_only = LimitState("month", USD_MICROS_MAX, USD_MICROS_MAX - 10, 1, 5)
    headers = dict(limit_headers((low, high, soft_only)))
    assert headers[b"ratelimit-policy"].startswith(b'"day";q=1000;qu="usd-micros";w=86400, "user-month"')
    assert headers[b"x-tidegate-budget"] == b'"user-month";used=85;soft-exceeded, "month";soft-exceeded'
    assert b"x-tidegate-budget" not in dict(limit_headers((low,)))


def test_each_bound_is_crossed_once() -> None:
    after = LimitState("day", 1_000, 190, 86_400, 700)
    assert crossed((after,), 20) == [("day", "80")]
    assert crossed((after,), 400) == [("day", "50"), ("day", "80"), ("day", "soft")]
    assert crossed((after,), 5) == crossed((after,), 0) == crossed(STATES, 100) == []
