"""Addresses, births and devices in the product's languages, and telephone numbers by region."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level
from gateway.sensitivity.detectors import build_detectors

DETECTORS = build_detectors()


def _found(text: str) -> set[tuple[str, Level]]:
    return {(finding.kind, finding.label.level) for finding in DETECTORS.find(text)}


@pytest.mark.parametrize(
    "text",
    [
        "send it to Orla Kavanagh, 31 Millrace Walk, Galway H91 X2Y4", "my landlord at 5 Cooper's Yard",
        "Tindra Holmqvist, Ekbacken 4, 752 37 Uppsala", "wohnhaft Lindenstraße 14, 50674 Köln",
        "12 rue de la Paix, 75002 Paris", "Calle Mayor 24, 3º B, Madrid", "Via Garibaldi 12, 20121 Milano",
        "Rua Augusta 1500, São Paulo", "Keizersgracht 123, 1015 CJ Amsterdam", "広島市中区基町6-78",
        "广州市天河区体育西路 12 号", "서울특별시 강남구 테헤란로 152", "PO Box 287, Leeds",
        "ihre Anschrift: Am Markt 3, 04109 Leipzig", "mi dirección es Av. Libertad 200",
    ],
)  # fmt: skip
def test_finds_postal_addresses(text: str) -> None:
    assert ("postal-address", Level.CONFIDENTIAL) in _found(text)


@pytest.mark.parametrize(
    "text",
    [
        "10 Downing Street", "I read 12 Good Books", "Street View 2024", "the road to 5 Million users",
        "IP address is blocked", "see page 12 of the report", "第 12 章",
    ],
)  # fmt: skip
def test_passes_what_is_no_address_of_a_person(text: str) -> None:
    assert "postal-address" not in {kind for kind, _ in _found(text)}


@pytest.mark.parametrize(
    "text",
    [
        "born on 12 March 1980", "DOB: 03/04/1975", "Geburtsdatum: 03.04.1975", "geboren am 3. April 1975",
        "née le 3 avril 1975", "fecha de nacimiento: 3 de abril de 1975", "data di nascita 03/04/1975",
        "data de nascimento: 03/04/1975", "geboren op 3 april 1975", "生日：1980年3月4日",
        '{"birthDate": "1980-02-03"}',
    ],
)  # fmt: skip
def test_finds_dates_of_birth(text: str) -> None:
    assert ("date-of-birth", Level.CONFIDENTIAL) in _found(text)


@pytest.mark.parametrize(
    "text", ["due on 12 March 1980", "03.04.1975", "founded 1980-02-03", "released: 2024-01-15"]
)
def test_passes_other_dates(text: str) -> None:
    assert _found(text) == set()


#: F59: one form of each region that needs no word, and one that does.
REGIONS = {
    "fr": ("01 42 68 53 00", "portable 0612345678"), "us": ("415-555-2671", "call 4155552671"),
    "gb": ("020 7946 0958", "phone 02079460958"), "de": ("030/9018200", "Telefon 030 9018200"),
    "nl": ("06-12345678", "bel 0612345678"), "be": ("0470/12.34.56", "gsm 0470123456"),
    "ch": ("044 668 18 00", "Tel. 0446681800"), "se": ("070-123 45 67", "telefon 0701234567"),
    "au": ("0412 345 678", "mobile 0412345678"), "za": ("082 490 1693", "cell 0824901693"),
    "jp": ("080-5550-0177", "電話 08055500177"), "kr": ("010-1234-5678", "전화 01012345678"),
    "cn": ("138 0013 8000", "电话 13700001234"), "ru": ("8 912 345-67-89", "телефон 89123456789"),
    "in": ("98765 43210", "mobile 9876543210"), "es": ("+34 612 555 019", "tel 612 345 678"),
    "it": ("+39 347 123 4567", "cellulare 347 1234567"), "pt": ("+351 912 345 678", "telemóvel 912 345 678"),
    "br": ("(11) 98765-4321", "celular 11987654321"), "pl": ("+48 601 234 567", "telefon 601 234 567"),
}  # fmt: skip


@pytest.mark.parametrize("region", sorted(REGIONS))
def test_finds_telephone_numbers_of_each_region(region: str) -> None:
    for text in REGIONS[region]:
        assert ("phone", Level.CONFIDENTIAL) in _found(f"see {text} thanks"), text


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("client 84.17.42.9 logged in", {"ip-address"}), ("to 2a00:1450:4001:830::200e", {"ip-address"}),
        ("mac 3c:22:fb:9a:01:7e", {"mac-address"}), ("server 198.51.100.7 and 10.0.0.4", set()),
        ("version 84.17.42.9", set()), ("dns 8.8.8.8", set()), ("00:00:5e:00:53:af", set()),
        ("ff:ff:ff:ff:ff:ff", set()), ("at 10:22:33", set()), ("::1 and fe80::1", set()),
    ],
)  # fmt: skip
def test_tells_public_addresses_of_devices(text: str, kinds: set[str]) -> None:
    assert {kind for kind, _ in _found(text)} == kinds
