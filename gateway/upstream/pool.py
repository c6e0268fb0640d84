"""Connections to destinations: the one shell that lets bytes out.

Invariants
1. `open` takes an `Admitted`; the bytes sent are made from it here, by the encoder handed in.
2. Clearance is checked again, by this module itself, for every connection (`_check`).
3. Every wait has a deadline with a name: connect, first byte, idle, total. Time in which the client
   does not take what came is never the destination's idleness.
4. `close` on an unfinished answer drops the connection, which stops the generation.

httpx request objects are handed straight to the transport over aiohttp: 188 µs of CPU per request
instead of 474 (measured 2026-11, see docs/adr).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from gateway.domain.admitted import Admitted
from gateway.domain.decision import Destination
from gateway.domain.outgoing import Outgoing
from gateway.domain.secret import Secret
from gateway.errors import (
    Refusal,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.upstream import choose
from gateway.upstream.breaker import Breaker
from gateway.upstream.deadlines import Deadlines, Passed
from gateway.upstream.refusals import DEFAULT_RETRY_SECONDS, from_status

#: Path and body for one destination, made from the admitted request and nothing else.
Encode = Callable[[Admitted, Destination], Outgoing]

_ERROR_BODY_BYTES = 64 * 1024
#: How a broken connection shows. The transport lets aiohttp's own errors through for what is no HTTP.
_BROKEN = (httpx.TransportError, aiohttp.ClientError)
#: Below the 5 s after which uvicorn-based servers (vLLM) close an idle connection.
_KEEPALIVE_SECONDS = 4.0
#: What an id of a provider's request may look like: no spaces, so no prose.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one destination. `url` is its base, for example `http://127.0.0.1:8001/v1`."""

    url: str
    credential: Secret | None
    deadlines: Deadlines
    max_connections: int = 512


@dataclass(slots=True)
class _Line:
    """One destination's connections and breaker."""

    endpoint: Endpoint
    urls: dict[str, httpx.URL]
    transport: AiohttpTransport
    headers: list[tuple[bytes, bytes]]
    breaker: Breaker = field(default_factory=Breaker)

    def url(self, path: str) -> httpx.URL:
        """The URL of `path` (a closed set of the dialects) below the destination's base."""
        known = self.urls.get(path)
        if known is None:
            known = self.urls[path] = httpx.URL(self.endpoint.url.rstrip("/") + path)
        return known

    def headers_for(self, out: Outgoing) -> list[tuple[bytes, bytes]]:
        """All headers of one request, the credential among them."""
        headers = [*self.headers, *out.headers, (b"Content-Length", str(len(out.body)).encode())]
        if self.endpoint.credential is not None:
            headers.append((out.key_header, out.key_prefix + self.endpoint.credential.reveal().encode()))
        return headers


class OpenAnswer:
    """The body of one answer that has begun (`ports.UpstreamAnswer`)."""

    __slots__ = (
        "_closed",
        "_deadlines",
        "_finished",
        "_is_consumed",
        "_is_counted",
        "_line",
        "_passed",
        "_progressed",
        "_response",
        "_started",
        "_timer",
        "destination",
        "upstream_request_id",
    )

    def __init__(
        self, destination: Destination, line: _Line, response: httpx.Response, started: float
    ) -> None:
        self.destination = destination
        self.upstream_request_id = plain_id(
            response.headers.get("x-request-id") or response.headers.get("request-id")
        )
        self._line = line
        self._deadlines = line.endpoint.deadlines
        self._response = response
        self._started = started
        self._progressed = started
        self._passed: Passed | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_consumed = False  # a piece is with the consumer; the destination is not waited for
        self._finished = False
        self._is_counted = False
        self._closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they come; `UpstreamTimeout` or `UpstreamFailed` when they stop coming."""
        loop = asyncio.get_running_loop()
        self._progressed = loop.time()
        self._arm(loop)
        try:
            async for chunk in self._response.stream:  # type: ignore[union-attr]
                self._is_consumed = True
                yield chunk
                self._is_consumed = False
                self._progressed = loop.time()
        except _BROKEN:
            raise self._cut(loop.time()) from None
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if self._passed is not None:
            raise self._cut(loop.time())
        self._finished = True
        self._line.breaker.succeed()

    def _cut(self, now: float) -> Refusal:
        self._is_counted = True
        self._line.breaker.fail(now)
        if self._passed is not None:
            return UpstreamTimeout(
                "The destination stopped answering in time.", code=f"upstream-{self._passed}-timeout"
            )
        return UpstreamFailed("The destination's answer was cut off.", code="upstream-truncated")

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        wait = self._deadlines.next_check_seconds(self._started, self._progressed, loop.time())
        self._timer = loop.call_later(wait, self._check_deadline, loop)

    def _check_deadline(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_consumed:
            self._progressed = loop.time()
        passed = self._deadlines.passed(self._started, self._progressed, loop.time())
        if passed is None:
            self._arm(loop)
            return
        self._passed = passed
        _drop(self._response)

    async def close(self, *, is_faulty: bool = False) -> None:
        """Give the connection back when the body was read, else drop it. Idempotent.

        `is_faulty`: the body was no valid answer; the breaker counts it, unless it counted a cut already.
        """
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._finished:
            _drop(self._response)
        if is_faulty and not self._is_counted:
            self._line.breaker.fail(asyncio.get_running_loop().time())
        elif not self._finished:
            self._line.breaker.abandon()
        try:
            await self._response.stream.aclose()  # type: ignore[union-attr]
        except _BROKEN:
            # The connection is gone already, which is what closing asks for.
            return


class ConnectionPool:
    """`ports.Upstream` over real connections. Create it inside the running loop; `aclose` at the end."""

    def __init__(self, endpoints: Mapping[str, Endpoint], encode: Encode, user_agent: str) -> None:
        self._encode = encode
        self._lines = {name: _line(endpoint, user_agent) for name, endpoint in endpoints.items()}

    async def __aenter__(self) -> ConnectionPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        for line in self._lines.values():
            await line.transport.aclose()

    def order(self, destinations: Sequence[Destination]) -> tuple[Destination, ...]:
        """Destinations in the order to try them; see `choose.order`."""
        if len(destinations) == 1:
            return tuple(destinations)
        now = asyncio.get_running_loop().time()
        return choose.order(destinations, lambda name: self._is_open(name, now))

    def breakers(self) -> dict[str, bool]:
        """Whether each destination's breaker is open."""
        now = asyncio.get_running_loop().time()
        return {name: line.breaker.is_open(now) for name, line in self._lines.items()}

    def _is_open(self, name: str, now: float) -> bool:
        line = self._lines.get(name)
        return line is None or line.breaker.is_open(now)

    async def open(self, admitted: Admitted, destination: Destination) -> OpenAnswer:
        """Send the admitted request to one destination of its permit and wait for the header.

        Raises `UpstreamUnavailable` (nothing was accepted; another destination may be tried),
        `UpstreamTimeout`, `UpstreamFailed`, `UpstreamRejected`.
        """
        line = self._check(admitted, destination)
        loop = asyncio.get_running_loop()
        started = loop.time()
        if not line.breaker.allow(started):
            raise UpstreamUnavailable(
                "The destination is not available just now. Try again later.",
                code="upstream-circuit-open",
                retry_after_seconds=line.breaker.retry_after_seconds(started),
            )
        try:
            response = await self._send(line, self._encode(admitted, destination))
        except Refusal:
            line.breaker.fail(loop.time())
            raise
        except BaseException:
            line.breaker.abandon()
            raise
        if response.status_code != 200:
            raise await _refuse(line, response)
        answer = OpenAnswer(destination, line, response, started)
        wanted = "text/event-stream" if admitted.request.chat.stream else "application/json"
        if not response.headers.get("content-type", "").lower().startswith(wanted):
            line.breaker.fail(loop.time())
            await answer.close()
            raise UpstreamFailed(
                "The destination did not give a valid answer.", code="upstream-wrong-content-type"
            )
        return answer

    def _check(self, admitted: Admitted, destination: Destination) -> _Line:
        # fail-closed: the permit was checked when it was made; here it is checked where it matters.
        if destination not in admitted.permit.destinations:
            raise UpstreamUnavailable("This destination is not part of the permit.", code="not-permitted")
        level = max(admitted.verdict.label.level, admitted.permit.label.level)
        if level > destination.clearance:
            raise UpstreamUnavailable("The destination is not cleared for this.", code="not-cleared")
        if admitted.reservation.degraded and destination.hosted:
            raise UpstreamUnavailable("Limits cannot be checked just now.", code="not-permitted-degraded")
        line = self._lines.get(destination.name)
        if line is None:
            raise UpstreamUnavailable("The destination is not configured.", code="not-configured")
        return line

    async def _send(self, line: _Line, out: Outgoing) -> httpx.Response:
        deadlines = line.endpoint.deadlines
        request = httpx.Request(
            "POST",
            line.url(out.path),
            headers=line.headers_for(out),
            stream=httpx.ByteStream(out.body),
            extensions={"timeout": {"connect": deadlines.connect_seconds, "pool": deadlines.connect_seconds}},
        )
        try:
            async with asyncio.timeout(deadlines.first_byte_seconds):
                return await line.transport.handle_async_request(request)
        except TimeoutError:
            raise UpstreamTimeout(
                "The destination did not begin to answer in time.", code="upstream-first-byte-timeout"
            ) from None
        except _BROKEN as error:
            raise _connect_refusal(error) from None


def _connect_refusal(error: Exception) -> Refusal:
    if isinstance(error, aiohttp.ClientError):
        return UpstreamFailed("The destination did not give a valid answer.", code="upstream-malformed")
    cause = error.__cause__
    if isinstance(cause, aiohttp.ServerTimeoutError):
        return UpstreamTimeout(
            "The destination did not accept a connection in time.",
            code="upstream-connect-timeout",
            retry_after_seconds=DEFAULT_RETRY_SECONDS,
        )
    if isinstance(cause, aiohttp.ClientConnectorError):
        return UpstreamUnavailable(
            "The destination is not available just now. Try again later.",
            code="upstream-unreachable",
            retry_after_seconds=DEFAULT_RETRY_SECONDS,
        )
    return UpstreamFailed("The destination closed the connection.", code="upstream-disconnected")


async def _refuse(line: _Line, response: httpx.Response) -> Refusal:
    """The refusal for a status other than 200; reads at most 64 KiB of body within the idle deadline."""
    loop = asyncio.get_running_loop()
    body = bytearray()
    try:
        async with asyncio.timeout(line.endpoint.deadlines.idle_seconds):
            async for chunk in response.stream:  # type: ignore[union-attr]
                body += chunk
                if len(body) > _ERROR_BODY_BYTES:
                    break
    except (TimeoutError, *_BROKEN):
        body.clear()
    finally:
        _drop(response)
    refusal = from_status(response.status_code, response.headers.get("retry-after"), bytes(body))
    if isinstance(refusal, UpstreamRejected):
        # A provider that refuses this request (or says 429) is alive.
        line.breaker.succeed()
    else:
        line.breaker.fail(loop.time())
    return refusal


def _drop(response: httpx.Response) -> None:
    """Close the connection under a response at once, without reading on."""
    raw: aiohttp.ClientResponse | None = getattr(response.stream, "_aiohttp_response", None)
    if raw is not None:
        raw.close()


def _line(endpoint: Endpoint, user_agent: str) -> _Line:
    connector = aiohttp.TCPConnector(
        limit=endpoint.max_connections, keepalive_timeout=_KEEPALIVE_SECONDS, ttl_dns_cache=30
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
        timeout=aiohttp.ClientTimeout(total=None),
    )
    headers = [
        (b"Host", httpx.URL(endpoint.url).netloc),
        (b"Content-Type", b"application/json"),
        (b"Accept", b"application/json, text/event-stream"),
        (b"Accept-Encoding", b"identity"),
        (b"User-Agent", user_agent.encode()),
    ]
    return _Line(endpoint, {}, AiohttpTransport(client=session, trust_env=False), headers)


def plain_id(value: str | None) -> str | None:
    """An id of a provider when it is one plain word of at most 128 characters, else None."""
    # fail-closed: the provider chooses it and records keep it, so it cannot be a sentence.
    return value if value is not None and _PLAIN_ID.fullmatch(value) else None
