"""`tidegate policy diff | replay`: what a change of policy would do, before it is made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gateway.audit import export as exports
from gateway.audit import layout
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from gateway.errors import ConfigurationError
from gateway.evaluation.replay import Recorded, Replay, compare_recorded, find, replay_records
from gateway.policy.bundle import read_files
from gateway.policy.compare import Change, Difference, Tally, compare_cases, differences, mapping_difference
from gateway.policy.compile import compile_bundle
from gateway.policy.compiled import CompiledPolicy
from gateway.rollout.content import read_content

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,6})?Z?)?)?)?")
_MAX_IDS = 1_000_000


def compiled(directory: Path, exit_status: int = 1) -> CompiledPolicy:
    """The compiled policy of a folder; ends the command when there is none."""
    try:
        return compile_bundle(read_files(directory))
    except ConfigurationError as error:
        click.echo(f"{directory}: refused\n  {error}", err=True)
        raise click.exceptions.Exit(exit_status) from None


def stored_records(directory: Path) -> Iterator[bytes]:
    """Stored records of a log directory, or of an export. Ends the command when it is neither."""
    if (directory / layout.SEGMENTS).is_dir():
        return exports.stored_records(StoredLog(OsFiles(directory, ())))
    rows = directory / exports.RECORDS_NAME
    if rows.is_file():
        return _exported(rows)
    raise click.ClickException(
        f"{directory}: expected an audit log ({layout.SEGMENTS}/) or an export ({exports.RECORDS_NAME})"
    )


def _exported(rows: Path) -> Iterator[bytes]:
    with rows.open("rb") as file:
        for row in file:
            _, mark, tail = row.rstrip(b"\n").partition(b',"record":')
            if mark:
                yield tail[:-1]


def recorded_request(directory: Path, request_id: str) -> Recorded:
    """The deciding record of one request. Ends the command when there is none with facts."""
    found = find(stored_records(directory), request_id)
    if found is None:
        raise click.ClickException(
            "no record of this request holds the facts of a decision; see `tidegate audit show`"
        )
    return found


@click.command(name="diff")
@click.argument("old", type=FOLDER)
@click.argument("new", type=FOLDER)
@click.option("--audit", "log", type=FOLDER, help="Also compare the recorded requests of this log or export.")
@click.option("--ids", default=5, show_default=True, type=click.IntRange(0, _MAX_IDS), help="Ids to show.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def diff_command(old: Path, new: Path, log: Path | None, ids: int, as_json: bool) -> None:
    """Say what NEW changes against OLD: parts of the files, cases, and recorded requests.

    Both policies decide the cases of both folders. Prompts and tool sets are compared by their bytes.
    Recorded requests are decided by OLD and NEW alike, so what the log says of the past does not matter here.
    Exit status: 0 no decision changes, 1 at least one does, 2 a folder is refused.
    """
    before, after = compiled(old, 2), compiled(new, 2)
    parts = (*differences(before, after), *_documents(old, new))
    tallies = {"cases": compare_cases(before, after)}
    if log is not None:
        tallies["recorded requests"] = compare_recorded(stored_records(log), before, after)
    changes = any(tally.changes for tally in tallies.values())
    if as_json:
        tree = {
            "old": before.sha256,
            "new": after.sha256,
            "parts": [
                {"part": one.part, "added": one.added, "removed": one.removed, "changed": one.changed}
                for one in parts
            ],
            **{name.replace(" ", "_"): tally_tree(tally) for name, tally in tallies.items()},
        }
        click.echo(json.dumps(tree, indent=2))
    else:
        click.echo(f"old  {before.id} {before.version} {before.sha256}")
        click.echo(f"new  {after.id} {after.version} {after.sha256}")
        for one in parts:
            for sign, names in (("+", one.added), ("-", one.removed), ("~", one.changed)):
                if names:
                    click.echo(f"  {one.part}: {sign} {', '.join(names)}")
        for name, tally in tallies.items():
            show_tally(name, tally, ids)
    raise click.exceptions.Exit(1 if changes else 0)


def _documents(old: Path, new: Path) -> tuple[Difference, ...]:
    """Prompts, tool sets and channels that differ, by their files."""
    try:
        before, after = read_content(old).protocols, read_content(new).protocols
    except ConfigurationError as error:
        click.echo(f"refused\n  {error}", err=True)
        raise click.exceptions.Exit(2) from None
    found = mapping_difference("protocols", before, after)
    return (found,) if found.added or found.removed or found.changed else ()


@click.command(name="replay")
@click.option("--audit", "log", type=FOLDER, required=True, help="An audit log's directory, or an export.")
@click.option("--candidate", type=FOLDER, required=True, help="The policy folder to try.")
@click.option("--from", "start", default="", help="First time, UTC, such as 2026-11-30 or 2026-11-30T08:00.")
@click.option("--to", "end", default="", help="The time before which it ends.")
@click.option("--configured", multiple=True, help="A destination to use; the log's by default.")
@click.option("--ids", default=5, show_default=True, type=click.IntRange(0, _MAX_IDS), help="Ids to show.")
@click.option("--json", "as_json", is_flag=True, help="Print everything, with all ids, as JSON.")
def replay_command(
    log: Path,
    candidate: Path,
    start: str,
    end: str,
    configured: tuple[str, ...],
    ids: int,
    as_json: bool,
) -> None:
    """Decide the recorded requests of a log again, under the policy of a folder, and count what changes.

    No content is read; a record holds every fact that a rule can ask. The log is not verified here:
    `tidegate audit verify` does that. A label is taken as it was recorded:
    raising a tenant's floor shows, lowering it does not.
    """
    for name, value in (("--from", start), ("--to", end)):
        if value and not _TIME.fullmatch(value):
            raise click.BadParameter("expected a time such as 2026-11-30T08:00:00", param_hint=name)
    policy = compiled(candidate)
    unknown = sorted(set(configured) - set(policy.destinations))
    if unknown:
        raise click.BadParameter(f"the policy has no destination {unknown[0]}", param_hint="--configured")
    places = frozenset(configured) if configured else None
    result = replay_records(stored_records(log), policy, configured=places, start=start, end=end)
    if as_json:
        click.echo(json.dumps(_replay_tree(policy, result), indent=2))
        return
    click.echo(f"candidate  {policy.id} {policy.version} {policy.sha256}")
    if result.first_utc:
        click.echo(f"records    {result.first_utc} to {result.last_utc}")
    show_tally("recorded requests", result.tally, ids)
    for reason, count in sorted(result.skipped.items()):
        click.echo(f"left out   {count} {reason}")
    if result.inexact:
        click.echo(f"inexact    {len(result.inexact)}: a rule asks for tools that the records do not name")


def show_tally(name: str, tally: Tally, ids: int) -> None:
    """A tally for people: counts with some ids."""
    changes = tally.changes
    click.echo(
        f"{name}: {tally.compared_count} compared, {len(changes)} change, "
        f"{tally.rule_only_count} same answer by another rule"
    )
    groups = (
        ("by kind", tally.by_kind()),
        ("by rule", tally.by_rule()),
        ("by tenant", tally.by_tenant()),
        ("by destination", tally.by_destination()),
    )
    width = max((len(key) for _, group in groups for key in group), default=0)
    for title, group in groups:
        for key, subjects in group.items():
            shown = f"  {', '.join(subjects[:ids])}" if ids else ""
            more = ", …" if ids and len(subjects) > ids else ""
            click.echo(f"  {title:<15} {key:<{width}} {len(subjects):>7}{shown}{more}")
    for change in changes[:ids]:
        click.echo(f"  {change.subject}: {change.old.words} (rule {change.old.rule})")
        click.echo(f"  {' ' * len(change.subject)}  now {change.new.words} (rule {change.new.rule})")


def tally_tree(tally: Tally) -> dict[str, Any]:
    """A tally with every id, for JSON."""
    return {
        "compared": tally.compared_count,
        "changed": len(tally.changes),
        "rule_only": tally.rule_only_count,
        "by_kind": tally.by_kind(),
        "by_rule": tally.by_rule(),
        "by_tenant": tally.by_tenant(),
        "by_destination": tally.by_destination(),
        "changes": [_change_tree(change) for change in tally.changes],
    }


def _change_tree(change: Change) -> dict[str, Any]:
    return {
        "id": change.subject,
        "tenant": change.tenant,
        "kind": change.kind.value,
        "old": {"answer": change.old.words, "rules": change.old.rule_ids},
        "new": {"answer": change.new.words, "rules": change.new.rule_ids},
    }


def _replay_tree(policy: CompiledPolicy, result: Replay) -> dict[str, Any]:
    return {
        "candidate": {"id": policy.id, "version": policy.version, "sha256": policy.sha256},
        "first": result.first_utc,
        "last": result.last_utc,
        "skipped": dict(sorted(result.skipped.items())),
        "inexact": result.inexact,
        **tally_tree(result.tally),
    }
