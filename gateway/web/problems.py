"""Refusals as HTTP answers in the error shape of the client's dialect."""

from __future__ import annotations

from typing import Any

from gateway.assembly import problem
from gateway.domain.chat import Surface
from gateway.errors import Refusal


class ProblemReply:
    """A refusal as an ASGI application to be called once."""

    __slots__ = ("_refusal", "_request_id", "_surface")

    def __init__(self, refusal: Refusal, request_id: str, surface: Surface = Surface.CHAT) -> None:
        self._refusal = refusal
        self._request_id = request_id
        self._surface = surface

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the refusal."""
        status, headers, body = problem(self._refusal, self._request_id, self._surface)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class BytesReply:
    """Ready bytes with status 200 as an ASGI application."""

    __slots__ = ("_body", "_content_type", "_request_id")

    def __init__(self, body: bytes, content_type: bytes, request_id: str | None = None) -> None:
        self._body = body
        self._content_type = content_type
        self._request_id = request_id

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the bytes."""
        headers = [
            (b"content-type", self._content_type),
            (b"content-length", str(len(self._body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        if self._request_id is not None:
            headers.append((b"x-request-id", self._request_id.encode()))
            headers.append((b"x-tidegate-request-id", self._request_id.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._body})
