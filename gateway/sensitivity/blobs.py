"""Blobs: base64, base64url, base32 and hexadecimal runs read as the text that they carry.

Invariants
1. A blob's view is never longer than the blob, but for gzip, which is unpacked to `MAX_UNPACKED_BYTES`.
2. Every span of a blob's view comes from the whole blob.
3. What does not decode and is long enough to carry a document is opaque, never "nothing found".
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib

from gateway.sensitivity.views import CONTEXT_AFTER, CONTEXT_BEFORE, View, canonical, with_tags_shown

#: Patterns (RE2 syntax) of what may be a blob.
BASE64_TRIGGER = rb"[A-Za-z0-9+/_-]{15,}(?:\r?\n[A-Za-z0-9+/_-]{15,})*(?:\r?\n[A-Za-z0-9+/_-]{1,14})?={0,2}"
#: The same in lines too short for that. Whole lines only: in prose hardly a line is one word.
BASE64_LINES_TRIGGER = (
    rb"(?m)^[A-Za-z0-9+/_-]{4,14}(?:\r?\n[A-Za-z0-9+/_-]{4,14})*\r?\n[A-Za-z0-9+/_-]{1,14}={0,2}\r?$"
)
HEX_TRIGGER = rb"(?:[0-9A-Fa-f]{2}){9,}"
HEX_PAIRS_TRIGGER = rb"\b(?:0x)?[0-9A-Fa-f]{2}(?:[ :,\n-]{1,2}(?:0x)?[0-9A-Fa-f]{2}){8,}\b"
BASE32_TRIGGER = rb"[A-Z2-7]{16,}={0,6}|[a-z2-7]{16,}={1,6}"


def readable(raw: bytes) -> str | None:
    """`raw` as text if it is text: UTF-8, or UTF-16 as PowerShell writes it."""
    if raw.count(0) * 3 > len(raw):
        try:
            text = raw.decode("utf-16-le" if raw[1:2] == b"\0" else "utf-16-be")
        except UnicodeDecodeError:
            return None
    else:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return None
        if not text.isascii():
            text = with_tags_shown(text)
    printable = sum(map(str.isprintable, text)) + text.count("\n") + text.count("\t") + text.count("\r")
    return text if text and printable * 10 >= len(text) * 9 else None


_TO_STANDARD = str.maketrans("-_", "+/", "\r\n=")


def _base64_bytes(blob: str) -> bytes:
    digits = blob if blob.isalnum() else blob.translate(_TO_STANDARD)
    return binascii.a2b_base64(digits[: len(digits) - (len(digits) % 4 == 1)] + "=" * (-len(digits) % 4 % 3))


#: Stands between a blob's text and what is around the blob. No pattern reaches over so many breaks.
_APART = "\n" * 4


def blob_view(view: View, step: str, text: str, start: int, end: int) -> View:
    """The blob's text between the words that stand around the blob, which may say what it is."""
    span = view.origin(start, end)
    plain = canonical(text, step).text
    before = view.text[max(0, start - CONTEXT_BEFORE) : start] + _APART
    after = _APART + view.text[end : end + CONTEXT_AFTER]
    core = (len(before), len(before) + len(plain))
    return View(before + plain + after, step, lambda _start, _end: span, core)


#: Text inside binary: as long as the shortest identifier.
_STRINGS = re.compile(rb"[\x20-\x7e\r\n\t]{9,}")


def from_base64(view: View, start: int, end: int) -> View | None:
    """What the blob at `start:end` says when read as base64 or base64url.

    All four alignments are tried, because a path or a word may stand glued before the blob; then line by
    line. A view with step `base64` is wholly text; one with step `base64-strings` holds only the printable
    strings of something binary. None: not even those.
    """
    blob = view.text[start:end]
    runs = _runs(blob)
    if is_name(blob):
        return None
    readings: list[bytes] = []
    for run in runs:
        for shift in range(min(4, len(run) - 14)):
            raw = unpacked(_base64_bytes(run[shift:]))
            text = readable(raw)
            if text is not None:
                return blob_view(view, "base64", text, start, end)
            readings.append(raw)
    if "\n" in blob:
        readings += [_base64_bytes(line) for line in blob.split("\n")]
    strings = [found for raw in readings for found in _STRINGS.findall(raw)]
    if not strings:
        return None
    return blob_view(view, "base64-strings", b"\n".join(strings).decode("ascii"), start, end)


def is_name(blob: str) -> bool:
    """Whether the blob is of one case, but for a short last line, as names and hashes are."""
    run = _runs(blob)[-1]
    return run.lower() == run or run.upper() == run


def _runs(blob: str) -> list[str]:
    """The blob, and the blob without a short last line, which may be the first word of what follows."""
    last = blob.rfind("\n")
    return [blob, blob[:last]] if last > 0 and len(blob) - last <= 17 else [blob]


def from_base64_lines(view: View, start: int, end: int) -> View | None:
    """The same for a blob in lines of less than 15 characters, which all but the last are equally long."""
    lines = view.text[start:end].split()
    if any(len(line) != len(lines[0]) for line in lines[:-1]) or len(lines[-1]) > len(lines[0]):
        return None  # a list of words
    return from_base64(view, start, end)


def from_hex(view: View, start: int, end: int) -> View | None:
    """What the blob at `start:end` says when read as hexadecimal bytes, or None when it is not text."""
    text = readable(unpacked(bytes.fromhex(view.text[start:end])))
    return None if text is None else blob_view(view, "hex", text, start, end)


def from_hex_pairs(view: View, start: int, end: int) -> View | None:
    """The same for bytes written apart: `34 35`, `34:35`, `0x34,0x35`."""
    digits = "".join(pair[-2:] for pair in _PAIR.findall(view.text[start:end]))
    text = readable(unpacked(bytes.fromhex(digits)))
    return None if text is None else blob_view(view, "hex", text, start, end)


def from_base32(view: View, start: int, end: int) -> View | None:
    """What the blob at `start:end` says when read as base32 (RFC 4648 §6), or None when it is not text."""
    blob = view.text[start:end].rstrip("=").upper()
    if blob.isalpha():
        return None  # words in capitals
    try:
        raw = base64.b32decode(blob + "=" * (-len(blob) % 8))
    except binascii.Error:
        return None
    text = readable(raw)
    return None if text is None else blob_view(view, "base32", text, start, end)


_PAIR = re.compile(r"(?:0x)?[0-9A-Fa-f]{2}")
#: Most bytes that a gzip blob is unpacked to.
MAX_UNPACKED_BYTES = 1 << 18
ZIPPED = (b"\x1f\x8b\x08", b"\x78\x9c", b"\x78\xda", b"\x78\x01", b"\x78\x5e")


def unpacked(raw: bytes) -> bytes:
    """gzip and zlib data unpacked, up to a bound; the bytes themselves when they are neither."""
    if not raw.startswith(ZIPPED):
        return raw
    try:
        return zlib.decompressobj(wbits=47).decompress(raw, MAX_UNPACKED_BYTES)
    except zlib.error:
        return raw


#: What begins a blob that is public by nature: an X.509 structure, or an SSH public key.
_PUBLIC_BLOB = (b"\x00\x00\x00\x07ssh-rsa", b"\x00\x00\x00\x0bssh-ed25519", b"\x00\x00\x00\x13ecdsa-")


def is_opaque(blob: str) -> bool:
    """Whether a base64 run that does not decode to text is long and varied enough to carry a document.

    Certificates and public keys are told by their structure. The bound of 256 characters keeps hashes,
    integrity strings and signatures out.
    """
    if len(blob) < 256 or len(set(blob)) < 24:
        return False
    lines = blob.split()
    if any(len(line) < 40 or len(line) != len(lines[0]) for line in lines[:-1]):
        return False  # a list of names, not a broken blob
    raw = _base64_bytes(blob)
    return not _is_der(raw) and not raw.startswith(_PUBLIC_BLOB)


def _is_der(raw: bytes) -> bool:
    return raw[:2] == b"\x30\x82" and int.from_bytes(raw[2:4], "big") + 4 == len(raw)


#: Digits of a hexadecimal run from which on it can carry a document.
_HEX_BOUND = 512


def is_opaque_hex(blob: str) -> bool:
    """Whether a hexadecimal run that is no text is long and varied enough to carry a document."""
    digits = "".join(pair[-2:] for pair in _PAIR.findall(blob)) if not blob.isalnum() else blob
    if len(digits) < _HEX_BOUND:
        return False
    raw = bytes.fromhex(digits)
    return len(set(raw)) >= 24 and not _is_der(raw)
