"""`make soak-limits`: client processes against one tenant's limit, through gateways that are killed.

    python -m tests.soak_limits [--seconds 25] [--workers 64] [--gateways 3] [--kills 2]

Clients ask for plain answers and streams, leave 30 % of the streams early, and a tenth of the upstream's
answers fail. Gateways share a real Valkey and get kill -9; each killed one is started again. At the end, from
the audit logs, the stand-in's own meter and Valkey:

- granted: the most tokens that any 60 seconds hold, by the time of the grant; what was settled, or what was
  reserved where a kill left no end. Never above the limit.
- settled equals what the stand-in counted, to the token, wherever it said its usage.
- leaked: leases that are left after their time, and records that were told otherwise. None.

The last line is `soak-limits: granted G limit L leaked 0`; the exit status is 1 when a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from tests.bench.load import message
from tests.fakes.stack import copy_policies, start_again, start_child, start_gateway, wait_until_ready
from tests.fakes.valkey_server import ValkeyServer

LIMIT = 100_000
LEASE_SECONDS = 6
WINDOW_US = 60_000_000
LEAVE_SHARE = 0.3

#: Starting is most of the work of a short run; a machine that is shared takes its time.
READY_SECONDS = 400.0


@dataclass(frozen=True)
class Verdict:
    """What a run came to."""

    granted: int
    limit: int
    leaked: int
    wrong: int
    compared: int
    statuses: dict[str, int]

    @property
    def holds(self) -> bool:
        """Whether every claim holds, and there was something to claim."""
        return self.granted <= self.limit and not self.leaked and not self.wrong and self.compared > 0


def policies_in(directory: Path) -> Path:
    """The default pack; the tenant may use `LIMIT` tokens a minute, and requests do not bind."""
    policies = copy_policies(directory / "policies")
    path = policies / "limits.yaml"
    text = path.read_text("utf-8")
    head, tail = text.split("  demo:\n", 1)
    tail = re.sub(r"requests_per_minute: \d+", "requests_per_minute: 1000000", tail, count=1)
    tail = re.sub(r"tokens_per_minute: \d+", f"tokens_per_minute: {LIMIT}", tail, count=1)
    path.write_text(f"{head}  demo:\n{tail}", "utf-8")
    return policies


def work(ports: list[int], tokens: list[str], seed: int, until: float, counts: Any) -> None:
    """One client process: ask, read or leave, and wait a little when told that the limit is used up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chance = random.Random(seed)
    while time.monotonic() < until:
        number = chance.randrange(len(ports))
        status = ask(ports[number], tokens[number], chance)
        with counts.get_lock():
            counts[{200: 0, 429: 1}.get(status, 2)] += 1
        if status != 200:
            time.sleep(chance.uniform(0.05, 0.3))


def ask(port: int, token: str, chance: random.Random) -> int:
    """One request on a connection of its own; its status, 0 when there was none."""
    is_stream = chance.random() < 0.7
    body = {
        "model": "assistant",
        "messages": [{"role": "user", "content": message(chance.randint(40, 400), chance)}],
        "max_tokens": chance.choice((24, 64, 200)),
        "stream": is_stream,
    }
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n"
    )
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
            link.sendall(head.encode() + data)
            first = link.recv(65_536)
            found = re.match(rb"HTTP/1\.1 (\d{3})", first)
            status = int(found.group(1)) if found else 0
            if is_stream and status == 200 and chance.random() < LEAVE_SHARE:
                return status
            while link.recv(65_536):
                pass
            return status
    except OSError:
        return 0


class Cluster:
    """Gateways that share a Valkey and an upstream; each keeps its port and its audit log over a kill."""

    def __init__(self, directory: Path, valkey: ValkeyServer, upstream: str, count: int) -> None:
        self.directory = directory
        options: dict[str, Any] = {
            "hosted": upstream,
            "redis_url": valkey.url,
            "policies": policies_in(directory),
            "limits_extra": f"lease_seconds = {LEASE_SECONDS}\ntimeout_ms = 5000",
        }
        self.gateways = [
            start_gateway(directory / f"gateway-{number}", wait_ready=False, **options)
            for number in range(count)
        ]
        for gateway in self.gateways:
            wait_until_ready(gateway, READY_SECONDS)

    def kill(self, number: int) -> None:
        """kill -9, and start it again under the same settings."""
        old = self.gateways[number]
        old.kill()
        self.gateways[number] = start_again(old)

    def stop(self) -> None:
        """End all gateways in order."""
        for gateway in self.gateways:
            gateway.process.send_signal(signal.SIGTERM)
        for gateway in self.gateways:
            gateway.stop()

    def records(self) -> list[dict[str, Any]]:
        """Audit records of requests of all gateways."""
        return [
            json.loads(stored)
            for gateway in self.gateways
            for stored in stored_records(StoredLog(OsFiles(gateway.state.audit, ())))
        ]


def most_in_a_window(grants: list[tuple[int, int]]) -> int:
    """The most tokens in any 60 seconds; `grants` are (microseconds, tokens)."""
    ordered, most, total, first = sorted(grants), 0, 0, 0
    for at_us, tokens in ordered:
        total += tokens
        while ordered[first][0] <= at_us - WINDOW_US:
            total -= ordered[first][1]
            first += 1
        most = max(most, total)
    return most


def judge(records: list[dict[str, Any]], meter: Path, leases: int, statuses: dict[str, int]) -> Verdict:
    """The claims, from what is on disk."""
    metered = {line["id"]: line for line in map(json.loads, meter.read_text("utf-8").splitlines())}
    grants: dict[str, tuple[int, int]] = {}
    compared = wrong = 0
    for record in records:
        limits = record.get("decision", {}).get("limits")
        if limits is None or record["phase"] == "denied":
            continue
        if record["phase"] == "admitted":
            grants[record["request_id"]] = (_time_us(record), limits["reserved_tokens"])
            continue
        if limits.get("settled_tokens") is not None and record["request_id"] in grants:
            at_us, _ = grants[record["request_id"]]
            grants[record["request_id"]] = (at_us, limits["settled_tokens"])
        usage, told = record.get("result", {}).get("usage"), metered.get(_upstream_id(record))
        if usage is not None and usage.get("source") == "provider" and told is not None and told["is_told"]:
            compared += 1
            wrong += limits["settled_tokens"] != told["tokens"]
    return Verdict(most_in_a_window(list(grants.values())), LIMIT, leases, wrong, compared, statuses)


def _time_us(record: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(record["ts_utc"]).timestamp() * 1_000_000)


def _upstream_id(record: dict[str, Any]) -> str:
    return str(record.get("result", {}).get("upstream_request_id"))


def leases_left(valkey: ValkeyServer) -> int:
    """Leases that are still there when every one of them must be over."""
    client = valkey.client()
    deadline = time.monotonic() + LEASE_SECONDS + 2
    while (left := sum(client.zcard(key) for key in client.scan_iter("tg:*:c"))) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.1)
    return int(left)


def run(directory: Path, seconds: float, workers: int, gateways: int, kills: int) -> Verdict:
    """One run; everything it starts is ended."""
    valkey, meter = ValkeyServer(), directory / "meter.jsonl"
    meter.touch()
    upstream = start_child(("tests.fakes.metered_standin", "--meter", str(meter)))
    valkey.start()
    try:
        cluster = Cluster(directory, valkey, upstream.url, gateways)
        try:
            counts = load(cluster, seconds, workers, kills)
        finally:
            cluster.stop()
        return judge(cluster.records(), meter, leases_left(valkey), counts)
    finally:
        upstream.stop()
        valkey.remove()


def load(cluster: Cluster, seconds: float, workers: int, kills: int) -> dict[str, int]:
    """Clients for so many seconds, and gateways killed in the meantime; answers by kind."""
    fork = multiprocessing.get_context("fork")
    counts = fork.Array("q", 3)
    ports = [int(gateway.base_url.rsplit(":", 1)[1]) for gateway in cluster.gateways]
    tokens = [gateway.token() for gateway in cluster.gateways]
    began = time.monotonic()
    clients = [
        fork.Process(target=work, args=(ports, tokens, seed, began + seconds, counts))
        for seed in range(workers)
    ]
    for client in clients:
        client.start()
    for number in range(kills):
        time.sleep(max(0.0, began + seconds * (number + 1) / (2 * kills + 1) - time.monotonic()))
        cluster.kill(number)
    for client in clients:
        client.join()
    return {kind: int(counts[place]) for place, kind in enumerate(("answered", "refused", "failed"))}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--kills", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-soak-") as directory:
        verdict = run(Path(directory), given.seconds, given.workers, given.gateways, given.kills)
    print(f"requests: {verdict.statuses}")
    print(f"settled equals the meter: {verdict.compared - verdict.wrong} of {verdict.compared}")
    leaked = verdict.leaked + verdict.wrong
    print(f"soak-limits: granted {verdict.granted} limit {verdict.limit} leaked {leaked}", flush=True)
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
