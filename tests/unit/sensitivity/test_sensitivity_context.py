"""The contextual model: its file, its windows, its findings, and the one that the product carries."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.domain.label import Level, Tag
from gateway.errors import ConfigurationError
from gateway.sensitivity.context import (
    BLOCK_ROWS,
    LEVELS,
    MAGIC,
    TAGS,
    ContextModel,
    bounds_of,
    joined,
    load_context_model,
    pack,
)
from gateway.sensitivity.language import KNOWN, OTHER_LANGUAGE, OTHER_SCRIPT
from gateway.sensitivity.vocabulary import FOREIGN, LINE, SPECIAL

WORDS = ("biopsy", "deal", "fine", "nie", "the")


def _model() -> ContextModel:
    """Two dimensions: the first is illness, the second a deal. `mask` asks for more than one word gives."""
    rows = len(SPECIAL) + len(WORDS)
    table = np.zeros((rows, 2), np.int8)
    table[len(SPECIAL) + 0, 0] = 127
    table[len(SPECIAL) + 1, 1] = 127
    flags = np.zeros(rows, np.uint8)
    flags[FOREIGN] = OTHER_SCRIPT
    flags[len(SPECIAL) + 3] = OTHER_LANGUAGE
    flags[len(SPECIAL) + 4] = KNOWN
    linear = np.full((5, len(TAGS) + 1), 0.0, np.float32)
    linear[2, 0] = linear[3, 1] = 8.0
    linear[2:4, -1] = 8.0
    weight = np.ones(rows, np.float32)
    weight[LINE] = 0.0
    arrays: dict[str, NDArray[np.generic]] = {
        "table": table,
        "scale": np.full(rows, 1 / 127, np.float32),
        "weight": weight,
        "flags": flags,
        "linear": linear,
        "hidden": np.zeros((5, 3), np.float32),
        "hidden_bias": np.zeros(3, np.float32),
        "out": np.zeros((3, len(TAGS) + 1), np.float32),
        "out_bias": np.full(len(TAGS) + 1, -4.0, np.float32),
        "slope": np.ones(len(TAGS)),
        "offset": np.zeros(len(TAGS)),
    }
    return ContextModel(
        pack(arrays, WORDS, (), (), {tag.value: 0.9 for tag in TAGS}, {tag.value: 0.99 for tag in TAGS})
    )


def test_scores_the_tag_of_the_words_and_no_other() -> None:
    score = _model().score("the biopsy")
    assert score.by_tag[Tag.PHI] > 0.97
    assert max(value for tag, value in score.by_tag.items() if tag is not Tag.PHI) < 0.1
    assert score.is_known_language


def test_finds_each_tag_at_its_own_window() -> None:
    text = "the fine the fine\nthe biopsy the fine\nthe fine fine fine\nthe deal the fine"
    found = {finding.kind: text[finding.start : finding.end] for finding in _model().find(text)}
    assert found["context-phi"].startswith("the biopsy")
    assert "deal" in found["context-mnpi"]


def test_findings_carry_the_level_of_their_tag_and_no_text() -> None:
    (finding,) = _model().find("biopsy")
    assert finding.label.level is LEVELS[Tag.PHI] is Level.RESTRICTED
    assert finding.label.tags == {Tag.PHI}
    assert "biopsy" not in repr(finding)


def test_asks_for_more_before_it_masks() -> None:
    model = _model()
    assert model.find("biopsy")
    assert model.find_to_mask("biopsy") == ()


def test_says_nothing_of_an_empty_text() -> None:
    score = _model().score("\n\n \n")
    assert set(score.scores) == {0.0}
    assert score.is_known_language


def test_spans_the_whole_text_when_places_do_not_hold() -> None:
    text = r"\u0062iopsy"
    (finding,) = _model().find(text)
    assert (finding.start, finding.end) == (0, len(text))


@pytest.mark.parametrize("text", ["привет", "the fine the fine\nпривет мир", "nie nie", "안녕하세요 여러분"])
def test_takes_a_line_in_another_language_for_uncertain(text: str) -> None:
    assert not _model().score(text).is_known_language


@pytest.mark.parametrize("text", ["the fine привет the fine the", "π", "nie", "fine 12 {}", "the the nie"])
def test_takes_one_foreign_word_among_known_ones_for_known(text: str) -> None:
    assert _model().score(text).is_known_language


def test_cuts_lines_into_blocks_and_puts_short_lines_to_the_next() -> None:
    rows = np.array([LINE, 11, LINE, *[11] * 5, LINE, *[11] * (BLOCK_ROWS + 3), LINE, LINE, 12], np.int32)
    start, end = bounds_of(rows)
    assert start.tolist() == [1, 9, 9 + BLOCK_ROWS, len(rows) - 1]
    assert end.tolist() == [8, 9 + BLOCK_ROWS, 9 + BLOCK_ROWS + 3, len(rows)]


def test_gives_the_overall_output_to_the_likeliest_tag() -> None:
    outputs = np.zeros((1, len(TAGS) + 1), np.float32)
    outputs[0, 2], outputs[0, -1] = 3.0, 5.0
    made = joined(outputs)
    assert made[0, 2] == 5.0
    assert made[0, 0] == 2.0


def test_refuses_a_file_that_is_not_whole() -> None:
    whole = load_bytes()
    for broken in (b"", MAGIC, whole[:-1], whole + b"x", b"x" + whole, MAGIC + b"\xff" * 40):
        with pytest.raises(ConfigurationError, match="contextual model"):
            ContextModel(broken)


def test_refuses_a_file_without_a_threshold_for_every_tag() -> None:
    with pytest.raises(ConfigurationError, match="route"):
        ContextModel(pack({}, ("a",), (), (), {}, {}))


def test_refuses_a_file_without_all_arrays() -> None:
    with pytest.raises(ConfigurationError, match="arrays"):
        ContextModel(load_bytes())


def load_bytes() -> bytes:
    """A small whole file."""
    half = {tag.value: 0.5 for tag in TAGS}
    return pack({"scale": np.ones((1,), np.float32)}, ("a",), (), (), half, half)


@pytest.fixture(scope="module")
def carried() -> ContextModel:
    return load_context_model()


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("my biopsy came back positive and I have not told my wife", Tag.PHI),
        ("we sign the merger on Friday, keep it quiet until it is announced", Tag.MNPI),
        ("Meine Frau hat Brustkrebs, die Chemo beginnt nächste Woche", Tag.PHI),
    ],
)
def test_the_carried_model_sees_what_a_careful_person_sees(
    carried: ContextModel, text: str, tag: Tag
) -> None:
    assert f"context-{tag.value}" in {finding.kind for finding in carried.find(text)}


@pytest.mark.parametrize(
    "text",
    [
        "What are the side effects of metformin?",
        "merge the branch on Friday",
        "今天天气怎么样？",
        "Quelle est la capitale de l'Australie ?",
        "def add(left, right):\n    return left + right\n",
    ],
)
def test_the_carried_model_passes_what_harms_nobody(carried: ContextModel, text: str) -> None:
    assert carried.find(text) == ()
    assert carried.score(text).is_known_language


def test_the_carried_model_names_itself_and_its_digest(carried: ContextModel) -> None:
    assert carried.name == "context@1"
    assert len(carried.sha256) == 64
    assert all(0.0 < route <= mask <= 1.0 for route, mask in zip(carried.route, carried.mask, strict=True))
