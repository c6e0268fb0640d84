"""Answers through the output filter, in every chunking and every pair of wire formats. Pure.

A row is an answer as a model would write it, and what of it must never reach the client. Each run writes the
answer as a destination of one dialect streams it, cut in one way. It is read, filtered and encoded as the
gateway does it, and the client's bytes are read back.

What counts
- leak: a forbidden string in the client's text or bytes, white space aside;
- false cut: the answer holds nothing forbidden and reaches the client otherwise than it was written;
- unequal: two chunkings of one answer reach the client as different texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from gateway.dialects.table import WireFormats
from gateway.domain.chat import ChatRequest, Surface
from gateway.domain.decision import Destination
from gateway.domain.label import Level
from gateway.domain.limits import Usage
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Channel,
    Finish,
    OutputFilter,
    RoleDelta,
    StreamEvent,
    TextDelta,
    UsageReport,
)
from gateway.errors import ConfigurationError, OutputBlocked

MAX_ROW_CHARACTERS = 256 * 1024
_MODEL = "evaluated"
#: Size of the next piece of a random chunking, in characters.
NextSize = Callable[[], int]
#: (dialect of the destination, dialect of the client, whether it streams).
Pairing = tuple[str, Surface, bool]
PAIRINGS: tuple[Pairing, ...] = tuple(
    (kind, surface, stream)
    for kind in ("openai", "anthropic")
    for surface in (Surface.CHAT, Surface.MESSAGES)
    for stream in (True, False)
)
_SURFACES = {"openai": Surface.CHAT, "anthropic": Surface.MESSAGES}


class _Row(msgspec.Struct):
    text: str
    must_not_emit: list[str] = []
    id: str | int | None = None


class Answer(msgspec.Struct, frozen=True):
    """One answer, and the strings that must not come out of it."""

    id: str
    text: str
    must_not_emit: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One pass: what the client got (None: the answer was stopped), and what it took."""

    text: str | None
    raw: bytes
    events: int
    held: int
    filter_ns: int


@dataclass(slots=True)
class Result:
    """Runs of one answer. `leaks` and `false_cuts` are descriptions of the runs that showed one."""

    id: str
    runs: int = 0
    leaks: list[str] = field(default_factory=list)
    false_cuts: list[str] = field(default_factory=list)
    is_unequal: bool = False
    held: int = 0
    events: int = 0
    filter_ns: int = 0


_DECODER = msgspec.json.Decoder(_Row)


def parse_answers(lines: Iterable[bytes], name: str) -> Iterator[Answer]:
    """Answers of one file of JSON Lines. Raises `ConfigurationError` with file and line; never quotes."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            row = _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise ConfigurationError(f"{place}: expected an object with text and must_not_emit") from None
        if len(row.text) > MAX_ROW_CHARACTERS:
            raise ConfigurationError(f"{place}: text: expected at most {MAX_ROW_CHARACTERS} characters")
        if not all(row.must_not_emit):
            raise ConfigurationError(f"{place}: must_not_emit: an empty string is in every text")
        yield Answer(str(row.id) if row.id is not None else place, row.text, tuple(row.must_not_emit))


def chunkings(text: str, count: int, next_size: NextSize) -> Iterator[tuple[str, list[str]]]:
    """Whole, character by character, each single cut, and `count` random ones; with a name for each."""
    yield "whole", [text]
    yield "characters", list(text)
    for at in range(1, len(text)):
        yield f"cut at {at}", [text[:at], text[at:]]
    for number in range(count):
        pieces, at = [], 0
        while at < len(text):
            size = next_size()
            pieces.append(text[at : at + size])
            at += size
        yield f"random {number}", pieces


class Passage:
    """Everything between a destination's bytes and a client's, for one filter profile."""

    def __init__(self, new_filter: Callable[[], OutputFilter], clock_ns: Callable[[], int]) -> None:
        self._new_filter = new_filter
        self._clock_ns = clock_ns
        self._formats = WireFormats()

    def run(self, pieces: Sequence[str], pairing: Pairing) -> Run:
        """One answer, cut into these pieces, between a destination and a client of this pairing."""
        kind, surface, stream = pairing
        request = ChatRequest(_MODEL, (), stream=stream, surface=surface)
        place = Destination("evaluated", kind, Level.RESTRICTED, False, "here", _MODEL)
        decoder = self._formats.decoder(place, request)
        encoder = self._formats.encoder(request, "req_0", 1)
        guard = self._new_filter()
        raw, events, held, spent = bytearray(), 0, 0, 0
        try:
            for chunk in (*self._spoken(pieces, kind, stream), None):
                for event in decoder.flush() if chunk is None else decoder.feed(chunk):
                    begun = self._clock_ns()
                    released = guard.feed(event)
                    spent += self._clock_ns() - begun
                    events += 1
                    held = max(held, getattr(guard, "held_count", 0))
                    raw += encoder.encode(released)
            raw += encoder.end()
        except OutputBlocked:
            return Run(None, bytes(raw), events, held, spent)
        return Run(self._read(bytes(raw), surface, stream), bytes(raw), events, held, spent)

    def _spoken(self, pieces: Sequence[str], kind: str, stream: bool) -> Iterator[bytes]:
        """The answer as a destination of this dialect sends it, one event a piece."""
        request = ChatRequest(_MODEL, (), stream=stream, include_usage=True, surface=_SURFACES[kind])
        encoder = self._formats.encoder(request, "answer", 1)
        deltas = [TextDelta(0, Channel.CONTENT, piece) for piece in pieces]
        head: tuple[StreamEvent, ...] = (AnswerStart("answer", _MODEL, 1), RoleDelta(0, "assistant"))
        tail = (Finish(0, "stop"), UsageReport(Usage(1, len(deltas), source="provider")), AnswerEnd())
        for event in (*head, *deltas, *tail):
            if data := encoder.encode((event,)):
                yield data
        yield encoder.end()

    def _read(self, raw: bytes, surface: Surface, stream: bool) -> str:
        """The text that a client of this dialect reads."""
        kind = next(kind for kind, its in _SURFACES.items() if its is surface)
        request = ChatRequest(_MODEL, (), stream=stream, surface=surface)
        decoder = self._formats.decoder(
            Destination("client", kind, Level.RESTRICTED, False, "here", _MODEL), request
        )
        events = (*decoder.feed(raw), *decoder.flush())
        return "".join(event.text for event in events if isinstance(event, TextDelta))


def judge(answer: Answer, passage: Passage, count: int, next_size: NextSize) -> Result:
    """All chunkings of one answer in all pairings. Plain answers come as one text, so they run once."""
    result = Result(answer.id)
    told: set[str | None] = set()
    for name, pieces in chunkings(answer.text, count, next_size):
        for pairing in PAIRINGS:
            if not pairing[2] and name != "whole":
                continue
            run = passage.run(pieces, pairing)
            _count(result, answer, run, f"{name}, {_words(pairing)}")
            if pairing[2]:
                told.add(run.text)
    result.is_unequal = len(told) > 1
    return result


def without_space(text: str) -> str:
    """A text without its white space, as somebody who looks for a number would read it."""
    return "".join(text.split())


def _count(result: Result, answer: Answer, run: Run, where: str) -> None:
    result.runs += 1
    result.events += run.events
    result.filter_ns += run.filter_ns
    shown = (run.text or "") + run.raw.decode("utf-8", "replace")
    bare = without_space(shown)
    if any(each in shown or without_space(each) in bare for each in answer.must_not_emit):
        result.leaks.append(where)
    if not answer.must_not_emit:
        result.held = max(result.held, run.held)
        if run.text != answer.text:
            result.false_cuts.append(where)


def _words(pairing: Pairing) -> str:
    kind, surface, stream = pairing
    return f"{kind} to {surface.value}, {'streamed' if stream else 'plain'}"


def merged(results: Sequence[Result]) -> Result:
    """Sums over all answers; `held` is the most."""
    total = Result("all")
    for each in results:
        total = replace(
            total,
            runs=total.runs + each.runs,
            leaks=total.leaks + each.leaks,
            false_cuts=total.false_cuts + each.false_cuts,
            is_unequal=total.is_unequal or each.is_unequal,
            held=max(total.held, each.held),
            events=total.events + each.events,
            filter_ns=total.filter_ns + each.filter_ns,
        )
    return total
