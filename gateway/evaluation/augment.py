"""More texts out of the hand-written ones: spans, substituted words, typing habits, wrappers. Deterministic.

Two kinds. `taught` texts may have lost or changed what made them sensitive, so the teacher labels them anew.
`dressed` texts say the same in another dress and keep the label of their row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gateway.sensitivity.vocabulary import fold

_WORD = re.compile(r"[^\W\d_]{4,}")
_HAN = re.compile("[\u3040-\u9fff]")
_MOST_CHARACTERS = 900
_FRAMES = (
    "Subject: {topic}\n\n{text}",
    "Fwd:\n> {text}",
    "Agent: how can I help?\nCaller: {text}",
    "user: {text}",
    "{text}\n\nthanks",
    "Ticket 4711\nPriority: normal\nDescription: {text}",
    "[09:41] {text}",
    "- {text}",
    '"{text}"',
    "{text}\n\nSent from my phone",
    "Please rewrite this so that it reads well:\n{text}",
    "Summarise in two sentences:\n\n{text}",
    "Context:\n{text}\n\nQuestion: what should I answer?",
)
_TOPICS = ("question", "short note", "follow-up", "FYI", "re: our talk", "today")
_TOOLS = ("create_note", "send_message", "summarize", "draft_reply", "search")


class Augmenter:
    """`neighbours`: from a folded word to words that the teacher sees near it. `seed` fixes every choice."""

    def __init__(self, neighbours: Mapping[str, Sequence[str]], seed: int) -> None:
        self._neighbours = neighbours
        self._chance = np.random.Generator(np.random.PCG64(seed))

    def taught(self, text: str) -> list[str]:
        """A span of `text`, `text` with words put in place of their like, and both."""
        made = (self._span(text), self._substituted(text, 0.3), self._substituted(self._span(text), 0.4))
        return [one[:_MOST_CHARACTERS] for one in made if one.strip()]

    def dressed(self, text: str, benign: str) -> str:
        """`text` as another person or program would send it, now and then beside a `benign` text."""
        ways: tuple[Callable[[str], str], ...] = (
            self._framed,
            self._mistyped,
            self._bare,
            self._as_json,
            str.upper,
        )
        made = ways[self._pick(len(ways))](text)
        if self._chance.random() < 0.25:
            made = f"{made}\n\n{benign}" if self._chance.random() < 0.5 else f"{benign}\n\n{made}"
        return made

    def _pick(self, count: int) -> int:
        return int(self._chance.integers(count))

    def _span(self, text: str) -> str:
        if _HAN.search(text):
            count = int(self._chance.integers(10, max(11, min(60, len(text)))))
            start = self._pick(max(1, len(text) - count))
            return text[start : start + count]
        words = text.split(" ")
        count = int(self._chance.integers(4, max(5, min(40, len(words)))))
        start = self._pick(max(1, len(words) - count))
        return " ".join(words[start : start + count])

    def _substituted(self, text: str, share: float) -> str:
        def other(match: re.Match[str]) -> str:
            near = self._neighbours.get(fold(match[0]))
            if near and self._chance.random() < share:
                return near[self._pick(len(near))]
            return match[0]

        return _WORD.sub(other, text)

    def _framed(self, text: str) -> str:
        frame = _FRAMES[self._pick(len(_FRAMES))]
        return frame.format(text=text, topic=_TOPICS[self._pick(len(_TOPICS))])

    def _mistyped(self, text: str) -> str:
        """Letters swapped, lost or doubled, one in thirty."""
        letters = list(text)
        for at in range(len(letters) - 1):
            if letters[at].isalpha() and self._chance.random() < 0.033:
                match self._pick(3):
                    case 0:
                        letters[at], letters[at + 1] = letters[at + 1], letters[at]
                    case 1:
                        letters[at] = ""
                    case _:
                        letters[at] *= 2
        return "".join(letters)

    def _bare(self, text: str) -> str:
        """As dictation gives it: small letters, no signs."""
        return re.sub(r"[^\w\s]", "", text).lower()

    def _as_json(self, text: str) -> str:
        name = _TOOLS[self._pick(len(_TOOLS))]
        arguments: object = {"text": text}
        if self._pick(2):
            arguments = json.dumps(arguments, ensure_ascii=bool(self._pick(2)))
        return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=bool(self._pick(2)))
