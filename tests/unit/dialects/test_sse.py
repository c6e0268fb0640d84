"""Parsing and writing of server-sent events."""

from __future__ import annotations

import pytest

from gateway.dialects.sse import SseEvent, SseParser, write_event


def parsed(*chunks: bytes) -> list[tuple[str, bytes]]:
    """All events of the chunks."""
    parser = SseParser()
    return [(event.event, event.data) for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: a\n\n", [("message", b"a")]),
        (b"data: a\n\ndata: b\n\n", [("message", b"a"), ("message", b"b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("message", b"a"), ("message", b"b")]),
        (b"data: a\r\rdata: b\r\r", [("message", b"a"), ("message", b"b")]),
        (b"data: a\r\n\ndata: b\n\r\n", [("message", b"a"), ("message", b"b")]),
        (b"data:a\n\n", [("message", b"a")]),
        (b"data:  a\n\n", [("message", b" a")]),
        (b"data: a\ndata: b\n\n", [("message", b"a\nb")]),
        (b"data\n\n", [("message", b"")]),
        (b"data:\n\n", [("message", b"")]),
        (b"data: \ndata: \n\n", [("message", b"\n")]),
        (b"event: error\ndata: x\n\n", [("error", b"x")]),
        (b"event: error\n\ndata: x\n\n", [("message", b"x")]),
        (b": ping\n\ndata: x\n\n", [("message", b"x")]),
        (b"id: 7\nretry: 3000\n\n", []),
        (b"id: 7\n\n: ping\n\ndata: x\n\n", [("message", b"x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [("message", b"x")]),
        (b"data: \xef\xbb\xbfx\n\n", [("message", b"\xef\xbb\xbfx")]),
        (b"data: a: b\n\n", [("message", b"a: b")]),
        (b"dat: a\n\n database: b\n\n", []),
        (b"data: x\n", []),
        (b"data: x", []),
        (b"\n\n\n", []),
    ],
)
def test_gives_the_events_of_a_text(text: bytes, events: list[tuple[str, bytes]]) -> None:
    assert parsed(text) == events
    assert parsed(*[text[at : at + 1] for at in range(len(text))]) == events


def test_gives_an_event_with_the_chunk_that_closes_it() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [SseEvent("message", b"a")]


def test_tells_of_an_event_that_was_begun_and_not_closed() -> None:
    parser = SseParser()
    parser.feed(b"data: a\n\n")
    assert not parser.has_rest
    parser.feed(b"data: b\n")
    assert parser.has_rest


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("ending", [b"\n\n", b"\r\n\r\n", b""])
def test_stops_at_a_line_above_the_bound(size: int, ending: bytes) -> None:
    text = b"data: ok\n\ndata: " + b"x" * 50 + ending + b"data: late\n\n"
    parser = SseParser(max_line_bytes=20)
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert events == [SseEvent("message", b"ok")]
    assert parser.oversized


def test_takes_a_line_of_exactly_the_bound() -> None:
    parser = SseParser(max_line_bytes=10)
    assert parser.feed(b"data: 1234\n\n") == [SseEvent("message", b"1234")]
    assert not parser.oversized


@pytest.mark.parametrize("size", [1, 1000])
def test_stops_at_an_event_above_the_bound(size: int) -> None:
    text = b"data: 1234\ndata: 1234\ndata: 1\n\n"
    parser = SseParser(max_event_bytes=10)
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert events == []
    assert parser.oversized


def test_collects_a_long_line_in_time_that_grows_with_its_length_only() -> None:
    parser = SseParser()
    parser.feed(b"data: ")
    for _ in range(200_000):
        assert parser.feed(b"xxxxx") == []
    assert len(parser.feed(b"\n\n")[0].data) == 1_000_000


@pytest.mark.parametrize(
    ("data", "event", "text"),
    [
        (b"a", None, b"data: a\n\n"),
        (b"a\nb", None, b"data: a\ndata: b\n\n"),
        (b"a\r\nb\rc", None, b"data: a\ndata: b\ndata: c\n\n"),
        (b"a", "error", b"event: error\ndata: a\n\n"),
        (b"", None, b"data: \n\n"),
    ],
)
def test_writes_an_event_that_always_has_data(data: bytes, event: str | None, text: bytes) -> None:
    assert write_event(data, event) == text


@pytest.mark.parametrize("name", ["a\nb", "a\rb"])
def test_does_not_write_an_event_name_of_two_lines(name: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        write_event(b"x", name)
