"""The official clients, Python and Node, against gateway and real vLLM node: what a user of both sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.e2e.conftest import RESTRICTED
from tests.fakes.client_rig import PRIVATE, ask, reasons_of, text_of
from tests.fakes.hosted_standin import recorded_bytes, recorded_requests
from tests.fakes.node_client import node_call
from tests.fakes.stack import GatewayProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

CAPITAL = "What is the capital of France?"
#: The model is small (135M parameters); with a system message and this order it answers to the point.
WITH_IBAN: list[Any] = [
    {"role": "system", "content": "Answer in one short English sentence."},
    {"role": "user", "content": f"Customer with IBAN {RESTRICTED['iban']} asks: {CAPITAL}"},
]
STEADY: dict[str, Any] = {"temperature": 0, "seed": 7, "max_completion_tokens": 40}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather in a city.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "rating",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "label": {"type": "string", "enum": ["finance", "sport", "weather"]},
                "score": {"type": "integer", "minimum": 0, "maximum": 10},
            },
            "required": ["label", "score"],
            "additionalProperties": False,
        },
    },
}
PYTHON_AND_NODE = pytest.mark.parametrize("language", ["python", "node"])


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=gateway.base_url + "/v1", api_key=gateway.token(), max_retries=0, timeout=120
    ) as made:
        yield made


def node(gateway: GatewayProcess, call: str, text: str = CAPITAL, **given: Any) -> dict[str, Any]:
    """What came of one call of the Node client, sent to the private node."""
    given = {"messages": [{"role": "user", "content": text}], "headers": PRIVATE, "timeout": 120_000, **given}
    return node_call(gateway.base_url + "/v1", gateway.token(), call, **given)


def test_a_question_with_an_iban_is_answered_by_the_private_node_in_english(
    gateway: GatewayProcess, client: openai.OpenAI, hosted_record: Path
) -> None:
    raw = client.chat.completions.with_raw_response.create(model="assistant", messages=WITH_IBAN, **STEADY)
    answer = raw.parse()
    assert "capital of France is Paris" in (answer.choices[0].message.content or "")
    assert raw.headers["x-tidegate-destination"] == "private-moe"
    assert raw.headers["x-tidegate-label"] == "restricted"
    assert "-ep" in (answer.system_fingerprint or "")
    told = node(gateway, "plain", messages=WITH_IBAN, headers={}, **STEADY)
    assert "capital of France is Paris" in told["answer"]["choices"][0]["message"]["content"]
    assert told["headers"]["x-tidegate-destination"] == "private-moe"
    assert "-ep" in told["answer"]["system_fingerprint"]
    assert RESTRICTED["iban"].encode() not in recorded_bytes(hosted_record)


def test_a_public_question_goes_to_the_hosted_place(client: openai.OpenAI, hosted_record: Path) -> None:
    count = len(recorded_requests(hosted_record))
    raw = client.chat.completions.with_raw_response.create(
        model="assistant", messages=[{"role": "user", "content": CAPITAL}]
    )
    assert raw.headers["x-tidegate-destination"] == "hosted-openai"
    assert len(recorded_requests(hosted_record)) == count + 1


@pytest.mark.parametrize("kind", ["card", "ssn"])
def test_other_identifiers_stay_too(client: openai.OpenAI, kind: str) -> None:
    text = {"card": "Pay with card {}.", "ssn": "My social security number is {}."}[kind]
    raw = client.chat.completions.with_raw_response.create(
        model="assistant",
        messages=[{"role": "user", "content": text.format(RESTRICTED[kind])}],
        max_completion_tokens=4,
    )
    assert raw.headers["x-tidegate-destination"] == "private-moe"


@PYTHON_AND_NODE
def test_streams_the_text_of_the_whole_answer(
    gateway: GatewayProcess, client: openai.OpenAI, language: str
) -> None:
    usage = {"include_usage": True}
    whole = ask(client, CAPITAL, extra_headers=PRIVATE, **STEADY).choices[0].message.content
    assert "Paris" in whole
    if language == "python":
        chunks: list[ChatCompletionChunk] = list(
            ask(client, CAPITAL, stream=True, stream_options=usage, extra_headers=PRIVATE, **STEADY)
        )
        assert text_of(chunks) == whole
        assert reasons_of(chunks) in (["stop"], ["length"])
        assert chunks[-1].choices == []
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens > 0
        return
    told = node(gateway, "stream", stream_options=usage, **STEADY)
    assert told["text"] == whole
    assert told["reasons"] in (["stop"], ["length"])
    assert told["bareChunks"] == 0
    assert told["usage"]["completion_tokens"] > 0


@PYTHON_AND_NODE
@pytest.mark.parametrize("choice", ["required", "named"])
def test_calls_a_tool_plain_and_streamed(
    gateway: GatewayProcess, client: openai.OpenAI, language: str, choice: str
) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    text = "What is the weather in Paris?"
    fields: dict[str, Any] = {
        "tools": [TOOL],
        "tool_choice": "required" if choice == "required" else named,
        "temperature": 0,
        "max_completion_tokens": 60,
    }
    if language == "python":
        plain = ask(client, text, extra_headers=PRIVATE, **fields).choices[0]
        [called] = plain.message.tool_calls
        name, arguments = called.function.name, called.function.arguments
        chunks = list(ask(client, text, stream=True, extra_headers=PRIVATE, **fields))
        pieces = [
            piece.function
            for chunk in chunks
            for one in chunk.choices
            for piece in one.delta.tool_calls or []
            if piece.function
        ]
        streamed = "".join(piece.arguments or "" for piece in pieces)
        streamed_name = "".join(piece.name or "" for piece in pieces)
        assert len(reasons_of(chunks)) == 1
    else:
        [told] = node(gateway, "plain", text, **fields)["answer"]["choices"][0]["message"]["tool_calls"]
        name, arguments = told["function"]["name"], told["function"]["arguments"]
        seen = node(gateway, "stream", text, **fields)
        streamed_name, streamed = seen["calls"]["0"]["name"], seen["calls"]["0"]["arguments"]
        assert len(seen["reasons"]) == 1
    assert name == streamed_name == "get_weather"
    # The tool is strict: without that, this model gives a bare string (vLLM 0.32, measured).
    assert set(json.loads(arguments)) == {"city"}
    assert json.loads(streamed) == json.loads(arguments)


@PYTHON_AND_NODE
def test_holds_a_json_schema(gateway: GatewayProcess, client: openai.OpenAI, language: str) -> None:
    text = "Rate this news: the bank raised its interest rate."
    fields: dict[str, Any] = {"response_format": SCHEMA, "temperature": 0, "max_completion_tokens": 60}
    if language == "python":
        content = ask(client, text, extra_headers=PRIVATE, **fields).choices[0].message.content
    else:
        content = node(gateway, "plain", text, **fields)["answer"]["choices"][0]["message"]["content"]
    rating = json.loads(content)
    assert set(rating) == {"label", "score"}
    assert rating["label"] in {"finance", "sport", "weather"}
    assert 0 <= rating["score"] <= 10


def test_gives_several_choices_with_logprobs(gateway: GatewayProcess, client: openai.OpenAI) -> None:
    # vLLM refuses n above 1 at temperature 0 ("greedy sampling").
    fields: dict[str, Any] = {"n": 2, "temperature": 0.5, "seed": 7, "max_completion_tokens": 12}
    logprobs: dict[str, Any] = {"logprobs": True, "top_logprobs": 2}
    answer = ask(client, CAPITAL, extra_headers=PRIVATE, **fields, **logprobs)
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        entries = choice.logprobs.content
        # The token that ends an answer has its probability told, but is no text of it.
        tokens = "".join(entry.token for entry in entries).removesuffix("<|im_end|>")
        assert tokens == choice.message.content
        assert all(entry.logprob <= 0 and len(entry.top_logprobs) >= 2 for entry in entries)
    chunks = list(ask(client, CAPITAL, stream=True, extra_headers=PRIVATE, **fields, **logprobs))
    for index in (0, 1):
        assert len(text_of(chunks, index)) > 10
        assert len(reasons_of(chunks, index)) == 1
    told = node(gateway, "plain", **fields)["answer"]["choices"]
    assert [len(one["message"]["content"]) > 10 for one in told] == [True, True]


def test_takes_vllm_fields_that_the_policy_lists(client: openai.OpenAI) -> None:
    fields = {"top_k": 1, "min_tokens": 2, "structured_outputs": {"choice": ["yes", "no"]}}
    answer = ask(client, "Is Paris in France?", extra_body=fields, max_completion_tokens=8)
    assert answer.choices[0].message.content in {"yes", "no"}


def test_an_upstream_refusal_keeps_its_class_and_loses_its_words(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "word " * 9000, extra_headers=PRIVATE)
    assert caught.value.code == "context_length_exceeded"
    assert "vllm" not in caught.value.response.text.lower()


def test_the_gateway_goes_on_after_a_stream_that_was_left(client: openai.OpenAI) -> None:
    with ask(
        client, "Tell me a long story.", stream=True, max_completion_tokens=400, extra_headers=PRIVATE
    ) as s:
        for chunk in s:
            if text_of([chunk]):
                break
    assert "Paris" in ask(client, CAPITAL, extra_headers=PRIVATE, **STEADY).choices[0].message.content
