"""The doors of destinations: who waits, who is told to come back, and that no place is ever lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.errors import DestinationBusy
from gateway.limits.fair_queue import Capacity, ClassShare
from gateway.limits.turnstile import Door, Turnstile

CLASSES = {"interactive": ClassShare(4, 2, 3), "batch": ClassShare(1, 1, 2)}


def turnstile(running: int = 2, wait_seconds: float = 30.0) -> Turnstile:
    return Turnstile({"node": Door(Capacity(running, CLASSES), wait_seconds)}, time.monotonic)


async def test_a_destination_without_a_door_needs_no_place() -> None:
    assert await turnstile().enter("elsewhere", "interactive", "t", 10, None) is None


async def test_who_waits_comes_in_when_a_place_is_left() -> None:
    gate = turnstile()
    first = await gate.enter("node", "interactive", "t", 10, None)
    second = await gate.enter("node", "interactive", "t", 10, None)
    assert first is not None
    assert second is not None
    third = asyncio.create_task(gate.enter("node", "interactive", "t", 10, None))
    await asyncio.sleep(0)
    assert gate.queues["node"].waiting_count("interactive") == 1
    first.leave()
    first.leave()
    place = await third
    assert place is not None
    assert gate.queues["node"].running_count == 2
    place.leave()
    second.leave()
    assert gate.queues["node"].running_count == 0


async def test_a_caller_that_would_not_wait_is_told_when_to_come_back() -> None:
    gate = turnstile(running=1)
    held = await gate.enter("node", "interactive", "t", 10, None)
    with pytest.raises(DestinationBusy) as caught:
        await gate.enter("node", "interactive", "t", 10, 0.02)
    assert caught.value.code == "destination-wait-too-long"
    assert caught.value.http_status == 429
    assert (caught.value.retry_after_seconds or 0) >= 1
    assert gate.queues["node"].waiting_count("interactive") == 0
    assert held is not None
    held.leave()


async def test_a_client_that_goes_while_it_waits_leaves_the_queue() -> None:
    gate = turnstile(running=1)
    held = await gate.enter("node", "interactive", "t", 10, None)
    waiting = asyncio.create_task(gate.enter("node", "interactive", "t", 10, None))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert gate.queues["node"].waiting_count("interactive") == 0
    assert held is not None
    held.leave()
    assert gate.queues["node"].running_count == 0


async def test_a_place_given_to_a_client_that_is_going_is_given_on() -> None:
    """Cancelled in the moment between being woken and running."""
    gate = turnstile(running=1)
    held = await gate.enter("node", "interactive", "t", 10, None)
    waiting = asyncio.create_task(gate.enter("node", "interactive", "t", 10, None))
    await asyncio.sleep(0)
    assert held is not None
    held.leave()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert gate.queues["node"].running_count == 0


async def test_a_full_queue_turns_away_and_batch_never_takes_all_places() -> None:
    gate = turnstile()
    batch = await gate.enter("node", "batch", "t", 10, None)
    tasks = [asyncio.create_task(gate.enter("node", "batch", "t", 10, None)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(DestinationBusy) as caught:
        await gate.enter("node", "batch", "t", 10, None)
    assert caught.value.code == "destination-queue-full"
    user = await asyncio.wait_for(gate.enter("node", "interactive", "u", 10, None), 5)
    assert user is not None
    user.leave()
    assert batch is not None
    batch.leave()
    for task in tasks:
        place = await asyncio.wait_for(task, 5)
        assert place is not None
        place.leave()
    assert gate.queues["node"].running_count == 0
