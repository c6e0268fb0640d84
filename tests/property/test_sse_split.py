"""Server-sent events: whole equals any split, and what is written is read back."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.sse import SseEvent, SseParser, write_event

PIECES = st.lists(
    st.sampled_from(
        [
            *(b"data: ", b"data:", b"data", b"event: ", b": c", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"),
            *(b" ", b'{"a":1}', "潮".encode(), "😀".encode(), b"\xef\xbb\xbf", b"\xff", b"x" * 30, b"[DONE]"),
        ]
    ),
    max_size=40,
).map(b"".join)


def outcome(chunks: list[bytes]) -> tuple[list[SseEvent], bool, bool]:
    """Events, whether a rest is left, whether a bound was passed."""
    parser = SseParser(max_line_bytes=48, max_event_bytes=60)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events, parser.has_rest and not parser.oversized, parser.oversized


@given(text=PIECES, cuts=st.lists(st.integers(0, 400), max_size=12))
@settings(max_examples=200)
def test_whole_equals_any_split(text: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    split = [text[a:b] for a, b in pairwise(borders)]
    whole = outcome([text])
    assert outcome(split) == whole
    assert outcome([text[at : at + 1] for at in range(len(text))]) == whole


@given(data=st.binary(max_size=200), name=st.sampled_from([None, "error", "ping"]))
@settings(max_examples=100)
def test_reads_back_what_it_writes(data: bytes, name: str | None) -> None:
    expected = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert SseParser().feed(write_event(data, name)) == [SseEvent(name or "message", expected)]
