from __future__ import annotations

from gateway.upstream.deadlines import Deadlines

DEADLINES = Deadlines(connect_seconds=1, first_byte_seconds=2, idle_seconds=3, total_seconds=10)


def test_names_the_idle_deadline_when_nothing_came_for_long() -> None:
    assert DEADLINES.passed(started=0, progressed=4, now=6.9) is None
    assert DEADLINES.passed(started=0, progressed=4, now=7) == "idle"


def test_names_the_total_deadline_first() -> None:
    assert DEADLINES.passed(started=0, progressed=9.9, now=10) == "total"


def test_next_check_is_the_nearer_of_both_and_never_negative() -> None:
    assert DEADLINES.next_check_seconds(started=0, progressed=0, now=0) == 3
    assert DEADLINES.next_check_seconds(started=0, progressed=9, now=9) == 1
    assert DEADLINES.next_check_seconds(started=0, progressed=0, now=99) == 0
