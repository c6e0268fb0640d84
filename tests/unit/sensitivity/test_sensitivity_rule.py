"""Rows and their helpers."""

from __future__ import annotations

from gateway.domain.label import Level, Tag
from gateway.sensitivity.rule import Rule, Words, confidential, has_context, is_word_byte, restricted
from gateway.sensitivity.views import View, canonical


def _nothing(_view: View, _start: int, _end: int) -> tuple[tuple[int, int], ...]:
    return ()


def test_identity_is_name_at_version() -> None:
    assert Rule("iban", 3, restricted(Tag.FIN), b"x", _nothing).identity == "iban@3"


def test_labels_carry_level_and_tags() -> None:
    assert (restricted(Tag.PII).level, confidential().level) == (Level.RESTRICTED, Level.CONFIDENTIAL)
    assert restricted(Tag.PII, Tag.PHI).tags == {Tag.PII, Tag.PHI}


def test_words_are_found_before_and_behind_but_not_inside_others() -> None:
    wanted = Words("ssn", "social security")
    text = "my_SSN: 1234 and 5678 Social Security; assn 9"
    assert has_context(canonical(text), 8, 12, wanted)
    assert has_context(canonical("xx 5678 (social security)"), 3, 7, wanted)
    assert not has_context(canonical("assn 9876"), 5, 9, wanted)


def test_words_far_away_do_not_count() -> None:
    text = "ssn " + "." * 100 + "1234"
    assert not has_context(canonical(text), len(text) - 4, len(text), Words("ssn"))


def test_word_bytes_outside_the_data_are_none() -> None:
    assert [is_word_byte(b"a-", place) for place in (-1, 0, 1, 2)] == [False, True, False, False]
