"""Structured inputs: keys and heads are the context of values."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level, Tag
from gateway.sensitivity.detectors import build_detectors
from gateway.sensitivity.tables import Tables
from gateway.sensitivity.views import canonical
from gateway.sensitivity.work import Work
from tests.unit.sensitivity import vectors

DETECTORS = build_detectors()
SSN = "513425031"
CARD = vectors.card("4539", 16, 8)
FILLER = "".join(f"{number},Name {number},,x\n" for number in range(1, 40))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"patient": {{"ssn": "{SSN}"}}}}',
        f'{{"socialSecurityNumber": {SSN}}}',
        f"<ssn>{SSN}</ssn>",
        f"level=info msg=paid ssn={SSN} amount=12",
        f"id,name,ssn,note\n{FILLER}40,Bob,{SSN},x\n",
        f"id;name;SSN\n1;Al;{SSN}\n",
        f"Name\tDOB\tSSN\nBob\t1980-02-03\t{SSN}\n",
        f'"id","full name","ssn"\n"1","Bob, the first","{SSN}"\n',
        f"| Name | SSN |\n|---|---|\n| Bob | {SSN} |\n",
        f"INSERT INTO people (id, name, ssn) VALUES (1, 'O''Neil, (x)', '{SSN}'), (2, 'b', '1');",
        f"COPY people (id, ssn) FROM stdin;\n1\t{SSN}\n\\.\n",
        f'{{"system": "http://hl7.org/fhir/sid/us-ssn", "value": "{SSN}"}}',
    ],
)
def test_a_key_or_head_makes_nine_digits_a_social_security_number(text: str) -> None:
    assert max(finding.label.level for finding in DETECTORS.find(text)) is Level.RESTRICTED
    assert "us-ssn" not in {finding.kind for finding in DETECTORS.find(f"value {SSN} here")}


def test_the_span_is_the_cell() -> None:
    text = f"id,name,ssn,note\n{FILLER}40,Bob,{SSN},x\n"
    assert [text[f.start : f.end] for f in DETECTORS.find(text) if f.kind == "us-ssn"] == [SSN]


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world\nsecond, line\n",
        "a,b,c\n1,2,3\n",
        "name,ssn\nonly one cell\n",
        "INSERT INTO t VALUES (1)",
    ],
)
def test_gives_no_view_without_a_telling_table(text: str) -> None:
    assert Tables(("ssn",)).labelled_cells(canonical(text), Work()) is None


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ('{"resourceType": "Patient", "name": [{"family": "Doe"}], "birthDate": "1980-01-02"}', Tag.PHI),
        ("MSH|^~\\&|A|B\nPID|1||12345^^^HOSP^MR||DOE^JANE||19800101|F", Tag.PHI),
        (":20:REF1\n:50K:/12345678901\nJOHN DOE\n:71A:SHA", Tag.FIN),
        ("P<UTOERIKSSON<<ANNA<MARIA<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10", Tag.PII),
        ("VIN 1M8GDM9AXKP042788 on the title", Tag.PII),
        ("DEA number AB1234563", Tag.PHI),
        ("SWIFT DEUTDEFF account 12345678", Tag.FIN),
        ("Medicare number 1EG4-TE5-MK73", Tag.PHI),
        ("Versicherungsnummer VN-8841-22", Tag.PII),
        ("patient MRN 00482913", Tag.PHI),
        ("policy number HX-2290-114", Tag.PII),
        ("driver's license K932-778-3840", Tag.PII),
        ("account number 000123456789", Tag.FIN),
        ("passeport n° 14AB12345", Tag.PII),
    ],
)
def test_finds_records_of_the_trades(text: str, tag: Tag) -> None:
    found = [finding for finding in DETECTORS.find(text) if finding.label.level is Level.RESTRICTED]
    assert any(tag in finding.label.tags for finding in found)


@pytest.mark.parametrize(
    "text",
    [
        "policy 2024 was updated", "account manager since 2019", "patient safety week 2024-05-12",
        "claim 12 of the patent", "passport control opens at 0600", "VIN ABCDEFGHJKLMNPRST",
        "account balance 10,230.45", "BIC DEUTDEFF", "DEA AB1234567",
    ],
)  # fmt: skip
def test_passes_the_words_without_a_number_of_theirs(text: str) -> None:
    assert DETECTORS.find(text) == ()


def test_a_word_that_goes_on_in_the_next_line_hides_no_head() -> None:
    text = f"the credit card\nnumber,name\n{vectors.card('4539', 16, 1)},Ada\n"
    view = Tables(("number", "card number")).labelled_cells(canonical(text), Work())
    assert view is not None
    assert "number: 4539" in view.text


def test_heads_cost_no_more_than_the_words_in_them() -> None:
    work = Work.bounded(0, 4, None)
    assert Tables(("ssn",)).labelled_cells(canonical("a,b\n" * 100_000), work) is None
    assert work.left is not None
    assert work.left > 19_000
