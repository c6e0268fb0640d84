"""The official Python client, unmodified, against a running gateway: answers and streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

from tests.fakes.chat_answers import SENTENCES
from tests.fakes.client_rig import (
    DENIED_MODEL,
    IBAN,
    ClientRig,
    ask,
    reasons_of,
    running_client_rig,
    text_of,
)

pytestmark = pytest.mark.integration

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_tide",
        "description": "Height of the water at a harbour.",
        "parameters": {
            "type": "object",
            "properties": {"harbour": {"type": "string"}, "metres": {"type": "number"}},
            "required": ["harbour", "metres"],
        },
    },
}
ARGUMENTS = {"harbour": "harbour", "metres": 1.5}
SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "reading",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "level": {"type": "integer"}},
            "required": ["place", "level"],
            "additionalProperties": False,
        },
    },
}


class Reading(BaseModel):
    """What the `parse` helper is asked for."""

    place: str
    level: int


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientRig]:
    with running_client_rig(tmp_path_factory.mktemp("openai-python")) as running:
        yield running


@pytest.fixture
def client(rig: ClientRig) -> Iterator[openai.OpenAI]:
    with rig.client() as made:
        yield made


# -- whole answers ---------------------------------------------------------------------------------


def test_answers_a_question(rig: ClientRig, client: openai.OpenAI) -> None:
    answer = ask(client)
    assert isinstance(answer, ChatCompletion)
    assert answer.model == "assistant"
    assert answer.object == "chat.completion"
    assert [choice.message.content for choice in answer.choices] == [SENTENCES[0]]
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer._request_id is not None
    assert answer._request_id.startswith("req_")
    assert answer.id == f"chatcmpl-{answer._request_id}"
    assert rig.key() not in str(rig.hosted_bytes())


def test_tells_the_gateways_headers_to_a_raw_caller(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="assistant", messages=[{"role": "user", "content": "What is a tide gate?"}]
    )
    assert raw.status_code == 200
    assert raw.headers["x-tidegate-destination"] == "hosted-openai"
    assert raw.headers["x-tidegate-label"] == "internal"
    assert raw.headers["x-tidegate-request-id"] == raw.request_id
    assert raw.parse().choices[0].message.content == SENTENCES[0]
    private = client.chat.completions.with_raw_response.create(
        model="assistant", messages=[{"role": "user", "content": f"My IBAN is {IBAN}."}]
    )
    assert private.headers["x-tidegate-destination"] == "private-moe"
    assert private.headers["x-tidegate-label"] == "restricted"


def test_gives_each_of_several_choices(client: openai.OpenAI) -> None:
    answer = ask(client, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert [choice.message.content for choice in answer.choices] == list(SENTENCES[:2])


def test_calls_a_tool_and_takes_its_result(rig: ClientRig, client: openai.OpenAI) -> None:
    first = ask(client, tools=[TOOL], tool_choice="required")
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    [call] = choice.message.tool_calls
    assert call.type == "function"
    assert call.function.name == "read_tide"
    assert json.loads(call.function.arguments) == ARGUMENTS
    second = client.chat.completions.create(
        model="assistant",
        messages=[
            {"role": "user", "content": "How high is the water?"},
            choice.message,
            {"role": "tool", "tool_call_id": call.id, "content": '{"metres": 1.5}'},
        ],
        tools=[TOOL],  # type: ignore[list-item]
    )
    assert second.choices[0].message.content == SENTENCES[0]
    sent = rig.hosted_bodies()[-1]["messages"]
    assert sent[1]["tool_calls"][0]["id"] == call.id
    assert sent[2] == {"role": "tool", "tool_call_id": call.id, "content": '{"metres": 1.5}'}


def test_calls_the_one_tool_that_is_named(client: openai.OpenAI) -> None:
    other = {"type": "function", "function": {"name": "close_gate", "parameters": {"type": "object"}}}
    named = {"type": "function", "function": {"name": "close_gate"}}
    answer = ask(client, tools=[TOOL, other], tool_choice=named)
    assert answer.choices[0].message.tool_calls[0].function.name == "close_gate"


def test_holds_a_json_schema(client: openai.OpenAI) -> None:
    answer = ask(client, response_format=SCHEMA)
    assert json.loads(answer.choices[0].message.content) == {"place": "harbour", "level": 1}


def test_parses_into_a_model_of_the_caller(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="assistant", messages=[{"role": "user", "content": "Read the gauge."}], response_format=Reading
    )
    assert answer.choices[0].message.parsed == Reading(place="harbour", level=1)


def test_gives_logprobs(client: openai.OpenAI) -> None:
    answer = ask(client, logprobs=True, top_logprobs=1)
    content = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in content) == SENTENCES[0]
    assert all(entry.logprob == -0.25 and len(entry.top_logprobs) == 1 for entry in content)


def test_passes_what_steers_the_answer(rig: ClientRig, client: openai.OpenAI) -> None:
    answer = ask(
        client,
        seed=7,
        temperature=0,
        top_p=0.5,
        stop=["END"],
        max_completion_tokens=3,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        logit_bias={"50256": -100},
        reasoning_effort="low",
        parallel_tool_calls=False,
        tools=[TOOL],
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.system_fingerprint == "fp_standin"
    sent = rig.hosted_bodies()[-1]
    assert sent["seed"] == 7
    assert sent["temperature"] == 0
    assert sent["top_p"] == 0.5
    assert sent["stop"] == ["END"]
    assert sent["max_completion_tokens"] == 3
    assert sent["presence_penalty"] == 0.5
    assert sent["frequency_penalty"] == -0.5
    assert sent["logit_bias"] == {"50256": -100}
    assert sent["reasoning_effort"] == "low"
    assert sent["parallel_tool_calls"] is False


def test_passes_vllm_fields_to_the_private_node_only(rig: ClientRig, client: openai.OpenAI) -> None:
    count = len(rig.hosted_bodies())
    ask(client, extra_body={"top_k": 5, "min_p": 0.1})
    sent = rig.private_bodies()[-1]
    assert (sent["top_k"], sent["min_p"]) == (5, 0.1)
    assert len(rig.hosted_bodies()) == count


def test_renders_a_pinned_prompt(rig: ClientRig, client: openai.OpenAI) -> None:
    prompt = {"id": "support-summary", "version": "1.0.0", "variables": {"product": "tide tables"}}
    assert ask(client, extra_body={"prompt": prompt}).choices[0].message.content == SENTENCES[0]
    messages = rig.hosted_bodies()[-1]["messages"]
    assert "You help the service desk for tide tables." in json.dumps(messages)
    assert "prompt" not in rig.hosted_bodies()[-1]


def test_lists_and_retrieves_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["assistant", DENIED_MODEL]
    model = client.models.retrieve("assistant")
    assert (model.id, model.object, model.owned_by) == ("assistant", "model", "tidegate")
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4")
    assert caught.value.param == "model"


async def test_answers_the_client_for_asyncio_many_at_once(rig: ClientRig) -> None:
    async with rig.async_client() as client:
        answers = await asyncio.gather(
            *(
                client.chat.completions.create(
                    model="assistant", messages=[{"role": "user", "content": f"Question {number}"}]
                )
                for number in range(16)
            )
        )
        assert [answer.choices[0].message.content for answer in answers] == [SENTENCES[0]] * 16
        assert len({answer.id for answer in answers}) == 16
        assert [model.id async for model in client.models.list()] == ["assistant", DENIED_MODEL]


# -- streams ---------------------------------------------------------------------------------------


def test_streams_the_same_text(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True))
    assert text_of(chunks) == SENTENCES[0]
    assert reasons_of(chunks) == ["stop"]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert {chunk.model for chunk in chunks} == {"assistant"}
    assert len({chunk.id for chunk in chunks}) == 1
    for chunk in chunks:
        assert chunk.usage is None
        for choice in chunk.choices:
            assert "finish_reason" in choice.model_fields_set, "null until the end, but there"


def test_tells_the_usage_in_one_last_chunk_without_choices(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 11
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert all("usage" in chunk.model_fields_set for chunk in chunks)
    assert text_of(chunks) == SENTENCES[0]


def test_streams_each_of_several_choices(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True, n=2))
    assert [text_of(chunks, choice) for choice in (0, 1)] == list(SENTENCES[:2])
    assert [reasons_of(chunks, choice) for choice in (0, 1)] == [["stop"], ["stop"]]


def test_streams_a_tool_call_whose_arguments_add_up(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True, tools=[TOOL], tool_choice="required"))
    calls = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or []]
    assert {call.index for call in calls} == {0}
    assert [call.id for call in calls if call.id] == ["call_standin_0"]
    assert [call.function.name for call in calls if call.function and call.function.name] == ["read_tide"]
    arguments = "".join(call.function.arguments or "" for call in calls if call.function)
    assert json.loads(arguments) == ARGUMENTS
    assert reasons_of(chunks) == ["tool_calls"]


def test_streams_logprobs(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True, logprobs=True, top_logprobs=1))
    tokens = [
        entry.token
        for chunk in chunks
        for choice in chunk.choices
        if choice.logprobs
        for entry in choice.logprobs.content or []
    ]
    assert "".join(tokens) == SENTENCES[0]


def test_streams_through_the_accumulating_helper(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Read the gauge."}]
    with client.chat.completions.stream(
        model="assistant",
        messages=messages,
        response_format=Reading,
        stream_options={"include_usage": True},
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.parsed == Reading(place="harbour", level=1)
    assert final.usage is not None
    tool = openai.pydantic_function_tool(Reading, name="report")
    with client.chat.completions.stream(
        model="assistant", messages=messages, tools=[tool], tool_choice="required"
    ) as stream:
        kinds = {event.type for event in stream}
        called = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    [call] = called.choices[0].message.tool_calls or []
    assert call.function.parsed_arguments == Reading(place="harbour", level=1)


def test_streams_raw_lines_with_headers(client: openai.OpenAI) -> None:
    with client.chat.completions.with_streaming_response.create(
        model="assistant", messages=[{"role": "user", "content": "What is a tide gate?"}], stream=True
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-tidegate-destination"] == "hosted-openai"
        lines = [line for line in response.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    assert lines.count("data: [DONE]") == 1


async def test_streams_to_the_client_for_asyncio(rig: ClientRig) -> None:
    async with rig.async_client() as client:
        stream = await client.chat.completions.create(
            model="assistant", messages=[{"role": "user", "content": "What is a tide gate?"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert text_of(chunks) == SENTENCES[0]
    assert reasons_of(chunks) == ["stop"]


# -- what left -------------------------------------------------------------------------------------


def test_nothing_restricted_has_reached_the_hosted_stand_in(rig: ClientRig, client: openai.OpenAI) -> None:
    for stream in (False, True):
        answer = ask(client, f"Pay to {IBAN}, please.", stream=stream)
        assert list(answer)
    for form in (IBAN, IBAN.replace(" ", "")):
        assert form.encode() not in rig.hosted_bytes()
