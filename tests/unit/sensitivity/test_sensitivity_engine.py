"""Both engines, pattern by pattern."""

from __future__ import annotations

import threading

import pytest

from gateway.errors import ConfigurationError
from gateway.sensitivity.engine import ENGINES, open_engine

PATTERNS = [rb"[0-9]{3,}", rb"key=([a-z]+)", rb"(?i)hello", rb"x"]


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_reports_every_pattern_with_its_spans_in_order(name: str) -> None:
    engine = open_engine(name, PATTERNS)
    assert engine.scan(b"HELLO 12345 12 678") == [(0, 6, 11), (0, 15, 18), (2, 0, 5)]


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_reports_the_span_of_group_one_when_there_is_one(name: str) -> None:
    assert open_engine(name, PATTERNS).scan(b"a key=abc;") == [(1, 6, 9)]


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_reports_only_the_first_hit_of_patterns_wanted_once(name: str) -> None:
    assert open_engine(name, PATTERNS, frozenset({3})).scan(b"xxx 999 888") == [
        (0, 4, 7),
        (0, 8, 11),
        (3, 0, 1),
    ]


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize("data", [b"", b"\x00\xff\n", b"nothing"])
def test_reports_nothing_where_nothing_is(name: str, data: bytes) -> None:
    assert open_engine(name, PATTERNS).scan(data) == []


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_refuses_a_pattern_that_is_not_re2_syntax(name: str) -> None:
    with pytest.raises(ConfigurationError, match="expected RE2 syntax"):
        open_engine(name, [rb"(?<=a)b"])


def test_refuses_a_pattern_that_hyperscan_cannot_take() -> None:
    with pytest.raises(ConfigurationError, match="hyperscan refuses"):
        open_engine("hyperscan", [rb"a*"])


def test_refuses_an_unknown_engine() -> None:
    with pytest.raises(ConfigurationError, match="found 'pcre'"):
        open_engine("pcre", PATTERNS)


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_gives_the_same_from_many_threads_at_once(name: str) -> None:
    engine = open_engine(name, PATTERNS)
    data = b"hello 123 key=abc " * 50
    expected = engine.scan(data)
    results: list[bool] = []

    def work() -> None:
        results.extend(engine.scan(data) == expected for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 200


def test_engine_identities_differ() -> None:
    assert len({open_engine(name, PATTERNS).identity for name in ENGINES}) == len(ENGINES)
