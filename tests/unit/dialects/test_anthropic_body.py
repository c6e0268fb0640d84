"""What an Anthropic destination receives, from clients of both dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import openai_body
from gateway.dialects.anthropic_body import unsaid
from gateway.dialects.anthropic_request import parse_messages
from gateway.dialects.openai_body import TOOL_FAILED, encode_body
from gateway.dialects.openai_request import parse_chat
from gateway.domain.chat import ChatRequest, ResolvedRequest
from gateway.errors import RequestRefused
from tests.unit.dialects import chat_bodies, messages_bodies
from tests.unit.dialects.chat_bodies import place
from tests.unit.dialects.messages_bodies import PDF, PNG, sent, turn

SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    "title": "tides.pdf",
}
LOOSE = {"name": "n", "schema": {}, "strict": False}
CALL = {"type": "tool_use", "id": "a", "name": "read_gauge", "input": {"at": "Dover"}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": [IMAGE], "is_error": True}
FAILED = {**RESULT, "content": "no gauge"}
BUDGET = {"type": "enabled", "budget_tokens": 1024}
TURNS = [
    {"role": "user", "content": [{"type": "text", "text": "How high?"}, IMAGE, DOCUMENT]},
    {"role": "assistant", "content": [{"type": "text", "text": "I look."}, CALL]},
    {"role": "user", "content": [RESULT, {"type": "text", "text": "Well?"}]},
    {"role": "system", "content": "Be short."},
    {"role": "assistant", "content": "It is"},
]
WHOLE: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 2048,
    "messages": TURNS,
    "system": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
    "tools": [{"name": "read_gauge", "description": "Level.", "input_schema": SCHEMA, "strict": True}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"},
    "output_config": {"effort": "max", "format": {"type": "json_schema", "schema": SCHEMA}},
    "stop_sequences": ["END"],
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "stream": True,
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
}


def from_openai(**fields: Any) -> ChatRequest:
    return parse_chat(chat_bodies.body(**fields))


def test_a_request_of_its_own_dialect_arrives_as_it_was_sent() -> None:
    assert sent(parse_messages(json.dumps(WHOLE).encode())) == WHOLE


def test_the_end_user_is_named_by_a_digest_only() -> None:
    chat = parse_messages(messages_bodies.body(metadata={"user_id": "alice"}))
    assert sent(chat, user_digest="d1")["metadata"] == {"user_id": "d1"}
    assert "metadata" not in sent(chat)


@pytest.mark.parametrize(
    ("asked", "cap", "bound"), [(None, None, 1024), (500, None, 500), (500, 100, 100), (None, 100, 100)]
)
def test_there_is_always_a_bound_on_the_answer(asked: int | None, cap: int | None, bound: int) -> None:
    chat = from_openai(max_completion_tokens=asked)
    assert sent(chat, max_output_tokens=cap)["max_tokens"] == bound


def test_a_chat_request_is_said_in_its_words() -> None:
    chat = from_openai(
        messages=[
            {"role": "system", "content": "A"},
            {"role": "developer", "content": [{"type": "text", "text": "B"}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "How high?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                    {
                        "type": "file",
                        "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "tides.pdf"},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "reasoning": "Hm.",
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "read_gauge", "arguments": '{"at": "Dover"}'},
                    }
                ],
            },
            {"role": "tool", "content": "3 m", "tool_call_id": "a"},
            {"role": "user", "content": "Well?"},
        ],
        tools=[{"type": "function", "function": {"name": "read_gauge"}}],
        tool_choice={"type": "function", "function": {"name": "read_gauge"}},
        parallel_tool_calls=False,
        reasoning_effort="minimal",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
        stop="END",
    )
    assert unsaid(chat) is None
    assert sent(chat) == {
        "model": "claude",
        "max_tokens": 1024,
        "system": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "How high?"}, IMAGE, DOCUMENT]},
            {"role": "assistant", "content": [CALL]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "3 m"},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
        "tools": [{"name": "read_gauge", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "read_gauge", "disable_parallel_tool_use": True},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        "stop_sequences": ["END"],
    }


def test_no_effort_means_no_thinking() -> None:
    assert sent(from_openai(reasoning_effort="none"))["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"seed": 7}, "seed"),
        ({"temperature": 1.2}, "temperature"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"min_p": 0.5}, "min_p"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": LOOSE}},
            "response_format",
        ),
        ({"messages": [{"role": "system", "content": "A"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "A", "name": "b"}]}, "messages[].name"),
        ({"messages": [{"role": "assistant", "content": "A"}]}, "messages[].role"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}],
                    }
                ]
            },
            "messages[].content[]",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "image_url",
                                "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"},
                            }
                        ],
                    }
                ]
            },
            "messages[].content[]",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
                        ],
                    },
                    {"role": "tool", "tool_call_id": "a", "content": "x"},
                ]
            },
            "messages[].tool_calls[].function.arguments",
        ),
    ],
)
def test_what_it_has_no_word_for_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    assert unsaid(from_openai(**fields)) == param
    with pytest.raises(RequestRefused) as caught:
        sent(from_openai(**fields))
    assert (caught.value.code, caught.value.param) == ("unsupported-field", param)


# -- the other way: an Anthropic client and a destination that speaks the chat format --------------


def chat_body(kind: str = "vllm", **fields: Any) -> Any:
    chat = parse_messages(messages_bodies.body(**fields))
    assert openai_body.unsaid(chat, kind) is None
    return json.loads(encode_body(ResolvedRequest(chat), place(kind)))


def test_a_messages_request_is_said_in_the_chat_format() -> None:
    found = chat_body(
        system="Be short.",
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "How high?"}, IMAGE]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, CALL]},
            {
                "role": "user",
                "content": [FAILED, {"type": "text", "text": "Well?"}],
            },
        ],
        tools=[{"name": "read_gauge", "input_schema": SCHEMA}],
        tool_choice={"type": "any"},
        stop_sequences=["END"],
        thinking={"type": "adaptive"},
        output_config={"effort": "max"},
    )
    assert found["messages"] == [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "How high?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "read_gauge", "arguments": '{"at":"Dover"}'},
                }
            ],
            "reasoning": "Hm.",
        },
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": [{"type": "text", "text": TOOL_FAILED}, {"type": "text", "text": "no gauge"}],
        },
        {"role": "user", "content": [{"type": "text", "text": "Well?"}]},
    ]
    assert found["tool_choice"] == "required"
    assert (found["max_tokens"], found["stop"], found["reasoning_effort"]) == (64, ["END"], "xhigh")


def test_an_answer_that_was_begun_is_continued_where_the_server_can() -> None:
    turns = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
    found = chat_body(messages=turns)
    assert (found["continue_final_message"], found["add_generation_prompt"]) == (True, False)
    chat = parse_messages(messages_bodies.body(messages=turns))
    assert openai_body.unsaid(chat, "openai") == "messages[].role"


def test_thinking_that_is_turned_off_is_no_effort() -> None:
    assert chat_body(thinking={"type": "disabled"})["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"max_tokens": 4096, "thinking": BUDGET},
            "thinking.budget_tokens",
        ),
        ({"messages": turn(RESULT)}, "messages[].content[].content[]"),
    ],
)
def test_what_the_chat_format_has_no_word_for_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    for kind in openai_body.KINDS:
        chat = parse_messages(messages_bodies.body(**fields))
        assert openai_body.unsaid(chat, kind) == param
        with pytest.raises(RequestRefused) as caught:
            encode_body(ResolvedRequest(chat), place(kind))
        assert (caught.value.code, caught.value.param) == ("unsupported-field", param)
