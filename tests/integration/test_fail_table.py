"""Each row of the fail table, caused for real on a running gateway; and what left meanwhile is counted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from gateway.assembly import open_gateway
from gateway.domain.finding import Finding
from gateway.settings import load_settings
from gateway.web.app import build_app
from tests.fakes.hosted_standin import recorded_bytes
from tests.fakes.stack import (
    Child,
    GatewayProcess,
    copy_policies,
    free_port,
    running_gateway,
    start_child,
    start_gateway,
    tidegate,
)
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
IBAN = "DE89 3704 0044 0532 0130 00"
STANDIN = "tests.fakes.hosted_standin"


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "assistant", "messages": [{"role": "user", "content": text}], **more}


def request_bytes(gateway: GatewayProcess, request: dict[str, Any]) -> bytes:
    """A whole HTTP request, for tests that own their socket."""
    body = json.dumps(request).encode()
    lines = (
        f"POST {CHAT} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Authorization: Bearer {gateway.token()}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Upstreams:
    """A recording hosted stand-in and a recording private one."""

    def __init__(self, directory: Path) -> None:
        self.record = directory / "hosted"
        self.hosted = start_child([STANDIN, "--port", "0", "--record", str(self.record)])
        self.private_record = directory / "private"
        self.private: Child = start_child(
            [STANDIN, "--port", "0", "--kind", "vllm", "--record", str(self.private_record)]
        )

    def hosted_bytes(self) -> bytes:
        return recorded_bytes(self.record)

    def hosted_request_count(self) -> int:
        path = self.record / "requests.jsonl"
        return len(path.read_bytes().splitlines()) if path.exists() else 0

    def stop(self) -> None:
        self.hosted.stop()
        self.private.stop()


@pytest.fixture
def upstreams(tmp_path: Path) -> Iterator[Upstreams]:
    both = Upstreams(tmp_path)
    try:
        yield both
    finally:
        both.stop()


def until(condition: Any, seconds: float = 10.0) -> None:
    """Wait for `condition()`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def reasons(gateway: GatewayProcess) -> list[tuple[str, str]]:
    """(phase, reason) of every request record, after the gateway has stopped."""
    out = gateway.state.directory / "export"
    done = tidegate(
        "audit", "export", "--format", "jsonl", "--dir", str(gateway.state.audit), "--out", str(out)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = []
    for path in sorted(out.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)["record"]
            rows.append((record["phase"], record.get("reason_code", "")))
    return rows


# -- private node down -----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_with_the_private_node_killed_restricted_requests_get_503_and_nothing_leaves(
    tmp_path: Path, upstreams: Upstreams, stream: bool
) -> None:
    with (
        running_gateway(
            tmp_path / "gw", hosted=upstreams.hosted.url, private=upstreams.private.url
        ) as gateway,
        gateway.client() as client,
    ):
        assert client.post(CHAT, json=chat(f"IBAN {IBAN}")).status_code == 200
        upstreams.private.process.send_signal(signal.SIGKILL)
        upstreams.private.process.wait()
        for _ in range(8):
            answer = client.post(CHAT, json=chat(f"My IBAN is {IBAN}", stream=stream))
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert IBAN not in answer.text
        assert client.get("/ready").status_code == 200
    assert upstreams.hosted_bytes() == b"", "not one byte to the hosted API"


def test_the_private_node_is_used_again_when_it_returns(tmp_path: Path, upstreams: Upstreams) -> None:
    with (
        running_gateway(tmp_path / "gw", private=upstreams.private.url) as gateway,
        gateway.client() as client,
    ):
        upstreams.private.process.send_signal(signal.SIGKILL)
        upstreams.private.process.wait()
        for _ in range(6):
            assert client.post(CHAT, json=chat("x")).status_code == 503
        port = upstreams.private.port
        upstreams.private = start_child(
            [STANDIN, "--port", str(port), "--kind", "vllm", "--record", str(upstreams.private_record)]
        )
        until(lambda: client.post(CHAT, json=chat("x")).status_code == 200, 15)


# -- Redis down ------------------------------------------------------------------------------------


def test_without_valkey_hosted_is_503_private_goes_on_degraded_and_it_recovers(
    tmp_path: Path, upstreams: Upstreams, own_valkey: ValkeyServer
) -> None:
    with (
        running_gateway(
            tmp_path / "gw",
            hosted=upstreams.hosted.url,
            private=upstreams.private.url,
            redis_url=own_valkey.url,
        ) as gateway,
        gateway.client() as client,
    ):
        assert client.post(CHAT, json=chat("x")).headers["x-tidegate-destination"] == "hosted-openai"
        own_valkey.kill()
        count = upstreams.hosted_request_count()
        for _ in range(3):
            answer = client.post(CHAT, json=chat("x"))
            assert answer.status_code == 200
            assert answer.headers["x-tidegate-destination"] == "private-moe"
        assert upstreams.hosted_request_count() == count, "nothing is bought without exact limits"
        assert client.get("/ready").json()["limits"] == "degraded"
        codes = [client.post(CHAT, json=chat("x")).status_code for _ in range(200)]
        assert 429 in codes, "the local cap is a cap"
        own_valkey.start()
        until(
            lambda: client.post(CHAT, json=chat("x")).headers.get("x-tidegate-destination") == "hosted-openai"
        )


def test_without_valkey_and_without_a_private_place_it_is_503(
    tmp_path: Path, upstreams: Upstreams, own_valkey: ValkeyServer
) -> None:
    with (
        running_gateway(tmp_path / "gw", hosted=upstreams.hosted.url, redis_url=own_valkey.url) as gateway,
        gateway.client() as client,
    ):
        own_valkey.kill()
        answer = client.post(CHAT, json=chat("x"))
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "limits-unavailable"
        assert "retry-after" in answer.headers
    assert upstreams.hosted_bytes() == b""


# -- audit log -------------------------------------------------------------------------------------


def test_when_the_audit_folder_is_read_only_it_is_503_before_anything_leaves_and_it_recovers(
    tmp_path: Path, upstreams: Upstreams
) -> None:
    gateway = start_gateway(
        tmp_path / "gw",
        hosted=upstreams.hosted.url,
        policies=generous(tmp_path),
        small_segments=True,
        obey_file_modes=True,
    )
    audit = gateway.state.audit
    folders = [audit, *(path for path in audit.rglob("*") if path.is_dir())]
    try:
        with gateway.client() as client:
            for folder in folders:
                folder.chmod(0o555)
            answer = client.post(CHAT, json=chat("x"))
            for _ in range(1500):
                if answer.status_code == 503:
                    break
                answer = client.post(CHAT, json=chat("x"))
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "audit-unavailable"
            count = upstreams.hosted_request_count()
            for _ in range(5):
                assert client.post(CHAT, json=chat("x")).status_code == 503
            assert upstreams.hosted_request_count() == count, "nothing leaves without a durable intent"
            assert client.get("/ready").status_code == 503
            for folder in folders:
                folder.chmod(0o755)
            until(lambda: client.post(CHAT, json=chat("x")).status_code == 200)
            assert client.get("/ready").status_code == 200
    finally:
        for folder in folders:
            folder.chmod(0o755)
        gateway.stop()
    verified = tidegate("audit", "verify", str(audit), "--trust", str(gateway.state.trust))
    assert verified.returncode in {0, 1}, verified.stdout


def generous(directory: Path) -> Path:
    policies = copy_policies(directory / "generous")
    limits = policies / "limits.yaml"
    text = limits.read_text("utf-8")
    text = text.replace("requests_per_minute: 600", "requests_per_minute: 1000000")
    limits.write_text(text.replace("tokens_per_minute: 600000", "tokens_per_minute: 1000000000"), "utf-8")
    return policies


def test_a_gateway_does_not_start_when_its_log_cannot_be_taken(tmp_path: Path, upstreams: Upstreams) -> None:
    with running_gateway(tmp_path / "gw", private=upstreams.private.url):
        second = start_gateway(tmp_path / "gw", private=upstreams.private.url, wait_ready=False)
        assert second.process.wait(20) == 2
        assert "another process writes this log" in second.log_text()


# -- policy ----------------------------------------------------------------------------------------


def test_a_bad_policy_leaves_the_last_good_one_in_force_and_says_so(
    tmp_path: Path, upstreams: Upstreams
) -> None:
    with (
        running_gateway(
            tmp_path / "gw", hosted=upstreams.hosted.url, private=upstreams.private.url
        ) as gateway,
        gateway.client() as client,
    ):
        routing = gateway.policies / "routing.yaml"
        good = routing.read_text("utf-8")
        widened = good.replace("destinations: [private-moe]", "destinations: [hosted-openai, private-moe]")
        assert widened != good
        routing.write_text(widened, "utf-8")
        until(lambda: client.get("/ready").json()["policy_candidate"] == "rejected")
        assert client.get("/ready").status_code == 200
        answer = client.post(CHAT, json=chat(f"IBAN {IBAN}"))
        assert answer.headers["x-tidegate-destination"] == "private-moe"
        assert "tidegate_policy_candidate_rejected_state 1.0" in client.get("/metrics").text
        routing.write_text(good, "utf-8")
        until(lambda: client.get("/ready").json()["policy_candidate"] == "ok")
    assert IBAN.encode() not in upstreams.hosted_bytes()


def test_without_a_first_good_policy_the_gateway_does_not_start(tmp_path: Path) -> None:
    policies = copy_policies(tmp_path / "policies", {"clearance: internal": "clearance: internul"})
    gateway = start_gateway(
        tmp_path / "gw", private="http://127.0.0.1:9/v1", policies=policies, wait_ready=False
    )
    assert gateway.process.wait(20) == 2
    assert "routing.yaml" in gateway.log_text()


def test_a_destination_url_on_a_host_that_the_policy_does_not_name_is_refused(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path / "gw", private="http://10.1.2.3:9/v1", wait_ready=False)
    assert gateway.process.wait(20) == 2
    assert "not one of the policy's hosts" in gateway.log_text()


# -- detector --------------------------------------------------------------------------------------


class Faulty:
    """A detector that raises at the question; it has nothing against the answer."""

    identity = "faulty@1"

    def find(self, text: str) -> tuple[Finding, ...]:
        if "weather" in text:
            raise RuntimeError("a detector broke")
        return ()


class Slow:
    """A detector that spends the whole time budget."""

    identity = "slow@1"

    def find(self, text: str) -> tuple[Finding, ...]:
        end_ns = time.thread_time_ns() + 50_000_000
        while time.thread_time_ns() < end_ns:
            pass
        return ()


@pytest.mark.parametrize(
    ("detector", "budget_ms", "reason"), [(Faulty(), 1000, "detector-raised"), (Slow(), 20, "budget-spent")]
)
async def test_a_detector_that_fails_makes_everything_restricted(
    tmp_path: Path, upstreams: Upstreams, detector: Any, budget_ms: int, reason: str
) -> None:
    prepared = start_gateway(
        tmp_path / "gw", hosted=upstreams.hosted.url, private=upstreams.private.url, wait_ready=False
    )
    prepared.kill()
    text = prepared.state.settings.read_text("utf-8")
    text = text.replace('contextual_model = "none"', f'contextual_model = "none"\nbudget_ms = {budget_ms}')
    prepared.state.settings.write_text(text, "utf-8")
    os.environ["TIDEGATE_TEST_HOSTED_KEY"] = "k"
    async with open_gateway(load_settings(prepared.state.settings), [detector]) as gateway:
        config = uvicorn.Config(build_app(gateway), port=free_port(), lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{config.port}", headers=prepared.headers(), trust_env=False
        ) as client:
            turns = [{"role": "user", "content": f"What is the weather like on day {n}?"} for n in range(4)]
            answer = await client.post(CHAT, json={"model": "assistant", "messages": turns})
        server.should_exit = True
        await task
    assert answer.status_code == 200
    assert answer.headers["x-tidegate-destination"] == "private-moe"
    assert answer.headers["x-tidegate-label"] == "restricted"
    assert upstreams.hosted_bytes() == b""
    shown = tidegate(
        "audit", "show", answer.headers["x-tidegate-request-id"], "--dir", str(prepared.state.audit)
    )
    assert reason in shown.stdout


# -- crash -----------------------------------------------------------------------------------------


def test_kill_9_during_32_streams_loses_no_acknowledged_record_and_closes_open_intents(
    tmp_path: Path,
) -> None:
    log = tmp_path / "fault.jsonl"
    control = tmp_path / "control.json"
    control.write_text('{"mode": "endless-trickle"}')
    slow = start_child(
        ["tests.fakes.fault_standin", "--port", "0", "--log", str(log), "--control", str(control)]
    )
    gateway = start_gateway(tmp_path / "gw", private=slow.url)
    acknowledged: set[str] = set()
    lock = threading.Lock()

    def read() -> None:
        with (
            httpx.Client(base_url=gateway.base_url, headers=gateway.headers(), trust_env=False) as client,
            client.stream("POST", CHAT, json=chat("x", stream=True), timeout=30) as answer,
        ):
            try:
                for _ in answer.iter_bytes():
                    with lock:
                        acknowledged.add(answer.headers["x-tidegate-request-id"])
            except httpx.TransportError:
                return

    threads = [threading.Thread(target=read, daemon=True) for _ in range(32)]
    try:
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) == 32, 20)
        gateway.kill()
        for thread in threads:
            thread.join(10)
        control.write_text("{}")
        again = start_gateway(tmp_path / "gw", private=slow.url)
        with again.client() as client:
            assert client.post(CHAT, json=chat("x")).status_code == 200
        again.stop()
    finally:
        gateway.stop()
        slow.stop()
    verified = tidegate(
        "audit", "verify", str(again.state.audit), "--trust", str(again.state.trust), "--json"
    )
    assert verified.returncode in {0, 1}, verified.stdout
    rows = reasons(again)
    ends = [row for row in rows if row[0] not in {"log", "admitted"}]
    assert rows.count(("admitted", "admitted")) == 33
    assert sorted(phase for phase, _ in ends) == ["abandoned"] * 32 + ["completed"], ends
    for request_id in acknowledged:
        shown = tidegate("audit", "show", request_id, "--dir", str(again.state.audit))
        assert '"admitted"' in shown.stdout


# -- client gone -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "stream"), [("silence", True), ("silence", False), ("endless-trickle", True)]
)
def test_when_the_client_leaves_the_upstream_sees_the_close_within_a_second(
    tmp_path: Path, mode: str, stream: bool
) -> None:
    log = tmp_path / "fault.jsonl"
    control = tmp_path / "control.json"
    control.write_text(json.dumps({"mode": mode}))
    slow = start_child(
        ["tests.fakes.fault_standin", "--port", "0", "--log", str(log), "--control", str(control)]
    )
    try:
        with running_gateway(tmp_path / "gw", private=slow.url) as gateway:
            port = int(gateway.base_url.rsplit(":", 1)[1])
            with socket.create_connection(("127.0.0.1", port)) as link:
                link.sendall(request_bytes(gateway, chat("x", stream=stream)))
                until(lambda: '"request"' in log.read_text() if log.exists() else False)
                if mode == "endless-trickle":
                    assert link.recv(64)
                left_at = time.monotonic()
            until(lambda: '"client-closed"' in log.read_text(), 3)
            [closed] = [
                entry
                for entry in map(json.loads, log.read_text().splitlines())
                if entry["event"] == "client-closed"
            ]
            assert closed["at_mono"] - left_at < 1.0
            until(lambda: "tidegate_web_in_flight_requests 0.0" in gateway.client().get("/metrics").text)
        assert ("aborted", "client-disconnected") in reasons(gateway)
    finally:
        slow.stop()


def test_a_client_that_never_reads_is_given_up_and_the_upstream_is_cancelled(tmp_path: Path) -> None:
    log = tmp_path / "fault.jsonl"
    control = tmp_path / "control.json"
    control.write_text('{"mode": "long-body"}')
    endless = start_child(
        ["tests.fakes.fault_standin", "--port", "0", "--log", str(log), "--control", str(control)]
    )
    try:
        with running_gateway(
            tmp_path / "gw", private=endless.url, server_extra="write_timeout_seconds = 2"
        ) as gateway:
            port = int(gateway.base_url.rsplit(":", 1)[1])
            with socket.create_connection(("127.0.0.1", port)) as link:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                link.sendall(request_bytes(gateway, chat("x", stream=True)))
                until(lambda: '"client-closed"' in log.read_text() if log.exists() else False, 15)
        assert ("aborted", "client-stalled") in reasons(gateway)
    finally:
        endless.stop()
