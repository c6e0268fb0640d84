"""OpenAI's responses: every field arrives in the request, or is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import openai_body
from gateway.dialects.anthropic_body import unsaid
from gateway.dialects.openai_body import encode_body
from gateway.dialects.responses_request import parse_responses
from gateway.domain.chat import (
    ChatRequest,
    Message,
    OpaquePart,
    ResolvedRequest,
    Role,
    Surface,
    TextPart,
    ToolCall,
)
from gateway.errors import RequestRefused
from tests.unit.dialects.chat_bodies import place
from tests.unit.dialects.messages_bodies import PNG, sent

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
URL = f"data:image/png;base64,{PNG}"


def parse(**fields: Any) -> ChatRequest:
    return parse_responses(json.dumps({"model": "assistant", "input": "Hello", **fields}).encode())


def said(role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(content), **more}


def test_reads_a_short_request() -> None:
    chat = parse()
    assert chat.messages == (Message(Role.USER, (TextPart("Hello"),)),)
    assert (chat.surface, chat.stream) == (Surface.RESPONSES, False)


def test_reads_every_plain_field() -> None:
    chat = parse(
        instructions="Be short.",
        max_output_tokens=9,
        temperature=0.5,
        top_p=0.9,
        tools=[TOOL],
        tool_choice={"type": "function", "name": "f"},
        parallel_tool_calls=False,
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
        reasoning={"effort": "low"},
        stream=True,
        store=False,
        truncation="disabled",
        prompt={"id": "p", "variables": {"a": "b"}},
    )
    assert chat.messages[0] == Message(Role.SYSTEM, (TextPart("Be short."),))
    assert (chat.sampling.max_output_tokens, chat.sampling.temperature, chat.sampling.top_p) == (9, 0.5, 0.9)
    assert (chat.tools[0].name, chat.tools[0].strict) == ("f", True)
    assert json.loads(chat.tool_choice or "") == {"type": "function", "function": {"name": "f"}}
    assert chat.parallel_tool_calls is False
    assert json.loads(chat.response_format or "") == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }
    assert (chat.reasoning_effort, chat.stream) == ("low", True)
    assert chat.prompt is not None
    assert chat.prompt.id == "p"


def test_items_of_one_answer_become_one_message() -> None:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "How high?"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
        },
        said(
            "assistant",
            {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []},
            id="msg_1",
            status="completed",
        ),
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "3 m"},
        {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "4 m"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        said("assistant", {"type": "refusal", "refusal": "No."}),
        said("assistant", {"type": "output_text", "text": "Or so."}),
        {"role": "developer", "content": [{"type": "input_text", "text": "Be short."}]},
    ]
    assert parse(input=items).messages == (
        Message(Role.USER, (TextPart("How high?"),)),
        Message(
            Role.ASSISTANT,
            (TextPart("I look."),),
            tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")),
            reasoning="Hm.",
            as_string=False,
        ),
        Message(Role.TOOL, (TextPart("3 m"),), tool_call_id="a"),
        Message(Role.TOOL, (TextPart("4 m"),), tool_call_id="b", as_string=False),
        Message(Role.ASSISTANT, (), tool_calls=(ToolCall("c", "f", "{}"),)),
        Message(Role.ASSISTANT, (), refusal="No."),
        Message(Role.ASSISTANT, (TextPart("Or so."),), as_string=False),
        Message(Role.DEVELOPER, (TextPart("Be short."),), as_string=False),
    )


def test_images_are_opaque_and_files_must_be_inline() -> None:
    image = {"type": "input_image", "image_url": URL, "detail": "auto"}
    assert isinstance(parse(input=[said("user", image)]).messages[0].parts[0], OpaquePart)
    with pytest.raises(RequestRefused) as caught:
        parse(input=[said("user", {**image, "image_url": "http://10.0.0.1/"})])
    assert (caught.value.code, caught.value.param) == ("remote-url-refused", "input[0].content[0].image_url")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"store": True}, "not-stored", "store"),
        ({"previous_response_id": "resp_1"}, "not-stored", "previous_response_id"),
        ({"input": []}, "invalid-value", "input"),
        ({"conversation": "c"}, "unknown-field", "conversation"),
        ({"background": True}, "invalid-value", "background"),
        ({"truncation": "auto"}, "invalid-value", "truncation"),
        ({"include": ["reasoning.encrypted_content"]}, "invalid-value", "include"),
        ({"user": "u"}, "unknown-field", "user"),
        ({"tools": [{"type": "web_search"}]}, "invalid-value", "tools[0].type"),
        ({"tools": [TOOL, TOOL]}, "invalid-value", "tools[1].name"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "invalid-value", "input[0].type"),
        ({"input": [{"role": "user", "content": "A", "odd": 1}]}, "unknown-field", "input[0].odd"),
        ({"input": [said("user")]}, "invalid-value", "input[0].content"),
        ({"input": [said("assistant")]}, "invalid-value", "input[0].content"),
        (
            {"input": [said("assistant", {"type": "input_image", "image_url": URL})]},
            "invalid-value",
            "input[0].content[0]",
        ),
        (
            {"input": [said("system", {"type": "input_image", "image_url": URL})]},
            "invalid-value",
            "input[0].content",
        ),
        (
            {"input": [said("user", {"type": "refusal", "refusal": "x"})]},
            "invalid-value",
            "input[0].content[0]",
        ),
        ({"input": [{"type": "reasoning", "summary": []}]}, "invalid-value", "input[0]"),
        (
            {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]},
            "unknown-field",
            "input[0].encrypted_content",
        ),
    ],
)
def test_refuses_what_it_does_not_carry(fields: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse(**fields)
    found = (caught.value.param or "").replace("[...]", "[0]")
    assert (caught.value.code, found) == (code, param)


def test_is_said_in_either_format() -> None:
    chat = parse(instructions="Be short.", max_output_tokens=9, reasoning={"effort": "low"})
    found = json.loads(encode_body(ResolvedRequest(chat), place("openai")))
    assert found["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hello"},
    ]
    assert (found["max_completion_tokens"], found["reasoning_effort"]) == (9, "low")
    assert sent(chat)["thinking"] == {"type": "adaptive"}
    last = parse(input=[{"role": "assistant", "content": "A"}])
    assert (unsaid(last), openai_body.unsaid(last, "openai")) == ("messages[].role", None)
