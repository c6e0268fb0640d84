"""The gate in front of vLLM's HTTP routes: an exact allow-list, and the key on every route.

In: ASGI scopes of vLLM's own server (`--middleware private_node.path_guard.PathGuard`). Out: the same scope
to vLLM, or a JSON refusal in OpenAI's error shape. It never reads a body and never logs.

Why: vLLM's `--api-key` guards only some prefixes and leaves `/invocations`, `/tokenize`, `/metrics`,
`/load` and others open, skips every OPTIONS request, and lets `/health` and `/ping` answer to anyone.

Invariants
1. What is not on the list is refused. The list is compared with the raw bytes of the path, so no
   decoding, doubled slash, trailing slash, dot segment or letter case can be read two ways.
2. No listed route is reached without the key; the comparison takes the same time for any wrong key.
3. A WebSocket is closed before it is accepted; a scope type that is not known is refused.
4. While the drain file exists, every request gets 503 with Retry-After: nothing new starts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

KEY_FILE_VARIABLE: Final = "TIDEGATE_NODE_KEY_FILE"
DRAIN_FILE_VARIABLE: Final = "TIDEGATE_NODE_DRAIN_FILE"
RETRY_AFTER_SECONDS: Final = 5

ROUTES: Final[frozenset[tuple[str, bytes]]] = frozenset(
    {
        ("POST", b"/v1/chat/completions"),
        ("GET", b"/v1/models"),
        ("GET", b"/health"),
    }
)
"""What the gateway needs: it asks for completions, reads the model list and watches the process."""

LOOPBACK_ROUTES: Final[frozenset[tuple[str, bytes]]] = frozenset({("GET", b"/metrics")})
"""For the operator's own collector on the same machine; with the key, like all others."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal on the wire: status, stable code, and a sentence that says what to do next."""

    status: int
    code: str
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def body(self) -> bytes:
        """The error body in OpenAI's shape."""
        kind = "authentication_error" if self.status == 401 else "invalid_request_error"
        if self.status >= 500:
            kind = "server_error"
        error = {"message": self.message, "type": kind, "param": None, "code": self.code}
        return json.dumps({"error": error}).encode()


NOT_SERVED: Final = Refusal(404, "path-not-served", "This node serves only what its gateway needs.")
WRONG_METHOD: Final = Refusal(405, "method-not-allowed", "This route takes another method.")
WRONG_KEY: Final = Refusal(
    401,
    "invalid-api-key",
    "The node key is missing or wrong. Send it as `Authorization: Bearer`.",
    ((b"www-authenticate", b"Bearer"),),
)
DRAINING: Final = Refusal(
    503,
    "node-draining",
    "This node is shutting down and takes no new requests. Use another node or retry.",
    ((b"retry-after", str(RETRY_AFTER_SECONDS).encode()),),
)


class NodeKeyError(Exception):
    """The key file is missing, unsafe or malformed. Never holds the key."""


class PathGuard:
    """ASGI middleware: passes what is on the list and carries the key, refuses all else.

    `key_file` and `drain_file` default to the paths in the environment, as vLLM builds the middleware
    without arguments. Raises NodeKeyError when there is no usable key, so the server does not start.
    """

    def __init__(
        self, app: Application, key_file: Path | None = None, drain_file: Path | None = None
    ) -> None:
        self._app = app
        path = key_file or Path(os.environ.get(KEY_FILE_VARIABLE, ""))
        self._key_digest = hashlib.sha256(read_key(path)).digest()
        drain = drain_file or os.environ.get(DRAIN_FILE_VARIABLE)
        self._drain_file = str(drain) if drain else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one scope. Raises RuntimeError for a scope type that ASGI does not define."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._app(scope, receive, send)
        elif kind == "websocket":
            # fail-closed: no WebSocket route is on the list, so none is accepted.
            await send({"type": "websocket.close", "code": 1008})
        elif kind == "http":
            refusal = self._refusal(scope)
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await _send_refusal(send, refusal)
        else:
            raise RuntimeError(f"scope type {kind!r} is not served")

    def _refusal(self, scope: Scope) -> Refusal | None:
        refusal = route_refusal(scope)
        if refusal is not None:
            return refusal
        if not self._carries_key(scope):
            return WRONG_KEY
        if self._drain_file is not None and os.path.exists(self._drain_file):
            return DRAINING
        return None

    def _carries_key(self, scope: Scope) -> bool:
        """Whether there is exactly one Authorization header and it bears the key."""
        found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if len(found) != 1:
            return False  # fail-closed: two headers could be read differently by two programs
        scheme, _, key = found[0].partition(b" ")
        right = hmac.compare_digest(hashlib.sha256(key).digest(), self._key_digest)
        return bool(scheme.lower() == b"bearer") and right


def route_refusal(scope: Scope) -> Refusal | None:
    """Why the method and path of `scope` are not served, or None. Pure.

    A query string or a mount prefix is refused too: no listed route takes one.
    """
    raw = scope.get("raw_path")
    method = scope.get("method", "")
    if not isinstance(raw, bytes) or scope.get("query_string") or scope.get("root_path"):
        return NOT_SERVED  # fail-closed: without the raw bytes the path cannot be compared exactly
    if scope["path"].encode("utf-8", "surrogatepass") != raw:
        return NOT_SERVED  # fail-closed: the router reads the decoded path, so both must agree
    served = ROUTES | LOOPBACK_ROUTES if _is_loopback(scope.get("client")) else ROUTES
    if (method, raw) in served:
        return None
    return WRONG_METHOD if any(raw == path for _, path in served) else NOT_SERVED


def read_key(path: Path) -> bytes:
    """The node key from a file that only its owner can read.

    Bounds: 16 to 512 printable ASCII characters without space; surrounding white space is cut.
    Raises NodeKeyError for a missing file, one open to group or others, or another content.
    """
    try:
        mode = path.stat().st_mode
        content = path.read_bytes().strip() if path.is_file() else b""
    except OSError as fault:
        raise NodeKeyError(f"node key file {path}: {fault.strerror}; create it with mode 600") from None
    if mode & 0o077:
        raise NodeKeyError(f"node key file {path}: open to others (mode {mode & 0o777:o}); run chmod 600")
    if not 16 <= len(content) <= 512 or any(not 33 <= byte <= 126 for byte in content):
        raise NodeKeyError(f"node key file {path}: expected one line of 16 to 512 printable characters")
    return content


def _is_loopback(client: object) -> bool:
    if not isinstance(client, (tuple, list)) or not client:
        return False
    try:
        return ip_address(str(client[0])).is_loopback
    except ValueError:
        return False


async def _send_refusal(send: Send, refusal: Refusal) -> None:
    body = refusal.body()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send(
        {"type": "http.response.start", "status": refusal.status, "headers": headers + list(refusal.headers)}
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})
