"""What lint says of a tenant's own detectors that are sound and do nothing, or too much."""

from __future__ import annotations

import pytest

from gateway.domain.custom import CustomDetectors, CustomDictionary, CustomPattern
from gateway.domain.label import Label, Level, Tag
from gateway.policy.detector_notes import detector_notes

SECRET = Label(Level.RESTRICTED, frozenset({Tag.IP}))
WHERE = "detectors.yaml:4:11"


def _pattern(pattern: str, near: tuple[str, ...] = (), label: Label = SECRET) -> CustomDetectors:
    return CustomDetectors((CustomPattern("own", label, pattern, near, 1, WHERE),))


def _dictionary(name: str, *terms: str) -> CustomDictionary:
    return CustomDictionary(name, SECRET, terms, (), 1, WHERE)


def test_a_narrow_pattern_and_ordinary_terms_have_no_note() -> None:
    own = CustomDetectors(
        _pattern(r"\bPRJ-[0-9]{5}\b").patterns, (_dictionary("projects", "Blue Heron", "Nordwind"),)
    )
    assert detector_notes(own, Level.INTERNAL) == ()


def test_a_pattern_that_fires_on_ordinary_text_is_named_with_its_place() -> None:
    (note,) = detector_notes(_pattern("[a-z]{3,}"), Level.INTERNAL)
    assert note.startswith("detectors.yaml:4:11: pattern own fires on ordinary text (5 of 5 samples)")
    assert detector_notes(_pattern("[a-z]{3,}", near=("project",)), Level.INTERNAL) == ()


@pytest.mark.parametrize("pattern", ["^PRJ-[0-9]{5}", "PRJ-[0-9]{5}$"])
def test_a_pattern_bound_to_the_edge_of_a_text_is_named(pattern: str) -> None:
    (note,) = detector_notes(_pattern(pattern), Level.INTERNAL)
    assert "of a whole text" in note


def test_a_literal_dollar_at_the_end_is_no_edge() -> None:
    assert detector_notes(_pattern(r"PRJ[0-9]{5}\$"), Level.INTERNAL) == ()


def test_a_detector_that_raises_nothing_is_named() -> None:
    (note,) = detector_notes(_pattern("PRJ-[0-9]{5}", label=Label(Level.INTERNAL)), Level.INTERNAL)
    assert note == f"{WHERE}: own raises nothing: every text has internal or more anyway"


def test_terms_that_are_never_found_too_short_or_said_twice_are_named_by_number() -> None:
    own = CustomDetectors(
        (),
        (
            _dictionary("clients", "Müller AG", "muller-ag", "ACE", "Red -- -- Fox"),
            _dictionary("other", "MULLER AG"),
        ),
    )
    notes = detector_notes(own, Level.INTERNAL)
    assert [note.removeprefix(f"{WHERE}: dictionary ") for note in notes] == [
        "clients term 2 reads like term 1",
        "clients term 3 is one word of 3 letters: it is found in many texts",
        "clients term 4 has more than three signs between two words and is never found",
        "other term 1 reads like term 1 of clients",
    ]
    assert not any("ller" in note for note in notes)


def test_many_notes_of_one_dictionary_are_summed_up() -> None:
    own = CustomDetectors((), (_dictionary("short", *(f"{letter}{letter}x" for letter in "abcdefghijklmn")),))
    notes = detector_notes(own, Level.INTERNAL)
    assert len(notes) == 11
    assert notes[-1] == f"{WHERE}: dictionary short has 4 more such terms"
