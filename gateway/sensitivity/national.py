"""National identifiers of persons, account and record numbers: a row is a name, a check and its words.

Digits with a one-digit check pass one number in ten, so each row of digits needs one of its words nearby.
A number of a form nobody else uses and a strong check stands alone. Checks are python-stdnum's.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from stdnum import luhn
from stdnum.at import vnr
from stdnum.au import tfn
from stdnum.be import nn
from stdnum.br import cnpj, cpf
from stdnum.ca import sin
from stdnum.ch import ssn as ahv
from stdnum.cn import ric
from stdnum.de import idnr
from stdnum.dk import cpr
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.in_ import aadhaar, pan
from stdnum.it import codicefiscale
from stdnum.jp import in_ as my_number
from stdnum.kr import rrn
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.se import personnummer
from stdnum.us import itin, rtn

from gateway.domain.label import Tag
from gateway.sensitivity import numbers
from gateway.sensitivity.rule import Examine, Rule, Spans, Words, has_context, is_word_byte, restricted
from gateway.sensitivity.views import View

Check = Callable[[str], bool]

#: (kind, numbers of digits, check, words one of which must stand near). Words without accents, see `views`.
_DIGITS: tuple[tuple[str, tuple[int, ...], Check, tuple[str, ...]], ...] = (
    ("at-svnr", (10,), vnr.is_valid, ("svnr", "sozialversicherungsnummer", "versicherungsnummer")),
    ("au-tfn", (8, 9), tfn.is_valid, ("tfn", "tax file")),
    ("be-nn", (11,), nn.is_valid, ("rijksregister(?:nummer)?", "registre national", "niss", "insz")),
    ("br-cpf", (11,), cpf.is_valid, ("cpf",)),
    ("br-cnpj", (14,), cnpj.is_valid, ("cnpj",)),
    ("ca-sin", (9,), sin.is_valid, ("sin", "social insurance", "nas", "assurance sociale")),
    ("cn-ric", (18,), ric.is_valid, ("身份证", "证件", "公民身份", "id card", "resident id", "identity")),
    (
        "de-idnr",
        (11,),
        idnr.is_valid,
        ("steuer-?id", "idnr", "identifikationsnummer", "steuernummer", "tax id"),
    ),
    ("dk-cpr", (10,), cpr.is_valid, ("cpr", "personnummer", "cpr-nummer")),
    ("fr-nir", (15,), nir.is_valid, ("nir", "insee", "securite sociale", "secu", "numero de ss", "vitale")),
    ("in-aadhaar", (12,), aadhaar.is_valid, ("aadhaa?r", "uidai", "uid", "आधार")),
    ("jp-my-number", (12,), my_number.is_valid, ("my ?number", "個人番号", "マイナンバー", "kojin bango")),
    ("kr-rrn", (13,), rrn.is_valid, ("rrn", "주민등록번호", "resident registration")),
    ("nl-bsn", (9,), bsn.is_valid, ("bsn", "burgerservicenummer", "sofinummer")),
    ("no-fnr", (11,), fodselsnummer.is_valid, ("fodselsnummer", "fnr", "personnummer", "fødselsnummer")),
    ("pl-pesel", (11,), pesel.is_valid, ("pesel",)),
    ("se-pnr", (10, 12), personnummer.is_valid, ("personnummer", "pnr", "personal number")),
    ("us-itin", (9,), itin.is_valid, ("itin", "tax ?id", "taxpayer", "tin")),
    ("us-aba-routing", (9,), rtn.is_valid, ("routing", "aba", "rtn", "wire")),
    ("us-npi", (10,), lambda digits: bool(luhn.is_valid("80840" + digits)), ("npi", "provider")),
)

_ANY_WORD = Words(*dict.fromkeys(word for _, _, _, row in _DIGITS for word in row))


def _digits(lengths: tuple[int, ...], check: Check, row_words: tuple[str, ...]) -> Examine:
    expression = Words(*row_words)

    def examine(view: View, start: int, end: int) -> Spans:
        run = numbers.read_run(view, start, end)
        if run.context(_ANY_WORD) == (False, False) or run.context(expression) == (False, False):
            return
        for window in numbers.windows(run, lengths[0], lengths[-1]):
            if len(window.digits) not in lengths or not window.has_context(expression):
                continue
            if check(window.digits) and not numbers.in_uuid(window):
                yield window.start, window.end

    return examine


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


def after_word(least_digits: int) -> Examine:
    """Examiner of a number without a check, directly behind its name; the pattern's group 1."""

    def examine(view: View, start: int, end: int) -> Spans:
        digits = sum(map(str.isdigit, view.text[start:end]))
        if digits >= least_digits and not is_word_byte(view.data, end):
            yield start, end

    return examine


_NINO = re.compile(r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z][0-9]{6}[A-D]")
_PII, _FIN, _PHI = restricted(Tag.PII), restricted(Tag.FIN), restricted(Tag.PHI, Tag.PII)
_LABELS = {"us-aba-routing": _FIN, "us-npi": _PHI}
#: What may stand between a name and its number.
_IS = (
    rb"(?:[ _-]?(?:no|nr|num|number|numero|id|#))?\.?[\"']?[ \t]*(?:is|was|:|=|#|,)?[ \t]*"
    rb"(?:number|no\.?)?[ \t\"'#]*"
)

RULES: tuple[Rule, ...] = (
    *(
        Rule(kind, 1, _LABELS.get(kind, _PII), numbers.DIGIT_RUN, _digits(lengths, check, row_words))
        for kind, lengths, check, row_words in _DIGITS
    ),
    Rule(
        "es-dni",
        1,
        _PII,
        rb"[0-9]{2}[.]?[0-9]{3}[.]?[0-9]{3}[ -]?[A-Za-z]",
        lettered(dni.is_valid, Words("dni", "nif", "documento", "identidad", "titular")),
    ),
    Rule("es-nie", 1, _PII, rb"(?i)[XYZ][ -]?[0-9]{7}[ -]?[A-Z]", lettered(nie.is_valid, None)),
    Rule(
        "it-codice-fiscale",
        1,
        _PII,
        rb"(?i)[A-Z]{6}[0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]",
        lettered(codicefiscale.is_valid, None),
    ),
    Rule(
        "in-pan",
        1,
        _PII,
        rb"(?i)[A-Z]{5}[0-9]{4}[A-Z]",
        lettered(pan.is_valid, Words("pan", "income tax", "kyc")),
    ),
    Rule(
        "fi-hetu", 1, _PII, rb"(?i)[0-9]{6}[-+A-FU-Y][0-9]{3}[0-9A-Y]", lettered(hetu.is_valid, None, drop="")
    ),
    Rule("ch-ahv", 1, _PII, rb"756[. ]?[0-9]{4}[. ]?[0-9]{4}[. ]?[0-9]{2}", lettered(ahv.is_valid, None)),
    Rule("cn-ric", 1, _PII, rb"[0-9]{17}[Xx]", lettered(ric.is_valid, None)),
    Rule(
        "uk-nino",
        1,
        _PII,
        rb"(?i)[A-Z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]",
        lettered(
            lambda number: _NINO.fullmatch(number) is not None,
            Words("nino", "ni", "national insurance", "insurance", "hmrc", "payroll"),
        ),
    ),
    Rule(
        "passport",
        1,
        _PII,
        rb"(?i)(?:passport|reisepass|passeport|pasaporte|passaporto|paspoort)"
        + _IS
        + rb"([A-Z]{0,3}[0-9]{5,9}[A-Z]?)",
        after_word(5),
    ),
    Rule(
        "bank-account",
        1,
        _FIN,
        rb"(?i)(?:bank|checking|savings|current) account" + _IS + rb"([0-9](?:[ -]?[0-9]){6,16})",
        after_word(7),
    ),
    Rule(
        "health-record",
        1,
        _PHI,
        rb"(?i)(?:\bmrn|medical record|patient id|patient number|member id|health (?:plan|insurance))"
        + _IS
        + rb"([A-Z]{0,4}-?[0-9](?:-?[0-9A-Z]){4,14})",
        after_word(5),
    ),
)
