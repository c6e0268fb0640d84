from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.domain.label import Level
from gateway.domain.limits import Reservation, Usage
from gateway.domain.record import Phase
from gateway.errors import (
    AuditUnavailable,
    DestinationBusy,
    OutputBlocked,
    Refusal,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.pipeline.admit import admit
from gateway.pipeline.relay import Relay
from tests.fakes.rooms import FakeLimiter, Rooms, raw_request

MODELS = {"hosted-openai": "gpt-5.1", "private-moe": "reference-moe"}
DOWN = UpstreamUnavailable("down", code="upstream-unreachable", retry_after_seconds=5)


def body(stream: bool) -> bytes:
    return json.dumps(
        {"model": "assistant", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    ).encode()


def sse(
    delta: dict[str, Any] | None, finish: str | None = None, usage: dict[str, int] | None = None
) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "MODEL", "choices": choices}
    if usage is not None:
        chunk["usage"] = usage
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


STREAM = (
    sse({"role": "assistant", "content": ""}),
    sse({"content": "Hello"}),
    sse({"content": " there"}),
    sse({}, "stop"),
    sse(None, usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
    b"data: [DONE]\n\n",
)
PLAIN = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "MODEL",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello there"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
).encode()


class Client:
    """An ASGI client: collects what is sent, and leaves when it is told to."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.is_complete = False
        self.gone = asyncio.Event()
        self.is_stalled = False

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await asyncio.sleep(0)
        if self.is_stalled:
            await asyncio.Event().wait()
        if message["type"] == "http.response.start":
            assert self.status == 0, "one response start"
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            assert not self.is_complete, "nothing after the end"
            self.body += message["body"]
            self.is_complete = not message.get("more_body", False)


async def run(rooms: Rooms, stream: bool, client: Client | None = None) -> Client:
    walk, snapshot = rooms.walk(), rooms.snapshot()
    admitted = await admit(walk, snapshot, raw_request(body(stream)))
    client = client or Client()
    await Relay(walk, snapshot, admitted, 0, 1)({}, client.receive, client.send)
    return client


def with_upstream(**scripts: Sequence[bytes | Refusal | None] | Refusal | None) -> Rooms:
    rooms = Rooms()
    rooms.upstream.scripts = {
        name.replace("_", "-"): script_of(name.replace("_", "-"), script) for name, script in scripts.items()
    }
    return rooms


def script_of(name: str, script: Any) -> Any:
    """The script with the destination's own model in its chunks."""
    if script is None or isinstance(script, Refusal):
        return script
    model = MODELS[name].encode()
    return [step.replace(b"MODEL", model) if isinstance(step, bytes) else step for step in script]


async def test_a_stream_ends_clean_and_completed_is_recorded_before_the_end() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    client = await run(rooms, stream=True)
    assert client.status == 200
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.headers[b"x-tidegate-destination"] == b"hosted-openai"
    assert client.headers[b"x-tidegate-label"] == b"internal"
    assert rooms.journal.phases == ["admitted", "completed"]
    [(_, usage)] = rooms.limiter.settled
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.source) == (3, 2, "provider")
    assert rooms.upstream.answers[0].is_closed


async def test_a_plain_answer_is_a_fold_of_the_same_events() -> None:
    client = await run(with_upstream(hosted_openai=[PLAIN]), stream=False)
    answer = json.loads(client.body)
    assert answer["choices"][0]["message"]["content"] == "Hello there"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["total_tokens"] == 5


@pytest.mark.parametrize("stream", [True, False])
async def test_the_end_is_not_shown_when_completed_cannot_be_recorded(stream: bool) -> None:
    rooms = with_upstream(hosted_openai=STREAM if stream else [PLAIN])
    rooms.journal.refusals[Phase.COMPLETED] = AuditUnavailable("no receipt")
    client = await run(rooms, stream=stream)
    assert b"[DONE]" not in client.body
    assert b'"finish_reason":"stop"' not in client.body
    assert b"audit-unavailable" in client.body
    assert client.status == (200 if stream else 503)
    # The log closes the intent itself; a second closing record could contradict one that comes late.
    assert rooms.journal.phases == ["admitted"]
    assert len(rooms.limiter.settled) == 1


@pytest.mark.parametrize("count", range(1, len(STREAM)))
async def test_a_cut_stream_never_ends_clean_wherever_it_is_cut(count: int) -> None:
    rooms = with_upstream(hosted_openai=[*STREAM[:count], UpstreamFailed("cut", code="upstream-truncated")])
    client = await run(rooms, stream=True)
    assert b"[DONE]" not in client.body
    assert b'"finish_reason":"stop"' not in client.body
    assert b"upstream-truncated" in client.body
    assert rooms.journal.phases == ["admitted", "aborted"]
    assert rooms.journal.records[-1].reason_code == "upstream-truncated"
    assert len(rooms.limiter.settled) == 1


async def test_a_body_that_just_stops_is_truncated_too() -> None:
    client = await run(with_upstream(hosted_openai=STREAM[:4]), stream=True)
    assert b"[DONE]" not in client.body
    assert b"upstream-truncated" in client.body


async def test_an_answer_that_is_no_answer_counts_against_the_destination() -> None:
    rooms = with_upstream(hosted_openai=[*STREAM[:2], b"data: {broken\n\n"])
    await run(rooms, stream=True)
    assert rooms.upstream.answers[0].is_faulty


async def test_a_client_that_leaves_does_not_count_against_the_destination() -> None:
    rooms = with_upstream(hosted_openai=[*STREAM[:2], None])
    client = Client()
    task = asyncio.create_task(run(rooms, True, client))
    for _ in range(50):
        await asyncio.sleep(0)
    client.gone.set()
    await asyncio.wait_for(task, 1)
    assert not rooms.upstream.answers[0].is_faulty


async def test_the_next_place_of_the_permit_is_tried_before_the_first_byte() -> None:
    rooms = with_upstream(hosted_openai=DOWN, private_moe=STREAM)
    client = await run(rooms, stream=True)
    assert client.headers[b"x-tidegate-destination"] == b"private-moe"
    route = rooms.journal.records[-1].route
    assert route is not None
    assert route.attempts == (("hosted-openai", "upstream-unreachable"), ("private-moe", "answered"))


async def test_no_other_place_is_tried_after_the_first_byte() -> None:
    rooms = with_upstream(
        hosted_openai=[*STREAM[:2], UpstreamFailed("cut", code="upstream-truncated")], private_moe=STREAM
    )
    await run(rooms, stream=True)
    assert rooms.upstream.opened == ["hosted-openai"]


@pytest.mark.parametrize(
    ("refusal", "is_next_tried"),
    [
        (UpstreamRejected("no", upstream_status=400), False),
        (UpstreamRejected("no", upstream_status=422), False),
        (UpstreamRejected("later", upstream_status=429), True),
        (UpstreamFailed("bad"), True),
        (UpstreamTimeout("slow", code="upstream-connect-timeout"), True),
        (UpstreamTimeout("slow", code="upstream-first-byte-timeout"), False),
        (DOWN, True),
    ],
)
async def test_a_providers_refusal_is_not_routed_around(refusal: Refusal, is_next_tried: bool) -> None:
    rooms = with_upstream(hosted_openai=refusal, private_moe=STREAM)
    client = await run(rooms, stream=True)
    assert (rooms.upstream.opened == ["hosted-openai", "private-moe"]) is is_next_tried
    if not is_next_tried:
        assert client.status == refusal.http_status


async def test_when_the_private_node_is_down_a_restricted_request_goes_nowhere() -> None:
    rooms = with_upstream(private_moe=DOWN)
    rooms.level = Level.RESTRICTED
    client = await run(rooms, stream=True)
    assert client.status == 503
    assert client.headers[b"retry-after"] == b"5"
    assert rooms.upstream.opened == ["private-moe"]
    assert rooms.limiter.settled == [("req_1", None)], "nothing was sent, so all of it is given back"


@pytest.mark.parametrize("script", [None, [None], [*STREAM[:2], None]])
async def test_a_client_that_leaves_stops_the_exchange_in_every_window(script: Any) -> None:
    rooms = with_upstream(hosted_openai=script)
    client = Client()
    task = asyncio.create_task(run(rooms, True, client))
    for _ in range(50):
        await asyncio.sleep(0)
    client.gone.set()
    await asyncio.wait_for(task, 1)
    assert rooms.journal.phases == ["admitted", "aborted"]
    assert rooms.journal.records[-1].reason_code == "client-disconnected"
    assert all(answer.is_closed for answer in rooms.upstream.answers)
    [(_, usage)] = rooms.limiter.settled
    assert usage is not None
    assert usage.source == "estimate"


async def test_a_client_that_does_not_read_is_given_up_at_the_write_deadline() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    client = Client()
    client.is_stalled = True
    await asyncio.wait_for(run(rooms, True, client), 2)
    assert rooms.journal.records[-1].reason_code == "client-stalled"
    assert rooms.upstream.answers[0].is_closed
    assert len(rooms.limiter.settled) == 1


async def test_a_destination_without_a_place_is_left_for_the_next_of_the_permit() -> None:
    rooms = with_upstream(private_moe=STREAM)
    busy = DestinationBusy("no place", code="destination-queue-full", retry_after_seconds=7)
    rooms.doors.busy["hosted-openai"] = busy
    client = await run(rooms, stream=True)
    assert client.body.endswith(b"data: [DONE]\n\n")
    route = rooms.journal.records[-1].route
    assert route is not None
    assert route.attempts == (
        ("hosted-openai", "destination-queue-full"),
        ("private-moe", "answered"),
    )
    assert rooms.doors.entered == [("private-moe", "interactive", "demo", 30, None)]
    assert rooms.doors.left == ["private-moe"]


async def test_without_any_place_the_client_is_told_when_to_come_back_and_nothing_was_spent() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    for name in ("hosted-openai", "private-moe"):
        rooms.doors.busy[name] = DestinationBusy(
            "no place", code="destination-queue-full", retry_after_seconds=7
        )
    client = await run(rooms, stream=True)
    assert client.status == 429
    assert client.headers[b"retry-after"] == b"7"
    assert rooms.upstream.opened == []
    assert rooms.limiter.settled == [("req_1", None)]
    assert rooms.journal.records[-1].reason_code == "destination-queue-full"


async def test_a_place_is_given_on_when_the_destination_fails_and_when_the_client_goes() -> None:
    rooms = with_upstream(hosted_openai=UpstreamUnavailable("down"), private_moe=[*STREAM[:2], None])
    client = Client()
    task = asyncio.create_task(run(rooms, True, client))
    while not client.body:
        await asyncio.sleep(0)
    assert rooms.doors.left == ["hosted-openai"]
    client.gone.set()
    await task
    assert rooms.doors.left == ["hosted-openai", "private-moe"]


@pytest.mark.parametrize("stream", [True, False])
async def test_what_was_released_is_remembered_before_the_client_has_its_last_byte(stream: bool) -> None:
    rooms = with_upstream(hosted_openai=STREAM if stream else [PLAIN])
    client = Client()
    told: list[tuple[bool, str]] = []
    remembered = rooms.lineage.remembered

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            told.extend((True, text) for _, text in remembered)
        await Client.send(client, message)

    client.send = send  # type: ignore[method-assign]
    await run(rooms, stream, client)
    assert told == [(True, "Hello there")]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_cannot_be_remembered_ends_with_an_error_and_one_record(stream: bool) -> None:
    rooms = with_upstream(hosted_openai=STREAM if stream else [PLAIN])
    rooms.lineage.fault = RuntimeError("a fault of the room")
    client = await run(rooms, stream)
    assert b"[DONE]" not in client.body
    assert b"Hello" not in client.body or stream
    assert [record.phase for record in rooms.journal.records] == [Phase.ADMITTED, Phase.ABORTED]
    assert rooms.faults == ["RuntimeError"]
    assert len(rooms.limiter.settled) == 1


async def test_the_part_that_a_cut_answer_released_is_remembered_too() -> None:
    rooms = with_upstream(hosted_openai=STREAM[:2])
    await run(rooms, stream=True)
    assert [text for _, text in rooms.lineage.remembered] == ["Hello"]


async def test_a_filter_that_raises_ends_the_stream_without_a_tail() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    rooms.filter.refusal = OutputBlocked("stopped", detail="budget-spent")
    rooms.filter.trap = " there"
    client = await run(rooms, stream=True)
    assert b"Hello" in client.body
    assert b"there" not in client.body
    assert b"output-blocked" in client.body
    assert b"[DONE]" not in client.body
    assert rooms.journal.records[-1].reason_code == "output-blocked"
    assert rooms.refused == [("output-blocked", "budget-spent")]


async def test_a_shutdown_seals_the_exchange_as_aborted() -> None:
    rooms = with_upstream(hosted_openai=[*STREAM[:2], None])
    task = asyncio.create_task(run(rooms, True))
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rooms.journal.records[-1].reason_code == "gateway-shutdown"
    assert len(rooms.limiter.settled) == 1


async def stopped(rooms: Rooms, stream: bool, client: Client) -> None:
    """An exchange that is told to stop while it waits for the destination."""
    walk, snapshot = rooms.walk(), rooms.snapshot()
    admitted = await admit(walk, snapshot, raw_request(body(stream)))
    relay = Relay(walk, snapshot, admitted, 0, 1)
    task = asyncio.create_task(relay({}, client.receive, client.send))
    for _ in range(50):
        await asyncio.sleep(0)
    relay.stop()
    await asyncio.wait_for(task, 5)


async def test_a_stop_ends_a_running_stream_with_an_error_event() -> None:
    rooms = with_upstream(hosted_openai=[*STREAM[:2], None])
    client = Client()
    await stopped(rooms, True, client)
    assert client.is_complete
    assert b"Hello" in client.body
    assert b'"code":"gateway-shutdown"' in client.body
    assert b"[DONE]" not in client.body
    result = rooms.journal.records[-1].result
    assert rooms.journal.records[-1].reason_code == "gateway-shutdown"
    assert result is not None
    assert (result.status, result.client_disconnected) == (503, False)
    assert len(rooms.limiter.settled) == 1
    assert rooms.upstream.answers[0].is_closed


async def test_a_stop_before_the_first_byte_is_a_503_to_be_sent_again() -> None:
    rooms = with_upstream(hosted_openai=None)
    client = Client()
    await stopped(rooms, False, client)
    assert client.status == 503
    assert client.headers[b"retry-after"] == b"1"
    assert rooms.journal.records[-1].reason_code == "gateway-shutdown"


async def test_a_stop_is_not_held_up_by_a_client_that_does_not_read() -> None:
    rooms = with_upstream(hosted_openai=[*STREAM[:2], None])
    client = Client()
    client.is_stalled = True
    await stopped(rooms, True, client)
    assert rooms.journal.records[-1].reason_code in {"gateway-shutdown", "client-stalled"}
    assert len(rooms.limiter.settled) == 1


async def test_an_unexpected_fault_is_told_without_its_text() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    rooms.filter.refusal = ValueError("DE89 3704")  # type: ignore[assignment]
    rooms.filter.trap = "Hello"
    client = await run(rooms, stream=True)
    assert b"internal-error" in client.body
    assert b"[DONE]" not in client.body
    assert b"DE89" not in client.body
    assert rooms.faults == ["ValueError"]
    assert rooms.journal.records[-1].reason_code == "internal-error"


async def test_bytes_out_of_a_record_is_what_is_sent() -> None:
    for stream, script in ((False, [PLAIN]), (True, STREAM)):
        rooms = with_upstream(hosted_openai=script)
        client = await run(rooms, stream=stream)
        result = rooms.journal.records[-1].result
        assert result is not None
        assert result.bytes_out == len(client.body)


class SlowLimiter(FakeLimiter):
    """Settles after a while."""

    async def settle(self, reservation: Reservation, usage: Usage | None, cost_usd_micros: int = 0) -> None:
        await asyncio.sleep(0.1)
        await super().settle(reservation, usage)


async def test_a_shutdown_while_settling_does_not_lose_the_settlement() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    rooms.limiter = SlowLimiter()
    task = asyncio.create_task(run(rooms, stream=True))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.2)
    assert len(rooms.limiter.settled) == 1


class FailingLimiter(FakeLimiter):
    """Cannot settle."""

    async def settle(self, reservation: Reservation, usage: Usage | None, cost_usd_micros: int = 0) -> None:
        raise RuntimeError("boom")


async def test_a_limiter_that_cannot_settle_does_not_take_the_answer_away() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    rooms.limiter = FailingLimiter()
    client = await run(rooms, stream=True)
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert rooms.journal.phases == ["admitted", "completed"]
    assert rooms.faults == ["RuntimeError"]


class StallsAtEnd(Client):
    """Reads everything but the last bytes."""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            await asyncio.Event().wait()
        await super().send(message)


async def test_a_client_that_stalls_at_the_last_bytes_is_let_go() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    await asyncio.wait_for(run(rooms, stream=True, client=StallsAtEnd()), 3)
    assert rooms.journal.phases == ["admitted", "completed"]
    assert rooms.upstream.answers[0].is_closed


async def test_a_client_that_leaves_at_the_last_bytes_ends_the_exchange() -> None:
    rooms = with_upstream(hosted_openai=STREAM)
    client = StallsAtEnd()
    asyncio.get_running_loop().call_later(0.05, client.gone.set)
    await asyncio.wait_for(run(rooms, stream=True, client=client), 0.15)
    assert rooms.journal.phases == ["admitted", "completed"]
