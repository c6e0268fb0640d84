"""`tidegate audit export` of formats for reading, on disk: chosen rows, a manifest, a record of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.audit import layout
from gateway.audit.bench import sample_record
from gateway.audit.canonical import Stamp, encode_request, uuid7
from gateway.audit.checkpoint import TrustedKey
from gateway.audit.commit import Entry
from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.keys import PemKey, encode_trust, new_pem
from gateway.audit.store import StoredLog
from gateway.audit.tree import leaf_hash
from gateway.cli.main import main as cli
from gateway.domain.record import Phase
from tests.fakes.audit_logs import CONTEXT, new_committer


class Place:
    """A log of ten requests of two tenants on ten days, with its key and a trust file."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "audit"
        self.log.mkdir()
        pem = new_pem()
        self.key, self.trust = root / "key.pem", root / "keys.json"
        self.key.write_text(pem.reveal(), "ascii")
        key = PemKey(pem)
        self.trust.write_text(encode_trust((TrustedKey(CONTEXT.origin, key.public_key),)), "utf-8")
        log = new_committer(OsFiles(self.log, (layout.SEGMENTS, layout.CHECKPOINTS)), key=key)
        log.start()
        for day in range(1, 11):
            for phase in (Phase.ADMITTED, Phase.COMPLETED):
                log.commit([self._entry(f"req_{day}", phase, day)])
        log.stop("ok")

    def _entry(self, request_id: str, phase: Phase, day: int) -> Entry:
        base = sample_record(phase, request_id)
        assert base.actor is not None
        tenant = "acme" if day % 2 else "other"
        made = dataclasses.replace(base, actor=dataclasses.replace(base.actor, tenant=tenant))
        stamp = Stamp(uuid7(day, day), f"2026-11-{day:02}T12:00:00.000000Z", day)
        return Entry(encode_request(made, CONTEXT, stamp), phase, request_id)

    def run(self, *arguments: str) -> Result:
        """An `audit` command."""
        return CliRunner().invoke(cli, ["audit", *arguments])

    def export(self, name: str, *more: str) -> Result:
        """An export of the log into `name`."""
        return self.run("export", "--dir", str(self.log), "--out", str(self.root / name), *more)

    def stored(self) -> list[bytes]:
        """All records."""
        return list(stored_records(StoredLog(OsFiles(self.log, ()))))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def manifest_of(directory: Path) -> dict[str, object]:
    tree = json.loads((directory / "manifest.json").read_text("utf-8"))
    assert isinstance(tree, dict)
    return tree


def test_a_csv_export_holds_the_chosen_rows_and_says_which(place: Place) -> None:
    chosen = ("--from", "2026-11-02", "--to", "2026-11-08", "--tenant", "acme")
    done = place.export("out", "--format", "csv", *chosen, "--signing-key", f"file:{place.key}")
    assert done.exit_code == 0, done.output
    assert "the export is recorded in the log" in done.output
    assert "6 records exported" in done.output
    content = (place.root / "out" / "records.csv").read_bytes()
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True))
    assert [row["request_id"] for row in rows] == [f"req_{day}" for day in (3, 3, 5, 5, 7, 7)]
    stored = place.stored()
    assert all(leaf_hash(stored[int(row["seq"])]).hex() == row["leaf_sha256"] for row in rows)
    manifest = manifest_of(place.root / "out")
    assert manifest["format"] == "tidegate-export-csv/1"
    assert (manifest["from"], manifest["to"], manifest["tenant"]) == ("2026-11-02", "2026-11-08", "acme")
    assert (manifest["rows"], manifest["left_out_without_tenant"]) == (6, 0)
    assert manifest["sha256"] == sha256(content).hexdigest()
    assert CONTEXT.origin in str(manifest["checkpoint"])


def test_an_ocsf_export_holds_one_event_a_record(place: Place) -> None:
    done = place.export("out", "--format", "ocsf", "--tenant", "other", "--to", "2026-11-05")
    assert done.exit_code == 0, done.output
    content = (place.root / "out" / "events.jsonl").read_bytes()
    events = [json.loads(line) for line in content.splitlines()]
    assert [event["metadata"]["correlation_uid"] for event in events] == ["req_2", "req_2", "req_4", "req_4"]
    manifest = manifest_of(place.root / "out")
    assert (manifest["format"], manifest["rows"]) == ("tidegate-export-ocsf/1", 4)
    assert manifest["sha256"] == sha256(content).hexdigest()
    assert place.run("verify", str(place.root / "out"), "--trust", str(place.trust)).exit_code == 2


def test_a_cef_export_holds_one_line_a_record(place: Place) -> None:
    done = place.export("out", "--format", "cef", "--from", "2026-11-10")
    assert done.exit_code == 0, done.output
    lines = (place.root / "out" / "events.cef").read_text("utf-8").splitlines()
    assert [line.split("|")[4] for line in lines] == ["admitted", "completed"]
    assert all("externalId=req_10 " in line for line in lines)
    assert manifest_of(place.root / "out")["format"] == "tidegate-export-cef/1"


def test_the_export_is_recorded_with_what_was_asked(place: Place) -> None:
    place.export("out", "--format", "csv", "--tenant", "acme", "--signing-key", f"file:{place.key}")
    events = [json.loads(stored) for stored in place.stored() if b'"export-created"' in stored]
    assert [event["event"] for event in events] == [{"format": "csv", "size": 22, "tenant": "acme"}]
    assert place.run("verify", str(place.log), "--trust", str(place.trust)).exit_code == 0


def test_an_export_for_reading_is_not_taken_for_evidence(place: Place) -> None:
    place.export("out", "--format", "csv")
    done = place.run("verify", str(place.root / "out"), "--trust", str(place.trust))
    assert done.exit_code == 2
    assert "this export is for reading" in done.output


@pytest.mark.parametrize("option", ["--from", "--to", "--tenant"])
def test_a_part_of_the_log_is_not_exported_as_evidence(place: Place, option: str) -> None:
    done = place.export("out", option, "2026-11-02")
    assert done.exit_code == 2
    assert "jsonl holds every record" in done.output
    assert not (place.root / "out").exists()


def test_a_changed_log_is_not_exported(place: Place) -> None:
    segment = next((place.log / layout.SEGMENTS).glob("*.seg"))
    segment.write_bytes(segment.read_bytes().replace(b'"tenant":"acme"', b'"tenant":"acmf"', 1))
    done = place.export("out", "--format", "csv")
    assert done.exit_code == 1
    assert "does not hold" in done.output
    assert not (place.root / "out").exists()
