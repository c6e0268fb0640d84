"""The server that the gateway starts for itself."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gateway.domain.limits import Reservation, TenantLimits
from gateway.domain.principal import Principal
from gateway.errors import ConfigurationError
from gateway.limits.embedded import EmbeddedValkey
from gateway.limits.redis_store import RedisLimiter
from gateway.settings import LimitSettings

pytestmark = pytest.mark.integration

CALLER = Principal("acme", "s", "s", "t", "i", "c", "k", frozenset(), frozenset(), 0)
LIMITS = TenantLimits(100, 10_000, 20)
SETTINGS = LimitSettings(timeout_ms=5_000)


def is_gone(pid: int) -> bool:
    """True when no such process runs; a zombie that waits for its parent counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


async def test_serves_a_limiter_and_leaves_no_process_and_no_folder() -> None:
    async with EmbeddedValkey() as valkey:
        pid, folder = valkey.pid, Path(valkey.url.removeprefix("unix://")).parent
        assert pid is not None
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        async with RedisLimiter(valkey.url, lambda tenant: LIMITS, SETTINGS) as limiter:
            answer = await limiter.reserve(CALLER, "a", 10, 10)
            assert isinstance(answer, Reservation)
            assert not answer.degraded
    assert is_gone(pid)
    assert not folder.exists()
    assert valkey.pid is None


async def test_does_not_get_the_terminals_interrupt() -> None:
    async with EmbeddedValkey() as valkey:
        assert valkey.pid is not None
        assert os.getsid(valkey.pid) == valkey.pid
        assert os.getsid(valkey.pid) != os.getsid(0)


async def test_killed_server_is_seen_and_can_be_started_again_on_the_same_socket() -> None:
    async with EmbeddedValkey() as valkey:
        url, pid = valkey.url, valkey.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while valkey.pid is not None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await valkey.start_server()
        assert valkey.url == url
        assert valkey.pid not in (None, pid)


async def test_server_that_cannot_start_says_why_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 120)))
    (tmp_path / ("x" * 120)).mkdir()
    with pytest.raises(ConfigurationError, match=r"ended at its start with status 1 \(.*\)\. Set limits"):
        await EmbeddedValkey().__aenter__()
    assert list((tmp_path / ("x" * 120)).iterdir()) == []


async def test_url_before_the_start_is_refused() -> None:
    with pytest.raises(RuntimeError, match="not started"):
        _ = EmbeddedValkey().url


def test_server_does_not_outlive_a_killed_gateway() -> None:
    program = (
        "import asyncio\n"
        "from gateway.limits.embedded import EmbeddedValkey\n"
        "async def main():\n"
        "    async with EmbeddedValkey() as valkey:\n"
        "        print(valkey.pid, valkey.url, flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        pid_text, url = gateway.stdout.readline().split()
        assert not is_gone(int(pid_text))
        gateway.kill()
        gateway.wait()
    deadline = time.monotonic() + 5
    while not is_gone(int(pid_text)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    folder = Path(url.removeprefix("unix://")).parent
    for leftover in folder.iterdir():
        leftover.unlink()
    folder.rmdir()
