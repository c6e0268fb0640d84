from __future__ import annotations

from gateway.domain.limits import LimitState
from gateway.limits.headers import limit_headers

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
