"""Text as row numbers of the contextual model's table: whole words where it has them, pieces elsewhere.

Invariants
1. The rows of a text are those of its tokens laid end to end; a token's rows depend on the token alone, so
   what the cache holds changes the speed and never the answer.
2. Work is linear in the text: a word is cut by the longest piece that fits, at most `_LONGEST_PIECE` look-ups
   a character, and a word over `_LONGEST_WORD` characters is one row.
3. Any text has rows; nothing is raised.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

#: Rows with a meaning of their own, before those of words and pieces.
SPECIAL = (
    "line", "unknown", "digit1", "digit2", "digit3", "digit4", "digits", "long", "sign", "foreign", "other",
)  # fmt: skip
LINE, UNKNOWN, _DIGIT1, _DIGIT2, _DIGIT3, _DIGIT4, _DIGITS, LONG, SIGN, FOREIGN, OTHER = range(len(SPECIAL))

_TOKEN = re.compile(r"[^\W\d_]+|\d+|\n|[^\w\s]+")
#: Distinct signs of one run of signs that are read; a run is often a frame of code or of a table.
_MOST_SIGNS = 4
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_FOLDED = str.maketrans({"ß": "ss", "œ": "oe", "æ": "ae", "ø": "o", "’": "'", "ʼ": "'"})
#: Scripts whose words the table holds. Kana, Han with its extension, half-width kana, and the iteration mark.
_CJK = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f]+"
)
_ARABIC = "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc"
_LATIN = "a-zß-öø-ÿāăąćčďđēĕėęěğģīįıķĺļľłńņňōŏőœŕřśşšţťūŭůűųźżžșțʼ"
_LATIN_ONLY = re.compile(f"[{_LATIN}]+")
_RUN = re.compile(
    f"(?P<cjk>{_CJK.pattern})|(?P<arabic>[{_ARABIC}]+)|(?P<latin>[{_LATIN}]+)|(?P<other>.)", re.DOTALL
)
#: Letters of no language that the model knows: of Polish, Czech, Danish, Turkish …, and of Persian and Urdu.
_OTHER_LETTER = re.compile(
    "[āăąćčďđēĕėęěğģīįıķĺļľłńņňōŏőŕřśşšţťūŭůűųźżžșțåøðþơưạ-ỹ\u067e\u0686\u0698\u06a9\u06af\u06cc"
    "\u0679\u0688\u0691\u06ba\u06be\u06c1\u06d2]"
)
_LONGEST_WORD = 64
_LONGEST_PIECE = 14
_LONGEST_CJK_PIECE = 4
#: Longer tokens are rare and each its own, so keeping them would only push words out.
_LONGEST_KEPT = 24
_CACHE_ENTRIES = 65_536
_ROW = Struct("<i")
#: Bits beside the row: it is a whole word (or a piece of a text without spaces); it starts a cut word.
WHOLE, CUT = 1 << 29, 1 << 30
ROW_MASK = WHOLE - 1


def fold(word: str) -> str:
    """`word` in small letters, compatibility forms and accents taken off, kana and Han left alone."""
    if word.isascii():
        return word.lower()
    word = unicodedata.normalize("NFKC", word).lower().translate(_FOLDED)
    if word.isascii():
        return word
    return "".join(
        letter if "\u3040" <= letter <= "\u9fff" else unicodedata.normalize("NFD", letter)[0]
        for letter in word
        if not unicodedata.combining(letter)
    )


def speaks_for_other(word: str) -> bool:
    """Whether `word` has a letter of no language that the model knows."""
    return _OTHER_LETTER.search(word) is not None


def unescaped(text: str) -> str:
    """`text` with the escapes of a JSON string inside it read (`\\n`, `\\u00e9`)."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "\n", text)


def tokens_of(text: str) -> list[str]:
    """Words, runs of digits, runs of signs and line breaks of `text` in small letters, in order."""
    return _TOKEN.findall(text.lower())


def places_of(text: str) -> Iterator[tuple[str, int, int]]:
    """The tokens of `text` with their places in it. Places are right when `lower` keeps the length."""
    for match in _TOKEN.finditer(text.lower()):
        yield match[0], match.start(), match.end()


class Vocabulary:
    """Row numbers of words and pieces.

    `words` start a token, `tails` go on inside one (for kana and Han they also start one). Row numbers run
    from `len(SPECIAL)`, words first. `others` are words of languages that the model does not know: all of
    them have the one row `OTHER`. Safe to share between threads: entries of the cache never differ.
    """

    def __init__(self, words: Sequence[str], tails: Sequence[str], others: Iterable[str] = ()) -> None:
        first = len(SPECIAL)
        self.words = {word: first + place for place, word in enumerate(words)}
        first += len(words)
        self.tails = {tail: first + place for place, tail in enumerate(tails)}
        self.size = first + len(tails)
        self.others = frozenset(others)
        self._rows = _Rows(self)

    def rows(self, text: str) -> bytes:
        """Rows of `text` as little-endian int32, one after another, each with its bits `WHOLE` and `CUT`."""
        return b"".join(map(self._rows.__getitem__, tokens_of(text)))

    def marked_rows(self, token: str) -> tuple[int, ...]:
        """As `rows_of_token`, with the bits that tell whole words from cut ones."""
        rows = self.rows_of_token(token)
        if not token[0].isalpha():
            return rows
        if len(rows) == 1 or not _LATIN_ONLY.fullmatch(token):
            return tuple(row | WHOLE for row in rows)
        return (rows[0] | (WHOLE if rows[0] == OTHER else CUT), *rows[1:])

    def row_count(self, token: str) -> int:
        """Number of rows of one token."""
        return len(self._rows[token]) // _ROW.size

    def rows_of_token(self, token: str) -> tuple[int, ...]:
        """Rows of one token."""
        if token == "\n":
            return (LINE,)
        if token[0].isdigit():
            return (min(_DIGIT1 + len(token) - 1, _DIGITS),)
        if not token[0].isalpha():
            signs = dict.fromkeys(token[:_LONGEST_WORD])
            return tuple(self._sign(sign) for sign in list(signs)[:_MOST_SIGNS])
        row = self.words.get(token)
        if row is not None:
            return (row,)
        if token.isascii():
            return tuple(self._cut(token))
        rows: list[int] = [OTHER] if len(token) > 1 and _OTHER_LETTER.search(token) else []
        for match in _RUN.finditer(token):
            if match.lastgroup == "cjk":
                self._cut_cjk(unicodedata.normalize("NFKC", match[0]), rows)
            elif match.lastgroup == "other":
                if unicodedata.combining(match[0]) == 0 and rows[-1:] != [FOREIGN]:
                    rows.append(FOREIGN)
            else:
                rows += self._cut(fold(match[0]))
        # A single letter of another script is a formula or a unit, no word of a language.
        return tuple(rows) if len(token) > 1 else tuple(UNKNOWN if row == FOREIGN else row for row in rows)

    def _sign(self, sign: str) -> int:
        row = self.words.get(sign)
        return row if row is not None else self.words.get(unicodedata.normalize("NFKC", sign), SIGN)

    def _cut(self, word: str) -> list[int]:
        """Rows of one folded Latin or Arabic word: itself, or its longest start and the pieces after it."""
        row = self.words.get(word)
        if row is not None:
            return [row]
        if word in self.others:
            return [OTHER]
        if len(word) > _LONGEST_WORD:
            return [LONG]
        rows: list[int] = []
        at, table = 0, self.words
        while at < len(word):
            for end in range(min(len(word), at + _LONGEST_PIECE), at, -1):
                row = table.get(word[at:end])
                if row is not None:
                    rows.append(row)
                    at = end
                    break
            else:
                rows.append(UNKNOWN)
                at += 1
            table = self.tails
        return rows

    def _cut_cjk(self, run: str, rows: list[int]) -> None:
        at = 0
        while at < len(run):
            for end in range(min(len(run), at + _LONGEST_CJK_PIECE), at, -1):
                row = self.tails.get(run[at:end])
                if row is not None:
                    rows.append(row)
                    at = end
                    break
            else:
                rows.append(UNKNOWN)
                at += 1


class _Rows(dict[str, bytes]):
    """Token → its rows as bytes, filled on demand, emptied when full."""

    __slots__ = ("_vocabulary",)

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, token: str) -> bytes:
        rows = b"".join(map(_ROW.pack, self._vocabulary.marked_rows(token)))
        if len(token) <= _LONGEST_KEPT:
            if len(self) >= _CACHE_ENTRIES:
                self.clear()
            self[token] = rows
        return rows
