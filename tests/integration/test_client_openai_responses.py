"""The official OpenAI client's `responses`, unmodified, against destinations of both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.fakes.chat_answers import SENTENCES
from tests.fakes.messages_answers import THOUGHT
from tests.fakes.messages_rig import MessagesRig, running_messages_rig

pytestmark = pytest.mark.integration

IBAN = "DE89 3704 0044 0532 0130 00"
PLACES = {"claude": "hosted-anthropic", "assistant": "hosted-openai"}
TOOL: Any = {
    "type": "function",
    "name": "read_tide",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"harbour": {"type": "string"}},
        "required": ["harbour"],
        "additionalProperties": False,
    },
}


class Reading(BaseModel):
    """What the `parse` helper is asked for."""

    place: str
    level: int


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagesRig]:
    with running_messages_rig(tmp_path_factory.mktemp("responses")) as running:
        yield running


@pytest.fixture
def client(rig: MessagesRig) -> Iterator[openai.OpenAI]:
    with rig.openai_client() as made:
        yield made


@pytest.fixture(params=sorted(PLACES))
def model(request: pytest.FixtureRequest) -> str:
    """A model behind a destination of each kind."""
    return str(request.param)


def test_answers_a_question(rig: MessagesRig, client: openai.OpenAI, model: str) -> None:
    answer = client.responses.create(model=model, input="What is a tide gate?", instructions="Be short.")
    assert answer.output_text == SENTENCES[0]
    assert (answer.status, answer.model) == ("completed", model)
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    assert "Be short." in str(rig.sent(PLACES[model])[-1])


def test_an_identifier_stays_in_the_house(rig: MessagesRig, client: openai.OpenAI, model: str) -> None:
    places: list[dict[str, Any]] = [
        {"input": f"My IBAN is {IBAN}."},
        {"instructions": f"The IBAN is {IBAN}."},
        {"tools": [{**TOOL, "description": f"Reads {IBAN}."}]},
        {
            "input": [
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": f'{{"x": "{IBAN}"}}'},
                {"type": "function_call_output", "call_id": "a", "output": "done"},
                {"role": "user", "content": "Well?"},
            ]
        },
        {
            "input": [
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": IBAN},
            ]
        },
    ]
    for number, more in enumerate(places):
        raw = client.responses.with_raw_response.create(**{"model": model, "input": "Hello", **more})
        assert raw.headers["x-tidegate-destination"] == "private-moe", number
    for place in PLACES.values():
        assert IBAN.encode() not in rig.received(place)


def test_calls_a_tool_and_takes_its_result(rig: MessagesRig, client: openai.OpenAI, model: str) -> None:
    first = client.responses.create(model=model, input="How high?", tools=[TOOL], tool_choice="required")
    call = next(item for item in first.output if item.type == "function_call")
    assert (call.name, call.arguments.replace(" ", "")) == ("read_tide", '{"harbour":"harbour"}')
    items: Any = [
        {"role": "user", "content": "How high?"},
        *[item.model_dump(exclude_none=True) for item in first.output],
        {"type": "function_call_output", "call_id": call.call_id, "output": "1.5 m"},
    ]
    assert client.responses.create(model=model, input=items, tools=[TOOL]).output_text == SENTENCES[0]
    assert "1.5 m" in str(rig.sent(PLACES[model])[-1])


def test_parses_into_a_model(client: openai.OpenAI, model: str) -> None:
    answer = client.responses.parse(model=model, input="Read the gauge.", text_format=Reading)
    assert answer.output_parsed == Reading(place="harbour", level=1)


def test_streams_text(client: openai.OpenAI, model: str) -> None:
    with client.responses.stream(model=model, input="Why do tides turn?") as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        whole = stream.get_final_response()
    assert len(pieces) > 5
    assert "".join(pieces) == whole.output_text == SENTENCES[0]


def test_streams_a_tool_call(client: openai.OpenAI, model: str) -> None:
    with client.responses.stream(
        model=model, input="How high?", tools=[TOOL], tool_choice="required"
    ) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_response()
    assert "response.function_call_arguments.done" in kinds
    assert [item.name for item in whole.output if item.type == "function_call"] == ["read_tide"]


def test_reasoning_is_an_item(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="claude", input="Why?", reasoning={"effort": "low"})
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert THOUGHT in answer.to_json()


@pytest.mark.parametrize(
    ("more", "param"),
    [({"store": True}, "store"), ({"previous_response_id": "resp_1"}, "previous_response_id")],
)
def test_what_would_be_kept_is_refused(client: openai.OpenAI, more: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="assistant", input="Hello", **more)
    assert (caught.value.code, caught.value.param) == ("not-stored", param)


def test_a_stream_that_breaks_tells_it(client: openai.OpenAI) -> None:
    stream = client.responses.create(model="claude-hosted", input="Be overloaded later.", stream=True)
    try:
        codes = [event.code for event in stream if event.type == "error"]
    except openai.APIError as error:
        codes = [error.code]
    assert codes == ["upstream-error-in-stream"]
