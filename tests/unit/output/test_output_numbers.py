"""Unit tests of `gateway.output.numbers`."""

from __future__ import annotations

import pytest

from gateway.output.numbers import (
    is_short_name,
    is_small_number,
    may_be_named_later,
    without_digits,
    without_numbers,
)
from gateway.output.shapes import token_before


@pytest.mark.parametrize(
    ("left", "held", "is_small"),
    [
        ("in ", "2024", True),
        ("", "17%", True),
        ("(", "3.5)", True),
        ("12345 ", "6", False),
        ("x", "1", False),
        ("Wiesel!", "2207", False),
        ("at ", "10.0.0.1", False),
        ("at ", "123456", False),
        ("the code is ", "4711", False),
        ("The PIN: ", "88213", False),
        ("v: ", "85.10000000000001", True),
        ("v: ", "4111.1111111111111", False),
    ],
)
def test_small_number_has_no_room_for_an_identifier(left: str, held: str, is_small: bool) -> None:
    assert is_small_number(left, held) is is_small


@pytest.mark.parametrize(
    ("left", "held", "is_short"),
    [
        ("set max", "_tokens", True),
        ("name", "_5", True),
        ("set much_too_long", "_name", False),
        ("my token: max", "_tokens", False),
        ("host", "_a.b", False),
        ("123456 max", "_t", False),
    ],
)
def test_short_name_is_too_short_for_a_key(left: str, held: str, is_short: bool) -> None:
    assert is_short_name(left, len(token_before(left)), held) is is_short


def test_only_a_long_number_waits_for_words_behind_it() -> None:
    assert may_be_named_later("", "123 456 789")
    assert may_be_named_later("", "123456789.")
    assert may_be_named_later("12345 ", "6789")
    assert not may_be_named_later("", "12345678")
    assert may_be_named_later("", "123456789-Office")
    assert not may_be_named_later("123456789 ", "and 1")
    assert not may_be_named_later("", "0.123456789")


@pytest.mark.parametrize(
    ("left", "held"),
    [
        ("", "PR970662C"),
        ("PR", "970662C"),
        ("", "A395035(5)"),
        ("", "PR 97 06 62 C"),
        ("", "72904293-C"),
        ("ACUPA", "0981R"),
        ("", "1hgcm82633A004352"),
    ],
)
def test_capitals_and_digits_mixed_wait_for_words_behind_them(left: str, held: str) -> None:
    assert may_be_named_later(left, held)


@pytest.mark.parametrize("held", ["max_1234", "0x1f2e", "A4", "abc12345", "H2O", "PR970662C/x", "UTF-8"])
def test_names_of_code_do_not_wait(held: str) -> None:
    assert not may_be_named_later("", held) or held.endswith("/x")


def test_blots_digits_and_long_numbers_but_for_the_end() -> None:
    assert without_digits("12 ab 34 cd 5", 3) == "~~ ab ~~ cd 5"
    assert without_numbers("221 Baker St, 4539 1488, 17", 4) == "221 Baker St, ~~~~ ~~~~, 17"
    assert without_numbers("123456", 6) == without_digits("123456", 9) == "123456"
