"""What every detector must keep, run against the built-in set and a fake."""

from __future__ import annotations

import re

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level, Tag
from gateway.sensitivity.detectors import Detector, DetectorSet, build_detectors


class WordDetector:
    """Fake: finds one word."""

    identity = "word@1"

    def find(self, text: str) -> tuple[Finding, ...]:
        """Every place of the word `hush`."""
        label = Label(Level.CONFIDENTIAL, frozenset({Tag.LEGAL}))
        return tuple(
            Finding("word", self.identity, label, *match.span()) for match in re.finditer("hush", text)
        )


class BuiltIn:
    """The built-in set as one detector."""

    def __init__(self, engine: str) -> None:
        self._set: DetectorSet = build_detectors(engine)
        self.identity = f"built-in-{engine}@1"

    def find(self, text: str) -> tuple[Finding, ...]:
        """Findings of the set."""
        return self._set.find(text)


DETECTORS: list[Detector] = [BuiltIn("hyperscan"), BuiltIn("re2"), WordDetector()]
HIT = "hush, mail kim@vestfjord.no"
TEXTS = ["", " ", HIT, f"é\u200b {HIT} 漢字 {HIT}", "\ud800", "\x00\x01", "9" * 300, "%" * 50 + "\\u" * 50]


@pytest.fixture(params=DETECTORS, ids=lambda detector: detector.identity)
def detector(request: pytest.FixtureRequest) -> Detector:
    """Each implementation in turn."""
    implementation: Detector = request.param
    return implementation


def test_identity_is_name_at_version(detector: Detector) -> None:
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*@[0-9]+", detector.identity)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_spans_are_ordered_and_inside_the_text(detector: Detector, text: str) -> None:
    findings = detector.find(text)
    assert all(0 <= finding.start < finding.end <= len(text) for finding in findings)
    assert [finding.start for finding in findings] == sorted(finding.start for finding in findings)


def test_finds_its_own_and_gives_the_same_twice(detector: Detector) -> None:
    findings = detector.find(HIT)
    assert findings
    assert findings == detector.find(HIT)


def test_findings_name_their_detector_and_a_closed_kind(detector: Detector) -> None:
    for finding in detector.find(HIT):
        assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", finding.kind)
        assert re.fullmatch(r"[a-z0-9-]+@[0-9]+", finding.detector)
        assert finding.label.level > Level.PUBLIC


def test_finds_nothing_in_nothing(detector: Detector) -> None:
    assert detector.find("") == ()


def test_can_be_added_to_a_set(detector: Detector) -> None:
    combined = build_detectors("re2", (detector,))
    assert detector.identity in combined.versions
    labels = {finding.label.level for finding in combined.find(HIT)}
    assert labels >= {finding.label.level for finding in detector.find(HIT)}
