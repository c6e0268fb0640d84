from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.reload import run

pytestmark = pytest.mark.integration


def test_a_change_under_load_loses_no_request_and_each_record_fits_its_digest(
    tmp_path: Path,
) -> None:
    """Shortened; `python -m tests.bench.reload` runs the full minute."""
    outcome = run(tmp_path, seconds=6, rate=200, every_seconds=0.1)
    assert (outcome.sent, outcome.failed, outcome.faults) == (1200, 0, {})
    assert (outcome.admitted, outcome.wrong) == (1200, [])
    # Both policies decided, and the change was really made while requests ran.
    assert len(outcome.by_digest) == 2
    assert outcome.activations > 5
