"""uvicorn's HTTP/1.1 protocol with two bounds that it lacks: header size and header read time.

httptools refuses CL+TE, obs-fold and bare LF by itself, but reads headers of any size for any time
(measured 2026-11).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = (
    b'{"error":{"message":"The header block is too large. Send fewer or shorter headers.",'
    b'"type":"invalid_request_error","param":null,"code":"headers-too-large"}}'
)
_MALFORMED = (
    b'{"error":{"message":"The HTTP request is malformed. Check its header lines and framing.",'
    b'"type":"invalid_request_error","param":null,"code":"malformed-http"}}'
)


class BoundedHttpProtocol(HttpToolsProtocol):
    """`HttpToolsProtocol` that answers 431 to a large header block and drops slow ones.

    `max_header_bytes` counts names, values and the target; `header_timeout_seconds` runs from the
    first byte of a request (or from connect) to the end of its headers.
    """

    max_header_bytes = 32 * 1024
    header_timeout_seconds = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._unparsed_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None
        self._is_refused = False

    def connection_made(self, transport: Any) -> None:
        """Start the clock for the first request's headers."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; then refuse a header block that has not ended within its bound."""
        if self._is_refused:
            return
        super().data_received(data)
        if self._header_timer is not None:
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > self.max_header_bytes:
                self._refuse()

    def on_message_begin(self) -> None:
        """A request begins: its headers get a fresh bound."""
        self._header_bytes = 0
        if self._header_timer is None:
            self._start_timer()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the target."""
        self._header_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._header_bytes += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Headers are whole: refuse them if too large, else hand the request on."""
        self._stop_timer()
        if self._header_bytes > self.max_header_bytes:
            self._refuse()
            raise ValueError("header block too large")  # ends the parsing of this connection
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """A malformed request gets OpenAI's error shape and a closed connection."""
        if self._is_refused:
            return
        self._is_refused = True
        self._answer_and_close(b"400 Bad Request", _MALFORMED)

    def _start_timer(self) -> None:
        self._unparsed_bytes = 0
        self._header_timer = self.loop.call_later(self.header_timeout_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _give_up(self) -> None:
        self._header_timer = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self) -> None:
        self._is_refused = True
        self._stop_timer()
        self._answer_and_close(b"431 Request Header Fields Too Large", _TOO_LARGE)

    def _answer_and_close(self, status: bytes, body: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        length = str(len(body)).encode()
        self.transport.write(
            b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: " + length + b"\r\n\r\n" + body
        )
        self.transport.close()


def bounded_protocol(max_header_bytes: int, header_timeout_seconds: float) -> type[BoundedHttpProtocol]:
    """The protocol class with these bounds."""
    return type(
        "ConfiguredHttpProtocol",
        (BoundedHttpProtocol,),
        {"max_header_bytes": max_header_bytes, "header_timeout_seconds": header_timeout_seconds},
    )
