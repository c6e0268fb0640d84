"""What the detectors find does not leave whole, whatever its kind, and wherever the text is cut off.

A detector may need the character behind a value (a closing quote, the host of a URL) or words behind it.
"""

from __future__ import annotations

from functools import cache

import pytest

from gateway.domain.label import Level
from gateway.domain.stream import Channel
from gateway.sensitivity import national, secrets, tokens
from gateway.sensitivity.detectors import build_detectors
from tests.fakes.output_finder import released
from tests.unit.sensitivity import test_sensitivity_national as numbers
from tests.unit.sensitivity import test_sensitivity_secrets as keys
from tests.unit.sensitivity.vectors import card, from_form, iban, nhs_number, ssn

_DETECTORS = build_detectors()

HEX_KEYS = (
    "b7a9a78e49ebdbec9c59ce5dfd92dbbee44c550a",
    "461faed0b9bdfe1b2cf4c3f611aaebe8a8ea9f8b",
    "11111a1e49ebdbec9c59ce5dfd92dbbee44c5501",
)
OTHERS = {
    "card": f"card {card('4', 16, 1)} ok",
    "card-alone": card("5", 16, 2),
    "iban": f"pay {iban('DE', '370400440532013000')}, now",
    "nhs": f"NHS number {nhs_number(1)}.",
    "ssn": f"SSN {ssn(1)}",
    "email": "write to kim.doe@bytecore.com!",
    "phone": "call +44 20 7946 0958 today",
    "health-record": "MRN 00482913 and",
    "policy-number": "policy number AB-123456, please",
    "mac-address": "at 00:1B:44:11:3A:B7 now",
    "birth": "born on 12/03/1985 in",
    "passport": "passport number C01X00T47.",
    "account": "bank account 12345678901 at",
    "address": "to 221 Baker Street, London NW1 6XE",
    "mbi-named-behind": "1EG4TE5MK73 is my MBI",
    "dea-named-behind": "BB1388568 is the DEA number",
    "code": "The door code is 4711.",
    "pin": "PIN: 4711",
    "pair": "kim58@bytecore.com and W!nter2024 so",
    "pair-of-words": "kim@bytecore.com / KnightRider!",
    "quoted": 'login with password "KnightRider!" was',
    "quoted-words": "password 'Rock&Roll!' ok",
    "camel": "the login is admin and then KnightRider! again",
    "url-bracket": "postgres://u:S3cr(tPw9x)@db.corp.io/x",
    "url-comma": "postgres://u:S3cr,tPw,9x@db.corp.io/x",
    "basic": 'curl -H "Authorization: Basic dXNlcjpwYXNzMTIzNDU2" x',
}


def _named_behind(kind: str) -> list[str]:
    number, sentence = numbers.ROWS[kind]
    words = sentence.replace("{}", "").strip(" .:,")
    return [f"{number} is my {words}", f"Take {number}, the {words} of her"]


@cache
def _samples() -> dict[str, tuple[str, ...]]:
    """Texts with a finding, by the kind that they were made for."""
    made: dict[str, list[str]] = {name: [text] for name, text in OTHERS.items()}
    for kind, value in keys.KEYS.items():
        made.setdefault(kind, []).extend([f'CI uses "{value}" today', f"use {value} now"])
    for kind, template, value in keys.IN_CONTEXT:
        made.setdefault(kind, []).append(template.format(value))
    for kind, (number, sentence) in numbers.ROWS.items():
        made.setdefault(kind, []).extend([sentence.format(number), *_named_behind(kind)])
    for kind, form, _ in tokens.PREFIXES:
        made.setdefault(kind, []).append(f"the value {from_form(form, 5)} was printed")
    for kind, names, expression in tokens.NAMED:
        value, name = from_form(expression.encode(), 6), names.split("|")[0]
        made.setdefault(kind, []).extend([f'{name}_KEY="{value}"', f"{name} = {value}"])
    made["private_key_id"] = [f'x "private_key_id": "{value}"' for value in HEX_KEYS]
    return {kind: tuple(texts) for kind, texts in made.items()}


def _leaks(text: str) -> list[tuple[str, str]]:
    """(kind, text) of what leaves whole: of the text, and of the text cut off where a finding ends."""
    spans = {
        (finding.kind, finding.start, finding.end)
        for finding in _DETECTORS.find(text)
        if finding.label.level >= Level.CONFIDENTIAL
    }
    leaks = []
    for kind, start, end in spans:
        for shown in (text, text[:end]) if len(text[start:end]) > 3 else ():
            for parts in ([shown], list(shown)):
                if text[start:end] in released(parts, finder=_DETECTORS.find)[0]:
                    leaks.append((kind, shown))
    return leaks


@pytest.mark.parametrize("kind", sorted(_samples()))
def test_no_finding_leaves_whole_where_the_text_is_cut_off_at_its_end(kind: str) -> None:
    for text in _samples()[kind]:
        leaks = _leaks(text)
        # A number that only words behind it name is nothing yet where the text ends before them.
        named = [shown for _, shown in leaks if shown != text and not _DETECTORS.find(shown)]
        if "named-behind" in kind or text in (_named_behind(kind) if kind in numbers.ROWS else ()):
            leaks = [leak for leak in leaks if leak[1] not in named]
        assert leaks == []


def test_every_kind_of_secret_and_national_number_was_tried() -> None:
    rules = (*secrets.RULES, *tokens.RULES, *national.RULES)
    assert {rule.kind for rule in rules} <= {
        finding.kind for texts in _samples().values() for text in texts for finding in _DETECTORS.find(text)
    } | {"private-key"} | set(_samples())


@pytest.mark.parametrize("value", HEX_KEYS)
def test_key_id_whose_closing_quote_never_comes_is_masked_in_tool_arguments(value: str) -> None:
    for text in (f'{{"t": "\\"private_key_id\\": \\"{value}', f'{{"private_key_id": "{value}'):
        assert value not in released([text], channel=Channel.TOOL_ARGUMENTS, finder=_DETECTORS.find)[0]
