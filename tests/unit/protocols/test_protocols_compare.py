"""What changes between two versions, and how serious it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.compare import compare
from gateway.protocols.document import Prompt, ToolSet, parse_document
from tests.fakes.protocol_files import TOOLS, parse_yaml, prompt_manifest, tools_manifest


def prompt(text: bytes = b"Greet {{who}}.", **fields: Any) -> Prompt | ToolSet:
    files = {"manifest.yaml": prompt_manifest(**fields), "prompt.md": text}
    return parse_document(("greeting", "1.0.0"), files, parse_yaml)


def tools(*changes: dict[str, Any], floor: str | None = None) -> Prompt | ToolSet:
    (good,) = json.loads(TOOLS)
    entries = [good | change for change in (changes or ({},))]
    manifest = tools_manifest(label_floor=floor) if floor else tools_manifest()
    files = {"manifest.yaml": manifest, "tools.json": json.dumps(entries).encode()}
    return parse_document(("search", "1.0.0"), files, parse_yaml)


def words(old: Prompt | ToolSet, new: Prompt | ToolSet) -> list[str]:
    return [f"{change.kind}: {change.text}" for change in compare(old, new)]


def test_equal_documents_have_no_difference() -> None:
    assert compare(prompt(), prompt()) == ()
    assert compare(tools(), tools()) == ()


@pytest.mark.parametrize(
    ("fields", "text", "expected"),
    [
        ({}, b"Hail {{who}}.", ["other: the text of the prompt differs"]),
        ({"label_floor": "internal"}, b"Greet {{who}}.", ["other: label floor: none → internal"]),
        ({"tools": "search@1.0.0"}, b"Greet {{who}}.", ["wider: tools: none → search@1.0.0"]),
        (
            {"variables": {"who": {"type": "string"}}},
            b"Greet {{who}}.",
            ["breaking: variable who: takes other values"],
        ),
        (
            {"variables": {"name": {"type": "string"}, "way": {"type": "string", "default": "x"}}},
            b"Greet {{name}} {{way}}.",
            [
                "breaking: variable who: removed",
                "breaking: variable name: added",
                "other: variable way: added",
                "other: the text of the prompt differs",
            ],
        ),
    ],
)
def test_tells_what_changes_in_a_prompt(fields: dict[str, Any], text: bytes, expected: list[str]) -> None:
    assert words(prompt(), prompt(text, **fields)) == expected


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"description": "Finds."}, ["other: tool look_up: its description differs"]),
        ({"strict": True}, ["other: tool look_up: strict: None → True"]),
        ({"parameters": schema(q={}, a={}, z={})}, ["other: tool look_up: argument z: added"]),
        ({"parameters": schema("z", q={}, a={}, z={})}, ["breaking: tool look_up: argument z: added"]),
        ({"parameters": schema(q={})}, ["breaking: tool look_up: argument a: removed"]),
        (
            {"parameters": schema("q", q={"type": "string"}, a={"type": "integer"})},
            ["breaking: tool look_up: argument q: required now"],
        ),
        ({"parameters": schema(q={}, a={})}, ["breaking: tool look_up: the schema of its arguments differs"]),
        ({"roles": ["clerk", "user"]}, ["wider: tool look_up: role clerk: may use it now"]),
        ({"roles": []}, ["breaking: tool look_up: role user: may not use it any more"]),
        ({"side_effects": "financial"}, ["wider: tool look_up: side effects: read → financial"]),
        ({"result_label": "public"}, ["wider: tool look_up: label of results: internal → public"]),
        ({"result_label": "restricted"}, ["other: tool look_up: label of results: internal → restricted"]),
        ({"result": {}}, ["breaking: tool look_up: the schema of its result differs"]),
        ({"timeout_seconds": 9}, ["other: tool look_up: timeout_seconds: 5 → 9"]),
        ({"errors": {}}, ["other: tool look_up: errors: ['not-found'] → []"]),
    ],
)
def test_tells_what_changes_in_a_tool(change: dict[str, Any], expected: list[str]) -> None:
    assert words(tools(), tools(change)) == expected


def test_tells_of_tools_that_come_and_go_and_of_floors_that_fall() -> None:
    assert words(tools({}, {"name": "b"}), tools({}, {"name": "c"})) == [
        "breaking: tool b: removed",
        "wider: tool c: added",
    ]
    assert words(tools(floor="confidential"), tools(floor="internal")) == [
        "wider: label floor: confidential → internal"
    ]
    assert words(tools(floor="internal"), tools()) == ["wider: label floor: internal → none"]


def test_a_contract_that_comes_widens_and_one_that_goes_breaks() -> None:
    bare = {"name": "look_up", "description": "Looks up.", "parameters": json.loads(TOOLS)[0]["parameters"]}
    files = {"manifest.yaml": tools_manifest(), "tools.json": json.dumps([bare]).encode()}
    without = parse_document(("search", "1.0.0"), files, parse_yaml)
    assert words(without, tools()) == ["wider: tool look_up: has a contract now, for user"]
    assert words(tools(), without) == [
        "breaking: tool look_up: has no contract any more, so nobody may use it"
    ]


def test_a_prompt_is_no_tool_set() -> None:
    assert words(prompt(), tools()) == ["breaking: one is a prompt and the other a tool set"]
