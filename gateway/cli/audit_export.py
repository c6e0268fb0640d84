"""`tidegate audit export`: what the log holds, for another place; recorded in the log before it is made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import click

from gateway.audit import export as exports
from gateway.audit.canonical import LogEvent
from gateway.audit.export_cef import cef_lines
from gateway.audit.export_csv import csv_lines
from gateway.audit.export_ocsf import ocsf_lines
from gateway.audit.reading import Unproven, as_signed
from gateway.audit.report import Report
from gateway.audit.request_rows import (
    CEF_FORMAT,
    CSV_FORMAT,
    OCSF_FORMAT,
    RequestRow,
    Summary,
    Tally,
    Wanted,
    request_rows,
)
from gateway.audit.verify import verify_log
from gateway.audit.writer import AuditLog
from gateway.cli.audit_log import DIRECTORY, moment, open_log, signed_records
from gateway.domain.secret import Secret
from gateway.errors import TidegateError
from gateway.settings import AuditSettings, read_secret

_READ_BYTES = 1 << 20
#: Exports for reading, by the word of `--format`: name of the file, name of its format, and its lines.
_READABLE: dict[str, tuple[str, str, Callable[[Iterable[RequestRow]], Iterator[bytes]]]] = {
    "csv": ("records.csv", CSV_FORMAT, csv_lines),
    "ocsf": ("events.jsonl", OCSF_FORMAT, ocsf_lines),
    "cef": ("events.cef", CEF_FORMAT, cef_lines),
}


@click.command()
@click.option(
    "--format", "kind", type=click.Choice(["jsonl", *_READABLE]), default="jsonl", show_default=True
)
@click.option("--from", "start", default="", help="First moment, UTC: 2026-11-01 or 2026-11-01T09:30Z.")
@click.option("--to", "end", default="", help="First moment after the period.")
@click.option("--tenant", default="", help="Only records of this tenant.")
@click.option("--dir", "directory", type=DIRECTORY, required=True, help="The log's directory.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new directory.")
@click.option(
    "--signing-key", metavar="REF", help="file:PATH or env:NAME; records the export in the log first."
)
def export(
    kind: str, start: str, end: str, tenant: str, directory: Path, out: Path, signing_key: str | None
) -> None:
    """Write signed records and a manifest into a new directory.

    jsonl holds every record with its proof, and `tidegate audit verify` checks it. The other formats hold the
    records about requests, of a period and a tenant when given, and are for reading.
    """
    wanted = Wanted(moment(start, "--from"), moment(end, "--to"), tenant)
    if kind == "jsonl" and wanted != Wanted():
        raise click.UsageError(
            "jsonl holds every record, so that none can be missing; "
            "--from, --to and --tenant are for the other formats"
        )
    click.echo(_record_export(directory, _sound(directory), kind, wanted, signing_key), err=True)
    report = _sound(directory)
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise click.ClickException(f"--out: cannot be made: {error.strerror}") from None
    count = (
        _write_all(directory, out, report)
        if kind == "jsonl"
        else _write_readable(directory, out, report, kind, wanted)
    )
    click.echo(f"{count} records exported to {out}")


def _sound(directory: Path) -> Report:
    report = verify_log(open_log(directory), None)
    if report.findings or report.last is None:
        raise click.ClickException("the log does not hold or holds nothing; run `tidegate audit verify`")
    return report


def _write_all(directory: Path, out: Path, report: Report) -> int:
    assert report.last is not None
    size = report.signed_tree.size
    with (out / exports.RECORDS_NAME).open("xb") as rows:
        for row in exports.export_rows(open_log(directory), size):
            rows.write(row)
    manifest = exports.Manifest(
        checkpoint=report.last,
        count=size,
        unsigned_count=report.tree.size - size,
        created=_now(),
        records_sha256=exports.digest_of(_pieces(out / exports.RECORDS_NAME)),
    )
    (out / exports.MANIFEST_NAME).write_text(manifest.encode(), encoding="utf-8")
    return size


def _write_readable(directory: Path, out: Path, report: Report, kind: str, wanted: Wanted) -> int:
    assert report.last is not None
    name, written_format, lines = _READABLE[kind]
    tally = Tally()
    try:
        with (out / name).open("xb") as file:
            records = as_signed(signed_records(directory, report), report.signed_tree)
            file.writelines(lines(request_rows(records, wanted, tally)))
    except Unproven as error:
        (out / name).unlink()
        raise click.ClickException(f"the log does not hold: {error}") from None
    digest = exports.digest_of(_pieces(out / name))
    summary = Summary(written_format, wanted, tally, report.last, _now(), digest)
    (out / exports.MANIFEST_NAME).write_text(summary.encode(), encoding="utf-8")
    if tally.without_tenant:
        click.echo(f"left out: {tally.without_tenant} records that name no tenant", err=True)
    return tally.rows


def _record_export(
    directory: Path, report: Report, kind: str, wanted: Wanted, signing_key: str | None
) -> str:
    """Write the export into the log itself, before it is made. What happened, in words."""
    if signing_key is None:
        return "the export is not recorded in the log: no --signing-key was given"
    settings = AuditSettings(str(directory), signing_key, origin=report.origin or "")
    facts: list[tuple[str, str | int]] = [("format", kind), ("size", report.tree.size)]
    asked = (("from", wanted.start), ("to", wanted.end), ("tenant", wanted.tenant))
    facts += [fact for fact in asked if fact[1]]
    event = LogEvent("export-created", "ok", tuple(facts))
    try:
        asyncio.run(_record_event(settings, read_secret(signing_key), event))
    except TidegateError as error:
        return f"the export is not recorded in the log: {error}"
    return "the export is recorded in the log"


async def _record_event(settings: AuditSettings, pem: Secret, event: LogEvent) -> None:
    log = AuditLog.open(settings, pem, version("tidegate"), "0" * 64)
    await log.start()
    try:
        await log.record_event(event)
    finally:
        await log.close()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            yield piece
