"""`tidegate classify`: what the detectors see in one text, and why it gets its label."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from gateway.domain.chat import ChatRequest, Message, ResolvedRequest, Role, TextPart
from gateway.domain.custom import CustomDetectors
from gateway.domain.finding import Finding, Verdict
from gateway.domain.label import PUBLIC, Level
from gateway.errors import ConfigurationError
from gateway.policy.bundle import load_bundle
from gateway.sensitivity.classify import Classifier
from gateway.sensitivity.detectors import build_detectors

MAX_BYTES = 16 * 1024 * 1024
#: Characters of a match shown at each end, when it is long enough to keep most of it hidden.
_SHOWN = 2


@click.command()
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path), default="-")
@click.option(
    "--policy",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Policy folder whose detectors.yaml counts too.",
)
@click.option("--engine", type=click.Choice(["hyperscan", "re2"]), default="hyperscan", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def classify(file: Path, policy: Path | None, engine: str, as_json: bool) -> None:  # fmt: skip
    """Explain one text: findings with detector, tag, level and masked match, and the label with its reason.

    FILE is a text in UTF-8; `-`, which is the default, reads standard input.
    """
    try:
        text = _read(file)
        own, base_level = CustomDetectors(), Level.INTERNAL
        if policy is not None:
            compiled = load_bundle(policy)
            own, base_level = compiled.own_detectors, compiled.base_level
        classifier = Classifier(
            build_detectors(engine, own=own), time.perf_counter_ns, budget_ms=60_000, base_level=base_level
        )
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)
    request = ResolvedRequest(ChatRequest("assistant", (Message(Role.USER, (TextPart(text),)),)))
    verdict = classifier.classify(request, PUBLIC)
    if as_json:
        click.echo(json.dumps(_plain(text, verdict, base_level), ensure_ascii=False, indent=2))
    else:
        _show(text, verdict, base_level)


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with file.open("rb") as opened:
                raw = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigurationError(f"{file}: expected at most {MAX_BYTES} bytes, found more")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{file}: expected UTF-8, found another byte at offset {error.start}"
        ) from None


def masked(match: str) -> str:
    """The match with all but its ends hidden; shorter than nine characters, all of it."""
    flat = " ".join("".join(sign if sign.isprintable() else " " for sign in match[:400]).split())
    if len(flat) < 9:
        return "•" * len(flat)
    hidden = min(len(flat) - 2 * _SHOWN, 24)
    return f"{flat[:_SHOWN]}{'•' * hidden}{flat[-_SHOWN:]}"


def reason(verdict: Verdict, base_level: Level) -> str:
    """One sentence: why the text has its label."""
    level = verdict.label.level
    if verdict.degraded is not None:
        return f"{level.word}: the scan did not finish ({verdict.degraded}), so the strictest label stands."
    kinds = sorted({f.kind for f in _findings(verdict) if f.label.level is level})
    if level == base_level and not kinds:
        return f"{level.word}: nothing was found; this is the base level."
    return f"{level.word}: the highest of what was found ({', '.join(kinds)})."


def _findings(verdict: Verdict) -> tuple[Finding, ...]:
    return tuple(finding for part in verdict.parts for finding in part.findings)


def _line(text: str, finding: Finding) -> int:
    return text.count("\n", 0, finding.start) + 1


def _plain(text: str, verdict: Verdict, base_level: Level) -> dict[str, Any]:
    return {
        "label": verdict.label.level.word,
        "tags": list(verdict.label.sorted_tags),
        "reason": reason(verdict, base_level),
        "degraded": verdict.degraded,
        "findings": [
            {
                "kind": finding.kind,
                "detector": finding.detector,
                "level": finding.label.level.word,
                "tags": list(finding.label.sorted_tags),
                "start": finding.start,
                "end": finding.end,
                "line": _line(text, finding),
                "masked": masked(text[finding.start : finding.end]),
            }
            for finding in _findings(verdict)
        ],
    }


def _show(text: str, verdict: Verdict, base_level: Level) -> None:
    console = Console()
    findings = _findings(verdict)
    if findings:
        table = Table()
        for heading in ("line", "detector", "level", "tags", "match"):
            table.add_column(heading)
        for finding in findings:
            table.add_row(
                str(_line(text, finding)),
                finding.detector,
                finding.label.level.word,
                " ".join(finding.label.sorted_tags),
                masked(text[finding.start : finding.end]),
            )
        console.print(table)
    tags = " ".join(verdict.label.sorted_tags)
    console.print(f"label: {verdict.label.level.word}{f' ({tags})' if tags else ''}", markup=False)
    console.print(reason(verdict, base_level), markup=False)
