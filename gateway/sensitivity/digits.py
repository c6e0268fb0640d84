"""Numbers of digits as rows of one reader: every run of digits is cut into groups once, for all rows.

A row proves a number by its form (issuer, grouping, neighbours) or by a word near it, and always by its
check. Adding a country is a row: lengths, check, words.

Invariants
1. A row holds only for whole groups, never inside a UUID.
2. The words around a run are looked up once for all rows; without them only rows with a form are asked.
3. Of groups alike in a row only the first may begin a number, but for groups of four and more digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2

from gateway.sensitivity import numbers
from gateway.sensitivity.numbers import Run, Window
from gateway.sensitivity.rule import Rule, Spans
from gateway.sensitivity.views import CONTEXT_AFTER, CONTEXT_BEFORE, View, canonical
from gateway.sensitivity.work import Work

Check = Callable[[str], bool]
Form = Callable[[Window], bool]

#: Fewest and most digits that any row asks for.
LEAST, MOST = 7, 20


def _always(_window: Window) -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class NumberRow:
    """What one kind of number is.

    `lengths`: numbers of digits. `check`: digits → bool. `words`: lower case, without accents, one space
    between parts (which also stands for `_`, `-` and nothing); one must be near unless `form` says yes.
    `form_lengths`: digits for which `form` is asked; `shapes`: groupings for which it is, None for any.
    `quick`: a cheap test of the digits before `form`. `fits`: what must hold in any case.
    """

    lengths: frozenset[int]
    check: Check
    words: tuple[str, ...]
    form: Form | None = None
    form_lengths: frozenset[int] = frozenset()
    shapes: frozenset[tuple[int, ...]] | None = None
    quick: Check | None = None
    fits: Form = _always
    named: Check | None = None

    def holds(self, window: Window, is_named: bool) -> bool:
        """Whether the window is such a number."""
        if not (is_named and (self.named is None or self.named(window.digits))) and (
            self.form is None or not self.form(window)
        ):
            return False
        return self.fits(window) and self.check(window.digits) and not numbers.in_uuid(window)

    def __call__(self, view: View, start: int, end: int) -> Spans:
        """Spans of this row alone, as a detector row of its own would find them."""
        rule = _Alone(self)
        return [(first, last) for _, first, last in NumberReader([rule]).read(view, start, end, Work())]


@dataclass(frozen=True, slots=True, eq=False)
class _Alone:
    """A row that stands for its own rule."""

    examine: NumberRow


#: Lower case; digits, `_`, `-` and control characters read as blanks, so that `\b` is the edge of a word.
_FOLD = bytes(
    code + 32 if 65 <= code <= 90 else 32 if code < 32 or code in b"0123456789_-" else code
    for code in range(256)
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_KEYED = re.compile(r"[a-z][A-Z]")
_KEY_SIGNS = frozenset("\"':=>")
_NEXT_LINE = re.compile(rb"\r?\n(?:19|20)\d\d-[01]\d-[0-3]\d(?: [0-2]\d)?$")
#: A day, with hours or not: the most frequent run of digits in logs, and no number of a person.
_STAMP = re.compile(rb"(?:19|20)\d\d([-/.]?)[01]\d\1[0-3]\d(?:[ _-]?[0-2]\d(?:[.-]?[0-5]\d){0,2})?")


def fold(text: str) -> bytes:
    """Text as `NearWords` reads it."""
    return text.lower().encode("utf-8", "replace").translate(_FOLD)


def _as_seen(words: tuple[str, ...]) -> set[str]:
    """The words as the canonical view may write them; of other scripts some letters become Latin."""
    forms = set(words)
    for word in words:
        if not word.isascii():
            forms |= {canonical(form).text.lower() for form in (word, word.upper(), word.capitalize())}
    return forms


_NONE: frozenset[int] = frozenset()


class NearWords:
    """Many lists of words in one pass: which of the lists have a word in a stretch of text."""

    __slots__ = ("_expression", "_lists")

    def __init__(self, lists: Sequence[tuple[str, ...]]) -> None:
        by_word: dict[bytes, set[int]] = {}
        ascii_words: set[str] = set()
        others: set[str] = set()
        for index, words in enumerate(lists):
            for word in _as_seen(words):
                (ascii_words if word.isascii() else others).add(word)
                by_word.setdefault(word.replace(" ", "").encode(), set()).add(index)
        self._lists = {word: frozenset(indices) for word, indices in by_word.items()}
        longest_first = sorted(ascii_words, key=len, reverse=True)
        parts = [
            r"\b(?:" + "|".join(re2.escape(word).replace(r"\ ", " *") for word in longest_first) + r")\b"
        ]
        parts += sorted(map(re2.escape, others), key=len, reverse=True)
        self._expression = re2.compile("|".join(part for part in parts).encode())

    def near(self, text: str) -> frozenset[int]:
        """Indices of the lists that have a word in `text`. A key such as `cardNumber` at its end is words."""
        found = self._near(fold(text))
        if not found and not _KEY_SIGNS.isdisjoint(text[-3:]) and _KEYED.search(text) is not None:
            found = self._near(fold(_CAMEL.sub(" ", text)))
        return found

    def places(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Places of the words in ASCII text, in order."""
        for match in self._expression.finditer(data.lower().translate(_FOLD)):
            yield match.span()

    def beside(self, text: str, start: int, end: int) -> tuple[frozenset[int], frozenset[int]]:
        """The same for what stands shortly before `start` and shortly behind `end`."""
        before, after = text[max(0, start - CONTEXT_BEFORE) : start], text[end : end + CONTEXT_AFTER]
        left = fold(before)
        found = [_NONE, _NONE]
        # One pass for both: no word has the sign between them, and it is the edge of a word.
        for match in self._expression.finditer(left + b"\x7f" + fold(after)):
            side = match.start() > len(left)
            found[side] |= self._lists.get(match.group().replace(b" ", b""), _NONE)
        if not found[0] and not _KEY_SIGNS.isdisjoint(before[-3:]) and _KEYED.search(before) is not None:
            found[0] = self._near(fold(_CAMEL.sub(" ", before)))
        if not found[1] and not _KEY_SIGNS.isdisjoint(after[-3:]) and _KEYED.search(after) is not None:
            found[1] = self._near(fold(_CAMEL.sub(" ", after)))
        return found[0], found[1]

    def _near(self, data: bytes) -> frozenset[int]:
        found = _NONE
        for match in self._expression.finditer(data):
            found |= self._lists.get(match.group().replace(b" ", b""), _NONE)
        return found


#: First and last group of a window, its digits, rows that know it by any form, rows that know its form.
_Place = tuple[int, int, int, tuple[int, ...], tuple[int, ...]]
#: Groups of a run whose windows are planned, and plans that are kept.
_PLANNED, _PLAN_BOUND = 12, 4096


class NumberReader:
    """All number rows over one pattern. Immutable but for the plans that it keeps."""

    def __init__(self, rules: Sequence[Rule | _Alone]) -> None:
        self._rules = [(rule, rule.examine) for rule in rules if isinstance(rule.examine, NumberRow)]
        self._near = NearWords([row.words for _, row in self._rules] or [("-",)])
        self._any_shape: dict[int, list[int]] = {}
        self._by_shape: dict[tuple[int, ...], list[int]] = {}
        self._by_length: dict[int, list[int]] = {}
        self._plans: dict[tuple[int, ...], tuple[_Place, ...]] = {}
        for index, (_, row) in enumerate(self._rules):
            for length in row.lengths:
                self._by_length.setdefault(length, []).append(index)
            if row.form is None:
                continue
            if row.shapes is None:
                for length in row.form_lengths:
                    self._any_shape.setdefault(length, []).append(index)
            for shape in row.shapes or ():
                self._by_shape.setdefault(shape, []).append(index)

    def read(self, view: View, start: int, end: int, work: Work) -> Iterator[tuple[Any, int, int]]:
        """(rule, first, last) of every number in the candidate `start:end`."""
        segment = view.data[start:end]
        if b"\n" in segment:
            cut = _NEXT_LINE.search(segment)  # the time at the beginning of the next line of a log
            if cut is not None:
                end = start + cut.start()
                segment = segment[: cut.start()]
        text, length = view.text, end - start
        if length < 20 and _STAMP.fullmatch(segment) is not None:
            return
        before, after = self._near.beside(text, start, end)
        if not before and not after and length <= MOST and segment.isdigit():
            # One group and no word near: by far the most frequent candidate.
            asked = self._any_shape.get(length, ())
            if (length,) not in self._by_shape and not any(
                quick is None or quick(text[start:end])
                for quick in [self._rules[index][1].quick for index in asked]
            ):
                return
        work.spend((length >> 3) + (3 if before or after else 0))
        spans = numbers.groups(view.data, start, end)
        if not before and not after and len(spans) <= _PLANNED:
            plan = self._plan(tuple([last - first for first, last in spans]))
            if plan:
                yield from self._planned(numbers.read_run(view, start, end), plan, work)
            return
        run = numbers.read_run(view, start, end)
        yield from self._windows(run, before, after, work)

    def _plan(self, sizes: tuple[int, ...]) -> tuple[_Place, ...]:
        """Windows over groups of these sizes that some row knows by their form. The same sizes come again
        and again (times, amounts), so the answer is kept, up to a bound."""
        plan = self._plans.get(sizes)
        if plan is None:
            places: list[_Place] = []
            for first in range(len(sizes)):
                length = 0
                for last in range(first, len(sizes)):
                    length += sizes[last]
                    if length > MOST:
                        break
                    free = tuple(self._any_shape.get(length, ()))
                    shaped = tuple(self._by_shape.get(sizes[first : last + 1], ()))
                    if free or shaped:
                        places.append((first, last, length, free, shaped))
            plan = tuple(places)
            if len(self._plans) < _PLAN_BOUND:
                self._plans[sizes] = plan
        return plan

    def _planned(self, run: Run, plan: tuple[_Place, ...], work: Work) -> Iterator[tuple[Any, int, int]]:
        rules = self._rules
        for first, last, length, free, shaped in plan:
            if first and not _may_begin(run, first):
                continue
            count = run.counts[first]
            digits = run.digits[count : count + length]
            asked = [index for index in free if (quick := rules[index][1].quick) is None or quick(digits)]
            asked += shaped
            if asked:
                work.spend(1)
                yield from self._ask(Window(run, first, last, digits), length, asked, _NONE, work)

    def _windows(
        self, run: Run, before: frozenset[int], after: frozenset[int], work: Work
    ) -> Iterator[tuple[Any, int, int]]:
        counts, sizes, total = run.counts, run.sizes, len(run.sizes)
        any_shape, by_shape = self._any_shape, self._by_shape
        for first in range(total):
            if first and not _may_begin(run, first):
                continue
            work.spend(1)
            count = counts[first]
            near_start = run.spans[first][0] - run.start <= CONTEXT_BEFORE
            for last in range(first, total):
                length = counts[last + 1] - count
                if length > MOST:
                    break
                if length < LEAST:
                    continue
                asked: list[int] = []
                digits = ""
                if length in any_shape:
                    digits = run.digits[count : count + length]
                    for index in any_shape[length]:
                        quick = self._rules[index][1].quick
                        if quick is None or quick(digits):
                            asked.append(index)
                shape = sizes[first : last + 1]
                asked += by_shape.get(tuple(shape), ()) if len(shape) < 8 else ()
                near = before if near_start else _NONE
                if after and run.end - run.spans[last][1] <= CONTEXT_AFTER:
                    near |= after
                if not asked and not near:
                    continue
                window = Window(run, first, last, digits or run.digits[count : count + length])
                yield from self._ask(window, length, asked, near, work)

    def _ask(
        self, window: Window, length: int, asked: list[int], near: frozenset[int], work: Work
    ) -> Iterator[tuple[Any, int, int]]:
        indices = (
            asked if not near else [i for i in self._by_length.get(length, ()) if i in near or i in asked]
        )
        for index in indices:
            rule, row = self._rules[index]
            if not work.is_done(rule) and row.holds(window, index in near):
                yield rule, window.start, window.end


def _may_begin(run: Run, first: int) -> bool:
    """Whether a number may begin at this group: not in the midst of groups that are all alike."""
    size = run.sizes[first]
    if size != run.sizes[first - 1] or (size >= 4 and size % 4 == 0) or size > 8:
        return True
    if size == 1:
        return False
    if first + 1 >= len(run.sizes):
        return False
    data, spans = run.view.data, run.spans
    return data[spans[first - 1][1] : spans[first][0]] != data[spans[first][1] : spans[first + 1][0]]
