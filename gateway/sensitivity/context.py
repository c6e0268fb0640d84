"""The contextual model: sensitive content that has no identifier in it, told by its words. Pure numpy.

Invariants
1. `score` raises nothing for any text, and the same text has the same score, whatever was scored before.
2. Work is linear in the text and memory is bounded: rows are read in slabs of `_SLAB_ROWS`.
3. What is scored is runs of 1, 2, 3, 5 and 8 neighbouring blocks; a block is a line with the short lines
   (less than `SHORT_ROWS` words) before it, or a piece of `BLOCK_ROWS` rows of that. So lines of some length
   added before or after add windows and take none away: the score does not fall, but for the last bits.
4. Letters of a language or script that the model was not taught make the text uncertain, not harmless.

How it works: a table gives each word a vector (int8, distilled from a teacher) and a weight; each window
takes the weighted mean and the maximum of its words' vectors; a small network gives one score per tag and
one for "any of them". ADR 0008 says why it is no deeper. Over 400 lines because the file's format and the
scoring are two readings of one layout.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.domain.finding import Finding
from gateway.domain.label import UNKNOWN, Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.sensitivity.language import (
    KNOWN,
    LIMIT,
    OTHER_LANGUAGE,
    OTHER_SCRIPT,
    evidence_of_rows,
    surplus,
)
from gateway.sensitivity.vocabulary import CUT, LINE, ROW_MASK, WHOLE, Vocabulary, places_of, unescaped

NAME = "context@1"
#: Kind of a finding about a text in a language that the model was not made to read.
UNSUPPORTED_LANGUAGE = "unsupported-language"
#: Tags that the model tells apart, in the order of its scores; the output after them means "any of them".
TAGS = (Tag.PHI, Tag.MNPI, Tag.LEGAL, Tag.HR, Tag.FIN, Tag.IP, Tag.SECURITY)
LEVELS = {
    Tag.PHI: Level.RESTRICTED,
    Tag.MNPI: Level.RESTRICTED,
    Tag.LEGAL: Level.RESTRICTED,
    Tag.HR: Level.CONFIDENTIAL,
    Tag.FIN: Level.CONFIDENTIAL,
    Tag.IP: Level.CONFIDENTIAL,
    Tag.SECURITY: Level.CONFIDENTIAL,
}
MAGIC = b"TGCTX1\n"
_ARRAYS = frozenset(
    [
        "table",
        "scale",
        "weight",
        "flags",
        "linear",
        "hidden",
        "hidden_bias",
        "out",
        "out_bias",
        "slope",
        "offset",
    ]
)
BLOCK_ROWS = 32
#: A shorter line goes with the next, so that a list of words is no heap of windows.
SHORT_ROWS = 4
#: Blocks in a window.
WINDOW_BLOCKS = (1, 2, 3, 5, 8)
#: Weight of the empty text that every mean holds, so that one word alone says less than many.
SHRINKAGE = np.float32(0.5)
_SLAB_ROWS = 4096
_SLAB_WINDOWS = 2048

#: A word that has no row of its own speaks for another language too, but less.
_CUT_WEIGHT = 0.75

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ContextScore:
    """Calibrated scores between 0 and 1 in the order of `TAGS`; about the chance that the text has the tag.

    `is_known_language` is False when some part of the text is in a language or script that the model was not
    taught: its scores say nothing about that part.
    """

    scores: tuple[float, ...]
    is_known_language: bool

    @property
    def by_tag(self) -> dict[Tag, float]:
        """Score of each tag."""
        return dict(zip(TAGS, self.scores, strict=True))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Start and end row of each block, and what the windows need of it."""

    start: Integers
    end: Integers
    weighted: Floats
    weight: Floats
    largest: Floats


@dataclass(frozen=True, slots=True)
class _Best:
    """Best window of each tag: its score and its first and last row (end exclusive)."""

    scores: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]
    is_known_language: bool


class ContextModel:
    """One loaded model. Safe to share between threads.

    `file` is what `pack` made. Raises `ConfigurationError` for anything else.
    """

    name = NAME

    def __init__(self, file: bytes) -> None:
        header, arrays, (words, tails, others) = unpack(file)
        self.route = _thresholds(header, "route")
        self.mask = _thresholds(header, "mask")
        if set(arrays) != _ARRAYS:
            raise ConfigurationError(f"contextual model: expected the arrays of {NAME}")
        self.sha256 = hashlib.sha256(file).hexdigest()
        self.vocabulary = Vocabulary(words, tails, others)
        self._table = arrays["table"]
        self._scale = arrays["scale"][:, None]
        self._flags = arrays["flags"]
        self._evidence = evidence_of_rows(self.vocabulary, self._flags)
        self._weight = arrays["weight"][:, None]
        self._linear = arrays["linear"]
        self._hidden, self._hidden_bias = arrays["hidden"], arrays["hidden_bias"]
        self._out, self._out_bias = arrays["out"], arrays["out_bias"]
        self._slope, self._offset = arrays["slope"], arrays["offset"]
        self._labels = tuple(Label(LEVELS[tag], frozenset({tag})) for tag in TAGS)

    def score(self, text: str) -> ContextScore:
        """Score of each tag, the highest over all windows of `text`."""
        best = self._best(unescaped(text))
        return ContextScore(best.scores, best.is_known_language)

    @property
    def identity(self) -> str:
        """Name and digest of the weights, as a `Detector` says it."""
        return f"{self.name}-{self.sha256[:16]}"

    def find(self, text: str) -> tuple[Finding, ...]:
        """One finding for each tag at or over its `route` threshold, at its best window.

        A text in a language that the model does not know gives `unsupported-language` besides.
        """
        return self._findings(text, self.route, tell_unknown=True)

    def find_to_mask(self, text: str) -> tuple[Finding, ...]:
        """As `find`, at the `mask` thresholds: fewer and surer."""
        return self._findings(text, self.mask)

    def _findings(
        self, text: str, thresholds: Sequence[float], tell_unknown: bool = False
    ) -> tuple[Finding, ...]:
        plain = unescaped(text)
        best = self._best(plain)
        if tell_unknown and not best.is_known_language:
            # fail-closed: what the model cannot read may be anything.
            return (Finding(UNSUPPORTED_LANGUAGE, NAME, UNKNOWN, 0, len(text)),)
        chosen = [
            place
            for place, (score, least) in enumerate(zip(best.scores, thresholds, strict=True))
            if score >= least
        ]
        if not chosen:
            return ()
        # Places of the text hold only when reading escapes and small letters kept its length.
        exact = plain == text and len(text.lower()) == len(text)
        spans = self._places(text, [best.spans[place] for place in chosen]) if exact else ()
        return tuple(
            Finding(
                f"context-{TAGS[place].value}",
                NAME,
                self._labels[place],
                *(spans[number] if spans else (0, len(text))),
            )
            for number, place in enumerate(chosen)
        )

    def _places(self, text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Character places of spans of rows."""
        starts: list[int] = []
        ends: list[int] = []
        for token, start, end in places_of(text):
            count = self.vocabulary.row_count(token)
            starts += [start] * count
            ends += [end] * count
        return [(starts[first], ends[last - 1]) for first, last in spans]

    def logits(self, text: str) -> tuple[Floats, bool]:
        """Highest raw output over all windows, for calibration: one per tag and one for any of them."""
        marked = self._rows(unescaped(text))
        rows = marked & ROW_MASK
        blocks = self._read(rows)
        if len(blocks.start) == 0:
            return np.full(len(TAGS) + 1, -30.0, np.float32), True
        windows, _, _ = self._windows(blocks)
        return windows.max(axis=0), self._is_known(marked, blocks)

    def _rows(self, text: str) -> NDArray[np.int32]:
        return np.frombuffer(self.vocabulary.rows(text), "<i4")

    def _best(self, text: str) -> _Best:
        marked = self._rows(text)
        rows = marked & ROW_MASK
        blocks = self._read(rows)
        if len(blocks.start) == 0:
            return _Best((0.0,) * len(TAGS), ((0, 0),) * len(TAGS), True)
        windows, first, last = self._windows(blocks)
        place = windows[:, : len(TAGS)].argmax(axis=0)
        raw = windows[place, np.arange(len(TAGS))].astype(np.float64)
        scores = 1.0 / (1.0 + np.exp(-(raw * self._slope + self._offset)))
        spans = tuple((int(blocks.start[first[at]]), int(blocks.end[last[at]])) for at in place)
        return _Best(tuple(scores.tolist()), spans, self._is_known(marked, blocks))

    def _is_known(self, marked: NDArray[np.int32], blocks: _Blocks) -> bool:
        """False when some run of words is in no known language, or a block has more words of others."""
        if surplus(marked, self._evidence) > LIMIT:
            # fail-closed: words that no known language has; that none is listed as foreign says nothing.
            return False
        flags = np.where(marked & WHOLE, self._flags[marked & ROW_MASK], 0)
        if not (flags >= OTHER_LANGUAGE).any():
            return True
        known = np.add.reduceat(flags == KNOWN, blocks.start, dtype=np.int32)
        script = np.add.reduceat(flags == OTHER_SCRIPT, blocks.start, dtype=np.int32)
        other = script + np.add.reduceat(flags == OTHER_LANGUAGE, blocks.start, dtype=np.int32)
        cut = np.add.reduceat((marked & CUT) != 0, blocks.start, dtype=np.int32)
        weight = other + np.minimum(cut, other) * _CUT_WEIGHT
        uncertain = ((other >= 2) & (weight > known)) | ((known == 0) & (script >= 1))
        return not bool(uncertain.any())

    def _read(self, rows: NDArray[np.int32]) -> _Blocks:
        """Blocks of a text, read slab by slab. A slab ends where a block ends."""
        start, end = bounds_of(rows)
        parts: list[tuple[Floats, Floats, Floats]] = []
        at = 0
        while at < len(start):
            stop = max(at + 1, int(np.searchsorted(end, start[at] + _SLAB_ROWS, side="right")))
            parts.append(self._read_slab(rows, start[at:stop], int(end[stop - 1])))
            at = stop
        if not parts:
            empty = np.zeros((0, 0), np.float32)
            return _Blocks(start, end, empty, empty, empty)
        weighted, weight, largest = (np.concatenate(column) for column in zip(*parts, strict=True))
        return _Blocks(start, end, weighted, weight, largest)

    def _read_slab(self, rows: NDArray[np.int32], start: Integers, end: int) -> tuple[Floats, Floats, Floats]:
        first = int(start[0])
        seen = rows[first:end]
        inside = start - first
        x = self._table[seen] * self._scale[seen]
        weight = self._weight[seen]
        return (
            np.add.reduceat(x * weight, inside),
            np.add.reduceat(weight, inside),
            np.maximum.reduceat(np.maximum(x, 0.0, out=x), inside),
        )

    def _windows(self, blocks: _Blocks) -> tuple[Floats, Integers, Integers]:
        """Outputs of every window, with its first and last block."""
        count = len(blocks.start)
        outputs: list[Floats] = []
        firsts: list[Integers] = []
        lasts: list[Integers] = []
        for size in WINDOW_BLOCKS:
            if size > count:
                break
            for at in range(0, count - size + 1, _SLAB_WINDOWS):
                stop = min(at + _SLAB_WINDOWS, count - size + 1)
                outputs.append(self._outputs(blocks, size, at, stop))
                firsts.append(np.arange(at, stop))
                lasts.append(np.arange(at + size - 1, stop + size - 1))
        return np.concatenate(outputs), np.concatenate(firsts), np.concatenate(lasts)

    def _outputs(self, blocks: _Blocks, size: int, at: int, stop: int) -> Floats:
        weighted, weight = blocks.weighted[at:stop].copy(), blocks.weight[at:stop].copy()
        largest = blocks.largest[at:stop].copy()
        for step in range(1, size):
            weighted += blocks.weighted[at + step : stop + step]
            weight += blocks.weight[at + step : stop + step]
            np.maximum(largest, blocks.largest[at + step : stop + step], out=largest)
        # The more words, the higher the maximum: the network needs their weight to tell long from sensitive.
        pooled = np.concatenate([weighted / (weight + SHRINKAGE), largest, np.log1p(weight)], axis=1)
        hidden = np.maximum(pooled @ self._hidden + self._hidden_bias, 0.0)
        outputs: Floats = pooled @ self._linear + hidden @ self._out + self._out_bias
        return joined(outputs)


def joined(outputs: Floats) -> Floats:
    """Outputs in which the likeliest tag of a window carries the window's output for "any of them".

    The last column says how likely it is that there is anything, the others of which kind it would be: each
    tag keeps its distance from the likeliest one.
    """
    tags = outputs[:, :-1]
    overall = outputs[:, -1:]
    return np.concatenate([overall + tags - tags.max(axis=1, keepdims=True), overall], axis=1)


def bounds_of(rows: NDArray[np.int32]) -> tuple[Integers, Integers]:
    """First and last row (end exclusive) of each block. None for a text without a word."""
    real = rows != LINE
    if not real.any():
        nothing = np.zeros(0, np.int64)
        return nothing, nothing
    line_start = np.flatnonzero(real & ~np.concatenate([[False], real[:-1]]))
    line_end = np.flatnonzero(real & ~np.concatenate([real[1:], [False]])) + 1
    ends_block = line_end - line_start >= SHORT_ROWS
    ends_block[-1] = True
    line_end = line_end[ends_block]
    line_start = line_start[np.concatenate([[True], ends_block[:-1]])]
    counts = (line_end - line_start + BLOCK_ROWS - 1) // BLOCK_ROWS
    line = np.repeat(np.arange(len(line_start)), counts)
    step = np.arange(len(line)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = line_start[line] + step * BLOCK_ROWS
    return start, np.minimum(start + BLOCK_ROWS, line_end[line])


def _thresholds(header: Mapping[str, Any], name: str) -> tuple[float, ...]:
    try:
        return tuple(float(header[name][tag.value]) for tag in TAGS)
    except (KeyError, TypeError, ValueError):
        raise ConfigurationError(f"contextual model: expected a threshold `{name}` for every tag") from None


def pack(
    arrays: Mapping[str, NDArray[Any]],
    words: Sequence[str],
    tails: Sequence[str],
    others: Sequence[str],
    route: Mapping[str, float],
    mask: Mapping[str, float],
) -> bytes:
    """The weights as one file: magic, length and text of a JSON header, compressed words, arrays in order."""
    listed = {
        name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in sorted(arrays.items())
    }
    spelled = zlib.compress("\n".join([*words, *tails, *others]).encode(), 9)
    header = {
        "name": NAME,
        "arrays": listed,
        "words": len(words),
        "tails": len(tails),
        "others": len(others),
        "spelled_bytes": len(spelled),
        "route": dict(route),
        "mask": dict(mask),
    }
    text = json.dumps(header, sort_keys=True).encode()
    body = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))
    return MAGIC + len(text).to_bytes(4, "little") + text + spelled + body


def unpack(
    file: bytes,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], tuple[list[str], list[str], list[str]]]:
    """Header, arrays, and words, pieces and foreign words of a file. Raises `ConfigurationError`."""
    broken = ConfigurationError(f"contextual model: expected a whole file of weights for {NAME}")
    if not file.startswith(MAGIC):
        raise broken
    try:
        at = len(MAGIC) + 4
        length = int.from_bytes(file[len(MAGIC) : at], "little")
        header = json.loads(file[at : at + length])
        at += length
        spelled = zlib.decompress(file[at : at + header["spelled_bytes"]]).decode().split("\n")
        at += header["spelled_bytes"]
        arrays: dict[str, NDArray[Any]] = {}
        for name, shape in header["arrays"].items():
            dtype = np.dtype(shape["dtype"])
            size = int(np.prod(shape["shape"]))
            arrays[name] = np.frombuffer(file, dtype, size, at).reshape(shape["shape"])
            at += size * dtype.itemsize
        tails, others = int(header["words"]), int(header["words"]) + int(header["tails"])
        whole = at == len(file) and len(spelled) == others + int(header["others"])
        lists = (spelled[:tails], spelled[tails:others], spelled[others:])
        named = header["name"] == NAME
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
        raise broken from None
    if not whole or not named:
        raise broken
    return header, arrays, lists


def load_context_model() -> ContextModel:
    """The model that the product carries. Raises `ConfigurationError` when its file is missing or broken."""
    place = importlib.resources.files("gateway.sensitivity").joinpath("weights/context.bin")
    try:
        file = place.read_bytes()
    except OSError:
        raise ConfigurationError(
            "contextual model: its weights are not in the package; install it whole, or write "
            'contextual_model = "none" to run without'
        ) from None
    return ContextModel(file)
