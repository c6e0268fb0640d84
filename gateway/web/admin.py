"""The admin API's application: every route of the table behind the same gate.

Order of the gate: a place, headers, token, rate, role and scope, body, record, act, record. Nothing is done
for a caller before the call is in the audit log; a refusal is recorded too.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Litestar, Request
from litestar.datastructures import State
from litestar.exceptions import (
    ClientException,
    HTTPException,
    InternalServerException,
    MethodNotAllowedException,
    NotFoundException,
)
from litestar.handlers import HTTPRouteHandler
from litestar.response import Response
from litestar.types import ASGIApp

from gateway.administration import Administration, Operator, Reply
from gateway.errors import (
    AdminForbidden,
    AuditUnavailable,
    MethodNotAllowed,
    NotFound,
    NotReady,
    PayloadTooLarge,
    PreconditionRequired,
    Refusal,
    RequestRefused,
)
from gateway.running import Gateway
from gateway.web import receive
from gateway.web.admin_openapi import openapi_route
from gateway.web.admin_problems import problem_reply
from gateway.web.admin_routes import ROUTES
from gateway.web.admin_table import Call, Route

AnyRequest = Request[Any, Any, State]
#: Calls that are served at a time; one more gets 503, before anything is read of it.
MAX_CALLS = 16
_MORE_HEADERS = frozenset({b"idempotency-key", b"if-match"})
_KEY = re.compile(r"[A-Za-z0-9._:-]{8,128}")
_ETAG = re.compile(r'"([0-9a-f]{64})"')
_TARGET = re.compile(r"[A-Za-z0-9._-]{1,128}")


class AdminReply:
    """A reply as an ASGI application to be called once."""

    __slots__ = ("_reply", "_request_id")

    def __init__(self, reply: Reply, request_id: str) -> None:
        self._reply = reply
        self._request_id = request_id

    async def __call__(self, scope: Any, receive_: Any, send: Any) -> None:
        """Send it. No answer may be kept, shown in a page, or read by another origin's script."""
        reply = self._reply
        media = b"application/json" if reply.status < 400 else b"application/problem+json"
        headers = [
            (b"content-type", media),
            (b"content-length", str(len(reply.body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
            (b"x-request-id", self._request_id.encode()),
        ]
        if reply.etag:
            headers.append((b"etag", f'"{reply.etag}"'.encode()))
        if reply.retry_after_seconds is not None:
            headers.append((b"retry-after", str(reply.retry_after_seconds).encode()))
        if reply.status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="tidegate-admin"'))
        if reply.is_repeated:
            headers.append((b"idempotent-replayed", b"true"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


class Gate:
    """What every call passes. Made once for the application."""

    def __init__(self, gateway: Gateway, desk: Administration) -> None:
        self._gateway = gateway
        self._desk = desk
        self._count = 0

    async def serve(self, route: Route, request: AnyRequest) -> ASGIApp:
        """One call, answered."""
        request_id = receive.new_request_id()
        if self._count >= MAX_CALLS or self._gateway.is_draining:
            busy = NotReady("The admin API is at its limit just now. Try again.", retry_after_seconds=1)
            return self._refused(busy, request_id)
        self._count += 1
        try:
            return AdminReply(await self._serve(route, request, request_id), request_id)
        except Refusal as refusal:
            return self._refused(refusal, request_id)
        finally:
            self._count -= 1

    def _refused(self, refusal: Refusal, request_id: str) -> ASGIApp:
        self._gateway.note_refusal(refusal, request_id)
        return AdminReply(problem_reply(refusal, request_id), request_id)

    async def _serve(self, route: Route, request: AnyRequest, request_id: str) -> Reply:
        found = receive.read_headers(request.scope["headers"], _MORE_HEADERS)
        receive.check_query(request.scope["query_string"])
        peer = request.client.host if request.client else "unix"
        raw = receive.raw_request(request_id, "admin", found, b"", peer, time.perf_counter_ns())
        operator = await self._desk.identify(raw)
        self._desk.check_rate(operator)
        names = {name: str(value) for name, value in request.path_params.items()}
        try:
            check_role(route, operator)
            key, if_match = _preconditions(route, found)
            body = await self._body(route, request, found)
            call = Call(operator, request_id, names, body, if_match)
            if route.is_change:
                digest = _digest(route, call)
                return await self._desk.once(operator, key, digest, lambda: self._act(route, call))
        except Refusal as refusal:
            await self._note(route, operator, request_id, names, "refused", refusal.code)
            raise
        return await self._act(route, call)

    async def _act(self, route: Route, call: Call) -> Reply:
        """Record, act, record. A refusal is a reply; without a record nothing acts."""
        who, request_id, names = call.operator, call.request_id, call.names
        try:
            await self._note(route, who, request_id, names, "permitted", "ok")
            answer = await route.handler(self._desk, call)
        except Refusal as refusal:
            if not isinstance(refusal, AuditUnavailable):
                await self._note(route, who, request_id, names, "refused", refusal.code)
            self._gateway.note_refusal(refusal, request_id)
            return problem_reply(refusal, request_id)
        if route.is_change:
            await self._note_done(route, call)
        return Reply(answer.status, msgspec.json.encode(answer.body), etag=answer.etag)

    async def _note_done(self, route: Route, call: Call) -> None:
        """Record that a change was done. It was recorded before it acted, so this may fail."""
        try:
            await self._note(route, call.operator, call.request_id, call.names, "done", "ok")
        except AuditUnavailable as error:
            self._gateway.walk.report_fault("admin change done, its end not recorded", error)

    async def _note(
        self, route: Route, operator: Operator, request_id: str, names: Any, outcome: str, code: str
    ) -> None:
        facts = [("action", route.action), ("admin_request_id", request_id)]
        for value in names.values():
            facts.append(("target", value if _TARGET.fullmatch(value) else "not-a-name"))
        await self._desk.note(operator, outcome, code, tuple(facts))

    async def _body(self, route: Route, request: AnyRequest, found: dict[bytes, bytes]) -> bytes:
        """The whole body, or a refusal: half an upload is none. Raises `RequestRefused`."""
        if route.body is None:
            return b""
        receive.check_media(found)
        try:
            async with asyncio.timeout(self._gateway.settings.server.body_timeout_seconds):
                return await request.body()
        except TimeoutError:
            raise RequestRefused(
                "The body did not arrive in time. Send it again.", code="body-timeout"
            ) from None
        except ClientException as error:
            if error.status_code == 413:
                raise PayloadTooLarge(
                    "The body is too large for this route. Send fewer files, or raise admin.max_body_bytes."
                ) from None
            raise RequestRefused(
                "The body could not be read. Send it again.", code="body-unreadable"
            ) from None
        except InternalServerException:
            raise RequestRefused("The body ended early. Send it again.", code="body-unreadable") from None


def check_role(route: Route, operator: Operator) -> None:
    """Return when the caller may call the route. Raises `AdminForbidden`."""
    if operator.is_user:
        raise AdminForbidden(
            "This token is for the models' API. Ask for one with the audience of the admin API.",
            code="user-token",
        )
    if not operator.roles & route.roles:
        # fail-closed: who is not named in the table may not.
        wanted = " or ".join(sorted(route.roles))
        raise AdminForbidden(f"This needs the role {wanted}. Ask whoever gives out roles.")
    if route.scope == "deployment" and not operator.sees_all:
        # fail-closed: what concerns the whole deployment is no single tenant's.
        raise AdminForbidden(
            "This concerns the whole deployment, and the token is one tenant's. Ask the operators.",
            code="admin-tenant-scope",
        )


def _preconditions(route: Route, found: dict[bytes, bytes]) -> tuple[str, str]:
    """(Idempotency-Key, digest of If-Match) as far as the route needs them."""
    key, if_match = "", ""
    if route.is_change:
        key = found.get(b"idempotency-key", b"").decode("latin-1").strip('"')
        if not _KEY.fullmatch(key):
            raise PreconditionRequired(
                "A change needs an Idempotency-Key of 8 to 128 letters, digits, '.', '_', ':' or '-'. Send a "
                "new one for each change, and the same one when you repeat it.",
                code="idempotency-key-required",
            )
    if route.from_active:
        match = _ETAG.fullmatch(found.get(b"if-match", b"").decode("latin-1"))
        if match is None:
            raise PreconditionRequired(
                "This change needs If-Match with the active digest in quotes. It is the ETag of "
                "GET /admin/v1/policy.",
                code="if-match-required",
            )
        if_match = match[1]
    return key, if_match


def _digest(route: Route, call: Call) -> str:
    """What is asked for, in one digest: the same key must ask for the same."""
    names = "\n".join(f"{name}={value}" for name, value in sorted(call.names.items()))
    head = f"{route.method} {route.path}\n{names}\n{call.if_match}\n"
    return hashlib.sha256(head.encode("utf-8", "surrogatepass") + call.body).hexdigest()


def _handler(gate: Gate, route: Route, max_body_bytes: int) -> HTTPRouteHandler:
    async def serve(request: AnyRequest) -> ASGIApp:
        return await gate.serve(route, request)

    path = re.sub(r"\{([a-z0-9]+)\}", r"{\1:str}", route.full_path)
    return HTTPRouteHandler(
        path, http_method=route.method, status_code=200, request_max_body_size=max_body_bytes
    )(serve)


def _on_http_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    refusal: Refusal
    if isinstance(error, NotFoundException):
        refusal = NotFound("This route does not exist. See docs/admin-api.md.")
    elif isinstance(error, MethodNotAllowedException):
        refusal = MethodNotAllowed("This route does not take this method.")
    elif error.status_code < 500:
        refusal = RequestRefused("The request is malformed.")
    else:
        refusal = Refusal("The gateway could not process the request. Report the request id.")
    return _response(refusal)


def _on_fault(gateway: Gateway) -> Callable[[AnyRequest, Exception], Response[bytes]]:
    """A fault of a route: its class is logged, nothing of it is told."""

    def handle(request: AnyRequest, error: Exception) -> Response[bytes]:
        gateway.walk.report_fault("admin route failed", error)
        return _response(Refusal("The gateway could not process the request. Report the request id."))

    return handle


def _response(refusal: Refusal) -> Response[bytes]:
    request_id = receive.new_request_id()
    reply = problem_reply(refusal, request_id)
    headers = {"x-request-id": request_id, "cache-control": "no-store"}
    return Response(
        reply.body, status_code=reply.status, headers=headers, media_type="application/problem+json"
    )


def build_admin_app(gateway: Gateway, desk: Administration) -> Litestar:
    """The admin API of one process. No CORS: no header allows another origin anything."""
    gate = Gate(gateway, desk)
    most = desk.settings.max_body_bytes
    routes = (*ROUTES, openapi_route(ROUTES))
    return Litestar(
        [_handler(gate, route, most) for route in routes],
        openapi_config=None,
        logging_config=None,
        exception_handlers={HTTPException: _on_http_error, Exception: _on_fault(gateway)},
        debug=False,
    )
