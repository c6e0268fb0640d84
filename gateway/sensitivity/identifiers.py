"""Identifiers of people and accounts, each with the check that makes it one.

Checksums are python-stdnum's. The rest is here: issuers and lengths, groupings, neighbours, words around.
Sources: ISO/IEC 7812 and the issuers' published ranges (cards), ISO 13616 and the SWIFT IBAN registry,
SSA POMS RM 10201 (US SSN), NHS Data Dictionary "NHS NUMBER", ITU-T E.164 and E.123 (telephone),
RFC 5321 and RFC 2606 (mail addresses).
"""

from __future__ import annotations

import re

from stdnum import luhn
from stdnum.gb import nhs
from stdnum.iso7064 import mod_97_10

from gateway.domain.label import Tag
from gateway.sensitivity import numbers
from gateway.sensitivity.examples import is_documented
from gateway.sensitivity.rule import Rule, Spans, Words, confidential, has_context, is_word_byte, restricted
from gateway.sensitivity.views import View

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
_CARD_WORDS = Words(
    r"cards?", "cc", "pan", "visa", "mastercard", "master card", "amex", "american express", "maestro",
    "discover", "diners", "jcb", "unionpay", "cardholder", "credit", "debit", "kreditkarte",
    "kartennummer", "karte", "carte", "tarjeta", "carta", "cartao", "creditcard", "cardnumber", "ccnum",
    "cvv", "cvc", "numero", "card[_ ]?(?:no|number|num)", "kaart(?:nummer)?", "kortnummer", "kort",
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
    return len(set(digits)) > 2 and has_issuer(digits) and luhn.is_valid(digits)


def payment_cards(view: View, start: int, end: int) -> Spans:
    """Card numbers in a run of digits.

    Without a word beside it a number needs an issuer, 14 digits or more (EAN codes of 13 begin with 4 too),
    a usual grouping and free edges. With a word any 12 to 19 digits will do that begin with 0 or 2 to 6 and
    have a right check digit.
    """
    run = numbers.read_run(view, start, end)
    for window in numbers.windows(run, 12, 19):
        digits = window.digits
        named = digits[0] in "023456" and window.has_context(_CARD_WORDS)
        if not (named or (len(digits) > 13 and has_issuer(digits))) or luhn.checksum(digits) != 0:
            continue
        plain = (
            has_issuer(digits)
            and is_card_grouping(window)
            and not numbers.is_fraction(window)
            and not numbers.touches_letters(window)
        )
        if not (named or plain) or len(set(digits)) <= 2 or is_documented("payment-card", digits):
            continue
        if not numbers.in_uuid(window):
            yield window.start, window.end


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
    number = "".join(characters)
    if number[2:4].isdigit() and mod_97_10.is_valid(number[4:] + number[:4]):
        yield start, place


# --- National numbers ----------------------------------------------------------------------------------

_SSN_WORDS = Words(
    "ssn", "ss#", "social security", "socsec", "soc sec", "tax ?id", "tin", "itin", "taxpayer",
    r"social[_ ]?security(?:[_ ]?(?:no|number|num))?", "ss ?no",
)  # fmt: skip
_SSN_GROUPS = ((3, 2, 4), (3, 6), (5, 4), (9,), (1,) * 9)


def is_ssn(digits: str) -> bool:
    """Whether the area (not 000, 666, 900–999), group (not 00) and serial (not 0000) were ever issued."""
    is_area = digits[:3] not in {"000", "666"} and digits[0] != "9"
    return is_area and digits[3:5] != "00" and digits[5:] != "0000"


def us_ssns(view: View, start: int, end: int) -> Spans:
    """US social security numbers.

    Written 3-2-4 with one kind of separator they are known by their form. With one separator only, without,
    with mixed ones or digit by digit, a word must stand beside them (5-4 is also a ZIP code).
    """
    run = numbers.read_run(view, start, end)
    for window in numbers.windows(run, 9, 9):
        if window.sizes not in _SSN_GROUPS or not is_ssn(window.digits):
            continue
        if is_documented("us-ssn", window.digits) or numbers.in_uuid(window):
            continue
        by_form = (
            window.sizes == (3, 2, 4)
            and len(window.separators) == 1
            and "/" not in "".join(window.separators)
            and numbers.stands_alone(window)
            and not numbers.touches_letters(window)
        )
        if by_form or window.has_context(_SSN_WORDS):
            yield window.start, window.end


_NHS_WORDS = Words("nhs", "nhs[_ ]?(?:no|number|num)", "patient", "gp", "health", "medical", "chi")
_PHONE_WORDS = Words(
    "phones?", "tel", "telephone", "mobile", "cell", "cellphone", "call", "called", "calling", "dial",
    "fax", "whatsapp", "sms", "text me", "ring", "contact", "reach", "telefon", "handy", "mobil",
    "rufnummer", "anruf", "portable", "appel(?:ez|er)?", "telefono", "movil", "llam(?:ar|e|a)",
    "cellulare", "telefone", "celular", "telefoon", "telefoonnummer", "bel",
    "phone[_ ]?(?:no|number|num)", "ph", "hotline", "extension", "电话", "電話", "手机", "手機",
    "携帯", "联系", "連絡", "전화", "휴대",
)  # fmt: skip


def uk_nhs_numbers(view: View, start: int, end: int) -> Spans:
    """UK NHS numbers: mod 11, and either the official 3 3 4 with spaces or a word beside them.

    With hyphens or dots 3-3-4 is a North American telephone number first, so a word is needed.
    """
    run = numbers.read_run(view, start, end)
    for window in numbers.windows(run, 10, 10):
        if not nhs.is_valid(window.digits) or len(set(window.digits)) == 1 or numbers.in_uuid(window):
            continue
        official = (
            window.sizes == (3, 3, 4)
            and window.separators == {" "}
            and numbers.stands_alone(window)
            and not is_named_phone(window)
        )
        if official or window.has_context(_NHS_WORDS):
            yield window.start, window.end


# --- Contact -------------------------------------------------------------------------------------------

EMAIL = rb"[A-Za-z0-9._%+'-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
#: `name (at) host (dot) org`, in brackets of any kind, in a few languages.
EMAIL_IN_WORDS = (
    rb"(?i)[a-z0-9._%+-]+ ?[\[({<] ?(?:at|a|arroba|chez|chiocciola) ?[\])}>] ?[a-z0-9-]+"
    rb"(?: ?[\[({<] ?(?:dot|punkt|punto|point|ponto|d) ?[\])}>] ?[a-z0-9-]+)+"
)
#: Source: RFC 2606, RFC 6761, RFC 9476.
_RESERVED_DOMAIN = re.compile(
    rb"(?i)(?:^|\.)(?:example(?:\.(?:com|net|org|edu))?|test|invalid|localhost|alt|local)$"
)
_FILE_NAME = re.compile(
    rb"(?i)\.(?:png|jpe?g|gif|svg|webp|ico|css|s?js|tsx?|py|rb|go|rs|md|html?|json|ya?ml)$"
)


def email_addresses(view: View, start: int, end: int) -> Spans:
    """A mail address, unless its domain is reserved for documentation or it is a file or a git remote."""
    found = view.data[start:end]
    local, _, domain = found.rpartition(b"@")
    if not domain.rsplit(b".", 1)[-1].isalpha() or len(domain.rsplit(b".", 1)[-1]) < 2:
        return
    if _RESERVED_DOMAIN.search(domain) or _FILE_NAME.search(domain):
        return
    if local == b"git" and view.data[end : end + 1] in {b":", b"/"}:
        return
    yield start, end


def written_out_email(_view: View, start: int, end: int) -> Spans:
    """A mail address with its signs in words: the brackets are proof enough."""
    yield start, end


#: Country calling codes. Source: ITU-T E.164 list of assigned codes.
_CALLING_CODES = frozenset(
    (  # noqa: SIM905
        "1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 "
        "66 81 82 84 86 90 91 92 93 94 95 98 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 "
        "231 232 233 234 235 236 237 238 239 240 241 242 243 244 245 246 247 248 249 250 251 252 253 254 255 "
        "256 257 258 260 261 262 263 264 265 266 267 268 269 290 291 297 298 299 350 351 352 353 354 355 356 "
        "357 358 359 370 371 372 373 374 375 376 377 378 380 381 382 383 385 386 387 389 420 421 423 500 501 "
        "502 503 504 505 506 507 508 509 590 591 592 593 594 595 596 597 598 599 670 672 673 674 675 676 677 "
        "678 679 680 681 682 683 685 686 687 688 689 690 691 692 800 808 850 852 853 855 856 870 878 880 881 "
        "882 883 886 888 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977 979 992 993 994 "
        "995 996 998 "
    ).split()
)
INTERNATIONAL_PHONE = rb"(?:\+|\b00)[ ]?[1-9](?:[ \t.()/_-]{0,3}[0-9]){6,}"
BRACKETED_PHONE = rb"\(0?[0-9]{2,5}\)[ ]?[0-9](?:[ ./-]{0,2}[0-9]){4,}"
#: A word and a number directly behind it; group 1 is the number.
PHONE_AFTER_WORD = (
    rb"(?i)(?:phone|telephone|tel|mobile|cell|fax|desk|office|telefono?|telefone|handy|mobil|movil|portable|celular"
    rb"|call (?:me|us|him|her|them)|reach (?:me|us|him|her|them)|answering|messages to|text me)"
    rb"(?:[ _-]?(?:no|nr|num|number))?\.?[\"']?[ \t]*(?:is|at|on|under|[:=#])?[ \t]*\r?\n?[\"' ]{0,3}"
    rb"([+(]?[0-9](?:[ ().x/-]{0,2}[0-9]){5,})"
)
_DATE = re.compile(r"(?:19|20)\d\d[-/. ](?:0[1-9]|1[0-2])[-/. ][0-3]\d")
#: Forms that are telephone numbers without a word: (groups as sizes, first digits).
_NATIONAL_FORMS = re.compile(
    r"0[1-9](?:([ .-])\d\d)(?:\1\d\d){3}"  # France
    r"|[2-9]\d\d([-.])[2-9]\d\d\2\d{4}"  # North America
    r"|1([-.])[2-9]\d\d\3[2-9]\d\d\3\d{4}"
    r"|07\d{3} \d{6}|07\d{3} \d{3} \d{3}"  # United Kingdom, mobile
    r"|020 [378]\d{3} \d{4}"
    r"|0[789]0-\d{4}-\d{4}"  # Japan, mobile
    r"|0\d{2,4}/\d{5,9}"  # Germany
    r"|01[0-9]-\d{3,4}-\d{4}"  # Korea
)


def is_named_phone(window: numbers.Window) -> bool:
    """Whether a word nearby says telephone."""
    return window.has_context(_PHONE_WORDS)


def _digits(view: View, start: int, end: int) -> str:
    return "".join(filter(str.isdigit, view.text[start:end]))


def international_phones(view: View, start: int, end: int) -> Spans:
    """`+` or `00`, an assigned calling code, 8 to 15 digits in all."""
    digits = _digits(view, start, end)
    if view.data[start : start + 1] != b"+":
        digits = digits[2:]
        named = has_context(view, start, end, _PHONE_WORDS)
        if not named and not re.search(r"[ ()/-]", view.text[start:end]):
            return
    elif is_word_byte(view.data, start - 1):
        return
    if 8 <= len(digits) <= 15 and any(digits[:size] in _CALLING_CODES for size in (1, 2, 3)):
        yield start, end


def bracketed_phones(view: View, start: int, end: int) -> Spans:
    """An area code in brackets and a subscriber's number."""
    if 9 <= len(_digits(view, start, end)) <= 13 and not is_word_byte(view.data, start - 1):
        yield start, end


def named_phones(view: View, start: int, end: int) -> Spans:
    """Six to fifteen digits directly behind a word that says telephone."""
    if 6 <= len(_digits(view, start, end)) <= 15 and _DATE.match(view.text, start) is None:
        yield start, end


def national_phones(view: View, start: int, end: int) -> Spans:
    """A national number: by its form alone, or with 9 to 12 digits and a word beside it."""
    run = numbers.read_run(view, start, end)
    for window in numbers.windows(run, 9, 12):
        if numbers.touches_letters(window) or not numbers.stands_alone(window) or numbers.in_uuid(window):
            continue
        if _DATE.match(view.text, window.start) is not None:
            continue
        by_form = _NATIONAL_FORMS.fullmatch(view.text[window.start : window.end]) is not None
        if by_form or (len(window.sizes) <= 6 and is_named_phone(window)):
            yield window.start, window.end


_PII, _PCI, _FIN, _PHI = Tag.PII, Tag.PCI, Tag.FIN, Tag.PHI

RULES: tuple[Rule, ...] = (
    Rule("payment-card", 1, restricted(_PCI), numbers.DIGIT_RUN, payment_cards),
    Rule("iban", 1, restricted(_FIN), IBAN_START, ibans),
    Rule("iban", 1, restricted(_FIN), IBAN_SPELLED, ibans),
    Rule("us-ssn", 1, restricted(_PII), numbers.DIGIT_RUN, us_ssns),
    Rule("uk-nhs", 1, restricted(_PHI, _PII), numbers.DIGIT_RUN, uk_nhs_numbers),
    Rule("email", 1, confidential(_PII), EMAIL, email_addresses),
    Rule("email", 1, confidential(_PII), EMAIL_IN_WORDS, written_out_email),
    Rule("phone", 1, confidential(_PII), INTERNATIONAL_PHONE, international_phones),
    Rule("phone", 1, confidential(_PII), BRACKETED_PHONE, bracketed_phones),
    Rule("phone", 1, confidential(_PII), PHONE_AFTER_WORD, named_phones),
    Rule("phone", 1, confidential(_PII), numbers.DIGIT_RUN, national_phones),
)
