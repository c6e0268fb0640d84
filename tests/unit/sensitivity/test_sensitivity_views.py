"""Canonical and decoded views, and the way back to the original."""

from __future__ import annotations

import base64

import pytest

from gateway.sensitivity import blobs, views


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("４５３９　１４８８", "4539 1488"),
        ("45\u200b39\u2060 \u202e14\u00ad88", "4539 1488"),
        ("٤٥٣٩ १४८८", "4539 1488"),
        ("𝟒𝟓𝟑𝟗 ①", "4539 1"),
        ("АВС Οrаnge", "ABC Orange"),
        ("4\u03365\u03363", "453"),
        ("naïve Straße ½", "naive Straße 1/2"),
        ("11–22—33−44‑55", "11-22-33-44-55"),
        ("9·2・4", "9.2.4"),
        ("a\u00a0b\u3000c", "a b c"),
        ("漢字 かな 한글", "漢字 かな 한글"),
    ],
)
def test_canonical_view_reads_as_a_person_would(text: str, plain: str) -> None:
    assert views.canonical(text).text == plain


def test_ascii_text_is_its_own_view() -> None:
    text = "plain 4111"
    assert views.canonical(text).text is text


def test_data_holds_one_byte_for_each_character() -> None:
    view = views.canonical("日本 x\ud800y")
    assert (view.data, len(view.text)) == (b"?? x?y", 6)


def test_origin_covers_the_unseen_characters_inside_a_span() -> None:
    text = "id 4\u200b5\u200b3 end"
    view = views.canonical(text)
    start = view.text.index("453")
    first, last = view.origin(start, start + 3)
    assert text[first:last] == "4\u200b5\u200b3"


def test_origin_of_an_expanded_character_is_that_character() -> None:
    text = "a ½ b"
    view = views.canonical(text)
    assert view.origin(2, 5) == (2, 3)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('"\\u0031\\u0032"', '"12"'),
        ("\\ud83d\\ude00!", "😀!"),
        ("\\u{34}\\x35", "45"),
        ("%44%45 %C3%A9", "DE e"),
        ("&#52;&#x35;&amp;", "45&"),
        ('a\\n\\"b\\/c\\\\', 'a\n"b/c\\'),
        ("4\x001\x0b1", "411"),
        ("\\uff14", "4"),
        ("\\u{ffffff}", "\\u{ffffff}"),
        ("&nosuch; %zz", "&nosuch; %zz"),
    ],
)
def test_unescaped_view_takes_one_layer_off(text: str, plain: str) -> None:
    assert views.unescaped(views.canonical(text)).text == plain


def test_unescaped_origin_is_the_escape_itself() -> None:
    text = "x \\u0031\\u0032 %33 y"
    view = views.unescaped(views.canonical(text))
    assert view.text == "x 12 3 y"
    spans = [view.origin(place, place + 1) for place in range(8)]
    assert [text[first:last] for first, last in spans] == [
        "x",
        " ",
        "\\u0031",
        "\\u0032",
        " ",
        "%33",
        " ",
        "y",
    ]


def test_origins_chain_through_both_views() -> None:
    text = "\u200b\u200b é %41\u200b%42"
    view = views.unescaped(views.canonical(text))
    place = view.text.index("AB")
    first, last = view.origin(place, place + 2)
    assert text[first:last] == "%41\u200b%42"


@pytest.mark.parametrize("glued", ["", "x", "ab", "q/z"])
def test_base64_is_read_at_any_alignment(glued: str) -> None:
    blob = glued + base64.b64encode(b"account 4539-1488-0343").decode()
    view = views.canonical(f"> {blob}")
    inner = blobs.from_base64(view, 2, 2 + len(blob))
    assert inner is not None
    assert "account 4539-1488-0343" in inner.text or "count 4539-1488-0343" in inner.text
    place = inner.text.index("4539")
    assert inner.origin(place, place + 4) == (2, 2 + len(blob))
    assert inner.text.startswith("> ")  # what stands before says what a number is


def test_base64url_without_padding_is_read() -> None:
    blob = base64.urlsafe_b64encode("päss ÿÿÿ 1234".encode()).decode().rstrip("=")
    inner = blobs.from_base64(views.canonical(blob), 0, len(blob))
    assert inner is not None
    assert inner.step == "base64"


def test_base64_over_lines_is_read() -> None:
    raw = base64.encodebytes(
        b"a line of text that is long enough to be broken into two lines of base64"
    ).decode()
    inner = blobs.from_base64(views.canonical(raw), 0, len(raw.rstrip()))
    assert inner is not None
    assert "broken into two" in inner.text


def test_base64_of_utf16_is_read() -> None:
    blob = base64.b64encode("secret 123-45".encode("utf-16-le")).decode()
    inner = blobs.from_base64(views.canonical(blob), 0, len(blob))
    assert inner is not None
    assert inner.text.strip() == "secret 123-45"


def test_strings_inside_binary_are_read_but_not_called_text() -> None:
    blob = base64.b64encode(bytes(range(128, 200)) + b"ssn 513-42-5031" + bytes(range(200, 256))).decode()
    inner = blobs.from_base64(views.canonical(blob), 0, len(blob))
    assert inner is not None
    assert "513-42-5031" in inner.text
    assert inner.step == "base64-strings"


@pytest.mark.parametrize(
    "word", ["getElementsByClassName", "a" * 16, "x" * 17, "docs/reference/getting-started"]
)
def test_words_are_not_blobs(word: str) -> None:
    assert blobs.from_base64(views.canonical(word), 0, len(word)) is None


def test_hex_is_read_when_it_is_text() -> None:
    blob = b"ssn=476-04-0714".hex()
    inner = blobs.from_hex(views.canonical(blob), 0, len(blob))
    assert inner is not None
    assert inner.text.strip() == "ssn=476-04-0714"
    assert blobs.from_hex(views.canonical("dd703db3280e59f722493741"), 0, 24) is None


def test_hidden_tag_characters_are_read() -> None:
    text = "hi" + "".join(chr(0xE0000 + ord(letter)) for letter in "pw 1") + "!"
    view = views.hidden_tags(text)
    assert view is not None
    assert (view.text, view.origin(0, 1)) == ("pw 1", (2, 6))
    assert views.hidden_tags("hi") is None
    assert views.canonical(text).text == "hi!"


def test_long_varied_blobs_are_opaque_and_public_structures_are_not() -> None:
    noise = bytes((number * 167 + number // 7 * 31) % 256 for number in range(400))
    der = b"\x30\x82" + (396).to_bytes(2, "big") + noise[4:]
    der = der[:400]
    ssh = b"\x00\x00\x00\x07ssh-rsa" + noise
    assert blobs.is_opaque(base64.b64encode(noise).decode())
    assert not blobs.is_opaque(base64.b64encode(der).decode())
    assert not blobs.is_opaque(base64.b64encode(ssh).decode())
    assert not blobs.is_opaque(base64.b64encode(noise[:96]).decode())
    assert not blobs.is_opaque("A" * 300)
