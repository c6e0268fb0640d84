"""A tenant's own detectors at work."""

from __future__ import annotations

import base64
import random

import pytest

from gateway.domain.custom import CustomDetectors, CustomDictionary, CustomPattern
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.sensitivity.detectors import DetectorSet, build_detectors

SECRET = Label(Level.RESTRICTED, frozenset({Tag.MNPI}))
CLIENT = CustomPattern(
    "client-number",
    Label(Level.CONFIDENTIAL, frozenset({Tag.FIN})),
    "KD-[0-9]{6}",
    ("Kunde", "client"),
    1,
    "d:1",
)


def _terms(*terms: str, near: tuple[str, ...] = (), at_least: int = 1) -> CustomDictionary:
    return CustomDictionary("project", SECRET, terms, near, at_least, "d:2")


def _set(*parts: CustomPattern | CustomDictionary, **raised: Level) -> DetectorSet:
    own = CustomDetectors(
        tuple(part for part in parts if isinstance(part, CustomPattern)),
        tuple(part for part in parts if isinstance(part, CustomDictionary)),
        {kind.replace("_", "-"): level for kind, level in raised.items()},
        "digest",
    )
    return build_detectors("re2", own=own)


def _kinds(detectors: DetectorSet, text: str) -> list[str]:
    return [finding.kind for finding in detectors.find(text)]


def test_a_pattern_needs_its_word_near() -> None:
    detectors = _set(CLIENT)
    assert _kinds(detectors, "Kunde KD-123456 ruft an") == ["client-number"]
    assert _kinds(detectors, "part KD-123456") == []
    assert "client-number@1" in detectors.versions


def test_terms_are_found_as_whole_words_in_any_case_and_every_view() -> None:
    detectors = _set(_terms("Blue Falcon", "Zürich Nord", "項目海鷹"))
    for text in (
        "about BLUE falcon now",
        "blue-falcon",
        "blue_\nfalcon",
        "in Zurich Nord",
        "关于項目海鷹的",
        base64.b64encode(b"the blue falcon deal").decode(),
        "\u200b".join("blue falcon"),
    ):
        assert _kinds(detectors, text) == ["project"], text
    for text in ("blue falcons", "bluefalcon", "blue the falcon", "Falcon Blue"):
        assert _kinds(detectors, text) == [], text


def test_spans_are_those_of_the_text() -> None:
    text = "re: Zürich  Nord!"
    (finding,) = _set(_terms("zürich nord")).find(text)
    assert text[finding.start : finding.end] == "Zürich  Nord"


def test_terms_may_need_a_word_and_a_number_of_findings() -> None:
    assert _kinds(_set(_terms("Falcon", near=("deal",))), "the falcon flew") == []
    assert _kinds(_set(_terms("Falcon", near=("deal",))), "the falcon deal") == ["project"]
    least = _set(_terms("Falcon", "Eagle", at_least=2))
    assert _kinds(least, "falcon") == []
    assert _kinds(least, "falcon and eagle") == ["project", "project"]


def test_finds_each_of_100_000_terms() -> None:
    source = random.Random(4)
    terms = [
        "".join(source.choices("abcdefghijklmnoprstuvw", k=8)) + f" {number}" for number in range(100_000)
    ]
    detectors = _set(_terms(*terms))
    for term in source.choices(terms, k=20):
        assert _kinds(detectors, f"see {term.upper()} there") == ["project"]
    assert _kinds(detectors, "nothing of theirs is in here") == []


def test_raises_a_built_in_kind() -> None:
    detectors = _set(email=Level.RESTRICTED)
    (finding,) = detectors.find("kim@vestfjord.no")
    assert finding.label == Label(Level.RESTRICTED, frozenset({Tag.PII}))
    assert detectors.sha256 != build_detectors("re2").sha256


@pytest.mark.parametrize(
    ("kind", "level", "message"),
    [("iban", Level.INTERNAL, "restricted or higher"), ("nothing", Level.RESTRICTED, "built-in kind")],
)
def test_refuses_to_lower_and_to_raise_what_is_not_there(kind: str, level: Level, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _set(**{kind: level})


def test_refuses_the_name_of_a_built_in_detector() -> None:
    taken = CustomPattern("iban", SECRET, "x[0-9]", (), 1, "detectors.yaml:4:5")
    with pytest.raises(ConfigurationError, match=r"detectors\.yaml:4:5: name"):
        _set(taken)


def test_no_own_detectors_leave_the_built_in_set_as_it_is() -> None:
    assert _set().sha256 == build_detectors("re2").sha256
