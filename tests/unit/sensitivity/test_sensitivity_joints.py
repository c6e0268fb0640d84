"""Texts laid end to end."""

from __future__ import annotations

from itertools import pairwise

from gateway.domain.finding import Finding
from gateway.domain.label import UNKNOWN
from gateway.sensitivity import joints


def _finding(start: int, end: int) -> Finding:
    return Finding("x", "x@1", UNKNOWN, start, end)


def test_joins_texts_without_the_blanks_at_their_seams() -> None:
    (strand,) = joints.strands_of([("a", "user", "one "), ("b", "user", "\ntwo")])
    assert strand.text == "onetwo"


def test_gives_nothing_for_a_single_text() -> None:
    assert list(joints.strands_of([("a", "user", "one")])) == []


def test_a_digit_and_a_letter_at_a_seam_are_read_apart_too() -> None:
    rows = [("a", "user", "is 51"), ("b", "user", "47 "), ("c", "user", "ok"), ("d", "user", "then")]
    together, apart, _pairs = joints.strands_of(rows)
    assert (together.text, apart.text) == ("is 5147okthen", "is 5147\nokthen")
    assert [stretch.at for stretch in apart.stretches] == [0, 5, 8, 10]


def test_digits_that_meet_digits_are_read_in_pairs_too() -> None:
    rows = [("a", "user", "is 51"), ("b", "user", "47"), ("c", "user", " 1733 is a year")]
    together, pairs = joints.strands_of(rows)
    assert together.text == "is 51471733 is a year"
    assert pairs.text.split() == ["is", "5147", "471733", "is", "a", "year"]
    second = pairs.text.index("471733")
    finding = _finding(second, second + 6)
    (block,) = joints.blocks_of(pairs)
    path, placed = block.place(finding)
    assert (path, placed.start, placed.end) == ("b", 0, 2)


def test_adds_a_speaker_of_its_own_where_others_come_between() -> None:
    rows = [("a", "user", "41"), ("b", "assistant", "go on"), ("c", "user", "11")]
    assert [strand.text for strand in joints.strands_of(rows)] == ["41go on11", "41\ngo on\n11", "4111"]


def test_speakers_in_a_row_are_not_joined_twice() -> None:
    rows = [("a", "system", "s"), ("b", "user", "x"), ("c", "user", "y")]
    assert [strand.text for strand in joints.strands_of(rows)] == ["sxy"]


def test_of_a_long_text_only_the_ends_take_part() -> None:
    long = "a" * joints.END + "MIDDLE" + "b" * joints.END
    (strand,) = joints.strands_of([("p", "user", "x"), ("q", "user", long), ("r", "user", "y")])
    assert "MIDDLE" not in strand.text
    assert strand.text.startswith("xa")
    assert strand.text.endswith("by")


def test_places_a_finding_in_the_part_where_it_begins() -> None:
    (strand,) = joints.strands_of([("p", "user", "card 4539"), ("q", "user", " 1488 end")])
    (block,) = joints.blocks_of(strand)
    path, placed = block.place(_finding(5, 13))
    assert (path, placed.start, placed.end) == ("p", 5, 9)
    path, placed = block.place(_finding(9, 13))
    assert (path, placed.start, placed.end) == ("q", 1, 5)


def test_places_findings_in_the_tail_of_a_long_text() -> None:
    long = "a" * 2000 + "TAIL"
    (strand,) = joints.strands_of([("p", "user", long), ("q", "user", "next")])
    (block,) = joints.blocks_of(strand)
    start = block.text.index("TAIL")
    path, placed = block.place(_finding(start, start + 8))
    assert (path, long[placed.start : placed.end]) == ("p", "TAIL")


def test_blocks_overlap_and_cover_the_whole_strand() -> None:
    rows = [(str(number), "user", f"- {number:04d}" * 150) for number in range(30)]
    (strand,) = joints.strands_of(rows)
    blocks = list(joints.blocks_of(strand))
    assert len(blocks) > 3
    assert all(len(block.text) <= joints.BLOCK for block in blocks)
    for before, after in pairwise(blocks):
        assert after.at == before.at + joints.BLOCK - joints.OVERLAP
    assert blocks[-1].at + len(blocks[-1].text) == len(strand.text)


def test_a_longer_conversation_repeats_the_earlier_blocks() -> None:
    rows = [(str(number), "user", f"- {number:04d}" * 150) for number in range(30)]
    (short,) = joints.strands_of(rows)
    (longer,) = joints.strands_of([*rows, ("new", "user", "- more " * 100)])
    early = [block.text for block in joints.blocks_of(short)]
    late = [block.text for block in joints.blocks_of(longer)]
    assert early[:-1] == late[: len(early) - 1]


def test_blank_texts_take_no_part() -> None:
    (strand,) = joints.strands_of([("a", "user", "  "), ("b", "user", "x"), ("c", "user", "y")])
    assert [stretch.path for stretch in strand.stretches] == ["b", "c"]
    (empty,) = joints.strands_of([("a", "user", " "), ("b", "user", "\n")])
    assert [block.text for block in joints.blocks_of(empty)] == [""]


def test_reads_all_but_the_assistant_where_answers_come_between() -> None:
    rows = [("a", "user", "41 "), ("b", "assistant", "go on"), ("c", "tool", "11")]
    assert [strand.text for strand in joints.strands_of(rows)] == ["41go on11", "41\ngo on\n11", "4111"]


def test_a_speaker_whose_texts_are_neighbours_without_the_assistant_is_not_read_twice() -> None:
    rows = [("s", "system", "s"), ("a", "user", "x"), ("b", "assistant", "y"), ("c", "user", "z")]
    assert [strand.text for strand in joints.strands_of(rows)] == ["sxyz", "sxz"]


def test_places_a_finding_in_a_row_that_begins_inside_its_part() -> None:
    (strand,) = joints.readings([joints.Row("a", " 45", 7), joints.Row("b", "39 ", 3)])
    (block,) = joints.blocks_of(strand)
    path, placed = block.place(_finding(1, 4))
    assert (path, placed.start, placed.end) == ("a", 9, 10)
