"""uvicorn's HTTP/1.1 protocol with the bounds and refusals that it lacks.

httptools refuses CL+TE, obs-fold and bare LF by itself, but reads headers of any size for any time, and
takes the body of a request with an `Upgrade` header for a second request (measured 2026-11 and 12).

Invariants
1. A header block is at most `max_header_bytes` long and arrives within `header_timeout_seconds`.
2. A body arrives within `body_timeout_seconds` of its headers, or the connection ends with the answer.
   What stands between its pieces (chunk lines, trailers) is bounded like headers; trailers are dropped.
3. A request whose end two readers could see at different places is answered 400, and the connection is
   closed: what follows is never served.
4. An answer of this module is never written into or instead of an answer that belongs to another request.
5. When the client goes, the request being answered hears of it, also with some requests pipelined
   behind it (`MAX_WAITING`, 64 KiB of body). With more, reading stops until it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

#: Pipelined requests that are read while another is being answered.
MAX_WAITING = 8
_STATUS_431 = b"431 Request Header Fields Too Large"
_STATUS_400 = b"400 Bad Request"
_SENTENCES = {
    "headers-too-large": (_STATUS_431, b"The header block is too large. Send fewer or shorter headers."),
    "malformed-http": (
        _STATUS_400,
        b"The HTTP request is malformed. Check its header lines and framing.",
    ),
    "upgrade-refused": (
        _STATUS_400,
        b"Only HTTP/1.1 is spoken here. Send the request without an Upgrade header.",
    ),
}


class _Refused(Exception):
    """Ends the parsing of a connection; httptools hands it on as a parser error."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """`HttpToolsProtocol` that answers 431 to a large header block, 400 to a doubtful one, drops slow ones.

    `max_header_bytes` counts names, values and the target. `header_timeout_seconds` runs from the first
    byte of a request (or from connect) to the end of its headers, `body_timeout_seconds` from there to the
    end of the body. `on_refusal(code)` hears of every refusal made here.
    """

    max_header_bytes = 32 * 1024
    header_timeout_seconds = 10.0
    body_timeout_seconds = 10.0
    on_refusal: Callable[[str], None] = staticmethod(lambda code: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._unparsed_bytes = 0
        self._host_count = 0
        self._is_plain_framing = True
        self._header_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None
        self._has_progressed = False
        self._is_refused = False

    def connection_made(self, transport: Any) -> None:
        """Start the clock for the first request's headers."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks, and tell the request that is being answered."""
        self._stop_timer()
        self._stop_body_timer()
        self._disconnect_running()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; then refuse a header block that has not ended within its bound."""
        if self._is_refused:
            return
        self._has_progressed = False
        super().data_received(data)
        if self._is_refused or self._has_progressed:
            return
        if self._header_timer is None and self._body_timer is None and self._is_idle():
            # Blank lines before a request begin none, and must not keep a connection open either.
            self._start_timer()
        self._unparsed_bytes += len(data)
        if self._unparsed_bytes > self.max_header_bytes:
            self._refuse("headers-too-large")

    def on_message_begin(self) -> None:
        """A request begins: its headers get a fresh bound."""
        self._header_bytes = self._host_count = 0
        self._is_plain_framing = True
        if self._header_timer is None:
            self._start_timer()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the target."""
        self._header_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header; note what makes the framing doubtful. A trailer is only counted."""
        self._header_bytes += len(name) + len(value)
        if self._body_timer is not None:
            if self._header_bytes > self.max_header_bytes:
                self._refuse("headers-too-large")
                raise _Refused
            return
        super().on_header(name, value)
        lowered = self.headers[-1][0]
        if lowered == b"host":
            self._host_count += 1
        elif lowered == b"transfer-encoding" and value.strip().lower() != b"chunked":
            self._is_plain_framing = False

    def on_headers_complete(self) -> None:
        """Headers are whole: refuse them if too large or doubtful, else hand the request on."""
        self._stop_timer()
        code = self._fault()
        if code is not None:
            self._refuse(code)
            raise _Refused
        self._has_progressed = True
        self._body_timer = self.loop.call_later(self.body_timeout_seconds, self._body_is_late)
        super().on_headers_complete()
        if 0 < len(self.pipeline) <= MAX_WAITING:
            # uvicorn stops reading here, and whoever does not read does not see that the client has gone.
            self.flow.resume_reading()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._has_progressed = True
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is whole."""
        self._stop_body_timer()
        self._has_progressed = True
        self._unparsed_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """A malformed request gets OpenAI's error shape and a closed connection."""
        if not self._is_refused:
            self._refuse("malformed-http")

    def _fault(self) -> str | None:
        """Code of what is wrong with the headers, or None."""
        if self._header_bytes > self.max_header_bytes:
            return "headers-too-large"
        if self.parser.should_upgrade():
            # fail-closed: the parser would end such a request before its body.
            return "upgrade-refused"
        host_count = self._host_count
        if not self._is_plain_framing or host_count > 1:
            return "malformed-http"
        # RFC 9112 section 3.2: a request of HTTP/1.1 names its host.
        return "malformed-http" if host_count == 0 and self.parser.get_http_version() == "1.1" else None

    def _start_timer(self) -> None:
        self._unparsed_bytes = 0
        self._header_timer = self.loop.call_later(self.header_timeout_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _give_up(self) -> None:
        self._header_timer = None
        if self.transport is not None and not self.transport.is_closing():
            if self._unparsed_bytes:  # a connection on which nothing ever came is no attempt
                self.on_refusal("header-timeout")
            self.transport.close()

    def _body_is_late(self) -> None:
        """End the connection with the answer: at once when that is out, else behind it."""
        self._body_timer = None
        if self.cycle.response_complete:
            self.on_refusal("body-timeout")
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def _refuse(self, code: str) -> None:
        self._is_refused = True
        is_own = self._is_next_answer()
        self._stop_timer()
        self._stop_body_timer()
        if self.transport is None or self.transport.is_closing():
            return
        self.on_refusal(code)
        if is_own:
            self._answer(code)
        self._disconnect_running()
        self.transport.close()

    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._running is None or self._running.response_complete

    def _is_next_answer(self) -> bool:
        """Whether the next answer on this connection is that of the request being read."""
        running = self._running
        if running is None or running.response_complete:
            return True
        # A request runs from the end of its headers on: while its body is read, it is the refused one.
        return self._body_timer is not None and running is self.cycle and not running.response_started

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _disconnect_running(self) -> None:
        # uvicorn itself tells only the request that was read last, which may still be waiting its turn.
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def _answer(self, code: str) -> None:
        status, sentence = _SENTENCES[code]
        body = b'{"error":{"message":"%s","type":"invalid_request_error","param":null,"code":"%s"}}' % (
            sentence,
            code.encode(),
        )
        self.transport.write(
            b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: " + str(len(body)).encode() + b"\r\n\r\n" + body
        )


def bounded_protocol(
    max_header_bytes: int,
    header_timeout_seconds: float,
    body_timeout_seconds: float,
    on_refusal: Callable[[str], None],
) -> type[BoundedHttpProtocol]:
    """The protocol class with these bounds. `on_refusal(code)` counts and logs."""
    return type(
        "ConfiguredHttpProtocol",
        (BoundedHttpProtocol,),
        {
            "max_header_bytes": max_header_bytes,
            "header_timeout_seconds": header_timeout_seconds,
            "body_timeout_seconds": body_timeout_seconds,
            "on_refusal": staticmethod(on_refusal),
        },
    )
