"""The Litestar application: five kinds of routes over one gateway.

`/v1/chat/completions`, `/v1/responses`, `/v1/completions`, `/v1/messages` and `/v1/embeddings` walk;
`/v1/models` lists; `/v1/messages/count_tokens` counts;
`/v1/approvals` is for people who agree; `/live`, `/ready`, `/metrics` tell operators. Everything else is
404 or 405 in a body that the client of that route understands.
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

from gateway.assembly import problem
from gateway.dialects.anthropic_errors import count_body
from gateway.dialects.openai_errors import model_body, models_body
from gateway.dialects.table import COUNT_ENDPOINT
from gateway.domain.chat import Surface
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
from gateway.running import Gateway
from gateway.web import receive
from gateway.web.approvals import APPROVAL_ROUTES
from gateway.web.problems import BytesReply, ProblemReply

AnyRequest = Request[Any, Any, State]


@post("/v1/chat/completions", status_code=200)
async def chat_completions(request: AnyRequest) -> ASGIApp:
    """One chat request of an OpenAI client."""
    return await _serve(request, Surface.CHAT)


@post("/v1/messages", status_code=200)
async def messages(request: AnyRequest) -> ASGIApp:
    """One request of an Anthropic client."""
    return await _serve(request, Surface.MESSAGES)


@post("/v1/responses", status_code=200)
async def responses(request: AnyRequest) -> ASGIApp:
    """One request of an OpenAI client in the newer format."""
    return await _serve(request, Surface.RESPONSES)


@post("/v1/embeddings", status_code=200)
async def embeddings(request: AnyRequest) -> ASGIApp:
    """Vectors for the inputs of an OpenAI client."""
    return await _serve(request, Surface.EMBEDDINGS)


@post("/v1/completions", status_code=200)
async def completions(request: AnyRequest) -> ASGIApp:
    """A text that is to be continued, in OpenAI's oldest format."""
    return await _serve(request, Surface.COMPLETIONS)


async def _serve(request: AnyRequest, surface: Surface) -> ASGIApp:
    """Admit a request, or say why not."""
    gateway: Gateway = request.app.state.gateway
    request_id = receive.new_request_id()
    try:
        head = await _head(request, gateway, request_id, surface.value)
    except Refusal as refusal:
        gateway.note_refusal(refusal, request_id)
        return ProblemReply(refusal, request_id, surface)
    return await _walk(request, gateway, head, surface)


async def _head(request: AnyRequest, gateway: Gateway, request_id: str, endpoint: str) -> RawRequest:
    """The request without its body, of an authenticated caller. Raises `Refusal`."""
    started_ns = time.perf_counter_ns()
    if gateway.in_flight_count >= gateway.settings.server.max_in_flight or gateway.is_draining:
        raise NotReady("The gateway is at its limit just now. Try again.", retry_after_seconds=1)
    found = receive.read_headers(request.scope["headers"])
    receive.check_query(request.scope["query_string"])
    receive.check_media(found)
    peer = request.client.host if request.client else "unknown"
    head = receive.raw_request(request_id, endpoint, found, b"", peer, started_ns)
    # Before the body: a stranger must not hold a place by sending one slowly. The walk asks again.
    await gateway.walk.authenticator.authenticate(head)
    return head


async def _walk(request: AnyRequest, gateway: Gateway, head: RawRequest, surface: Surface) -> ASGIApp:
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
        return ProblemReply(refusal, head.request_id, surface)
    finally:
        if reply is None:
            gateway.leave()
    return reply


@post("/v1/messages/count_tokens", status_code=200)
async def count_tokens(request: AnyRequest) -> ASGIApp:
    """The tokens that a request of an Anthropic client is reserved with. Nothing leaves for it."""
    gateway: Gateway = request.app.state.gateway
    request_id = receive.new_request_id()
    try:
        head = await _head(request, gateway, request_id, COUNT_ENDPOINT)
        body = await _body(request, gateway.settings.server.body_timeout_seconds)
        chat = gateway.walk.dialects.parse(COUNT_ENDPOINT, body)
        principal = await gateway.walk.authenticator.authenticate(head)
        if chat.model not in gateway.walk.snapshots.current.models(principal.tenant):
            raise _no_model()
        tokens, _ = gateway.walk.estimate(chat)
        return BytesReply(count_body(tokens), b"application/json", request_id)
    except Refusal as refusal:
        gateway.note_refusal(refusal, request_id)
        return ProblemReply(refusal, request_id, Surface.MESSAGES)


def _no_model() -> NotFound:
    return NotFound(
        "This model does not exist. List the models with GET /v1/models.",
        code="model-not-found",
        param="model",
    )


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
            raise _no_model()
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
    return _response(refusal, _surface(request))


def _surface(request: AnyRequest) -> Surface:
    """Whose words an error of this path is told in."""
    path: str = request.scope["path"]
    is_messages = path == "/v1/messages" or path.startswith("/v1/messages/")
    return Surface.MESSAGES if is_messages else Surface.CHAT


def _on_fault(request: AnyRequest, error: Exception) -> Response[bytes]:
    """A fault in a route itself: its class is logged, nothing of it is told."""
    gateway: Gateway = request.app.state.gateway
    gateway.walk.report_fault("route failed", error)
    refusal = Refusal("The gateway could not process the request. Report the request id.")
    return _response(refusal, _surface(request))


def _response(refusal: Refusal, surface: Surface) -> Response[bytes]:
    status, headers, body = problem(refusal, receive.new_request_id(), surface)
    plain = {name.decode(): value.decode() for name, value in headers if name != b"content-length"}
    plain.pop("content-type")
    return Response(body, status_code=status, headers=plain, media_type="application/json")


def build_app(gateway: Gateway) -> Litestar:
    """The application of one process."""
    return Litestar(
        [
            chat_completions,
            messages,
            count_tokens,
            responses,
            embeddings,
            completions,
            list_models,
            one_model,
            *APPROVAL_ROUTES,
            live,
            ready,
            metrics,
        ],
        state=State({"gateway": gateway}),
        openapi_config=None,
        request_max_body_size=gateway.settings.server.max_body_bytes,
        logging_config=None,
        exception_handlers={HTTPException: _on_http_error, Exception: _on_fault},
        debug=False,
    )
