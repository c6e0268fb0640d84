"""Digits set apart by unusual signs, and written backwards.

Invariants
1. A view of this module has the digits of the text, nothing added.
2. Backwards is read only where a word or a direction mark says so.
"""

from __future__ import annotations

import re

import re2

from gateway.sensitivity.views import View, replaced
from gateway.sensitivity.work import Work

#: Single digits with signs between any two, or groups of them.
TRIGGER = (
    rb"[0-9](?:[^0-9A-Za-z]{1,3}[0-9]){8,}|[0-9A-Za-z](?:[ ._-][0-9A-Za-z]){8,}|[0-9]{4}(?:[^0-9A-Za-z]{1,3}[0-9]{4}){3}"
    rb"|[0-9]{3}[^0-9A-Za-z]{1,3}[0-9]{2,3}[^0-9A-Za-z]{1,3}[0-9]{3,4}"
)
_SINGLE = re2.compile(
    rb"[0-9](?:[^0-9A-Za-z]{1,3}[0-9]){8,}|[0-9A-Za-z](?:[ ._-][0-9A-Za-z]){8,}"
)
_GROUPS = re2.compile(rb"[0-9]{2,6}(?:[^0-9A-Za-z]{1,3}[0-9]{2,6}){1,6}")
_USUAL = re.compile(rb"[ \t\r\n._/-]{1,3}|[,;] |[:T]|\. ")
_NO_SIGNS = re.compile(r"[^0-9A-Za-z]+")
_BETWEEN = re.compile(rb"[^0-9]+")


def joined(view: View, work: Work) -> View | None:
    """The view with single digits joined, and groups set apart by unusual signs set apart by a hyphen."""
    text, data = view.text, view.data
    pieces: list[tuple[int, int, str]] = []
    for match in _SINGLE.finditer(data):
        work.spend(2)
        start, end = match.span()
        if not data[max(0, start - 1) : start].isalnum() and not data[end : end + 1].isalnum():
            pieces.append((start, end, _NO_SIGNS.sub("", text[start:end])))
    for match in _GROUPS.finditer(data):
        work.spend(1)
        start, end = match.span()
        if all(map(_USUAL.fullmatch, _BETWEEN.findall(match.group()))):
            continue
        if not data[max(0, start - 1) : start].isdigit() and not data[end : end + 1].isdigit():
            pieces.append((start, end, re.sub(r"[^0-9]+", "-", text[start:end])))
    pieces.sort()
    kept: list[tuple[int, int, str]] = []
    for piece in pieces:
        if not kept or piece[0] >= kept[-1][1]:
            kept.append(piece)
    return replaced(view, "joined", kept) if kept else None


#: Words that say that something is to be read backwards, in the languages of the product.
REVERSE_TRIGGER = (
    rb"(?i)\b(?:reverse[ds]?|reversing|reverse[- ]order|backwards?|back to front|right[- ]to[- ]left"
    rb"|ruckwarts|rueckwarts|umgekehrt(?:e[rn]?)?|von hinten|spiegelverkehrt|rtl|mirrored"
    rb"|a l'?envers|inverse[es]?|invers|al reves|invertid[oa]s?|hacia atras|al contrario|contrario|rovescio"
    rb"|invertit[oaie]|ao contrario|de tras para (?:a )?frente|achterstevoren|omgekeerd|baklanges"
    rb"|od tylu|wspak)\b"
)
_RUN = re.compile(r"[0-9](?:[ ._/-]{0,3}[0-9]){6,}")
_LONG_WORD = re.compile(r"[^\s\"'<>()\[\]{},;]{6,}")
_LETTERED_RUN = re.compile(r"[0-9A-Za-z](?: ?[0-9A-Za-z]){11,}")


def reversed_runs(view: View, _work: Work) -> View | None:
    """The view with every run of digits backwards."""
    pieces = [(*match.span(), match[0][::-1]) for match in _RUN.finditer(view.text)]
    return replaced(view, "reversed", pieces) if pieces else None


def reversed_words(view: View, _work: Work) -> View | None:
    """The view with every long word backwards, and every run of letters and digits in groups."""
    text = view.text
    pieces = [
        (*match.span(), match[0][::-1])
        for match in _LONG_WORD.finditer(text)
        if any(map(str.isdigit, match[0])) or "@" in match[0] or "_" in match[0]
    ]
    if not pieces:
        pieces = [
            (*match.span(), match[0][::-1])
            for match in _LETTERED_RUN.finditer(text)
            if sum(map(str.isdigit, match[0])) > 8
        ]
    return replaced(view, "reversed", pieces) if pieces else None
