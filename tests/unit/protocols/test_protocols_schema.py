"""Schemas: which are taken, and how strictly they judge."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.schema import MAX_CIRCLES, SchemaFault, compile_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def judge(schema: dict[str, Any], **options: Any) -> Any:
    return compile_schema({"type": "object", **schema}, **options)


def test_an_object_takes_the_properties_that_it_lists_and_no_others() -> None:
    strict = judge({"properties": {"a": {"type": "string"}}})
    assert strict.is_valid({"a": "x"})
    assert not strict.is_valid({"a": "x", "b": 1})
    assert not strict.is_valid({"a": 1})


def test_objects_inside_are_as_strict() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    strict = judge({"properties": {"o": inner, "l": {"type": "array", "items": inner}}})
    assert strict.is_valid({"o": {"x": 1}, "l": [{"x": 2}]})
    assert not strict.is_valid({"o": {"y": 1}})
    assert not strict.is_valid({"l": [{"x": 2, "y": 1}]})


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": True},
        {"additionalProperties": {"type": "integer"}},
        {"patternProperties": {"^b": {}}},
        {"unevaluatedProperties": True},
    ],
)
def test_what_the_author_says_about_other_properties_counts(more: dict[str, Any]) -> None:
    assert judge({"properties": {"a": {}}, **more}).is_valid({"a": 1, "b": 2})


def test_an_object_that_lists_no_properties_is_a_free_map() -> None:
    assert judge({}).is_valid({"anything": 1})


def test_properties_of_parts_that_speak_of_the_same_object_are_known() -> None:
    strict = judge({"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]})
    assert strict.is_valid({"a": 1, "b": 2})
    assert not strict.is_valid({"c": 1})


def test_properties_behind_a_reference_are_known() -> None:
    strict = judge({"$defs": {"d": {"properties": {"b": {}}}}, "properties": {"a": {}}, "$ref": "#/$defs/d"})
    assert strict.is_valid({"a": 1, "b": 2})
    assert not strict.is_valid({"c": 1})


def test_draft_7_is_taken_from_clients_only_and_is_as_strict() -> None:
    schema = {"type": "object", "$schema": DRAFT_7, "properties": {"a": {"type": "string"}}}
    strict = compile_schema(schema, versions=2)
    assert strict.is_valid({"a": "x"})
    assert not strict.is_valid({"b": 1})
    with pytest.raises(SchemaFault, match="2020-12"):
        compile_schema(schema)


@pytest.mark.parametrize("format_", ["date", "date-time", "email", "uuid"])
def test_formats_are_judged(format_: str) -> None:
    assert not judge({"properties": {"a": {"format": format_}}}).is_valid({"a": "no such thing"})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (None, "an object"),
        ([], "an object"),
        ({"type": "string"}, "type: object"),
        ({"type": "object", "$schema": "https://x.example/s"}, "2020-12"),
        ({"type": "object", "$schema": 1}, "2020-12"),
        ({"type": "object", "$id": "https://x.example/s"}, "without \\$id"),
        ({"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}}, "same schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}}, "leads nowhere"),
        ({"type": "object", "properties": {"a": {"type": "objec"}}}, "wrong at properties/a/type"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "wrong at properties/a/pattern"),
    ],
)
def test_says_what_is_wrong_with_a_schema(schema: object, words: str) -> None:
    with pytest.raises(SchemaFault, match=words):
        compile_schema(schema)


def test_never_repeats_a_value_of_a_schema() -> None:
    with pytest.raises(SchemaFault) as caught:
        judge({"properties": {"a": {"type": "hunter2"}}})
    assert "hunter2" not in str(caught.value)


def test_refuses_references_that_unfold_without_bound() -> None:
    defs: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    defs["d30"] = {"type": "object"}
    with pytest.raises(SchemaFault, match="once references are followed"):
        judge({"$ref": "#/$defs/d0", "$defs": defs})


def test_refuses_a_long_chain_of_references() -> None:
    defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3000)}
    defs["d3000"] = {"type": "object"}
    with pytest.raises(SchemaFault, match="one behind the other"):
        judge({"$ref": "#/$defs/d0", "$defs": defs})


def test_a_circle_that_never_goes_into_the_value_does_no_harm() -> None:
    assert judge({"$ref": "#"}).is_valid({})
    assert judge({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}).is_valid({})


def test_properties_of_a_branch_that_holds_are_known() -> None:
    strict = judge(
        {
            "properties": {"kind": {"enum": ["card", "cash"]}},
            "if": {"properties": {"kind": {"const": "card"}}, "required": ["kind"]},
            "then": {"properties": {"number": {"type": "string"}}},
        }
    )
    assert strict.is_valid({"kind": "card", "number": "1"})
    assert not strict.is_valid({"kind": "cash", "number": "1"})
    assert not strict.is_valid({"kind": "card", "other": "1"})


def test_takes_a_tree_and_refuses_a_thicket() -> None:
    node = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
    tree = judge({"properties": {"root": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}})
    assert tree.is_valid({"root": {"children": [{"children": []}]}})
    ways = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/v"}}] * (MAX_CIRCLES + 1)}
    with pytest.raises(SchemaFault, match="close a circle"):
        judge({"properties": {"a": {"$ref": "#/$defs/v"}}, "$defs": {"v": ways}})


def test_a_pattern_that_tries_for_ever_is_a_no() -> None:
    slow = judge({"properties": {"a": {"pattern": "^(a|aa)+(?=b)$"}}})
    assert not slow.is_valid({"a": "a" * 4000})
    assert slow.is_valid({}) is True
