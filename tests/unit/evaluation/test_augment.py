"""More texts out of hand-written ones: the same for the same seed, and no dress loses its text."""

from __future__ import annotations

import json

from gateway.evaluation.augment import Augmenter
from gateway.evaluation.negatives import stock_texts

TEXT = "the nurse wrote that the biopsy from Tuesday came back and nobody has told him yet"


def test_makes_the_same_texts_for_the_same_seed() -> None:
    def made(seed: int) -> list[str]:
        augmenter = Augmenter({"biopsy": ("biopsia", "scan")}, seed)
        return [*augmenter.taught(TEXT), *(augmenter.dressed(TEXT, "menu") for _ in range(20))]

    assert made(3) == made(3)
    assert made(3) != made(4)


def test_puts_only_likenesses_in_place_of_words() -> None:
    augmenter = Augmenter({"biopsy": ("biopsia",)}, 1)
    words = {word for _ in range(30) for text in augmenter.taught(TEXT) for word in text.split()}
    assert words - set(TEXT.split()) == {"biopsia"}


def test_cuts_spans_of_text_without_spaces() -> None:
    text = "昨天活检结果出来了是阳性的我还没有告诉我的妻子她明天要出差"
    assert all(len(span) <= len(text) for _ in range(20) for span in Augmenter({}, 2).taught(text))


def test_dresses_keep_what_the_text_says() -> None:
    augmenter = Augmenter({}, 7)
    kept = 0
    for _ in range(200):
        made = augmenter.dressed(TEXT, "the canteen is closed")
        start = made.find("{")
        if start >= 0 and made.rstrip().endswith("}"):
            assert "biopsy" in json.dumps(json.loads(made[start : made.rindex("}") + 1]))
        kept += "biopsy" in made.lower()
    assert kept > 150


def test_stock_texts_are_many_and_never_long() -> None:
    texts = stock_texts()
    assert len(texts) > 1_000
    assert max(map(len, texts)) < 8_000
    assert texts == stock_texts()
