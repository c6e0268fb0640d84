from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.schema_words import STEERING, check_keywords
from gateway.dialects.strict_json import json_text
from gateway.errors import RequestRefused


def check(schema: dict[str, Any]) -> None:
    check_keywords(schema, json_text(schema), "here")


@pytest.mark.parametrize("word", STEERING)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: inner,
        lambda inner: {"items": inner},
        lambda inner: {"properties": {"a": inner}},
        lambda inner: {"$defs": {"user": {"anyOf": [True, inner]}}},
        lambda inner: {"not": {"if": inner}},
        lambda inner: {"prefixItems": [[], inner]},
    ],
)
def test_refuses_a_steering_word_as_a_keyword(word: str, wrap: Any) -> None:
    with pytest.raises(RequestRefused) as caught:
        check(wrap({word: "secret-value"}))
    assert caught.value.code == "unknown-field"
    assert caught.value.param == f"here.{word}"
    assert "secret-value" not in caught.value.message


@pytest.mark.parametrize("word", STEERING)
def test_takes_a_steering_word_as_a_name_or_as_data(word: str) -> None:
    check({"properties": {word: {"type": "string"}}, "required": [word]})
    check({"definitions": {word: {"patternProperties": {word: {}}}}})
    check({"properties": {"a": {"default": {word: 1}, "enum": [{word: 2}], "const": {word: 3}}}})
    check({"description": f'a text with "{word}": in it'})


def test_takes_a_schema_without_such_words() -> None:
    check({})
    check({"type": "object", "properties": {"username": {"type": "string"}}})
