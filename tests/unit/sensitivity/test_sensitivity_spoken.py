"""Numbers in words, in every language of the table."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level
from gateway.sensitivity import spoken
from gateway.sensitivity.detectors import build_detectors
from gateway.sensitivity.views import canonical
from gateway.sensitivity.work import Work
from tests.unit.sensitivity import vectors

DETECTORS = build_detectors()
LANGUAGES = {
    "en": "zero one two three four five six seven eight nine",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "it": "zero uno due tre quattro cinque sei sette otto nove",
    "pt": "zero um dois três quatro cinco seis sete oito nove",
    "nl": "nul een twee drie vier vijf zes zeven acht negen",
    "pl": "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć",
    "sv": "noll ett två tre fyra fem sex sju åtta nio",
    "ru": "ноль один два три четыре пять шесть семь восемь девять",
}


def _read(text: str) -> str | None:
    view = spoken.in_digits(canonical(text), Work())
    return None if view is None else view.text


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("joint", [" ", ", ", "-", "\n"])
def test_finds_a_card_spoken_digit_by_digit(language: str, joint: str) -> None:
    words = LANGUAGES[language].split()
    number = vectors.card("4539", 16, 8)
    text = f"> {joint.join(words[int(digit)] for digit in number)} <"
    assert [finding.label.level for finding in DETECTORS.find(text)] == [Level.RESTRICTED]


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("forty-five thirty-nine fourteen eighty-eight", "45391488"),
        ("zéro un quarante-deux soixante-huit cinquante-trois", "0142685 3".replace(" ", "")),
        ("quatre-vingt-dix-sept soixante et onze quatre-vingts", "977180"),
        ("vierunddreißig zweiundvierzig einundsiebzig", "344271"),
        ("treinta y nueve cuarenta y dos diez", "394210"),
        ("quarantacinque trentanove quattordici", "453914"),
        ("vierendertig tweeënveertig zestien", None),
        ("double four one two triple five six", "44125556"),
        ("D E eight nine three seven zero four", "DE893704"),
        ("five one three, four two, five zero three one", "513 42 5031"),
        ("4 five 3 nine one four eight eight", "45391488"),
    ],
)
def test_reads_compound_numbers_repeats_and_letters(text: str, digits: str | None) -> None:
    assert digits is None or _read(text) == digits


@pytest.mark.parametrize(
    "text", ["one or two of them", "it takes two to three days", "a seis", "sept huit", "no numbers here"]
)
def test_leaves_prose_alone(text: str) -> None:
    assert _read(text) is None


def test_spans_come_back_to_the_words() -> None:
    words = LANGUAGES["en"].split()
    number = vectors.card("4539", 16, 8)
    said = " ".join(words[int(digit)] for digit in number)
    text = f"Caller: {said}. Agent: thanks."
    (finding,) = DETECTORS.find(text)
    assert text[finding.start : finding.end] == said


def test_reads_rows_of_han_digits() -> None:
    number = vectors.card("4539", 16, 8)
    text = "卡号" + "".join("〇一二三四五六七八九"[int(digit)] for digit in number)
    assert [finding.kind for finding in DETECTORS.find(text)] == ["payment-card"]
    assert spoken.han_digits("一般的に三人") is None
