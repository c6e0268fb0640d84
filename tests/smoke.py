"""`make smoke`: the whole walk in seconds, with stand-ins for both upstreams and a real Valkey.

Each line is one request and what it must get. The last line is `smoke: N passed, M failed`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.hosted_standin import recorded_bytes
from tests.fakes.stack import Child, GatewayProcess, copy_policies, start_child, start_gateway, tidegate

IBAN = "DE89 3704 0044 0532 0130 00"
CHAT = "/v1/chat/completions"


def chat(text: str, **more: Any) -> dict[str, Any]:
    """A chat request with one user message."""
    return {"model": "assistant", "messages": [{"role": "user", "content": text}], **more}


@dataclass
class Smoke:
    """Runs checks, prints a line each, counts."""

    gateway: GatewayProcess
    client: httpx.Client
    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self, name: str, answer: httpx.Response, *claims: bool) -> None:
        is_good = all(claims)
        mark = "ok  " if is_good else "FAIL"
        place = answer.headers.get("x-tidegate-destination", "-")
        label = answer.headers.get("x-tidegate-label", "-")
        print(f"{mark} {answer.status_code} {place:<14} {label:<13} {name}", flush=True)
        self.note(name, is_good)

    def note(self, name: str, is_good: bool) -> None:
        if is_good:
            self.passed += 1
        else:
            self.failed.append(name)


def code_of(answer: httpx.Response) -> str:
    """Error code of an OpenAI-shaped error body."""
    return str(answer.json().get("error", {}).get("code"))


def admitted(smoke: Smoke) -> None:
    post: Callable[..., httpx.Response] = smoke.client.post
    answer = post(CHAT, json=chat("What is the capital of France?"))
    smoke.check(
        "an ordinary question goes to the hosted API",
        answer,
        answer.status_code == 200,
        answer.headers["x-tidegate-destination"] == "hosted-openai",
        bool(answer.json()["choices"][0]["message"]["content"]),
    )
    answer = post(CHAT, json=chat(f"My IBAN is {IBAN}. Is it valid?"))
    smoke.check(
        "a question with an IBAN stays on the private node",
        answer,
        answer.status_code == 200,
        answer.headers["x-tidegate-destination"] == "private-moe",
        answer.headers["x-tidegate-label"] == "restricted",
    )
    answer = post(
        CHAT, json=chat("Tell me about tides.", stream=True, stream_options={"include_usage": True})
    )
    smoke.check(
        "a stream ends with its usage and [DONE]",
        answer,
        answer.text.rstrip().endswith("data: [DONE]"),
        '"choices":[]' in answer.text,
    )
    answer = post(CHAT, json=chat(f"IBAN {IBAN}", stream=True))
    smoke.check(
        "a stream with an IBAN stays private",
        answer,
        answer.headers["x-tidegate-destination"] == "private-moe",
        answer.text.rstrip().endswith("data: [DONE]"),
    )
    answer = post(CHAT, json=chat("A harmless word."), headers={"x-tidegate-label": "restricted"})
    smoke.check("a declared label raises", answer, answer.headers["x-tidegate-destination"] == "private-moe")
    answer = post(CHAT, json=chat(f"IBAN {IBAN}"), headers={"x-tidegate-label": "public"})
    smoke.check(
        "a declared label never lowers", answer, answer.headers["x-tidegate-destination"] == "private-moe"
    )
    answer = post(
        CHAT,
        json={
            "model": "assistant",
            "messages": [{"role": "user", "content": "Please summarise it."}],
            "prompt": {
                "id": "support-summary",
                "version": "1.0.0",
                "variables": {"product": "parcel services", "language": "English"},
            },
        },
    )
    smoke.check("a pinned prompt is rendered by the gateway", answer, answer.status_code == 200)
    answer = post(CHAT, json=chat("Hello", top_k=5))
    smoke.check(
        "a field that only the private node takes goes there",
        answer,
        answer.headers["x-tidegate-destination"] == "private-moe",
    )
    answer = smoke.client.get("/v1/models")
    smoke.check("models are listed", answer, "assistant" in [m["id"] for m in answer.json()["data"]])


def refused(smoke: Smoke) -> None:
    post: Callable[..., httpx.Response] = smoke.client.post
    raw = {"content-type": "application/json"}
    cases: list[tuple[str, httpx.Response, int, str]] = [
        ("no token", post(CHAT, json=chat("x"), headers={"authorization": ""}), 401, "missing-token"),
        ("a wrong token", post(CHAT, json=chat("x"), headers={"authorization": "Bearer a.b.c"}), 401, ""),
        ("an unknown field", post(CHAT, json=chat("x", api_base="http://h")), 400, "unknown-field"),
        ("broken JSON", post(CHAT, content=b'{"model":', headers=raw), 400, ""),
        (
            "a key twice",
            post(CHAT, content=b'{"model":"a","model":"b","messages":[]}', headers=raw),
            400,
            "duplicate-key",
        ),
        ("an unknown model", post(CHAT, json=chat("x") | {"model": "GPT-4"}), 404, "model-not-found"),
        (
            "an unknown prompt",
            post(CHAT, json=chat("x", prompt={"id": "nope", "version": "1.0.0"})),
            404,
            "prompt-not-found",
        ),
        (
            "a misspelt label",
            post(CHAT, json=chat("x"), headers={"x-tidegate-label": "top"}),
            400,
            "invalid-label",
        ),
        (
            "a compressed body",
            post(CHAT, content=b"{}", headers={**raw, "content-encoding": "gzip"}),
            415,
            "unsupported-content-encoding",
        ),
        (
            "a body that is too large",
            post(CHAT, content=b" " * 5_000_000, headers=raw),
            413,
            "payload-too-large",
        ),
        ("an unknown route", smoke.client.get("/v1/files"), 404, "not-found"),
        ("a wrong method", smoke.client.get(CHAT), 405, "method-not-allowed"),
    ]
    for name, answer, status, code in cases:
        expected = not code or code_of(answer) == code or status == 401
        smoke.check(f"{name} is refused", answer, answer.status_code == status, expected)
    strangers = httpx.Client(
        base_url=smoke.gateway.base_url, headers=smoke.gateway.headers("acme"), trust_env=False
    )
    answer = httpx.Response(0)
    for _ in range(4):
        answer = strangers.post(CHAT, json=chat("x"))
    smoke.check(
        "a spent limit says when to come back",
        answer,
        answer.status_code == 429,
        answer.headers.get("retry-after", "").isdigit(),
    )


def node_down(smoke: Smoke, node: Child) -> None:
    node.stop()
    answer = smoke.client.post(CHAT, json=chat(f"IBAN {IBAN}"))
    smoke.check(
        "with the private node down a restricted request goes nowhere",
        answer,
        answer.status_code == 503,
        "retry-after" in answer.headers,
    )
    answer = smoke.client.post(CHAT, json=chat("A harmless word."))
    smoke.check("and an ordinary one still gets its answer", answer, answer.status_code == 200)


def evidence(smoke: Smoke, recording: Path) -> None:
    leaked = IBAN.encode() in recorded_bytes(recording)
    print(f"{'FAIL' if leaked else 'ok  '} --- the hosted stand-in never received the IBAN", flush=True)
    smoke.note("no leak", not leaked)
    smoke.gateway.stop()
    state = smoke.gateway.state
    verified = tidegate("audit", "verify", str(state.audit), "--trust", str(state.trust))
    is_sound = verified.returncode == 0
    print(f"{'ok  ' if is_sound else 'FAIL'} --- the audit log verifies", flush=True)
    smoke.note("audit", is_sound)
    if not is_sound:
        print(verified.stdout + verified.stderr)


def policies(directory: Path) -> Path:
    """The default pack, with three requests a minute for acme so that a limit shows."""
    target = copy_policies(directory / "policies")
    limits = target / "limits.yaml"
    text = limits.read_text(encoding="utf-8")
    head, tail = text.split("  acme:", 1)
    tail = re.sub(r"requests_per_minute: \d+", "requests_per_minute: 3", tail, count=1)
    limits.write_text(f"{head}  acme:{tail}", encoding="utf-8")
    return target


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tidegate-smoke-") as folder:
        directory = Path(folder)
        recording = directory / "hosted"
        standin = "tests.fakes.hosted_standin"
        hosted = start_child([standin, "--port", "0", "--record", str(recording)])
        node = start_child([standin, "--port", "0", "--kind", "vllm", "--record", str(directory / "private")])
        gateway: GatewayProcess | None = None
        try:
            gateway = start_gateway(
                directory / "gateway", hosted=hosted.url, private=node.url, policies=policies(directory)
            )
            with gateway.client() as client:
                smoke = Smoke(gateway, client)
                admitted(smoke)
                refused(smoke)
                node_down(smoke, node)
                evidence(smoke, recording)
        finally:
            if gateway is not None:
                gateway.stop()
            hosted.stop()
            node.stop()
    for name in smoke.failed:
        print(f"failed: {name}")
    print(f"smoke: {smoke.passed} passed, {len(smoke.failed)} failed")
    return 1 if smoke.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except json.JSONDecodeError as error:
        sys.exit(f"smoke: an answer was not JSON: {error.msg}")
