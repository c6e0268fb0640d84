"""A recording stand-in for an OpenAI-compatible API, run as its own process on loopback.

    python -m tests.fakes.hosted_standin --port 0 --record DIR [--kind openai|vllm] [--api-key KEY]

First line of stdout: `listening on PORT`. Stops on SIGTERM.

Recording: `DIR/connection-N.bin` holds every byte of connection N in order, written without a
buffer before anything is answered; `DIR/requests.jsonl` has one line per whole request (`at_mono`,
`path`, `headers`, `body`). `recorded_bytes(DIR)` gives all bytes of all connections.

As the real one, kind `openai` refuses fields that it does not know with 400, so that a gateway's own
fields (`cache_salt`, `priority`) show when they go astray.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from pathlib import Path
from typing import Any

from tests.fakes.chat_answers import CREATED, embeddings_answer, legacy_answer, plain_answer, streamed_answer
from tests.fakes.wire_server import Connection, Hooks, Request, serve

_OPENAI_FIELDS = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "max_completion_tokens",
        "max_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "stream",
        "stream_options",
        "reasoning_effort",
        "store",
    }
)


def recorded_bytes(folder: Path) -> bytes:
    """All bytes that a stand-in received, connection after connection."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.glob("connection-*.bin")))


def recorded_requests(folder: Path) -> list[dict[str, Any]]:
    """All whole requests, in order of arrival."""
    path = folder / "requests.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


class Recorder:
    """Writes what arrives, before it is answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def bytes_came(self, connection: Connection, data: bytes) -> None:
        """Append to the connection's file."""
        with (self._folder / f"connection-{connection.number:06d}.bin").open("ab", buffering=0) as file:
            file.write(data)

    def request_came(self, request: Request) -> None:
        """Append one line to `requests.jsonl`."""
        line = {
            "at_mono": time.monotonic(),
            "path": request.path,
            "headers": request.headers,
            "body": request.body.decode("utf-8", "backslashreplace"),
        }
        with (self._folder / "requests.jsonl").open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")


class HostedStandin:
    """Answers chat completions and the list of models."""

    def __init__(self, recorder: Recorder, *, kind: str, api_key: str | None, fingerprint: str) -> None:
        self._recorder = recorder
        self._kind = kind
        self._api_key = api_key
        self._fingerprint = fingerprint
        self._numbers = itertools.count(1)

    async def __call__(self, connection: Connection, request: Request) -> None:
        """Handle one request."""
        self._recorder.request_came(request)
        if self._api_key is not None and request.headers.get("authorization") != f"Bearer {self._api_key}":
            await self._refuse(connection, 401, "Incorrect API key provided.", "invalid_api_key")
        elif request.path == "/health":
            await connection.answer(200, b"")
        elif request.path == "/v1/models":
            data = {"object": "list", "data": [{"id": "standin", "object": "model", "created": CREATED}]}
            await connection.answer(200, json.dumps(data).encode())
        elif request.path == "/v1/chat/completions" and request.method == "POST":
            await self._chat(connection, request)
        elif request.path == "/v1/completions" and request.method == "POST":
            await self._legacy(connection, json.loads(request.body))
        elif request.path == "/v1/embeddings" and request.method == "POST":
            await connection.answer(200, json.dumps(embeddings_answer(json.loads(request.body))).encode())
        else:
            await self._refuse(connection, 404, "Unknown request URL.", "unknown_url")

    @staticmethod
    async def _legacy(connection: Connection, body: dict[str, Any]) -> None:
        if not body.get("stream"):
            await connection.answer(200, json.dumps(next(legacy_answer(body))).encode())
            return
        await connection.open_stream()
        for part in legacy_answer(body):
            await connection.send_chunk(b"data: " + json.dumps(part).encode() + b"\n\n")
            await asyncio.sleep(0)
        await connection.send_chunk(b"data: [DONE]\n\n")
        await connection.end_stream()

    async def _chat(self, connection: Connection, request: Request) -> None:
        try:
            body = json.loads(request.body)
        except ValueError:
            await self._refuse(connection, 400, "We could not parse the JSON body.", "invalid_json")
            return
        unknown = sorted(set(body) - _OPENAI_FIELDS) if self._kind == "openai" else []
        if unknown:
            await self._refuse(
                connection, 400, f"Unrecognized request argument supplied: {unknown[0]}", "unknown_parameter"
            )
            return
        number = next(self._numbers)
        if not body.get("stream"):
            answer = plain_answer(body, number=number, fingerprint=self._fingerprint)
            await connection.answer(
                200, json.dumps(answer).encode(), extra=f"x-request-id: req-standin-{number}\r\n"
            )
            return
        await connection.open_stream()
        for event in streamed_answer(body, number=number, fingerprint=self._fingerprint):
            await connection.send_chunk(event)
            await asyncio.sleep(0)
        await connection.end_stream()

    @staticmethod
    async def _refuse(connection: Connection, status: int, message: str, code: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        await connection.answer(status, json.dumps({"error": error}).encode())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--kind", choices=("openai", "vllm"), default="openai")
    parser.add_argument("--api-key")
    parser.add_argument("--fingerprint", default="fp_standin")
    given = parser.parse_args()
    recorder = Recorder(given.record)
    handler = HostedStandin(recorder, kind=given.kind, api_key=given.api_key, fingerprint=given.fingerprint)
    asyncio.run(serve(handler, Hooks(on_bytes=recorder.bytes_came), host=given.host, port=given.port))


if __name__ == "__main__":
    main()
