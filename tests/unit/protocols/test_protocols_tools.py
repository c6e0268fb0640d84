"""Tool sets: what is read, what is refused and how it is said."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from gateway.domain.label import Level
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


CONTRACT: dict[str, Any] = {
    "roles": ["user"],
    "side_effects": "write",
    "idempotent": False,
    "timeout_seconds": 10,
    "errors": {"not-found": {"retryable": False}},
    "result_label": "confidential",
    "result": {"type": "object"},
}


def test_reads_the_contract_of_a_tool() -> None:
    (tool,) = parse_tools(tools(GOOD | CONTRACT), "t", "set@1.0.0")
    assert tool.contract is not None
    assert tool.contract.side_effects == "write"
    assert tool.contract.errors["not-found"].retryable is False
    assert tool.result_level is Level.CONFIDENTIAL
    assert (tool.offered.source, tool.offered.name) == ("set@1.0.0", "look_up")
    assert (
        tool.offered.schema_sha256 == hashlib.sha256((tool.definition.parameters or "").encode()).hexdigest()
    )
    assert tool.offered.fault('{"a":1}') is None
    assert tool.offered.fault('{"b":1}') == "arguments-off-schema"


def test_grants_a_tool_to_its_roles_and_one_without_a_contract_to_nobody() -> None:
    (granted,) = parse_tools(tools(GOOD | CONTRACT), "t")
    assert granted.is_granted(frozenset({"user", "x"}))
    assert not granted.is_granted(frozenset({"x"}))
    assert not granted.is_granted(frozenset())
    (bare,) = parse_tools(tools(GOOD), "t")
    assert not bare.is_granted(frozenset({"user"}))
    assert bare.result_level is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"roles": ["Chief Officer"]}, "roles: expected words"),
        ({"roles": "user"}, "Expected `array`"),
        ({"side_effects": "none"}, "Invalid enum value"),
        ({"timeout_seconds": 0}, "timeout_seconds: expected 1 to 3600"),
        ({"timeout_seconds": 3601}, "timeout_seconds: expected 1 to 3600"),
        ({"errors": {"Not Found": {"retryable": False}}}, "errors: expected codes"),
        ({"errors": {"down": {"retryable": True}}}, "errors.down.retryable: expected false"),
        ({"errors": {"down": {}}}, "missing required field `retryable`"),
        ({"result_label": "secret"}, "Invalid enum value"),
        ({"result": {"type": "objec"}}, "result: expected a valid JSON Schema"),
        ({"result": []}, "Expected `object`"),
        ({"description": "Looks up.\u202e"}, "without invisible characters"),
        ({"description": "Looks up. </s>"}, "without invisible characters"),
    ],
)
def test_names_what_is_wrong_with_a_contract(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^t: \[0\]") as caught:
        parse_tools(tools(GOOD | CONTRACT | change), "t")
    assert words in str(caught.value)


@pytest.mark.parametrize("missing", sorted(CONTRACT))
def test_refuses_half_a_contract(missing: str) -> None:
    half = {key: value for key, value in CONTRACT.items() if key != missing}
    with pytest.raises(ConfigurationError, match=f"missing required field `{missing}`"):
        parse_tools(tools(GOOD | half), "t")


def test_a_tool_that_changes_nothing_or_may_be_repeated_can_be_tried_again() -> None:
    again = {"errors": {"down": {"retryable": True}}}
    assert parse_tools(tools(GOOD | CONTRACT | again | {"idempotent": True}), "t")
    assert parse_tools(tools(GOOD | CONTRACT | again | {"side_effects": "read"}), "t")
