"""A small HTTP/1.1 server for stand-ins: every received byte is seen, every client close is told.

Only what stand-ins need: content-length and chunked bodies, keep-alive, one request at a time per
connection. Not hardened; for loopback only.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Request:
    """One received request. Header names are lowercase."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Hooks:
    """What a stand-in wants to know. `on_bytes` runs before anything is answered."""

    on_open: Callable[[Connection], None] = field(default=lambda _: None)
    on_bytes: Callable[[Connection, bytes], None] = field(default=lambda _c, _d: None)
    on_close: Callable[[Connection], None] = field(default=lambda _: None)


Handler = Callable[["Connection", Request], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One client connection. `busy` is true while a request is being answered.

    `is_left` is true when it was the client that closed.
    """

    _count = 0

    def __init__(self, handler: Handler, hooks: Hooks) -> None:
        Connection._count += 1
        self.number = Connection._count
        self.closed = asyncio.Event()
        self.busy = False
        self.is_left = False
        self._handler = handler
        self._hooks = hooks
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_closed(self) -> bool:
        """True once the client is gone or `close` was called."""
        return self.closed.is_set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._hooks.on_open(self)

    def data_received(self, data: bytes) -> None:
        self._hooks.on_bytes(self, data)
        self._buffer += data
        self._next()

    def eof_received(self) -> bool:
        # A client that half-closes is gone, as far as an HTTP exchange goes.
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_left = not self.is_closed
        self.closed.set()
        self._writable.set()
        self._hooks.on_close(self)
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send(self, data: bytes) -> None:
        """Write and wait for room. Does nothing when the client is gone."""
        if self._transport is None or self.is_closed:
            return
        self._transport.write(data)
        await self._writable.wait()

    async def answer(
        self, status: int, body: bytes, *, content_type: str = "application/json", extra: str = ""
    ) -> None:
        """One whole response with a content-length. `extra` are further header lines with CRLF each."""
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\n"
        head += f"{extra}content-length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)

    async def open_stream(self, content_type: str = "text/event-stream; charset=utf-8") -> None:
        """Head of a chunked response."""
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        await self.send(head.encode())

    async def send_chunk(self, data: bytes) -> None:
        """One chunk of a chunked response."""
        if data:
            await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end_stream(self) -> None:
        """The last chunk of a chunked response."""
        await self.send(b"0\r\n\r\n")

    def close(self) -> None:
        """Close in order (FIN)."""
        self.closed.set()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close with a reset (RST)."""
        self.closed.set()
        if self._transport is None:
            return
        raw = self._transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _next(self) -> None:
        if self.busy or self.is_closed:
            return
        request = self._take()
        if request is None:
            return
        self.busy = True
        self._task = asyncio.get_running_loop().create_task(self._run(request))

    async def _run(self, request: Request) -> None:
        await self._handler(self, request)
        self.busy = False
        self._task = None
        self._next()

    def _take(self) -> Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = self._body(end + 4, headers)
        return None if body is None else Request(method, path, headers, body)

    def _body(self, start: int, headers: dict[str, str]) -> bytes | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            pieces = bytearray()
            at = start
            while True:
                end = self._buffer.find(b"\r\n", at)
                if end < 0:
                    return None
                size = int(bytes(self._buffer[at:end]).split(b";")[0], 16)
                if len(self._buffer) < end + 4 + size:
                    return None
                pieces += self._buffer[end + 2 : end + 2 + size]
                at = end + 4 + size
                if size == 0:
                    del self._buffer[:at]
                    return bytes(pieces)
        size = int(headers.get("content-length", "0"))
        if len(self._buffer) < start + size:
            return None
        body = bytes(self._buffer[start : start + size])
        del self._buffer[: start + size]
        return body


async def serve(handler: Handler, hooks: Hooks, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; prints `listening on PORT` as the first line of stdout."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: Connection(handler, hooks), host, port, backlog=1024)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    server.close()
