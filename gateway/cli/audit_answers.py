"""`tidegate audit prove | check-statement`: what the log says, in answers that can be handed on."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from gateway.audit.egress import HOSTED, Egress, Question, examine, known_places
from gateway.audit.keys import PemKey
from gateway.audit.report import Report
from gateway.audit.statement import check_statement, encode_statement
from gateway.cli.audit_log import (
    DIRECTORY,
    FILE,
    BrokenLog,
    moment,
    read_trust,
    signed_records,
    verified,
    write_new,
)
from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.settings import read_secret

_LISTED = 1000
EXIT_NOT_PROVEN = 1


@click.group()
def prove() -> None:
    """Statements about a period, from verified records."""


@prove.command("no-egress")
@click.option(
    "--label", type=click.Choice([level.word for level in Level]), default="restricted", show_default=True
)
@click.option(
    "--destination",
    default=HOSTED,
    show_default=True,
    help="A destination's name, or `hosted` for all of them.",
)
@click.option("--from", "start", default="", help="First moment, UTC: 2026-11-01 or 2026-11-01T09:30Z.")
@click.option("--to", "end", default="", help="First moment after the period.")
@click.option("--dir", "directory", type=DIRECTORY, required=True, help="The log's directory.")
@click.option("--trust", "trust_file", type=FILE, required=True, help="Public keys that you trust.")
@click.option("--signing-key", metavar="REF", help="file:PATH or env:NAME; signs the statement.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the statement to a new file.")
def no_egress(
    label: str,
    destination: str,
    start: str,
    end: str,
    directory: Path,
    trust_file: Path,
    signing_key: str | None,
    out: Path | None,
) -> None:
    """State whether anything of this label or above went to a destination in a period.

    The log is verified first. Exit status: 0 nothing went there, 1 something did or may have, 2 broken log.
    """
    question = Question(Level.parse(label), destination, moment(start, "--from"), moment(end, "--to"))
    report = verified(directory, read_trust(trust_file))
    found = examine(
        signed_records(directory, report), question, known_places(signed_records(directory, report))
    )
    tree = _statement(question, found, report)
    if out is not None:
        write_new(out, "--out", encode_statement(tree, report.origin or "", _key(signing_key)))
    _show(question, found, report)
    sys.exit(0 if found.holds else EXIT_NOT_PROVEN)


@click.command("check-statement")
@click.argument("file", type=FILE)
@click.option("--trust", "trust_file", type=FILE, required=True, help="Public keys that you trust.")
def check(file: Path, trust_file: Path) -> None:
    """Check who signed a statement.

    Exit status: 0 a trusted key of its log, 1 nobody that you trust, 2 this is no statement.
    """
    tree, fault = check_statement(file.read_bytes(), read_trust(trust_file))
    if tree is None:
        raise BrokenLog(f"{file}: {fault}")
    click.echo(f"statement            {tree.get('statement')}")
    click.echo(f"origin               {tree['origin']}")
    click.echo(f"holds                {tree.get('holds')}")
    click.echo(f"signature            {fault or 'good'}")
    sys.exit(EXIT_NOT_PROVEN if fault else 0)


def _statement(question: Question, found: Egress, report: Report) -> dict[str, Any]:
    point = report.last.checkpoint if report.last else None
    return {
        "statement": "tidegate-no-egress/1",
        "origin": report.origin,
        "asked": {
            "label_at_least": question.level.word,
            "destination": question.destination,
            "from": question.start or None,
            "to": question.end or None,
        },
        "holds": found.holds,
        "requests": sum(found.counts.values()),
        "counts": [
            {"label": label, "where": where, "requests": count}
            for (label, where), count in sorted(found.counts.items())
        ],
        "first_request": found.first_utc or None,
        "last_request": found.last_utc or None,
        "violations": _sightings(found.violations),
        "undecided": _sightings(found.undecided),
        "unreadable_records": found.unreadable[:_LISTED],
        "policies": [{"sha256": sha, "first_used": when} for sha, when in found.policies.items()],
        "log": {
            "size": report.signed_tree.size,
            "root": point.root.hex() if point else None,
            "checkpoint": report.last.encode().decode() if report.last else None,
            "unsigned_records": report.tree.size - report.signed_tree.size,
            "gaps": len(report.gaps),
        },
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "verify_with": "tidegate audit prove no-egress, with the same options, on the log or a copy of it",
    }


def _sightings(rows: list[Any]) -> list[dict[str, Any]]:
    return [
        {"request_id": each.request_id, "seq": each.seq, "label": each.label, "destination": each.place}
        for each in rows[:_LISTED]
    ]


def _show(question: Question, found: Egress, report: Report) -> None:
    period = f"{question.start or 'the beginning'} to {question.end or 'the last signed record'}"
    click.echo(f"{'asked':20} {question.level.word} or above to {question.destination}, {period}")
    click.echo(f"{'log':20} {report.origin}, {report.signed_tree.size} signed records, verified")
    for (label, where), count in sorted(found.counts.items()):
        click.echo(f"{label + ', ' + where:20} {count}")
    for sha, when in found.policies.items():
        click.echo(f"{'policy':20} {sha[:16]} from {when}")
    for name, rows in (("VIOLATION", found.violations), ("UNDECIDED", found.undecided)):
        for each in rows[:_LISTED]:
            click.echo(f"{name:20} {each.request_id} (record {each.seq}): {each.label} to {each.place}")
    if found.unreadable:
        click.echo(f"{'UNREADABLE':20} {len(found.unreadable)} records, the first is {found.unreadable[0]}")
    if report.gaps:
        click.echo(f"{'gaps':20} {len(report.gaps)}; what a crash tore was never acknowledged, so never sent")
    requests = sum(found.counts.values())
    if found.holds:
        click.echo(f"PROVEN               none of {requests} requests went there")
    else:
        click.echo(
            f"NOT PROVEN           {len(found.violations)} went there, {len(found.undecided)} may have, "
            f"{len(found.unreadable)} records cannot be read"
        )


def _key(reference: str | None) -> PemKey | None:
    if reference is None:
        return None
    try:
        return PemKey(read_secret(reference))
    except ConfigurationError as error:
        raise click.ClickException(f"--signing-key: {error}") from None
