"""Routes of people who decide: list, look at, approve and deny approvals. Each caller is authenticated."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.types import ASGIApp

from gateway.domain.principal import Principal
from gateway.errors import Refusal
from gateway.running import Gateway
from gateway.web import receive
from gateway.web.problems import BytesReply, ProblemReply

AnyRequest = Request[Any, Any, State]


@get("/v1/approvals")
async def list_approvals(request: AnyRequest) -> ASGIApp:
    """Open approvals of the caller's tenant: those that the caller may decide, and the caller's own."""

    async def act(gateway: Gateway, principal: Principal) -> object:
        return {"object": "list", "data": await gateway.desk.open_ones(principal)}

    return await _reply(request, act)


@get("/v1/approvals/{name:str}")
async def one_approval(request: AnyRequest, name: FromPath[str]) -> ASGIApp:
    """One approval, decided ones too while they are kept."""

    async def act(gateway: Gateway, principal: Principal) -> object:
        return await gateway.desk.one(principal, name)

    return await _reply(request, act)


@post("/v1/approvals/{name:str}/approve", status_code=200)
async def approve(request: AnyRequest, name: FromPath[str]) -> ASGIApp:
    """Agree to one request."""

    async def act(gateway: Gateway, principal: Principal) -> object:
        return await gateway.desk.decide(principal, name, is_granted=True)

    return await _reply(request, act)


@post("/v1/approvals/{name:str}/deny", status_code=200)
async def deny(request: AnyRequest, name: FromPath[str]) -> ASGIApp:
    """Do not agree to one request."""

    async def act(gateway: Gateway, principal: Principal) -> object:
        return await gateway.desk.decide(principal, name, is_granted=False)

    return await _reply(request, act)


async def _reply(request: AnyRequest, act: Callable[[Gateway, Principal], Awaitable[object]]) -> ASGIApp:
    gateway: Gateway = request.app.state.gateway
    request_id = receive.new_request_id()
    try:
        found = receive.read_headers(request.scope["headers"])
        receive.check_query(request.scope["query_string"])
        raw = receive.raw_request(request_id, "approvals", found, b"", "", time.perf_counter_ns())
        principal = await gateway.walk.authenticator.authenticate(raw)
        body = msgspec.json.encode(await act(gateway, principal))
    except Refusal as refusal:
        gateway.note_refusal(refusal, request_id)
        return ProblemReply(refusal, request_id)
    return BytesReply(body, b"application/json", request_id)


APPROVAL_ROUTES = (list_approvals, one_approval, approve, deny)
