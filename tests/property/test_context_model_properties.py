"""Laws of the contextual model over any text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sensitivity.context import load_context_model
from gateway.sensitivity.vocabulary import places_of, tokens_of

MODEL = load_context_model()
#: Long enough to be a block of its own.
LINES = st.lists(
    st.sampled_from(
        [
            "the lunch menu for next week is on the notice board",
            "my biopsy came back positive and I am scared",
            "Wann beginnt die Besprechung am Dienstag im großen Raum",
            "we sign the merger on Friday so keep it quiet",
            "for name in names: print(name.upper(), end=' ')",
        ]
    ),
    min_size=1,
    max_size=12,
)


@given(st.text(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_has_scores_between_zero_and_one_twice_the_same(text: str) -> None:
    score = MODEL.score(text)
    assert all(0.0 <= value <= 1.0 for value in score.scores)
    assert MODEL.score(text) == score


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_findings_lie_inside_the_text(text: str) -> None:
    for finding in MODEL.find(text):
        assert 0 <= finding.start < finding.end <= len(text)


@given(LINES, LINES, LINES)
@settings(max_examples=60, deadline=None)
def test_lines_around_a_text_never_lower_its_scores(
    before: list[str], text: list[str], after: list[str]
) -> None:
    alone = MODEL.score("\n".join(text))
    among = MODEL.score("\n".join([*before, *text, *after]))
    assert all(wide >= narrow - 1e-4 for wide, narrow in zip(among.scores, alone.scores, strict=True))


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_what_was_scored_before_changes_nothing(text: str) -> None:
    rows = MODEL.vocabulary.rows(text)
    MODEL.vocabulary.rows("other words entirely")
    assert MODEL.vocabulary.rows(text) == rows
    assert len(list(places_of(text))) == len(tokens_of(text))
