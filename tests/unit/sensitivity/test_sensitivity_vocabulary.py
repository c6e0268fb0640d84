"""Rows of words: whole words first, pieces elsewhere, and one row for what is not worth cutting."""

from __future__ import annotations

import struct

import pytest

from gateway.sensitivity.vocabulary import (
    FOREIGN,
    LINE,
    LONG,
    OTHER,
    ROW_MASK,
    SIGN,
    SPECIAL,
    UNKNOWN,
    Vocabulary,
    fold,
    places_of,
    tokens_of,
    unescaped,
)

WORDS = ("?", "biopsy", "kranken", "medecin", "my", "m", "نتيجه")
TAILS = ("haus", "阳性", "性", "結果", "e")


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(WORDS, TAILS, ("jutro",))


def _names(vocabulary: Vocabulary, text: str) -> list[str]:
    names = [*SPECIAL, *WORDS, *TAILS]
    data = vocabulary.rows(text)
    return [names[row & ROW_MASK] for row in struct.unpack(f"<{len(data) // 4}i", data)]


def test_takes_a_whole_word_before_its_pieces(vocabulary: Vocabulary) -> None:
    assert _names(vocabulary, "My biopsy?") == ["my", "biopsy", "?"]


def test_cuts_a_word_without_a_row_by_its_longest_start_and_what_follows(vocabulary: Vocabulary) -> None:
    assert _names(vocabulary, "Krankenhaus") == ["kranken", "haus"]


def test_reads_a_word_without_its_accents(vocabulary: Vocabulary) -> None:
    assert _names(vocabulary, "Médecin MÉDECIN") == ["medecin", "medecin"]
    assert fold("Straße") == "strasse"
    assert fold("が") == "が"


def test_cuts_han_and_kana_without_spaces(vocabulary: Vocabulary) -> None:
    assert _names(vocabulary, "結果阳性性") == ["結果", "阳性", "性"]


def test_tells_a_foreign_script_by_one_row_and_a_lone_letter_by_none(vocabulary: Vocabulary) -> None:
    assert vocabulary.rows_of_token("привет") == (FOREIGN,)
    assert vocabulary.rows_of_token("π") == (UNKNOWN,)


def test_tells_a_word_or_a_letter_of_another_language_by_one_row(vocabulary: Vocabulary) -> None:
    assert vocabulary.rows_of_token("jutro") == (OTHER,)
    assert vocabulary.rows_of_token("każda")[0] == OTHER


def test_reads_digits_by_their_number_and_signs_by_kind(vocabulary: Vocabulary) -> None:
    assert _names(vocabulary, "7 12 123456") == ["digit1", "digit2", "digits"]
    assert vocabulary.rows_of_token("????") == (vocabulary.words["?"],)
    assert vocabulary.rows_of_token("☃") == (SIGN,)


def test_marks_each_line_break(vocabulary: Vocabulary) -> None:
    assert vocabulary.rows_of_token("\n") == (LINE,)


def test_gives_a_word_without_end_one_row(vocabulary: Vocabulary) -> None:
    assert vocabulary.rows_of_token("q" * 10_000) == (LONG,)


def test_reads_the_escapes_of_a_json_string(vocabulary: Vocabulary) -> None:
    assert unescaped(r"m\u00e9decin\nmy") == "médecin\nmy"
    assert unescaped("no escape") == "no escape"


def test_gives_the_same_rows_when_the_cache_was_filled_and_emptied(vocabulary: Vocabulary) -> None:
    before = vocabulary.rows("my biopsy")
    for number in range(70_000):
        vocabulary.rows(f"w{chr(97 + number % 26)}{'abcdefghij'[number % 10]} {number}")
    assert vocabulary.rows("my biopsy") == before


def test_places_follow_the_tokens() -> None:
    text = "My biopsy,\nok"
    placed = list(places_of(text))
    assert [token for token, _, _ in placed] == tokens_of(text)
    assert [text[start:end].lower() for _, start, end in placed] == tokens_of(text)
