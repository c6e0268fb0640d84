"""A stand-in for a hosted API that keeps a meter: what it counted for each request, and whether it said so.

    python -m tests.fakes.metered_standin --meter FILE [--fail-percent 10] [--port 0]

Each answer is 8 to 24 short words, slow enough to be left. Some requests fail: with 503 before anything was
generated, or in the middle of a stream without usage. `FILE` gets one JSON line for each request when it is
over: `id` (the `x-request-id` of the answer), `tokens` (prompt and output), `is_told` (usage was sent whole).
First line of stdout: `listening on PORT`. Stops on SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
from pathlib import Path
from typing import Any

from tests.fakes.wire_server import Connection, Hooks, Request, serve

PAUSE_SECONDS = 0.01


class MeteredStandin:
    """Answers chat completions, and writes down what they would cost."""

    def __init__(self, meter: Path, fail_percent: int, chance: random.Random) -> None:
        self._meter = meter
        self._fail_percent = fail_percent
        self._chance = chance
        self._numbers = itertools.count(1)

    async def __call__(self, connection: Connection, request: Request) -> None:
        """Handle one request."""
        body = json.loads(request.body)
        number = next(self._numbers)
        fails = self._chance.random() * 100 < self._fail_percent
        if fails and self._chance.random() < 0.5:
            error = json.dumps({"error": {"message": "Overloaded.", "type": "server_error"}})
            await connection.answer(503, error.encode())
            return
        prompt = sum(len(str(message["content"])) for message in body["messages"]) // 4 + 1
        words = self._chance.randint(8, 24)
        count = {"output": 0, "told": 0}
        try:
            if body.get("stream"):
                await self._stream(connection, body, number, prompt, words, count, cut=fails)
            else:
                count["output"] = words
                await asyncio.sleep(words * PAUSE_SECONDS)
                await self._plain(connection, body, number, prompt, words)
                count["told"] = 1
        finally:
            line = {
                "id": f"req-{number}",
                "tokens": prompt + count["output"],
                "is_told": bool(count["told"]),
            }
            with self._meter.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    async def _plain(
        self, connection: Connection, body: dict[str, Any], number: int, prompt: int, words: int
    ) -> None:
        message = {"role": "assistant", "content": "tide " * words, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        answer = self._head(body, "chat.completion") | {"choices": [choice], "usage": _usage(prompt, words)}
        await connection.answer(200, json.dumps(answer).encode(), extra=f"x-request-id: req-{number}\r\n")

    async def _stream(
        self,
        connection: Connection,
        body: dict[str, Any],
        number: int,
        prompt: int,
        words: int,
        count: dict[str, int],
        *,
        cut: bool,
    ) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\nx-request-id: req-%d\r\n\r\n" % number
        )
        head = self._head(body, "chat.completion.chunk")

        async def say(choices: list[Any], **more: Any) -> None:
            data = json.dumps(head | {"choices": choices} | more)
            await connection.send_chunk(f"data: {data}\n\n".encode())

        for position in range(words):
            if cut and position == words // 2:
                connection.close()
                return
            count["output"] += 1
            delta = {"role": "assistant", "content": "tide "}
            await say([{"index": 0, "delta": delta, "finish_reason": None}])
            await asyncio.sleep(PAUSE_SECONDS)
        await say([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        await say([], usage=_usage(prompt, words))
        await connection.send_chunk(b"data: [DONE]\n\n")
        count["told"] = 1
        await connection.end_stream()

    @staticmethod
    def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-metered", "object": kind, "created": 1_767_225_600, "model": body["model"]}


def _usage(prompt: int, output: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--meter", type=Path, required=True)
    parser.add_argument("--fail-percent", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    handler = MeteredStandin(given.meter, given.fail_percent, random.Random(given.seed))
    asyncio.run(serve(handler, Hooks(), host=given.host, port=given.port))


if __name__ == "__main__":
    main()
