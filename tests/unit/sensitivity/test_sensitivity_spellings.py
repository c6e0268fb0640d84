"""Wide gaps, floats and unseen blanks, with the way back to the text."""

from __future__ import annotations

import pytest

from gateway.sensitivity.spellings import narrowed, without_unseen_blanks, written_out
from gateway.sensitivity.views import View
from gateway.sensitivity.work import Work

WORK = Work(None, None, None)


def _view(text: str) -> View:
    return View(text, "plain", None)


def test_a_wide_gap_between_digits_becomes_one_blank() -> None:
    view = narrowed(_view("a 4539    5787 b"), WORK)
    assert view is not None
    assert (view.text, view.origin(2, 11)) == ("a 4539 5787 b", (2, 14))
    assert narrowed(_view("4539   5787"), WORK) is None
    assert narrowed(_view("4539" + " " * 41 + "5787"), WORK) is None
    assert narrowed(_view("a    b"), WORK) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x 4.539578763e9 y", "x 4539578763 y"),
        ("x 453957876300e-2 y", "x 4539578763.00 y"),
        ("x 4539.578763E+6 y", "x 4539578763 y"),
    ],
)
def test_a_float_is_written_out(text: str, expected: str) -> None:
    view = written_out(_view(text), WORK)
    assert view is not None
    assert view.text == expected
    assert view.origin(2, len(expected) - 2) == (2, len(text) - 2)


@pytest.mark.parametrize("text", ["a4.539578763e9", "4.539578763e9f", "1e5", "1.4.539578763e9", "4539578763"])
def test_what_is_no_long_float_is_left(text: str) -> None:
    assert written_out(_view(text), WORK) is None


def test_unseen_blanks_are_taken_out() -> None:
    view = without_unseen_blanks("ab\u3164cd\u2800ef")
    assert view is not None
    assert (view.text, view.origin(0, 6)) == ("abcdef", (0, 8))
    assert without_unseen_blanks("ab cd") is None
