from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.decision import Destination
from gateway.domain.limits import Exceeded, Quota, ScopeLimits, Usage
from gateway.errors import DestinationBusy
from gateway.pipeline.admit import admit
from gateway.pipeline.hold import Hold
from tests.fakes.rooms import Rooms, raw_request

BODY = b'{"model":"assistant","messages":[{"role":"user","content":"hi"}]}'
QUOTAS = (Quota("account", "main", ScopeLimits(concurrency=1)),)


async def hold_of(rooms: Rooms, price: int | None = 7) -> tuple[Hold, Destination]:
    walk, snapshot = rooms.walk(), rooms.snapshot()
    snapshot = replace(
        snapshot,
        account=lambda name: ("main", QUOTAS) if name == "hosted-openai" else None,
        cost=lambda place, usage, at: price,
    )
    admitted = await admit(walk, snapshot, raw_request(BODY))
    admitted = replace(admitted, reservation=replace(admitted.reservation, cost_usd_micros=99))
    place = next(place for place in admitted.permit.destinations if place.name == "hosted-openai")
    return Hold(walk, snapshot, admitted), place


async def test_settles_the_tenants_hold_and_the_accounts_once() -> None:
    rooms = Rooms()
    hold, place = await hold_of(rooms)
    await hold.attempt(place)
    await hold.settle(place, Usage(3, 4))
    await hold.settle(place, Usage(3, 4))
    assert rooms.limiter.accounts == ["main"]
    assert rooms.limiter.settled == [("req_1", Usage(3, 4))] * 2


async def test_next_attempt_gives_back_what_the_last_one_took_of_an_account() -> None:
    rooms = Rooms()
    hold, place = await hold_of(rooms)
    await hold.attempt(place)
    await hold.attempt(replace(place, name="private-moe"))
    assert rooms.limiter.settled == [("req_1", None)]
    await hold.settle(place, Usage(3, 4))
    assert rooms.limiter.settled[1:] == [("req_1", Usage(3, 4))]


async def test_account_that_is_used_up_refuses_the_attempt() -> None:
    rooms = Rooms()
    rooms.limiter.account_answer = Exceeded("tokens", 5, 9, (), "account")
    hold, place = await hold_of(rooms)
    with pytest.raises(DestinationBusy) as refused:
        await hold.attempt(place)
    assert (refused.value.code, refused.value.retry_after_seconds) == ("account-limit-exceeded", 9)


async def test_cost_is_what_was_reserved_when_no_price_holds_any_more() -> None:
    priced, place = await hold_of(Rooms())
    assert priced.cost(place, Usage(1, 1)) == 7
    assert priced.cost(place, None) == priced.cost(None, Usage(1, 1)) == 0
    unpriced, place = await hold_of(Rooms(), None)
    assert unpriced.cost(place, Usage(1, 1)) == 99


async def test_is_extended_when_more_was_used_than_held_and_when_it_is_time() -> None:
    rooms = Rooms()
    hold, place = await hold_of(rooms)
    await hold.attempt(place)
    hold.keep(5)
    await asyncio.sleep(0)
    assert rooms.limiter.extended == []
    hold.keep(1_000)
    hold.keep(1_000)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rooms.limiter.extended == [("req_1", 1_000)] * 2
    rooms.limiter.extend_seconds = 0
    hold.keep(5)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rooms.limiter.extended[2:] == [("req_1", 1_000)] * 2
    await hold.settle(place, Usage(3, 4))
    hold.keep(5_000)
    await asyncio.sleep(0)
    assert len(rooms.limiter.extended) == 4
