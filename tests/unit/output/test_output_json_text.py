"""Unit tests of `gateway.output.json_text`."""

from __future__ import annotations

import pytest

from gateway.output.json_text import Unescaped, bare_quote, unescape


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("plain", "plain"),
        (r"a\n\tb", "a\n\tb"),
        (r"\"\\\/", '"\\/'),
        (r"\u0034\u0031", "41"),
        (r"\ud83d\ude00!", "\U0001f600!"),
        (r"\ud83d alone", "\ufffd alone"),
        (r"\ude00", "\ufffd"),
        ("ends in \\", "ends in \\"),
    ],
)
def test_resolves_escapes(written: str, meant: str) -> None:
    assert unescape(written) == meant


def test_origin_covers_whole_escapes() -> None:
    written = r"ab\u0034\n5 \ud83d\ude00z"
    view = Unescaped(written)
    assert view.text == "ab4\n5 \U0001f600z"
    assert [written[slice(*view.origin(place, place + 1))] for place in range(len(view.text))] == [
        "a", "b", r"\u0034", r"\n", "5", " ", r"\ud83d\ude00", "z",
    ]  # fmt: skip
    assert written[slice(*view.origin(1, 4))] == r"b\u0034\n"


def test_widens_a_span_of_the_written_form_to_whole_escapes() -> None:
    written = r"ab\u0034cd\n"
    assert Unescaped(written).whole(3, 9) == (2, 9)
    assert Unescaped(written).whole(0, 5) == (0, 8)
    assert Unescaped(written).whole(2, 8) == (2, 8)
    assert Unescaped(written).whole(11, 12) == (10, 12)


def test_finds_the_first_quote_that_is_not_escaped() -> None:
    assert bare_quote(r"a\"b\\" + '"', 0) == 6
    assert bare_quote('a"b"', 2) == 3
    assert bare_quote(r"a\"b", 0) == -1
