"""The least work that still is an OpenAI-compatible upstream, for benchmarks of the gateway.

    python -m tests.fakes.fast_standin [--port 0]

Answers each POST with the same plain completion, or with 64 content chunks when the body says
`"stream":true`. Reads only content-length. The model of the answer is the one of the request.
First line of stdout: `listening on PORT`. Stops on SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import signal
from typing import ClassVar, cast

STREAM_CHUNKS = 64
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_MODEL = re.compile(rb'"model": ?"([A-Za-z0-9._/-]+)"')
_TEXT = "The tide turns twice a day and the gate follows it without a word. "


def _plain(model: str) -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-fast",
            "object": "chat.completion",
            "created": 1_767_225_600,
            "model": model,
            "system_fingerprint": "fp_fast",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": _TEXT * 4, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 250, "completion_tokens": 60, "total_tokens": 310},
        },
        separators=(",", ":"),
    ).encode()
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )


def _stream(model: str) -> list[bytes]:
    """Head, then one piece per event; each piece is one write, as a real server's token is."""

    def event(choices: list[object], **more: object) -> bytes:
        said = {
            "id": "chatcmpl-fast",
            "object": "chat.completion.chunk",
            "created": 1_767_225_600,
            "model": model,
            "system_fingerprint": "fp_fast",
            "choices": choices,
            **more,
        }
        data = b"data: " + json.dumps(said, separators=(",", ":")).encode() + b"\n\n"
        return b"%x\r\n" % len(data) + data + b"\r\n"

    def choice(delta: dict[str, str], reason: str | None = None) -> list[object]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]

    words = (_TEXT * 8).split(" ")[:STREAM_CHUNKS]
    pieces = [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        b"transfer-encoding: chunked\r\n\r\n" + event(choice({"role": "assistant", "content": ""}))
    ]
    pieces += [event(choice({"content": word + " "})) for word in words]
    pieces.append(event(choice({}, "stop")))
    usage = {"prompt_tokens": 250, "completion_tokens": STREAM_CHUNKS, "total_tokens": 250 + STREAM_CHUNKS}
    pieces.append(event([], usage=usage) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    return pieces


class FastStandin(asyncio.Protocol):
    """One connection; answers requests in order."""

    _plain: ClassVar[dict[bytes, bytes]] = {}
    _streams: ClassVar[dict[bytes, list[bytes]]] = {}

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport has the shape but not the class.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        while True:
            head = buffer.find(b"\r\n\r\n")
            if head < 0:
                break
            length = _LENGTH.search(buffer, 0, head)
            end = head + 4 + (int(length.group(1)) if length else 0)
            if len(buffer) < end:
                break
            self._answer(buffer[head + 4 : end])
            buffer = buffer[end:]
        self._buffer = buffer

    def _answer(self, body: bytes) -> None:
        if self._transport is None:
            return
        found = _MODEL.search(body)
        model = found.group(1) if found else b"fast"
        if b'"stream":true' not in body:
            answer = self._plain.get(model)
            if answer is None:
                answer = self._plain[model] = _plain(model.decode())
            self._transport.write(answer)
            return
        pieces = self._streams.get(model)
        if pieces is None:
            pieces = self._streams[model] = _stream(model.decode())
        self._step(pieces, 0)

    def _step(self, pieces: list[bytes], at: int) -> None:
        # One write per loop turn, so that the gateway reads many small pieces, as from a real node.
        if self._transport is None:
            return
        self._transport.write(pieces[at])
        if at + 1 < len(pieces):
            asyncio.get_running_loop().call_soon(self._step, pieces, at + 1)


async def _serve(host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(FastStandin, host, port, backlog=1024)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    asyncio.run(_serve(given.host, given.port))


if __name__ == "__main__":
    main()
