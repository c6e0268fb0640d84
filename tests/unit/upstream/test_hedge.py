from __future__ import annotations

import asyncio

import pytest

from gateway.upstream.hedge import Attempt, race


class Runs:
    """Attempts whose end the test decides."""

    def __init__(self) -> None:
        self.ends: dict[str, asyncio.Future[str]] = {}
        self.discarded: list[str] = []
        self.cancelled: list[str] = []

    async def attempt(self, name: str) -> str:
        self.ends[name] = asyncio.get_running_loop().create_future()
        try:
            return await self.ends[name]
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    async def second(self) -> Attempt[str] | None:
        return self.attempt("second")

    async def nothing(self) -> Attempt[str] | None:
        return None

    async def discard(self, result: str) -> None:
        self.discarded.append(result)

    async def started(self, count: int) -> None:
        while len(self.ends) < count:
            await asyncio.sleep(0)


async def test_a_first_attempt_in_time_has_no_second() -> None:
    runs = Runs()
    task = asyncio.create_task(race(runs.attempt("first"), runs.second, 60, runs.discard))
    await runs.started(1)
    runs.ends["first"].set_result("one")
    assert await task == "one"
    assert list(runs.ends) == ["first"]


async def test_the_slower_one_is_cancelled() -> None:
    runs = Runs()
    task = asyncio.create_task(race(runs.attempt("first"), runs.second, 0, runs.discard))
    await runs.started(2)
    runs.ends["second"].set_result("two")
    assert await task == "two"
    assert runs.cancelled == ["first"]
    assert runs.discarded == []


async def test_of_two_that_come_at_once_one_is_discarded() -> None:
    runs = Runs()
    task = asyncio.create_task(race(runs.attempt("first"), runs.second, 0, runs.discard))
    await runs.started(2)
    runs.ends["first"].set_result("one")
    runs.ends["second"].set_result("two")
    given = await task
    assert sorted([given, *runs.discarded]) == ["one", "two"]


async def test_a_failure_waits_for_the_other_one() -> None:
    runs = Runs()
    task = asyncio.create_task(race(runs.attempt("first"), runs.second, 0, runs.discard))
    await runs.started(2)
    runs.ends["first"].set_exception(ValueError("one"))
    await asyncio.sleep(0)
    runs.ends["second"].set_result("two")
    assert await task == "two"


async def test_when_both_fail_the_last_failure_is_told() -> None:
    runs = Runs()
    task = asyncio.create_task(race(runs.attempt("first"), runs.second, 0, runs.discard))
    await runs.started(2)
    runs.ends["second"].set_exception(ValueError("two"))
    await asyncio.sleep(0.01)
    runs.ends["first"].set_exception(KeyError("one"))
    with pytest.raises(KeyError):
        await task


async def test_without_a_second_the_first_is_waited_for() -> None:
    runs = Runs()
    task = asyncio.create_task(race(runs.attempt("first"), runs.nothing, 0, runs.discard))
    await runs.started(1)
    await asyncio.sleep(0.01)
    runs.ends["first"].set_result("one")
    assert await task == "one"


async def test_cancelling_the_race_ends_every_attempt() -> None:
    runs = Runs()
    task = asyncio.create_task(race(runs.attempt("first"), runs.second, 0, runs.discard))
    await runs.started(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(runs.cancelled) == ["first", "second"]
