"""Digits set apart by unusual signs, and written backwards.

Invariants
1. A view of this module has the digits of the text, nothing added.
2. Backwards is read only where a word or a direction mark says so.
"""

from __future__ import annotations

import re

import re2

from gateway.sensitivity.views import View, canonical, replaced
from gateway.sensitivity.work import Work

#: Signs between groups, one of which no number is usually written with.
_UNUSUAL = rb"[^0-9A-Za-z]{0,3}(?:[^0-9A-Za-z \t\r\n._/:-]|::)[^0-9A-Za-z]{0,3}"
#: Single digits with signs between any two, or groups of them.
TRIGGER = (
    rb"\b[0-9A-Za-z](?:[^0-9A-Za-z]{1,4}[0-9A-Za-z]){8,}\b"
    rb"|[0-9]{2,6}" + _UNUSUAL + rb"[0-9]{2,6}[^0-9A-Za-z]{1,4}[0-9]{1,6}"
    rb"|[A-Za-z]{2}[0-9]{2}(?:[^0-9A-Za-z]{1,4}[0-9A-Za-z]{4}){3}"
)
_SINGLE = re2.compile(
    rb"\b[0-9](?:[^0-9A-Za-z]{1,4}[0-9]){8,}\b|\b[0-9A-Za-z](?:[^0-9A-Za-z]{1,2}[0-9A-Za-z]){8,}\b"
    rb"|[A-Za-z]{2}[0-9]{2}(?:[^0-9A-Za-z]{1,4}[0-9A-Za-z]{4}){3,}(?:[^0-9A-Za-z]{1,4}[0-9A-Za-z]{1,3})?"
)
_GROUPS = re2.compile(rb"[0-9]{2,6}" + _UNUSUAL + rb"[0-9]{2,6}(?:[^0-9A-Za-z]{1,4}[0-9]{1,6}){1,6}")
_USUAL = re.compile(rb"[ \t\r\n._/-]{1,3}|[,;] |[:T]|\. ")
_NO_SIGNS = re.compile(r"[^0-9A-Za-z]+")
_LONE_LETTER = re.compile(r"[A-Za-z][^0-9A-Za-z]+(?=[0-9])")
_BETWEEN = re.compile(rb"[^0-9]+")


def joined(view: View, work: Work) -> View | None:
    """The view with single digits joined, and groups set apart by unusual signs set apart by a hyphen."""
    text, data = view.text, view.data
    pieces: list[tuple[int, int, str]] = []
    for match in _SINGLE.finditer(data):
        work.spend(2)
        start, end = match.span()
        if not data[max(0, start - 1) : start].isalnum() and not data[end : end + 1].isalnum():
            lone = _LONE_LETTER.match(text, start, end)
            start = start if lone is None else lone.end()  # a word of the sentence: "a 6,0,1,1"
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
    rb"|od tylu|wspak"
    # Words that name a number or a secret, themselves written backwards, and a reversed IBAN.
    rb"|drac|nss|drowssap|terces|nekot|nabi|tropssap|tnuocca|yek[ _-]?ipa|trowssap|etrak|rebmun|remmunotnok"
    rb"|[0-9]{14,30}(?:ED|SE|TI|LN|RF|EB|TA|TP|LP|IF|KD))\b"
)
_RUN = re.compile(r"[0-9](?:[ ._/-]{0,3}[0-9]){6,}")
_LONG_WORD = re.compile(r"[^\s\"'<>()\[\]{},;]{6,}")
_LETTERED_RUN = re.compile(r"[0-9A-Za-z](?: ?[0-9A-Za-z]){11,}")


_SAYS_REVERSED = re2.compile(REVERSE_TRIGGER)
#: Characters around such a word in which it counts.
_REACH = 200


def _reversed_stretches(view: View, work: Work) -> list[tuple[int, int]]:
    """Stretches around words that say backwards, joined where they meet."""
    stretches: list[tuple[int, int]] = []
    for match in _SAYS_REVERSED.finditer(view.data):
        work.spend(2)
        start, end = max(0, match.start() - _REACH), match.end() + _REACH
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], end)
        else:
            stretches.append((start, end))
    return stretches


def reversed_runs(view: View, work: Work) -> View | None:
    """The view with every run of digits backwards, without what stood between them."""
    pieces = [
        (*match.span(), _NO_SIGNS.sub("", match[0])[::-1])
        for start, end in _reversed_stretches(view, work)
        for match in _RUN.finditer(view.text, start, end)
    ]
    return replaced(view, "reversed", pieces) if pieces else None


def reversed_words(view: View, work: Work) -> View | None:
    """The view with every long word backwards, or every run of letters and digits in groups."""
    stretches = _reversed_stretches(view, work)
    pieces = [
        (*match.span(), match[0][::-1])
        for start, end in stretches
        for match in _LONG_WORD.finditer(view.text, start, end)
        if any(map(str.isdigit, match[0])) or "@" in match[0] or "_" in match[0]
    ]
    if not pieces:
        pieces = [
            (*match.span(), match[0][::-1])
            for start, end in stretches
            for match in _LETTERED_RUN.finditer(view.text, start, end)
            if sum(map(str.isdigit, match[0])) > 8
        ]
    return replaced(view, "reversed", pieces) if pieces else None


_OVERRIDDEN = re.compile("\u202e([^\u202c\n]+)\u202c?")


def overridden(text: str) -> View | None:
    """The text with what stands behind a right-to-left override as people see it, or None without one."""
    pieces = [(*match.span(), match[1][::-1]) for match in _OVERRIDDEN.finditer(text)]
    if not pieces:
        return None
    inner = replaced(View(text, "overridden", None), "overridden", pieces)
    return canonical(inner.text, "overridden", inner)
