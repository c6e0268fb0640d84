"""kill -9 of a writer under load: what was acknowledged is there, and the log still holds."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.audit import layout
from gateway.audit.bench import sample_record
from gateway.audit.checkpoint import TrustedKey, trust_of
from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.keys import PemKey, new_pem
from gateway.audit.report import EXIT_GAPS, Report
from gateway.audit.store import StoredLog
from gateway.audit.tree import leaf_hash
from gateway.audit.verify import verify_log
from gateway.audit.writer import AuditLog
from gateway.domain.record import Phase
from gateway.errors import AuditUnavailable, ConfigurationError
from gateway.settings import AuditSettings

pytestmark = pytest.mark.integration

ORIGIN = "tidegate/local/0"
ROUNDS = 5

#: A writer that prints each receipt once it has it: what it printed was acknowledged.
WRITER = """
import asyncio, os, sys
from gateway.audit.bench import sample_record
from gateway.audit.writer import AuditLog
from gateway.domain.record import Phase
from gateway.settings import AuditSettings, read_secret

async def client(log, name):
    for number in range(1_000_000):
        for phase in (Phase.ADMITTED, Phase.COMPLETED):
            receipt = await log.record(sample_record(phase, f"{name}_{number}"))
            os.write(1, f"{receipt.seq} {receipt.leaf_sha256}\\n".encode())

async def main(directory, key, run):
    settings = AuditSettings(directory, key, segment_bytes=1 << 20)
    log = AuditLog.open(settings, read_secret(key), "build", "0" * 64)
    await log.start()
    # One intent that nobody will ever close: whenever the kill comes, something is left open.
    await log.record(sample_record(Phase.ADMITTED, f"{run}_left_open"))
    os.write(1, b"ready\\n")
    await asyncio.gather(*(client(log, f"{run}_{n}") for n in range(32)))

asyncio.run(main(*sys.argv[1:]))
"""


def _verify(directory: Path, public_key: bytes) -> tuple[Report, list[bytes]]:
    source = StoredLog(OsFiles(directory, ()))
    trust = trust_of((TrustedKey(ORIGIN, public_key),))
    return verify_log(source, trust), list(stored_records(source))


def test_nothing_acknowledged_is_lost_by_kill_9_under_load(tmp_path: Path) -> None:
    directory, key_file = tmp_path / "log", tmp_path / "key.pem"
    pem = new_pem()
    key_file.write_text(pem.reveal(), encoding="ascii")
    public_key = PemKey(pem).public_key
    acknowledged: dict[int, str] = {}
    chance = random.Random(7)
    for run in range(ROUNDS):
        command = [sys.executable, "-c", WRITER, str(directory), f"file:{key_file}", str(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            wanted = chance.randrange(50, 2500)
            for _ in range(wanted):
                seq, leaf = writer.stdout.readline().split()
                acknowledged[int(seq)] = leaf.decode()
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout.read().splitlines():
                if line.count(b" ") == 1 and len(line.split()[1]) == 64:
                    acknowledged[int(line.split()[0])] = line.split()[1].decode()
        report, stored = _verify(directory, public_key)
        assert report.findings == []
        assert report.exit_status <= EXIT_GAPS
        assert len(stored) > max(acknowledged)
    report, stored = _verify(directory, public_key)
    assert {seq: leaf_hash(stored[seq]).hex() for seq in acknowledged} == acknowledged
    assert report.open_intents


async def test_the_start_after_a_kill_closes_what_was_left_open(tmp_path: Path) -> None:
    directory, key_file = tmp_path / "log", tmp_path / "key.pem"
    pem = new_pem()
    key_file.write_text(pem.reveal(), encoding="ascii")
    command = [sys.executable, "-c", WRITER, str(directory), f"file:{key_file}", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(200):
            writer.stdout.readline()
        with pytest.raises(ConfigurationError, match="another process"):
            await AuditLog.open(AuditSettings(str(directory), ""), pem, "b", "0" * 64).start()
        writer.send_signal(signal.SIGKILL)
        writer.stdout.read()
    left_open = _verify(directory, PemKey(pem).public_key)[0].open_intents
    assert left_open
    log = AuditLog.open(AuditSettings(str(directory), ""), pem, "b", "0" * 64)
    await log.start()
    await log.close()
    report, stored = _verify(directory, PemKey(pem).public_key)
    assert report.open_intents == {}
    rows = [json.loads(record) for record in stored]
    abandoned = {row["request_id"]: row["intent_seq"] for row in rows if row["phase"] == "abandoned"}
    assert abandoned == left_open


async def test_a_file_size_limit_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """A real EFBIG of the operating system, in a process of its own."""
    key_file = tmp_path / "key.pem"
    pem = new_pem()
    key_file.write_text(pem.reveal(), encoding="ascii")
    script = """
import asyncio, resource, signal, sys
from gateway.audit.bench import sample_record
from gateway.audit.writer import AuditLog
from gateway.domain.record import Phase
from gateway.errors import AuditUnavailable
from gateway.settings import AuditSettings, read_secret
async def main(directory, key):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = AuditLog.open(AuditSettings(directory, key), read_secret(key), "b", "0" * 64)
    await log.start()
    await log.record(sample_record(Phase.DENIED, "before"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4097, resource.RLIM_INFINITY))
    try:
        await log.record(sample_record(Phase.DENIED, "refused"))
    except AuditUnavailable as error:
        print(error.detail, log.healthy)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while not log.healthy:
        await asyncio.sleep(0.05)
    await log.record(sample_record(Phase.DENIED, "after"))
    await log.close()
asyncio.run(main(*sys.argv[1:]))
"""
    command = [sys.executable, "-c", script, str(tmp_path / "log"), f"file:{key_file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "no-room False\n"
    report, stored = _verify(tmp_path / "log", PemKey(pem).public_key)
    assert report.exit_status == 0
    denied = [json.loads(row)["request_id"] for row in stored if b'"phase":"denied"' in row]
    assert denied == ["before", "after"]


async def test_a_directory_that_is_no_directory_does_not_start(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("x", encoding="ascii")
    log = AuditLog.open(AuditSettings(str(place), ""), new_pem(), "b", "0" * 64)
    with pytest.raises(ConfigurationError, match=r"audit\.directory"):
        await log.start()


async def test_a_log_whose_segments_vanish_still_closes_and_the_next_start_refuses(tmp_path: Path) -> None:
    pem = new_pem()
    settings = AuditSettings(str(tmp_path), "")
    log = AuditLog.open(settings, pem, "b", "0" * 64)
    await log.start()
    await log.record(sample_record(Phase.DENIED, "kept"))
    await log.close()
    for path in (tmp_path / layout.SEGMENTS).glob("*.seg"):
        path.unlink()
    again = AuditLog.open(settings, pem, "b", "0" * 64)
    with pytest.raises(ConfigurationError, match="truncated"):
        await again.start()
    with pytest.raises(AuditUnavailable):
        await again.record(sample_record(Phase.DENIED, "lost"))
