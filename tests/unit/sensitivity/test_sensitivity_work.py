"""Bounds of one text: counted steps, enough of a kind, and never "clean" for what was not read."""

from __future__ import annotations

import pytest

from gateway.domain.chat import ChatRequest, Message, ResolvedRequest, Role, TextPart
from gateway.domain.label import PUBLIC, Level, Tag
from gateway.sensitivity.classify import MOST_OF_A_KIND, Classifier, FindingsCache
from gateway.sensitivity.detectors import build_detectors
from gateway.sensitivity.work import STEPS, Exhausted, Work
from tests.unit.sensitivity import vectors

DETECTORS = build_detectors()
CARD = vectors.card("4539", 16, 1)


def test_steps_run_out() -> None:
    work = Work.bounded(0, 1, None)
    work.spend(STEPS)
    with pytest.raises(Exhausted):
        work.spend(1)


def test_without_bounds_steps_never_run_out() -> None:
    Work().spend(10**9)


def test_a_kind_is_done_when_it_was_found_often_enough() -> None:
    work, rule = Work(2), object()
    work.note(rule)
    assert not work.is_done(rule)
    work.note(rule)
    assert work.is_done(rule)
    assert not Work().is_done(rule)


def test_the_clock_is_asked_now_and_then() -> None:
    asked: list[int] = []
    work = Work(check=lambda: asked.append(1))
    for _ in range(1000):
        work.spend(1)
    assert 5 < len(asked) < 100


DENSE = {
    "numbers that are no cards": "4" + "0123456789" * 12_000,
    "pairs of digits": "12 34 " * 40_000,
    "single digits": "7 " * 120_000,
    "cards with a wrong check": f"{CARD[:-1]}{(int(CARD[-1]) + 1) % 10}, " * 20_000,
    "serials": "900-12-3456, " * 30_000,
    "escapes": "\\u0041" * 60_000,
    "entities": "&#52;" * 60_000,
    "quotes": '\\"' * 120_000,
    "words": "one three vier cinq " * 12_000,
    "accounts that are none": "DE00370400440532013000 " * 12_000,
}


@pytest.mark.parametrize("name", sorted(DENSE))
def test_a_text_packed_with_candidates_is_restricted_or_read_to_its_end(name: str) -> None:
    text = DENSE[name]
    bounded = DETECTORS.find(text, None, MOST_OF_A_KIND)
    whole = {finding.label for finding in DETECTORS.find(text[:4000])}
    top = max((finding.label.level for finding in bounded), default=Level.PUBLIC)
    assert all(label.level <= top for label in whole)
    if any(finding.kind == "dense-text" for finding in bounded):
        assert top is Level.RESTRICTED


def test_a_secret_behind_a_packed_text_is_not_let_through() -> None:
    text = DENSE["serials"] * 3 + " ghp_" + vectors.token(36, 5)
    request = ResolvedRequest(ChatRequest("m", (Message(Role.USER, (TextPart(text),)),)))
    verdict = Classifier(DETECTORS, lambda: 0).classify(request, PUBLIC)
    assert verdict.label.level is Level.RESTRICTED


def test_enough_cards_are_enough_for_the_label_and_all_are_found_for_masking() -> None:
    text = f"{CARD}, " * 300
    bounded = [f for f in DETECTORS.find(text, None, MOST_OF_A_KIND) if f.kind == "payment-card"]
    assert len(bounded) == MOST_OF_A_KIND
    assert len(DETECTORS.find(text)) == 300


def test_a_text_with_many_findings_is_kept_with_one_of_each_kind() -> None:
    cache = FindingsCache(b"k" * 32)
    classifier = Classifier(DETECTORS, lambda: 0, cache=cache)
    mixed = "".join(
        f"kim{n}@vestfjord.no, {vectors.ssn(n)}, {CARD}, +44 20 7946 0{n:03d}; " for n in range(99)
    )
    request = ResolvedRequest(ChatRequest("m", (Message(Role.USER, (TextPart(mixed),)),)))
    verdict = classifier.classify(request, PUBLIC)
    assert len(cache) >= 1
    assert classifier.classify(request, PUBLIC) == verdict
    assert {"email", "payment-card", "phone", "us-ssn"} <= set(verdict.kinds)
    assert {Tag.PCI, Tag.PII} <= verdict.label.tags


def test_findings_kept_under_one_detector_set_are_not_taken_for_another() -> None:
    cache = FindingsCache(b"k" * 32)
    assert cache.digest("x", b"a") != cache.digest("x", b"b")


def test_a_rule_that_wants_more_findings_is_looked_for_until_it_has_them() -> None:
    rule, other = object(), object()
    work = Work.bounded(100, 2, None, {id(rule): 4})
    for _ in range(3):
        work.note(rule)
        work.note(other)
    assert not work.is_done(rule)
    assert work.is_done(other)
    work.note(rule)
    assert work.is_done(rule)
