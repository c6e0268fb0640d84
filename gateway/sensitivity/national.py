"""National identifiers of persons, account and record numbers: a row is a name, a check and its words.

Digits with a one-digit check pass one number in ten, so each row of digits needs one of its words nearby.
A number of a form nobody else uses and a strong check stands alone. Checks are python-stdnum's.
Over 400 lines because it is a table, and one place to add a country.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from stdnum import luhn
from stdnum.ar import cuit
from stdnum.at import vnr
from stdnum.au import tfn
from stdnum.be import nn
from stdnum.bg import egn
from stdnum.br import cnpj, cpf
from stdnum.ca import sin
from stdnum.ch import ssn as ahv
from stdnum.cl import rut
from stdnum.cn import ric
from stdnum.cz import rc
from stdnum.de import idnr
from stdnum.dk import cpr
from stdnum.ec import ci as ec_ci
from stdnum.ee import ik
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nif as nif_fr
from stdnum.fr import nir
from stdnum.gb import utr
from stdnum.gr import amka
from stdnum.hr import oib
from stdnum.id import nik
from stdnum.ie import pps
from stdnum.il import idnr as il_idnr
from stdnum.in_ import aadhaar, pan
from stdnum.is_ import kennitala
from stdnum.it import codicefiscale
from stdnum.jp import in_ as my_number
from stdnum.kr import rrn
from stdnum.lt import asmens
from stdnum.mx import curp, rfc
from stdnum.my import nric
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.nz import ird
from stdnum.pl import nip, pesel
from stdnum.pt import cc
from stdnum.pt import nif as nif_pt
from stdnum.ro import cnp
from stdnum.ru import inn
from stdnum.se import personnummer
from stdnum.si import emso
from stdnum.th import pin
from stdnum.tr import tckimlik
from stdnum.us import itin, rtn
from stdnum.za import idnr as za_idnr

from gateway.domain.label import Label, Tag
from gateway.sensitivity import numbers
from gateway.sensitivity.digits import NumberRow
from gateway.sensitivity.rule import Examine, Rule, Spans, Words, has_context, is_word_byte, restricted
from gateway.sensitivity.views import View

Check = Callable[[str], bool]


def is_au_medicare(digits: str) -> bool:
    """Whether the ninth digit checks the eight before. Source: Services Australia, Medicare card number."""
    weighted = sum(
        weight * int(digit) for weight, digit in zip((1, 3, 7, 9, 1, 3, 7, 9), digits, strict=False)
    )
    return digits[0] in "23456" and weighted % 10 == int(digits[8])


def is_snils(digits: str) -> bool:
    """Whether the last two digits check the nine before. Source: Pension Fund of Russia, SNILS."""
    weighted = sum((9 - place) * int(digit) for place, digit in enumerate(digits[:9])) % 101
    return len(set(digits)) > 2 and weighted % 100 == int(digits[9:])


def is_bsn(digits: str) -> bool:
    """Whether the eleven-test of a Dutch citizen service number holds."""
    return len(set(digits)) > 1 and bool(bsn.is_valid(digits))


def is_ein(digits: str) -> bool:
    """Whether the prefix of an employer's number was given out, or, as the newest are unlisted, is not 00."""
    return digits[:2] not in {"00", "07", "08", "09"} and len(set(digits)) > 2


def is_routing(digits: str) -> bool:
    """Whether a routing number has a Federal Reserve district and a right check digit."""
    return digits[:2] != "00" and bool(rtn.is_valid(digits))


#: (kind, numbers of digits, check, words one of which must stand near). Words as `NumberRow` wants them.
_DIGITS: tuple[tuple[str, tuple[int, ...], Check, tuple[str, ...]], ...] = (
    ("ar-cuit", (11,), cuit.is_valid, ("cuit", "cuil")),
    (
        "at-svnr",
        (10,),
        vnr.is_valid,
        ("svnr", "sozialversicherungsnummer", "versicherungsnummer", "sv nummer"),
    ),
    (
        "au-medicare",
        (10, 11),
        is_au_medicare,
        ("medicare", "medicare card", "medicare number", "medicare no"),
    ),
    ("au-tfn", (8, 9), tfn.is_valid, ("tfn", "tax file", "tax file number")),
    (
        "be-nn",
        (11,),
        nn.is_valid,
        ("rijksregister", "rijksregisternummer", "registre national", "niss", "insz", "numero national"),
    ),
    ("bg-egn", (10,), egn.is_valid, ("egn", "егн")),
    ("br-cpf", (11,), cpf.is_valid, ("cpf", "contribuinte")),
    ("br-cnpj", (14,), cnpj.is_valid, ("cnpj",)),
    ("ca-sin", (9,), sin.is_valid, ("sin", "social insurance", "nas", "assurance sociale")),
    ("cl-rut", (8, 9), rut.is_valid, ("rut", "run", "rol unico")),
    (
        "cn-ric",
        (18,),
        ric.is_valid,
        (
            "身份证",
            "证件",
            "公民身份",
            "身份號碼",
            "身份号码",
            "id card",
            "resident id",
            "identity",
            "shenfenzheng",
        ),
    ),
    ("cz-rc", (9, 10), rc.is_valid, ("rodne cislo", "rc", "birth number")),
    (
        "de-idnr",
        (11,),
        idnr.is_valid,
        (
            "steuer id",
            "steuerid",
            "idnr",
            "identifikationsnummer",
            "steuernummer",
            "tax id",
            "tin",
            "steueridentifikationsnummer",
            "steuerliche identifikationsnummer",
            "steuer idnr",
            "steueridnr",
        ),
    ),
    ("dk-cpr", (10,), cpr.is_valid, ("cpr", "personnummer", "cpr nummer", "cpr nr")),
    ("ec-ci", (10,), ec_ci.is_valid, ("cedula", "ci", "cedula de identidad")),
    ("ee-ik", (11,), ik.is_valid, ("isikukood", "personal code")),
    ("fr-nif", (13,), nif_fr.is_valid, ("numero fiscal", "nif", "spi", "reference fiscale")),
    (
        "fr-nir",
        (15,),
        nir.is_valid,
        ("nir", "insee", "securite sociale", "secu", "numero de ss", "vitale", "carte vitale", "num secu"),
    ),
    ("gb-utr", (10,), utr.is_valid, ("utr", "unique taxpayer", "taxpayer reference", "self assessment")),
    ("gr-amka", (11,), amka.is_valid, ("amka", "αμκα")),
    ("hr-oib", (11,), oib.is_valid, ("oib",)),
    ("id-nik", (16,), nik.is_valid, ("nik", "ktp", "nomor induk")),
    ("il-idnr", (9,), il_idnr.is_valid, ("teudat zehut", "israeli id", "תעודת זהות", "mispar zehut")),
    ("in-aadhaar", (12,), aadhaar.is_valid, ("aadhaar", "aadhar", "adhar", "uidai", "uid", "आधार")),
    ("is-kennitala", (10,), kennitala.is_valid, ("kennitala",)),
    (
        "jp-my-number",
        (12,),
        my_number.is_valid,
        ("my number", "mynumber", "個人番号", "マイナンバー", "kojin bango"),
    ),
    ("kr-rrn", (13,), rrn.is_valid, ("rrn", "주민등록번호", "주민번호", "resident registration")),
    ("lt-asmens", (11,), asmens.is_valid, ("asmens kodas",)),
    ("my-nric", (12,), nric.is_valid, ("nric", "mykad", "kad pengenalan", "ic no", "ic number")),
    ("nl-bsn", (8, 9), is_bsn, ("bsn", "burgerservicenummer", "sofinummer", "burgerservice", "bsn nummer")),
    (
        "no-fnr",
        (11,),
        fodselsnummer.is_valid,
        ("fodselsnummer", "fnr", "personnummer", "fødselsnummer", "f?dselsnummer"),
    ),
    ("nz-ird", (8, 9), ird.is_valid, ("ird", "inland revenue")),
    ("pl-nip", (10,), nip.is_valid, ("nip",)),
    ("pl-pesel", (11,), pesel.is_valid, ("pesel",)),
    ("pt-nif", (9,), nif_pt.is_valid, ("nif", "contribuinte", "numero fiscal", "identificacao fiscal")),
    ("ro-cnp", (13,), cnp.is_valid, ("cnp", "cod numeric personal")),
    ("ru-inn", (10, 12), inn.is_valid, ("inn", "инн")),
    ("ru-snils", (11,), is_snils, ("snils", "снилс")),
    ("se-pnr", (10, 12), personnummer.is_valid, ("personnummer", "pnr", "personal number", "person nr")),
    ("si-emso", (13,), emso.is_valid, ("emso", "jmbg")),
    ("th-pin", (13,), pin.is_valid, ("บัตรประชาชน", "เลขประจำตัว", "thai id", "national id")),
    ("tr-tckimlik", (11,), tckimlik.is_valid, ("tc kimlik", "tckn", "kimlik no", "kimlik", "t c kimlik")),
    (
        "us-ein",
        (9,),
        is_ein,
        (
            "ein",
            "fein",
            "employer identification",
            "tax id",
            "federal tax",
            "tin",
            "taxpayer",
            "federal tax id",
        ),
    ),
    ("us-itin", (9,), itin.is_valid, ("itin", "tax id", "taxpayer", "tin", "individual taxpayer")),
    (
        "us-aba-routing",
        (9,),
        is_routing,
        ("routing", "aba", "rtn", "wire", "routing number", "transit", "ach", "routing no"),
    ),
    (
        "us-npi",
        (10,),
        lambda digits: digits[0] in "12" and bool(luhn.is_valid("80840" + digits)),
        ("npi", "provider", "national provider", "prescriber", "physician", "provider id"),
    ),
    (
        "za-id",
        (13,),
        za_idnr.is_valid,
        ("id number", "sa id", "south african id", "identity number", "rsa id"),
    ),
)

#: Numbers whose usual grouping and check are proof enough without a word: (kind, grouping, separators).
_BY_FORM: dict[str, tuple[tuple[int, ...], str]] = {
    "br-cpf": ((3, 3, 3, 2), "..-"),
    "br-cnpj": ((2, 3, 3, 4, 2), "../-"),
    "kr-rrn": ((6, 7), "-"),
    "ar-cuit": ((2, 8, 1), "--"),
    "be-nn": ((2, 2, 2, 3, 2), "..-."),
    "fr-nir": ((1, 2, 2, 2, 3, 3, 2), "      "),
    "ru-snils": ((3, 3, 3, 2), "-- "),
    "us-itin": ((3, 2, 4), "--"),
    "se-pnr": ((8, 4), "-"),
}


def _form_of(kind: str) -> Callable[[numbers.Window], bool] | None:
    if kind not in _BY_FORM:
        return None
    _, separators = _BY_FORM[kind]

    def has_form(window: numbers.Window) -> bool:
        spans, text = window.run.spans, window.run.view.text
        between = "".join(
            text[spans[place][1] : spans[place + 1][0]] for place in range(window.first, window.last)
        )
        return (
            between == separators
            and window.gap_before() not in window.separators
            and window.gap_after() not in window.separators
            and not numbers.touches_letters(window)
        )

    return has_form


def number_row(kind: str, lengths: tuple[int, ...], check: Check, words: tuple[str, ...]) -> NumberRow:
    """The row as the reader of digits takes it."""
    form = _form_of(kind)
    shapes = frozenset({_BY_FORM[kind][0]}) if form is not None else frozenset()
    fits = _is_ein_form if kind == "us-ein" else _is_whole
    return NumberRow(frozenset(lengths), check, words, form, shapes=shapes, fits=fits)


def _is_whole(_window: numbers.Window) -> bool:
    return True


def _is_ein_form(window: numbers.Window) -> bool:
    """2-7 as it is written, without a separator, or digit by digit."""
    return window.sizes in {(2, 7), (9,), (1,) * 9}


def lettered(check: Check, expression: Words | None, drop: str = " .-") -> Examine:
    """Examiner of a number with letters: free edges, a check, and a word nearby unless None.

    `drop` are the signs that are not part of the number.
    """
    without = {ord(sign): None for sign in drop}

    def examine(view: View, start: int, end: int) -> Spans:
        if is_word_byte(view.data, start - 1) or is_word_byte(view.data, end):
            return
        number = view.text[start:end].translate(without).upper()
        if check(number) and (expression is None or has_context(view, start, end, expression)):
            yield start, end

    return examine


_NINO = re.compile(r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z][0-9]{6}[A-D]")
_PII, _FIN, _PHI = restricted(Tag.PII), restricted(Tag.FIN), restricted(Tag.PHI, Tag.PII)
_LABELS = {"us-aba-routing": _FIN, "us-npi": _PHI, "au-medicare": _PHI, "us-ein": _FIN, "br-cnpj": _FIN}

_SIGNS = " ._-"


def is_sg_nric(number: str) -> bool:
    """Whether the last letter of a Singapore identity number checks its digits. Source: ICA, by weights."""
    total = sum(w * int(d) for w, d in zip((2, 7, 6, 5, 4, 3, 2), number[1:8], strict=True))
    total += {"T": 4, "G": 4, "M": 3}.get(number[0], 0)
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK"}
    letters["M"] = "KLJNPQRTUWX"
    place = 10 - total % 11 if number[0] == "M" else total % 11
    return letters[number[0]][place] == number[8]


def is_tw_id(number: str) -> bool:
    """Whether the digits of a Taiwan identity number check. Source: Ministry of the Interior, by weights."""
    code = "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(number[0]) + 10
    weights = (8, 7, 6, 5, 4, 3, 2, 1, 1)
    total = code // 10 + 9 * (code % 10)
    total += sum(w * int(d) for w, d in zip(weights, number[1:], strict=True))
    return total % 10 == 0


def is_de_svnr(number: str) -> bool:
    """Whether a German pension insurance number checks. Source: VKVV §4."""
    letter = ord(number[8]) - 64
    digits = [int(digit) for digit in f"{number[:8]}{letter:02d}{number[9:]}"]
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = sum(sum(divmod(w * d, 10)) for w, d in zip(weights, digits, strict=False))
    return total % 10 == digits[12]


def is_hk_id(number: str) -> bool:
    """Whether the check character of a Hong Kong identity number holds. Source: Immigration Department."""
    body, check = number[:-1], number[-1]
    body = body.rjust(8)
    values = [36 if sign == " " else int(sign, 36) for sign in body]
    total = sum((9 - place) * value for place, value in enumerate(values))
    return check in "0123456789A" and (total + int(check, 16)) % 11 == 0


#: (kind, label, pattern, check, words or none, signs that are not part of the number).
_LETTERED: tuple[tuple[str, Label, bytes, Check, tuple[str, ...], str], ...] = (
    (
        "es-dni", _PII, rb"[0-9][ ._-]?[0-9][ ._-]?[0-9]{3}[ ._-]?[0-9]{3}[ ._-]?[A-Za-z]", dni.is_valid,
        (r"d\.?n\.?i", "nif", "documento", "identidad", "titular", "cedula"), _SIGNS,
    ),
    ("es-nie", _PII, rb"(?i)[XYZ][ ._-]?[0-9](?:[ .]?[0-9]){6}[ ._-]?[A-Z]", nie.is_valid, (), _SIGNS),
    (
        "it-codice-fiscale", _PII,
        rb"(?i)[A-Z]{3}[ -]?[A-Z]{3}[ -]?[0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{2}[ -]?[A-Z][0-9LMNP-V]{3}[A-Z]",
        codicefiscale.is_valid, (), _SIGNS,
    ),
    (
        "in-pan", _PII, rb"(?i)[A-Z]{5}[ -]?[0-9]{4}[ -]?[A-Z]", pan.is_valid,
        ("pan", "income tax", "kyc", "permanent account"), _SIGNS,
    ),
    ("fi-hetu", _PII, rb"(?i)[0-9]{6}[-+A-FU-Y][0-9]{3}[0-9A-Y]", hetu.is_valid, (), ""),
    ("ch-ahv", _PII, rb"756[. -]?[0-9]{4}[. -]?[0-9]{4}[. -]?[0-9]{2}", ahv.is_valid, (), _SIGNS),
    ("cn-ric", _PII, rb"[0-9]{6}[ -]?[0-9]{8}[ -]?[0-9]{3}[Xx]", ric.is_valid, (), _SIGNS),
    (
        "uk-nino", _PII, rb"(?i)[A-Z]{2}(?:[ ._-]?[0-9]{2}){3}[ ._-]?[A-D]",
        lambda number: _NINO.fullmatch(number) is not None,
        ("nino", "ni", "national insurance", "insurance", "hmrc", "payroll", r"n\.i"), _SIGNS,
    ),
    (
        "ie-pps", _PII, rb"(?i)[0-9]{7}[A-W][A-IW]?", pps.is_valid,
        ("pps", "ppsn", "personal public service"), _SIGNS,
    ),
    ("mx-curp", _PII, rb"(?i)[A-Z]{4}[0-9]{6}[HM][A-Z]{5}[0-9A-Z][0-9]", curp.is_valid, (), _SIGNS),
    (
        "mx-rfc", _PII, rb"(?i)[A-Z?]{3,4}[ -]?[0-9]{6}[ -]?[0-9A-Z]{3}", rfc.is_valid,
        ("rfc", "contribuyentes"), _SIGNS,
    ),
    ("sg-nric", _PII, rb"[STFGM][0-9]{7}[A-Z]", is_sg_nric, ("nric", "fin", "singapore", "ic"), _SIGNS),
    ("tw-id", _PII, rb"[A-Z][12][0-9]{8}", is_tw_id, ("身分證", "身份證", "taiwan", "national id", "id"), _SIGNS),  # noqa: E501
    (
        "hk-id", _PII, rb"[A-Z]{1,2}[0-9]{6}\(?[0-9A]\)?", is_hk_id,
        ("hkid", "hong kong", "身份證", "identity card"), " ()._-",
    ),
    (
        "de-svnr", _PII, rb"[0-9]{2}[ ]?[0-9]{6}[ ]?[A-Z][ ]?[0-9]{3}", is_de_svnr,
        (r"sozialversicherung[a-z]*", r"rentenversicherung[a-z]*", "versicherungsnummer", "rvnr", "svnr", "sv-nummer"),  # noqa: E501
        _SIGNS,
    ),
    (
        "pt-cc", _PII, rb"[0-9]{8}[ ]?[0-9][ ]?[A-Z][A-Z0-9][0-9]", cc.is_valid,
        ("cartao de cidadao", "cidadao", "cc"), _SIGNS,
    ),
    (
        "cl-rut", _PII, rb"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-[0-9Kk]", rut.is_valid,
        ("rut", "run", "rol unico"), _SIGNS,
    ),
    (
        "gb-driving-licence", _PII, rb"[A-Z9]{5}[0-9][0156][0-9][0-3][0-9]{2}[A-Z9]{2}[0-9][A-Z]{2}",
        lambda _number: True, (), "",
    ),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *(
        Rule(kind, 2, _LABELS.get(kind, _PII), numbers.DIGIT_RUN, number_row(kind, lengths, check, words))
        for kind, lengths, check, words in _DIGITS
    ),
    *(
        Rule(kind, 2, label, pattern, lettered(check, Words(*words) if words else None, drop))
        for kind, label, pattern, check, words, drop in _LETTERED
    ),
)
