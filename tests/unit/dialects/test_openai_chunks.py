"""Shapes of what a provider says."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw

from gateway.dialects.openai_chunks import AnswerSaid, UsageSaid, logprobs_text, printable, usage_of
from gateway.domain.limits import Usage


@pytest.mark.parametrize(
    ("text", "is_error"),
    [
        (b"{}", False),
        (b'{"error":null}', False),
        (b'{"error":{}}', True),
        (b'{"error":"x"}', True),
        (b'{"object":"error"}', True),
    ],
)
def test_tells_an_error_from_an_answer(text: bytes, is_error: bool) -> None:
    assert msgspec.json.decode(text, type=AnswerSaid).is_error is is_error


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        (UsageSaid(prompt_tokens=3), Usage(3, 0)),
        (UsageSaid(prompt_tokens=3, completion_tokens=4), Usage(3, 4)),
        (UsageSaid(prompt_tokens=-1), None),
        (UsageSaid(completion_tokens=2**49), None),
    ],
)
def test_takes_only_counts_that_can_be_true(said: UsageSaid, usage: Usage | None) -> None:
    assert usage_of(said) == usage


@pytest.mark.parametrize("raw", [UNSET, Raw(b"null"), Raw(b"{}"), Raw(b'{"content":[]}')])
def test_gives_no_log_probabilities_when_there_are_none(raw: Raw | msgspec.UnsetType) -> None:
    assert logprobs_text(raw) is None


@pytest.mark.parametrize(
    ("text", "kept"), [("abc-1", "abc-1"), (None, None), ("", None), ("é", None), ("a" * 257, None)]
)
def test_keeps_plain_short_ids(text: str | None, kept: str | None) -> None:
    assert printable(text) == kept
