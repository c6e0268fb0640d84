"""The admin API over the life of a process: off, on a Unix socket, over restarts, under load."""

from __future__ import annotations

import asyncio
import stat
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from gateway.cli.local import LocalState
from tests.bench.reload import ALONE, BOTH, policies_of
from tests.fakes.admin import AdminClient, AdminStack, admin_settings, revised, running_admin, upload_of
from tests.fakes.stack import running_gateway, start_child, tidegate

pytestmark = pytest.mark.integration
RATE = 50
SECONDS = 5
EVERY_SECONDS = 0.1


def test_what_an_administrator_activated_acts_after_a_restart_too(tmp_path: Path) -> None:
    options = {"policy_extra": "poll_seconds = 3600.0"}
    with running_admin(tmp_path / "gw", **options) as stack:
        olga = stack.client("administrator")
        first = olga.active()
        folder = revised(stack.folder, tmp_path / "next", 5)
        sha256 = olga.change("/policy/bundles", upload_of(folder), match="").json()["name"]["sha256"]
        once = stack.client("administrator", scopes=("one-time",), token_id="jti-7")
        assert once.change("/policy/activate", {"sha256": sha256}, key="only-this-once").status_code == 200
        spent = once.token
    with running_admin(tmp_path / "gw", **options) as stack:
        olga = stack.client("administrator")
        assert olga.active() == sha256
        again = AdminClient(stack.url, spent).change("/policy/activate", {"sha256": sha256})
        assert (again.status_code, again.json()["code"]) == (409, "token-spent")
        back = olga.change("/policy/rollback", {"to_revision": 0, "reason": "back to the first one"})
        assert (back.status_code, olga.active()) == (200, first), back.text
    # The folder changes while the process is away: then its newer word counts.
    routing = stack.folder / "routing.yaml"
    routing.write_text("revision: 9\n" + routing.read_text("utf-8"), "utf-8")
    with running_admin(tmp_path / "gw", **options) as stack:
        assert stack.client("auditor").get("/policy").json()["active"]["revision"] == 9


def test_a_socket_of_its_own_is_open_to_its_owner_only(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir(mode=0o700)
    text = admin_settings(LocalState(tmp_path / "gw"), f"unix:{place}/admin.sock", ("demo",))
    with running_gateway(tmp_path / "gw", private="http://127.0.0.1:9/v1", extra=text) as gateway:
        assert stat.S_IMODE((place / "admin.sock").stat().st_mode) == 0o600
        token = tmp_path / "token"
        token.write_text(AdminStack(gateway, "", tmp_path).token("auditor"), "utf-8")
        told = tidegate("admin", "--url", f"unix:{place}/admin.sock", "--token", f"file:{token}", "status")
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith("active     default 1.0.0 revision 0")


def test_a_caller_above_the_rate_is_429_and_others_are_not(tmp_path: Path) -> None:
    with running_admin(tmp_path / "gw", admin_extra="calls_per_minute = 3") as stack:
        olga, omar = stack.client("auditor"), stack.client("auditor", subject="omar")
        statuses = Counter(olga.get("/version").status_code for _ in range(12))
        assert statuses[429] >= 5
        reply = next(reply for _ in range(12) if (reply := olga.get("/version")).status_code == 429)
        assert reply.json()["code"] == "admin-rate-limited"
        assert int(reply.headers["retry-after"]) >= 1
        assert omar.get("/version").status_code == 200


def test_a_policy_that_changes_ten_times_a_second_over_the_api_loses_no_request(tmp_path: Path) -> None:
    """Two policies take turns by activation and rollback while requests keep coming."""
    hosted, private = start_child(["tests.fakes.fast_standin"]), start_child(["tests.fakes.fast_standin"])
    folders = {1: tmp_path / "one", 2: tmp_path / "two"}
    policies_of(folders[1], BOTH, revision=1)
    policies_of(folders[2], ALONE, revision=2)
    options: dict[str, Any] = {
        "admin_extra": "calls_per_minute = 1000000",
        "policies": folders[1],
        "policy_extra": "poll_seconds = 3600.0",
        "audit_extra": "deadline_ms = 20000",
        "hosted": hosted.url,
        "private": private.url,
    }
    try:
        with running_admin(tmp_path / "gw", **options) as stack:
            olga = stack.client("administrator")
            stored = olga.change("/policy/bundles", upload_of(folders[2]), match="")
            assert stored.status_code == 201, stored.text
            sha256 = stored.json()["name"]["sha256"]
            statuses, changes = asyncio.run(_load(stack, olga, sha256))
    finally:
        hosted.stop()
        private.stop()
    assert statuses == Counter({200: RATE * SECONDS})
    assert set(changes) == {200}
    assert changes[200] > 5


async def _load(stack: AdminStack, olga: AdminClient, sha256: str) -> tuple[Counter[int], Counter[int]]:
    statuses: Counter[int] = Counter()
    changes: Counter[int] = Counter()
    headers = {"authorization": f"Bearer {stack.gateway.token()}", "content-type": "application/json"}
    url = stack.gateway.base_url + "/v1/chat/completions"

    async def ask(session: aiohttp.ClientSession, number: int) -> None:
        body = {"model": "assistant", "messages": [{"role": "user", "content": f"plain question {number}"}]}
        async with session.post(url, json=body) as answer:
            await answer.read()
            statuses[answer.status] += 1

    async def change() -> None:
        digest, newer = await asyncio.to_thread(olga.active), False
        while True:
            newer = not newer
            path, body = (
                ("/policy/activate", {"sha256": sha256})
                if newer
                else ("/policy/rollback", {"to_revision": 1, "reason": "a turn of the test"})
            )
            reply: httpx.Response = await asyncio.to_thread(olga.change, path, body, match=digest)
            changes[reply.status_code] += 1
            digest = reply.json()["active"]["sha256"] if reply.status_code == 200 else digest
            await asyncio.sleep(EVERY_SECONDS)

    started = time.monotonic()
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(headers=headers, connector=connector) as session,
        asyncio.TaskGroup() as tasks,
    ):
        changer = tasks.create_task(change())
        for number in range(RATE * SECONDS):
            await asyncio.sleep(max(0.0, started + number / RATE - time.monotonic()))
            tasks.create_task(ask(session, number))
        changer.cancel()
    return statuses, changes
