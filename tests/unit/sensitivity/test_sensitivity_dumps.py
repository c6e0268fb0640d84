"""Hex dumps, wrapped hex, character codes, base85, uuencode and UTF-7 say what they carry."""

from __future__ import annotations

import base64
import binascii
import gzip
import random
import textwrap

import pytest

from gateway.domain.label import Tag
from gateway.sensitivity.detectors import build_detectors
from tests.unit.sensitivity import vectors

ENGINES = [build_detectors("hyperscan"), build_detectors("re2")]
CARD = vectors.card("4539", 16, 1)
TEXT = f"my card is {CARD} and thanks for the quick answer"
MORSE = ("-----", ".----", "..---", "...--", "....-", ".....", "-....", "--...", "---..", "----.")
BINARY = random.Random(5).randbytes(600)


def _kinds(text: str) -> set[str]:
    """Kinds that both engines find."""
    found = [{finding.kind for finding in engine.find(text)} for engine in ENGINES]
    assert found[0] == found[1]
    return found[0]


def _rows(raw: bytes) -> list[tuple[int, bytes]]:
    return [(place, raw[place : place + 16]) for place in range(0, len(raw), 16)]


def _seen(raw: bytes) -> str:
    return "".join(chr(code) if 32 <= code < 127 else "." for code in raw)


def xxd(raw: bytes) -> str:
    return "\n".join(f"{place:08x}: {row.hex(' ', 2)}  {_seen(row)}" for place, row in _rows(raw))


def hexdump(raw: bytes) -> str:
    return "\n".join(
        f"{place:08x}  {row[:8].hex(' ')}  {row[8:].hex(' ')}  |{_seen(row)}|" for place, row in _rows(raw)
    )


def od(raw: bytes) -> str:
    return "\n".join(f"{place:07o} {row.hex(' ')}" for place, row in _rows(raw))


def uuencoded(raw: bytes) -> str:
    lines = [binascii.b2a_uu(raw[place : place + 45]).decode() for place in range(0, len(raw), 45)]
    return "begin 644 note.txt\n" + "".join(lines) + "`\nend\n"


@pytest.mark.parametrize(
    "text",
    [
        xxd(TEXT.encode()),
        xxd(TEXT.encode()).replace("\n", "\r\n"),
        hexdump(TEXT.encode()),
        od(TEXT.encode()),
        "\n".join(line.split("  ")[0] for line in xxd(TEXT.encode()).split("\n")),
        "\n".join(textwrap.wrap(TEXT.encode().hex(), 16)),
        "\r\n".join(textwrap.wrap(TEXT.encode().hex(), 60)),
        gzip.compress(TEXT.encode(), mtime=0).hex(),
        base64.b85encode(TEXT.encode()).decode(),
        base64.a85encode(TEXT.encode()).decode(),
        base64.a85encode(TEXT.encode(), adobe=True).decode(),
        base64.a85encode(TEXT.encode() * 2, wrapcol=40).decode(),
        'blob="' + base64.b85encode(TEXT.encode()).decode() + '"',
        base64.b85encode(gzip.compress(TEXT.encode() * 4, mtime=0)).decode(),
        " ".join(str(code) for code in TEXT.encode()),
        "String.fromCharCode(" + ",".join(str(code) for code in CARD.encode()) + ")",
        "+".join(f"chr({code})" for code in CARD.encode()),
        " ".join(f"{code:08b}" for code in CARD.encode()),
        " ".join(f"{code:o}" for code in CARD.encode()),
        " ".join(
            MORSE[int(digit)]
            for digit in CARD
        ),
        uuencoded(TEXT.encode()),
        "+" + base64.b64encode(CARD.encode("utf-16-be")).decode().rstrip("=") + "-",
    ],
)  # fmt: skip
def test_bytes_that_a_tool_printed_are_read(text: str) -> None:
    assert "payment-card" in _kinds(text)
    assert "payment-card" in _kinds(f"Here it is:\n\n{text}\n\nCan you read that?")


@pytest.mark.parametrize("text", [xxd(BINARY), hexdump(BINARY), "\n".join(textwrap.wrap(BINARY.hex(), 70))])
def test_a_dump_that_is_no_text_is_opaque(text: str) -> None:
    assert "opaque-blob" in _kinds(text)
    for finding in ENGINES[0].find(text):
        if finding.kind == "opaque-blob":
            assert Tag.OPAQUE in finding.label.tags


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(random.Random(seed).randbytes(32).hex() for seed in range(40)),
        "\n".join(f"{20240101 + day} 1204 3381 5520 9917 0042" for day in range(20)),
        "1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987",
        "10 11 12 13 14 15 16 17 18 19 20 21",
        "r=requests.get(f'{base}/v1/{name}?page={page}&size={size}',headers={**headers,'x':'y'},timeout=(3,9))",
        "((a<b)&&(c>d))||((e!=f)&&(g==h))?x[i]^y[j]:~z|w%2==0;{return!done;}",
        "begin 644 nothing",
        "a+AZUREb+C and 5+ABCDEF-",
    ],
)
def test_lists_of_hashes_numbers_and_code_are_none(text: str) -> None:
    assert _kinds(text) == set()
