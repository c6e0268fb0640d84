"""Identifiers of people and accounts: what is one, and what only looks like one."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level
from gateway.sensitivity import identifiers, views
from gateway.sensitivity.detectors import build_detectors
from tests.unit.sensitivity import vectors

DETECTORS = build_detectors()


def kinds(text: str) -> list[str]:
    """Kinds found, by place."""
    return [finding.kind for finding in DETECTORS.find(text)]


def matched(text: str) -> list[str]:
    """Texts found, by place."""
    return [text[finding.start : finding.end] for finding in DETECTORS.find(text)]


def grouped(digits: str, *sizes: int, by: str = " ") -> str:
    """`digits` cut into groups of these sizes."""
    parts, place = [], 0
    for size in sizes:
        parts.append(digits[place : place + size])
        place += size
    return by.join(parts)


CARD = vectors.card("4539", 16, 1)


@pytest.mark.parametrize(
    ("prefix", "length"),
    [
        ("4", 16),
        ("4", 19),
        ("51", 16),
        ("55", 16),
        ("2221", 16),
        ("2720", 16),
        ("34", 15),
        ("37", 15),
        ("36", 14),
        ("305", 14),
        ("6011", 16),
        ("65", 16),
        ("3528", 16),
        ("3589", 19),
        ("62", 17),
        ("2202", 16),
        ("6759", 18),
        ("5018", 16),
    ],
)
def test_finds_cards_of_every_issuer_without_context(prefix: str, length: int) -> None:
    number = vectors.card(prefix, length, 7)
    assert matched(f"see {number}, thanks") == [number]
    assert kinds(number) == ["payment-card"]


@pytest.mark.parametrize(
    ("prefix", "length"), [("2220", 16), ("2721", 16), ("1", 16), ("9", 16), ("4", 17), ("0", 16)]
)
def test_passes_numbers_that_no_issuer_gives(prefix: str, length: int) -> None:
    digits = vectors.card(prefix, length, 3)
    assert not identifiers.is_card_number(digits)
    assert kinds(f"value {digits} overflows") == []


def test_passes_a_wrong_check_digit() -> None:
    wrong = CARD[:-1] + str((int(CARD[-1]) + 1) % 10)
    assert kinds(f"card {wrong}") == []


@pytest.mark.parametrize(
    "sizes", [(4, 4, 4, 4), (8, 8), (4, 8, 4), (1,) * 16, (2,) * 8, (5, 5, 5, 1), (4, 12)]
)
@pytest.mark.parametrize("by", [" ", "-", ".", "_", " - ", "\n"])
def test_finds_cards_in_the_groups_that_people_write(sizes: tuple[int, ...], by: str) -> None:
    written = grouped(CARD, *sizes, by=by)
    assert matched(f"it is {written} ok") == [written]


def test_finds_an_american_express_card_in_its_own_groups() -> None:
    number = vectors.card("37", 15, 2)
    assert kinds(grouped(number, 4, 6, 5)) == ["payment-card"]
    assert kinds(grouped(number, 5, 5, 5)) == ["payment-card"]


def test_finds_a_card_behind_other_digits_of_a_run() -> None:
    written = grouped(CARD, 4, 4, 4, 4)
    assert matched(f"on 12 {written} 04/30")[0].endswith(written)


@pytest.mark.parametrize(
    "text",
    [
        "1748503543012",  # F52: a millisecond timestamp
        f"0.{CARD}",
        f"{CARD}.25",
        f"a{CARD}",
        f"{CARD}f",
        f"9{CARD}",
        f"{CARD}9{CARD}",
        grouped(CARD, 3, 5, 6, 2),
        "4 0 1 2 " + grouped(CARD, *(1,) * 16),
        vectors.card("4", 13, 5),
    ],
)
def test_passes_digits_that_only_pass_luhn(text: str) -> None:
    assert kinds(f"see {text} there") == []


def test_passes_the_parts_of_a_uuid() -> None:
    # F53: the last parts of this UUID hold a number with issuer and right check digit.
    number = vectors.card("4539", 16, 11)
    assert kinds(f"order 08ead908-dc5c-4d5d-{number[:4]}-{number[4:]} pending") == []
    assert kinds(f"card 12345678-1234-1234-{number[:4]}-{number[4:]} pending") == []


@pytest.mark.parametrize("written", [f"x{CARD}", grouped(CARD, 3, 5, 6, 2), vectors.card("4", 13, 5)])
def test_a_word_beside_it_makes_a_doubtful_number_a_card(written: str) -> None:
    assert kinds(f"credit card no: {written}") == ["payment-card"]
    assert kinds(f"PAN={written}") == ["payment-card"]


IBANS = [
    vectors.iban("DE", "370400440532013999"),
    vectors.iban("GB", "WEST12345698765999"),
    vectors.iban("NO", "86011117999"),
    vectors.iban("MT", "MALT011000012345MTLCAST999S"),
    vectors.iban("FR", "20041010050500013M02699"),
]


@pytest.mark.parametrize("number", IBANS)
def test_finds_ibans_compact_grouped_and_in_lower_case(number: str) -> None:
    spaced = " ".join(number[place : place + 4] for place in range(0, len(number), 4))
    for written in (number, spaced, number.lower(), spaced.replace(" ", "-"), " ".join(number)):
        assert matched(f"to {written}, please") == [written]
        assert kinds(written) == ["iban"]


@pytest.mark.parametrize("number", IBANS)
def test_passes_ibans_with_a_wrong_digit_or_length(number: str) -> None:
    wrong = number[:-1] + ("1" if number[-1] != "1" else "2")
    assert "iban" not in kinds(f"to {wrong} x")
    assert "iban" not in kinds(f"to {number[:-1]} x")
    assert "iban" not in kinds(f"to {number}7 x")
    assert "iban" not in kinds(f"sha{number}")


def test_a_false_start_does_not_hide_an_iban() -> None:
    assert matched(f"in 20 cases, at 2019 be 12 {IBANS[0]}") == [IBANS[0]]
    assert matched(f"IBAN{IBANS[0]}") == [IBANS[0]]


@pytest.mark.parametrize("written", ["513-42-5031", "513 42 5031", "513.42.5031"])
def test_finds_social_security_numbers_by_their_form(written: str) -> None:
    assert matched(f"it's {written}.") == [written]
    assert DETECTORS.find(written)[0].label.level is Level.RESTRICTED


@pytest.mark.parametrize(
    "written", ["513425031", "513-425031", "51342-5031", "513/42/5031", "5 1 3 4 2 5 0 3 1"]
)
def test_other_groupings_of_a_social_security_number_need_a_word(written: str) -> None:
    # F61: the tolerance is defined: one separator, none, mixed or single digits, each with a word.
    assert "us-ssn" not in kinds(f"ref {written}.")
    assert kinds(f"SSN: {written}.") == ["us-ssn"]


@pytest.mark.parametrize(
    "written", ["900-12-3456", "666-12-3456", "000-12-3456", "123-00-4567", "123-45-0000"]
)
def test_passes_social_security_numbers_never_issued(written: str) -> None:
    # F56: 900 to 999 are not social security numbers.
    assert "us-ssn" not in kinds(f"SSN {written}")


def test_passes_a_longer_part_number_around_a_social_security_form() -> None:
    assert kinds("part 7731-513-42-5031-22") == []


def test_finds_nhs_numbers_in_their_form_or_beside_a_word() -> None:
    number = vectors.nhs_number(4)
    assert kinds(f"see {grouped(number, 3, 3, 4)}") == ["uk-nhs"]
    assert "uk-nhs" in kinds(f"NHS {number}")
    assert "uk-nhs" in kinds(f"NHS no. {grouped(number, 3, 3, 4, by='-')}")
    assert "uk-nhs" in kinds("NHS " + "·".join(number))
    assert "uk-nhs" not in kinds(f"ref {number}")
    assert "uk-nhs" not in kinds(f"ref {grouped(number, 3, 3, 4, by='-')}")
    assert "uk-nhs" not in kinds(f"call me: {grouped(number, 3, 3, 4)}")
    assert "uk-nhs" not in kinds(f"NHS {number[:-1]}{(int(number[-1]) + 1) % 10}")


@pytest.mark.parametrize(
    "address",
    [
        "stellan.forsgren@northquay.se",
        "a+b@mail.dept.company.co.uk",
        "imogen (at) fenwickgarden (dot) co (dot) uk",
        "ruven[AT]klangwerk[PUNKT]de",
        "pär@sälj.se",
    ],
)
def test_finds_mail_addresses_as_confidential(address: str) -> None:
    findings = DETECTORS.find(f"Write to {address} please")
    assert [(finding.kind, finding.label.level) for finding in findings] == [("email", Level.CONFIDENTIAL)]


@pytest.mark.parametrize(
    "text",
    [
        "jane@example.com",
        "x@mail.example.org",
        "a@host.test",
        "git@github.com:org/repo",
        "logo@2x.png",
        "pkg@1.2.3",
        "@handle",
        "a@b",
    ],
)
def test_passes_what_is_no_address_of_a_person(text: str) -> None:
    assert kinds(f"see {text} there") == []


@pytest.mark.parametrize(
    "number",
    [
        "+34 612 555 019",
        "+1 (415) 555-2671",
        "+442079460123",
        "0049 30 901820",
        "01 42 68 53 00",  # F59
        "415-555-2671",
        "(415) 555-2671",
        "07700 900123",
        "080-5550-0177",
        "030/9018200",
    ],
)
def test_finds_telephone_numbers_by_their_form(number: str) -> None:
    findings = DETECTORS.find(f"it is {number}.")
    assert [(finding.kind, finding.label.level) for finding in findings] == [("phone", Level.CONFIDENTIAL)]


@pytest.mark.parametrize(
    "text", ["电话 13700001234", "phone: 555 0199", "Handy 0171 2345678", "tel. 22 33 44 55"]
)
def test_finds_telephone_numbers_beside_a_word(text: str) -> None:
    assert kinds(text) == ["phone"]


@pytest.mark.parametrize(
    "text",
    [
        "13700001234",
        "x+4412345678",
        "+999999999",
        "Phone: 1978-04-13 12:20:39",
        "2024-01-15 10 11",
        "+5 apples",
    ],
)
def test_passes_digits_that_are_no_telephone_number(text: str) -> None:
    assert kinds(f"see {text} there") == []


@pytest.mark.parametrize("text", vectors.BENIGN)
def test_passes_ordinary_text(text: str) -> None:
    assert kinds(text) == []


def test_an_iban_never_ends_behind_the_text() -> None:
    for text in ("IL10T1Y7", "DE89 3704", "NO93860"):
        view = views.View(text, "plain", None)
        assert all(end <= len(text) for _, end in identifiers.ibans(view, 0, len(text)))
    assert DETECTORS.find("IL10T1Y7") == ()
