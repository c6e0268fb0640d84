"""The official Python client, unmodified, when something goes wrong: refusals, faults, cuts, leaving."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.fakes.chat_answers import SENTENCES
from tests.fakes.client_rig import (
    DENIED_MODEL,
    DENIED_SENTENCE,
    FIRST_BYTE_SECONDS,
    PRIVATE,
    ClientRig,
    ask,
    reasons_of,
    running_client_rig,
    text_of,
)
from tests.fakes.stack import running_gateway, start_child

pytestmark = pytest.mark.integration

#: A client's leaving reaches the upstream within one second.
LEAVING_SECONDS = 1.0


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientRig]:
    with running_client_rig(tmp_path_factory.mktemp("openai-python-errors")) as running:
        yield running


@pytest.fixture
def client(rig: ClientRig) -> Iterator[openai.OpenAI]:
    with rig.client() as made:
        yield made


# -- refusals by the gateway -----------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_maps_each_refusal_to_the_clients_own_exception(rig: ClientRig, stream: bool) -> None:
    pinned = {"id": "support-summary", "version": "1.0.0", "variables": {"colour": "red"}}
    night = {"api_key": rig.key(roles=("night",))}
    unknown = {"id": "nobody", "version": "1.0.0"}
    cases: list[tuple[type[openai.APIStatusError], dict[str, Any], dict[str, Any], tuple[Any, ...]]] = [
        (openai.AuthenticationError, {"api_key": "sk-nobody"}, {}, (401, "invalid-token", None)),
        (openai.BadRequestError, {}, {"temperature": 9}, (400, "invalid-value", "temperature")),
        (openai.BadRequestError, {}, {"extra_body": {"foo": 1}}, (400, "unknown-field", "foo")),
        (
            openai.BadRequestError,
            {},
            {"extra_body": {"api_base": "http://127.0.0.1:9"}},
            (400, "unknown-field", "api_base"),
        ),
        (openai.BadRequestError, {}, {"store": True}, (400, "invalid-value", "store")),
        (openai.PermissionDeniedError, night, {"model": DENIED_MODEL}, (403, "denied-by-rule", None)),
        (openai.NotFoundError, {}, {"model": "gpt-4"}, (404, "model-not-found", "model")),
        (openai.NotFoundError, {}, {"extra_body": {"prompt": unknown}}, (404, "prompt-not-found", "prompt")),
        (
            openai.UnprocessableEntityError,
            {},
            {"extra_body": {"prompt": pinned}},
            (422, "prompt-variable-unknown", "prompt.variables"),
        ),
    ]
    seen = len(rig.hosted_bodies())
    for kind, options, fields, expected in cases:
        with rig.client(**options) as client, pytest.raises(openai.APIStatusError) as caught:
            ask(client, stream=stream, **fields)
        error = caught.value
        assert type(error) is kind
        assert (error.status_code, error.code, error.param) == expected
        assert error.request_id is not None
        assert error.request_id.startswith("req_")
        assert error.response.headers["x-tidegate-request-id"] == error.request_id
    assert len(rig.hosted_bodies()) == seen, "nothing that was refused has left"


def test_lets_the_client_read_the_policys_own_sentence(rig: ClientRig) -> None:
    with rig.client(api_key=rig.key(roles=("night",))) as client:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            ask(client, model=DENIED_MODEL)
        assert DENIED_SENTENCE in caught.value.message
        assert caught.value.type == "permission_error"
        assert ask(client).choices[0].finish_reason == "stop"


def test_says_that_other_endpoints_are_not_there(client: openai.OpenAI) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: client.moderations.create(input="tide"),
        lambda: client.images.generate(prompt="tide"),
        client.files.list,
    ]
    for call in calls:
        with pytest.raises(openai.NotFoundError) as caught:
            call()
        assert caught.value.code == "not-found"


def test_says_when_a_spent_limit_is_free_again(rig: ClientRig) -> None:
    with rig.client(api_key=rig.key("acme")) as client:
        with pytest.raises(openai.RateLimitError) as caught:
            _ = [ask(client) for _ in range(6)]
        error = caught.value
        assert (error.code, error.type) == ("requests-limit-exceeded", "rate_limit_error")
        assert 1 <= int(error.response.headers["retry-after"]) <= 61, "a minute, and its running second"
        with pytest.raises(openai.RateLimitError):
            ask(client, stream=True)


def test_a_client_with_retries_waits_as_long_as_it_is_told(rig: ClientRig) -> None:
    with rig.fault("429", retry_after=1), rig.client(max_retries=1) as client:
        began = time.monotonic()
        with pytest.raises(openai.RateLimitError) as caught:
            ask(client, extra_headers=PRIVATE)
        assert caught.value.response.headers["retry-after"] == "1"
        tries = [entry["at_mono"] for entry in rig.events("request", began)]
    assert len(tries) == 2
    # The client's own first pause is half a second at most: a whole one shows that it was told.
    assert tries[1] - tries[0] >= 1.0


def test_a_client_with_retries_gets_its_answer_when_the_upstream_recovers(rig: ClientRig) -> None:
    with rig.fault("503-retry", retry_after=1), rig.client(max_retries=2) as client:
        recovery = threading.Timer(0.5, rig.fault_control.write_text, ["{}"])
        recovery.start()
        answer = ask(client, extra_headers=PRIVATE)
        recovery.join()
    assert answer.choices[0].message.content == SENTENCES[0]


# -- faults of an upstream -------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("mode", "kind", "status", "code"),
    [
        ("400", openai.BadRequestError, 400, "upstream-rejected"),
        ("401", openai.InternalServerError, 502, "upstream-failed"),
        ("302", openai.InternalServerError, 502, "upstream-failed"),
        ("429-retry", openai.RateLimitError, 429, "upstream-rate-limited"),
        ("500", openai.InternalServerError, 502, "upstream-failed"),
        ("503-retry", openai.InternalServerError, 503, "upstream-unavailable"),
        ("refuse", openai.InternalServerError, 502, "upstream-disconnected"),
        ("silence", openai.InternalServerError, 504, "upstream-first-byte-timeout"),
        ("wrong-content-type", openai.InternalServerError, 502, "upstream-wrong-content-type"),
        ("wrong-model", openai.InternalServerError, 502, "upstream-malformed"),
    ],
)
def test_maps_a_fault_before_the_answer_to_a_status(
    rig: ClientRig,
    client: openai.OpenAI,
    mode: str,
    kind: type[openai.APIStatusError],
    status: int,
    code: str,
    stream: bool,
) -> None:
    with rig.fault(mode), pytest.raises(openai.APIStatusError) as caught:
        ask(client, stream=stream, extra_headers=PRIVATE)
    error = caught.value
    assert type(error) is kind
    expected = [(status, code)]
    if mode == "refuse":
        # The reset may arrive while the connection is being made, or just behind: both are told as they are.
        expected.append((503, "upstream-unreachable"))
    assert (error.status_code, error.code) in expected
    assert error.response.headers["x-tidegate-destination"] == "private-moe"
    assert "standin-provider-words" not in error.response.text
    if mode.endswith("-retry"):
        assert error.response.headers["retry-after"] == "7"


#: Faults that come when a stream has begun, and the code that the client is told in-band.
CUTS = [
    ("die-after-text", "upstream-truncated"),
    ("die-mid-event", "upstream-truncated"),
    ("die-mid-utf8", "upstream-truncated"),
    ("no-done", "upstream-truncated"),
    ("error-in-stream", "upstream-error-in-stream"),
    ("malformed-json", "upstream-malformed"),
    ("two-finish", "upstream-malformed"),
    ("delta-after-finish", "upstream-malformed"),
]


@pytest.mark.parametrize(("mode", "code"), CUTS)
def test_a_cut_stream_raises_and_never_looks_whole(
    rig: ClientRig, client: openai.OpenAI, mode: str, code: str
) -> None:
    chunks: list[ChatCompletionChunk] = []
    with rig.fault(mode):
        stream = ask(client, stream=True, extra_headers=PRIVATE)
        with pytest.raises(openai.APIError) as caught:
            chunks.extend(stream)
    assert type(caught.value) is openai.APIError
    assert caught.value.code == code
    assert "standin-provider-words" not in str(caught.value.body)
    assert chunks, "the stream had begun"
    assert reasons_of(chunks) == []


@pytest.mark.parametrize("mode", ["die-after-text", "die-mid-event", "malformed-json", "error-in-stream"])
def test_a_cut_whole_answer_is_a_502(rig: ClientRig, client: openai.OpenAI, mode: str) -> None:
    with rig.fault(mode), pytest.raises(openai.InternalServerError) as caught:
        ask(client, extra_headers=PRIVATE)
    assert caught.value.status_code == 502


async def test_a_cut_stream_raises_for_asyncio_and_for_the_helper(rig: ClientRig) -> None:
    messages: Any = [{"role": "user", "content": "What is a tide gate?"}]
    with rig.fault("die-after-text"):
        async with rig.async_client() as client:
            stream = await client.chat.completions.create(
                model="assistant", messages=messages, stream=True, extra_headers=PRIVATE
            )
            with pytest.raises(openai.APIError, match="cut off"):
                _ = [chunk async for chunk in stream]
        with rig.client() as plain:
            helper = plain.chat.completions.stream(
                model="assistant", messages=messages, extra_headers=PRIVATE
            )
            with pytest.raises(openai.APIError, match="cut off"), helper as events:
                events.until_done()


def test_a_stream_that_falls_silent_ends_with_a_timeout_told_in_band(
    rig: ClientRig, client: openai.OpenAI
) -> None:
    with rig.fault("pause-after-first"):
        stream = ask(client, stream=True, extra_headers=PRIVATE)
        with pytest.raises(openai.APIError) as caught:
            list(stream)
    assert caught.value.code == "upstream-idle-timeout"


# -- clients that leave ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["silence", "silence-after-head", "pause-after-first"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_clients_timeout_reaches_the_upstream(rig: ClientRig, mode: str, stream: bool) -> None:
    with rig.fault(mode), rig.client(timeout=FIRST_BYTE_SECONDS / 4) as client:
        began = time.monotonic()
        with pytest.raises(openai.APITimeoutError):
            list(ask(client, stream=stream, extra_headers=PRIVATE))
        gave_up = time.monotonic()
        assert rig.seconds_until_upstream_was_left(began) <= gave_up - began + LEAVING_SECONDS


@pytest.mark.parametrize("mode", ["pause-after-first", "endless-trickle", "endless"])
def test_closing_a_stream_early_reaches_the_upstream(
    rig: ClientRig, client: openai.OpenAI, mode: Literal["pause-after-first", "endless-trickle", "endless"]
) -> None:
    with rig.fault(mode):
        began = time.monotonic()
        with ask(client, stream=True, extra_headers=PRIVATE) as stream:
            for chunk in stream:
                if text_of([chunk]):
                    break
        closed = time.monotonic()
        assert rig.seconds_until_upstream_was_left(began) <= closed - began + LEAVING_SECONDS
    # The same client goes on with a new connection.
    assert text_of(list(ask(client, stream=True))) == SENTENCES[0]


@pytest.mark.parametrize("mode", ["silence", "endless-trickle"])
async def test_cancelling_a_task_reaches_the_upstream(rig: ClientRig, mode: str) -> None:
    async def read(client: openai.AsyncOpenAI) -> None:
        stream = await client.chat.completions.create(
            model="assistant",
            messages=[{"role": "user", "content": "What is a tide gate?"}],
            stream=True,
            extra_headers=PRIVATE,
        )
        async for _ in stream:
            pass

    with rig.fault(mode):
        async with rig.async_client() as client:
            began = time.monotonic()
            task = asyncio.create_task(read(client))
            await asyncio.sleep(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            cancelled = time.monotonic()
            left = await asyncio.to_thread(rig.seconds_until_upstream_was_left, began)
    assert left <= cancelled - began + LEAVING_SECONDS


def test_a_gateway_that_goes_away_is_a_connection_error(tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    control.write_text('{"mode": "endless-trickle"}', encoding="utf-8")
    arguments = ["--port", "0", "--log", str(tmp_path / "log"), "--control", str(control)]
    upstream = start_child(["tests.fakes.fault_standin", *arguments])
    try:
        with running_gateway(tmp_path / "gw", private=upstream.url) as gateway:
            client = openai.OpenAI(
                base_url=gateway.base_url + "/v1", api_key=gateway.token(), max_retries=0, timeout=20
            )
            with client:
                stream = ask(client, stream=True)
                chunks = [next(stream) for _ in range(3)]
                gateway.kill()
                with pytest.raises(openai.APIConnectionError):
                    chunks.extend(stream)
                with pytest.raises(openai.APIConnectionError):
                    ask(client)
            assert reasons_of(chunks) == []
    finally:
        upstream.stop()
