"""The contextual model while it is trained: the same pooling as `gateway.sensitivity.context`, in torch.

A row's vector is a learned projection of what the teacher says of the word, and the mean of vectors of its
letter n-grams; both work for words outside the training texts. Export flattens them into one table.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from gateway.sensitivity.context import SHRINKAGE, TAGS, WINDOW_BLOCKS, bounds_of
from gateway.sensitivity.vocabulary import LINE, SPECIAL, UNKNOWN

_GRAM_ROWS = 1 << 16
_GRAM_LENGTHS = (2, 3, 4, 5)
#: The teacher's centred unit vectors times this have about the size that the network starts well with.
_TEACHER_GAIN = 6.0
OUTPUTS = len(TAGS) + 1


@dataclass(frozen=True)
class Item:
    """One text as rows: `ids` with line rows between lines, `blocks` as (start, end)."""

    ids: NDArray[np.int64]
    blocks: tuple[tuple[int, int], ...]


def item_of(rows: NDArray[np.int32]) -> Item:
    """Rows of a text with their blocks; a text without a word is one unknown row."""
    start, end = bounds_of(rows)
    if len(start) == 0:
        return Item(np.full(1, UNKNOWN, np.int64), ((0, 1),))
    return Item(rows.astype(np.int64), tuple(zip(start.tolist(), end.tolist(), strict=True)))


def grams_of(words: Sequence[str], tails: Sequence[str]) -> list[list[int]]:
    """Rows of the n-gram table for each row of the vocabulary."""

    def row(text: str) -> int:
        return zlib.crc32(text.encode()) % _GRAM_ROWS

    grams = [[row(f"*{name}")] for name in SPECIAL]
    for word in words:
        marked = f"<{word}>"
        pieces = [marked[at : at + n] for n in _GRAM_LENGTHS for at in range(len(marked) - n + 1)]
        grams.append([row(marked), *map(row, pieces)])
    return grams + [[row(f"~{tail}")] for tail in tails]


class Student(nn.Module):  # type: ignore[misc]
    """`teacher`: (rows, teacher width), zero for special rows. `importance`: first log weight of each row."""

    def __init__(
        self, teacher: Any, grams: list[list[int]], importance: Any, width: int, hidden: int, drop: float
    ) -> None:
        super().__init__()
        self.teacher, self.grams, self.importance = teacher, grams, importance
        self.project = nn.Linear(teacher.shape[1], width, bias=False)
        self.gram = nn.EmbeddingBag(_GRAM_ROWS, width, mode="mean")
        self.gram_weight = nn.EmbeddingBag(_GRAM_ROWS, 1, mode="mean")
        self.special = nn.Parameter(torch.randn(len(SPECIAL), width) * 0.05)
        self.linear = nn.Linear(2 * width + 1, OUTPUTS)
        self.hidden = nn.Linear(2 * width + 1, hidden)
        self.out = nn.Linear(hidden, OUTPUTS, bias=False)
        self.sentence = nn.Linear(2 * width + 1, teacher.shape[1])
        self.drop = nn.Dropout(drop)
        for layer in (self.gram, self.gram_weight, self.linear, self.out):
            nn.init.zeros_(layer.weight)

    def rows(self, wanted: Any) -> tuple[Any, Any, Any]:
        """Vectors and weights of distinct rows, and the part of the vectors that comes from n-grams."""
        grams = [self.grams[row] for row in wanted.tolist()]
        flat = torch.tensor([gram for row in grams for gram in row])
        starts = torch.tensor(np.cumsum([0, *(len(row) for row in grams[:-1])]))
        learned = self.gram(flat, starts)
        vectors = self.project(self.teacher[wanted]) * _TEACHER_GAIN + learned
        special = self.special[wanted.clamp(max=len(SPECIAL) - 1)] + learned
        vectors = torch.where((wanted < len(SPECIAL))[:, None], special, vectors)
        weights = torch.exp((self.importance[wanted] + self.gram_weight(flat, starts)[:, 0]).clamp(-4, 4))
        real = wanted != LINE
        return vectors * real[:, None], weights * real, learned

    def forward(self, items: Sequence[Item], word_drop: float = 0.0) -> tuple[Any, Any, Any]:
        """Highest outputs over the windows of each text, its sentence vector, and the n-gram part."""
        ids, start, end, owner = _flat(items)
        distinct, place = torch.unique(ids, return_inverse=True)
        vectors, weights, learned = self.rows(distinct)
        x, weight = vectors[place], weights[place]
        if word_drop:
            kept = (torch.rand(len(ids)) > word_drop).float()
            x, weight = x * kept[:, None], weight * kept
        length = end - start
        block = torch.repeat_interleave(torch.arange(len(start)), length)
        at = torch.arange(int(length.sum())) - (length.cumsum(0) - length)[block] + start[block]
        x, weight = x[at], weight[at]
        width = x.shape[1]
        weighted = torch.zeros(len(start), width).index_add(0, block, x * weight[:, None])
        total = torch.zeros(len(start)).index_add(0, block, weight)
        wide = block[:, None].expand(-1, width)
        largest = torch.zeros(len(start), width).scatter_reduce(0, wide, x, "amax")
        pooled, text = _windows(weighted, total, largest, owner)
        dropped = self.drop(pooled)
        outputs = self.linear(dropped) + self.out(self.drop(functional.relu(self.hidden(dropped))))
        best = torch.full((len(items), OUTPUTS), -30.0)
        best = best.scatter_reduce(0, text[:, None].expand(-1, OUTPUTS), outputs, "amax")
        count = torch.zeros(len(items), 1).index_add(0, text, torch.ones(len(text), 1))
        mean = torch.zeros(len(items), pooled.shape[1]).index_add(0, text, pooled) / count
        return best, functional.normalize(self.sentence(mean), dim=-1), learned

    def export(self) -> dict[str, NDArray[Any]]:
        """Arrays of `gateway.sensitivity.context`, the table in int8 with one scale a row."""
        with torch.inference_mode():
            parts = [self.rows(part) for part in torch.arange(len(self.grams)).split(4096)]
            vectors = torch.cat([part[0] for part in parts]).numpy()
            weights = torch.cat([part[1] for part in parts]).numpy()
        scale = (np.abs(vectors).max(axis=1) / 127 + 1e-9).astype(np.float32)
        return {
            "table": np.rint(vectors / scale[:, None]).astype(np.int8),
            "scale": scale,
            "weight": weights.astype(np.float32),
            "linear": self.linear.weight.detach().numpy().T.copy(),
            "hidden": self.hidden.weight.detach().numpy().T.copy(),
            "hidden_bias": self.hidden.bias.detach().numpy(),
            "out": self.out.weight.detach().numpy().T.copy(),
            "out_bias": self.linear.bias.detach().numpy(),
        }


def _flat(items: Sequence[Item]) -> tuple[Any, Any, Any, Any]:
    ids = torch.from_numpy(np.concatenate([item.ids for item in items]))
    start: list[int] = []
    end: list[int] = []
    owner: list[int] = []
    offset = 0
    for number, item in enumerate(items):
        start += [offset + first for first, _ in item.blocks]
        end += [offset + last for _, last in item.blocks]
        owner += [number] * len(item.blocks)
        offset += len(item.ids)
    return ids, torch.tensor(start), torch.tensor(end), torch.tensor(owner)


def _windows(weighted: Any, total: Any, largest: Any, owner: Any) -> tuple[Any, Any]:
    """Pooled vectors of every window inside one text, and the text each belongs to."""
    pooled, text = [], []
    count = len(owner)
    for size in WINDOW_BLOCKS:
        if size > count:
            break
        at = (owner[: count - size + 1] == owner[size - 1 :]).nonzero()[:, 0]
        if len(at) == 0:
            break
        weight = sum(total[at + step] for step in range(size))[:, None]
        mean = sum(weighted[at + step] for step in range(size)) / (weight + float(SHRINKAGE))
        peak = torch.stack([largest[at + step] for step in range(size)]).amax(0)
        pooled.append(torch.cat([mean, peak, torch.log1p(weight)], dim=1))
        text.append(owner[at])
    return torch.cat(pooled), torch.cat(text)
