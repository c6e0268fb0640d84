"""Identifiers of people and accounts, each with the check that makes it one.

Checksums are python-stdnum's. The rest is here: issuers and lengths, groupings, neighbours, words around.
Sources: ISO/IEC 7812 and the issuers' published ranges (cards), ISO 13616 and the SWIFT IBAN registry,
SSA POMS RM 10201 (US SSN), NHS Data Dictionary "NHS NUMBER", ITU-T E.164 and E.123 (telephone),
RFC 5321 and RFC 2606 (mail addresses).
"""

from __future__ import annotations

import re

from stdnum.gb import nhs

from gateway.domain.label import Tag
from gateway.sensitivity import numbers
from gateway.sensitivity.digits import NearWords, NumberRow
from gateway.sensitivity.examples import is_documented
from gateway.sensitivity.rule import Rule, Spans, is_word_byte, restricted
from gateway.sensitivity.views import CONTEXT_AFTER, CONTEXT_BEFORE, View

# --- Payment cards -------------------------------------------------------------------------------------

#: (first prefix, last prefix, allowed lengths). Prefixes of one row have the same number of digits.
_ISSUERS: tuple[tuple[int, int, frozenset[int]], ...] = (
    (4, 4, frozenset({13, 16, 19})),  # Visa
    (51, 55, frozenset({16})),  # Mastercard
    (2221, 2720, frozenset({16})),  # Mastercard, second series
    (34, 34, frozenset({15})),  # American Express
    (37, 37, frozenset({15})),
    (300, 305, frozenset({14, 16, 17, 18, 19})),  # Diners Club
    (309, 309, frozenset({14, 16, 17, 18, 19})),
    (36, 36, frozenset({14, 15, 16, 17, 18, 19})),
    (38, 39, frozenset({14, 16, 17, 18, 19})),
    (6011, 6011, frozenset({16, 17, 18, 19})),  # Discover
    (644, 649, frozenset({16, 17, 18, 19})),
    (65, 65, frozenset({16, 17, 18, 19})),
    (60, 60, frozenset({16})),  # RuPay
    (508, 508, frozenset({16})),
    (81, 82, frozenset({16, 17, 18, 19})),  # UnionPay, RuPay
    (62, 62, frozenset({16, 17, 18, 19})),  # UnionPay
    (3528, 3589, frozenset({16, 17, 18, 19})),  # JCB
    (2131, 2131, frozenset({15})),
    (1800, 1800, frozenset({15})),
    (2200, 2204, frozenset({16, 17, 18, 19})),  # Mir
    (2205, 2205, frozenset({16})),  # BORICA
    (9792, 9792, frozenset({16})),  # Troy
    (5018, 5018, frozenset(range(13, 20))),  # Maestro
    (5020, 5020, frozenset(range(13, 20))),
    (5038, 5038, frozenset(range(13, 20))),
    (5893, 5893, frozenset(range(13, 20))),
    (6304, 6304, frozenset(range(13, 20))),
    (6759, 6759, frozenset(range(13, 20))),
    (6761, 6763, frozenset(range(13, 20))),
    (636, 639, frozenset({16, 17, 18, 19})),  # InterPayment, Maestro
    (5019, 5019, frozenset({16})),  # Dankort
    (5060, 5061, frozenset({16, 18, 19})),  # Verve
    (5067, 5067, frozenset({16})),  # Elo
)
#: The same by the first four digits, so that a look-up and not a search decides.
_LENGTHS_BY_PREFIX: dict[str, frozenset[int]] = {}
for _low, _high, _lengths in _ISSUERS:
    _spread = 10 ** (4 - len(str(_low)))
    for _prefix in range(_low * _spread, (_high + 1) * _spread):
        _LENGTHS_BY_PREFIX[str(_prefix)] = _LENGTHS_BY_PREFIX.get(str(_prefix), frozenset()) | _lengths
_CARD_WORDS = (
    "card", "cards", "cc", "pan", "visa", "mastercard", "master card", "amex", "american express", "maestro",
    "discover", "diners", "jcb", "unionpay", "cardholder", "credit", "debit", "kreditkarte", "kreditkarten",
    "kartennummer", "karte", "carte", "carte bancaire", "cb", "tarjeta", "carta", "cartao", "creditcard",
    "card number", "ccnum", "ccnumber", "cvv", "cvc", "numero", "card no", "card num", "kaart",
    "kaartnummer", "kortnummer", "kort", "karta", "karty", "payment", "kreditkartennummer", "bankkarte",
    "carte bleue", "numero de carte", "numero de tarjeta", "numero di carta", "numero do cartao",
    "信用卡", "银行卡", "卡号", "カード", "카드", "карта", "карты",
)  # fmt: skip
_AMEX_GROUPS = ((4, 6, 5), (4, 6, 4))


def has_issuer(digits: str) -> bool:
    """Whether the number begins like an issuer's and has one of that issuer's lengths."""
    return len(digits) in _LENGTHS_BY_PREFIX.get(digits[:4], ())


def is_card_grouping(window: numbers.Window) -> bool:
    """Whether people or forms write card numbers in these groups."""
    sizes = window.sizes
    if len(sizes) == 1 or sizes in _AMEX_GROUPS:
        return True
    body = set(sizes[:-1])
    if all(size % 4 == 0 for size in body) and sizes[-1] <= 19:
        return True
    return len(body) == 1 and sizes[-1] <= sizes[0] and numbers.is_whole_row(window)


def is_card_number(digits: str) -> bool:
    """Whether 13 to 19 digits have an issuer and a right check digit, and are not all alike."""
    return len(set(digits)) > 2 and has_issuer(digits) and _luhn(digits)


def _luhn(digits: str) -> bool:
    data = digits.encode("ascii")
    return (sum(data[-1::-2]) + sum(data[-2::-2].translate(_DOUBLED)) - 48 * len(data)) % 10 == 0


#: Character of twice a digit, its own digits added up (7 → 14 → 5): 3 times as fast as python-stdnum.
_DOUBLED = bytes(48 + sum(divmod(2 * (code - 48), 10)) if 48 <= code < 58 else code for code in range(256))


def _is_number(digits: str) -> bool:
    return _luhn(digits) and len(set(digits)) > 2 and not is_documented("payment-card", digits)


def _looks_like_card(window: numbers.Window) -> bool:
    """An issuer, 14 digits or more (EAN codes of 13 begin with 4 too), a usual grouping, free edges."""
    return (
        has_issuer(window.digits)
        and is_card_grouping(window)
        and not numbers.is_fraction(window)
        and not numbers.touches_letters(window)
    )


#: Without a word beside it a number must look like a card; with one any 12 to 19 digits will do that begin
#: with 0 or 2 to 6 and have a right check digit.
PAYMENT_CARDS = NumberRow(
    frozenset(range(12, 20)),
    _is_number,
    _CARD_WORDS,
    _looks_like_card,
    frozenset(range(14, 20)),
    quick=lambda digits: len(digits) in _LENGTHS_BY_PREFIX.get(digits[:4], ()) and _luhn(digits),
    named=lambda digits: digits[0] in "023456",
)


# --- IBAN ----------------------------------------------------------------------------------------------

#: Length by country. Source: SWIFT IBAN registry, release 98.
IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27,
    "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28,
    "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23,
    "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
    "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21,
    "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28,
    "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22,
    "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25,
    "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip
_IBAN_SEPARATORS = b" \t\r\n._/-"
#: Only the beginning, so that one false start does not swallow a true one.
IBAN_START = (
    rb"(?i)(?:" + "|".join(sorted(IBAN_LENGTHS)).encode() + rb")[ \t\r\n._:/-]{0,2}[0-9][ ._-]?[0-9]"
    rb"(?:[ \t\r\n._/-]{0,3}[A-Z0-9]){4}"
)
#: The same written character by character. Apart, because it would double the cost of the other.
IBAN_SPELLED = rb"(?i)[A-Z][ ._-][A-Z][ ._-][0-9][ ._-][0-9](?:[ ._-][A-Z0-9]){4}"
_IBAN_NAME = re.compile(r"(?i)iban$")


def ibans(view: View, start: int, end: int) -> Spans:
    """The IBAN that begins at `start`, when its country's length and the mod-97 check hold."""
    data, text = view.data, view.text
    if is_word_byte(data, start - 1) and _IBAN_NAME.search(text[max(0, start - 4) : start]) is None:
        return
    length = IBAN_LENGTHS.get(text[start : start + 2].upper(), 0)
    place = start + length
    if length and place <= len(data) and data[start:place].isalnum():
        if not is_word_byte(data, place) and is_iban(text[start:place].upper()):
            yield start, place
        return
    characters: list[str] = []
    length, place, gap = 0, start, 0
    while place < len(data) and (not length or len(characters) < length):
        if data[place : place + 1].isalnum():
            characters.append(text[place].upper())
            gap = 0
            if len(characters) == 2:
                length = IBAN_LENGTHS.get("".join(characters), 0)
                if not length:
                    return
        elif data[place] in _IBAN_SEPARATORS or (data[place] == 0x3A and len(characters) == 2):
            gap += 1
            if gap > 3:
                return
        else:
            return
        place += 1
    if len(characters) != length or is_word_byte(data, place):
        return
    if is_iban("".join(characters)) and not _is_hash(data, start, place):
        yield start, place


_IN_DIGITS = {ord(letter): str(place) for place, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 10)}


def is_iban(number: str) -> bool:
    """Whether the check digits of a number of the right length hold (ISO 7064, mod 97-10)."""
    digits = (number[4:] + number[:4]).translate(_IN_DIGITS)
    return number[2:4].isdigit() and digits.isascii() and digits.isdigit() and int(digits) % 97 == 1


_HEX_GROUPS = re.compile(rb"[0-9a-f]{4,}(?:-[0-9a-f]{4,})+")


def _is_hash(data: bytes, start: int, end: int) -> bool:
    """Whether the span begins or ends inside a UUID or another hexadecimal row with hyphens."""
    if b"-" not in data[start:end]:
        return False
    first = max(0, start - 40)
    return any(
        match.start() + first < start or match.end() + first > end
        for match in _HEX_GROUPS.finditer(data[first : end + 40])
        if match.start() + first < end and match.end() + first > start
    )


# --- National numbers ----------------------------------------------------------------------------------

_SSN_WORDS = (
    "ssn", "ss", "social security", "socsec", "soc sec", "social", "tax id", "taxid", "tin", "taxpayer",
    "social security number", "social security no", "social security num", "ss no", "socialsecurity",
    "sozialversicherungsnummer", "seguro social", "securite sociale", "sociale zekerheid",
    "sicurezza sociale", "seguranca social", "социальное страхование", "社会安全", "社会保障",
)  # fmt: skip
_SSN_GROUPS = frozenset({(3, 2, 4), (3, 6), (5, 4), (9,), (1,) * 9})


def is_ssn(digits: str) -> bool:
    """Whether the area (not 000, 666, 900–999), group (not 00) and serial (not 0000) were ever issued."""
    is_area = digits[:3] not in {"000", "666"} and digits[0] != "9"
    return is_area and digits[3:5] != "00" and digits[5:] != "0000"


def _is_free_ssn(window: numbers.Window) -> bool:
    """Written 3-2-4 with one kind of separator, and nothing hanging on."""
    return (
        window.sizes == (3, 2, 4)
        and len(window.separators) == 1
        and "/" not in "".join(window.separators)
        and numbers.stands_alone(window)
        and not numbers.touches_letters(window)
    )


#: Written 3-2-4 they are known by their form. With one separator only, without, with mixed ones or digit by
#: digit, a word must stand beside them (5-4 is also a ZIP code).
US_SSNS = NumberRow(
    frozenset({9}),
    lambda digits: is_ssn(digits) and not is_documented("us-ssn", digits),
    _SSN_WORDS,
    _is_free_ssn,
    shapes=frozenset({(3, 2, 4)}),
    fits=lambda window: window.sizes in _SSN_GROUPS,
)

#: Words that say telephone; number rows share them.
PHONE_WORDS = (
    "phone", "phones", "tel", "telephone", "mobile", "cell", "cellphone", "call", "called", "calling", "dial",
    "fax", "whatsapp", "sms", "text me", "ring", "contact", "reach", "telefon", "handy", "mobil",
    "rufnummer", "telefonnummer", "handynummer", "mobilnummer", "anruf", "anrufen", "portable", "appel",
    "appelez", "appeler", "telefono", "movil", "llamar", "llame", "llama", "llamame", "cellulare", "telefone",
    "celular", "telemovel", "telefoon", "telefoonnummer", "bel", "bellen", "phone no", "phone number",
    "phone num", "ph", "hotline", "numero de telephone", "chiamare", "chiama", "ligue", "ligar",
    "komorka", "mob", "direct line", "landline", "mobiel", "gsm", "numer telefonu", "电话", "電話", "手机", "手機", "携帯", "联系", "連絡", "전화", "휴대",  # noqa: E501
    "телефон", "тел",
)  # fmt: skip
_PHONE_NEAR = NearWords([PHONE_WORDS])
_NHS_WORDS = ("nhs", "nhs no", "nhs number", "nhs num", "patient", "gp", "health", "medical", "chi")


def is_named_phone(window: numbers.Window) -> bool:
    """Whether a word nearby says telephone."""
    text = window.run.view.text
    before = text[max(0, window.run.start - CONTEXT_BEFORE) : window.run.start]
    return bool(_PHONE_NEAR.near(before) or _PHONE_NEAR.near(text[window.end : window.end + CONTEXT_AFTER]))


def _is_official_nhs(window: numbers.Window) -> bool:
    """3 3 4 with blanks. With hyphens or dots that is a North American telephone number first."""
    return window.separators == {" "} and numbers.stands_alone(window) and not is_named_phone(window)


UK_NHS_NUMBERS = NumberRow(
    frozenset({10}),
    lambda digits: len(set(digits)) > 1 and bool(nhs.is_valid(digits)),
    _NHS_WORDS,
    _is_official_nhs,
    shapes=frozenset({(3, 3, 4)}),
)

_PII, _PCI, _FIN, _PHI = Tag.PII, Tag.PCI, Tag.FIN, Tag.PHI

RULES: tuple[Rule, ...] = (
    Rule("payment-card", 2, restricted(_PCI), numbers.DIGIT_RUN, PAYMENT_CARDS),
    Rule("iban", 2, restricted(_FIN), IBAN_START, ibans),
    Rule("iban", 2, restricted(_FIN), IBAN_SPELLED, ibans),
    Rule("us-ssn", 2, restricted(_PII), numbers.DIGIT_RUN, US_SSNS),
    Rule("uk-nhs", 2, restricted(_PHI, _PII), numbers.DIGIT_RUN, UK_NHS_NUMBERS),
)
