"""`tidegate audit prove no-egress` over a month on disk, and the check of its statement."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.audit import layout
from gateway.audit.bench import sample_record
from gateway.audit.canonical import Stamp, encode_request, uuid7
from gateway.audit.checkpoint import TrustedKey
from gateway.audit.commit import Entry
from gateway.audit.files import OsFiles
from gateway.audit.keys import PemKey, encode_trust, new_pem
from gateway.cli.main import main as cli
from gateway.domain.label import Level
from gateway.domain.record import Phase, RequestRecord, RouteFact
from tests.fakes.audit_logs import CONTEXT, KEY, ORIGIN, new_committer

LEVELS = list(Level)


def entry(request_id: str, phase: Phase, level: Level, day: int, route: RouteFact) -> Entry:
    base: RequestRecord = sample_record(phase, request_id)
    assert base.classifier is not None
    seen = dataclasses.replace(base.classifier, level=level.word) if phase is Phase.ADMITTED else None
    made = dataclasses.replace(base, classifier=seen, route=route)
    stamp = Stamp(uuid7(day, day), f"2026-11-{day:02}T12:00:00.000000Z", day)
    return Entry(encode_request(made, CONTEXT, stamp), phase, request_id)


def exchange(name: str, level: Level, day: int, place: str) -> list[Entry]:
    is_hosted = place != "private-moe"
    intent = RouteFact("assistant", (place,), hosted=is_hosted)
    went = RouteFact(
        "assistant", (place,), place, "m", is_hosted, "eu", "restricted", 1, ((place, "answered"),)
    )
    return [
        entry(name, Phase.ADMITTED, level, day, intent),
        entry(name, Phase.COMPLETED, level, day, went),
    ]


@pytest.fixture
def trust(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(encode_trust((TrustedKey(ORIGIN, KEY.public_key),)), "utf-8")
    return path


def month(tmp_path: Path, planted_day: int | None) -> Path:
    """120 requests of November: public ones to the hosted place, the others to the private one."""
    directory = tmp_path / "audit"
    directory.mkdir()
    log = new_committer(OsFiles(directory, (layout.SEGMENTS, layout.CHECKPOINTS)))
    log.start()
    for number in range(120):
        day, level = 1 + number // 4, LEVELS[number % 4]
        place = "hosted-openai" if level is Level.PUBLIC else "private-moe"
        log.commit(exchange(f"req_{number}", level, day, place))
        if day == planted_day and number % 4 == 1:
            log.commit(exchange("req_planted", Level.RESTRICTED, day, "hosted-openai"))
    log.stop("ok")
    return directory


def prove(directory: Path, trust: Path, *more: str) -> Result:
    arguments = ["audit", "prove", "no-egress", "--dir", str(directory), "--trust", str(trust), *more]
    return CliRunner().invoke(cli, arguments)


def test_a_clean_month_is_proven_with_its_counts(tmp_path: Path, trust: Path) -> None:
    done = prove(month(tmp_path, None), trust, "--from", "2026-11-01", "--to", "2026-12-01")
    assert done.exit_code == 0, done.output
    assert "PROVEN               none of 120 requests went there" in done.output
    assert "public, hosted       30" in done.output
    assert "restricted, private  30" in done.output


def test_one_planted_request_of_a_month_is_found(tmp_path: Path, trust: Path) -> None:
    directory = month(tmp_path, 17)
    statement = tmp_path / "statement"
    done = prove(directory, trust, "--from", "2026-11", "--to", "2026-12", "--out", str(statement))
    assert done.exit_code == 1, done.output
    assert "NOT PROVEN           1 went there, 0 may have, 0 records cannot be read" in done.output
    tree = json.loads(statement.read_text("utf-8").partition("\n\n")[0])
    assert [each["request_id"] for each in tree["violations"]] == ["req_planted"]
    assert tree["requests"] == 121
    before = prove(directory, trust, "--to", "2026-11-17")
    assert before.exit_code == 0
    assert prove(directory, trust, "--label", "confidential", "--destination", "hosted-spare").exit_code == 0


def test_a_public_request_counts_when_it_is_asked_for(tmp_path: Path, trust: Path) -> None:
    done = prove(month(tmp_path, None), trust, "--label", "public", "--from", "2026-11-30")
    assert done.exit_code == 1
    assert "req_116" in done.output


def test_a_changed_log_says_nothing(tmp_path: Path, trust: Path) -> None:
    directory = month(tmp_path, 17)
    segment = next((directory / layout.SEGMENTS).glob("*.seg"))
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b'"level":"restricted"', b'"level":"publicpubl"', 1))
    done = prove(directory, trust)
    assert done.exit_code == 2
    assert "the log does not hold" in done.output


def test_a_log_of_a_key_that_nobody_trusts_says_nothing(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(encode_trust((TrustedKey(ORIGIN, PemKey(new_pem()).public_key),)), "utf-8")
    assert prove(month(tmp_path, None), other).exit_code == 2


@pytest.mark.parametrize("value", ["yesterday", "2026-13-1", "2026-11-01 09:00"])
def test_a_time_that_cannot_be_read_is_refused(tmp_path: Path, trust: Path, value: str) -> None:
    done = prove(month(tmp_path, None), trust, "--from", value)
    assert done.exit_code == 2
    assert "expected a time" in done.output


def check(statement: Path, trust: Path) -> Result:
    return CliRunner().invoke(cli, ["audit", "check-statement", str(statement), "--trust", str(trust)])


def test_a_signed_statement_is_checked_without_the_log(tmp_path: Path, trust: Path) -> None:
    pem = new_pem()
    key_file, statement = tmp_path / "key.pem", tmp_path / "statement"
    key_file.write_text(pem.reveal(), "ascii")
    signer = tmp_path / "signer.json"
    keys = (TrustedKey(ORIGIN, PemKey(pem).public_key),)
    signer.write_text(encode_trust(keys), "utf-8")
    more = ["--out", str(statement), "--signing-key", f"file:{key_file}"]
    assert prove(month(tmp_path, None), trust, *more).exit_code == 0
    good = check(statement, signer)
    assert good.exit_code == 0, good.output
    assert "signature            good" in good.output
    assert check(statement, trust).exit_code == 1
    text = statement.read_text("utf-8")
    statement.write_text(text.replace('"requests": 120', '"requests": 121'), "utf-8")
    forged = check(statement, signer)
    assert forged.exit_code == 1
    assert "does not verify" in forged.output
    statement.write_text(text.partition("\n\n")[0] + "\n\n", "utf-8")
    assert "nobody has signed it" in check(statement, signer).output
    statement.write_text("no statement at all", "utf-8")
    assert check(statement, signer).exit_code == 2
