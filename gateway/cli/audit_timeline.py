"""`tidegate audit timeline`: one request, from verified records, for people."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from gateway.audit import timeline_page as page
from gateway.audit.evidence import gather
from gateway.audit.export import find_request
from gateway.audit.reading import Unproven
from gateway.audit.timeline import tell
from gateway.cli.audit_log import (
    DIRECTORY,
    FILE,
    BrokenLog,
    open_log,
    read_trust,
    signed_records,
    verified,
    write_new,
)


@click.command()
@click.argument("request_id")
@click.option("--dir", "directory", type=DIRECTORY, required=True, help="The log's directory.")
@click.option("--trust", "trust_file", type=FILE, required=True, help="Public keys that you trust.")
@click.option("--json", "as_json", is_flag=True, help="Print sections, records and proofs as JSON.")
@click.option(
    "--html", type=click.Path(path_type=Path), help="Write one page that stands alone to a new file."
)
def timeline(request_id: str, directory: Path, trust_file: Path, as_json: bool, html: Path | None) -> None:
    """Tell what happened to one request: who, label, rule, places, filters, times, and the proofs.

    The log is verified first. Exit status: 0 told, 1 no such request, 2 broken log.
    """
    if not request_id or not request_id.isascii():
        raise click.ClickException("no record of this request is in the log")
    report = verified(directory, read_trust(trust_file))
    try:
        found = gather(lambda: signed_records(directory, report), report.signed_tree, request_id)
    except Unproven as error:
        raise BrokenLog(f"the log does not hold: {error}") from None
    if not any(each.record.phase != "log" for each in found):
        if next(islice(find_request(open_log(directory), request_id), 1), None) is not None:
            raise click.ClickException(
                "no signed checkpoint covers the records of this request yet; try again in a second"
            )
        raise click.ClickException("no record of this request is in the log")
    sections = tell(found)
    note = report.last.encode().decode() if report.last else ""
    log = page.LogFacts(report.origin or "", report.signed_tree.size, report.signed_tree.root(), note)
    if html is not None:
        write_new(html, "--html", page.as_html(request_id, sections, found, log))
    click.echo(
        page.as_json(request_id, sections, found, log) if as_json else page.as_text(sections, found, log)
    )
