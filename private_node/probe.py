"""Readiness of a node by what a client would see: a real completion of one token, with the key.

vLLM's `/health` and `/v1/models` stay 200 while generation is dead or draining, so neither is asked.
Standard library only: the probe runs in the node's environment, the gateway has its own client.
"""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import Final

CHAT_PATH: Final = "/v1/chat/completions"
MAX_ANSWER_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Ready:
    """The node answered. `system_fingerprint` names version and layout, empty when the server gave none."""

    seconds: float
    system_fingerprint: str


@dataclass(frozen=True, slots=True)
class NotReady:
    """The node did not answer as a ready node does. `reason` holds no part of a body."""

    reason: str


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node listens."""

    host: str
    port: int

    @property
    def base_url(self) -> str:
        """The base URL that an OpenAI client takes."""
        return f"http://{self.host}:{self.port}/v1"


def probe(address: Address, key: str, model: str, timeout_seconds: float) -> Ready | NotReady:
    """Asks for one token. Ready only on 200 with a choice that says why it ended."""
    started = time.monotonic()
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0}
    ).encode()
    got = request(address, "POST", CHAT_PATH, key=key, body=body, timeout_seconds=timeout_seconds)
    if isinstance(got, NotReady):
        return got
    status, answer = got
    if status != 200:
        return NotReady(f"status {status}")
    try:
        parsed = json.loads(answer)
        finish, tokens = parsed["choices"][0]["finish_reason"], parsed["usage"]["completion_tokens"]
        fingerprint = parsed.get("system_fingerprint") or ""
    except (ValueError, LookupError, TypeError, AttributeError):
        return NotReady("answer is not a chat completion")
    if finish not in ("length", "stop") or tokens != 1:
        return NotReady("answer does not hold one token")
    return Ready(time.monotonic() - started, str(fingerprint))


def guard_hole(address: Address, key: str, timeout_seconds: float) -> str | None:
    """The first way past the path guard that is open, or None.

    Asked once before a node counts as ready: a node whose guard did not load must not serve.
    """
    for method, path, sent_key, expected in (
        ("GET", "/v1/models", None, 401),
        ("GET", "/v1/models", key + "x", 401),
        ("POST", "/tokenize", key, 404),
        ("POST", "/invocations", key, 404),
        ("GET", "/v1/models/", key, 404),
    ):
        got = request(address, method, path, key=sent_key, body=b"{}", timeout_seconds=timeout_seconds)
        if isinstance(got, NotReady):
            return f"{method} {path}: {got.reason}"
        if got[0] != expected:
            return f"{method} {path}: expected status {expected}, found {got[0]}"
    return None


def request(
    address: Address, method: str, path: str, *, key: str | None, body: bytes, timeout_seconds: float
) -> tuple[int, bytes] | NotReady:
    """One request on a connection of its own: status and at most `MAX_ANSWER_BYTES` of the answer."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout_seconds)
    headers = {"content-type": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    try:
        connection.request(method, path, body=None if method == "GET" else body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as fault:
        return NotReady(f"no answer ({type(fault).__name__})")
    finally:
        connection.close()
