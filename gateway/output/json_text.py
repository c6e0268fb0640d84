"""JSON text of tool arguments, read through its escapes without parsing it.

The arguments of a tool call are JSON that is still being written, so there is nothing to parse yet. An
escape is kept whole: a mask never begins or ends inside one.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _value(escape: str) -> str:
    if len(escape) == 12:
        high, low = int(escape[2:6], 16), int(escape[8:12], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(escape) == 6:
        code = int(escape[2:], 16)
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
    return _SHORT.get(escape[1], escape[1])


class Unescaped:
    """JSON text with its escapes resolved, and the way back to the written form."""

    __slots__ = ("_lengths", "_starts", "_written", "text")

    def __init__(self, written: str) -> None:
        pieces: list[str] = []
        self._starts: list[int] = []
        self._written: list[int] = []
        self._lengths: list[int] = []
        done = 0
        length = 0
        for match in _ESCAPE.finditer(written):
            pieces.append(written[done : match.start()])
            length += match.start() - done
            self._starts.append(length)
            self._written.append(match.start())
            self._lengths.append(match.end() - match.start())
            pieces.append(_value(match[0]))
            length += 1
            done = match.end()
        pieces.append(written[done:])
        self.text = "".join(pieces)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Span of the written form for a span (not empty) of `text`."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, index: int) -> tuple[int, int]:
        nearest = bisect_right(self._starts, index) - 1
        if nearest < 0:
            return index, index + 1
        if self._starts[nearest] == index:
            return self._written[nearest], self._written[nearest] + self._lengths[nearest]
        behind = self._written[nearest] + self._lengths[nearest] + index - self._starts[nearest] - 1
        return behind, behind + 1

    def whole(self, start: int, end: int) -> tuple[int, int]:
        """The span of the written form, widened so that it cuts no escape."""
        for written, length in zip(self._written, self._lengths, strict=True):
            if written < start < written + length:
                start = written
            if written < end < written + length:
                end = written + length
        return start, end


def unescape(written: str) -> str:
    """`written` with its escapes resolved."""
    return Unescaped(written).text if "\\" in written else written


def bare_quote(text: str, start: int) -> int:
    """Index of the first quote from `start` on that no backslash escapes, or -1."""
    at = text.find('"', start)
    while at >= 0:
        before = text[:at]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return at
        at = text.find('"', at + 1)
    return -1
