"""Digits set apart by unusual signs, and written backwards.

Invariants
1. A view of this module has the digits of the text, nothing added.
2. Backwards is read only where a word or a direction mark says so.
"""

from __future__ import annotations

import re

from gateway.sensitivity.views import View, replaced

#: Thirteen and more single digits with signs between any two, or four groups of four.
TRIGGER = (
    rb"[0-9](?:[^0-9A-Za-z]{1,3}[0-9]){8,}|[0-9]{4}(?:[^0-9A-Za-z]{1,3}[0-9]{4}){3}"
    rb"|[0-9]{3}[^0-9A-Za-z]{1,3}[0-9]{2,3}[^0-9A-Za-z]{1,3}[0-9]{3,4}"
)
_SINGLE = re.compile(r"(?<![0-9A-Za-z])[0-9](?:[^0-9A-Za-z]{1,3}[0-9]){8,}(?![0-9])")
_GROUPS = re.compile(r"(?<![0-9])[0-9]{2,6}(?:[^0-9A-Za-z]{1,3}[0-9]{2,6}){1,6}(?![0-9])")
_USUAL = re.compile(r"[ \t\r\n._/-]{1,3}|[,;] ")


def joined(view: View) -> View | None:
    """The view with single digits joined, and groups set apart by unusual signs set apart by a hyphen."""
    text = view.text
    pieces: list[tuple[int, int, str]] = []
    for match in _SINGLE.finditer(text):
        pieces.append((*match.span(), re.sub(r"[^0-9]+", "", match[0])))
    taken = {place for start, end, _ in pieces for place in (start, end - 1)}
    for match in _GROUPS.finditer(text):
        signs = set(re.findall(r"[^0-9]+", match[0]))
        if match.start() in taken or match.end() - 1 in taken or all(map(_USUAL.fullmatch, signs)):
            continue
        pieces.append((*match.span(), re.sub(r"[^0-9]+", "-", match[0])))
    if not pieces:
        return None
    pieces.sort()
    kept, behind = [], 0
    for piece in pieces:
        if piece[0] >= behind:
            kept.append(piece)
            behind = piece[1]
    return replaced(view, "joined", kept)


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


def reversed_runs(view: View) -> View | None:
    """The view with every run of digits backwards."""
    pieces = [(*match.span(), match[0][::-1]) for match in _RUN.finditer(view.text)]
    return replaced(view, "reversed", pieces) if pieces else None


def reversed_words(view: View) -> View | None:
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
