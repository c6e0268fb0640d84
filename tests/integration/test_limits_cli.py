"""`tidegate limits` against a real Valkey and a real log."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.limits import limits
from gateway.domain.limits import Usage
from gateway.limits.rebuild import rebuild
from tests.fakes.stack import running_gateway, start_child
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration


def stored(phase: str, request_id: str, day: str = "2026-12-01", **numbers: object) -> bytes:
    return json.dumps(
        {
            "phase": phase,
            "request_id": request_id,
            "ts_utc": f"{day}T09:00:00.000000Z",
            "who": {"tenant": "demo", "actor": {"subject_ref": "ref", "client_id": "app"}},
            "decision": {
                "limits": {"reserved_tokens": 100, **numbers},
                "route": {"model_asked": "assistant"},
            },
        }
    ).encode()


def test_what_the_log_says_counts_ends_and_what_is_still_open() -> None:
    rebuilt = rebuild(
        [
            stored("admitted", "a", cost_usd_micros=50),
            stored("completed", "a", settled_tokens=30, cost_usd_micros=20),
            stored("admitted", "b", cost_usd_micros=7),
            stored("admitted", "c", "2026-11-30", cost_usd_micros=1_000),
            stored("admitted", "d", cost_usd_micros=9),
            stored("aborted", "d", settled_tokens=0),
            stored("admitted", "e", degraded=True, cost_usd_micros=5),
            b'{"phase":"log","request_id":"","ts_utc":"2026-12-01T09:00:00Z"}',
        ]
    )
    ends = {each.request_id: each.usage for each in rebuilt.ended()}
    assert ends == {"a": Usage(30, 0), "d": None}
    assert rebuilt.spent(date(2026, 12, 1))["demo", "key", "app"] == (27, 27)
    assert rebuilt.spent(date(2026, 12, 2))["demo", "tenant", ""] == (0, 27)


def run(*arguments: str) -> str:
    shown = CliRunner().invoke(limits, list(arguments))
    assert shown.exit_code == 0, shown.output
    return shown.output


def test_a_lost_settlement_is_made_from_the_log_and_seen(own_valkey: ValkeyServer, tmp_path: Path) -> None:
    upstream = start_child(("tests.fakes.fast_standin",))
    body = {"model": "assistant", "max_tokens": 900, "messages": [{"role": "user", "content": "tide"}]}
    try:
        with (
            running_gateway(tmp_path, hosted=upstream.url, redis_url=own_valkey.url) as gateway,
            gateway.client() as client,
        ):
            assert client.post("/v1/chat/completions", json=body).status_code == 200
            settings = str(gateway.state.settings)
    finally:
        upstream.stop()
    assert "requests 1  tokens 310  debt 0  held 0" in run("show", settings, "demo")
    redis = own_valkey.client()
    (record,) = redis.scan_iter("tg:{demo}:r:*")
    assert "settled: 0" in run("reconcile", settings, "--apply")
    redis.hdel(record, "s")
    assert "would be settled: 1" in run("reconcile", settings)
    assert redis.hget(record, "s") is None
    assert " settled: 1;" in run("reconcile", settings, "--apply")
    assert redis.hget(record, "s") == "1"
