"""The gate in front of vLLM: exact routes, the key on each, nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from private_node.path_guard import (
    KEY_FILE_VARIABLE,
    LOOPBACK_ROUTES,
    ROUTES,
    Message,
    NodeKeyError,
    PathGuard,
    Scope,
    read_key,
    route_refusal,
)

KEY = "node-key-0123456789abcdef"


class Inner:
    """Stands for vLLM: counts the scopes that reached it."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"inner"})


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return path


def scope_of(
    method: str = "GET",
    path: str = "/v1/models",
    *,
    headers: list[tuple[bytes, bytes]] | None = None,
    **rest: Any,
) -> Scope:
    bearer = [(b"authorization", f"Bearer {KEY}".encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": bearer if headers is None else headers,
        "client": ("10.1.2.3", 4711),
    }
    return scope | rest


async def ask(
    key_file: Path, scope: Scope, drain_file: Path | None = None
) -> tuple[int, dict[str, Any], Inner]:
    """Status, parsed error (empty when it passed) and the stand-in behind the guard."""
    inner, sent = Inner(), list[Message]()

    async def receive() -> Message:
        raise AssertionError("the guard reads no body")

    async def send(message: Message) -> None:
        sent.append(message)

    await PathGuard(inner, key_file, drain_file)(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], {} if body == b"inner" else json.loads(body)["error"], inner


@pytest.mark.parametrize(("method", "path"), sorted(ROUTES))
async def test_passes_each_listed_route_with_the_key(key_file: Path, method: str, path: bytes) -> None:
    status, _, inner = await ask(key_file, scope_of(method, path.decode()))
    assert status == 200
    assert len(inner.scopes) == 1


@pytest.mark.parametrize(("method", "path"), sorted(ROUTES | LOOPBACK_ROUTES))
async def test_refuses_each_listed_route_without_the_key(key_file: Path, method: str, path: bytes) -> None:
    scope = scope_of(method, path.decode(), headers=[], client=("127.0.0.1", 1))
    status, error, inner = await ask(key_file, scope)
    assert (status, error["code"]) == (401, "invalid-api-key")
    assert inner.scopes == []


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer wrong-key-0123456789")],
        [(b"authorization", f"Bearer {KEY}x".encode())],
        [(b"authorization", f"Bearer {KEY[:-1]}".encode())],
        [(b"authorization", f"Bearer  {KEY}".encode())],
        [(b"authorization", f"Basic {KEY}".encode())],
        [(b"authorization", KEY.encode())],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"")],
        [(b"x-api-key", KEY.encode())],
        [(b"authorization", f"Bearer {KEY}".encode())] * 2,
        [(b"authorization", b"Bearer other"), (b"authorization", f"Bearer {KEY}".encode())],
    ],
)
async def test_refuses_a_wrong_missing_or_doubled_key(
    key_file: Path, headers: list[tuple[bytes, bytes]]
) -> None:
    status, error, inner = await ask(key_file, scope_of(headers=headers))
    assert (status, error["type"]) == (401, "authentication_error")
    assert inner.scopes == []


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
async def test_takes_the_scheme_in_any_letter_case(key_file: Path, scheme: bytes) -> None:
    status, _, _ = await ask(key_file, scope_of(headers=[(b"Authorization", scheme + b" " + KEY.encode())]))
    assert status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/invocations",
        "/tokenize",
        "/detokenize",
        "/metrics",
        "/load",
        "/version",
        "/ping",
        "/docs",
        "/openapi.json",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1/load_lora_adapter",
        "/pause",
        "/",
        "",
        "/v1",
        "/v1/",
        "//v1/models",
        "/v1//models",
        "/v1/models/",
        "/v1/models/reference-moe",
        "/v1/models;x",
        "/V1/models",
        "/v1/Models",
        "/v1/chat/completions/",
        "/v1/chat/completions/render",
        "/v1/chat/completions/../models",
        "/v1/./models",
        "/health/",
        "/healthz",
        "http://node/v1/models",
        "/v1/models\x00",
        "/v1/models ",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_refuses_every_other_path_even_with_the_key(key_file: Path, method: str, path: str) -> None:
    status, error, inner = await ask(key_file, scope_of(method, path))
    assert (status, error["code"]) == (404, "path-not-served")
    assert inner.scopes == []


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/v1/models", b"/v1%2Fmodels"),
        ("/v1/models", b"/v1/%6dodels"),
        ("/v1/models", b"/%76%31/models"),
        ("/v1/models", b"//v1/models"),
        ("/tokenize", b"/v1/models"),
        ("/v1/models", b"/tokenize"),
        ("/v1/models", None),
        ("/v1/models", "/v1/models"),
    ],
)
async def test_refuses_a_path_that_reads_two_ways(key_file: Path, path: str, raw: object) -> None:
    status, _, inner = await ask(key_file, scope_of(path=path, raw_path=raw))
    assert status == 404
    assert inner.scopes == []


async def test_refuses_a_scope_without_raw_path(key_file: Path) -> None:
    scope = scope_of()
    del scope["raw_path"]
    status, _, inner = await ask(key_file, scope)
    assert status == 404
    assert inner.scopes == []


@pytest.mark.parametrize("rest", [{"query_string": b"a=1"}, {"root_path": "/v1"}])
def test_refuses_a_query_string_and_a_mount_prefix(rest: dict[str, Any]) -> None:
    refusal = route_refusal(scope_of(**rest))
    assert refusal is not None
    assert refusal.status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/chat/completions"),
        ("OPTIONS", "/v1/chat/completions"),
        ("POST", "/v1/models"),
        ("HEAD", "/health"),
        ("get", "/health"),
    ],
)
async def test_refuses_another_method_on_a_listed_path(key_file: Path, method: str, path: str) -> None:
    status, error, inner = await ask(key_file, scope_of(method, path))
    assert (status, error["code"]) == (405, "method-not-allowed")
    assert inner.scopes == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1"])
async def test_gives_metrics_to_the_own_machine_with_the_key(key_file: Path, host: str) -> None:
    status, _, _ = await ask(key_file, scope_of(path="/metrics", client=(host, 9)))
    assert status == 200


@pytest.mark.parametrize("client", [("10.0.0.1", 9), ("2001:db8::1", 9), ("localhost", 9), ("", 9), (), None])
async def test_refuses_metrics_from_anywhere_else(key_file: Path, client: object) -> None:
    status, error, _ = await ask(key_file, scope_of(path="/metrics", client=client))
    assert (status, error["code"]) == (404, "path-not-served")


async def test_answers_in_the_error_shape_of_openai(key_file: Path) -> None:
    _, error, _ = await ask(key_file, scope_of(path="/tokenize"))
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


async def test_refuses_new_requests_while_draining(key_file: Path, tmp_path: Path) -> None:
    drain = tmp_path / "drain"
    assert (await ask(key_file, scope_of(), drain))[0] == 200
    drain.touch()
    status, error, inner = await ask(key_file, scope_of(), drain)
    assert (status, error["code"], error["type"]) == (503, "node-draining", "server_error")
    assert inner.scopes == []


async def test_says_when_to_retry_and_how_to_authenticate(key_file: Path, tmp_path: Path) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    drain = tmp_path / "drain"
    drain.touch()
    guard = PathGuard(Inner(), key_file, drain)
    await guard(scope_of(), None, send)  # type: ignore[arg-type]
    await guard(scope_of(headers=[]), None, send)  # type: ignore[arg-type]
    assert (b"retry-after", b"5") in sent[0]["headers"]
    assert (b"www-authenticate", b"Bearer") in sent[2]["headers"]


async def test_closes_a_websocket_before_it_is_accepted(key_file: Path) -> None:
    inner, sent = Inner(), list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = scope_of(path="/v1/models", type="websocket")
    await PathGuard(inner, key_file)(scope, None, send)  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert inner.scopes == []


async def test_passes_lifespan_and_raises_on_an_unknown_scope(key_file: Path) -> None:
    inner = Inner()
    guard = PathGuard(inner, key_file)
    await guard({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert [scope["type"] for scope in inner.scopes] == ["lifespan"]
    with pytest.raises(RuntimeError, match="not served"):
        await guard({"type": "webtransport"}, None, None)  # type: ignore[arg-type]
    assert len(inner.scopes) == 1


def test_takes_the_key_file_from_the_environment(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(key_file))
    PathGuard(Inner())
    monkeypatch.delenv(KEY_FILE_VARIABLE)
    with pytest.raises(NodeKeyError):
        PathGuard(Inner())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_refuses_a_key_file_that_others_can_touch(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(NodeKeyError, match="chmod 600"):
        read_key(key_file)


@pytest.mark.parametrize(
    "content", ["", "short", "two words in the key file", "x" * 513, "schlüssel-0123456789"]
)
def test_refuses_a_malformed_key_and_never_repeats_it(key_file: Path, content: str) -> None:
    key_file.write_text(content)
    with pytest.raises(NodeKeyError) as caught:
        read_key(key_file)
    assert not content or content not in str(caught.value)


def test_refuses_a_key_file_that_is_missing_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(NodeKeyError, match="mode 600"):
        read_key(tmp_path / "absent")
    tmp_path.chmod(0o700)
    with pytest.raises(NodeKeyError):
        read_key(tmp_path)
