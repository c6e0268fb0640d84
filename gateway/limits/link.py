"""One pipelined connection to Redis: bytes out, replies back in order.

redis-py's client costs about five times the CPU of the sockets beneath it (figures in redis_store). So
its URL and TLS parsing are used here, and its C parser, but commands are packed by hand and written
straight to the transport; uvloop joins the writes of one loop turn into one send.

Invariants
1. Replies are matched by order. Any doubt about the order ends the link; it is never repaired.
2. Every call has an answer or `LinkDown` within `timeout_seconds`; one timer watches the oldest.
3. When a link ends, each unanswered call that names an undo command gets it written first, so a slow
   server that executes the call later also executes the undo.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Literal, cast

import hiredis
from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection

from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError

#: Why a link ended. Closed vocabulary: logs and metrics carry it.
Cause = Literal[
    "auth",
    "backlog",
    "closed",
    "error",
    "evicting",
    "protocol",
    "readonly",
    "refused",
    "shape",
    "stopped",
    "timeout",
]

#: Unanswered calls of one link; more means that the server does not keep up.
WAITING_MAX = 4096

#: After a deadline the loop gets this long to read what has already arrived: a busy process is not a
#: slow server.
READ_GRACE_SECONDS = 0.005

#: How long unsent bytes may linger after a link has ended.
LINGER_SECONDS = 1.0

#: One answer: an integer, bytes, None, a list of these, or `hiredis.ReplyError`.
Answer = Any

#: Bytes of one command. hiredis's own stub declares a tuple of exactly one word.
pack_command = cast("Callable[[tuple[bytes | str | int, ...]], bytes]", hiredis.pack_command)

_NOTHING = object()


class LinkDown(Exception):
    """The server gave no usable answer; the call may or may not have been executed there."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause: Cause = cause


@dataclass(frozen=True, slots=True)
class Target:
    """Where and as whom to connect. `path` is a unix socket; empty means host and port."""

    host: str
    port: int
    path: str
    database: int
    username: str
    password: Secret | None
    tls: SSLContext | None


def parse_target(url: str) -> Target:
    """Target of a `redis://`, `rediss://` or `unix://` URL in redis-py's notation.

    Raises `ConfigurationError`; the URL may hold a password, so it is not repeated.
    """
    try:
        pool: Any = ConnectionPool.from_url(url)
        connection = pool.make_connection()
        tls = connection.ssl_context.get() if isinstance(connection, SSLConnection) else None
    except Exception as error:  # noqa: BLE001 - redis-py raises many kinds, and their words may quote the URL
        raise ConfigurationError(
            "limits.redis_url: expected redis://, rediss:// or unix:// with redis-py's options, "
            f"found something else ({type(error).__name__})"
        ) from None
    return Target(
        host=connection.host if isinstance(connection, Connection) else "",
        port=connection.port if isinstance(connection, Connection) else 0,
        path=connection.path if isinstance(connection, UnixDomainSocketConnection) else "",
        database=int(connection.db),
        username=connection.username or "",
        password=Secret(connection.password) if connection.password else None,
        tls=tls,
    )


#: Who waits, until when (loop time), and what takes the call back.
_Call = tuple[asyncio.Future[Answer] | None, float, Callable[[], bytes] | None]


class Link(asyncio.Protocol):
    """An open connection. Made by `open_link`."""

    def __init__(self, timeout_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_seconds = timeout_seconds
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._waiting: deque[tuple[asyncio.Future[Answer] | None, float, Callable[[], bytes] | None]] = (
            deque()
        )
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: Done with the cause when the link has ended.
        self.ended: asyncio.Future[Cause] = self._loop.create_future()
        self.is_open = False

    def send(self, command: bytes, undo: Callable[[], bytes] | None = None) -> asyncio.Future[Answer]:
        """Future of the answer. `undo` makes a command that takes the call back (invariant 3).

        Raises `LinkDown` when the link has ended or its backlog is full.
        """
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._push(command, future, undo)
        return future

    def forget(self, command: bytes) -> None:
        """Write a command whose answer nobody waits for; does nothing on a link that has ended."""
        if self.is_open:
            self._push(command, None, None)

    def end(self, cause: Cause) -> None:
        """End the link: undo what is unanswered, fail it with `LinkDown(cause)`, close. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        transport, self._transport = self._transport, None
        was_open, self.is_open = self.is_open, False
        if transport is not None:
            if was_open:
                for _, _, undo in waiting:
                    if undo is not None:
                        transport.write(undo())
            transport.close()
            self._loop.call_later(LINGER_SECONDS, transport.abort)
        for future, _, _ in waiting:
            if future is not None and not future.done():
                future.set_exception(LinkDown(cause))
        if not self.ended.done():
            self.ended.set_result(cause)

    def _push(
        self, command: bytes, future: asyncio.Future[Answer] | None, undo: Callable[[], bytes] | None
    ) -> None:
        transport = self._transport
        if transport is None:
            raise LinkDown("closed")
        if len(self._waiting) >= WAITING_MAX:
            raise LinkDown("backlog")
        self._waiting.append((future, self._loop.time() + self._timeout_seconds, undo))
        transport.write(command)
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_seconds, self._watch)

    def _watch(self) -> None:
        """The oldest call's deadline: give the loop one read, then end the link."""
        self._timer = None
        if not self._waiting:
            return
        left_seconds = self._waiting[0][1] - self._loop.time()
        if left_seconds > 0:
            self._timer = self._loop.call_later(left_seconds, self._watch)
        else:
            self._timer = self._loop.call_later(READ_GRACE_SECONDS, self._expire, self._waiting[0])

    def _expire(self, oldest: object) -> None:
        self._timer = None
        if self._waiting and self._waiting[0] is oldest:
            self.end("timeout")
        else:
            self._watch()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not _NOTHING:
                if not self._waiting:
                    self.end("protocol")
                    return
                future = self._waiting.popleft()[0]
                if future is not None and not future.done():
                    future.set_result(answer)
        except hiredis.HiredisError:
            self.end("protocol")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self.end("closed")


async def open_link(target: Target, timeout_seconds: float, scripts: tuple[bytes, ...]) -> Link:
    """An open, authenticated link to a server that can be written to and does not evict.

    The scripts are loaded. Raises `LinkDown` with the cause. Takes at most twice `timeout_seconds`.
    """
    loop = asyncio.get_running_loop()
    link = Link(timeout_seconds)
    try:
        async with asyncio.timeout(timeout_seconds):
            if target.path:
                await loop.create_unix_connection(lambda: link, target.path)
            else:
                await loop.create_connection(lambda: link, target.host, target.port, ssl=target.tls)
    except TimeoutError:
        link.end("timeout")
        raise LinkDown("timeout") from None
    except OSError:
        link.end("refused")
        raise LinkDown("refused") from None
    try:
        await _greet(link, target, scripts)
    except LinkDown as down:
        link.end(down.cause)
        raise
    except BaseException:
        link.end("stopped")
        raise
    return link


async def _greet(link: Link, target: Target, scripts: tuple[bytes, ...]) -> None:
    """The half-open probe: identity, a write, the eviction policy. All in one send."""
    pack = pack_command
    steps: list[tuple[Cause, bytes]] = []
    if target.password is not None:
        names = (target.username,) if target.username else ()
        steps.append(("auth", pack(("AUTH", *names, target.password.reveal()))))
    if target.database:
        steps.append(("error", pack(("SELECT", target.database))))
    steps.extend(("error", pack(("SCRIPT", "LOAD", script))) for script in scripts)
    steps.append(("readonly", pack(("SET", "tg:probe", "1", "PX", 1000))))
    pending = [(cause, link.send(command)) for cause, command in steps]
    eviction = link.send(MEMORY_COMMAND)
    await asyncio.gather(*(future for _, future in pending), eviction, return_exceptions=True)
    for cause, future in pending:
        if isinstance(future.result(), hiredis.ReplyError):
            raise LinkDown(cause)
    if is_evicting(eviction.result()):
        raise LinkDown("evicting")


#: Asks for the eviction policy; `INFO` is allowed where managed services forbid `CONFIG`.
MEMORY_COMMAND = pack_command(("INFO", "memory"))


def is_evicting(answer: Answer) -> bool:
    """True unless the answer to `MEMORY_COMMAND` says that no key is ever evicted.

    An evicted bucket would count as full. With `maxmemory` 0 nothing is evicted, whatever the policy.
    """
    if not isinstance(answer, bytes):
        # fail-closed: a server that does not tell may evict.
        return True
    lines = answer.split(b"\r\n")
    return b"maxmemory_policy:noeviction" not in lines and b"maxmemory:0" not in lines
