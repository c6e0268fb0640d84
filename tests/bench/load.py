"""A lean closed-loop HTTP/1.1 client on raw asyncio streams, for load on loopback only.

Bounded in requests and in time. Gives seconds per request, and seconds to the first event for streams.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_WORDS = """
the of a report team plan about review meeting service quarter customer delay weather garden coffee river
window market bread paper lesson music travel history science winter simple clear quiet common early kind
open local steady useful people work light water house morning
"""
WORDS = tuple(_WORDS.split())


def message(length: int, chance: random.Random) -> str:
    """New prose of `length` characters, different each time."""
    words: list[str] = []
    size = 0
    while size < length:
        word = chance.choice(WORDS)
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[:length]


def body(stream: bool, chance: random.Random, length: int = 1024) -> bytes:
    """A chat request with one new message."""
    request = {
        "model": "assistant",
        "messages": [
            {"role": "system", "content": "You answer in short and plain sentences."},
            {"role": "user", "content": message(length, chance)},
        ],
        "max_tokens": 256,
        "temperature": 0.2,
    }
    if stream:
        request["stream"] = True
    return json.dumps(request, separators=(",", ":")).encode()


@dataclass
class Samples:
    """What one run measured. Times in seconds."""

    total: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    error_count: int = 0
    wall_seconds: float = 0.0


class Connection:
    """One keep-alive connection; counts an answer that is not 200 or not whole as an error."""

    def __init__(self, port: int, headers: bytes, stream: bool) -> None:
        self._port = port
        self._headers = headers
        self._stream = stream
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, payload: bytes, samples: Samples) -> None:
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        started = time.perf_counter()
        self._writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            + self._headers
            + b"Content-Length: %d\r\n\r\n" % len(payload)
            + payload
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        is_ok = head.startswith(b"HTTP/1.1 200")
        if b"chunked" in head.lower():
            answer, first = await self._chunked(self._reader)
        else:
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            answer = await self._reader.readexactly(size)
            first = time.perf_counter()
        ended = time.perf_counter()
        if is_ok and self._stream:
            is_ok = answer.endswith(b"data: [DONE]\n\n")
        if not is_ok:
            samples.error_count += 1
            return
        samples.total.append(ended - started)
        samples.first.append(first - started)

    @staticmethod
    async def _chunked(reader: asyncio.StreamReader) -> tuple[bytes, float]:
        parts: list[bytes] = []
        first = 0.0
        while True:
            size = int(await reader.readuntil(b"\r\n"), 16)
            data = await reader.readexactly(size + 2)
            if size == 0:
                return b"".join(parts[-3:]), first
            if not first:
                first = time.perf_counter()
            parts.append(data[:-2])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


async def closed_loop(
    port: int, headers: bytes, *, stream: bool, connections: int, requests: int, seconds: float
) -> Samples:
    """`connections` clients in a loop until `requests` are done or `seconds` have passed."""
    samples = Samples()
    left = requests
    deadline = time.perf_counter() + seconds
    chance = random.Random(7)
    started = time.perf_counter()

    async def client() -> None:
        nonlocal left
        link = Connection(port, headers, stream)
        while left > 0 and time.perf_counter() < deadline:
            left -= 1
            await link.ask(body(stream, chance), samples)
        link.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    samples.wall_seconds = time.perf_counter() - started
    return samples


async def paced(
    port: int, headers: bytes, *, stream: bool, per_second: float, requests: int, on_tick: Callable[[], None]
) -> Samples:
    """Requests at a fixed rate, each on a free connection of a small pool."""
    samples = Samples()
    chance = random.Random(11)
    free: list[Connection] = []
    started = time.perf_counter()

    async def one() -> None:
        link = free.pop() if free else Connection(port, headers, stream)
        await link.ask(body(stream, chance), samples)
        free.append(link)

    async with asyncio.TaskGroup() as group:
        for number in range(requests):
            pause = started + number / per_second - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            group.create_task(one())
            on_tick()
    for link in free:
        link.close()
    samples.wall_seconds = time.perf_counter() - started
    return samples
