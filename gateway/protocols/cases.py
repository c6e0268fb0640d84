"""Test cases of a document: `tests/*.yaml` beside the text that they are about.

Invariant: a case says exactly what must come out. Text is compared whole, a refusal by its code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gateway.errors import ConfigurationError, Unresolvable
from gateway.protocols.document import ParseYaml, Prompt, ToolSet, is_case_file
from gateway.protocols.resolve import render

#: What a case of a tool expects when the text is taken.
VALID = "valid"
_OFF_SCHEMA = "result-off-schema"


class PromptCase(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Values of variables, and one of: the text, its SHA-256 (hex), or the code of the refusal."""

    name: str
    variables: dict[str, str] = {}
    text: str | None = None
    sha256: str | None = None
    refused: str | None = None


class ToolCase(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments or a result of one tool as JSON text, and `valid` or the word of the fault."""

    name: str
    tool: str
    expect: str
    arguments: str | None = None
    result: str | None = None


class PromptCases(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A file of cases of a prompt."""

    cases: tuple[PromptCase, ...]


class ToolCases(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A file of cases of a tool set."""

    cases: tuple[ToolCase, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How one case went: `difference` is None when it held."""

    file: str
    name: str
    difference: str | None


def run_cases(
    document: Prompt | ToolSet, files: Mapping[str, bytes], parse_yaml: ParseYaml
) -> tuple[Result, ...]:
    """All cases in the files of a document (file name → bytes).

    Raises `ConfigurationError` for a file that holds something else than cases.
    """
    folder = f"{document.pin.name}/{document.pin.version}"
    results: list[Result] = []
    for file in sorted(name for name in files if is_case_file(name)):
        place = f"{folder}/{file}"
        tree = parse_yaml(files[file].decode("utf-8"), place)
        found: PromptCases | ToolCases
        try:
            if isinstance(document, Prompt):
                found = msgspec.convert(tree, PromptCases)
            else:
                found = msgspec.convert(tree, ToolCases)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{place}: {error}") from None
        names = [case.name for case in found.cases]
        if len(set(names)) != len(names):
            raise ConfigurationError(f"{place}: expected each name of a case once")
        for case in found.cases:
            where = f"{place}: case {case.name!r}"
            if isinstance(document, Prompt) and isinstance(case, PromptCase):
                results.append(Result(place, case.name, _prompt_difference(document, case, where)))
            elif isinstance(document, ToolSet) and isinstance(case, ToolCase):
                results.append(Result(place, case.name, _tool_difference(document, case, where)))
    return tuple(results)


def _prompt_difference(prompt: Prompt, case: PromptCase, where: str) -> str | None:
    if sum(each is not None for each in (case.text, case.sha256, case.refused)) != 1:
        raise ConfigurationError(f"{where}: expected exactly one of text, sha256, refused")
    try:
        text = render(prompt, tuple(case.variables.items()))
    except Unresolvable as refusal:
        if case.refused is None:
            return f"expected text, found the refusal {refusal.code}"
        return None if refusal.code == case.refused else f"expected {case.refused}, found {refusal.code}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    if case.refused is not None:
        return f"expected the refusal {case.refused}, found text with sha256 {digest}"
    if case.sha256 is not None:
        return None if digest == case.sha256 else f"expected sha256 {case.sha256}, found {digest}"
    wanted = (case.text or "").strip("\n")
    return None if text == wanted else f"expected {_first_difference(wanted, text)}"


def _first_difference(wanted: str, found: str) -> str:
    """The first line that differs."""
    one, other = wanted.split("\n"), found.split("\n")
    for number, (left, right) in enumerate(zip(one, other, strict=False), 1):
        if left != right:
            return f"line {number} to be {left!r}, found {right!r}"
    return f"{len(one)} lines, found {len(other)}"


def _tool_difference(tool_set: ToolSet, case: ToolCase, where: str) -> str | None:
    tool = next((one for one in tool_set.tools if one.name == case.tool), None)
    if tool is None:
        raise ConfigurationError(f"{where}: no tool {case.tool} in the set")
    if (case.arguments is None) == (case.result is None):
        raise ConfigurationError(f"{where}: expected exactly one of arguments, result")
    if case.arguments is not None:
        found = tool.offered.fault(case.arguments) or VALID
    elif tool.result is None:
        raise ConfigurationError(f"{where}: the tool has no schema of its result")
    else:
        try:
            found = VALID if tool.result.is_valid(json.loads(case.result or "")) else _OFF_SCHEMA
        except ValueError:
            found = _OFF_SCHEMA
    return None if found == case.expect else f"expected {case.expect}, found {found}"
