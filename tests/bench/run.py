"""`make bench`: CPU of the gateway process per request, full protection on.

    python -m tests.bench.run [--quick] [--json bench-results.json]

The gateway runs on one core; the stand-in upstream and the load run on another. CPU is user and
system time of the gateway process and its threads, from the operating system, over requests served.
Full protection: token verification, classification of a new 1 KB message, policy, reserve and settle in
a real Valkey, durable intent and outcome, output filter. That it was on is checked afterwards: the audit
log must verify and hold two records for each request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench import stages
from tests.bench.load import Samples, closed_loop, paced
from tests.fakes.stack import GatewayProcess, copy_policies, start_child, start_gateway, tidegate

GATEWAY_CORE, LOAD_CORE = "0", "1"
PACKAGES = ("litestar", "uvicorn", "uvloop", "httptools", "httpx", "aiohttp", "msgspec", "hyperscan", "redis")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of all values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def generous_policies(directory: Path) -> Path:
    """The default pack with limits that a benchmark does not reach; the same checks run."""
    policies = copy_policies(directory / "policies")
    limits = policies / "limits.yaml"
    text = re.sub(
        r"(requests_per_minute|tokens_per_minute): \d+", r"\1: 1000000000", limits.read_text(encoding="utf-8")
    )
    limits.write_text(re.sub(r"concurrency: \d+", "concurrency: 100000", text), encoding="utf-8")
    return policies


def say(text: str) -> None:
    print(text, flush=True)


def measure(gateway: GatewayProcess, *, stream: bool, requests: int, connections: int) -> dict[str, float]:
    """Closed loop: CPU per request, latency and throughput."""
    port = int(gateway.base_url.rsplit(":", 1)[1])
    headers = f"Authorization: Bearer {gateway.token()}\r\n".encode()
    warm = asyncio.run(
        closed_loop(port, headers, stream=stream, connections=connections, requests=200, seconds=20)
    )
    assert warm.error_count == 0, "the warm-up had errors"
    before = cpu_seconds(gateway.process.pid)
    samples = asyncio.run(
        closed_loop(port, headers, stream=stream, connections=connections, requests=requests, seconds=60)
    )
    used = cpu_seconds(gateway.process.pid) - before
    assert samples.error_count == 0, f"{samples.error_count} requests failed"
    count = len(samples.total)
    return {
        "n": count,
        "connections": connections,
        "cpu_us_per_request": round(used / count * 1e6, 1),
        "p50_ms": round(quantile(samples.total, 0.5) * 1e3, 2),
        "p99_ms": round(quantile(samples.total, 0.99) * 1e3, 2),
        "requests_per_second": round(count / samples.wall_seconds, 1),
    }


def first_event(port: int, headers: bytes, requests: int) -> Samples:
    """Time to the first event of streams at 50 requests per second."""
    return asyncio.run(
        paced(port, headers, stream=True, per_second=50, requests=requests, on_tick=lambda: None)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU per request with full protection")
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    parser.add_argument("--json", type=Path, default=Path("bench-results.json"))
    options = parser.parse_args()
    share = 10 if options.quick else 1
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        results = run(Path(folder), share)
    options.json.write_text(json.dumps(results, indent=2) + "\n")
    say(f"written: {options.json}")
    return 0


def run(directory: Path, share: int) -> dict[str, Any]:
    say(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    upstream = start_child(["tests.fakes.fast_standin", "--port", "0"], pin=LOAD_CORE)
    gateway: GatewayProcess | None = None
    try:
        gateway = start_gateway(
            directory / "gateway",
            hosted=upstream.url,
            private=upstream.url,
            policies=generous_policies(directory),
            pin=GATEWAY_CORE,
        )
        plain = measure(gateway, stream=False, requests=10_000 // share, connections=16)
        say(line("plain", plain))
        stream = measure(gateway, stream=True, requests=3_000 // share, connections=16)
        headers = f"Authorization: Bearer {gateway.token()}\r\n".encode()
        through = first_event(int(gateway.base_url.rsplit(":", 1)[1]), headers, 500 // share)
        direct = first_event(upstream.port, b"", 500 // share)
        added = statistics.median(through.first) - statistics.median(direct.first)
        stream["added_ttft_ms_p50"] = round(added * 1e3, 2)
        say(line("stream64", stream))
        say(f"  added time to first event at 50 requests/s, p50: {stream['added_ttft_ms_p50']} ms")
        protection = check_protection(gateway)
    finally:
        if gateway is not None:
            gateway.stop()
        upstream.stop()
    by_stage = stages.run(
        directory / "stages", generous_policies(directory / "stages-policies"), 2000 // share
    )
    say("where the time goes, µs per plain request, each stage alone in a loop:")
    for name, figure in by_stage.items():
        say(f"  {name:<42}{figure:8.1f}")
    rest = plain["cpu_us_per_request"] - sum(by_stage.values())
    say(f"  {'HTTP server, routing, relay, sockets (rest)':<42}{rest:8.1f}")
    return {
        "plain": plain,
        "stream64": stream,
        "stages_us": by_stage,
        "protection": protection,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
    }


def line(name: str, figures: dict[str, float]) -> str:
    """One line for people."""
    return (
        f"{name}: {figures['cpu_us_per_request']} µs CPU per request, p50 {figures['p50_ms']} ms, "
        f"p99 {figures['p99_ms']} ms, {figures['requests_per_second']} requests/s "
        f"(n={figures['n']}, {figures['connections']} connections)"
    )


def check_protection(gateway: GatewayProcess) -> dict[str, Any]:
    """Stop the gateway and read its log: every request must have left its two records."""
    metrics = gateway.client().get("/metrics").text
    counted = re.search(
        r'requests_total\{destination="hosted-openai",phase="completed".*?\} ([\d.e+]+)', metrics
    )
    gateway.stop()
    verified = tidegate(
        "audit", "verify", str(gateway.state.audit), "--trust", str(gateway.state.trust), "--json"
    )
    if verified.returncode != 0 or counted is None:
        told = verified.stdout[-500:] + verified.stderr[-500:]
        sys.exit(f"protection was not on, or the log does not verify: {told}")
    say(f"audit log verified after the run; {float(counted[1]):.0f} requests completed and recorded")
    return {
        "token": "EdDSA, verified once and then by full digest",
        "classification": "built-in detectors, hyperscan, new text each time",
        "policy": "default pack",
        "limits": "reserve and settle in Valkey, three buckets",
        "audit": "admitted and completed durable, verified after the run",
        "output_filter": "default profile",
        "completed_requests": float(counted[1]),
    }


if __name__ == "__main__":
    sys.exit(main())
