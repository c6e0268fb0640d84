"""What would kill an engine is refused with its field and its bound."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.openai_request import parse_chat
from gateway.errors import RequestRefused


def refused(**more: Any) -> RequestRefused:
    body = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}], **more}
    with pytest.raises(RequestRefused) as caught:
        parse_chat(json.dumps(body).encode())
    return caught.value


@pytest.mark.parametrize(
    ("more", "field", "bound"),
    [
        ({"n": 9}, "n", "8"),
        ({"n": 10**6}, "n", "8"),
        ({"n": 0}, "n", "1"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
        ({"logprobs": True, "top_logprobs": 10**6}, "top_logprobs", "20"),
        ({"seed": 2**63}, "seed", str(2**63 - 1)),
        ({"seed": 2**64}, "seed", "64 bits"),
        ({"seed": -(2**63) - 1}, "seed", "64 bits"),
        ({"seed": 10**400}, "seed", "64 bits"),
        ({"logit_bias": {str(number): 1 for number in range(1025)}}, "logit_bias", "1024"),
        ({"logit_bias": {"1": 101}}, "logit_bias[...]", "100"),
        ({"max_tokens": 10**9}, "max_tokens", "1048576"),
        ({"max_completion_tokens": 2**65}, "max_completion_tokens", "64 bits"),
        ({"stop": ["x"] * 17}, "stop", "16"),
        ({"stop_token_ids": [0] * 257}, "stop_token_ids", "256"),
        ({"top_k": 10**9}, "top_k", "1000000"),
        ({"min_tokens": 10**9}, "min_tokens", "1048576"),
    ],
)
def test_names_field_and_bound(more: dict[str, Any], field: str, bound: str) -> None:
    refusal = refused(**more)
    assert (refusal.http_status, refusal.code, refusal.param) == (400, "invalid-value", field)
    assert bound in refusal.message


def test_a_number_that_is_quoted_in_a_text_is_no_field() -> None:
    refusal = refused(messages=[{"role": "user", "content": f'"seed": {2**70}'}], top_k=2**70)
    assert refusal.param == "top_k"
    assert str(2**70) not in refusal.message


def test_a_number_in_a_list_has_no_field_of_its_own() -> None:
    refusal = refused(stop_token_ids=[2**70])
    assert refusal.param is None
    assert str(2**70) not in refusal.message
