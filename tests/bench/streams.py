"""Does a gateway grow with the streams that it has served?

    python -m tests.bench.streams [--streams 20000] [--connections 16] [--seconds 300]

A gateway process with full protection relays streams of 64 chunks from a stand-in. Its resident memory, its
open files and its tasks are read after each twentieth of the streams. Memory is flat when the second half of
the run adds less than 2 % and 4 MB to the first: caches (verdicts, tokens) fill in the first.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.bench.load import closed_loop
from tests.bench.run import generous_policies
from tests.fakes.stack import GatewayProcess, start_child, start_gateway

STEPS = 20


@dataclass
class Growth:
    """What was read after each step: resident bytes, open files, tasks."""

    resident_bytes: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    streams: int = 0
    errors: int = 0
    seconds: float = 0.0

    @property
    def is_flat(self) -> bool:
        """Whether the second half added next to nothing."""
        half = max(self.resident_bytes[: len(self.resident_bytes) // 2])
        return max(self.resident_bytes) <= half * 1.02 + 4 * 1024 * 1024


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def open_files(pid: int) -> int:
    """Open files and sockets of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def tasks(gateway: GatewayProcess) -> int:
    """Tasks of its event loop, by its own metric."""
    text = httpx.get(gateway.base_url + "/metrics", trust_env=False, timeout=60).text
    return int(float(text.split("\ntidegate_web_running_tasks ")[1].split("\n", 1)[0]))


def measure(directory: Path, streams: int, connections: int, seconds: float) -> Growth:
    """Serve so many streams, at most for so long."""
    upstream = start_child(["tests.fakes.fast_standin", "--port", "0"])
    policies = generous_policies(directory)
    gateway = start_gateway(
        directory / "gw",
        hosted=upstream.url,
        private=upstream.url,
        policies=policies,
        audit_extra="deadline_ms = 10000",
    )
    growth = Growth()
    started = time.monotonic()
    try:
        port = int(gateway.base_url.rsplit(":", 1)[1])
        headers = f"Authorization: Bearer {gateway.token(ttl=7200)}\r\n".encode()
        for _ in range(STEPS):
            left = seconds - (time.monotonic() - started)
            if left <= 0:
                break
            samples = asyncio.run(
                closed_loop(
                    port,
                    headers,
                    stream=True,
                    connections=connections,
                    requests=streams // STEPS,
                    seconds=left,
                )
            )
            growth.streams += len(samples.total)
            growth.errors += samples.error_count
            growth.resident_bytes.append(resident_bytes(gateway.process.pid))
            growth.files.append(open_files(gateway.process.pid))
            growth.tasks.append(tasks(gateway))
    finally:
        gateway.stop()
        upstream.stop()
    growth.seconds = time.monotonic() - started
    return growth


def main() -> int:
    """Command line; the exit status says whether memory stayed flat."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-streams-") as folder:
        growth = measure(Path(folder), given.streams, given.connections, given.seconds)
    megabytes = [round(each / 1024 / 1024, 1) for each in growth.resident_bytes]
    print(f"resident MB after each step: {megabytes}")
    print(f"open files: {growth.files}; tasks: {growth.tasks}")
    print(
        f"soak-streams: {growth.streams} streams in {growth.seconds:.0f} s, {growth.errors} errors, "
        f"memory {'flat' if growth.is_flat else 'GROWS'}"
    )
    return 0 if growth.is_flat and not growth.errors else 1


if __name__ == "__main__":
    sys.exit(main())
