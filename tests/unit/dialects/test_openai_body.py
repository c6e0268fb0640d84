"""Bodies that leave: what is in them, and what never is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.openai_body import encode_body
from gateway.dialects.openai_request import parse_chat
from gateway.domain.chat import (
    ChatRequest,
    JsonText,
    Message,
    PromptReference,
    ResolvedRequest,
    Role,
    TextPart,
)
from gateway.errors import ConfigurationError, RequestRefused
from tests.unit.dialects.chat_bodies import asked, body, place


def sent(chat: ChatRequest, kind: str = "vllm", **more: Any) -> Any:
    """The body that leaves, parsed."""
    return json.loads(encode_body(ResolvedRequest(chat), place(kind), **more))


def test_sends_only_what_the_client_gave() -> None:
    assert sent(asked(stream=False)) == {
        "model": "moe",
        "messages": [{"role": "user", "content": "Hello"}],
    }


def test_asks_for_usage_whenever_it_streams() -> None:
    for include_usage in (False, True):
        found = sent(asked(include_usage=include_usage))
        assert found["stream"] is True
        assert found["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("asked_tokens", "cap", "expected"),
    [(None, None, None), (9, None, 9), (None, 5, 5), (9, 5, 5), (3, 5, 3)],
)
def test_sends_the_smaller_limit_of_output_tokens(
    asked_tokens: int | None, cap: int | None, expected: int | None
) -> None:
    chat = asked(max_output_tokens=asked_tokens)
    assert sent(chat, "vllm", max_output_tokens=cap).get("max_tokens") == expected
    assert sent(chat, "openai", max_output_tokens=cap).get("max_completion_tokens") == expected
    assert "max_tokens" not in sent(chat, "openai", max_output_tokens=cap)


def test_sends_the_gateways_own_fields_to_a_node_of_its_own_only() -> None:
    found = sent(asked(), "vllm", cache_salt="salt", priority=-3)
    assert (found["cache_salt"], found["priority"]) == ("salt", -3)
    found = sent(asked(), "openai", cache_salt="salt", priority=-3)
    assert not {"cache_salt", "priority"} & set(found)


def test_sends_messages_as_they_came() -> None:
    messages = [
        {"role": "system", "content": "S", "name": "chief"},
        {"role": "user", "content": [{"type": "text", "text": "U"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}],
        },
        {"role": "tool", "content": "T", "tool_call_id": "c"},
        {"role": "assistant", "content": "A", "refusal": "no"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        },
    ]
    assert sent(parse_chat(body(messages=messages)))["messages"] == messages


def test_sends_earlier_reasoning_to_a_node_of_its_own_only() -> None:
    chat = parse_chat(body(messages=[{"role": "assistant", "content": "A", "reasoning_content": "R"}]))
    assert sent(chat, "vllm")["messages"][0]["reasoning"] == "R"
    assert sent(chat, "openai")["messages"] == [{"role": "assistant", "content": "A"}]


def test_keeps_several_texts_of_one_rendered_message_apart() -> None:
    chat = replace(asked(), messages=(Message(Role.USER, (TextPart("a"), TextPart("b"))),))
    assert [part["text"] for part in sent(chat)["messages"][0]["content"]] == ["a", "b"]


def test_sends_tools_sampling_and_form() -> None:
    fields: dict[str, Any] = {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "D",
                    "parameters": {"type": "object"},
                    "strict": True,
                },
            },
            {"type": "function", "function": {"name": "g"}},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
        "temperature": 0.5,
        "top_p": 0.25,
        "seed": 7,
        "presence_penalty": 1.0,
        "frequency_penalty": -1.0,
        "logprobs": True,
        "top_logprobs": 2,
        "n": 2,
        "stop": ["a", "b"],
        "logit_bias": {"5": 1.5},
    }
    found = sent(parse_chat(body(**fields)), "openai")
    assert {name: found[name] for name in fields} == fields
    assert set(found) == {"model", "messages", *fields}


def test_refuses_an_extension_that_the_destination_does_not_list() -> None:
    chat = parse_chat(body(top_k=5))
    with pytest.raises(RequestRefused) as caught:
        encode_body(ResolvedRequest(chat), place("openai", extensions=frozenset({"min_p"})))
    assert (caught.value.code, caught.value.param) == ("unsupported-field", "top_k")
    assert sent(chat)["top_k"] == 5


def test_refuses_an_extension_that_would_replace_a_field_of_the_gateway() -> None:
    chat = replace(asked(), extensions=(("model", JsonText('"other"')),))
    with pytest.raises(RequestRefused):
        encode_body(ResolvedRequest(chat), place(extensions=frozenset({"model"})))


def test_refuses_a_request_whose_prompt_was_not_rendered() -> None:
    chat = replace(asked(), messages=(), prompt=PromptReference("p", "1"))
    with pytest.raises(RequestRefused):
        encode_body(ResolvedRequest(chat), place())


def test_does_not_send_the_reference_of_a_rendered_prompt() -> None:
    assert "prompt" not in sent(replace(asked(), prompt=PromptReference("p", "1")))


def test_speaks_to_no_other_kind() -> None:
    with pytest.raises(ConfigurationError):
        encode_body(ResolvedRequest(asked()), place("telegraph"))
