"""National identifiers: each row with a number made here, its word, and without."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

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


def _bare(check: Callable[[str], bool]) -> Callable[[str], bool]:
    """The check on a number without its brackets."""
    return lambda number: check(number.replace("(", "").replace(")", ""))


CHECKS: dict[str, Callable[[str], bool]] = {
    **{kind: check for kind, _, check, _ in national._DIGITS},
    **{kind: check for kind, _, _, check, _, _ in national._LETTERED},
}

#: kind → (form, sentence with a word that belongs to it).
FORMS: dict[str, tuple[str, str]] = {
    "ar-cuit": ("20#########", "CUIT {}"),
    "at-svnr": ("####150385", "Sozialversicherungsnummer: {}"),
    "au-medicare": ("2#########", "Medicare card {}"),
    "au-tfn": ("#########", "TFN {} on file"),
    "be-nn": ("850730#####", "Rijksregisternummer {}"),
    "bg-egn": ("750123####", "EGN {}"),
    "br-cpf": ("###########", "CPF {} confirmado"),
    "br-cnpj": ("########0001##", "CNPJ {}"),
    "ca-sin": ("1########", "social insurance number {}"),
    "ch-ahv": ("756##########", "Nr. {}"),
    "cl-rut": ("1#######?", "RUT {}"),
    "cn-ric": ("11010519871205###1", "申请人证件号码 {} 已上传"),
    "cz-rc": ("710319####", "rodné číslo {}"),
    "de-idnr": ("###########", "meine Identifikationsnummer ist {}."),
    "de-svnr": ("65170839J###", "Sozialversicherungsnummer {}"),
    "dk-cpr": ("211062####", "CPR {}"),
    "ec-ci": ("17########", "cédula {}"),
    "ee-ik": ("36805280###", "isikukood {}"),
    "es-dni": ("########?", "el documento del titular es {}."),
    "es-nie": ("X#######?", "la empleada {} inicia el lunes"),
    "fi-hetu": ("131052-###?", "tunnus {}"),
    "fr-nif": ("0############", "numéro fiscal {}"),
    "fr-nir": ("2570443257410##", "mon numéro de sécurité sociale est le {}."),
    "gb-driving-licence": ("MORGA753116SM9IJ", "see {}"),
    "gb-utr": ("##########", "UTR {}"),
    "gr-amka": ("010180#####", "AMKA {}"),
    "hk-id": ("A######(?)", "HKID {}"),
    "hr-oib": ("###########", "OIB {}"),
    "id-nik": ("317101450890####", "NIK {}"),
    "ie-pps": ("#######?", "PPS number {}"),
    "il-idnr": ("#########", "Teudat Zehut {}"),
    "in-aadhaar": ("6###########", "Aadhaar number submitted: {}"),
    "in-pan": ("ACUPA####R", "PAN card {}"),
    "is-kennitala": ("120174###9", "kennitala {}"),
    "it-codice-fiscale": ("RCCMNL83S18D969?", "codice {}"),
    "jp-my-number": ("############", "個人番号 {} をご確認ください"),
    "kr-rrn": ("9710139######", "주민등록번호 {}"),
    "lt-asmens": ("3851231####", "asmens kodas {}"),
    "mx-curp": ("BOXW310820HNERXN0#", "ver {}"),
    "mx-rfc": ("GODE561231GR8", "RFC {}"),
    "my-nric": ("770305021234", "NRIC {}"),
    "nl-bsn": ("1########", "BSN {}"),
    "no-fnr": ("151086#####", "fødselsnummer {}"),
    "nz-ird": ("1########", "IRD {}"),
    "pl-nip": ("##########", "NIP {}"),
    "pl-pesel": ("440514#####", "PESEL: {}"),
    "pt-cc": ("########0ZZ#", "cartão de cidadão {}"),
    "pt-nif": ("2########", "NIF {}"),
    "ro-cnp": ("1630615######", "CNP {}"),
    "ru-inn": ("############", "ИНН {}"),
    "ru-snils": ("###########", "СНИЛС {}"),
    "se-pnr": ("880320####", "personnummer {}"),
    "sg-nric": ("S#######?", "NRIC {}"),
    "si-emso": ("0101006500###", "EMŠO {}"),
    "th-pin": ("1############", "Thai ID {}"),
    "tr-tckimlik": ("1##########", "TC kimlik {}"),
    "tw-id": ("A1########", "national ID {}"),
    "uk-nino": ("PR970662C", "National Insurance: {}"),
    "us-aba-routing": ("1110####5", "routing number {}"),
    "us-ein": ("94#######", "EIN {}"),
    "us-itin": ("912701###", "ITIN {}"),
    "us-npi": ("18########", "Provider {}, member"),
    "za-id": ("800101####08#", "SA ID {}"),
}
ROWS: dict[str, tuple[str, str]] = {
    kind: (made(form, _bare(CHECKS[kind])), sentence) for kind, (form, sentence) in FORMS.items()
}
ROWS["cn-ric-x"] = (made("11010519491231###X", CHECKS["cn-ric"]), "号码 {}")


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_finds_each_number_beside_its_word(kind: str) -> None:
    number, sentence = ROWS[kind]
    text = sentence.format(number)
    found = {(finding.kind, text[finding.start : finding.end]) for finding in DETECTORS.find(text)}
    assert any(number in span for name, span in found if name == kind.removesuffix("-x")), found
    assert max(finding.label.level for finding in DETECTORS.find(text)) is Level.RESTRICTED


STRONG = {
    kind for kind, _, _, _, words, _ in national._LETTERED if not words and kind != "cn-ric"
} | {"cn-ric-x"}  # fmt: skip


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
