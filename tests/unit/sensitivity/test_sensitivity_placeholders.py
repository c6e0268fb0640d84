"""What counts as a placeholder, and what it may not clear."""

from __future__ import annotations

import pytest

from gateway.sensitivity.placeholders import is_masked, is_placeholder


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"changeme123", True),
        (b"your-secret-key-here", True),
        (b"abc123...xyz9", True),
        (b"********12", True),
        (b"todoHunter2!9", False),
        (b"Sample-Hunter2!9", False),
        (b"Hunter2...9xK!", False),
        (b"Hunter2!9", False),
    ],
)
def test_a_placeholder_is_mostly_words_that_stand_for_a_secret(value: bytes, expected: bool) -> None:
    assert is_placeholder(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"x" * 36, True),
        (b"${TOKEN}", True),
        (b"{{ token }}", True),
        (b"<token>", True),
        (b"xxxxxx" + b"f8Jq2Lm9Zt4Rw7Yb1Nc5Vd3Gk6Hs0P", False),
        (b"f8Jq2Lm9Zt4Rw7Yb1Nc5", False),
    ],
)
def test_a_mask_covers_most_of_a_value(value: bytes, expected: bool) -> None:
    assert is_masked(value) is expected
