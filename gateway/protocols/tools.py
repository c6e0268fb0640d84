"""Tool sets: a list of functions, each with a JSON Schema for its arguments.

Invariants
1. A schema is checked when the set is loaded, and points nowhere outside itself: a `$ref` to an
   address would be a fetch at a stranger's word.
2. `parameters` is sent as compact JSON with keys in the order in which the file has them. The file's
   bytes are pinned, so the text is fixed too, and models read properties in their author's order.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

import jsonschema_rs

from gateway.domain.chat import JsonText, ToolDefinition
from gateway.errors import ConfigurationError

#: Most tools in one request (OpenAI's bound).
MAX_TOOL_COUNT = 128
MAX_DESCRIPTION_CHARACTERS = 4096
#: Deepest nesting of a schema.
MAX_DEPTH = 32
_SCHEMA_VERSION = "https://json-schema.org/draft/2020-12/schema"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FIELDS = frozenset({"name", "description", "parameters", "strict"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def parse_tools(document: bytes, place: str) -> tuple[ToolDefinition, ...]:
    """The tools of a `tools.json`: an array of `{name, description, parameters, strict?}`.

    `place` names the file in errors. Raises `ConfigurationError`: not strict JSON, no array of 1 to
    128, unknown or missing field, bad or repeated name, parameters that are no JSON Schema (2020-12)
    of type object.
    """
    entries = _strict_json(document, place)
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_TOOL_COUNT:
        raise ConfigurationError(f"{place}: expected an array of 1 to {MAX_TOOL_COUNT} tools")
    tools: dict[str, ToolDefinition] = {}
    for index, entry in enumerate(entries):
        tool = _tool(entry, f"{place}: [{index}]")
        if tool.name in tools:
            raise ConfigurationError(f"{place}: [{index}].name: expected a name used once, found it twice")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(entry: object, place: str) -> ToolDefinition:
    if not isinstance(entry, dict) or not {"name", "description", "parameters"} <= entry.keys() <= _FIELDS:
        raise ConfigurationError(
            f"{place}: expected an object with name, description, parameters and at most strict"
        )
    name, description, strict = entry["name"], entry["description"], entry.get("strict")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigurationError(f"{place}.name: expected 1 to 64 of A-Z a-z 0-9 _ -")
    if not isinstance(description, str) or not 0 < len(description) <= MAX_DESCRIPTION_CHARACTERS:
        raise ConfigurationError(
            f"{place}.description: expected text of 1 to {MAX_DESCRIPTION_CHARACTERS} characters"
        )
    if strict is not None and not isinstance(strict, bool):
        raise ConfigurationError(f"{place}.strict: expected true or false")
    schema = entry["parameters"]
    _check_schema(schema, f"{place}.parameters")
    return ToolDefinition(name, description, _compact(schema), strict)


def _check_schema(schema: object, place: str) -> None:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ConfigurationError(f"{place}: expected a JSON Schema with type: object")
    if schema.get("$schema", _SCHEMA_VERSION) != _SCHEMA_VERSION:
        raise ConfigurationError(f"{place}.$schema: expected {_SCHEMA_VERSION} or nothing")
    _check_references(schema, place, 1)
    try:
        jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = getattr(error, "message", "a reference leads nowhere")
        raise ConfigurationError(f"{place}: expected a valid JSON Schema (2020-12): {reason}") from None


def _check_references(node: object, place: str, depth: int) -> None:
    """Refuses `$id` and every reference that is not a place inside the same schema."""
    if depth > MAX_DEPTH:
        raise ConfigurationError(f"{place}: expected at most {MAX_DEPTH} levels of nesting")
    if isinstance(node, list):
        for item in node:
            _check_references(item, place, depth + 1)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("$id"), str):
        raise ConfigurationError(f"{place}: expected a schema without $id")
    for name in _REFERENCES:
        target = node.get(name)
        if isinstance(target, str) and not target.startswith("#"):
            # fail-closed: the validator would fetch it, from wherever the file says.
            raise ConfigurationError(f"{place}: {name}: expected a place in the same schema (#…)")
    for item in node.values():
        _check_references(item, place, depth + 1)


def _compact(value: object) -> JsonText:
    return JsonText(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def _strict_json(document: bytes, place: str) -> object:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            raise ConfigurationError(f"{place}: expected unique keys, found one twice in an object")
        return value

    def no_constant(word: str) -> NoReturn:
        raise ConfigurationError(f"{place}: expected JSON, found {word}")

    try:
        value: object = json.loads(
            document.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant
        )
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{place}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{place}: expected JSON in UTF-8 of moderate depth") from None
    return value
