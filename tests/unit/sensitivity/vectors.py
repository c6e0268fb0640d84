"""Vectors made here: numbers with right check digits, built with python-stdnum's own functions."""

from __future__ import annotations

import random
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from stdnum import luhn
from stdnum.gb import nhs
from stdnum.iso7064 import mod_97_10

from gateway.sensitivity.examples import is_documented

#: Ordinary text of several kinds in which nothing is to be found.
BENIGN = (
    "Could you explain how compound interest works with an example?",
    "Commit dd703db3280e59f722493741e69ec5cf4f96cdc3 breaks the build on Windows.",
    "Reference 08ead908-dc5c-4d5d-a063-396f23e06356 still shows as pending.",
    "I am looking for ISBN 9783280528594 in large print.",
    "1733000000 and 1733086400 are a day apart, correct?",
    "[agent] read_file config.yaml -> password: ${DB_PASSWORD}",
    "password = request.form['password'] and token = get_token()",
    "Part 7731-4402-118 fits the 2019 model; version 3.11.9 came on 2024-01-15 10:30:07.",
    "Der Zug fährt über die Brücke, während es regnet.",
    "会议通知：周四下午讨论内部工具升级。",
    "Привет, как дела? Встреча в 10:30.",
    "see docs/reference/getting-started/configuration-options.html#section-2",
    "git clone git@github.com:org/repo.git && pip install package==1.2.3",
    "The field labels are Name, SSN, Date of birth.",
    "<svg viewBox='0 0 120.5 80.25'><path d='M10 80 L 95 10'/></svg>",
)


def card(prefix: str, length: int, seed: int) -> str:
    """Card number with this prefix and length and a right check digit, not one of documentation."""
    source = random.Random(f"{prefix}-{length}-{seed}")
    while True:
        body = prefix + "".join(source.choices("0123456789", k=length - len(prefix) - 1))
        number: str = body + luhn.calc_check_digit(body)
        if not is_documented("payment-card", number):
            return number


def iban(country: str, bban: str) -> str:
    """IBAN with right check digits."""
    return f"{country}{mod_97_10.calc_check_digits(bban + country)}{bban}"


def nhs_number(seed: int) -> str:
    """NHS number with a right check digit."""
    source = random.Random(seed)
    while True:
        body = "4" + "".join(source.choices("0123456789", k=8))
        for check in "0123456789":
            if nhs.is_valid(body + check):
                return body + check


def ssn(seed: int) -> str:
    """US social security number that could have been issued, written 3-2-4."""
    source = random.Random(seed)
    area = source.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03d}-{source.randint(1, 99):02d}-{source.randint(1, 9999):04d}"


def token(length: int, seed: int, alphabet: str = "") -> str:
    """Random-looking token part that holds digits and letters."""
    source = random.Random(seed)
    letters = alphabet or "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    return "".join(source.choices(letters, k=length - 4)) + ("7a3f" if not alphabet else "4d7a")


HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def from_form(expression: bytes, seed: int) -> str:
    """A random text of this form: repeats as short as allowed, at least 8 where that is open."""
    source = random.Random(seed)
    return "".join(_drawn(item, source) for item in parser.parse(expression.decode("latin-1")))


def _drawn(item: tuple[Any, Any], source: random.Random) -> str:
    kind, value = str(item[0]), item[1]
    if kind == "LITERAL":
        return chr(value)
    if kind == "IN" and str(value[0][0]) == "NEGATE":
        return "x"
    if kind == "IN":
        return chr(source.choice([code for part in value for code in _codes(part)]))
    if kind == "MAX_REPEAT":
        least, most, body = value
        count = least if least or int(most) < 100 else 8
        return "".join(_drawn(each, source) for _ in range(count) for each in body)
    if kind == "SUBPATTERN":
        return "".join(_drawn(each, source) for each in value[-1])
    if kind == "BRANCH":
        return "".join(_drawn(each, source) for each in source.choice(value[1]))
    if kind == "NOT_LITERAL":
        return "x"
    assert kind == "AT", kind
    return ""


def _codes(part: tuple[Any, Any]) -> list[int]:
    kind, value = str(part[0]), part[1]
    if kind == "LITERAL":
        return [value]
    if kind == "RANGE":
        return list(range(value[0], value[1] + 1))
    raise AssertionError(kind)
