"""Approvals while time passes, while Redis is down, and over a restart of the gateway."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.approvals.store import OPEN_MAX, RedisApprovals
from gateway.domain.approval import ApprovalAsk, ApprovalState
from gateway.domain.limits import TenantLimits
from gateway.errors import ApprovalRequired, ApprovalsUnavailable
from gateway.limits.redis_store import RedisLimiter
from gateway.settings import LimitSettings
from tests.fakes.rig import chat, open_rig, until
from tests.fakes.stack import ROOT, GatewayProcess, wait_until_ready
from tests.fakes.valkey_server import ValkeyServer
from tests.integration.test_approvals import RULE, ask, asked, code, desk, granted

pytestmark = pytest.mark.integration

NONCES = (f"{number:016x}" for number in range(10_000))
ASK = ApprovalAsk(
    tenant="a}b{c",
    subject_ref="s",
    request_hmac="r",
    policy_sha256="p",
    destinations=("private/moe",),
    level="internal",
    tags=(),
    role="approver",
    rule_ids=("rule",),
    model="assistant",
    client_id="",
    request_id="req_1",
)


def start_again(gateway: GatewayProcess) -> None:
    """The gateway with the settings and the port that it had."""
    command = [sys.executable, "-m", "gateway.cli", "serve", str(gateway.state.settings)]
    environ = {**os.environ, "TIDEGATE_TEST_HOSTED_KEY": "hosted-key-of-the-tests"}
    with gateway.log_path.open("ab") as log:
        gateway.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environ)
    wait_until_ready(gateway)


@pytest.fixture
async def limiter(own_valkey: ValkeyServer) -> AsyncIterator[RedisLimiter]:
    limits = TenantLimits(100, 10_000, 20)
    async with RedisLimiter(own_valkey.url, lambda tenant: limits, LimitSettings()) as limiter:
        yield limiter


def store_on(limiter: RedisLimiter, wait_seconds: int = 60, use_seconds: int = 60) -> RedisApprovals:
    return RedisApprovals(
        limiter.run_script,
        lambda: next(NONCES),
        lambda data: hashlib.sha256(data).hexdigest(),
        wait_seconds,
        use_seconds,
    )


async def test_a_decision_that_comes_too_late_does_nothing(limiter: RedisLimiter) -> None:
    approval = await store_on(limiter, wait_seconds=0).ask(ASK)
    store = store_on(limiter)
    assert not await store.move(approval, ApprovalState.APPROVED, "boss")
    with pytest.raises(ApprovalRequired, match="expired") as caught:
        await store.use(approval.id, ASK)
    assert caught.value.code == "approval-expired"
    assert (await store.ask(ASK)).id != approval.id


async def test_an_approval_that_is_not_used_in_time_is_over(limiter: RedisLimiter) -> None:
    store = store_on(limiter, use_seconds=0)
    approval = await store.ask(ASK)
    assert await store.move(approval, ApprovalState.APPROVED, "boss")
    with pytest.raises(ApprovalRequired) as caught:
        await store.use(approval.id, ASK)
    assert caught.value.code == "approval-expired"
    assert await store.open_ones(ASK.tenant) == ()


async def test_only_the_first_of_two_decisions_counts(limiter: RedisLimiter) -> None:
    store = store_on(limiter)
    approval = await store.ask(ASK)
    assert await store.move(approval, ApprovalState.DENIED, "boss")
    assert not await store.move(approval, ApprovalState.APPROVED, "other")
    found = await store.find(ASK.tenant, approval.id)
    assert found is not None
    assert (found[0].state, found[0].approver_ref) == (ApprovalState.DENIED, "boss")


async def test_keys_stay_in_the_slot_of_the_tenant_and_hold_no_name(
    limiter: RedisLimiter, own_valkey: ValkeyServer
) -> None:
    await store_on(limiter).ask(ASK)
    with own_valkey.client() as client:
        keys = client.keys("tg:{*}:a*")
        assert len(keys) == 2
        assert len({key.split("}")[0] for key in keys}) == 1
        assert not any("a}b{c" in key for key in keys)
        assert all(client.pttl(key) > 0 for key in keys)


async def test_the_open_ones_of_a_tenant_are_bounded(limiter: RedisLimiter, own_valkey: ValkeyServer) -> None:
    store = store_on(limiter)
    first = await store.ask(ASK)
    with own_valkey.client() as client:
        [index] = [key for key in client.keys("tg:{*}:a") if client.type(key) == "zset"]
        end = client.zscore(index, first.id)
        client.zadd(index, {f"apr_{number:048x}": end for number in range(OPEN_MAX - 1)})
    with pytest.raises(ApprovalsUnavailable) as caught:
        await store.ask(replace(ASK, request_hmac="another"))
    assert caught.value.code == "too-many-approvals"
    assert (await store.ask(ASK)).id == first.id


async def test_what_cannot_be_read_allows_nothing(limiter: RedisLimiter, own_valkey: ValkeyServer) -> None:
    store = store_on(limiter)
    approval = await store.ask(ASK)
    with own_valkey.client() as client:
        [key] = client.keys("tg:{*}:a:*")
        client.hset(key, "facts", "{}")
        client.hset(key, "state", "approved")
    with pytest.raises(ApprovalsUnavailable):
        await store.use(approval.id, ASK)


def test_without_redis_nothing_leaves_and_after_a_restart_the_approval_still_holds(
    tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    body = chat("over a restart")
    with open_rig(tmp_path, routing={"rules:\n": RULE}, redis_url=own_valkey.url) as rig:
        approval = granted(rig.gateway, body)
        waiting = asked(rig.gateway, chat("decided after a restart"))
        rig.gateway.kill()
        start_again(rig.gateway)

        own_valkey.pause()
        with rig.watch() as seen:
            for id_ in (approval, ""):
                answer = ask(rig.gateway, body, id_)
                assert (answer.status_code, code(answer)) == (503, "approvals-unavailable")
            assert desk(rig.gateway, "POST", f"/{waiting}/approve").status_code == 503
        assert seen.upstream_bytes == b""
        own_valkey.resume()

        until(lambda: desk(rig.gateway, "GET").status_code == 200)
        assert desk(rig.gateway, "GET", f"/{waiting}").json()["state"] == "pending"
        assert desk(rig.gateway, "POST", f"/{waiting}/approve").json()["state"] == "approved"
        assert ask(rig.gateway, body, approval).status_code == 200
        assert code(ask(rig.gateway, body, approval)) == "approval-used"
        assert desk(rig.gateway, "GET", f"/{waiting}", tenant="acme").status_code == 404
