"""`tidegate audit`, on real files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.audit.bench import sample_record
from gateway.audit.writer import AuditLog
from gateway.cli.audit import audit
from gateway.domain.record import Phase
from gateway.settings import AuditSettings, read_secret

pytestmark = pytest.mark.integration


class Place:
    """A directory with a key, a trust file and a log of three requests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log, self.key, self.trust = root / "log", root / "key.pem", root / "keys.json"
        self.run("new-key", "--key", str(self.key), "--trust", str(self.trust))
        asyncio.run(self._fill())

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit status and output of a command."""
        result = CliRunner().invoke(audit, arguments)
        return result.exit_code, result.output

    def verify(self, directory: Path | None = None, *more: str) -> tuple[int, str]:
        """Exit status and output of `verify`."""
        return self.run("verify", str(directory or self.log), "--trust", str(self.trust), *more)

    def open_log(self) -> AuditLog:
        """A log over the directory."""
        settings = AuditSettings(str(self.log), "", segment_bytes=1 << 20)
        return AuditLog.open(settings, read_secret(f"file:{self.key}"), "build", "0" * 64)

    async def _fill(self) -> None:
        log = self.open_log()
        await log.start()
        for number in range(3):
            await log.record(sample_record(Phase.ADMITTED, f"req_{number}"))
            await log.record(sample_record(Phase.COMPLETED, f"req_{number}"))
        await log.close()

    def segment(self) -> Path:
        """The first segment."""
        return sorted((self.log / "segments").glob("*.seg"))[0]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_sound_log_exits_with_0_and_says_so(place: Place) -> None:
    status, output = place.verify()
    assert status == 0
    assert "sound" in output
    status, output = place.verify(None, "--json")
    tree = json.loads(output)
    assert (status, tree["status"], tree["size"], tree["unsigned"]) == (0, "sound", 8, 0)
    assert tree["findings"] == []


def test_a_changed_byte_exits_with_2_and_names_the_first_bad_index(place: Place) -> None:
    content = bytearray(place.segment().read_bytes())
    content[content.index(b'"request_id":"req_1"')] ^= 1
    place.segment().write_bytes(content)
    status, output = place.verify()
    assert status == 2
    assert "first bad index      3" in output
    status, output = place.verify(None, "--json")
    assert (status, json.loads(output)["first_bad_index"]) == (2, 3)


def test_an_older_copy_is_found_by_a_checkpoint_kept_elsewhere(place: Place) -> None:
    old = {path: path.read_bytes() for path in place.log.rglob("*") if path.is_file()}
    asyncio.run(place._fill())
    kept = place.root / "kept-checkpoint"
    kept.write_bytes((place.log / "checkpoint").read_bytes())
    for path in place.log.rglob("*"):
        if path.is_file():
            path.unlink()
    for path, content in old.items():
        path.write_bytes(content)
    assert place.verify()[0] == 0
    status, output = place.verify(None, "--checkpoint", str(kept))
    assert status == 2
    assert "truncated" in output


def test_a_log_that_is_being_written_verifies(place: Place) -> None:
    async def while_running() -> tuple[int, str]:
        log = place.open_log()
        await log.start()
        await log.record(sample_record(Phase.ADMITTED, "req_live"))
        found = await asyncio.to_thread(place.verify)
        await log.close()
        return found

    status, output = asyncio.run(while_running())
    assert status == 0
    assert "intent without end   'req_live'" in output


def test_shows_the_records_of_a_request_as_they_are_stored(place: Place) -> None:
    status, output = place.run("show", "req_1", "--dir", str(place.log))
    assert status == 0
    rows = [json.loads(line) for line in output.splitlines()]
    assert [(row["request_id"], row["phase"]) for row in rows] == [
        ("req_1", "admitted"),
        ("req_1", "completed"),
    ]
    content = place.segment().read_bytes()
    assert all(line.encode() in content for line in output.splitlines())
    assert place.run("show", "req_9", "--dir", str(place.log))[0] == 1


def test_an_export_verifies_alone_and_is_recorded_first(place: Place) -> None:
    out = place.root / "export"
    arguments = ("export", "--dir", str(place.log), "--out", str(out), "--signing-key", f"file:{place.key}")
    status, output = place.run(*arguments)
    assert status == 0
    assert "is recorded in the log" in output
    assert place.verify(out)[0] == 0
    rows = [json.loads(line)["record"] for line in (out / "records.jsonl").read_text().splitlines()]
    assert [row["event_type"] for row in rows].count("export-created") == 1
    assert place.verify()[0] == 0
    assert place.run(*arguments)[0] == 1


def test_an_export_without_a_key_or_beside_a_writer_says_that_it_is_not_recorded(
    place: Place,
) -> None:
    status, output = place.run("export", "--dir", str(place.log), "--out", str(place.root / "a"))
    assert (status, "not recorded" in output) == (0, True)

    async def while_running() -> tuple[int, str]:
        log = place.open_log()
        await log.start()
        key = f"file:{place.key}"
        found = await asyncio.to_thread(
            place.run, "export", "--dir", str(place.log), "--out", str(place.root / "b"), "--signing-key", key
        )
        await log.close()
        return found

    status, output = asyncio.run(while_running())
    assert (status, "another process" in output) == (0, True)
    assert place.verify(place.root / "b")[0] == 0


def test_a_changed_or_missing_row_of_an_export_exits_with_2(place: Place) -> None:
    out = place.root / "export"
    place.run("export", "--dir", str(place.log), "--out", str(out))
    rows = (out / "records.jsonl").read_bytes()
    (out / "records.jsonl").write_bytes(rows.replace(b"req_2", b"req_3", 1))
    status, output = place.verify(out)
    assert (status, "bad-row" in output) == (2, True)
    (out / "records.jsonl").unlink()
    assert place.verify(out)[0] == 2


def test_a_broken_log_is_not_exported(place: Place) -> None:
    place.segment().write_bytes(place.segment().read_bytes()[:-10])
    status, output = place.run("export", "--dir", str(place.log), "--out", str(place.root / "x"))
    assert (status, "does not hold" in output) == (1, True)
    assert not (place.root / "x").exists()


def test_a_new_key_is_private_is_added_to_the_trust_file_and_never_overwritten(place: Place) -> None:
    assert place.key.stat().st_mode & 0o777 == 0o600
    other = str(place.root / "other.pem")
    status, output = place.run("new-key", "--key", other, "--trust", str(place.trust), "--origin", "a/b/1")
    assert status == 0
    assert "PRIVATE" not in output
    assert len(json.loads(place.trust.read_text())["keys"]) == 2
    assert place.run("new-key", "--key", other, "--trust", str(place.trust))[0] == 1
    assert place.verify()[0] == 0


def test_bench_prints_its_figures_as_json(place: Place) -> None:
    status, output = place.run(
        "bench", "--records", "1000", "--in-flight", "16", "--json", "--dir", str(place.root)
    )
    tree = json.loads(output)
    assert status == 0
    assert {"records_per_second", "p50_ms", "p99_ms", "cpu_us_per_record", "versions"} <= set(tree)
    assert tree["record_count"] >= 900
    assert tree["p50_ms"] <= tree["p99_ms"]


def test_refuses_a_directory_without_a_log_and_a_file_without_keys(place: Place) -> None:
    assert place.verify(place.root)[0] == 2
    place.trust.write_text("{}")
    status, output = place.verify()
    assert (status, "keys.json" in output) == (2, True)


def test_a_check_that_cannot_be_finished_never_exits_with_0_or_1(place: Place) -> None:
    segment = place.segment()
    segment.unlink()
    segment.mkdir()
    status, output = place.verify()
    assert (status, "could not be finished" in output) == (2, True)
    assert place.run("verify", str(place.log))[0] == 2
