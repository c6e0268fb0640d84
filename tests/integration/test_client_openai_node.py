"""The official Node client, unmodified, against a running gateway: answers, streams, errors, ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.chat_answers import SENTENCES
from tests.fakes.client_rig import (
    DENIED_MODEL,
    DENIED_SENTENCE,
    IBAN,
    PRIVATE,
    ClientRig,
    running_client_rig,
)
from tests.fakes.node_client import FOLDER, node_call

pytestmark = pytest.mark.integration

#: How long the script lives on after it has left a call. The upstream is left before it ends, by half a
#: second at least: it is the client's leaving that ends the request, within a second.
LINGER_MS = 1500
EARLIER_SECONDS = 0.5
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_tide",
        "parameters": {
            "type": "object",
            "properties": {"harbour": {"type": "string"}},
            "required": ["harbour"],
        },
    },
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientRig]:
    with running_client_rig(tmp_path_factory.mktemp("openai-node")) as running:
        yield running


def call(rig: ClientRig, name: str, key: str | None = None, **given: Any) -> dict[str, Any]:
    """What came of one call of the script."""
    return node_call(rig.base_url, key or rig.key(), name, **given)


def refusal(rig: ClientRig, name: str, key: str | None = None, **given: Any) -> dict[str, Any]:
    """The error that the client threw."""
    error: dict[str, Any] = call(rig, name, key, **given)["error"]
    assert error["isApiError"]
    return error


def test_the_lock_file_names_no_host() -> None:
    lock = (FOLDER / "package-lock.json").read_text("utf-8")
    assert "resolved" not in lock
    assert "://" not in lock
    packages = json.loads(lock)["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)


def test_answers_a_question(rig: ClientRig) -> None:
    told = call(rig, "plain", n=2, seed=7)
    answer = told["answer"]
    assert [choice["message"]["content"] for choice in answer["choices"]] == list(SENTENCES[:2])
    assert answer["id"] == f"chatcmpl-{told['request_id']}"
    assert answer["usage"]["total_tokens"] > 0
    assert told["headers"]["x-tidegate-destination"] == "hosted-openai"
    assert told["headers"]["x-tidegate-label"] == "internal"


def test_a_question_with_an_iban_stays_private(rig: ClientRig) -> None:
    told = call(rig, "plain", messages=[{"role": "user", "content": f"My IBAN is {IBAN}."}])
    assert told["headers"]["x-tidegate-destination"] == "private-moe"
    assert told["headers"]["x-tidegate-label"] == "restricted"
    assert IBAN.encode() not in rig.hosted_bytes()


def test_streams_with_usage(rig: ClientRig) -> None:
    told = call(rig, "stream", stream_options={"include_usage": True})
    assert told["text"] == SENTENCES[0]
    assert told["roles"] == ["assistant"]
    assert told["reasons"] == ["stop"]
    assert told["usage"]["completion_tokens"] == 11
    assert told["bareChunks"] == 0, "each chunk tells finish_reason"


def test_accumulates_a_stream_through_the_helper(rig: ClientRig) -> None:
    answer = call(rig, "accumulate", stream_options={"include_usage": True})["answer"]
    assert answer["choices"][0]["message"]["content"] == SENTENCES[0]
    assert answer["choices"][0]["finish_reason"] == "stop"
    called = call(rig, "accumulate", tools=[TOOL], tool_choice="required")["answer"]
    [tool_call] = called["choices"][0]["message"]["tool_calls"]
    assert json.loads(tool_call["function"]["arguments"]) == {"harbour": "harbour"}


def test_calls_a_tool_and_takes_its_result(rig: ClientRig) -> None:
    told = call(rig, "tools", tools=[TOOL], tool_choice="required")
    assert told["first"]["choices"][0]["finish_reason"] == "tool_calls"
    assert told["second"]["choices"][0]["message"]["content"] == SENTENCES[0]


def test_streams_a_tool_call_whose_arguments_add_up(rig: ClientRig) -> None:
    told = call(rig, "stream", tools=[TOOL], tool_choice="required")
    assert told["calls"] == {
        "0": {"id": "call_standin_0", "name": "read_tide", "arguments": '{"harbour": "harbour"}'}
    }
    assert told["reasons"] == ["tool_calls"]


def test_lists_models(rig: ClientRig) -> None:
    told = call(rig, "models")
    assert told["names"] == ["assistant", DENIED_MODEL]
    assert told["one"]["owned_by"] == "tidegate"


@pytest.mark.parametrize("name", ["plain", "stream"])
def test_maps_each_refusal_to_the_clients_own_class(rig: ClientRig, name: str) -> None:
    pinned = {"id": "support-summary", "version": "1.0.0", "variables": {"colour": "red"}}
    night = rig.key(roles=("night",))
    cases: list[tuple[str, int, str, str | None, str | None, dict[str, Any]]] = [
        ("AuthenticationError", 401, "invalid-token", None, "sk-nobody", {}),
        ("BadRequestError", 400, "unknown-field", "foo", None, {"foo": 1}),
        ("PermissionDeniedError", 403, "denied-by-rule", None, night, {"model": DENIED_MODEL}),
        ("NotFoundError", 404, "model-not-found", "model", None, {"model": "gpt-4"}),
        (
            "UnprocessableEntityError",
            422,
            "prompt-variable-unknown",
            "prompt.variables",
            None,
            {"prompt": pinned},
        ),
    ]
    for kind, status, code, param, key, fields in cases:
        error = refusal(rig, name, key, **fields)
        assert (error["class"], error["status"], error["code"], error["param"]) == (kind, status, code, param)
        assert error["requestID"].startswith("req_")
    denied = refusal(rig, name, night, model=DENIED_MODEL)
    assert DENIED_SENTENCE in denied["message"]


def test_says_when_a_spent_limit_is_free_again(rig: ClientRig) -> None:
    told: list[dict[str, Any]] = []
    while not any("error" in each for each in told):
        assert len(told) < 6
        told.append(call(rig, "plain", rig.key("acme")))
    error = told[-1]["error"]
    assert (error["class"], error["code"]) == ("RateLimitError", "requests-limit-exceeded")
    assert 1 <= int(error["retryAfter"]) <= 61, "a minute, and its running second"


@pytest.mark.parametrize("name", ["plain", "stream"])
@pytest.mark.parametrize(
    ("mode", "kind", "status"),
    [
        ("429-retry", "RateLimitError", 429),
        ("500", "InternalServerError", 502),
        ("503-retry", "InternalServerError", 503),
        ("silence", "InternalServerError", 504),
    ],
)
def test_maps_a_fault_before_the_answer_to_a_status(
    rig: ClientRig, mode: str, kind: str, status: int, name: str
) -> None:
    with rig.fault(mode):
        error = refusal(rig, name, headers=PRIVATE)
    assert (error["class"], error["status"]) == (kind, status)
    assert error["retryAfter"] == ("7" if mode.endswith("-retry") else None)
    assert "standin-provider-words" not in json.dumps(error)


@pytest.mark.parametrize("name", ["stream", "accumulate"])
@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("die-after-text", "upstream-truncated"),
        ("die-mid-event", "upstream-truncated"),
        ("error-in-stream", "upstream-error-in-stream"),
    ],
)
def test_a_cut_stream_throws_and_never_looks_whole(rig: ClientRig, mode: str, code: str, name: str) -> None:
    with rig.fault(mode):
        told = call(rig, name, headers=PRIVATE)
    assert told["error"]["isApiError"]
    assert told["reasons"] == []
    assert "answer" not in told
    assert "standin-provider-words" not in json.dumps(told)
    if name == "stream":
        assert told["chunks"] > 0
        assert (told["error"]["class"], told["error"]["code"]) == ("APIError", code)


@pytest.mark.parametrize(
    ("name", "mode", "kind"),
    [
        ("abort", "silence", "APIUserAbortError"),
        ("abortPlain", "silence", "APIUserAbortError"),
        ("abortPlain", "pause-after-first", "APIUserAbortError"),
    ],
)
def test_an_aborted_call_throws_and_reaches_the_upstream(
    rig: ClientRig, name: str, mode: str, kind: str
) -> None:
    with rig.fault(mode):
        began = time.monotonic()
        error = refusal(rig, name, headers=PRIVATE, linger=LINGER_MS)
        ended = time.monotonic()
        assert rig.seconds_until_upstream_was_left(began) <= ended - began - EARLIER_SECONDS
    assert error["class"] == kind


@pytest.mark.parametrize("name", ["abort", "leave"])
def test_leaving_a_stream_reaches_the_upstream_and_is_no_end(rig: ClientRig, name: str) -> None:
    with rig.fault("endless-trickle"):
        began = time.monotonic()
        told = call(rig, name, headers=PRIVATE, linger=LINGER_MS)
        ended = time.monotonic()
        assert rig.seconds_until_upstream_was_left(began) <= ended - began - EARLIER_SECONDS
    assert told["text"].startswith("tide ")
    assert told["reasons"] == []


def test_a_clients_timeout_reaches_the_upstream(rig: ClientRig) -> None:
    with rig.fault("silence"):
        began = time.monotonic()
        error = refusal(rig, "plain", headers=PRIVATE, timeout=700, linger=LINGER_MS)
        ended = time.monotonic()
        assert rig.seconds_until_upstream_was_left(began) <= ended - began - EARLIER_SECONDS
    assert error["class"] == "APIConnectionTimeoutError"


def test_a_gateway_that_is_not_there_is_a_connection_error() -> None:
    told = node_call("http://127.0.0.1:9/v1", "nobody", "plain")
    assert told["error"]["class"] == "APIConnectionError"
