"""`tidegate evaluate streams`: answers through the output filter, in every chunking and pair of dialects."""

from __future__ import annotations

import gzip
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gateway.domain.stream import OutputFilter
from gateway.errors import ConfigurationError
from gateway.evaluation.streams import PAIRINGS, Answer, Passage, Result, judge, merged, parse_answers
from gateway.output.chain import new_output_filter
from gateway.output.guard import Asked
from gateway.policy.bundle import load_bundle
from gateway.rollout.candidate import output_profiles
from gateway.sensitivity.detectors import build_detectors

_BUDGET_NS = 60_000_000_000
_SHOWN = 20


@click.command("streams")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Also write the figures to FILE.")
@click.option(
    "--policy",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="policies",
    show_default=True,
    help="Policy folder with the output profiles and the detectors.",
)
@click.option("--profile", default="default", show_default=True, help="Output profile of that policy.")
@click.option("--tenant", default="", help="Tenant that asks; its own canaries are no leak.")
@click.option(
    "--instructions",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the system text of the request, for rules about instructions.",
)
@click.option(
    "--chunkings", type=click.IntRange(0, 100_000), default=20, show_default=True, help="Random ones a row."
)
@click.option("--seed", type=int, default=1, show_default=True)
def streams(
    files: tuple[Path, ...],
    json_path: Path | None,
    policy: Path,
    profile: str,
    tenant: str,
    instructions: Path | None,
    chunkings: int,
    seed: int,
) -> None:
    """Leaks, false cuts, hold-back and cost of the output filter on JSONL files (text, must_not_emit).

    Each answer is sent whole, character by character, with every single cut and with random cuts, from and
    to each dialect. The exit status is 1 when anything leaked, or two chunkings gave different texts.
    """
    try:
        answers = [answer for file in files for answer in parse_answers(_lines(file), str(file))]
        asked = Asked(tenant, (instructions.read_text("utf-8"),) if instructions is not None else ())
        passage = Passage(_filters(policy, profile, asked), time.thread_time_ns)
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)
    chance = random.Random(seed)  # noqa: S311 - cuts that can be repeated, not secrets

    def next_size() -> int:
        return 1 + min(int(chance.expovariate(1 / 6)), 64)

    console = Console(stderr=True)
    results = [
        judge(answer, passage, chunkings, next_size)
        for answer in track(answers, "filtering", console=console, disable=not sys.stderr.isatty())
    ]
    report = _report(answers, results)
    _show(report)
    if json_path is not None:
        json_path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if report["leaks"] or report["unequal"]:
        sys.exit(1)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None


def _filters(policy: Path, profile: str, asked: Asked) -> Any:
    compiled = load_bundle(policy)
    profiles = output_profiles(compiled)
    if profile not in profiles:
        raise ConfigurationError(
            f"--profile: expected one of {', '.join(sorted(profiles))}, found {profile!r}"
        )
    detectors = build_detectors(own=compiled.own_detectors)

    def new_filter() -> OutputFilter:
        return new_output_filter(detectors.find, profiles[profile], time.thread_time_ns, _BUDGET_NS, asked)

    return new_filter


def _report(answers: Sequence[Answer], results: Sequence[Result]) -> dict[str, Any]:
    """Figures; `leaks`, `false_cuts` and `unequal` count answers, `errors` names them with one run each."""
    total = merged(results)
    clean = sum(not answer.must_not_emit for answer in answers)
    errors = [
        {"id": each.id, "kind": kind, "runs": len(runs), "first": runs[0]}
        for each in results
        for kind, runs in (("leak", each.leaks), ("false-cut", each.false_cuts))
        if runs
    ]
    return {
        "answers": len(answers),
        "clean_answers": clean,
        "runs": total.runs,
        "pairings": len(PAIRINGS),
        "leaks": sum(bool(each.leaks) for each in results),
        "false_cuts": sum(bool(each.false_cuts) for each in results),
        "unequal": sum(each.is_unequal for each in results),
        "held_back_chars": total.held,
        "us_per_event": round(total.filter_ns / max(1, total.events) / 1000, 2),
        "errors": errors,
    }


def _show(report: dict[str, Any]) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False)
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, words in (
        ("answers", "answers"),
        ("clean_answers", "of these without anything forbidden"),
        ("runs", "runs (chunkings × pairs of dialects)"),
        ("leaks", "answers that leaked"),
        ("unequal", "answers that depend on their chunking"),
        ("false_cuts", "clean answers that were changed"),
        ("held_back_chars", "most characters held back of a clean answer"),
        ("us_per_event", "CPU µs of the filter for an event"),
    ):
        table.add_row(words, f"{report[name]:,}")
    console.print(table)
    for error in report["errors"][:_SHOWN]:
        console.print(f"{error['kind']}: {error['id']} in {error['runs']} runs, first: {error['first']}")
