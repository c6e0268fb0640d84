"""`tidegate classify`: findings with masked matches, and the reason."""

from __future__ import annotations

import json

from click.testing import CliRunner

from gateway.cli.classify import masked
from gateway.cli.main import main

TEXT = "Card 4539 1488 0343 6467 and\nmail kim@vestfjord.no"


def test_prints_detector_level_tag_and_reason_but_not_the_match() -> None:
    result = CliRunner().invoke(main, ["classify", "--engine", "re2"], input=TEXT)
    assert result.exit_code == 0
    for word in (
        "payment-card@",
        "restricted",
        "pci",
        "email@",
        "confidential",
        "the highest of what was found",
    ):
        assert word in result.output
    assert "1488" not in result.output
    assert "vestfjord" not in result.output


def test_prints_json_with_places() -> None:
    result = CliRunner().invoke(main, ["classify", "--engine", "re2", "--json", "-"], input=TEXT)
    answer = json.loads(result.output)
    assert (answer["label"], answer["tags"]) == ("restricted", ["pci", "pii"])
    (card, mail) = answer["findings"]
    assert (card["line"], mail["line"], card["start"], card["end"]) == (1, 2, 5, 24)
    assert card["masked"] == "45•••••••••••••••67"


def test_says_that_nothing_was_found() -> None:
    result = CliRunner().invoke(main, ["classify", "--engine", "re2"], input="How do heat pumps work?")
    assert "nothing was found" in result.output


def test_refuses_bytes_that_are_no_text_and_missing_files() -> None:
    assert CliRunner().invoke(main, ["classify", "--engine", "re2"], input=b"\xff\xfe\x00").exit_code == 2
    assert CliRunner().invoke(main, ["classify", "/nowhere/at/all"]).exit_code == 2


def test_short_matches_are_masked_wholly() -> None:
    assert masked("4419B") == "•••••"
    assert masked("123456789") == "12•••••89"
