from __future__ import annotations

import json

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
from gateway.upstream.refusals import error_code, from_status, retry_after_seconds


@pytest.mark.parametrize(
    ("status", "kind", "client_status"),
    [
        (400, UpstreamRejected, 400),
        (413, UpstreamRejected, 413),
        (422, UpstreamRejected, 422),
        (429, UpstreamLimited, 429),
        (401, UpstreamFailed, 502),
        (403, UpstreamFailed, 502),
        (404, UpstreamFailed, 502),
        (500, UpstreamFailed, 502),
        (302, UpstreamFailed, 502),
        (503, UpstreamUnavailable, 503),
        (504, UpstreamTimeout, 504),
    ],
)
def test_each_status_means_one_refusal(status: int, kind: type[Refusal], client_status: int) -> None:
    refusal = from_status(status, None, b"")
    assert type(refusal) is kind
    assert refusal.http_status == client_status


def test_a_provider_rate_limit_always_tells_when_to_come_back() -> None:
    assert from_status(429, "17", b"").retry_after_seconds == 17
    assert from_status(429, None, b"").retry_after_seconds == 5
    assert from_status(503, "Wed, 21 Oct 2026 07:28:00 GMT", b"").retry_after_seconds == 5


def test_only_codes_of_the_closed_list_pass() -> None:
    known = json.dumps({"error": {"code": "context_length_exceeded", "message": "secret text"}}).encode()
    assert error_code(known) == "context_length_exceeded"
    unknown = json.dumps({"error": {"code": "sk-live-123", "message": "m"}}).encode()
    assert error_code(unknown) is None


def test_recognises_vllms_sentence_about_the_context_length() -> None:
    body = b'{"error":{"message":"This model\'s maximum context length is 8192 tokens","code":400}}'
    assert from_status(400, None, body).code == "context_length_exceeded"


@given(st.integers(100, 599).filter(lambda status: status != 200), st.binary(max_size=200))
def test_nothing_of_a_providers_body_is_told(status: int, body: bytes) -> None:
    refusal = from_status(status, None, b'{"error":{"message":"ZQX' + body + b'"}}')
    assert "ZQX" not in refusal.message + str(refusal.detail) + refusal.code


@given(st.text(max_size=12))
def test_retry_after_is_bounded_whatever_comes(value: str) -> None:
    seconds = retry_after_seconds(value)
    assert seconds is None or 1 <= seconds <= 3600
