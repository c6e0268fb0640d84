"""Groups and windows of digits."""

from __future__ import annotations

import pytest

from gateway.sensitivity import numbers
from gateway.sensitivity.rule import Words
from gateway.sensitivity.views import canonical


def _run(text: str) -> numbers.Run:
    first = next(place for place, character in enumerate(text) if character.isdigit())
    last = max(place for place, character in enumerate(text) if character.isdigit())
    return numbers.read_run(canonical(text), first, last + 1)


def _windows(text: str, least: int, most: int) -> list[str]:
    return [window.digits for window in numbers.windows(_run(text), least, most)]


def test_windows_are_whole_groups_with_the_wanted_number_of_digits() -> None:
    assert _windows("12 345 6789 01", 5, 7) == ["12345", "3456789", "678901"]


def test_windows_begin_only_at_the_first_of_single_digits() -> None:
    assert _windows("22 1 2 3 4", 2, 3) == ["22", "221", "12", "123"]


def test_a_long_number_is_never_cut() -> None:
    assert _windows("12345678901234567890", 13, 19) == []


def test_a_run_is_read_once_per_candidate() -> None:
    view = canonical("12 34 56")
    assert numbers.read_run(view, 0, 8) is numbers.read_run(view, 0, 8)
    assert numbers.read_run(view, 3, 8).digits == "3456"


@pytest.mark.parametrize(
    ("text", "expected"), [("0.123456", True), ("123456.25", True), ("v.123456", False), ("123456.", False)]
)
def test_tells_the_sides_of_a_decimal_number(text: str, expected: bool) -> None:
    place = text.index("123456")
    view = canonical(text)
    (window,) = numbers.windows(numbers.read_run(view, place, place + 6), 6, 6)
    assert numbers.is_fraction(window) is expected


def test_tells_parts_of_a_uuid() -> None:
    text = "id 12345678-1234-1234-1234-123456789012 end"
    (window,) = [w for w in numbers.windows(_run(text), 12, 12) if w.first == w.last]
    assert numbers.in_uuid(window)
    (other,) = numbers.windows(_run("id 123456789012 end"), 12, 12)
    assert not numbers.in_uuid(other)


def test_tells_letters_at_the_edges() -> None:
    (window,) = numbers.windows(numbers.read_run(canonical("a123456 "), 1, 7), 6, 6)
    assert numbers.touches_letters(window)
    (window,) = numbers.windows(numbers.read_run(canonical("_123456 "), 1, 7), 6, 6)
    assert not numbers.touches_letters(window)


def test_a_window_that_hangs_on_by_its_own_separator_does_not_stand_alone() -> None:
    assert not numbers.stands_alone(next(iter(numbers.windows(_run("123-45-6789-01"), 9, 9))))
    assert numbers.stands_alone(next(iter(numbers.windows(_run("123-45-6789 01"), 9, 9))))
    behind = list(numbers.windows(_run("77 123-45-6789"), 9, 9))[-1]
    assert (behind.gap_before(), behind.gap_after(), numbers.stands_alone(behind)) == (" ", "", True)


def test_words_count_only_near_the_window() -> None:
    wanted = Words("card")
    far = "card " + "12 " * 60 + "345678901"
    last = list(numbers.windows(_run(far), 9, 9))[-1]
    assert not last.has_context(wanted)
    assert next(iter(numbers.windows(_run("card 345678901"), 9, 9))).has_context(wanted)
    assert next(iter(numbers.windows(_run("345678901 (card)"), 9, 9))).has_context(wanted)
    assert not next(iter(numbers.windows(_run("cardigan 345678901"), 9, 9))).has_context(wanted)
