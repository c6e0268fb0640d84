"""A true model that writes a tool call wrongly: what the gateway makes of it, plain and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.fakes.client_rig import PRIVATE, ask
from tests.fakes.stack import GatewayProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

QUESTION = "What is the weather in Paris?"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}


def tool(*, strict: bool) -> dict[str, Any]:
    """The same tool; only with `strict` does the server hold the model to the schema."""
    function = {"name": "get_weather", "description": "Weather in a city.", "parameters": PARAMETERS}
    return {"type": "function", "function": {**function, **({"strict": True} if strict else {})}}


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=gateway.base_url + "/v1", api_key=gateway.token(), max_retries=0, timeout=120
    ) as made:
        yield made


def called(client: openai.OpenAI, is_stream: bool, **fields: Any) -> str:
    """Arguments of the one call, or what the client raises."""
    fields = {"temperature": 0, "max_completion_tokens": 60, "extra_headers": PRIVATE, **fields}
    if not is_stream:
        [call] = ask(client, QUESTION, **fields).choices[0].message.tool_calls
        arguments: str = call.function.arguments
        return arguments
    pieces = [
        piece.function.arguments or ""
        for chunk in ask(client, QUESTION, stream=True, **fields)
        for choice in chunk.choices
        for piece in choice.delta.tool_calls or []
    ]
    return "".join(pieces)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("choice", ["required", "named"])
def test_a_bare_string_of_a_true_model_is_a_typed_error_and_its_object_comes_through(
    client: openai.OpenAI, choice: str, is_stream: bool
) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    wanted: Any = "required" if choice == "required" else named
    with pytest.raises(openai.APIError) as caught:
        called(client, is_stream, tools=[tool(strict=False)], tool_choice=wanted)
    assert caught.value.code == "tool-arguments-invalid"
    arguments = called(client, is_stream, tools=[tool(strict=True)], tool_choice=wanted)
    assert set(json.loads(arguments)) == {"city"}
