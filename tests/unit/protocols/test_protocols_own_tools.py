"""A client's own tools: compiled once, bounded, refused when they cannot be judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.domain.chat import JsonText, ToolDefinition
from gateway.errors import RequestRefused
from gateway.protocols.own_tools import OWN, OwnTools


def tool(name: str = "f", schema: Any = None) -> ToolDefinition:
    return ToolDefinition(name, None, None if schema is None else JsonText(json.dumps(schema)))


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_gives_a_judge_for_each_tool_in_order() -> None:
    one, two = OwnTools().offer((tool("one", SCHEMA), tool("two")))
    assert (one.name, one.source, two.name) == ("one", OWN, "two")
    assert one.fault('{"a":1}') is None
    assert one.fault('{"a":"1"}') == "arguments-off-schema"
    assert one.fault('{"b":1}') == "arguments-off-schema"


def test_a_function_without_parameters_takes_an_empty_object_only() -> None:
    (none,) = OwnTools().offer((tool(),))
    assert none.fault("{}") is None
    assert none.fault('{"a":1}') == "arguments-off-schema"


def test_a_schema_without_a_type_is_one_of_an_object() -> None:
    (free,) = OwnTools().offer((tool(schema={}),))
    assert free.fault('{"a":1}') is None
    assert free.fault("[]") == "arguments-not-an-object"


def test_compiles_a_schema_once_whatever_the_tool_is_called() -> None:
    own = OwnTools()
    (one,) = own.offer((tool("one", SCHEMA),))
    (two,) = own.offer((tool("two", SCHEMA),))
    assert one.fault is two.fault
    assert one.schema_sha256 == two.schema_sha256
    assert len(own) == 1


def test_forgets_the_schema_that_was_used_longest_ago() -> None:
    own = OwnTools(entry_count=2)
    schemas = [{"type": "object", "properties": {name: {}}} for name in "abc"]
    first = own.offer((tool(schema=schemas[0]),))[0]
    own.offer((tool(schema=schemas[1]),))
    assert own.offer((tool(schema=schemas[0]),))[0].fault is first.fault
    own.offer((tool(schema=schemas[2]),))
    assert len(own) == 2
    assert own.offer((tool(schema=schemas[0]),))[0].fault is first.fault


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "hunter2"}}},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/s"}}},
        [1],
        {"type": "object", "description": "x" * 70_000},
    ],
)
def test_refuses_a_tool_whose_schema_cannot_be_used(schema: Any) -> None:
    with pytest.raises(RequestRefused) as caught:
        OwnTools().offer((tool(), tool("g", schema)))
    assert (caught.value.code, caught.value.param) == ("tool-schema-invalid", "tools[1].function.parameters")
    assert "hunter2" not in caught.value.message
