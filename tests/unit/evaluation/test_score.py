from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.label import Level
from gateway.evaluation.corpus import Row
from gateway.evaluation.score import Judged, by, errors, quantile, score, wilson


def judged(truth: Level, seen: Level, tags: frozenset[str] = frozenset(), id: str = "r") -> Judged:
    return Judged(Row(id, "text", truth, tags), seen, 1.0)


def test_wilson_gives_the_published_interval() -> None:
    rate = wilson(8, 10)
    assert rate.value == 0.8
    assert math.isclose(rate.low, 0.4902, abs_tol=1e-4)
    assert math.isclose(rate.high, 0.9433, abs_tol=1e-4)


def test_no_rows_give_no_share_and_the_whole_interval() -> None:
    rate = wilson(0, 0)
    assert math.isnan(rate.value)
    assert (rate.low, rate.high, rate.n) == (0.0, 1.0, 0)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share(pair: tuple[int, int]) -> None:
    rate = wilson(*pair)
    assert 0 <= rate.low <= rate.value <= rate.high <= 1


def test_recall_counts_only_positives_and_false_alarms_only_public_and_internal() -> None:
    rows = [
        judged(Level.RESTRICTED, Level.RESTRICTED),
        judged(Level.RESTRICTED, Level.INTERNAL),
        judged(Level.CONFIDENTIAL, Level.RESTRICTED),
        judged(Level.INTERNAL, Level.RESTRICTED),
        judged(Level.PUBLIC, Level.PUBLIC),
    ]
    restricted = score(rows, Level.RESTRICTED)
    assert (restricted.recall.value, restricted.recall.n) == (0.5, 2)
    assert (restricted.false_positive_rate.value, restricted.false_positive_rate.n) == (0.5, 2)
    sensitive = score(rows, Level.CONFIDENTIAL)
    assert sensitive.recall.n == 3


def test_a_row_counts_for_each_of_its_tags() -> None:
    rows = [judged(Level.RESTRICTED, Level.RESTRICTED, frozenset({"pii", "fin"}))]
    assert list(by(rows, lambda row: sorted(row.tags), Level.CONFIDENTIAL)) == ["fin", "pii"]


def test_errors_name_rows_by_id_and_never_by_text() -> None:
    rows = [
        judged(Level.RESTRICTED, Level.INTERNAL, id="a"),
        judged(Level.PUBLIC, Level.RESTRICTED, id="b"),
        judged(Level.RESTRICTED, Level.RESTRICTED, id="c"),
    ]
    found = errors(rows)
    assert [(each["id"], each["kind"]) for each in found] == [("a", "missed"), ("b", "false-alarm")]
    assert "text" not in str(found)


def test_quantile_of_nothing_is_not_a_number() -> None:
    assert math.isnan(quantile([], 0.5))
    assert quantile([1.0, 2.0, 3.0], 0.5) == 2.0
