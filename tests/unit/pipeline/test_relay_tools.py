"""The relay with tool calls: what a client sees, what is recorded, what is settled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.pipeline.admit import admit
from gateway.pipeline.relay import Relay
from tests.fakes.rooms import Rooms, raw_request
from tests.unit.pipeline.test_relay import Client, sse, with_upstream

GOOD = '{"q":"tides"}'
PROMPT = {"id": "greeting", "version": "1.10.0", "variables": {"who": "Ada"}}


def call(arguments: str, name: str = "look_up") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def stream(arguments: str, name: str = "look_up", finish: str = "tool_calls") -> Rooms:
    pieces = [arguments[at : at + 3] for at in range(0, len(arguments), 3)]
    return with_upstream(
        private_moe=[
            sse({"role": "assistant", "content": "One moment."}),
            sse({"tool_calls": [{"index": 0, **call("", name)}]}),
            *(sse({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces),
            sse({}, finish),
            sse(None, usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
            b"data: [DONE]\n\n",
        ]
    )


def plain(arguments: str, name: str = "look_up") -> Rooms:
    message = {"role": "assistant", "content": None, "tool_calls": [call(arguments, name)]}
    answer = {
        "id": "x", "object": "chat.completion", "created": 1, "model": "MODEL",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }  # fmt: skip
    return with_upstream(private_moe=[json.dumps(answer).encode()])


async def run(rooms: Rooms, is_stream: bool) -> Client:
    body = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}], "stream": is_stream}
    walk, snapshot = rooms.walk(), rooms.snapshot()
    raw = raw_request(json.dumps({**body, "prompt": PROMPT}).encode(), "restricted")
    admitted = await admit(walk, snapshot, raw)
    client = Client()
    await Relay(walk, snapshot, admitted, 0, 1)({}, client.receive, client.send)
    return client


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_good_call_is_released_and_recorded_with_its_source(is_stream: bool) -> None:
    rooms = stream(GOOD) if is_stream else plain(GOOD)
    client = await run(rooms, is_stream)
    assert client.status == 200
    assert json.dumps(GOOD).encode() in client.body
    record = rooms.journal.records[-1]
    assert rooms.journal.phases == ["admitted", "completed"]
    (fact,) = record.tool_calls
    assert (fact.name, fact.source, fact.outcome) == ("look_up", "search@1.0.0", "released")
    assert fact.arguments_hmac == "d" * 64
    assert [(pin.name, pin.version) for pin in rooms.journal.records[0].pins] == [
        ("greeting", "1.10.0"),
        ("search", "1.0.0"),
    ]


@pytest.mark.parametrize(
    ("arguments", "name", "code", "outcome"),
    [
        ('"tides"', "look_up", "tool-arguments-invalid", "arguments-not-an-object"),
        ('{"q":1}', "look_up", "tool-arguments-invalid", "arguments-off-schema"),
        (GOOD, "transfer", "tool-not-granted", "not-granted"),
    ],
)
async def test_a_bad_call_ends_a_stream_with_an_error_and_without_an_end(
    arguments: str, name: str, code: str, outcome: str
) -> None:
    rooms = stream(arguments, name, "length")
    client = await run(rooms, True)
    assert client.status == 200
    assert b"One moment." in client.body
    assert b"tool_calls" not in client.body.replace(b"tool_calls[0]", b"")
    assert b"[DONE]" not in client.body
    assert json.loads(client.body.rsplit(b"data: ", 1)[1])["error"]["code"] == code
    record = rooms.journal.records[-1]
    assert (record.phase.value, record.reason_code) == ("aborted", code)
    assert [fact.outcome for fact in record.tool_calls] == [outcome]
    assert len(rooms.limiter.settled) == 1
    assert rooms.limiter.settled[0][1] is not None


async def test_a_bad_call_of_a_plain_answer_is_502_and_nothing_else() -> None:
    rooms = plain('{"q":1}')
    client = await run(rooms, False)
    assert client.status == 502
    assert json.loads(client.body)["error"]["code"] == "tool-arguments-invalid"
    assert rooms.journal.phases == ["admitted", "aborted"]


async def test_the_answer_tells_which_version_it_was_made_with() -> None:
    client = await run(plain(GOOD), False)
    assert client.headers[b"x-tidegate-protocol"] == b"greeting@1.10.0"
