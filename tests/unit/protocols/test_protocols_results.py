"""Results of tools before a model reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.chat import JsonText, Message, OpaquePart, Part, Role, TextPart, ToolCall
from gateway.errors import Unresolvable
from gateway.protocols.results import check_results, fault_of, result_contracts
from gateway.protocols.tools import Tool, parse_tools

TREE = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["rows"],
}


def contracts(*results: Any, errors: tuple[str, ...] = ("not-found",)) -> Any:
    """Contracts of a tool `list` with a version for each of these schemas."""
    tools: list[Tool] = []
    for result in results:
        tool = {
            "name": "list",
            "description": "Lists.",
            "parameters": {"type": "object"},
            "roles": ["user"],
            "side_effects": "read",
            "idempotent": True,
            "timeout_seconds": 5,
            "errors": {code: {"retryable": False} for code in errors},
            "result_label": "internal",
            "result": result,
        }
        tools.extend(parse_tools(json.dumps([tool]).encode(), "tools.json"))
    return result_contracts(tools)


CONTRACTS = contracts(TREE)


def result(content: str, **more: Any) -> Message:
    return Message(Role.TOOL, (TextPart(content),), tool_call_id="c1", **more)


def history(message: Message, name: str = "list") -> tuple[Message, ...]:
    return (Message(Role.ASSISTANT, tool_calls=(ToolCall("c1", name, "{}"),)), message)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"rows":[]}', None),
        (' {"rows": [{"id": 1}], "extra": {"a": 1}} ', None),
        ('{"rows":[{"id":1},{"id":"2"}]}', "$.rows[1].id"),
        ('{"rows":[],"extra":{"Jane Doe":"ill"}}', "$.extra.*"),
        ('{"rows":[],"Jane Doe":1}', "$"),
        ('{"rows":{}}', "$.rows"),
        ("{}", "$"),
        ("", "$"),
        ("done", "$"),
        ('{"rows":[]} {"rows":[]}', "$"),
        ('{"rows":[],"rows":[]}', "$"),
        ('{"rows":[NaN]}', "$"),
        ('{"rows":[{"id":1}', "$"),
        ("[" * 40 + "]" * 40, "$"),
        ('{"rows":["\\ud800"]}', "$"),
        ('{"error":"not-found"}', None),
        ('{"error":{"code":"not-found","message":"No such account."}}', None),
        ('{"error":"gone"}', "$"),
        ('{"error":"not-found","rows":1}', "$.rows"),
        ('{"error":{"code":["not-found"]}}', "$"),
    ],
)
def test_only_what_the_contract_says_is_a_result(content: str, place: str | None) -> None:
    assert fault_of(result(content), CONTRACTS["list"]) == place


def test_a_place_shows_at_most_eight_steps() -> None:
    tree: dict[str, Any] = {"type": "integer"}
    value: Any = "x"
    for _ in range(10):
        tree, value = {"type": "array", "items": tree}, [value]
    assert fault_of(result(json.dumps(value)), contracts(tree)["list"]) == "$" + "[0]" * 8


@pytest.mark.parametrize("part", [OpaquePart("image_url", JsonText("{}")), None])
def test_what_is_no_text_is_no_result(part: Part | None) -> None:
    parts: tuple[Part, ...] = () if part is None else (TextPart('{"rows":[]}'), part)
    message = Message(Role.TOOL, parts, tool_call_id="c1")
    assert fault_of(message, CONTRACTS["list"]) == "$"


def test_text_in_pieces_is_one_result() -> None:
    message = Message(Role.TOOL, (TextPart('{"rows"'), TextPart(":[]}")), tool_call_id="c1")
    assert fault_of(message, CONTRACTS["list"]) is None


def test_any_version_of_the_tool_may_have_made_it() -> None:
    versions = contracts({"type": "string"}, TREE)["list"]
    assert fault_of(result('"done"'), versions) is None
    assert fault_of(result('{"rows":[]}'), versions) is None
    assert fault_of(result("1"), versions) == "$"


def test_the_refusal_names_tool_and_place_and_nothing_of_the_result() -> None:
    with pytest.raises(Unresolvable) as caught:
        check_results(history(result('{"rows":[],"extra":{"Jane Doe":"ill"}}')), frozenset(), CONTRACTS)
    assert (caught.value.http_status, caught.value.code) == (422, "tool-result-invalid")
    assert caught.value.param == "messages[1].content"
    assert "`list`" in caught.value.message
    assert "$.extra.*" in caught.value.message
    assert "Jane" not in caught.value.message


@pytest.mark.parametrize(
    ("messages", "own"),
    [
        (history(result("free text")), frozenset({"list"})),
        (history(result("free text"), "another"), frozenset()),
        (history(result("It did not answer.", is_error=True)), frozenset()),
        ((result("of a call that is not there"),), frozenset()),
        (history(Message(Role.USER, (TextPart("free text"),))), frozenset()),
    ],
    ids=["own-tool", "unknown-tool", "said-to-have-failed", "without-its-call", "no-result"],
)
def test_what_nobody_promised_is_not_judged(messages: tuple[Message, ...], own: frozenset[str]) -> None:
    check_results(messages, own, CONTRACTS)


KEYS = st.sampled_from(["rows", "extra", "id", "error", "other"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


def fits(value: Any) -> bool:
    """`TREE` in plain words."""
    if not isinstance(value, dict) or not value.keys() <= {"rows", "extra"} or "rows" not in value:
        return False
    rows, extra = value["rows"], value.get("extra", {})
    return (
        isinstance(rows, list)
        and all(isinstance(row, dict) and row.keys() <= {"id"} for row in rows)
        and all(type(row.get("id", 1)) is int for row in rows)
        and isinstance(extra, dict)
        and all(type(one) is int for one in extra.values())
    )


@given(JSON)
def test_a_result_fits_exactly_when_its_schema_says_so(value: Any) -> None:
    place = fault_of(result(json.dumps(value)), CONTRACTS["list"])
    assert (place is None) == fits(value)
