"""National identifiers: each row with a number made here, its word, and without."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
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

from gateway.domain.label import Level
from gateway.sensitivity import national
from gateway.sensitivity.detectors import build_detectors

DETECTORS = build_detectors()


def made(template: str, check: Callable[[str], bool], seed: int = 1) -> str:
    """First number of this form that passes the check: `#` any digit, `?` the check character."""
    source = random.Random(f"{template}{seed}")
    for _ in range(200_000):
        number = "".join(
            source.choice("0123456789")
            if sign == "#"
            else source.choice("ABCDEFGHJKLMNPQRSTVWXYZ0123456789")
            if sign == "?"
            else sign
            for sign in template
        )
        if check(number):
            return number
    raise AssertionError(f"no number for {template}")


#: kind → (number, sentence with a word that belongs to it).
ROWS: dict[str, tuple[str, str]] = {
    "at-svnr": (made("####150385", vnr.is_valid), "Sozialversicherungsnummer: {}"),
    "au-tfn": (made("#########", tfn.is_valid), "TFN {} on file"),
    "be-nn": (made("850730#####", nn.is_valid), "Rijksregisternummer {}"),
    "br-cpf": (made("###########", cpf.is_valid), "CPF {} confirmado"),
    "br-cnpj": (made("########0001##", cnpj.is_valid), "CNPJ {}"),
    "ca-sin": (made("1########", sin.is_valid), "social insurance number {}"),
    "cn-ric": (made("11010519871205###1", ric.is_valid), "申请人证件号码 {} 已上传"),
    "de-idnr": (made("###########", idnr.is_valid), "meine Identifikationsnummer ist {}."),
    "dk-cpr": (made("211062####", cpr.is_valid), "CPR {}"),
    "fr-nir": (made("2570443257410##", nir.is_valid), "mon numéro de sécurité sociale est le {}."),
    "in-aadhaar": (made("6###########", aadhaar.is_valid), "Aadhaar number submitted: {}"),
    "jp-my-number": (made("############", my_number.is_valid), "個人番号 {} をご確認ください"),
    "kr-rrn": (made("9710139######", rrn.is_valid), "주민등록번호 {}"),
    "nl-bsn": (made("1########", bsn.is_valid), "BSN {}"),
    "no-fnr": (made("151086#####", fodselsnummer.is_valid), "fødselsnummer {}"),
    "pl-pesel": (made("440514#####", pesel.is_valid), "PESEL: {}"),
    "se-pnr": (made("880320####", personnummer.is_valid), "personnummer {}"),
    "us-itin": (made("912701###", itin.is_valid), "ITIN {}"),
    "us-aba-routing": (made("1110####5", rtn.is_valid), "routing number {}"),
    "us-npi": (made("18########", lambda n: bool(luhn.is_valid("80840" + n))), "Provider {}, member"),
    "es-dni": (made("########?", dni.is_valid), "el documento del titular es {}."),
    "es-nie": (made("X#######?", nie.is_valid), "la empleada {} inicia el lunes"),
    "it-codice-fiscale": (made("RCCMNL83S18D969?", codicefiscale.is_valid), "codice {}"),
    "in-pan": (made("ACUPA####R", pan.is_valid), "PAN card {}"),
    "fi-hetu": (made("131052-###?", hetu.is_valid), "tunnus {}"),
    "ch-ahv": (made("756##########", ahv.is_valid), "Nr. {}"),
    "cn-ric-x": (made("11010519491231###X", ric.is_valid), "号码 {}"),
    "uk-nino": ("PR970662C", "National Insurance: {}"),
    "passport": ("Y95214379", "together with my passport, number {}."),
    "bank-account": ("3847283911", "listed bank account number {} belonging to"),
    "health-record": ("W4471900231", "member id {}, diagnosis"),
}


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_finds_each_number_beside_its_word(kind: str) -> None:
    number, sentence = ROWS[kind]
    text = sentence.format(number)
    found = {(finding.kind, text[finding.start : finding.end]) for finding in DETECTORS.find(text)}
    assert any(number in span for name, span in found if name == kind.removesuffix("-x")), found
    assert max(finding.label.level for finding in DETECTORS.find(text)) is Level.RESTRICTED


STRONG = {"es-nie", "it-codice-fiscale", "fi-hetu", "ch-ahv", "cn-ric-x"}


@pytest.mark.parametrize("kind", sorted(set(ROWS) - STRONG))
def test_passes_the_same_number_without_a_word(kind: str) -> None:
    number, _ = ROWS[kind]
    assert DETECTORS.find(f"value {number} here") == ()


@pytest.mark.parametrize("kind", sorted(STRONG))
def test_finds_numbers_of_a_form_of_their_own_without_a_word(kind: str) -> None:
    number, _ = ROWS[kind]
    assert [finding.kind for finding in DETECTORS.find(f"value {number} here")] == [kind.removesuffix("-x")]
    assert DETECTORS.find(f"value a{number}b here") == ()


@pytest.mark.parametrize("kind", ["br-cpf", "de-idnr", "fr-nir", "pl-pesel", "es-dni", "es-nie", "uk-nino"])
def test_passes_a_wrong_check(kind: str) -> None:
    number, sentence = ROWS[kind]
    last = number[-1]
    wrong = number[:-1] + ("Z" if last.isalpha() else str((int(last) + 5) % 10))
    assert kind not in {finding.kind for finding in DETECTORS.find(sentence.format(wrong))}


def test_finds_numbers_in_their_written_groups() -> None:
    number = ROWS["br-cpf"][0]
    written = f"{number[:3]}.{number[3:6]}.{number[6:9]}-{number[9:]}"
    assert "br-cpf" in {finding.kind for finding in DETECTORS.find(f"CPF {written}")}


def test_every_row_has_a_vector() -> None:
    assert {rule.kind for rule in national.RULES} == {kind.removesuffix("-x") for kind in ROWS}
