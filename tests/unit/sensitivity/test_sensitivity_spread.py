"""Digits set apart by unusual signs, and backwards."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level
from gateway.sensitivity.detectors import build_detectors
from tests.unit.sensitivity import vectors

DETECTORS = build_detectors()
CARD = vectors.card("4539", 16, 8)
IBAN = vectors.iban("DE", "370400440532013999")


def _level(text: str) -> Level:
    return max((finding.label.level for finding in DETECTORS.find(text)), default=Level.PUBLIC)


def _quads(number: str, joint: str) -> str:
    return joint.join(number[place : place + 4] for place in range(0, len(number), 4))


@pytest.mark.parametrize("joint", [",", ", ", "|", "*", ":", ";", " | ", "~", "', '", "/", "·", "—"])
def test_finds_cards_with_any_sign_between_the_digits(joint: str) -> None:
    assert _level(f"it is {joint.join(CARD)} now") is Level.RESTRICTED


@pytest.mark.parametrize("joint", [",", "**", " — ", " / ", "|", "::", ") ("])
def test_finds_cards_with_any_sign_between_the_groups(joint: str) -> None:
    assert _level(f"it is ({_quads(CARD, joint)}) now") is Level.RESTRICTED
    assert _level(f"card {_quads(IBAN, joint)} now") is Level.RESTRICTED


@pytest.mark.parametrize(
    "said",
    [
        "reversed: {}", "read {} backwards", "{} (rückwärts)", "à l'envers : {}", "{} al revés", "{} al contrario",  # noqa: E501
        "ao contrário: {}", "omgekeerd {}", "\u202e{}\u202c",
    ],
)  # fmt: skip
def test_finds_what_is_said_to_be_backwards(said: str) -> None:
    assert _level(said.format(CARD[::-1])) is Level.RESTRICTED
    assert _level(said.format(IBAN[::-1])) is Level.RESTRICTED


def test_backwards_numbers_need_to_be_called_so() -> None:
    assert _level(f"order {CARD[::-1]} shipped") is Level.PUBLIC


@pytest.mark.parametrize(
    "text", ["[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]", "a b c d e f g h i j k l", "10, 20, 30, 40"]
)
def test_passes_lists(text: str) -> None:
    assert _level(text) is Level.PUBLIC
