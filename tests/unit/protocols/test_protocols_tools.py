"""Tool sets: what is read, what is refused and how it is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.protocols.tools import parse_tools

GOOD: dict[str, Any] = {
    "name": "look_up",
    "description": "Looks up.",
    "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"$ref": "#/$defs/a"}},
                   "$defs": {"a": {"type": "integer"}}},
}  # fmt: skip


def tools(*entries: object) -> bytes:
    return json.dumps(entries).encode()


def test_reads_tools_with_compact_parameters_in_the_authors_order() -> None:
    (tool,) = parse_tools(tools(GOOD), "t")
    definition = tool.definition
    assert (tool.name, definition.description, definition.strict) == ("look_up", "Looks up.", None)
    assert definition.parameters == (
        '{"type":"object","properties":{"z":{"type":"string"},"a":{"$ref":"#/$defs/a"}},'
        '"$defs":{"a":{"type":"integer"}}}'
    )


def test_keeps_strict_and_the_order_of_tools() -> None:
    both = parse_tools(tools(GOOD | {"name": "b", "strict": True}, GOOD | {"name": "a"}), "t")
    assert [(tool.name, tool.definition.strict) for tool in both] == [("b", True), ("a", None)]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "look up"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": 1}, "name"),
        ({"description": ""}, "description"),
        ({"description": "x" * 4097}, "description"),
        ({"description": None}, "description"),
        ({"strict": "yes"}, "strict"),
        ({"extra": 1}, "expected an object with"),
        ({"parameters": None}, "JSON Schema .an object."),
        ({"parameters": {"type": "string"}}, "type: object"),
        ({"parameters": {"type": "object", "properties": []}}, "valid JSON Schema"),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "objec"}}}}, "valid JSON Schema"),
        ({"parameters": {"type": "object", "required": ["a", "a"]}}, "valid JSON Schema"),
        ({"parameters": {"type": "object", "properties": {"a": {"pattern": "("}}}}, "valid JSON Schema"),
        (
            {"parameters": {"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}}},
            "valid JSON Schema",
        ),
        ({"parameters": {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}}, "schema"),
        ({"parameters": {"type": "object", "$id": "https://x.example/s"}}, "without \\$id"),
        ({"parameters": nested(40)}, "levels of nesting"),
    ],
)
def test_names_the_place_that_is_wrong(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^set/1\.0\.0/tools\.json: \[0\].*{words}"):
        parse_tools(tools(GOOD | change), "set/1.0.0/tools.json")


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("target", ["http://127.0.0.1:9/s", "file:///etc/passwd", "other.json", "//x"])
def test_refuses_a_reference_that_leads_out_before_anybody_follows_it(word: str, target: str) -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{word: target}]}}}
    with pytest.raises(ConfigurationError, match="a place in the same schema"):
        parse_tools(tools(GOOD | {"parameters": schema}), "t")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b"[{}]",
        b'[{"name":"a","name":"b"}]',
        b"[NaN]",
        b"\xff",
        b"[" * 100_000,
        tools(*[GOOD] * 129),
        tools(GOOD, GOOD),
    ],
    ids=range(11),
)
def test_refuses_a_document_that_is_no_list_of_tools(document: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"^t:"):
        parse_tools(document, "t")
