"""Texts written as bytes by tools: hex dumps, wrapped hex, lists of character codes, base85, uuencode, UTF-7.

Invariants
1. What is no text when read so changes nothing: the view itself was read already.
2. No view is longer than the text that it came from, but for gzip (see `blobs`).
3. Work is linear: each line and each number is read once.
"""

from __future__ import annotations

import binascii
import re

import re2

from gateway.sensitivity.blobs import ZIPPED, blob_view, is_opaque_hex, readable, unpacked
from gateway.sensitivity.views import View, canonical, replaced
from gateway.sensitivity.work import Work

_HEX = rb"[0-9A-Fa-f]{2,8}"
_DUMP_LINE = rb"[0-9A-Fa-f]{6,8}:?[ \t]{1,3}" + _HEX + rb"(?:[ \t]{1,3}" + _HEX + rb")"
#: Lines that begin with an offset, as xxd, hexdump and od print them.
HEX_DUMP_TRIGGER = (
    rb"(?m)^" + _DUMP_LINE + rb"{3,}[^\r\n]*(?:\r?\n" + _DUMP_LINE + rb"*[^\r\n]*)*"
)  # fmt: skip
#: One hexadecimal run over several lines.
HEX_LINES_TRIGGER = (
    rb"(?m)^(?:[0-9A-Fa-f]{2}){4,}(?:\r?\n(?:[0-9A-Fa-f]{2}){4,})*\r?\n(?:[0-9A-Fa-f]{2})+\r?$"
)
_OFFSET = re.compile(r"(?m)^[0-9A-Fa-f]{6,8}:?[ \t]{1,3}((?:[0-9A-Fa-f]{2,8}[ \t]{1,3})*[0-9A-Fa-f]{2,8})")


def _hex_view(view: View, digits: str, start: int, end: int) -> View | None:
    if len(digits) % 2:
        return None
    text = readable(unpacked(bytes.fromhex(digits)))
    return None if text is None else blob_view(view, "hex", text, start, end)


def _dumped(block: str) -> str:
    """Digits of a dump without its offsets and without the column of characters."""
    rows: list[str] = []
    for match in _OFFSET.finditer(block):
        groups = re.split(r"[ \t]+", match[1])
        # A word of the column of characters can look like bytes ("ad be"): no line holds more than 16.
        kept: list[str] = []
        for group in groups:
            if len(group) % 2 or sum(map(len, kept)) >= 32:
                break
            kept.append(group)
        rows.append("".join(kept))
    return "".join(rows)


def from_hex_dump(view: View, start: int, end: int) -> View | None:
    """What the dump at `start:end` says, or None when it is no text."""
    return _hex_view(view, _dumped(view.text[start:end]), start, end)


def from_hex_lines(view: View, start: int, end: int) -> View | None:
    """What the lines at `start:end` say when read as one hexadecimal run, or None when that is no text."""
    return _hex_view(view, "".join(view.text[start:end].split()), start, end)


def is_opaque_dump(block: str) -> bool:
    """Whether a dump that is no text can carry a document. A table of decimal numbers cannot."""
    digits = _dumped(block)
    letters = sum(map(str.isalpha, digits))
    return len(digits) % 2 == 0 and letters * 8 > len(digits) and is_opaque_hex(digits)


def is_opaque_lines(block: str) -> bool:
    """The same for wrapped hex. Lines that are all of one length are a list of hashes."""
    lines = block.split()
    return len(lines[-1]) < len(lines[0]) and is_opaque_hex("".join(lines))


# --- Character codes -----------------------------------------------------------------------------------

_CODE = rb"(?:[a-zA-Z]{0,12}\(|[\\&#]{1,2})?[0-9]{2,3}\)?"
CODES_TRIGGER = (
    rb"(?:" + _CODE + rb"[ ,;+.&|]{1,3}){8,}" + _CODE + rb"|\b[01]{7,8}(?:[ ,]{1,2}[01]{7,8}){8,}\b"
    rb"|[.-]{5}(?:[ /]{1,3}[.-]{5}){8,}"
)  # fmt: skip
_CODES = re2.compile(CODES_TRIGGER)
_NUMBER = re.compile(r"[0-9]+")


#: Digits in Morse code: ITU-R M.1677.
_MORSE = {"." * digit + "-" * (5 - digit): str(digit) for digit in range(6)}
_MORSE |= {"-" * (digit - 5) + "." * (10 - digit): str(digit) for digit in range(6, 10)}
_MORSE_DIGIT = re.compile("[.-]{5}")


def _as_text(numbers: list[str]) -> str | None:
    """The characters with these codes, binary, or decimal and octal; a line for each reading that is text."""
    is_binary = all(len(number) > 6 for number in numbers)
    readings: list[str] = []
    for base in (2,) if is_binary else (10, 8):
        try:
            codes = [int(number, base) for number in numbers]
        except ValueError:
            continue
        if all(31 < code < 127 or code in {9, 10, 13} for code in codes):
            readings.append("".join(map(chr, codes)))
    return "\n".join(readings) if readings else None


def from_codes(view: View, work: Work) -> View | None:
    """The view with rows of character codes as what they spell: `52, 53, 51`, `chr(52)+chr(53)`."""
    pieces: list[tuple[int, int, str]] = []
    for match in _CODES.finditer(view.data):
        work.spend(2 + (match.end() - match.start() >> 5))
        if view.text[match.start()] in ".-":
            signs = _MORSE_DIGIT.findall(match.group().decode("ascii"))
            text: str | None = "".join(_MORSE.get(sign, " ") for sign in signs)
        else:
            text = _as_text(_NUMBER.findall(view.text, *match.span()))
        if text is not None:
            pieces.append((*match.span(), text))
    return replaced(view, "codes", pieces) if pieces else None


# --- Base85 --------------------------------------------------------------------------------------------

_SIGN = rb"[0-9A-Za-z_,./:=-]{0,12}[!-&(-+;<>?@\[-^`{-~]"
#: A run without blanks in which signs stand as often as in encoded text; paths, keys and hashes have fewer.
BASE85_TRIGGER = _SIGN + _SIGN + _SIGN + rb"[!-~]{16,}(?:\r?\n[!-~]{20,})*(?:\r?\n[!-~]{1,80})?"
_ASCII85 = {code: code - 33 for code in range(33, 118)}
_BASE85 = {
    code: place
    for place, code in enumerate(
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    )
}
_OPENING = re.compile(rb"[\"'=:(\[]")
_SPECIAL = re.compile(rb"[^0-9A-Za-z/_.,:=-]")
#: Longest run that is read; encoded documents have line ends, or are opaque in another way.
_BASE85_MOST = 1 << 16
#: Letters and digits that may stand before the first signs of a run: a header with zeros has no sign.
_BEFORE = 64


def _groups85(run: bytes, table: dict[int, int]) -> bytes | None:
    """Bytes of a run in groups of five digits; None when a sign is none of the alphabet's."""
    raw = bytearray()
    short = -len(run) % 5
    try:
        values = [table[code] for code in run] + [84] * short
    except KeyError:
        return None
    for place in range(0, len(values), 5):
        first, second, third, fourth, fifth = values[place : place + 5]
        number = (((first * 85 + second) * 85 + third) * 85 + fourth) * 85 + fifth
        if number >> 32:
            return None
        raw += number.to_bytes(4, "big")
    return bytes(raw[: len(raw) - short])


def _begin_of_run(data: bytes, start: int) -> int:
    """Where the run without blanks begins: a trigger may begin behind letters and digits of the same run."""
    least = max(0, start - _BEFORE)
    while start > least and 33 <= data[start - 1] <= 126:
        start -= 1
    return start


def from_base85(view: View, start: int, end: int) -> View | None:
    """What the run at `start:end` says as Ascii85 (btoa, Adobe) or base85 (RFC 1924), or None.

    The first two groups tell whether it is worth reading; all five alignments are tried, and what is behind
    a sign that may open a value, because a name may stand glued before the run.
    """
    start = _begin_of_run(view.data, start)
    run = b"".join(view.data[start : min(end, start + _BASE85_MOST)].split())
    if 14 * len(_SPECIAL.findall(run)) < len(run):
        return None  # paths, names and addresses; encoded text has three times as many signs
    if run.startswith(b"<~"):
        run = run[2:].split(b"~", 1)[0]
    shifts = dict.fromkeys([*range(5), *(match.end() for match in _OPENING.finditer(run, 0, 40))])
    for shift in shifts:
        for table in (_ASCII85, _BASE85):
            head = _groups85(run[shift : shift + 10], table)
            if head is None or not (head.startswith(ZIPPED) or head.decode("ascii", "replace").isprintable()):
                continue
            raw = _groups85(run[shift:].rstrip(b"\"'"), table)
            text = None if raw is None else readable(unpacked(raw))
            if text is not None:
                return blob_view(view, "base85", text, start, end)
    return None


# --- uuencode, UTF-7 -----------------------------------------------------------------------------------

UU_TRIGGER = rb"(?m)^begin [0-7]{3} [^\r\n]{1,80}\r?\n[!-M][ -`]{4,}"
_UU = re.compile(r"(?m)^begin [0-7]{3} [^\r\n]{1,80}\r?\n((?:[!-M][ -`]{1,61}\r?\n?)+)")
UTF7_TRIGGER = rb"\+A[A-Za-z0-9+/]{5,}"
_UTF7 = re.compile(r"\+((?:A[A-Za-z0-9+/]{2,})[A-Za-z0-9+/]*)-?")


def from_uuencode(view: View, work: Work) -> View | None:
    """The view with uuencoded files as the text that they carry."""
    pieces: list[tuple[int, int, str]] = []
    for match in _UU.finditer(view.text):
        work.spend(2 + (match.end() - match.start() >> 5))
        raw = bytearray()
        for line in match[1].splitlines():
            try:
                raw += binascii.a2b_uu(line)
            except (binascii.Error, ValueError):
                break
        text = readable(bytes(raw))
        if text is not None:
            pieces.append((*match.span(1), text))
    return _inner(view, "uuencode", pieces)


def from_utf7(view: View, work: Work) -> View | None:
    """The view with shifted runs of UTF-7 (RFC 2152) as what they say: `+ADQANQ-` is 45."""
    pieces: list[tuple[int, int, str]] = []
    for match in _UTF7.finditer(view.text):
        work.spend(1)
        digits = match[1]
        raw = binascii.a2b_base64(
            digits[: len(digits) - (len(digits) % 4 == 1)] + "=" * (-len(digits) % 4 % 3)
        )
        text = raw[: len(raw) & ~1].decode("utf-16-be", "replace")
        if text.isprintable():
            pieces.append((*match.span(), text))
    return _inner(view, "utf-7", pieces)


def _inner(view: View, step: str, pieces: list[tuple[int, int, str]]) -> View | None:
    if not pieces:
        return None
    inner = replaced(view, step, pieces)
    return canonical(inner.text, step, inner)
