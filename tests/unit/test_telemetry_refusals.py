"""What the log tells of a refusal: its closed word, and nothing that could be a piece of an answer."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from gateway.errors import OutputBlocked
from gateway.telemetry import report_refusal


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("budget-spent", "budget-spent"),
        ("rule identifiers-and-secrets", "rule identifiers-and-secrets"),
        (None, ""),
        ("the card 4532 0151 1283 0366", "withheld"),
        ("x" * 65, "withheld"),
        ("line\nbreak", "withheld"),
    ],
)
def test_only_closed_words_are_logged(detail: str | None, told: str) -> None:
    with capture_logs() as lines:
        report_refusal(OutputBlocked("stopped", detail=detail), "req_1")
    assert [line["detail"] for line in lines] == [told]
    assert (lines[0]["event"], lines[0]["reason"], lines[0]["request_id"]) == (
        "answer refused",
        "output-blocked",
        "req_1",
    )
