"""Anthropic's bodies: every field arrives in the request, or is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.anthropic_request import parse_count, parse_messages
from gateway.domain.chat import (
    CacheLifetime,
    Message,
    OpaquePart,
    Role,
    Surface,
    TextPart,
    Thinking,
    ThinkingDisplay,
    ToolCall,
)
from gateway.errors import RequestRefused
from tests.unit.dialects.messages_bodies import PDF, PNG, body, turn

SVG = {"type": "base64", "media_type": "image/svg+xml", "data": PNG}
TOOL = {"name": "read_gauge", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}


def refused(**fields: Any) -> tuple[str, str | None]:
    with pytest.raises(RequestRefused) as caught:
        parse_messages(body(**fields))
    return caught.value.code, caught.value.param


def test_reads_a_short_request() -> None:
    chat = parse_messages(body())
    assert chat.messages == (Message(Role.USER, (TextPart("Hello"),)),)
    assert (chat.model, chat.surface, chat.stream) == ("assistant", Surface.MESSAGES, False)
    assert chat.sampling.max_output_tokens == 64


def test_reads_every_plain_field() -> None:
    chat = parse_messages(
        body(
            system="Be short.",
            stop_sequences=["END"],
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            stream=True,
            metadata={"user_id": "u-1"},
            thinking={"type": "adaptive", "display": "omitted"},
            output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
            tools=[{**TOOL, "description": "Level.", "strict": True}],
            tool_choice={"type": "tool", "name": "read_gauge", "disable_parallel_tool_use": True},
            prompt={"id": "support-summary", "version": "1.0.0", "variables": {"product": "x"}},
        )
    )
    assert chat.messages[0] == Message(Role.SYSTEM, (TextPart("Be short."),))
    assert (chat.sampling.stop, chat.sampling.temperature, chat.sampling.top_p) == (("END",), 0.5, 0.9)
    assert chat.extensions == (("top_k", "40"),)
    assert chat.stream
    assert chat.end_user == "u-1"
    assert (chat.thinking, chat.thinking_display) == (Thinking.ADAPTIVE, ThinkingDisplay.OMITTED)
    assert chat.reasoning_effort == "high"
    assert json.loads(chat.response_format or "")["json_schema"]["schema"] == {"type": "object"}
    assert (chat.tools[0].description, chat.tools[0].strict) == ("Level.", True)
    assert json.loads(chat.tool_choice or "") == {"type": "function", "function": {"name": "read_gauge"}}
    assert chat.parallel_tool_calls is False
    assert chat.prompt is not None
    assert chat.prompt.variables == (("product", "x"),)


@pytest.mark.parametrize(("word", "ours"), [("auto", '"auto"'), ("any", '"required"'), ("none", '"none"')])
def test_reads_the_words_of_a_tool_choice(word: str, ours: str) -> None:
    chat = parse_messages(body(tools=[TOOL], tool_choice={"type": word}))
    assert chat.tool_choice == ours
    assert chat.parallel_tool_calls is None


def test_a_turn_with_results_becomes_a_message_for_each_and_one_for_the_rest() -> None:
    words = [{"type": "text", "text": "no"}]
    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": "a", "content": "3 m"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": words,
            "is_error": True,
        },
        {"type": "tool_result", "tool_use_id": "c"},
        {"type": "text", "text": "and now?"},
    ]
    assert parse_messages(body(messages=turn(*results))).messages == (
        Message(Role.TOOL, (TextPart("3 m"),), tool_call_id="a"),
        Message(Role.TOOL, (TextPart("no"),), tool_call_id="b", as_string=False, is_error=True),
        Message(Role.TOOL, (), tool_call_id="c", as_string=False),
        Message(Role.USER, (TextPart("and now?"),), as_string=False),
    )


def test_an_earlier_answer_keeps_reasoning_text_and_calls() -> None:
    said: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "a", "name": "read_gauge", "input": {"at": "Dover"}},
    ]
    assert parse_messages(body(messages=turn(*said, role="assistant"))).messages == (
        Message(
            Role.ASSISTANT,
            (TextPart("I look."),),
            tool_calls=(ToolCall("a", "read_gauge", '{"at":"Dover"}'),),
            reasoning="Hm.",
            as_string=False,
        ),
    )


def test_an_instruction_in_the_course_of_a_conversation_keeps_its_place() -> None:
    turns = [{"role": "user", "content": "A"}, {"role": "system", "content": "B"}]
    roles = [message.role for message in parse_messages(body(messages=turns)).messages]
    assert roles == [Role.USER, Role.SYSTEM]


def test_images_and_documents_become_parts_that_nobody_can_read() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        "title": "tides.pdf",
    }
    parts = parse_messages(body(messages=turn(image, document))).messages[0].parts
    assert all(isinstance(part, OpaquePart) for part in parts)
    assert [part.kind for part in parts if isinstance(part, OpaquePart)] == ["image_url", "file"]


@pytest.mark.parametrize(
    "source", [{"type": "url", "url": "http://10.0.0.1/"}, {"type": "file", "file_id": "file_1"}]
)
@pytest.mark.parametrize("kind", ["image", "document"])
def test_content_that_lives_elsewhere_is_refused(kind: str, source: dict[str, str]) -> None:
    code, param = refused(messages=turn({"type": kind, "source": source}))
    assert (code, param) == ("remote-url-refused", "messages[0].content[0].source")


@pytest.mark.parametrize(
    ("controls", "lifetime"),
    [([None], None), ([{}], CacheLifetime.SHORT), ([{}, {"ttl": "1h"}], CacheLifetime.LONG)],
)
def test_wishes_for_caching_are_joined(
    controls: list[dict[str, str] | None], lifetime: CacheLifetime | None
) -> None:
    blocks = [
        {"type": "text", "text": "A"} | ({} if c is None else {"cache_control": {"type": "ephemeral", **c}})
        for c in controls
    ]
    assert parse_messages(body(system=blocks)).cache_lifetime is lifetime
    assert parse_messages(body(messages=turn(*blocks))).cache_lifetime is lifetime
    result = {"type": "tool_result", "tool_use_id": "a", "content": blocks}
    assert parse_messages(body(messages=turn(result))).cache_lifetime is lifetime


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"max_tokens": 0}, "invalid-value", "max_tokens"),
        ({"max_tokens": None}, "invalid-value", "max_tokens"),
        ({"messages": []}, "invalid-value", "messages"),
        ({"mcp_servers": []}, "unknown-field", "mcp_servers"),
        ({"container": "c"}, "unknown-field", "container"),
        ({"service_tier": "auto"}, "unknown-field", "service_tier"),
        ({"temperature": 1.5}, "invalid-value", "temperature"),
        ({"metadata": {"name": "x"}}, "unknown-field", "metadata.name"),
        ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "invalid-value", "tools[0].type"),
        ({"tools": [TOOL, TOOL]}, "invalid-value", "tools[1].name"),
        ({"tools": [{**TOOL, "input_schema": {"user": {}}}]}, "unknown-field", "tools[0].input_schema.user"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "invalid-value", "thinking.budget_tokens"),
        ({"messages": [{"role": "user", "content": []}]}, "invalid-value", "messages[0].content"),
        ({"messages": [{"role": "assistant", "content": []}]}, "invalid-value", "messages[0].content"),
        (
            {
                "messages": turn(
                    {"type": "text", "text": "A"}, {"type": "tool_result", "tool_use_id": "a", "content": "B"}
                )
            },
            "invalid-value",
            "messages[0].content[1]",
        ),
        (
            {
                "messages": turn(
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                    {"type": "text", "text": "A"},
                    role="assistant",
                )
            },
            "invalid-value",
            "messages[0].content[1]",
        ),
        (
            {
                "messages": turn(
                    {"type": "text", "text": "A"}, {"type": "thinking", "thinking": "B"}, role="assistant"
                )
            },
            "invalid-value",
            "messages[0].content[1]",
        ),
        (
            {"messages": turn({"type": "thinking", "thinking": "B", "signature": "x"}, role="assistant")},
            "invalid-value",
            "messages[0].content[0].signature",
        ),
        (
            {
                "messages": turn(
                    {
                        "type": "image",
                        "source": SVG,
                    }
                )
            },
            "invalid-value",
            "messages[0].content[0].source.media_type",
        ),
    ],
)
def test_refuses_what_it_does_not_carry(fields: dict[str, Any], code: str, param: str) -> None:
    found, where = refused(**fields)
    assert found == code
    assert (where or "").replace("[...]", "[0]") == param


def test_a_count_needs_no_bound_on_the_answer() -> None:
    said = {"model": "assistant", "messages": [{"role": "user", "content": "Hello"}], "system": "S"}
    assert len(parse_count(json.dumps(said).encode()).messages) == 2
    with pytest.raises(RequestRefused, match="max_tokens"):
        parse_count(json.dumps({**said, "max_tokens": 5}).encode())
