"""A short run of `make soak-limits`; and the judge itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.soak_limits import LIMIT, judge, most_in_a_window, run

pytestmark = pytest.mark.integration


def record(phase: str, request_id: str, at: str, **limits: Any) -> dict[str, Any]:
    usage = {"source": "provider"} if phase == "completed" else None
    return {
        "phase": phase,
        "request_id": request_id,
        "ts_utc": f"2026-12-01T09:{at}+00:00",
        "decision": {"limits": {"reserved_tokens": 60_000, **limits}},
        "result": {"usage": usage, "upstream_request_id": f"req-{request_id}"},
    }


def test_the_limit_holds_over_a_kill(tmp_path: Path) -> None:
    verdict = run(tmp_path, seconds=8, workers=12, gateways=2, kills=1)
    assert verdict.holds, verdict
    assert verdict.statuses["answered"] > 0


def test_most_tokens_of_any_minute_are_found() -> None:
    second = 1_000_000
    assert most_in_a_window([(0, 5), (59 * second, 6), (60 * second, 7)]) == 13
    assert most_in_a_window([]) == 0


def test_the_judge_sees_a_limit_that_did_not_hold_and_a_wrong_settlement(tmp_path: Path) -> None:
    meter = tmp_path / "meter.jsonl"
    meter.write_text(json.dumps({"id": "req-a", "tokens": 40_000, "is_told": True}) + "\n", "utf-8")
    ended = [
        record("admitted", "a", "00:00"),
        record("completed", "a", "00:01", settled_tokens=40_000),
        record("admitted", "b", "00:30"),
    ]
    assert judge(ended, meter, 0, {}).granted == LIMIT
    assert judge(ended, meter, 0, {}).holds
    assert not judge(ended, meter, 1, {}).holds
    assert not judge([*ended, record("admitted", "c", "00:59")], meter, 0, {}).holds
    wrong = [ended[0], record("completed", "a", "00:01", settled_tokens=39_999)]
    assert judge(wrong, meter, 0, {}).wrong == 1
