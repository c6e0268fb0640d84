"""Canonical views of a text: what a reader, or a model, would take it for, with a way back.

Invariants
1. A view holds exactly one byte of `data` per character of `text`; what is not ASCII becomes `?` in
   `data` (and stays itself in `text`, for context words).
2. `origin` maps every span of a view to a span of the text the caller gave, inside its bounds.
3. A view never grows by more than `MAX_EXPANSION` characters per original character.

The canonical view takes each character apart (Unicode NFKD), drops marks and what cannot be seen, and
writes Cyrillic and Greek look-alikes, digits of all scripts, dashes and spaces in ASCII. Taking characters
singly instead of normalising the whole keeps the offset map exact. Source: Unicode 15 (UAX 15, UTS 39).
"""

from __future__ import annotations

import binascii
import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator

from gateway.sensitivity.work import Work

#: Characters looked at before and after a candidate for words that say what it is.
CONTEXT_BEFORE = 72
CONTEXT_AFTER = 32
#: Longest replacement of one character (U+FDFA decomposes to 18; more is cut by no known character).
MAX_EXPANSION = 18
#: Entries of the character table that are kept; more are computed anew each time.
_TABLE_BOUND = 1 << 16

#: Look-alikes that NFKD does not resolve, each written beside its Latin twin. Source: UTS 39
#: confusables, reduced to single letters that print alike in common fonts.
_LOOKALIKES = {
    "A": "АΑᎪꓮ", "B": "ВΒᏴꓐ", "C": "СϹᏟꓚ", "D": "Ꭰꓓ", "E": "ЕΕᎬꓰ", "F": "Ϝꓝ", "G": "ԌᏀꓖ", "H": "НΗᎻꓧ",
    "I": "ІΙӀꓲ", "J": "ЈᎫꓙ", "K": "КΚᏦꓗ", "L": "Ꮮꓡ", "M": "МΜᎷꓟ", "N": "Νꓠ", "O": "ОΟՕꓳ", "P": "РΡᏢꓑ",
    "Q": "Ԛ", "R": "Ꭱꓣ", "S": "ЅՏᏚꓢ", "T": "ТΤᎢꓔ", "U": "Սꓴ", "V": "ѴᏙꓦ", "W": "ԜᎳꓪ", "X": "ХΧꓫ",
    "Y": "ҮΥꓬ", "Z": "ΖᏃꓜ", "a": "аαɑ", "b": "Ьƅ", "c": "сϲ", "d": "ԁ", "e": "еҽ", "g": "ɡց", "h": "һհ",
    "i": "іιɩı", "j": "јϳ", "k": "κ", "l": "ӏ", "n": "ո", "o": "оοօσ", "p": "рρ", "q": "ԛգ", "s": "ѕ",
    "u": "υս", "v": "νѵ", "w": "ԝա", "x": "хχ", "y": "уγү", "z": "ᴢ",
    "-": "‐‑‒–—―−⁃﹣－ー", ".": "·•∙⋅․‧・。", "'": "’‘ʼ′", '"': "“”″", "/": "⁄∕", ":": "∶：", "@": "＠﹫",
    " ": "\u1680\u180e\u2028\u2029\u2800\u3164",
}  # fmt: skip
_FIXED = {ord(twin): latin for latin, twins in _LOOKALIKES.items() for twin in twins}
#: Drawn as nothing, though not of category Cf or Mn.
_UNSEEN = frozenset({0x115F, 0x1160, 0x17B4, 0x17B5, 0xFFA0})


def _plain(code: int) -> str:
    """ASCII reading of one non-ASCII character, or the character itself; empty when it is unseen."""
    fixed = _FIXED.get(code)
    if fixed is not None:
        return fixed
    character = chr(code)
    category = unicodedata.category(character)
    if 0xAC00 <= code <= 0xD7A3:
        return character  # Hangul would fall apart into its letters
    if category in {"Cf", "Mn", "Me"} or code in _UNSEEN:
        return ""
    digit = unicodedata.digit(character, None)  # circled and dingbat digits are digits and no decimals
    if digit is not None:
        return str(digit)
    if category in {"Zs", "Zl", "Zp"}:
        return " "
    parts = unicodedata.normalize("NFKD", character)
    if parts == character:
        return character
    return (
        "".join(
            _FIXED.get(ord(part), part)
            for part in parts
            if unicodedata.category(part) not in {"Mn", "Me", "Cf"}
        )
        or " "
    )


class _CharacterTable(dict[int, str]):
    """Table for `str.translate` that fills itself, up to a bound."""

    def __missing__(self, code: int) -> str:
        plain = chr(code) if code < 0x80 else _plain(code)
        if len(self) < _TABLE_BOUND:
            self[code] = plain
        return plain


_TABLE = _CharacterTable()
# `str.translate` costs 50 ns for every character of a text that is not ASCII, so it sees only the runs.
# Kana, unified ideographs and Hangul syllables stand for themselves and are passed over.
_NOT_ASCII = re.compile("[^\x00-\x7f\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]+")


def _read_run(match: re.Match[str]) -> str:
    return match[0].translate(_TABLE)


class View:
    """One reading of a text. `step` says how it was made, for explanations: `plain`, `base64` …

    `core` is what the view is about when the rest is only there for its words; None for all of it.
    `memo` is a scratch place for what several rules work out about the same candidate.
    """

    __slots__ = ("_origin", "core", "data", "memo", "step", "text")

    def __init__(
        self,
        text: str,
        step: str,
        origin: Callable[[int, int], tuple[int, int]] | None,
        core: tuple[int, int] | None = None,
    ) -> None:
        self.text = text
        self.data = text.encode("ascii", "replace")
        self.step = step
        self.memo: dict[int, object] = {}
        self._origin = origin
        self.core = core

    def is_around(self, start: int, end: int) -> bool:
        """Whether the span touches nothing of the core: it was found in the text above already."""
        return self.core is not None and (end <= self.core[0] or start >= self.core[1])

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Span of the caller's text that this span of the view came from."""
        return (start, end) if self._origin is None else self._origin(start, end)


class _OffsetMap:
    """Way back through replacements of another length; worked out on the first question only.

    `pieces` gives (start, end, new length) of each replaced piece, in order; the rest stands unchanged.
    """

    __slots__ = ("_in_spans", "_out_ends", "_out_starts", "_pieces", "_upward")

    def __init__(
        self,
        pieces: Callable[[], Iterator[tuple[int, int, int]]],
        upward: Callable[[int, int], tuple[int, int]] | None,
    ) -> None:
        self._pieces = pieces
        self._upward = upward
        self._in_spans: list[tuple[int, int]] | None = None
        self._out_starts: list[int] = []
        self._out_ends: list[int] = []

    def _spans(self) -> list[tuple[int, int]]:
        if self._in_spans is None:
            self._in_spans = []
            grown = 0
            for start, end, length in self._pieces():
                self._in_spans.append((start, end))
                self._out_starts.append(start + grown)
                grown += length - (end - start)
                self._out_ends.append(end + grown)
        return self._in_spans

    def _place(self, offset: int, at_end: bool) -> int:
        """Old offset of the character at `offset`: its first edge, or its last one."""
        spans = self._spans()
        piece = bisect_right(self._out_ends, offset)
        if piece < len(spans) and offset >= self._out_starts[piece]:
            return spans[piece][at_end]  # inside a replacement: all that it replaces
        if piece == 0:
            return offset + at_end
        return spans[piece - 1][1] + offset - self._out_ends[piece - 1] + at_end

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Span of the text before the replacements, or of what lies above it."""
        first = self._place(start, False)
        last = max(first, self._place(end - 1, True)) if end > start else first
        return (first, last) if self._upward is None else self._upward(first, last)


def canonical(text: str, step: str = "plain", parent: View | None = None) -> View:
    """Canonical view of `text`. With `parent`, offsets go on through the parent's map.

    ASCII text is its own canonical view; nothing is computed for it.
    """
    upward = None if parent is None else parent.origin
    if text.isascii():
        return View(text, step, upward)
    plain = _NOT_ASCII.sub(_read_run, text)

    def pieces() -> Iterator[tuple[int, int, int]]:
        for match in _NOT_ASCII.finditer(text):
            for place, character in enumerate(match[0], match.start()):
                length = len(_TABLE[ord(character)])
                if length != 1:
                    yield place, place + 1, length

    return View(plain, step, _OffsetMap(pieces, upward).origin)


# --- Decoded views -------------------------------------------------------------------------------------

#: Patterns (RE2 syntax) that say which decoders have work. The engine looks for them with the detectors.
ESCAPE_TRIGGER = (
    rb"%[0-9A-Fa-f]{2}|\\[uxU][0-9A-Fa-f{]|\\[nrtbf\"'/\\0-7]|&(?:#[0-9xX]|[A-Za-z]{2,8};)"
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?:=[0-9A-F]{2}){3}"
)

#: Escapes of JSON, JavaScript, URLs and HTML, and control characters, which no reader sees. The first class
#: lets `re` skip from one candidate to the next; what follows looks back at which sign it was.
_ESCAPE = re.compile(
    r"[%\\&=\x00-\x08\x0b\x0c\x0e-\x1f\x7f](?:"
    r"(?<=%)(?:[0-7][0-9A-Fa-f]|[89A-Fa-f][0-9A-Fa-f](?:%[89A-Fa-f][0-9A-Fa-f])*)"
    r"|(?<=\\)(?:u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}"
    r"|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]{1,6}\}|[0-3][0-7]{2}|[nrtbf\"'/\\])"
    r"|(?<==)[0-9A-F]{2}(?:=[0-9A-F]{2}){2,}"
    r"|(?<=&)(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});?"
    r"|(?<=[\x00-\x1f\x7f])[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*)"
)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "b": "", "f": "\n"}


def _unescape_one(match: re.Match[str]) -> str:
    found = match[0]
    sign, kind = found[0], found[1:2]
    if sign == "%":
        return binascii.unhexlify(found.replace("%", "")).decode("utf-8", "replace")
    if sign == "&":
        return html.unescape(found)
    if sign == "=":
        return binascii.unhexlify(found.replace("=", "")).decode("utf-8", "replace")
    if sign != "\\":
        return ""
    if kind in "01234567":
        return chr(int(found[1:], 8))
    if kind in "xU" or found.startswith("\\u{"):
        code = int(found[2:].strip("{}"), 16)
        return chr(code) if code < 0x110000 else found
    if kind == "u":
        return binascii.unhexlify(found.replace("\\u", "")).decode("utf-16-be", "replace")
    return _SIMPLE.get(kind, kind)


def unescaped(view: View, work: Work | None = None) -> View:
    """View with one layer of escapes undone. Source: RFC 8259 §7, RFC 3986 §2.1, HTML §13.5,
    RFC 2045 §6.7."""
    pieces: list[tuple[int, int, str]] = []
    for match in _ESCAPE.finditer(view.text):
        pieces.append((*match.span(), _unescape_one(match)))
        if work is not None and len(pieces) & 15 == 0:
            work.spend(8)
    inner = replaced(view, "unescaped", pieces, around=4 * AROUND)
    return canonical(inner.text, "unescaped", inner)


_TAGS = re.compile("[\U000e0020-\U000e007e]")


def hidden_tags(text: str) -> View | None:
    """Text written in Unicode tag characters (U+E0020–U+E007E), which people do not see and models read."""
    if _TAGS.search(text) is None:
        return None
    places = [place for place, character in enumerate(text) if 0xE0020 <= ord(character) <= 0xE007E]
    span = (places[0], places[-1] + 1)
    return View("".join(chr(ord(text[place]) - 0xE0000) for place in places), "tags", lambda _s, _e: span)


def with_tags_shown(text: str) -> str:
    """The text without tag characters, and on a line of its own what they say."""
    hidden = _TAGS.findall(text)
    return _TAGS.sub("", text) + "\n" + "".join(chr(ord(tag) - 0xE0000) for tag in hidden) if hidden else text


def has_escapes(view: View) -> bool:
    """Whether the core of the view holds escapes."""
    start, end = view.core or (0, len(view.text))
    return _ESCAPE.search(view.text, start, end) is not None


#: Characters kept on both sides of what a view changes: more than any context words need.
AROUND = 128
_ELIDED = "\n" * 4


def replaced(view: View, step: str, pieces: list[tuple[int, int, str]], around: int = AROUND) -> View:
    """The view with pieces (start, end, new text), in order and apart, in place of what stood there.

    Only the surroundings of the pieces are in it; the rest was read with the view itself.
    """
    text, behind = view.text, 0
    parts: list[str] = []
    places: list[tuple[int, int, int]] = []
    for start, end, new in pieces:
        if start - behind > 2 * around + 64:
            first = behind + around if behind else 0
            parts += (text[behind:first], _ELIDED)
            places.append((first, start - around, len(_ELIDED)))
            behind = start - around
        parts += (text[behind:start], new)
        places.append((start, end, len(new)))
        behind = end
    parts.append(text[behind : behind + around])
    return View("".join(parts), step, _OffsetMap(lambda: iter(places), view.origin).origin)
