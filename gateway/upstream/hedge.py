"""The faster of two attempts: the second begins when the first has been silent for a while.

Invariants
1. Of the attempts that come to something, one is given out and the other is discarded.
2. No attempt outlives the race, however it ends: what is not given out is cancelled and waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")
Attempt = Coroutine[Any, Any, _T]


async def race(
    first: Attempt[_T],
    second: Callable[[], Awaitable[Attempt[_T] | None]],
    after_seconds: float,
    discard: Callable[[_T], Awaitable[None]],
) -> _T:
    """The result of the first attempt that succeeds. Raises what the last one raised when none does.

    `second()` is asked for another attempt after `after_seconds` without an end of the first; None: there is
    none. `discard(result)` gets the result of an attempt that came too late.
    """
    running = {asyncio.create_task(first)}
    winner: asyncio.Task[_T] | None = None
    try:
        done, _ = await asyncio.wait(running, timeout=after_seconds)
        if not done:
            other = await second()
            if other is not None:
                running.add(asyncio.create_task(other))
        winner = await _first_good(running)
        return winner.result()
    finally:
        await _end(running - {winner} if winner is not None else running, discard)


async def _first_good(tasks: set[asyncio.Task[_T]]) -> asyncio.Task[_T]:
    waiting = set(tasks)
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        good = [task for task in done if task.exception() is None]
        if good or not waiting:
            return good[0] if good else done.pop()


async def _end(tasks: set[asyncio.Task[_T]], discard: Callable[[_T], Awaitable[None]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(result, BaseException):
            await discard(result)
