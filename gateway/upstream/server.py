"""One replica of a destination on the wire: its address, headers and credential, and one request to it.

Invariants
1. Only the headers made here are sent, and the credential of this destination.
2. The wait for the response header has a named deadline, and what is left of the total is never exceeded.
3. A provider's own words do not pass: what went wrong is told by a code of a closed list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import httpx

from gateway.domain.outgoing import Outgoing
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError, Refusal, UpstreamFailed, UpstreamTimeout, UpstreamUnavailable
from gateway.upstream.answer import BROKEN, drop
from gateway.upstream.connector import AddressNotAllowed, Transport, connector_for
from gateway.upstream.credentials import LOOK_SECONDS
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.refusals import DEFAULT_RETRY_SECONDS, from_status

#: Bytes of an error body that are looked at.
_ERROR_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one destination.

    `urls` are (base URL, weight) of its replicas, for example `http://127.0.0.1:8001/v1`. `credential(now)`
    gives the key to use now. `has_affinity`: conversations return to the replica of their prefix.
    `hedge_after_seconds`: a replica that has sent no piece of its answer by then is raced by another one, at
    a destination that is not hosted; 0: never. `on_fault` hears of a client certificate that was replaced by
    one that cannot be used.
    """

    urls: tuple[tuple[str, int], ...]
    credential: Callable[[float], Secret] | None
    deadlines: Deadlines
    way: Transport = field(default_factory=Transport)
    has_affinity: bool = True
    hedge_after_seconds: float = 0.0
    on_fault: Callable[[ConfigurationError], None] = lambda error: None


class Server:
    """One replica. Create it inside the running loop. Raises `ConfigurationError`."""

    __slots__ = ("_base", "_connector", "_endpoint", "_headers", "_looked_at", "_urls")

    def __init__(self, base: str, endpoint: Endpoint, user_agent: str) -> None:
        self._base = base.rstrip("/")
        self._urls: dict[str, httpx.URL] = {}
        self._endpoint = endpoint
        self._connector = connector_for(base, endpoint.way)
        self._headers = [
            (b"Host", httpx.URL(base).netloc),
            (b"Content-Type", b"application/json"),
            (b"Accept", b"application/json, text/event-stream"),
            (b"Accept-Encoding", b"identity"),
            (b"User-Agent", user_agent.encode()),
        ]
        self._looked_at = float("-inf")

    async def aclose(self) -> None:
        """Close its connections."""
        await self._connector.transport.aclose()

    async def send(self, out: Outgoing, *, hosted: bool, left_seconds: float) -> httpx.Response:
        """Send a request and wait for the response header. `hosted` is what the policy says of the place.

        `left_seconds` is what the exchange has left. Raises `UpstreamUnavailable`, `-Timeout`, `-Failed`.
        """
        deadlines = self._endpoint.deadlines
        self._connector.note_place(hosted=hosted)
        request = httpx.Request(
            "POST",
            self._url(out.path),
            headers=self._headers_for(out),
            stream=httpx.ByteStream(out.body),
            extensions={"timeout": {"connect": deadlines.connect_seconds, "pool": deadlines.connect_seconds}},
        )
        try:
            async with asyncio.timeout(min(deadlines.first_byte_seconds, left_seconds)):
                return await self._connector.transport.handle_async_request(request)
        except TimeoutError:
            is_total = left_seconds <= deadlines.first_byte_seconds
            raise UpstreamTimeout(
                "The destination did not begin to answer in time.",
                code="upstream-total-timeout" if is_total else "upstream-first-byte-timeout",
            ) from None
        except BROKEN as error:
            raise _connect_refusal(error) from None

    def _url(self, path: str) -> httpx.URL:
        """The URL of `path` (a closed set of the dialects) below the base."""
        known = self._urls.get(path)
        if known is None:
            known = self._urls[path] = httpx.URL(self._base + path)
        return known

    def _headers_for(self, out: Outgoing) -> list[tuple[bytes, bytes]]:
        """All headers of one request, the credential of now among them.

        Also takes a client certificate that was replaced.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            try:
                self._connector.renew()
            except ConfigurationError as error:
                self._endpoint.on_fault(error)
        headers = [*self._headers, *out.headers, (b"Content-Length", str(len(out.body)).encode())]
        if self._endpoint.credential is not None:
            headers.append(
                (out.key_header, out.key_prefix + self._endpoint.credential(now).reveal().encode())
            )
        return headers


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
    code = _no_connection(cause)
    if code is not None:
        return UpstreamUnavailable(
            "The destination is not available just now. Try again later.",
            code=code,
            retry_after_seconds=DEFAULT_RETRY_SECONDS,
        )
    return UpstreamFailed("The destination closed the connection.", code="upstream-disconnected")


def _no_connection(cause: BaseException | None) -> str | None:
    """Why there was no connection at all, so that nothing was sent; None when there was one."""
    if isinstance(cause, aiohttp.ClientHttpProxyError):
        return "upstream-proxy-refused"
    if isinstance(cause, aiohttp.ClientSSLError):
        return "upstream-tls-failed"
    if isinstance(cause, aiohttp.ClientConnectorError):
        is_strange = isinstance(cause.os_error, AddressNotAllowed)
        return "upstream-address-not-allowed" if is_strange else "upstream-unreachable"
    return None


async def read_refusal(response: httpx.Response, deadlines: Deadlines) -> Refusal:
    """The refusal for a status other than 200; reads at most 64 KiB of body within the idle deadline."""
    body = bytearray()
    try:
        async with asyncio.timeout(deadlines.idle_seconds):
            async for chunk in response.stream:  # type: ignore[union-attr]
                body += chunk
                if len(body) > _ERROR_BODY_BYTES:
                    break
    except (TimeoutError, *BROKEN):
        body.clear()
    finally:
        drop(response)
    return from_status(response.status_code, response.headers.get("retry-after"), bytes(body))
