"""Versions and ranges: what is read, and what a range holds."""

from __future__ import annotations

import pytest

from gateway.protocols.version import Version, is_version, parse_range, parse_version


@pytest.mark.parametrize("text", ["0.0.0", "1.2.3", "10.0.999999999"])
def test_reads_three_plain_numbers(text: str) -> None:
    assert is_version(text)
    assert str(parse_version(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-rc1", "1.2.3+b", "v1.2.3", " 1.2.3", "1.2.3\n", "١.2.3"],
)
def test_takes_nothing_else_for_a_version(text: str) -> None:
    assert not is_version(text)
    assert parse_version(text) is None


def test_orders_by_numbers_and_not_by_letters() -> None:
    assert Version(1, 10, 0) > Version(1, 9, 9) > Version(1, 9, 0)


@pytest.mark.parametrize(
    ("text", "lowest", "end"),
    [
        ("^1", (1, 0, 0), (2, 0, 0)),
        ("^1.2", (1, 2, 0), (2, 0, 0)),
        ("^1.2.3", (1, 2, 3), (2, 0, 0)),
        ("^0", (0, 0, 0), (1, 0, 0)),
        ("^0.2", (0, 2, 0), (0, 3, 0)),
        ("^0.2.3", (0, 2, 3), (0, 3, 0)),
        ("^0.0", (0, 0, 0), (0, 1, 0)),
        ("^0.0.3", (0, 0, 3), (0, 0, 4)),
        ("~1", (1, 0, 0), (2, 0, 0)),
        ("~1.2", (1, 2, 0), (1, 3, 0)),
        ("~1.2.3", (1, 2, 3), (1, 3, 0)),
    ],
)
def test_a_range_begins_and_ends_as_npm_and_cargo_read_it(
    text: str, lowest: tuple[int, int, int], end: tuple[int, int, int]
) -> None:
    assert parse_range(text) == (lowest, end)


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "*", "^", "^x", "^1.x", ">=1", "^1 || ^2", "^1.2.3.4", "^01", "^1 ", "~>1", "^^1"]
)
def test_takes_nothing_else_for_a_range(text: str) -> None:
    assert parse_range(text) is None


def test_gives_the_highest_version_inside() -> None:
    wanted = parse_range("^1.2")
    assert wanted is not None
    versions = [Version(1, 1, 9), Version(1, 2, 0), Version(1, 10, 0), Version(2, 0, 0)]
    assert wanted.best(versions) == Version(1, 10, 0)
    assert wanted.best(versions[:1]) is None
