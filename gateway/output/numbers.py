"""Numbers and short names in an answer: which of them no identifier can be, and which wait for words behind.

Everything here is asked of the text to the left (`LEFT` characters of it at most) and of held text.
"""

from __future__ import annotations

import re

from gateway.output.shapes import LEFT, NAMING, NEAR, tells

_NUMBER = re.compile(r"\d+(?:[.,:/\-\u2013]\d+){0,2}[ \n.,:%()/+\-\u2013\u00b0]*", re.ASCII)
# What a bare number stands behind; anything else may make it the end of a password or a code.
_BEFORE_NUMBER = frozenset(("", *" \t\n([{\"'`*|>,$\u00a3\u20ac~"))
_SIX_DIGITS = re.compile(r"\d(?:\D{0,3}\d){5}")
_NAME = re.compile(r"[A-Za-z_]*[0-9]{0,2}")
_FRACTION = re.compile(r"-?\d{1,6}\.\d+", re.ASCII)
_FLOAT = re.compile(r"-?\d{1,2}\.\d{13,17}", re.ASCII)
_NINE_DIGITS = re.compile(r"\d(?:\D{0,3}\d){8,}")
# Capitals and digits mixed, as many national numbers are, and vehicle numbers in either case.
_LETTERED = re.compile(
    r"(?<![A-Za-z0-9])(?=[0-9]*[A-Z])(?:(?=(?:[A-Z]*[0-9]){4})[A-Z0-9]{7,18}|[A-Za-z0-9]{17})(?![A-Za-z0-9])"
)
_INSIDE_NUMBER = re.compile(r"(?<=[A-Z0-9])[ .\-](?=[A-Z0-9])")
# Words beside a code of few digits, in the languages of the detectors.
_CODES = (
    "code", "pin", "combina", "kod", "clave", "codi", "c\u00f3di", "senha", "passwor", "geheimzahl",
    "mfa", "otp",
)  # fmt: skip
#: Characters behind a long number in which words may say what it is. Detectors look at 32.
RIGHT = 40


def is_small_number(left: str, held: str) -> bool:
    """Whether the held text is a bare number that no identifier can be.

    It has fewer than six digits, those nearby included, and no word for a code before it, or is a fraction as
    floating point prints it.
    """
    if left[-1:] not in _BEFORE_NUMBER or tells(left[-LEFT:], _CODES):
        return False
    if _FLOAT.fullmatch(held) is not None:
        return _SIX_DIGITS.search(left[-8:]) is None
    return _NUMBER.fullmatch(held) is not None and _SIX_DIGITS.search(left[-NEAR:] + held) is None


def is_short_name(left: str, before: int, held: str) -> bool:
    """Whether the token is a short name of code (`max_tokens`, `name_5`) and no word for a secret is near."""
    if before + len(held) > 14 or _NAME.fullmatch(held) is None:
        return False
    if (
        _NAME.fullmatch(left, len(left) - before) is None
        or _SIX_DIGITS.search(left[-NEAR:] + held) is not None
    ):
        return False
    return not tells(left[-LEFT:], NAMING)


def may_be_named_later(left: str, held: str) -> bool:
    """Whether the held text ends a number that words behind may make an identifier.

    It has nine digits or more, or capitals and digits mixed.
    """
    if _FRACTION.fullmatch(held) is not None:
        return False
    near = left[-NEAR:]
    if any(match.end() > len(near) for match in _NINE_DIGITS.finditer(near + held)):
        return True
    run = _INSIDE_NUMBER.sub("", near + held) if held[-1:].isalnum() or ")" in held else ""
    return any(match.end() > len(run) - len(held) for match in _LETTERED.finditer(run))


_DIGIT = re.compile(r"\d")
_NUMBERS = re.compile(r"\d(?:[^A-Za-z0-9]{0,3}\d){4,}")


def without_digits(text: str, kept: int) -> str:
    """`text` with its digits blotted out, but for the last `kept` characters."""
    end = len(text) - kept
    return _DIGIT.sub("~", text[:end]) + text[end:] if end > 0 else text


def without_numbers(text: str, kept: int) -> str:
    """`text` with its numbers of five digits or more blotted out, but for the last `kept` characters.

    Words around a number say what it is; the numbers among them were decided when they came, or will be.
    To examine them again with each neighbour made a list of numbers eight times as dear. Short ones stay: an
    address has them far apart.
    """
    end = len(text) - kept
    if end <= 0:
        return text
    return _NUMBERS.sub(lambda match: _DIGIT.sub("~", match[0]), text[:end]) + text[end:]
