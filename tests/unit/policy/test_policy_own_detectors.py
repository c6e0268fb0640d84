"""detectors.yaml: own patterns and dictionaries, and what is refused with its line."""

from __future__ import annotations

import pytest

from gateway.domain.custom import CustomDetectors
from gateway.domain.label import Level, Tag
from gateway.errors import ConfigurationError
from gateway.policy.document import parse
from gateway.policy.fields import Field
from gateway.policy.own_detectors import read_detectors, unsafe

FILE = "detectors.yaml"
HEAD = 'version: "1"\nbase_level: internal\n'


def _read(text: str, **files: str) -> tuple[Level, CustomDetectors]:
    dictionaries = {f"dictionaries/{name}.txt": content for name, content in files.items()}
    return read_detectors(Field(FILE, "", parse(HEAD + text, FILE)).section(), dictionaries)


def test_reads_patterns_with_tags_words_and_thresholds() -> None:
    text = (
        "patterns:\n  - name: client-number\n    level: confidential\n    tags: [fin, pii]\n"
        "    pattern: 'KD-[0-9]{6}'\n    near: [Kunde]\n    at_least: 2\n"
    )
    level, own = _read(text)
    (pattern,) = own.patterns
    assert level is Level.INTERNAL
    assert (pattern.name, pattern.pattern, pattern.near, pattern.at_least) == (
        "client-number", "KD-[0-9]{6}", ("Kunde",), 2,
    )  # fmt: skip
    assert (pattern.label.level, pattern.label.tags) == (Level.CONFIDENTIAL, frozenset({Tag.FIN, Tag.PII}))
    assert pattern.where == f"{FILE}:4:11"


def test_reads_terms_from_the_file_and_from_a_dictionary() -> None:
    listed = "dictionaries:\n  - {name: a, level: restricted, terms: [Falcon, Eagle]}\n"
    (dictionary,) = _read(listed)[1].dictionaries
    assert dictionary.terms == ("Falcon", "Eagle")
    filed = "dictionaries:\n  - {name: a, level: restricted, file: projects.txt}\n"
    (dictionary,) = _read(filed, projects="# names\nFalcon\n\n Blue Eagle \n")[1].dictionaries
    assert dictionary.terms == ("Falcon", "Blue Eagle")


def test_the_digest_covers_the_terms_of_files() -> None:
    filed = "dictionaries:\n  - {name: a, level: restricted, file: projects.txt}\n"
    assert _read(filed, projects="one\n")[1].sha256 != _read(filed, projects="two\n")[1].sha256


def test_nothing_is_needed_but_version_and_base_level() -> None:
    assert _read("")[1] == CustomDetectors(sha256=_read("")[1].sha256)


#: NEG 25: patterns that are refused when they are loaded.
UNSAFE = {
    "(a+)+\\1": "no RE2 expression",
    "(?=a)b": "no RE2 expression",
    "(?<!a)b": "no RE2 expression",
    "(a|b": "no RE2 expression",
    "a*": "matches nothing",
    "\\s?": "matches nothing",
    ".*secret": "any number of any character",
    "[^x]+y": "any number of any character",
    "(a)(b)": "more than one group",
    "(?:[a-z]{1,900}[0-9]{1,900}){1,900}": "no RE2 expression",
    "é": "outside ASCII",
}


@pytest.mark.parametrize("pattern", sorted(UNSAFE))
def test_refuses_unsafe_patterns_with_line_and_reason(pattern: str) -> None:
    quoted = pattern.replace("'", "''")
    text = f"patterns:\n  - name: x\n    level: restricted\n    pattern: '{quoted}'\n"
    with pytest.raises(ConfigurationError, match=rf"^{FILE}:6:14: patterns\[0\]\.pattern: ") as refused:
        _read(text)
    assert UNSAFE[pattern] in str(refused.value)


@pytest.mark.parametrize("pattern", ["KD-[0-9]{6}", "(?i)project (falcon|eagle)", "(?:a+)+b", "^ref: [0-9]+"])
def test_takes_safe_patterns(pattern: str) -> None:
    assert unsafe(pattern) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("patterns:\n  - {name: X, level: restricted, pattern: a1}", "lower-case"),
        ("patterns:\n  - {name: x, level: high, pattern: a1}", "one of public"),
        ("patterns:\n  - {name: x, level: restricted, pattern: a1, tags: [pee]}", "one of pii"),
        ("patterns:\n  - {name: x, level: restricted, pattern: a1, regex: b}", "known key"),
        (
            "patterns:\n  - {name: x, level: restricted, pattern: a1}\n  - {name: x, level: public, pattern: b1}",  # noqa: E501
            "each name once",
        ),
        ("dictionaries:\n  - {name: x, level: restricted}", "either terms or file"),
        ("dictionaries:\n  - {name: x, level: restricted, terms: [a]}", "two letters"),
        ("dictionaries:\n  - {name: x, level: restricted, file: no.txt}", "folder dictionaries"),
        ("raise: {email: top}", "one of public"),
    ],
)
def test_refuses_what_cannot_be_meant(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _read(text)
