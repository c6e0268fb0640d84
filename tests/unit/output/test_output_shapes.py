"""Unit tests of `gateway.output.shapes`."""

from __future__ import annotations

import pytest

from gateway.output.shapes import (
    Joint,
    first_trigger,
    fold,
    is_long_key,
    is_pem_body,
    is_plain,
    joint,
    pem_header_end,
    token_before,
)

PROSE = [
    "The tide comes in twice a day; nobody asked it to.",
    'She said: "Well-known, state-of-the-art, isn\'t it?" (He nodded.)',
    "E.g. the U.S. office, i.e. ours, met on Q&A night!\n\n* one\n* two\n- three\n",
    "GitHub, JavaScript, OpenAI, NATO and UNESCO's iPhone.",
    "# Heading\n\n**Bold** and *slanted*, `code`, and/or > quoted | cell |",
    "Größe, naïve, café, 東京は今日も晴れです。 Привет, мир! مرحبا",
    "\U0001f600\ufe0f \u2014 \u201cfine\u201d\u2026",
    "A password was required. The key is under the mat.",
    "Internationalisation of Donaudampfschifffahrtsgesellschaft",
    "A task-force desk-job risk-free; the token of thanks: none.",
]


@pytest.mark.parametrize("text", PROSE)
def test_nothing_triggers_in_prose(text: str) -> None:
    assert first_trigger(text, 0, False) == -1


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("in 2024", 3),
        ("٤١١١", 0),
        ("４１１１", 0),
        ("m²", 1),
        ("alice@corp", 5),
        ("john.smith", 5),
        ("e.g.this", 5),
        ("user:pass", 5),
        ("https://x", 6),
        ("max_tokens", 3),
        ("a=b", 1),
        ("call +", 5),
        ("sk-abc", 3),
        ("glpat-abc", 6),
        ("AKIAIOSF", 4),
        ("eyJhbGci", 2),
        ("NDExMSAxMT", 8),
        ("a" * 32 + "aB", 33),
        ("-----BEGIN", 5),
        ("a\u200bb", 1),
        (" \U000e0034", 1),
        ("a\\b", 1),
        ("x (at) y", 5),
        ("x[AT]y", 4),
        ("x ( at ) y", 6),
        ("password: swordfish", 10),
        ("**Password:** swordfish", 14),
        ('"api_key":"abc', 4),
        ('secret = "abc', 10),
        ("the password is swordfish", 16),
        ("Bearer abcdef", 7),
        ("good!bad", 5),
    ],
)
def test_first_character_that_prose_would_not_have_triggers(text: str, at: int) -> None:
    assert first_trigger(text, 0, False) == at
    assert not is_plain(text, 0, False)


def test_minus_before_a_number_triggers_in_json_only() -> None:
    assert first_trigger('{"n":-1', 0, True) == 5
    assert first_trigger('{"n":-1', 0, False) == 6
    assert not is_plain('{"n":-', 0, True)


def test_look_back_is_over_what_stands_before_start() -> None:
    assert first_trigger("sk-a", 3, False) == 3
    assert first_trigger("xsk-a", 4, False) == -1
    assert not is_plain("a.b", 2, False)
    assert is_plain("a. b", 2, False)


@pytest.mark.parametrize(
    ("raw", "token"), [("", ""), ("a b", "b"), ("a ", ""), ("(x-y", "x-y"), ("ab", "ab")]
)
def test_token_before_is_the_unfinished_one(raw: str, token: str) -> None:
    assert token_before(raw) == token


def test_token_before_looks_back_64_characters() -> None:
    assert token_before("x" * 100) == "x" * 64


def test_folds_to_what_a_reader_sees() -> None:
    assert fold("４１\u200b１1") == "4111"
    assert fold("a\x00b") == "ab"
    assert fold("1\u20112") == "1-2"


@pytest.mark.parametrize(
    ("lead", "text", "at", "verdict"),
    [
        ("4111", "4111 1", 4, (Joint.JOINS, 5)),
        ("4111", "4111 - 1", 4, (Joint.JOINS, 7)),
        ("555", "555) 1", 3, (Joint.JOINS, 5)),
        ("4111", "4111 t", 4, (Joint.ENDS, 4)),
        ("4111", "4111 ", 4, (Joint.WAITS, 4)),
        ("4111", "4111     ", 4, (Joint.ENDS, 4)),
        ("4111", "4111,1", 4, (Joint.ENDS, 4)),
        ("56", "56 C", 2, (Joint.WAITS, 2)),
        ("56", "56 C ", 2, (Joint.JOINS, 4)),
        ("56", "56 Ca", 2, (Joint.ENDS, 2)),
        ("56.", "56. C ", 3, (Joint.JOINS, 5)),
        ("10am", "10am 5", 4, (Joint.ENDS, 4)),
        ("word", "word 5", 4, (Joint.ENDS, 4)),
        ("GB29", "29 N", 2, (Joint.JOINS, 3)),
        ("gb29", "29 n", 2, (Joint.JOINS, 3)),
        ("GB29 NWBK 60", "29 NWBK 60 n", 10, (Joint.ENDS, 10)),
        ("-----BEGIN", "BEGIN R", 5, (Joint.JOINS, 6)),
        ("-----BEGIN RSA", "BEGIN RSA p", 9, (Joint.ENDS, 9)),
        ("x (at", ") c", 0, (Joint.JOINS, 1)),
        ("x (at) corp", ") corp (d", 6, (Joint.JOINS, 7)),
        ("x (at) corp dot", ") corp dot c", 10, (Joint.ENDS, 10)),
    ],
)
def test_joint_joins_groups_and_ends_before_words(
    lead: str, text: str, at: int, verdict: tuple[Joint, int]
) -> None:
    assert joint(lead, text, at) == verdict


def test_pem_header_and_body_are_told_from_words_and_paths() -> None:
    assert pem_header_end("x -----BEGIN RSA PRIVATE KEY-----y") == 33
    assert pem_header_end("-----BEGIN CERTIFICATE-----") == -1
    assert is_pem_body("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC")
    assert not is_pem_body("internationalisation/of/everything/that/is")
    assert not is_pem_body("MIIEvQ")


def test_long_key_needs_a_known_beginning_and_no_end() -> None:
    assert is_long_key("x=eyJ" + "ab1_" * 20)
    assert not is_long_key("abc" + "ab1_" * 20)
    assert not is_long_key("eyJ" + "ab1_" * 20 + " ")
