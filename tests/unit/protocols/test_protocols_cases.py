"""Test cases inside documents: which hold, which do not, and how that is said."""

from __future__ import annotations

import hashlib

import pytest
import yaml

from gateway.errors import ConfigurationError
from gateway.protocols.cases import Result, run_cases
from gateway.protocols.document import parse_document
from tests.fakes.protocol_files import TOOLS, parse_yaml, prompt_manifest, tools_manifest

GREETED = hashlib.sha256(b"Greet Ada.\nBye.").hexdigest()


def prompt_results(*cases: object, file: str = "tests/a.yaml") -> tuple[Result, ...]:
    files = {"manifest.yaml": prompt_manifest(), "prompt.md": b"Greet {{who}}.\nBye.\n"}
    files[file] = yaml.safe_dump({"cases": list(cases)}).encode()
    return run_cases(parse_document(("greeting", "1.0.0"), files, parse_yaml), files, parse_yaml)


def tool_results(*cases: object) -> tuple[Result, ...]:
    files = {"manifest.yaml": tools_manifest(), "tools.json": TOOLS}
    files["tests/a.yaml"] = yaml.safe_dump({"cases": list(cases)}).encode()
    return run_cases(parse_document(("search", "1.0.0"), files, parse_yaml), files, parse_yaml)


def test_cases_of_a_prompt_hold() -> None:
    results = prompt_results(
        {"name": "whole", "variables": {"who": "Ada"}, "text": "Greet Ada.\nBye.\n"},
        {"name": "digest", "variables": {"who": "Ada"}, "sha256": GREETED},
        {"name": "missing", "refused": "prompt-variable-missing"},
    )
    assert results == tuple(
        Result("greeting/1.0.0/tests/a.yaml", name, None) for name in ("whole", "digest", "missing")
    )


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            {"text": "Greet Bob.\nBye.", "variables": {"who": "Ada"}},
            "line 1 to be 'Greet Bob.', found 'Greet Ada.'",
        ),
        ({"text": "Greet Ada.", "variables": {"who": "Ada"}}, "1 lines, found 2"),
        ({"sha256": "0" * 64, "variables": {"who": "Ada"}}, f"found {GREETED}"),
        ({"text": "x"}, "found the refusal prompt-variable-missing"),
        ({"refused": "prompt-variable-missing", "variables": {"who": "Ada"}}, "found text with sha256"),
        ({"refused": "prompt-variable-unknown"}, "found prompt-variable-missing"),
    ],
)
def test_says_what_differs(case: dict[str, object], words: str) -> None:
    (result,) = prompt_results({"name": "a", **case})
    assert result.difference is not None
    assert words in result.difference


def test_cases_of_tools_hold_or_say_the_fault() -> None:
    results = tool_results(
        {"name": "good", "tool": "look_up", "arguments": '{"q":"x"}', "expect": "valid"},
        {"name": "bad", "tool": "look_up", "arguments": '"x"', "expect": "arguments-not-an-object"},
        {"name": "result", "tool": "look_up", "result": "{}", "expect": "valid"},
        {"name": "no json", "tool": "look_up", "result": "{", "expect": "result-off-schema"},
        {"name": "wrong", "tool": "look_up", "result": "[]", "expect": "valid"},
    )
    assert [result.difference for result in results] == [None] * 4 + [
        "expected valid, found result-off-schema"
    ]


@pytest.mark.parametrize(
    "case",
    [
        {"name": "a", "text": "x", "refused": "y"},
        {"name": "a"},
        {"name": "a", "text": "x", "extra": 1},
        {"text": "x"},
    ],
)
def test_refuses_a_case_that_says_nothing_or_two_things(case: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^greeting/1\.0\.0/tests/a\.yaml: "):
        prompt_results(case)


@pytest.mark.parametrize(
    "case",
    [
        {"name": "a", "tool": "nobody", "arguments": "{}", "expect": "valid"},
        {"name": "a", "tool": "look_up", "expect": "valid"},
        {"name": "a", "tool": "look_up", "arguments": "{}", "result": "{}", "expect": "valid"},
    ],
)
def test_refuses_a_case_of_a_tool_that_cannot_be_run(case: object) -> None:
    with pytest.raises(ConfigurationError, match=r"case 'a'"):
        tool_results(case)


def test_refuses_two_cases_of_one_name() -> None:
    case = {"name": "a", "variables": {"who": "Ada"}, "text": "x"}
    with pytest.raises(ConfigurationError, match="once"):
        prompt_results(case, case)
