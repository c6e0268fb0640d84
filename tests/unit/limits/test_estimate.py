from __future__ import annotations

import pytest

from gateway.domain.chat import (
    ChatRequest,
    JsonText,
    Message,
    OpaquePart,
    Role,
    Sampling,
    TextPart,
    ToolCall,
    ToolDefinition,
)
from gateway.limits.estimate import (
    MESSAGE_TOKENS,
    OPAQUE_TOKENS_MAX,
    TOOL_TOKENS,
    estimate_output_tokens,
    estimate_prompt_tokens,
    text_tokens,
)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("é", 1), ("語", 1), ("\ud800", 1)]
)
def test_counts_three_bytes_as_one_token(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


def chat(*messages: Message, **fields: object) -> ChatRequest:
    return ChatRequest(model="assistant", messages=messages, **fields)  # type: ignore[arg-type]


def test_every_text_that_is_sent_counts() -> None:
    message = Message(
        Role.ASSISTANT,
        (TextPart("x" * 30), OpaquePart("image_url", JsonText("y" * 60))),
        name="n" * 3,
        tool_calls=(ToolCall("call_1", "f" * 3, "g" * 6),),
        refusal="r" * 9,
        reasoning="s" * 12,
    )
    tool = ToolDefinition("t" * 3, "d" * 6, JsonText("p" * 9))
    request = chat(message, tools=(tool,), response_format=JsonText("q" * 15))
    expected = MESSAGE_TOKENS + 10 + 20 + 1 + (TOOL_TOKENS + 1 + 2) + 3 + 4 + (TOOL_TOKENS + 1 + 2 + 3) + 5
    assert estimate_prompt_tokens(request) == expected


def test_one_opaque_part_is_bounded() -> None:
    huge = OpaquePart("image_url", JsonText("y" * 3_000_000))
    assert estimate_prompt_tokens(chat(Message(Role.USER, (huge,)))) == MESSAGE_TOKENS + OPAQUE_TOKENS_MAX


def test_an_empty_request_costs_at_least_one_token() -> None:
    assert estimate_prompt_tokens(chat()) == 1


def test_output_is_the_allowed_output_times_n() -> None:
    assert estimate_output_tokens(chat(sampling=Sampling(max_output_tokens=50, n=3)), 1_000) == 150


def test_output_without_a_bound_is_the_default_times_n() -> None:
    assert estimate_output_tokens(chat(sampling=Sampling(n=128)), 1_000) == 128_000


def test_output_is_never_below_one() -> None:
    assert estimate_output_tokens(chat(sampling=Sampling(max_output_tokens=0)), 1_000) == 1
