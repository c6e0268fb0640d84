"""Reload under load: two policies take turns in a ConfigMap-like volume while requests keep coming.

    python -m tests.bench.reload [--seconds 60] [--rate 200] [--every-ms 100]

One policy sends ordinary requests to the hosted place first, the other only to the private one. Every request
must be answered; every record must name one of the two digests, and its decision must be that policy's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from gateway.policy.bundle import load_bundle
from tests.fakes.stack import GatewayProcess, copy_policies, start_child, start_gateway

STANDIN = "tests.fakes.fast_standin"
POLL_SECONDS = 0.05
BOTH = ("hosted-openai", "private-moe")
ALONE = ("private-moe",)
#: Limits that the load must not meet.
_LIMITS = {
    "requests_per_minute: 600\n": "requests_per_minute: 900000\n",
    "tokens_per_minute: 600000\n": "tokens_per_minute: 900000000\n",
    "concurrency: 64\n": "concurrency: 4096\n",
}


@dataclass
class Outcome:
    """What happened. `wrong` are records whose decision is not that of the digest that they name."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    swaps: int = 0
    activations: int = 0
    rejections: int = 0
    admitted: int = 0
    by_digest: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0

    @property
    def failed(self) -> int:
        """Requests that got no 200."""
        return self.sent - self.statuses[200]


class Volume:
    """A volume as kubelet makes it: a folder for each revision, one link that is swapped, old ones gone."""

    def __init__(self, mount: Path, revisions: tuple[Path, Path]) -> None:
        self._mount = mount
        self._revisions = revisions
        self._count = 0
        mount.mkdir()

    def swap(self) -> None:
        """Publish the other revision."""
        source = self._revisions[self._count % 2]
        self._count += 1
        name = f"..2026_12_01_{self._count}"
        shutil.copytree(source, self._mount / name)
        data = self._mount / "..data"
        old = data.resolve() if data.is_symlink() else None
        draft = self._mount / "..data_tmp"
        draft.symlink_to(name)
        draft.replace(data)
        for path in source.iterdir():
            if not (self._mount / path.name).is_symlink():
                (self._mount / path.name).symlink_to(f"..data/{path.name}")
        if old is not None:
            shutil.rmtree(old)


def run(directory: Path, seconds: float, rate: int, every_seconds: float) -> Outcome:
    """The whole run, with its own gateway and stand-ins below `directory`."""
    revisions = (directory / "one", directory / "two")
    for path, places in zip(revisions, (BOTH, ALONE), strict=True):
        policies_of(path, places)
    digests = {
        load_bundle(path).sha256: places for path, places in zip(revisions, (BOTH, ALONE), strict=True)
    }
    volume = Volume(directory / "volume", revisions)
    volume.swap()
    hosted, private = start_child([STANDIN]), start_child([STANDIN])
    gateway: GatewayProcess | None = None
    try:
        gateway = start_gateway(
            directory / "gw",
            hosted=hosted.url,
            private=private.url,
            policies=directory / "volume",
            policy_extra=f"poll_seconds = {POLL_SECONDS}",
            # A busy machine's disk must not turn the reload that is tested here into a 503.
            audit_extra="deadline_ms = 20000",
        )
        outcome = asyncio.run(_load(gateway, volume, seconds, rate, every_seconds))
    finally:
        if gateway is not None:
            gateway.stop()
        hosted.stop()
        private.stop()
    _judge(gateway, digests, outcome)
    return outcome


def policies_of(path: Path, places: tuple[str, ...], revision: int | None = None) -> None:
    """A policy folder that sends ordinary requests to `places`, with limits that the load does not meet."""
    copy_policies(
        path, {"destinations: [hosted-openai, private-moe]": f"destinations: [{', '.join(places)}]"}
    )
    limits = (path / "limits.yaml").read_text("utf-8")
    for old, new in _LIMITS.items():
        assert old in limits, old
        limits = limits.replace(old, new, 1)
    (path / "limits.yaml").write_text(limits, "utf-8")
    if revision is not None:
        routing = (path / "routing.yaml").read_text("utf-8")
        (path / "routing.yaml").write_text(f"revision: {revision}\n{routing}", "utf-8")
    # The cases are about the policy with both places.
    shutil.rmtree(path / "cases")


async def _load(
    gateway: GatewayProcess, volume: Volume, seconds: float, rate: int, every_seconds: float
) -> Outcome:
    outcome = Outcome()
    headers = {"authorization": f"Bearer {gateway.token()}", "content-type": "application/json"}
    url = gateway.base_url + "/v1/chat/completions"
    started = time.monotonic()
    async with (
        aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.TaskGroup() as tasks,
    ):
        swapper = tasks.create_task(_swap(volume, every_seconds, outcome))
        for number in range(int(seconds * rate)):
            await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
            tasks.create_task(_ask(session, url, number, outcome))
        swapper.cancel()
    return outcome


async def _swap(volume: Volume, every_seconds: float, outcome: Outcome) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        await asyncio.to_thread(volume.swap)
        outcome.swaps += 1


async def _ask(session: aiohttp.ClientSession, url: str, number: int, outcome: Outcome) -> None:
    body = {"model": "assistant", "messages": [{"role": "user", "content": f"plain question {number}"}]}
    outcome.sent += 1
    begun = time.monotonic()
    try:
        async with session.post(url, data=json.dumps(body)) as answer:
            await answer.read()
            outcome.statuses[answer.status] += 1
    except aiohttp.ClientError as fault:
        outcome.faults[type(fault).__name__] += 1
    outcome.slowest_ms = max(outcome.slowest_ms, round((time.monotonic() - begun) * 1000, 1))


def _judge(gateway: GatewayProcess, digests: Mapping[str, tuple[str, ...]], outcome: Outcome) -> None:
    """Read the log back: every record against the digest that it names."""
    intents: dict[str, str] = {}
    for stored in stored_records(StoredLog(OsFiles(gateway.state.audit, ()))):
        record: dict[str, Any] = json.loads(stored)
        kind, request_id = record["event_type"], record["request_id"]
        outcome.activations += kind == "policy-activated"
        outcome.rejections += kind == "policy-rejected"
        if record["phase"] == "log":
            continue
        decision = record["decision"]
        digest = decision["policy"]["sha256"]
        expected = digests.get(digest)
        if expected is None or tuple(decision["route"]["destinations"]) != expected:
            outcome.wrong.append(request_id)
        if record["phase"] == "admitted":
            outcome.admitted += 1
            outcome.by_digest[digest[:12]] += 1
            intents[request_id] = digest
        elif intents.get(request_id) != digest or decision["route"]["destination"] != (expected or ("",))[0]:
            outcome.wrong.append(request_id)


def main() -> None:
    """Run and print; exit status 1 when anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--every-ms", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        outcome = run(Path(place), options.seconds, options.rate, options.every_ms / 1000)
    for name in Outcome.__dataclass_fields__:
        print(f"{name:12} {getattr(outcome, name)}")
    print(f"{'failed':12} {outcome.failed}")
    raise SystemExit(1 if outcome.failed or outcome.wrong else 0)


if __name__ == "__main__":
    main()
