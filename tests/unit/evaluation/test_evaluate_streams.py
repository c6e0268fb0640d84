"""`tidegate evaluate streams`: it must find what a bad filter does, and nothing in what a good one does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.domain.stream import FilterAction, StreamEvent, TextDelta
from gateway.errors import ConfigurationError, OutputBlocked
from gateway.evaluation.streams import PAIRINGS, Answer, Passage, Result, chunkings, judge, parse_answers

CARD = "4532 0151 1283 0366"
ROW = Answer("row", f"Pay with {CARD} today.", (CARD,))
CLEAN = Answer("clean", "The lock opens at noon.", ())


class Filter:
    """A filter that does one thing to each text."""

    held_count = 0
    actions: tuple[FilterAction, ...] = ()

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        if not isinstance(event, TextDelta):
            return (event,)
        return (TextDelta(event.choice, event.channel, self._change(event.text)),)

    def flush(self) -> tuple[StreamEvent, ...]:
        return ()


def result(answer: Answer, change: Callable[[str], str]) -> Result:
    sizes = cycle((3, 1, 7))
    return judge(answer, Passage(lambda: Filter(change), time.thread_time_ns), 4, lambda: next(sizes))


def test_a_filter_that_does_nothing_leaks_in_every_run() -> None:
    found = result(ROW, lambda text: text)
    assert len(found.leaks) == found.runs
    assert any("anthropic to chat.completions, streamed" in where for where in found.leaks)
    assert not found.is_unequal


def test_a_filter_that_looks_at_one_piece_at_a_time_leaks_where_the_cut_is_inside() -> None:
    found = result(ROW, lambda text: text.replace(CARD, "[card]"))
    assert found.is_unequal
    assert not any(where.startswith("whole") for where in found.leaks)
    inside = ROW.text.index(CARD) + 4
    assert any(where.startswith(f"cut at {inside},") for where in found.leaks)


def test_a_forbidden_string_is_found_when_only_its_spaces_were_taken_out() -> None:
    assert result(ROW, lambda text: text.replace(" ", "")).leaks


def test_a_filter_that_changes_clean_text_is_told_of() -> None:
    found = result(CLEAN, lambda text: text.replace("noon", "[time]"))
    assert found.false_cuts
    assert not found.leaks


def test_a_filter_that_stops_a_clean_answer_is_told_of() -> None:
    def stop(text: str) -> str:
        raise OutputBlocked("stopped")

    found = result(CLEAN, stop)
    assert len(found.false_cuts) == found.runs


def test_a_good_pass_shows_nothing_and_runs_every_cut_in_every_streamed_pairing() -> None:
    found = result(CLEAN, lambda text: text)
    assert (found.leaks, found.false_cuts, found.is_unequal) == ([], [], False)
    streamed = sum(stream for _, _, stream in PAIRINGS)
    assert found.runs == streamed * (2 + len(CLEAN.text) - 1 + 4) + (len(PAIRINGS) - streamed)


def test_every_chunking_is_the_whole_text() -> None:
    sizes = cycle((1, 5))
    made = list(chunkings("Ein Schlüssel 🔑 hier", 3, lambda: next(sizes)))
    assert {"".join(pieces) for _, pieces in made} == {"Ein Schlüssel 🔑 hier"}
    assert len({name for name, _ in made}) == len(made)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"[]", "expected an object"),
        (b'{"text": 3}', "expected an object"),
        (b'{"text": "a", "must_not_emit": [""]}', "an empty string"),
        (b'{"text": "' + b"a" * 300_000 + b'"}', "at most"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_file_and_line(line: bytes, told: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"rows\.jsonl:2: .*{told}"):
        list(parse_answers([b'{"text": "fine"}', line], "rows.jsonl"))


def test_the_command_prints_figures_writes_json_and_fails_on_a_leak(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    written = [
        {"id": "card", "text": ROW.text, "must_not_emit": [CARD]},
        {"id": "prose", "text": CLEAN.text},
    ]
    rows.write_text("\n".join(json.dumps(row) for row in written), "utf-8")
    figures = tmp_path / "figures.json"
    done = CliRunner().invoke(
        main, ["evaluate", "streams", str(rows), "--json", str(figures), "--chunkings", "2"]
    )
    assert done.exit_code == 0, done.output
    report = json.loads(figures.read_text("utf-8"))
    assert (report["leaks"], report["false_cuts"], report["unequal"], report["held_back_chars"]) == (
        0,
        0,
        0,
        0,
    )
    assert report["us_per_event"] > 0
    rows.write_text(json.dumps({"id": 7, "text": CLEAN.text, "must_not_emit": ["noon"]}), "utf-8")
    done = CliRunner().invoke(
        main, ["evaluate", "streams", str(rows), "--json", str(figures), "--chunkings", "0"]
    )
    assert done.exit_code == 1
    assert json.loads(figures.read_text("utf-8"))["errors"][0]["id"] == "7"
    assert "noon" not in done.output


def test_an_unknown_profile_is_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}', "utf-8")
    done = CliRunner().invoke(main, ["evaluate", "streams", str(rows), "--profile", "nothing"])
    assert done.exit_code == 2
    assert "expected one of default" in done.output
