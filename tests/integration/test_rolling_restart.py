"""What running answers get when the process is told to stop: time, then an error; and never a lost record."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fakes.rig import Rig, chat, open_rig, until
from tests.fakes.stack import GatewayProcess, copy_policies, start_child, start_gateway

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PRIVATE = {"x-tidegate-label": "restricted"}


class Stream(threading.Thread):
    """A client that reads one streamed answer to its end."""

    def __init__(self, gateway: GatewayProcess) -> None:
        super().__init__(daemon=True)
        self.url = gateway.base_url + "/v1/chat/completions"
        self.headers = gateway.headers(**PRIVATE)
        self.text = ""
        self.status = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            body = chat("hello", stream=True)
            with (
                httpx.Client(trust_env=False, timeout=60) as client,
                client.stream("POST", self.url, json=body, headers=self.headers) as answer,
            ):
                self.status = answer.status_code
                for piece in answer.iter_text():
                    self.text += piece
        except Exception as error:
            self.error = error

    @property
    def is_whole(self) -> bool:
        return self.error is None and self.text.endswith("data: [DONE]\n\n")

    def last_event(self) -> dict[str, object]:
        data = self.text.rstrip("\n").rsplit("\n\n", 1)[-1]
        found: dict[str, object] = json.loads(data.removeprefix("data: "))
        return found


def ends(rig: Rig) -> list[tuple[str, str]]:
    return [(each["phase"], each["reason_code"]) for each in rig.records() if each["phase"] != "admitted"]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_rig(tmp_path, faulty=True, server_extra="leave_seconds = 4\ndrain_seconds = 10") as rig:
        yield rig


def test_a_stop_leaves_rotation_then_drains_then_says_so(rig: Rig) -> None:
    rig.fault("endless-trickle")
    endless = Stream(rig.gateway)
    endless.start()
    until(lambda: "tide" in endless.text, 30)
    rig.fault("late-done", delay_ms=6000)
    slow = Stream(rig.gateway)
    slow.start()
    until(lambda: rig.metrics()["tidegate_web_in_flight_requests"] == 2, 30)
    rig.gateway.process.send_signal(signal.SIGTERM)
    ready = rig.gateway.base_url + "/ready"
    until(lambda: httpx.get(ready, trust_env=False).status_code == 503, 30)
    rig.fault("ok")
    late = Stream(rig.gateway)
    late.start()
    late.join(60)
    assert late.is_whole, "what still comes while the load balancer looks is served"
    endless.join(60)
    slow.join(60)
    assert rig.gateway.process.wait(60) == 0
    assert slow.is_whole
    assert endless.error is None, "the stream ends in order, with an error event"
    error = endless.last_event()["error"]
    assert isinstance(error, dict)
    assert error["code"] == "gateway-shutdown"
    assert "[DONE]" not in endless.text
    assert sorted(ends(rig)) == [
        ("aborted", "gateway-shutdown"),
        ("completed", "completed"),
        ("completed", "completed"),
    ]


def test_a_second_signal_ends_answers_at_once_and_loses_no_record(tmp_path: Path) -> None:
    with open_rig(tmp_path, faulty=True, server_extra="drain_seconds = 600") as rig:
        rig.fault("endless-trickle")
        streams = [Stream(rig.gateway) for _ in range(8)]
        for each in streams:
            each.start()
        until(lambda: all("tide" in each.text for each in streams), 60)
        rig.fault("silence")
        waiting = Stream(rig.gateway)
        waiting.start()
        until(lambda: rig.metrics()["tidegate_web_in_flight_requests"] == 9, 30)
        process = rig.gateway.process
        for _ in range(5):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        assert process.wait(60) == 0
        for each in [*streams, waiting]:
            each.join(30)
            assert each.error is None
        assert waiting.status == 503
        assert ends(rig) == [("aborted", "gateway-shutdown")] * 9
        settled = [each for each in rig.records() if each["phase"] == "aborted"]
        assert all(each["result"]["status"] == 503 for each in settled)
        found = rig.gateway.tidegate("audit", "verify", str(rig.gateway.state.audit))
        assert "abandoned" not in found.stdout


def test_a_rolling_restart_drops_no_stream(tmp_path: Path) -> None:
    """Two processes behind a load balancer that looks at /ready; each is restarted while streams run."""
    upstream = start_child(
        [
            "tests.fakes.fault_standin",
            "--port=0",
            f"--log={tmp_path / 'log'}",
            f"--control={tmp_path / 'control'}",
        ]
    )
    (tmp_path / "control").write_text(json.dumps({"mode": "trickle", "delay_ms": 1}))
    policies = copy_policies(tmp_path / "policies")
    limits = policies / "limits.yaml"
    limits.write_text(limits.read_text().replace("concurrency: 64", "concurrency: 4096"))

    def start(name: str) -> GatewayProcess:
        extra = "leave_seconds = 3\ndrain_seconds = 60"
        return start_gateway(
            tmp_path / name,
            private=upstream.url,
            policies=policies,
            server_extra=extra,
            audit_extra="deadline_ms = 10000",
        )

    members = {name: start(name) for name in ("one", "two")}
    finished: list[Stream] = []
    is_over = threading.Event()

    def is_ready(gateway: GatewayProcess) -> bool:
        try:
            return httpx.get(gateway.base_url + "/ready", trust_env=False, timeout=20).status_code == 200
        except httpx.TransportError:
            return False

    def load() -> None:
        while not is_over.is_set():
            ready = [each for each in list(members.values()) if is_ready(each)]
            if ready:
                stream = Stream(ready[len(finished) % len(ready)])
                stream.run()
                finished.append(stream)

    clients = [threading.Thread(target=load, daemon=True) for _ in range(3)]
    try:
        for each in clients:
            each.start()
        for name in ("one", "two"):
            count = len(finished)
            until(lambda count=count: len(finished) > count, 60)  # type: ignore[misc]
            old = members[name]
            old.process.send_signal(signal.SIGTERM)
            assert old.process.wait(90) == 0
            members[name] = start(name)
        count = len(finished)
        until(lambda: len(finished) > count + 3, 60)
    finally:
        is_over.set()
        for each in clients:
            each.join(60)
        for gateway in members.values():
            gateway.stop()
        upstream.stop()
    dropped = [(each.status, each.error, each.text[-200:]) for each in finished if not each.is_whole]
    assert dropped == []
    assert len(finished) >= 6
