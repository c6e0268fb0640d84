"""Numbers and keys disguised by hand: letters for digits, Roman numerals, markup between digits, ROT13.

Invariants
1. A view of this module changes only the disguised stretch; everything else stands as it was.
2. Letters are read as digits only where most of the signs are digits already.
"""

from __future__ import annotations

import codecs
import re

import re2

from gateway.sensitivity.views import View, canonical, replaced
from gateway.sensitivity.work import Work

# --- Letters for digits --------------------------------------------------------------------------------

_LEET_SIGN = r"[0-9OoIlSsBZE|]"
LEET_TRIGGER = rb"[0-9][ -]?[OoIlSsBZE|]{1,3}[ -]?[0-9]"
_LEET = re2.compile(rf"\b{_LEET_SIGN}(?:[ -]?{_LEET_SIGN}){{8,20}}\b".encode())
_LEET_DIGITS = str.maketrans("OoIlSsBZE|", "0011558231")


def with_digits(view: View, work: Work) -> View | None:
    """The view with letters that look like digits as digits, in numbers: `4S39 466O` is 4539 4660."""
    pieces: list[tuple[int, int, str]] = []
    for match in _LEET.finditer(view.data):
        work.spend(1)
        start, end = match.span()
        run = view.text[start:end]
        digits, letters = sum(map(str.isdigit, run)), len(re.findall("[A-Za-z|]", run))
        is_free = (
            not view.data[max(0, start - 1) : start].isalnum() and not view.data[end : end + 1].isalnum()
        )
        if letters and digits >= 6 and digits >= 2 * letters - 1 and is_free:
            pieces.append((start, end, run.translate(_LEET_DIGITS)))
    return replaced(view, "leet", pieces) if pieces else None


# --- Roman numerals ------------------------------------------------------------------------------------

_ROMAN_NUMBER = r"(?:I{1,3}|I?V|VI{1,3}|IX|[N0O])"
ROMAN_TRIGGER = rf"\b{_ROMAN_NUMBER}(?:[ ,.;-]{{1,2}}{_ROMAN_NUMBER}){{8,}}\b".encode()
_ROMAN = re2.compile(ROMAN_TRIGGER)
_ROMAN_DIGITS = {
    name: str(digit) for digit, name in enumerate("I II III IV V VI VII VIII IX".split(), 1)  # noqa: SIM905
}  # fmt: skip
_ROMAN_SIGNS = {0x2160 + digit: str(digit + 1) for digit in range(9)}
_ROMAN_SIGNS |= {0x2170 + digit: str(digit + 1) for digit in range(9)}
_ROMAN_SIGN_ROW = re.compile("[0-9\u2160-\u2168\u2170-\u2178](?:[ ,.-]?[0-9\u2160-\u2168\u2170-\u2178]){6,}")


def from_roman(view: View, work: Work) -> View | None:
    """The view with rows of Roman numerals from I to IX as digits."""
    pieces: list[tuple[int, int, str]] = []
    for match in _ROMAN.finditer(view.data):
        work.spend(2)
        names = re.findall("[IVX]+|[N0O]", view.text[slice(*match.span())])
        pieces.append((*match.span(), "".join(_ROMAN_DIGITS.get(name, "0") for name in names)))
    return replaced(view, "roman", pieces) if pieces else None


def roman_signs(text: str) -> View | None:
    """The text with rows of the signs Ⅰ to Ⅸ as digits, which take apart would run into one another."""
    pieces = [
        (*match.span(), match[0].translate(_ROMAN_SIGNS))
        for match in _ROMAN_SIGN_ROW.finditer(text)
        if not match[0].isascii()
    ]
    if not pieces:
        return None
    inner = replaced(View(text, "plain", None), "roman", pieces)
    return canonical(inner.text, "roman", inner)


# --- Markup, string sums and soft breaks between characters --------------------------------------------

SPLIT_TRIGGER = (
    rb"[0-9](?:</?[a-zA-Z][^<>]{0,40}>){1,4}[0-9]|[0-9A-Za-z][\"'][ ]{0,2}[+.&]{1,2}[ ]{0,2}[\"'][0-9A-Za-z]"
    rb"|[0-9A-Za-z]=\r?\n[0-9A-Za-z]|(?:=3[0-9][0-9]{0,3}){4}"
)
_SPLIT = re.compile(
    r"(?<=[0-9])(?:</?[a-zA-Z][^<>]{0,40}>){1,4}(?=[0-9])"
    r"|(?<=[0-9A-Za-z])(?:[\"'] {0,2}[+.&]{1,2} {0,2}[\"']|=\r?\n)(?=[0-9A-Za-z])"
    r"|(?:=3[0-9][0-9]{0,3}){4,}"
)
_QUOTED_DIGIT = re.compile("=3([0-9])")


def unsplit(view: View, work: Work) -> View | None:
    """The view without what only splits: tags between digits, sums of strings, soft line breaks."""
    pieces: list[tuple[int, int, str]] = []
    for match in _SPLIT.finditer(view.text):
        work.spend(1)
        is_quoted = match[0].startswith("=3")
        pieces.append((*match.span(), _QUOTED_DIGIT.sub(r"\1", match[0]) if is_quoted else ""))
    return replaced(view, "unsplit", pieces) if pieces else None


# --- ROT13 ---------------------------------------------------------------------------------------------

#: Words that name or begin a secret or an identifier, written in ROT13; in no language are they words.
ROT13_TRIGGER = (
    rb"(?i)\b(?:cnffjbeqf?|cnffjbeg|cnffcuenfr|frpergf?|gbxraf?|ncv[ _-]?xrlf?|cevingr[ _-]?xrl"
    rb"|npprff[ _-]?xrl|perqragvnyf?"
    rb"|perqvg pneq|pneq ahzore|onax nppbhag|nppbhag ahzore|fbpvny frphevgl|cnffcbeg|xraajbeg"
    rb"|zbg qr cnffr|pbagenfran|jnpugjbbeq)\b|\btu[bcehf]_[0-9A-Za-z]{20}|\bNXVN[0-9A-Z]"
    rb"|\bfx_yvir_|\bkbk[bcnef]-|\btvguho_cng_"
)


def unrotated(view: View, _work: Work) -> View | None:
    """The view with every letter turned by thirteen places."""
    return View(codecs.encode(view.text, "rot13"), "rot13", view.origin)
