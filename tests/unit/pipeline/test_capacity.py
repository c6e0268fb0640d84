from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.admitted import Admitted
from gateway.errors import Refusal, RequestRefused
from gateway.pipeline.admit import Walk, admit
from gateway.pipeline.capacity import excess
from gateway.pipeline.failover import Failover
from gateway.pipeline.hold import Hold
from gateway.pipeline.records import Outcome
from gateway.snapshot import Snapshot
from tests.fakes.rooms import Rooms, raw_request


def test_an_answer_as_long_as_the_context_names_field_and_bound() -> None:
    fault = excess(4096, None, 10, 4096)
    assert fault is not None
    assert (fault.http_status, fault.code, fault.param) == (
        400,
        "context-length-exceeded",
        "max_completion_tokens",
    )
    assert "4096" in fault.message
    assert excess(4000, None, 10, 4096) is None


def test_a_prompt_that_surely_does_not_fit_names_the_messages() -> None:
    fault = excess(None, None, 5 * 4096, 4096)
    assert fault is not None
    assert fault.param == "messages"
    assert excess(None, None, 4 * 4096, 4096) is None, "what might fit is left to the engine"


def test_what_the_policy_grants_is_what_counts() -> None:
    assert excess(100_000, 256, 10, 4096) is None
    assert excess(None, 5000, 10, 4096) is not None


@given(st.none() | st.integers(1, 10**6), st.none() | st.integers(1, 10**6), st.integers(1, 10**7))
def test_an_unknown_context_refuses_nothing(asked: int | None, granted: int | None, prompt: int) -> None:
    assert excess(asked, granted, prompt, None) is None


@given(st.integers(1, 10**6), st.integers(1, 10**7), st.integers(1, 10**6))
def test_a_larger_context_never_refuses_what_a_smaller_one_takes(
    asked: int, prompt: int, context: int
) -> None:
    if excess(asked, None, prompt, context) is None:
        assert excess(asked, None, prompt, context + 1) is None


def asking(tokens: int) -> bytes:
    said = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}], "max_tokens": tokens}
    return json.dumps(said).encode()


def walk_with(rooms: Rooms, **contexts: int) -> Walk:
    known = {name.replace("_", "-"): tokens for name, tokens in contexts.items()}
    return replace(rooms.walk(), context_tokens=known.get)


async def test_a_request_that_fits_nowhere_is_refused_and_recorded_before_anything_is_reserved() -> None:
    rooms = Rooms()
    walk = walk_with(rooms, hosted_openai=1000, private_moe=500)
    with pytest.raises(RequestRefused) as caught:
        await admit(walk, rooms.snapshot(), raw_request(asking(2000)))
    assert caught.value.param == "max_completion_tokens"
    assert rooms.journal.phases == ["denied"]
    assert rooms.limiter.reserved == []


def attempts(walk: Walk, snapshot: Snapshot, admitted: Admitted) -> Failover:
    hold = Hold(walk, snapshot, admitted)
    return Failover(walk, snapshot, admitted, Outcome(), lambda stage: None, hold)


async def test_a_destination_whose_model_is_too_small_is_passed_over() -> None:
    rooms = Rooms()
    rooms.upstream.scripts = {"hosted-openai": [], "private-moe": []}
    walk, snapshot = walk_with(rooms, hosted_openai=1000), rooms.snapshot()
    admitted = await admit(walk, snapshot, raw_request(asking(2000)))
    answer = await attempts(walk, snapshot, admitted).open()
    assert answer.destination.name == "private-moe"
    assert rooms.upstream.opened == ["private-moe"]


async def test_a_fallback_does_not_lead_to_a_model_that_is_too_small() -> None:
    rooms = Rooms()
    rooms.upstream.scripts = {"hosted-openai": Refusal("down"), "private-moe": []}
    walk, snapshot = walk_with(rooms, private_moe=1000), rooms.snapshot()
    admitted = await admit(walk, snapshot, raw_request(asking(2000)))
    with pytest.raises(Refusal):
        await attempts(walk, snapshot, admitted).open()
    assert rooms.upstream.opened == ["hosted-openai"]
