"""Multi-pattern matching behind one protocol: Hyperscan, or RE2 alone where it cannot be had.

Invariants
1. Both engines report the same spans. Hyperscan only tells *which* patterns occur; the spans always come
   from RE2, pattern by pattern, leftmost first, not overlapping. So there is one meaning of a pattern.
2. Data are bytes, one byte per character (see `views`): offsets are character offsets.
3. A scan that the library ended early is an error, never "nothing found".

Hyperscan without start offsets reads 279 MB/s with 48 patterns, with them 114; a pattern that fires costs
RE2 one more pass over the text (about 400 MB/s). Plain prose fires none. (Measured, November 2026.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import hyperscan
import re2

from gateway.errors import ConfigurationError

#: (pattern index, start, end), end exclusive; the span of group 1 where the pattern has one.
Hit = tuple[int, int, int]

#: Memory bound of one compiled RE2 pattern, in bytes. Beyond it a pattern does not compile.
RE2_MAX_MEM_BYTES = 8 << 20


class PatternEngine(Protocol):
    """Finds every pattern of a fixed list in bytes. Safe to call from several threads."""

    @property
    def identity(self) -> str:
        """Name and version, for the digest of the detector set."""
        ...

    def fired(self, data: bytes) -> Sequence[int]:
        """Patterns that may occur, in order; none that occurs is missing. Raises when the scan broke off."""
        ...

    def spans(self, index: int, data: bytes) -> Iterator[tuple[int, int]]:
        """Spans of one pattern, leftmost first, not overlapping, found as they are asked for."""
        ...

    def scan(self, data: bytes) -> list[Hit]:
        """All hits, pattern by pattern, each in order. Raises when the scan was not completed."""
        ...


def _compile_re2(pattern: bytes) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes are characters, never UTF-8 sequences
    options.max_mem = RE2_MAX_MEM_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ConfigurationError(f"pattern {pattern!r}: expected RE2 syntax, found: {error}") from error


def without_groups(pattern: bytes) -> bytes:
    """The same expression with `(?:` for every group that captures."""
    out, place, in_class = bytearray(), 0, False
    while place < len(pattern):
        sign = pattern[place : place + 1]
        if sign == b"\\":
            sign = pattern[place : place + 2]
        elif in_class:
            in_class = sign != b"]"
        elif sign == b"[":
            in_class = True
            while pattern[place + len(sign) : place + len(sign) + 1] in {b"^", b"]"}:
                sign = pattern[place : place + len(sign) + 1]
        elif sign == b"(" and pattern[place + 1 : place + 2] != b"?":
            sign = b"(?:"
            place -= 2
        out += sign
        place += len(sign)
    return bytes(out)


class _Spans:
    """Spans of one pattern by RE2; only the first one where `once` is set."""

    __slots__ = ("_expression", "_group", "_index", "_once", "_whole")

    def __init__(self, index: int, pattern: bytes, once: bool) -> None:
        self._expression = _compile_re2(pattern)
        self._group = 1 if self._expression.groups else 0
        # Looking for a group makes RE2 leave its fast machine, so the text is searched without groups, and
        # only what matched is matched again for its group.
        self._whole = _compile_re2(without_groups(pattern)) if self._group else self._expression
        self._index, self._once = index, once

    def of(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Spans in `data`, leftmost first, not overlapping."""
        if self._once:
            match = self._whole.search(data)
            if match is not None:
                yield match.span()
            return
        if not self._group:
            for match in self._whole.finditer(data):
                yield match.span()
            return
        for match in self._whole.finditer(data):
            again = self._expression.match(data, match.start())
            yield match.span() if again is None else again.span(1)

    def hits(self, data: bytes) -> list[Hit]:
        """The same with the pattern's index."""
        return [(self._index, start, end) for start, end in self.of(data)]


def _confirmers(patterns: Sequence[bytes], once: frozenset[int]) -> list[_Spans]:
    return [_Spans(index, pattern, index in once) for index, pattern in enumerate(patterns)]


class Re2Engine:
    """One RE2 pass per pattern: about 9 MB/s with 48 patterns, linear on every input."""

    def __init__(self, patterns: Sequence[bytes], once: frozenset[int] = frozenset()) -> None:
        self._confirmers = _confirmers(patterns, once)
        self._all = range(len(self._confirmers))

    @property
    def identity(self) -> str:
        """Name and version."""
        return "re2@1"

    def fired(self, _data: bytes) -> Sequence[int]:
        """Every pattern: only looking for its spans tells."""
        return self._all

    def spans(self, index: int, data: bytes) -> Iterator[tuple[int, int]]:
        """Spans of one pattern."""
        return self._confirmers[index].of(data)

    def scan(self, data: bytes) -> list[Hit]:
        """All hits of all patterns."""
        return [hit for confirmer in self._confirmers for hit in confirmer.hits(data)]


def _note_pattern(index: int, _start: int, _end: int, _flags: int, fired: list[int]) -> None:
    """Collects the index. A module-level function, so that it outlives every scan; it returns None,
    because a truthy answer would end the scan."""
    fired.append(index)


@lru_cache(maxsize=4)
def _compiled(patterns: tuple[bytes, ...]) -> bytes:
    """A database, serialised. Compiling takes seconds, so the last few sets are kept."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    count = len(patterns)
    try:
        database.compile(
            expressions=list(patterns),
            ids=list(range(count)),
            elements=count,
            flags=[hyperscan.HS_FLAG_SINGLEMATCH] * count,
        )
    except hyperscan.error as error:
        raise ConfigurationError(f"detector patterns: hyperscan refuses them: {error}") from error
    serialised: bytes = hyperscan.dumpb(database)
    return serialised


class HyperscanEngine:
    """Hyperscan in block mode as a filter in front of RE2.

    Database and scratch are made once per thread, on first use: neither may be shared by two scans.
    """

    def __init__(self, patterns: Sequence[bytes], once: frozenset[int] = frozenset()) -> None:
        self._confirmers = _confirmers(patterns, once)
        self._local = threading.local()
        # Each thread unpacks its own copy in some milliseconds. A pattern that Hyperscan cannot take fails
        # here, at start.
        self._serialised = _compiled(tuple(patterns))
        self._open()

    @property
    def identity(self) -> str:
        """Name and version."""
        return "hyperscan@1"

    def _open(self) -> Any:
        database = hyperscan.loadb(self._serialised, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        self._local.scan = database.scan
        return database.scan

    def fired(self, data: bytes) -> Sequence[int]:
        """Patterns that occur. `hyperscan.ScanTerminated` and every other error come through."""
        if not data:
            return ()
        fired: list[int] = []
        try:
            scan = self._local.scan
        except AttributeError:
            scan = self._open()
        scan(data, match_event_handler=_note_pattern, context=fired)
        if len(fired) > 1:
            fired.sort()
        return fired

    def spans(self, index: int, data: bytes) -> Iterator[tuple[int, int]]:
        """Spans of one pattern."""
        return self._confirmers[index].of(data)

    def scan(self, data: bytes) -> list[Hit]:
        """All hits of all patterns."""
        return [hit for index in self.fired(data) for hit in self._confirmers[index].hits(data)]


#: Engines that settings may name.
ENGINES: dict[str, Callable[[Sequence[bytes], frozenset[int]], PatternEngine]] = {
    "hyperscan": HyperscanEngine,
    "re2": Re2Engine,
}


def open_engine(name: str, patterns: Sequence[bytes], once: frozenset[int] = frozenset()) -> PatternEngine:
    """Engine of this name over these patterns; of those in `once` only the first hit is wanted.

    Raises `ConfigurationError` for an unknown name and for a pattern that the engine cannot take.
    """
    engine = ENGINES.get(name)
    if engine is None:
        raise ConfigurationError(f"pattern engine: expected one of {sorted(ENGINES)}, found {name!r}")
    return engine(patterns, once)
