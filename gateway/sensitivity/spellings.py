"""Numbers and keys with wide gaps, as floats, or with blanks that nobody sees, read as they are meant.

Bounded: a gap of more than 40 blanks ends a number; an exponent has two digits at most.
"""

from __future__ import annotations

import re
from decimal import Decimal

from gateway.sensitivity.views import View, canonical, replaced
from gateway.sensitivity.work import Work

#: Patterns (RE2 syntax) that say where there is something to read.
GAP_TRIGGER = rb"[0-9][ \t]{4,}[0-9]"
FLOAT_TRIGGER = rb"\b[0-9][0-9.]{8,}[eE][+-]?[0-9]{1,2}\b"
_GAP = re.compile(r"(?<=[0-9])[ \t]{4,40}(?=[0-9])")
_FLOAT = re.compile(r"(?<![\w.])(?=[0-9.]{9,40}[eE])[0-9]+(?:\.[0-9]*)?[eE][+-]?[0-9]{1,2}(?![\w.])")
#: Blanks of other scripts that most fonts draw as nothing, or as a blank in the middle of a word.
_UNSEEN_BLANKS = re.compile("[\u115f\u1160\u180e\u2800\u3164\uffa0]")


def narrowed(view: View, work: Work) -> View | None:
    """The view with one blank for each wide gap between two digits; None when there is no such gap."""
    return _with(view, work, "narrowed", [(*match.span(), " ") for match in _GAP.finditer(view.text)])


def written_out(view: View, work: Work) -> View | None:
    """The view with floats written out: `4.539578763621486e15` is 4539578763621486. None without floats."""
    pieces = [(*match.span(), format(Decimal(match[0]), "f")) for match in _FLOAT.finditer(view.text)]
    return _with(view, work, "written-out", pieces)


def _with(view: View, work: Work, step: str, pieces: list[tuple[int, int, str]]) -> View | None:
    if not pieces:
        return None
    work.spend(1 + (len(pieces) >> 1))
    return replaced(view, step, pieces)


def without_unseen_blanks(text: str) -> View | None:
    """The text without the blanks that nobody sees, or None when it has none."""
    pieces = [(*match.span(), "") for match in _UNSEEN_BLANKS.finditer(text)]
    if not pieces:
        return None
    inner = replaced(View(text, "plain", None), "unseen-blanks", pieces)
    return canonical(inner.text, "unseen-blanks", inner)
