"""`tidegate evaluate`: score the product's own parts on labelled files."""

from __future__ import annotations

import gzip
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gateway.cli.evaluate_streams import streams
from gateway.cli.train_context import train_context
from gateway.domain.chat import ChatRequest, Message, ResolvedRequest, Role, TextPart
from gateway.domain.label import PUBLIC, Level
from gateway.errors import ConfigurationError
from gateway.evaluation.baseline import judge_with_presidio
from gateway.evaluation.corpus import Row, parse_rows
from gateway.evaluation.score import Judged, Score, by, errors, quantile, score
from gateway.sensitivity.classify import Classifier
from gateway.sensitivity.context import load_context_model
from gateway.sensitivity.detectors import build_detectors

_LATENCY_CHARACTERS = 4096
#: A fresh classifier for a time budget in milliseconds.
NewClassifier = Callable[[int], Classifier]


@click.group()
def evaluate() -> None:
    """Score parts of the product on labelled data."""


evaluate.add_command(train_context)
evaluate.add_command(streams)


@evaluate.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Also write the figures to FILE.")
@click.option("--engine", type=click.Choice(["hyperscan", "re2"]), default="hyperscan", show_default=True)
@click.option(
    "--baseline", type=click.Choice(["presidio"]), help="Judge with this peer instead, if installed."
)
@click.option(
    "--contextual-model",
    type=click.Choice(["builtin", "none"]),
    default="builtin",
    show_default=True,
    help="As in the settings.",
)
def sensitivity(
    files: tuple[Path, ...],
    json_path: Path | None,
    engine: str,
    baseline: str | None,
    contextual_model: str,
) -> None:
    """Recall and false alarms of the classifier on JSONL files (text, label, categories), also .gz."""
    try:
        rows = _rows(files)
        if baseline is None:
            new = _classifiers(engine, contextual_model)
            report = _report(_judge(rows, new))
            report["latency_us"] = _latency(rows, new)
            report["megabytes_per_second"] = round(_throughput(rows, new), 2)
        else:
            report = _peer_report(rows)
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)
    _show(report, len(rows))
    if json_path is not None:
        json_path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _peer_report(rows: Sequence[Row]) -> dict[str, Any]:
    """The same figures for the peer; its latency is that of whole rows, not of 4 KB."""
    judged = judge_with_presidio(rows)
    times = [each.elapsed_us for each in judged]
    size = sum(len(row.text.encode()) for row in rows)
    return {
        **_report(judged),
        "latency_us": {"p50": round(quantile(times, 0.5), 1), "p99": round(quantile(times, 0.99), 1)},
        "megabytes_per_second": round(size / max(1.0, sum(times)), 4),
    }


def _rows(files: Sequence[Path]) -> list[Row]:
    rows = [row for path in files for row in _read(path)]
    if not rows:
        raise ConfigurationError("no rows in the files")
    return rows


def _read(path: Path) -> Iterator[Row]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as lines:
            yield from parse_rows(lines, path.name)
    except (OSError, EOFError):
        raise ConfigurationError(f"{path}: cannot be read; expected JSON Lines, plain or gzip") from None


def _request(text: str) -> ResolvedRequest:
    return ResolvedRequest(ChatRequest("assistant", (Message(Role.USER, (TextPart(text),)),)))


def _classifiers(engine: str, contextual_model: str) -> NewClassifier:
    """Makes fresh classifiers, with empty caches, for a time budget in milliseconds."""
    detectors = build_detectors(engine)
    context = load_context_model() if contextual_model == "builtin" else None

    def new(budget_ms: int) -> Classifier:
        return Classifier(detectors, time.thread_time_ns, budget_ms, context=context)

    return new


def _judge(rows: Sequence[Row], new: NewClassifier) -> list[Judged]:
    classifier = new(1_000)
    judged = []
    for row in track(rows, "classifying", console=Console(stderr=True), disable=not sys.stderr.isatty()):
        request = _request(row.text)
        started = time.process_time_ns()
        level = classifier.classify(request, PUBLIC).label.level
        judged.append(Judged(row, level, (time.process_time_ns() - started) / 1000))
    return judged


def _latency(rows: Sequence[Row], new: NewClassifier) -> dict[str, float]:
    """CPU time in µs for new messages of 4 KB made of the rows' own texts."""
    classifier = new(1_000)
    whole = "\n".join(row.text for row in rows)
    pieces = [whole[at : at + _LATENCY_CHARACTERS] for at in range(0, len(whole), _LATENCY_CHARACTERS)]
    times = []
    for turn in range(max(1, 200 // len(pieces))):
        for piece in pieces:
            request = _request(f"{turn} {piece}")
            started = time.process_time_ns()
            classifier.classify(request, PUBLIC)
            times.append((time.process_time_ns() - started) / 1000)
    return {"p50": round(quantile(times, 0.5), 1), "p99": round(quantile(times, 0.99), 1)}


def _throughput(rows: Sequence[Row], new: NewClassifier) -> float:
    """Megabytes of text per second of CPU, over one message with all rows."""
    classifier = new(60_000)
    text = "\n".join(row.text for row in rows)
    text *= max(1, 1_000_000 // max(1, len(text)))
    started = time.process_time()
    classifier.classify(_request(text), PUBLIC)
    return len(text.encode()) / 1e6 / max(1e-9, time.process_time() - started)


def _report(judged: list[Judged]) -> dict[str, Any]:
    confidential = Level.CONFIDENTIAL
    return {
        "n": len(judged),
        "restricted": _plain(score(judged, Level.RESTRICTED)),
        "sensitive": _plain(score(judged, confidential)),
        "by_tag": _plain_all(by(judged, lambda row: sorted(row.tags), confidential)),
        "by_lang": _plain_all(by(judged, lambda row: [row.lang] if row.lang else [], confidential)),
        "by_evasion": _plain_all(by(judged, lambda row: [row.evasion] if row.evasion else [], confidential)),
        "by_channel": _plain_all(by(judged, lambda row: [row.channel] if row.channel else [], confidential)),
        "errors": errors(judged),
    }


def _plain(value: Score) -> dict[str, Any]:
    """`recall` and `false_positive_rate` as numbers, their intervals beside them, `n` positives."""
    return {
        "recall": _number(value.recall.value),
        "recall_interval": [round(value.recall.low, 4), round(value.recall.high, 4)],
        "false_positive_rate": _number(value.false_positive_rate.value),
        "false_positive_interval": [
            round(value.false_positive_rate.low, 4),
            round(value.false_positive_rate.high, 4),
        ],
        "n": value.recall.n,
        "n_negative": value.false_positive_rate.n,
    }


def _plain_all(scores: dict[str, Score]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in scores.items()}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _show(report: dict[str, Any], count: int) -> None:
    table = Table(title=f"{count} rows, message level, 95 % Wilson intervals")
    for heading in ("question", "recall", "of", "false alarms", "of"):
        table.add_column(heading, justify="left" if heading == "question" else "right")
    for name in ("restricted", "sensitive"):
        table.add_row(name, *_cells(report[name]))
    for group in ("by_tag", "by_lang", "by_evasion", "by_channel"):
        for key, value in report[group].items():
            table.add_row(f"{group[3:]} {key}", *_cells(value))
    console = Console()
    console.print(table)
    latency = report["latency_us"]
    console.print(
        f"4 KB message: p50 {latency['p50'] / 1000:.2f} ms, p99 {latency['p99'] / 1000:.2f} ms; "
        f"{report['megabytes_per_second']} MB/s of CPU"
    )
    for wrong in report["errors"]:
        console.print(
            f"{wrong['kind']:<12} {wrong['id']}  labelled {wrong['label']}, seen as {wrong['seen']}"
        )


def _cells(value: dict[str, Any]) -> tuple[str, str, str, str]:
    return (
        _share(value["recall"], value["recall_interval"]),
        str(value["n"]),
        _share(value["false_positive_rate"], value["false_positive_interval"]),
        str(value["n_negative"]),
    )


def _share(value: float | None, interval: list[float]) -> str:
    return "-" if value is None else f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
