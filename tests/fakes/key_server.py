"""A small HTTP server on loopback that serves a JWK set and counts who asks."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class KeyServer:
    """Serves `body` with `status` at `url`. `delay_seconds` holds the answer back.

    `requests` keeps the request line of each request. `stop` frees the port; `start` takes the same
    port again.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.status = 200
        self.headers: dict[str, str] = {}
        self.delay_seconds = 0.0
        self.requests: list[str] = []
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Address of the key set."""
        return f"http://127.0.0.1:{self._port}/jwks"

    async def start(self) -> None:
        """Listen on loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and cut what is open."""
        if self._server is not None:
            self._server.close()
            for writer in tuple(self._writers):
                writer.close()
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.split(b"\r\n", 1)[0].decode())
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            fields = {"content-length": str(len(self.body)), "connection": "close", **self.headers}
            lines = [f"HTTP/1.1 {self.status} Answer", *(f"{k}: {v}" for k, v in fields.items())]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + self.body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
