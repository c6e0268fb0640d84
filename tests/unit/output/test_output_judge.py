"""Unit tests of `gateway.output.judge`."""

from __future__ import annotations

from itertools import count

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Level
from gateway.errors import OutputBlocked
from gateway.output.judge import BUDGET_CHARS, Find, Judge, Mask
from gateway.output.rules import DEFAULT_PROFILE, Action, KindRule, OutputProfile
from tests.fakes.output_finder import RESTRICTED, find


def _judge(finder: Find = find, profile: OutputProfile = DEFAULT_PROFILE, budget_ns: int = 100) -> Judge:
    ticks = count()
    return Judge(finder, profile, lambda: next(ticks), budget_ns)


def _fixed(*spans: tuple[str, int, int]) -> Find:
    return lambda _text: tuple(Finding(kind, "fake@1", RESTRICTED, start, end) for kind, start, end in spans)


def _spans(masks: list[Mask]) -> list[tuple[str, int, int]]:
    return [(mask.kind, mask.start, mask.end) for mask in masks]


def test_gives_masks_that_end_behind_the_start() -> None:
    judge = _judge(_fixed(("a", 0, 3), ("b", 2, 6), ("c", 7, 9)))
    assert _spans(judge.scan("0123456789", 3)) == [("b", 2, 6), ("c", 7, 9)]


def test_joins_overlapping_findings_under_the_longer_ones_name() -> None:
    judge = _judge(_fixed(("short", 2, 5), ("long", 0, 4), ("apart", 5, 6)))
    assert _spans(judge.scan("0123456789")) == [("long", 0, 5), ("apart", 5, 6)]


def test_joins_overlapping_findings_under_the_stricter_ones_name() -> None:
    rules = (*DEFAULT_PROFILE.rules, KindRule("short@1", ("short",), Level.PUBLIC, Action.BLOCK))
    judge = _judge(_fixed(("short", 2, 5), ("long", 0, 4)), OutputProfile("p", rules))
    (mask,) = judge.scan("0123456789")
    assert (mask.kind, mask.action, mask.rule, mask.start, mask.end) == (
        "short",
        Action.BLOCK,
        "short@1",
        0,
        5,
    )


def test_leaves_out_findings_that_no_rule_is_about() -> None:
    profile = OutputProfile("p", (KindRule("cards@1", ("card",), Level.PUBLIC, Action.REDACT),))
    judge = _judge(profile=profile)
    assert _spans(judge.scan("a@b.de 4111 1111 1111 1111")) == [("card", 7, 26)]
    assert judge.open_secret("private-key", 0, 4) is None


def test_placeholder_has_no_character_that_json_would_escape() -> None:
    judge = _judge(_fixed(('we"ird\\', 0, 3)))
    (mask,) = judge.scan("0123456789")
    assert mask.placeholder == "[redacted:item]"


def test_reads_json_through_its_escapes_and_maps_back() -> None:
    text = r"x \u0061\u0040b.de \n a@b.de"
    masks = _judge().scan(text, 0, is_json=True)
    assert [text[mask.start : mask.end] for mask in masks] == [r"\u0061\u0040b.de", "a@b.de"]


def test_mask_of_written_json_never_begins_inside_an_escape() -> None:
    text = r"x\nfoo@b.de"
    (mask,) = _judge().scan(text, 0, is_json=True)
    assert text[mask.start : mask.end] == r"\nfoo@b.de"


@pytest.mark.parametrize("span", [(-1, 2), (2, 2), (3, 2), (0, 11)])
def test_blocks_on_a_span_that_is_not_in_the_text(span: tuple[int, int]) -> None:
    with pytest.raises(OutputBlocked) as caught:
        _judge(_fixed(("a", *span))).scan("0123456789")
    assert caught.value.detail == "finding-out-of-bounds"


def test_blocks_when_the_finder_raises_and_does_not_pass_its_words_on() -> None:
    def broken(text: str) -> tuple[Finding, ...]:
        raise RuntimeError(text)

    with pytest.raises(OutputBlocked) as caught:
        _judge(broken).scan("the secret text")
    assert caught.value.detail == "finder-raised"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "secret text" not in str(caught.value)


def test_budget_is_for_one_event_and_grows_with_its_size() -> None:
    judge = _judge(budget_ns=2)
    judge.begin(10)
    judge.scan("a")
    judge.scan("a")
    with pytest.raises(OutputBlocked) as caught:
        judge.scan("a")
    assert caught.value.detail == "budget-spent"
    judge.begin(BUDGET_CHARS)
    for _ in range(4):
        judge.scan("a")
    with pytest.raises(OutputBlocked):
        judge.scan("a")
