"""A recording stand-in for Anthropic's messages API, run as its own process on loopback.

    python -m tests.fakes.messages_standin --port 0 --record DIR [--api-key KEY]

First line of stdout: `listening on PORT`. Stops on SIGTERM. Records as `hosted_standin` does.

As the real one, it refuses a request without `anthropic-version` or `max_tokens`, and fields that it does
not know. The text of the last turn chooses a fault: `overloaded` (529), `rate limited` (429), and
`overloaded later` (an `error` event within a stream).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from tests.fakes.hosted_standin import Recorder
from tests.fakes.messages_answers import event, plain_answer, streamed_answer
from tests.fakes.wire_server import Connection, Hooks, Request, serve

_FIELDS = frozenset(
    {
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "cache_control",
        "metadata",
        "stop_sequences",
        "stream",
        "temperature",
        "top_p",
        "top_k",
    }
)


class MessagesStandin:
    """Answers messages."""

    def __init__(self, recorder: Recorder, api_key: str | None) -> None:
        self._recorder = recorder
        self._api_key = api_key
        self._numbers = itertools.count(1)

    async def __call__(self, connection: Connection, request: Request) -> None:
        """Handle one request."""
        self._recorder.request_came(request)
        if self._api_key is not None and request.headers.get("x-api-key") != self._api_key:
            await self._refuse(connection, 401, "authentication_error", "invalid x-api-key")
        elif request.path != "/v1/messages" or request.method != "POST":
            await self._refuse(connection, 404, "not_found_error", "Not found")
        elif request.headers.get("anthropic-version") != "2023-06-01":
            await self._refuse(connection, 400, "invalid_request_error", "anthropic-version: required")
        else:
            await self._messages(connection, json.loads(request.body))

    async def _messages(self, connection: Connection, body: dict[str, Any]) -> None:
        odd = sorted(set(body) - _FIELDS) + sorted({"model", "max_tokens", "messages"} - set(body))
        if odd:
            words = f"{odd[0]}: Extra inputs are not permitted"
            await self._refuse(connection, 400, "invalid_request_error", words)
            return
        asked = json.dumps(body["messages"][-1])
        if "overloaded later" not in asked:
            if "overloaded" in asked:
                await self._refuse(connection, 529, "overloaded_error", "Overloaded")
                return
            if "rate limited" in asked:
                await self._refuse(connection, 429, "rate_limit_error", "Slow down", "retry-after: 7\r\n")
                return
        number = next(self._numbers)
        if not body.get("stream"):
            data = json.dumps(plain_answer(body, number)).encode()
            await connection.answer(200, data, extra=f"request-id: req_standin{number}\r\n")
            return
        await connection.open_stream()
        for at, part in enumerate(streamed_answer(body, number)):
            if at == 5 and "overloaded later" in asked:
                error = {"type": "overloaded_error", "message": "Overloaded"}
                await connection.send_chunk(event({"type": "error", "error": error}))
                break
            await connection.send_chunk(part)
            await asyncio.sleep(0)
        await connection.end_stream()

    @staticmethod
    async def _refuse(connection: Connection, status: int, kind: str, message: str, extra: str = "") -> None:
        said = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_standin"}
        await connection.answer(status, json.dumps(said).encode(), extra=extra)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--api-key")
    given = parser.parse_args()
    recorder = Recorder(given.record)
    handler = MessagesStandin(recorder, given.api_key)
    asyncio.run(serve(handler, Hooks(on_bytes=recorder.bytes_came), host=given.host, port=given.port))


if __name__ == "__main__":
    main()
