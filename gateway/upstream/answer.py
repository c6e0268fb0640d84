"""The body of one answer that has begun: its deadlines, its progress, and how it counts for the replica.

Invariants
1. Every wait has a deadline: idle and total. Time in which the client does not take what came is never the
   destination's idleness.
2. Only tokens are progress in a stream: bytes that hold none (comments, pings) do not keep it alive.
3. `close` on an unfinished answer drops the connection, which stops the generation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import aiohttp
import httpx

from gateway.domain.decision import Destination
from gateway.errors import Refusal, UpstreamFailed, UpstreamTimeout
from gateway.upstream.deadlines import Deadlines, Passed
from gateway.upstream.replicas import Hold, Verdict

#: How a broken connection shows. The transport lets aiohttp's own errors through for what is no HTTP.
BROKEN = (httpx.TransportError, aiohttp.ClientError)
#: What an id of a provider's request may look like: no spaces, so no prose.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class OpenAnswer:
    """An open answer (`ports.UpstreamAnswer`). `started` is when the exchange began on the loop's clock.

    `needs_tokens`: only `note_progress` counts as progress, else every piece of the body does.
    """

    __slots__ = (
        "_closed",
        "_cut_verdict",
        "_deadlines",
        "_finished",
        "_first",
        "_has_progressed",
        "_hold",
        "_is_consumed",
        "_is_fresh",
        "_needs_tokens",
        "_passed",
        "_progressed",
        "_response",
        "_source",
        "_started",
        "_timer",
        "destination",
        "upstream_request_id",
    )

    def __init__(
        self,
        destination: Destination,
        hold: Hold,
        response: httpx.Response,
        deadlines: Deadlines,
        started: float,
        *,
        needs_tokens: bool,
    ) -> None:
        self.destination = destination
        self.upstream_request_id = plain_id(
            response.headers.get("x-request-id") or response.headers.get("request-id")
        )
        self._hold = hold
        self._deadlines = deadlines
        self._response = response
        self._started = started
        self._progressed = started
        self._needs_tokens = needs_tokens
        self._passed: Passed | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_consumed = False  # a piece is with the consumer; the destination is not waited for
        self._is_fresh = False  # the piece that is with the consumer held tokens
        self._has_progressed = False
        self._source = response.stream.__aiter__()  # type: ignore[union-attr]
        self._first: bytes | None = None  # a piece that `begin` has read
        self._finished = False
        self._cut_verdict: Verdict | None = None
        self._closed = False

    def note_progress(self) -> None:
        """The piece that came last held tokens."""
        self._is_fresh = True
        if not self._has_progressed:
            self._has_progressed = True
            self._hold.progress()

    async def begin(self, seconds: float) -> None:
        """Wait for the first piece of the body, at most so long; `chunks` gives it out first.

        Raises `UpstreamTimeout`, `UpstreamFailed`.
        """
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                self._first = await anext(self._source, b"")
        except TimeoutError:
            raise UpstreamTimeout(
                "The destination did not begin to answer in time.", code="upstream-first-byte-timeout"
            ) from None
        except BROKEN:
            raise self._cut() from None

    async def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they come; `UpstreamTimeout` or `UpstreamFailed` when they stop coming."""
        loop = asyncio.get_running_loop()
        self._progressed = loop.time()
        self._arm(loop)
        try:
            if self._first:
                self._is_consumed = True
                yield self._first
                self._is_consumed = False
            async for chunk in self._source:
                self._is_consumed = True
                yield chunk
                self._is_consumed = False
                if self._is_fresh or not self._needs_tokens:
                    self._is_fresh = False
                    self._progressed = loop.time()
        except BROKEN:
            raise self._cut() from None
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if self._passed is not None:
            raise self._cut()
        self._finished = True

    def _cut(self) -> Refusal:
        self._cut_verdict = "bad"
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
        drop(self._response)

    async def close(self, *, is_faulty: bool = False) -> None:
        """Give the connection back when the body was read, else drop it. Idempotent.

        `is_faulty`: the body was no valid answer, which counts against the replica.
        """
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._finished:
            drop(self._response)
        self._hold.end(self._verdict(is_faulty), asyncio.get_running_loop().time())
        try:
            await self._response.stream.aclose()  # type: ignore[union-attr]
        except BROKEN:
            # The connection is gone already, which is what closing asks for.
            return

    def _verdict(self, is_faulty: bool) -> Verdict:
        if is_faulty:
            return "bad"
        if self._cut_verdict is not None:
            return self._cut_verdict
        # A client that left while tokens came says that the replica works.
        return "good" if self._finished or self._has_progressed else "unknown"


def drop(response: httpx.Response) -> None:
    """Close the connection under a response at once, without reading on."""
    raw: aiohttp.ClientResponse | None = getattr(response.stream, "_aiohttp_response", None)
    if raw is not None:
        raw.close()


def plain_id(value: str | None) -> str | None:
    """An id of a provider when it is one plain word of at most 128 characters, else None."""
    # fail-closed: the provider chooses it and records keep it, so it cannot be a sentence.
    return value if value is not None and _PLAIN_ID.fullmatch(value) else None
