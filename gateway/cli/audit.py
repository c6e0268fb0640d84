"""`tidegate audit`: check a log, look into it, export it, measure it, make its key.

Exit status of `verify`: 0 sound, 1 sound with gaps that a crash left, 2 broken.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Coroutine
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from gateway.audit import export as exports
from gateway.audit.bench import BenchResult, measure
from gateway.audit.checkpoint import Trust, TrustedKey
from gateway.audit.keys import PemKey, encode_trust, new_pem
from gateway.audit.report import EXIT_BROKEN, Report
from gateway.audit.request_rows import is_summary
from gateway.audit.verify import verify_log
from gateway.audit.writer import AuditLog
from gateway.cli.audit_answers import check, prove
from gateway.cli.audit_export import export
from gateway.cli.audit_log import DIRECTORY, FILE, open_log, read_keys, read_trust
from gateway.cli.audit_timeline import timeline
from gateway.settings import AuditSettings

_LIVE_ATTEMPTS = 3


class _Unchecked(click.ClickException):
    """The log could not be checked at all: nothing is proven."""

    exit_code = EXIT_BROKEN


@click.group()
def audit() -> None:
    """Check, read and export the audit log."""


audit.add_command(prove)
audit.add_command(check)
audit.add_command(export)
audit.add_command(timeline)


@audit.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--trust", "trust_file", type=FILE, required=True, help="Public keys that you trust.")
@click.option(
    "--checkpoint", "outside", type=FILE, multiple=True, help="A checkpoint that was kept elsewhere."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def verify(directory: Path, trust_file: Path, outside: tuple[Path, ...], as_json: bool) -> None:
    """Check a log directory or an export; a running gateway is not needed.

    Exit status: 0 sound, 1 sound with gaps, 2 broken.
    """
    try:
        trust = read_trust(trust_file)
        if (directory / exports.MANIFEST_NAME).exists():
            report = _verify_export(directory, trust)
        else:
            report = _verify_directory(directory, trust, outside)
    except click.ClickException as error:
        raise _Unchecked(error.message) from None
    except Exception as error:  # noqa: BLE001
        # fail-closed: status 1 means "sound with gaps", so a check that fails itself must never end with it.
        raise _Unchecked(f"the check could not be finished: {type(error).__name__}: {error}") from None
    if as_json:
        click.echo(json.dumps(report.as_tree(), indent=2))
    else:
        _print_report(report)
    sys.exit(report.exit_status)


@audit.command()
@click.argument("request_id")
@click.option("--dir", "directory", type=DIRECTORY, required=True, help="The log's directory.")
def show(request_id: str, directory: Path) -> None:
    """Print the stored records of one request, one JSON object a line, as they are hashed."""
    found = 0
    for stored in exports.find_request(open_log(directory), request_id):
        click.echo(stored.decode("ascii", errors="backslashreplace"))
        found += 1
    if not found:
        raise click.ClickException("no record of this request is in the log")


@audit.command("new-key")
@click.option("--key", type=click.Path(path_type=Path), required=True, help="Private key file to make.")
@click.option("--trust", "trust_file", type=click.Path(path_type=Path), required=True, help="Trust file.")
@click.option("--origin", default="tidegate/local/0", show_default=True, help="The log's name.")
def new_key(key: Path, trust_file: Path, origin: str) -> None:
    """Make a signing key, and add its public half to a trust file."""
    pem = new_pem()
    known: tuple[TrustedKey, ...] = ()
    if trust_file.exists():
        known = read_keys(trust_file)
    trusted = TrustedKey(origin, PemKey(pem).public_key)
    try:
        handle = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise click.ClickException(f"--key: cannot be made: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(pem.reveal())
    trust_file.write_text(encode_trust((*known, trusted)), encoding="utf-8")
    click.echo(f"{origin}: key {trusted.key_id.hex()} written to {key}, trusted in {trust_file}")


@audit.command()
@click.option("--records", default=50_000, show_default=True, type=click.IntRange(1000, 10_000_000))
@click.option("--in-flight", default=256, show_default=True, type=click.IntRange(1, 1024))
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Parent of the test log.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def bench(records: int, in_flight: int, directory: Path | None, as_json: bool) -> None:
    """Measure durable records per second, latency and CPU on this disk."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        result = _run(_bench(Path(place), records, in_flight))
    figures: dict[str, object] = {name: getattr(result, name) for name in BenchResult.__slots__}
    figures |= {
        "machine": f"{platform.machine()} {os.cpu_count()} cores {platform.system()} {platform.release()}",
        "versions": {"python": platform.python_version(), "tidegate": version("tidegate")},
    }
    if as_json:
        click.echo(json.dumps(figures, indent=2))
    else:
        for name, figure in figures.items():
            click.echo(f"{name:20} {figure}")


async def _bench(place: Path, records: int, in_flight: int) -> BenchResult:
    log = AuditLog.open(AuditSettings(str(place), ""), new_pem(), version("tidegate"), "0" * 64)
    await log.start()
    try:
        return await measure(log, records, in_flight)
    finally:
        await log.close()


def _run(work: Coroutine[Any, Any, BenchResult]) -> BenchResult:
    """Run on the event loop that the gateway uses."""
    import uvloop  # noqa: PLC0415

    return uvloop.run(work)


def _verify_directory(directory: Path, trust: Trust, outside: tuple[Path, ...]) -> Report:
    notes = [(path.name, path.read_bytes()) for path in outside]
    for attempt in range(_LIVE_ATTEMPTS):
        report = verify_log(open_log(directory), trust, notes)
        is_unsure = any(not gap.is_declared for gap in report.gaps)
        if not is_unsure:
            break
        # A running writer may have been in the middle of an append: look again before calling it torn.
        if attempt + 1 < _LIVE_ATTEMPTS:
            time.sleep(0.2)
    return report


def _verify_export(directory: Path, trust: Trust) -> Report:
    manifest = (directory / exports.MANIFEST_NAME).read_text(encoding="utf-8")
    if is_summary(manifest):
        # fail-closed: rows that say less than the records prove nothing alone.
        raise _Unchecked("this export is for reading; compare its `seq` and leaf hashes with a jsonl export")
    try:
        with (directory / exports.RECORDS_NAME).open("rb") as rows:
            return exports.verify_export(manifest, rows, trust)
    except FileNotFoundError:
        return exports.verify_export(manifest, (), trust)


def _print_report(report: Report) -> None:
    tree = report.as_tree()
    for name in ("status", "origin", "size", "root", "checkpoints", "signed_size", "unsigned"):
        click.echo(f"{name:20} {tree[name]}")
    for phase, count in report.phase_counts.items():
        click.echo(f"{phase + ' records':20} {count}")
    for gap in report.gaps:
        state = "declared" if gap.is_declared else "not declared yet: start the gateway to declare it"
        click.echo(f"gap                  after record {gap.after_size - 1}: {gap.length} bytes ({state})")
    for request_id, seq in report.open_intents.items():
        click.echo(f"intent without end   {request_id!r} at record {seq}")
    for seq in report.surplus_outcomes:
        click.echo(f"surplus outcome      record {seq} closes no open intent")
    for found in report.findings:
        place = found.file if found.offset is None else f"{found.file} offset {found.offset}"
        click.echo(f"BROKEN               record {found.index}: {found.code}: {place}: {found.detail}")
    if report.exit_status == EXIT_BROKEN:
        click.echo(f"first bad index      {report.first_bad_index}")
