"""What the launcher reads out of vLLM's log."""

from __future__ import annotations

from pathlib import Path

from private_node.launch import MILESTONES, LogFollower, last_lines, milestone


def test_knows_a_milestone_inside_a_line_and_nothing_else() -> None:
    line = "(APIServer pid=1) INFO 12-01 08:57:03 [kv_cache_utils.py:2327] CPU KV cache size: 34,944 tokens"
    assert milestone(line) == "cache allocated"
    assert milestone("INFO: something else") is None


def test_reports_each_milestone_once_in_order_of_appearance(tmp_path: Path) -> None:
    log, said = tmp_path / "log", list[str]()
    follower = LogFollower(log, said.append)
    log.write_text("".join(f"x {part} y\n" * 2 for part, _ in MILESTONES[:-1]))
    follower.report_new()
    assert not follower.is_complete
    with log.open("a") as handle:
        handle.write(f"x {MILESTONES[-1][0]}\n")
    follower.report_new()
    assert said == [meaning for _, meaning in MILESTONES]
    assert follower.is_complete


def test_finds_a_milestone_that_is_written_in_two_pieces(tmp_path: Path) -> None:
    log, said = tmp_path / "log", list[str]()
    follower = LogFollower(log, said.append)
    part, meaning = MILESTONES[-1]
    for piece in (part[:5], part[5:], "\n"):
        with log.open("a") as handle:
            handle.write(piece)
        follower.report_new()
    assert said == [meaning]


def test_gives_the_last_lines_of_a_long_log_and_none_of_a_missing_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(20_000)))
    assert last_lines(log, 2) == ["line 19998", "line 19999"]
    assert last_lines(tmp_path / "absent", 2) == []
