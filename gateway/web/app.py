"""The Litestar application: four kinds of routes over one gateway.

`/v1/chat/completions` walks; `/v1/models` lists; `/live`, `/ready`, `/metrics` tell operators.
Everything else is 404 or 405 in a body that API clients understand.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from litestar import Litestar, Request, get, post
from litestar.datastructures import State
from litestar.exceptions import (
    ClientException,
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
)
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ASGIApp

from gateway.assembly import Gateway, problem
from gateway.dialects.openai_errors import model_body, models_body
from gateway.domain.request import RawRequest
from gateway.errors import (
    MethodNotAllowed,
    NotFound,
    NotReady,
    PayloadTooLarge,
    Refusal,
    RequestRefused,
)
from gateway.pipeline.admit import admit
from gateway.pipeline.relay import Relay
from gateway.web import receive
from gateway.web.problems import BytesReply, ProblemReply

AnyRequest = Request[Any, Any, State]


@post("/v1/chat/completions", status_code=200)
async def chat_completions(request: AnyRequest) -> ASGIApp:
    """One chat request: admit it, or say why not."""
    gateway: Gateway = request.app.state.gateway
    started_ns = time.perf_counter_ns()
    request_id = receive.new_request_id()
    if gateway.in_flight_count >= gateway.settings.server.max_in_flight or gateway.is_draining:
        overload = NotReady("The gateway is at its limit just now. Try again.", retry_after_seconds=1)
        gateway.note_refusal(overload, request_id)
        return ProblemReply(overload, request_id)
    try:
        found = receive.read_headers(request.scope["headers"])
        receive.check_query(request.scope["query_string"])
        receive.check_media(found)
        peer = request.client.host if request.client else "unknown"
        head = receive.raw_request(request_id, "chat.completions", found, b"", peer, started_ns)
        # Before the body: a stranger must not hold a place by sending one slowly. The walk asks again.
        await gateway.walk.authenticator.authenticate(head)
    except Refusal as refusal:
        gateway.note_refusal(refusal, request_id)
        return ProblemReply(refusal, request_id)
    return await _walk(request, gateway, head)


async def _walk(request: AnyRequest, gateway: Gateway, head: RawRequest) -> ASGIApp:
    """Read the body of an authenticated caller and admit the request; it counts as in flight from here."""
    gateway.enter()
    reply: ASGIApp | None = None
    try:
        body = await _body(request, gateway.settings.server.body_timeout_seconds)
        raw = replace(head, body=body)
        snapshot = gateway.walk.snapshots.current
        admitted = await admit(gateway.walk, snapshot, raw)
        created_seconds = raw.received_at_us // 1_000_000
        relay = Relay(gateway.walk, snapshot, admitted, raw.received_mono_ns, created_seconds)
        reply = gateway.leaving(relay)
    except Refusal as refusal:
        gateway.note_refusal(refusal, head.request_id)
        return ProblemReply(refusal, head.request_id)
    finally:
        if reply is None:
            gateway.leave()
    return reply


async def _body(request: AnyRequest, timeout_seconds: float) -> bytes:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await request.body()
    except TimeoutError:
        raise RequestRefused("The body did not arrive in time. Send it again.", code="body-timeout") from None
    except ClientException as error:
        if error.status_code == 413:
            raise PayloadTooLarge("The body is too large for this gateway. Send less text.") from None
        raise RequestRefused("The body could not be read. Send it again.", code="body-unreadable") from None


@get("/v1/models")
async def list_models(request: AnyRequest) -> ASGIApp:
    """Logical models that the caller's tenant may ask for."""
    return await _models(request, None)


@get("/v1/models/{name:str}")
async def one_model(request: AnyRequest, name: FromPath[str]) -> ASGIApp:
    """One logical model."""
    return await _models(request, name)


async def _models(request: AnyRequest, name: str | None) -> ASGIApp:
    gateway: Gateway = request.app.state.gateway
    request_id = receive.new_request_id()
    try:
        found = receive.read_headers(request.scope["headers"])
        receive.check_query(request.scope["query_string"])
        raw = receive.raw_request(request_id, "models", found, b"", "", time.perf_counter_ns())
        principal = await gateway.walk.authenticator.authenticate(raw)
        snapshot = gateway.walk.snapshots.current
        names = snapshot.models(principal.tenant)
        created = snapshot.loaded_at_us // 1_000_000
        if name is None:
            return BytesReply(models_body(names, created), b"application/json", request_id)
        if name not in names:
            raise NotFound(
                "This model does not exist. List the models with GET /v1/models.",
                code="model-not-found",
                param="model",
            )
        return BytesReply(model_body(name, created), b"application/json", request_id)
    except Refusal as refusal:
        gateway.note_refusal(refusal, request_id)
        return ProblemReply(refusal, request_id)


@get("/live")
async def live() -> ASGIApp:
    """200 while the process turns over."""
    return BytesReply(b'{"status":"live"}', b"application/json")


@get("/ready")
async def ready(request: AnyRequest) -> ASGIApp:
    """200 when a new request would be walked; 503 with the parts that stand in the way."""
    gateway: Gateway = request.app.state.gateway
    body, is_ready = gateway.readiness()
    if is_ready:
        return BytesReply(body, b"application/json")
    return _Unready(body)


class _Unready:
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Any, receive_: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": self._body})


@get("/metrics")
async def metrics(request: AnyRequest) -> ASGIApp:
    """Prometheus exposition text."""
    gateway: Gateway = request.app.state.gateway
    return BytesReply(gateway.render_metrics(), b"text/plain; version=0.0.4; charset=utf-8")


def _on_http_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Litestar's own errors (no route, wrong method, bad path) in the gateway's shape."""
    refusal: Refusal
    if isinstance(error, NotFoundException):
        refusal = NotFound("This route does not exist. See the list of endpoints in the documentation.")
    elif isinstance(error, MethodNotAllowedException):
        refusal = MethodNotAllowed("This route does not take this method.")
    elif error.status_code < 500:
        refusal = RequestRefused("The request is malformed.")
    else:
        refusal = Refusal("The gateway could not process the request. Report the request id.")
    return _response(refusal)


def _on_fault(request: AnyRequest, error: Exception) -> Response[bytes]:
    """A fault in a route itself: its class is logged, nothing of it is told."""
    gateway: Gateway = request.app.state.gateway
    gateway.walk.report_fault("route failed", error)
    return _response(Refusal("The gateway could not process the request. Report the request id."))


def _response(refusal: Refusal) -> Response[bytes]:
    status, headers, body = problem(refusal, receive.new_request_id())
    plain = {name.decode(): value.decode() for name, value in headers if name != b"content-length"}
    plain.pop("content-type")
    return Response(body, status_code=status, headers=plain, media_type="application/json")


def build_app(gateway: Gateway) -> Litestar:
    """The application of one process."""
    return Litestar(
        [chat_completions, list_models, one_model, live, ready, metrics],
        state=State({"gateway": gateway}),
        openapi_config=None,
        request_max_body_size=gateway.settings.server.max_body_bytes,
        logging_config=None,
        exception_handlers={HTTPException: _on_http_error, Exception: _on_fault},
        debug=False,
    )
