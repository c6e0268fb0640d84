"""`GET /admin/v1/openapi.json`: the table of routes as an OpenAPI 3.1 document.

Made from the same rows and types that serve, so that it cannot say another thing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.administration import ADMINISTRATOR, AUDITOR, CHECKER, Administration
from gateway.web.admin_answers import Problem
from gateway.web.admin_reads import API_VERSION
from gateway.web.admin_table import Answer, Call, Route

_REF = "#/components/schemas/{name}"


class OpenApi(msgspec.Struct, frozen=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, str]
    paths: dict[str, Any]
    components: dict[str, Any]
    security: tuple[dict[str, tuple[str, ...]], ...]


def openapi_route(routes: Sequence[Route]) -> Route:
    """The route that gives the document of `routes` and of itself."""

    async def document(desk: Administration, call: Call) -> Answer:
        return Answer(openapi_document((*routes, row)))

    row = Route(
        "GET",
        "/openapi.json",
        "openapi.read",
        frozenset({AUDITOR, ADMINISTRATOR, CHECKER}),
        document,
        OpenApi,
        "This document",
        scope="tenant",
    )
    return row


def openapi_document(routes: Sequence[Route]) -> OpenApi:
    """The document of these routes."""
    kinds: list[type] = [Problem]
    for route in routes:
        kinds += [kind for kind in (route.body, route.answer) if kind is not None]
    kinds = list(dict.fromkeys(kind for kind in kinds if kind is not OpenApi))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.full_path, {})[route.method.lower()] = _operation(route, by_kind)
    return OpenApi(
        openapi="3.1.0",
        info={"title": "Tidegate admin API", "version": API_VERSION},
        paths=paths,
        components={
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        security=({"bearer": ()},),
    )


def _operation(route: Route, schemas: dict[type, Any]) -> dict[str, Any]:
    parameters = [
        _parameter(name, "path", {"type": "string"}) for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    if route.is_change:
        parameters.append(_parameter("Idempotency-Key", "header", {"type": "string", "minLength": 8}))
    if route.from_active:
        parameters.append(_parameter("If-Match", "header", {"type": "string", "pattern": '^"[0-9a-f]{64}"$'}))
    done = "201" if route.action == "bundle.upload" else "200"
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()} {route.path}",
        "summary": route.summary,
        "x-tidegate-action": route.action,
        "x-tidegate-roles": sorted(route.roles),
        "parameters": parameters,
        "responses": {
            done: _content(route.summary, "application/json", schemas.get(route.answer, {"type": "object"})),
            "default": _content("Refused", "application/problem+json", schemas[Problem]),
        },
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[route.body]}},
        }
    return operation


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": True, "schema": schema}


def _content(description: str, media: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema}}}
