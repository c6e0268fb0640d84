"""Server-sent events, both ways.

Invariants
1. Whole equals any split: the events of a text do not depend on where it was cut, within a UTF-8
   sequence or between CR and LF included.
2. No line is longer than `max_line_bytes` and no event's data longer than `max_event_bytes`; past
   that, `oversized` is true and nothing more is read.
3. What the writer writes always has data: clients of OpenAI's kind fail on events without.

Source: WHATWG HTML, section 9.2.6 (parsing an event stream).
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_LINE_BYTES = 1024 * 1024
MAX_EVENT_BYTES = 1024 * 1024
_LINE_END = re.compile(rb"[\r\n]")
_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One dispatched event: its type (`message` when none was given) and its data."""

    event: str
    data: bytes


class SseParser:
    """Incremental parser of one stream. `feed` gives the events that a chunk completes.

    Comments, `id` and `retry` are dropped. An event that is not closed by an empty line when the
    stream ends does not exist (`has_rest` tells of it).
    """

    __slots__ = (
        "_data",
        "_data_bytes",
        "_event",
        "_max_event",
        "_max_line",
        "_skip_lf",
        "_started",
        "_tail",
        "oversized",
    )

    def __init__(
        self, *, max_line_bytes: int = MAX_LINE_BYTES, max_event_bytes: int = MAX_EVENT_BYTES
    ) -> None:
        self._max_line = max_line_bytes
        self._max_event = max_event_bytes
        self._tail = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event = b""
        self._skip_lf = False
        self._started = False
        #: A bound was passed; every later chunk is dropped.
        self.oversized = False

    @property
    def has_rest(self) -> bool:
        """True when a line or an event was begun and not closed."""
        return bool(self._tail or self._data or self._event)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Events that are complete with this chunk, in order."""
        if self.oversized or not chunk:
            return []
        if self._tail:
            if b"\n" not in chunk and b"\r" not in chunk and self._started:
                # A long line in small chunks is collected without copying it each time.
                self._tail += chunk
                self._bound_tail()
                return []
            chunk = bytes(self._tail) + chunk
            self._tail.clear()
        at = 0
        if not self._started:
            if len(chunk) < 3 and _BOM.startswith(chunk):
                self._tail += chunk
                return []
            self._started = True
            at = 3 if chunk.startswith(_BOM) else 0
        return self._scan(chunk, at)

    def _scan(self, chunk: bytes, at: int) -> list[SseEvent]:
        events: list[SseEvent] = []
        size = len(chunk)
        while at < size and not self.oversized:
            if not self._data and not self._event and not self._skip_lf:
                # The common shape: one data line, closed by two line feeds.
                end = chunk.find(b"\n", at)
                if end > 0 and chunk.startswith(b"data: ", at) and chunk.startswith(b"\n\n", end):
                    data = chunk[at + 6 : end]
                    if b"\r" not in data:
                        if end - at > self._max_line or len(data) > self._max_event:
                            self.oversized = True
                            break
                        events.append(SseEvent("message", data))
                        at = end + 2
                        continue
            at = self._take_line(chunk, at, events)
            if at < 0:
                break
        return events

    def _take_line(self, chunk: bytes, at: int, events: list[SseEvent]) -> int:
        """Read one line from `at`; -1 when its end has not come yet (it is kept)."""
        if self._skip_lf:
            self._skip_lf = False
            if chunk[at] == 0x0A:
                return at + 1
        found = _LINE_END.search(chunk, at)
        if found is None:
            self._tail += chunk[at:]
            self._bound_tail()
            return -1
        end = found.start()
        if end - at > self._max_line:
            self.oversized = True
            return -1
        # Whether a line feed follows a carriage return may only be known with the next chunk.
        self._skip_lf = chunk[end] == 0x0D
        self._line(chunk[at:end], events)
        return end + 1

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if not line:
            if self._data:
                name = self._event.decode("utf-8", "replace") if self._event else "message"
                events.append(SseEvent(name, b"\n".join(self._data)))
            self._data = []
            self._data_bytes = 0
            self._event = b""
            return
        name_bytes, colon, value = line.partition(b":")
        if colon and value[:1] == b" ":
            value = value[1:]
        if name_bytes == b"data":
            self._data_bytes += len(value) + (1 if self._data else 0)
            if self._data_bytes > self._max_event:
                self.oversized = True
                return
            self._data.append(value)
        elif name_bytes == b"event":
            self._event = value

    def _bound_tail(self) -> None:
        if len(self._tail) > self._max_line:
            self._tail.clear()
            self.oversized = True


def write_event(data: bytes, event: str | None = None) -> bytes:
    """Bytes of one event. Each line of `data` becomes a data line; a carriage return is a line end.

    Raises `ValueError` for an event name that holds a line end.
    """
    if event is not None and ("\n" in event or "\r" in event):
        raise ValueError("an event name is one line")
    head = f"event: {event}\n".encode() if event else b""
    if b"\n" not in data and b"\r" not in data:
        return head + b"data: " + data + b"\n\n"
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
