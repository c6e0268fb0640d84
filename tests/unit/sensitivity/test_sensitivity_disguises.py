"""Numbers and keys disguised by hand are read: letters, Roman numerals, markup, ROT13, words backwards."""

from __future__ import annotations

import codecs

import pytest

from gateway.sensitivity.detectors import build_detectors
from gateway.sensitivity.disguises import with_digits
from gateway.sensitivity.views import canonical
from gateway.sensitivity.work import Work
from tests.unit.sensitivity import vectors

ENGINES = [build_detectors("hyperscan"), build_detectors("re2")]
CARD = vectors.card("4539", 16, 1)
SSN = vectors.ssn(3)
IBAN = vectors.iban("DE", "370400440532013000")
TOKEN = "ghp_" + vectors.token(36, 5)
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ROMAN = ("0", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")


def _kinds(text: str) -> set[str]:
    """Kinds that both engines find."""
    found = [{finding.kind for finding in engine.find(text)} for engine in ENGINES]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("card " + CARD.replace("0", "O").replace("1", "l"), "payment-card"),
        ("card " + CARD.replace("5", "S").replace("0", "o"), "payment-card"),
        ("ssn " + SSN.replace("1", "I").replace("0", "O").replace("8", "B"), "us-ssn"),
        ("card " + " ".join(WORDS[int(d)] if at % 2 else d for at, d in enumerate(CARD)), "payment-card"),
        ("card " + " ".join(f":{WORDS[int(d)]}:" for d in CARD), "payment-card"),
        ("card " + "".join(f"{d}\ufe0f\u20e3" for d in CARD), "payment-card"),
        ("card " + " ".join(ROMAN[int(d)] for d in CARD), "payment-card"),
        ("card " + "".join(chr(0x215F + int(d)) if d != "0" else d for d in CARD), "payment-card"),
        ("".join(f"<b>{d}</b>" for d in CARD), "payment-card"),
        (" + ".join(f'"{CARD[at : at + 4]}"' for at in range(0, 16, 4)), "payment-card"),
        (f"card {CARD[:8]}=\r\n{CARD[8:]}", "payment-card"),
        ("".join(f"=3{d}" if at % 3 == 0 else d for at, d in enumerate(CARD)), "payment-card"),
        (codecs.encode(f"token {TOKEN}", "rot13"), "github-token"),
        (codecs.encode(f"my credit card is {CARD}", "rot13"), "payment-card"),
        (f"my ssn is {SSN}"[::-1], "us-ssn"),
        (f"the token is {TOKEN}"[::-1], "github-token"),
        (IBAN[::-1], "iban"),
        ("pass\u200bport no C01X00T47", "passport"),
        ("acc\u00adount num\u200bber 31926819", "bank-account"),
    ],
)
def test_a_disguised_number_is_found(text: str, kind: str) -> None:
    assert kind in _kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "date of birth 03041975", "DOB: 19750403", "DOB 030475", "Geburtsdatum 03041975", "né le 03041975",
        "fecha de nacimiento 03041975", "data di nascita: 03041975", "geboren op 03041975",
    ],
)  # fmt: skip
def test_a_day_of_digits_behind_the_word_for_birth_is_found(text: str) -> None:
    assert "date-of-birth" in _kinds(text)


@pytest.mark.parametrize(
    "text", ["my account is 31926819", "Konto 31926819 bei der Sparkasse", "account number 31926819"]
)
def test_an_account_of_eight_digits_behind_its_name_is_found(text: str) -> None:
    assert "bank-account" in _kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "version I, II, III and IV of the treaty", "it took 10s 5 times, then 20s", "B52 and S300 and 4Z",
        "born with 12345678 stars", "the file 20240403 was released", "konto 4711 im Kontenplan",
        "a <b>1</b> and <b>2</b>", '"a" + "b"', "the drac unit", "O0O0O0O0O0O0", "x=\ny",
        "the word cnffjbeq is rot13",
    ],
)  # fmt: skip
def test_what_only_looks_disguised_is_none(text: str) -> None:
    assert _kinds(text) == set()


def test_letters_are_digits_only_among_more_digits() -> None:
    assert with_digits(canonical("SOLOS lOOSE BOSS 1 SELL"), Work()) is None
    view = with_digits(canonical("no 4S39 466O 8879"), Work())
    assert view is not None
    assert "4539 4660 8879" in view.text
    assert view.origin(3, 17) == (3, 17)
