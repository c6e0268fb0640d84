"""What a route of the admin API is: one row of a table that says who may call it and what it does.

To add a route: write a handler in a module of its own kind, give it a row in `admin_routes.ROUTES`, and an
entry in the roles matrix of the tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec

from gateway.administration import Administration, Operator
from gateway.errors import RequestRefused
from gateway.rollout.order import Order

PREFIX = "/admin/v1"
_Body = TypeVar("_Body")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a route by somebody who may call it. `names` are the parts of the path."""

    operator: Operator
    request_id: str
    names: Mapping[str, str]
    body: bytes = field(repr=False)
    if_match: str

    def read(self, kind: type[_Body]) -> _Body:
        """The body as a value. Raises `RequestRefused` with the place in the body, never its content."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.DecodeError as error:
            raise RequestRefused(
                f"The body does not have the form of this route: {str(error)[:200]}. "
                "See GET /admin/v1/openapi.json.",
                code="invalid-body",
            ) from None

    def order(self, reason: str = "", *, is_rollback: bool = False) -> Order:
        """The call as an order for the policy watch."""
        who = self.operator.principal.subject_ref
        return Order(who, self.request_id, self.if_match, reason, is_rollback)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives: a value for the body, a status, and the active digest where it tells it."""

    body: msgspec.Struct
    status: int = 200
    etag: str = ""


Handler = Callable[[Administration, Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One row. `path` follows the prefix; `{name}` stands for one part of it.

    `scope`: who of another tenant than the operators' may call it at all; for `tenant` the handler asks
    `operator.may_see`. `from_active`: the caller has to name the active digest in If-Match.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    action: str
    roles: frozenset[str]
    handler: Handler
    answer: type[msgspec.Struct]
    summary: str
    body: type[msgspec.Struct] | None = None
    scope: Literal["deployment", "tenant"] = "deployment"
    from_active: bool = False

    @property
    def is_change(self) -> bool:
        """Whether it changes anything: then it needs an Idempotency-Key."""
        return self.method != "GET"

    @property
    def full_path(self) -> str:
        """The path with its prefix."""
        return PREFIX + self.path
