"""The official Anthropic client, unmodified, against a running gateway, and both dialects across."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.fakes.chat_answers import SENTENCES
from tests.fakes.messages_answers import SIGNATURE, THOUGHT
from tests.fakes.messages_rig import KEY, MessagesRig, running_messages_rig

pytestmark = pytest.mark.integration

IBAN = "DE89 3704 0044 0532 0130 00"
PLACES = {"claude": "hosted-anthropic", "assistant": "hosted-openai"}
TOOL: dict[str, Any] = {
    "name": "read_tide",
    "description": "Height of the water at a harbour.",
    "input_schema": {
        "type": "object",
        "properties": {"harbour": {"type": "string"}, "metres": {"type": "number"}},
        "required": ["harbour", "metres"],
    },
}
ARGUMENTS = {"harbour": "harbour", "metres": 1.5}
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "level": {"type": "integer"}},
    "required": ["place", "level"],
    "additionalProperties": False,
}
ODD = {"container": "c"}
PNG = "iVBORw0KGgo="


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagesRig]:
    with running_messages_rig(tmp_path_factory.mktemp("anthropic-python")) as running:
        yield running


@pytest.fixture
def client(rig: MessagesRig) -> Iterator[anthropic.Anthropic]:
    with rig.client() as made:
        yield made


@pytest.fixture(params=sorted(PLACES))
def model(request: pytest.FixtureRequest) -> str:
    """A model behind a destination of each kind: of Anthropic's own, and of OpenAI's."""
    return str(request.param)


def ask(client: anthropic.Anthropic, text: str = "What is a tide gate?", **more: Any) -> Any:
    given = {"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": text}], **more}
    return client.messages.create(**given)


# -- whole answers ---------------------------------------------------------------------------------


def test_answers_a_question(rig: MessagesRig, client: anthropic.Anthropic, model: str) -> None:
    answer = ask(client, model=model, system="Be short.", stop_sequences=["END"])
    assert [(block.type, block.text) for block in answer.content] == [("text", SENTENCES[0])]
    assert (answer.model, answer.stop_reason, answer.role) == (model, "end_turn", "assistant")
    assert answer.usage.output_tokens > 0
    assert answer._request_id.startswith("req_")
    assert answer.id == f"msg_{answer._request_id}"
    sent = rig.sent(PLACES[model])[-1]
    assert "Be short." in str(sent)
    assert rig.gateway.token() not in str(rig.headers(PLACES[model]))


def test_a_destination_of_its_kind_gets_its_own_key_and_version(
    rig: MessagesRig, client: anthropic.Anthropic
) -> None:
    raw = client.messages.with_raw_response.create(
        model="claude", max_tokens=5, messages=[{"role": "user", "content": "What is a tide gate?"}]
    )
    assert raw.headers["x-tidegate-destination"] == "hosted-anthropic"
    assert raw.headers["x-tidegate-label"] == "internal"
    assert raw.parse().stop_reason == "max_tokens"
    headers = rig.headers("hosted-anthropic")
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers


def test_a_bearer_token_is_as_good_as_a_key(rig: MessagesRig) -> None:
    with rig.client(api_key=None, auth_token=rig.gateway.token()) as client:
        assert ask(client).stop_reason == "end_turn"


def test_two_different_tokens_are_refused(rig: MessagesRig) -> None:
    headers = {"x-api-key": rig.gateway.token("acme"), "authorization": f"Bearer {rig.gateway.token()}"}
    answer = httpx.post(rig.gateway.base_url + "/v1/messages", headers=headers, json={}, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")


def test_an_identifier_stays_in_the_house(rig: MessagesRig, client: anthropic.Anthropic, model: str) -> None:
    places: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": f"My IBAN is {IBAN}."}]},
        {"system": [{"type": "text", "text": f"The IBAN is {IBAN}."}]},
        {"tools": [{**TOOL, "description": f"Reads {IBAN}."}]},
        {"stop_sequences": [IBAN]},
        {
            "messages": [
                {"role": "user", "content": "Hello"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": IBAN}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}],
                },
            ]
        },
        {
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": IBAN}]}
            ]
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                        }
                    ],
                }
            ]
        },
    ]
    counts = {place: len(rig.sent(place)) for place in PLACES.values()}
    for number, more in enumerate(places):
        assert ask(client, model=model, **more).stop_reason == "end_turn", number
    assert {place: len(rig.sent(place)) for place in PLACES.values()} == counts
    for place in PLACES.values():
        assert IBAN.encode() not in rig.received(place)


def test_calls_a_tool_and_takes_its_result(rig: MessagesRig, client: anthropic.Anthropic, model: str) -> None:
    first = ask(client, model=model, tools=[TOOL], tool_choice={"type": "any"})
    assert first.stop_reason == "tool_use"
    (block,) = first.content
    assert (block.type, block.name, block.input) == ("tool_use", "read_tide", ARGUMENTS)
    turns = [
        {"role": "user", "content": "How high is the water?"},
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": block.id, "content": "1.5 m", "is_error": True},
                {"type": "text", "text": "And now?"},
            ],
        },
    ]
    second = ask(client, model=model, messages=turns, tools=[TOOL])
    assert second.content[0].text == SENTENCES[0]
    assert "1.5 m" in str(rig.sent(PLACES[model])[-1])


def test_an_answer_obeys_a_schema(client: anthropic.Anthropic, model: str) -> None:
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    answer = ask(client, model=model, output_config=config)
    assert answer.content[0].text == '{"place": "harbour", "level": 1}'


def test_reasoning_is_read_filtered_and_unsigned(client: anthropic.Anthropic) -> None:
    answer = ask(client, thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=4096)
    assert [block.type for block in answer.content] == ["thinking", "text"]
    assert (answer.content[0].thinking, answer.content[0].signature) == (THOUGHT, "")
    assert SIGNATURE not in answer.to_json()
    turns = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": "And then?"},
    ]
    assert ask(client, messages=turns).stop_reason == "end_turn"


def test_counts_tokens_without_asking_anybody(rig: MessagesRig, client: anthropic.Anthropic) -> None:
    counts = [len(rig.sent(place)) for place in rig.records]
    few = client.messages.count_tokens(model="claude", messages=[{"role": "user", "content": "A"}])
    many = client.messages.count_tokens(
        model="claude",
        messages=[{"role": "user", "content": "A" * 300}],
        system="S",
        tools=[TOOL],  # type: ignore[list-item]
    )
    assert 0 < few.input_tokens < 100 <= many.input_tokens
    assert [len(rig.sent(place)) for place in rig.records] == counts
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="gpt-4", messages=[{"role": "user", "content": "A"}])


# -- streams ---------------------------------------------------------------------------------------


def test_streams_text(client: anthropic.Anthropic, model: str) -> None:
    given: list[Any] = [{"role": "user", "content": "Why do tides turn?"}]
    with client.messages.stream(model=model, max_tokens=64, messages=given) as stream:
        pieces = list(stream.text_stream)
        whole = stream.get_final_message()
    assert len(pieces) > 5
    assert "".join(pieces) == SENTENCES[0]
    assert (whole.stop_reason, whole.model) == ("end_turn", model)
    assert whole.usage.input_tokens > 0


def test_streams_a_tool_call(client: anthropic.Anthropic, model: str) -> None:
    with client.messages.stream(
        model=model,
        max_tokens=64,
        messages=[{"role": "user", "content": "How high is the water?"}],
        tools=[TOOL],  # type: ignore[list-item]
        tool_choice={"type": "tool", "name": "read_tide"},
    ) as stream:
        whole = stream.get_final_message()
    assert whole.stop_reason == "tool_use"
    assert [block.input for block in whole.content if block.type == "tool_use"] == [ARGUMENTS]


def test_streams_reasoning(client: anthropic.Anthropic) -> None:
    with client.messages.stream(
        model="claude",
        max_tokens=4096,
        messages=[{"role": "user", "content": "Why do tides turn?"}],
        thinking={"type": "adaptive"},
    ) as stream:
        kinds = {event.type for event in stream}
        whole = stream.get_final_message()
    assert {"thinking", "text", "message_stop"} <= kinds
    assert [block.type for block in whole.content] == ["thinking", "text"]


def test_a_stream_that_breaks_raises(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.APIStatusError) as caught:
        for _ in ask(client, "Be overloaded later.", stream=True):
            pass
    assert caught.value.error_code == "upstream-error-in-stream"
    assert caught.value.type == "api_error"


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "kind", "word", "code"),
    [
        ({"model": "gpt-4"}, anthropic.NotFoundError, "not_found_error", "model-not-found"),
        ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error", "invalid-value"),
        (
            {"extra_body": {"container": "c"}},
            anthropic.BadRequestError,
            "invalid_request_error",
            "unknown-field",
        ),
        (
            {"messages": [{"role": "user", "content": "Be rate limited."}], "model": "claude-hosted"},
            anthropic.RateLimitError,
            "rate_limit_error",
            "upstream-rate-limited",
        ),
        (
            {"messages": [{"role": "user", "content": "Be overloaded."}], "model": "claude-hosted"},
            anthropic.InternalServerError,
            "overloaded_error",
            "upstream-unavailable",
        ),
    ],
)
def test_errors_have_the_classes_of_the_client(
    client: anthropic.Anthropic,
    more: dict[str, Any],
    kind: type[anthropic.APIStatusError],
    word: str,
    code: str,
) -> None:
    with pytest.raises(kind) as caught:
        ask(client, **more)
    assert (caught.value.type, caught.value.error_code) == (word, code)
    assert (caught.value.request_id or "").startswith("req_")


def test_a_wrong_key_is_refused(rig: MessagesRig) -> None:
    with rig.client(api_key="x") as client, pytest.raises(anthropic.AuthenticationError) as caught:
        ask(client)
    assert caught.value.type == "authentication_error"


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "/v1/messages", 405, "invalid_request_error"),
        ("POST", "/v1/messages/batches", 404, "not_found_error"),
    ],
)
def test_routes_that_do_not_exist_are_told_in_its_words(
    rig: MessagesRig, method: str, path: str, status: int, word: str
) -> None:
    answer = httpx.request(method, rig.gateway.base_url + path, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, word)
    assert answer.headers["request-id"] == answer.json()["request_id"]


def test_what_the_chat_format_cannot_say_is_refused_by_name(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, model="assistant", max_tokens=4096, thinking={"type": "enabled", "budget_tokens": 1024})
    assert caught.value.error_code == "unsupported-field"
    assert "`thinking.budget_tokens`" in str(caught.value.api_message)


# -- OpenAI's client and a destination of Anthropic's kind -----------------------------------------


def test_a_chat_client_is_answered_by_an_anthropic_destination(rig: MessagesRig) -> None:
    tool: Any = {
        "type": "function",
        "function": {"name": "read_tide", "parameters": TOOL["input_schema"]},
    }
    said: Any = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "How high?"}]
    with rig.openai_client() as client:
        plain = client.chat.completions.create(model="claude", messages=said, reasoning_effort="low")
        assert plain.choices[0].message.content == SENTENCES[0]
        assert plain.choices[0].message.model_extra == {"reasoning_content": THOUGHT}
        stream = client.chat.completions.create(
            model="claude", messages=said, tools=[tool], tool_choice="required", stream=True
        )
        chunks = list(stream)
        calls = [c for chunk in chunks for one in chunk.choices for c in one.delta.tool_calls or ()]
        assert "".join(c.function.arguments or "" for c in calls if c.function).replace(" ", "") == (
            '{"harbour":"harbour","metres":1.5}'
        )
        assert chunks[-1].choices[0].finish_reason == "tool_calls"
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="claude-hosted", messages=said, seed=3)
        seeded = client.chat.completions.with_raw_response.create(model="claude", messages=said, seed=3)
    sent = rig.sent("hosted-anthropic")[-1]
    assert (sent["system"], sent["tool_choice"]) == ("Be short.", {"type": "any"})
    assert (caught.value.code, caught.value.param) == ("unsupported-field", "seed")
    # Where another permitted destination has a word for the field, it answers.
    assert seeded.headers["x-tidegate-destination"] == "private-moe"
