"""Clients that leave, a thousand times, in each window; and streams, until memory would show a leak."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.streams import measure, open_files, tasks
from tests.fakes.rig import Rig, chat, open_rig, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

HOME = "X-Tidegate-Label: restricted"
BATCH = 50
#: Windows in which a client leaves: fault of the upstream, stream, how often.
WINDOWS = (("silence", True, 7), ("endless-trickle", True, 7), ("silence", False, 6))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    limits = {
        "requests_per_minute: 600\n    tokens_per_minute: 600000\n    concurrency: 64": (
            f"requests_per_minute: 100000\n    tokens_per_minute: 1000000000\n    concurrency: {BATCH}"
        )
    }
    times = "first_byte_seconds = 120\nidle_seconds = 120"
    with open_rig(tmp_path, limits=limits, faulty=True, endpoint_extra=times) as rig:
        yield rig


class Log:
    """The failing upstream's log, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.entries: list[dict[str, Any]] = []

    def look(self) -> list[dict[str, Any]]:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        self.entries += [json.loads(line) for line in whole.splitlines()]
        return self.entries

    def count(self, event: str) -> int:
        return sum(entry["event"] == event for entry in self.look())


def test_a_thousand_clients_leave_and_nothing_stays_behind(rig: Rig) -> None:
    assert sum(times for _, _, times in WINDOWS) * BATCH == 1000
    assert rig.post(chat("warm"), HOME).status == 200
    pid = rig.gateway.process.pid
    until(lambda: rig.metrics()["tidegate_web_in_flight_requests"] == 0)
    files, running = open_files(pid), tasks(rig.gateway)
    log = Log(rig.fault_log)
    slowest = 0.0
    for mode, stream, times in WINDOWS:
        rig.fault(mode)
        request = rig.request(chat("hello", stream=stream), HOME)
        for _ in range(times):
            slowest = max(slowest, leave(rig, log, request, reads=mode != "silence"))
    rig.fault("ok")
    until(lambda: rig.metrics()["tidegate_web_in_flight_requests"] == 0, 60)
    # As many at a time are allowed as left in each batch: a lease that was kept would be a 429.
    assert rig.post(chat("after"), HOME).status == 200
    until(lambda: tasks(rig.gateway) <= running + 1, 30)
    until(lambda: open_files(pid) <= files + 4, 30)
    metrics = rig.metrics()
    assert metrics['tidegate_upstream_outstanding_tokens{destination="private-moe",replica="0"}'] == 0
    assert (
        metrics[
            'tidegate_upstream_breaker_open_state{destination="private-moe",model="reference-moe",replica="0"}'
        ]
        == 0
    )
    ends = [each["reason_code"] for each in rig.records() if each["phase"] == "aborted"]
    assert ends == ["client-disconnected"] * 1000
    print(f"slowest from a client's leaving to the upstream's: {slowest * 1000:.0f} ms")
    assert slowest < 1.0


def leave(rig: Rig, log: Log, request: bytes, *, reads: bool) -> float:
    """A batch of clients that ask, are heard upstream, and leave. Gives the slowest close in seconds."""
    heard, closed = log.count("request"), log.count("client-closed")
    links: list[socket.socket] = []
    for _ in range(BATCH):
        links.append(rig.connect(60))
        links[-1].sendall(request)
    until(lambda: log.count("request") == heard + BATCH, 60)
    if reads:
        for link in links:
            while b"tide" not in link.recv(65_536):
                pass
    left_at = time.monotonic()  # the clock of the upstream's log, one for all processes
    for link in links:
        link.close()
    until(lambda: log.count("client-closed") >= closed + BATCH, 60)
    until(lambda: rig.metrics()["tidegate_web_in_flight_requests"] == 0, 60)
    last: float = max(entry["at_mono"] for entry in log.entries if entry["event"] == "client-closed")
    return last - left_at


def test_memory_does_not_grow_with_streams(tmp_path: Path) -> None:
    """A short run of `python -m tests.bench.streams`, which does 20,000."""
    growth = measure(tmp_path, streams=3_000, connections=8, seconds=240)
    assert growth.errors == 0
    assert growth.streams >= 1_000
    assert growth.is_flat, growth
    assert growth.files[-1] <= growth.files[0] + 8
    assert growth.tasks[-1] <= growth.tasks[0] + 8
