"""The real private node for end-to-end tests: vLLM, two ranks, expert parallelism."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.hosted_standin import recorded_bytes
from tests.fakes.stack import GatewayProcess, running_gateway, start_child

ROOT = Path(__file__).parents[2]
NODE_PYTHON = ROOT / ".venv-node/bin/python"
START_SECONDS = 300.0
STOP_SECONDS = 60.0
#: What the end-to-end tests call restricted. No byte of it may reach the hosted stand-in, in any spelling.
RESTRICTED = {
    "iban": "DE89 3704 0044 0532 0130 00",
    "card": "4532 0151 1283 0366",
    "ssn": "536-22-8145",
}


@dataclass(frozen=True, slots=True)
class PrivateNode:
    """A node that counts as ready. `pid` is the launcher's, `child_pid` that of vLLM's process group."""

    base_url: str
    key: str = field(repr=False)
    model: str
    log_path: Path
    progress_path: Path
    pid: int
    child_pid: int
    ready_line: str

    @property
    def port(self) -> int:
        """The port on loopback."""
        return int(self.base_url.rsplit(":", 1)[1].removesuffix("/v1"))


@contextmanager
def start_private_node(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], PrivateNode]]:
    """A node of its own, ended on leaving by its own process id."""
    if not NODE_PYTHON.exists():
        pytest.fail("the private node's environment .venv-node is absent: run make install-node")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    key_file, log, progress = folder / "node.key", folder / "vllm.log", folder / "progress.log"
    command = [str(NODE_PYTHON), "-m", "private_node", "serve", "--profile", "cpu", "--port", str(port)]
    files = ["--key-file", str(key_file), "--log-file", str(log)]
    with progress.open("wb") as output:
        launcher = subprocess.Popen(
            [*command, *files, *options], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        ready = _wait_for_ready(launcher, progress)
        facts = dict(part.split("=", 1) for part in ready.split() if "=" in part)
        child = int(progress.read_text().partition("vLLM started, pid ")[2].partition(",")[0])
        key = key_file.read_text().strip()
        yield (
            launcher,
            PrivateNode(facts["base_url"], key, facts["model"], log, progress, launcher.pid, child, ready),
        )
    finally:
        if launcher.poll() is None:
            launcher.send_signal(signal.SIGTERM)
        try:
            launcher.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()
            raise


def _wait_for_ready(launcher: subprocess.Popen[bytes], progress: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for line in progress.read_text().splitlines():
            if line.startswith("private_node: ready base_url="):
                return line
        if launcher.poll() is not None:
            pytest.fail(f"the private node ended with code {launcher.returncode}:\n{progress.read_text()}")
        time.sleep(0.25)
    pytest.fail(f"the private node was not ready after {START_SECONDS:.0f} s:\n{progress.read_text()}")


@pytest.fixture(scope="session")
def private_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateNode]:
    """One node for the whole session; its model is built when absent (about 25 s more)."""
    folder = tmp_path_factory.mktemp("private-node")
    with start_private_node(folder) as (_, node):
        yield node


@pytest.fixture(scope="session")
def hosted_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the hosted stand-in keeps every byte of the session."""
    return tmp_path_factory.mktemp("hosted")


@pytest.fixture(scope="session")
def gateway(
    private_node: PrivateNode, hosted_record: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """One gateway for the whole session: the real node behind it, and a recording hosted stand-in.

    When it has ended, the recording of the whole session is searched for everything restricted.
    """
    hosted = start_child(["tests.fakes.hosted_standin", "--port", "0", "--record", str(hosted_record)])
    try:
        with running_gateway(
            tmp_path_factory.mktemp("gateway") / "state",
            hosted=hosted.url,
            private=private_node.base_url,
            private_credential=f"file:{private_node.log_path.with_name('node.key')}",
            limits_extra="timeout_ms = 10000",
        ) as running:
            yield running
    finally:
        hosted.stop()
    received = recorded_bytes(hosted_record)
    for kind, value in RESTRICTED.items():
        for spelling in {value, value.replace(" ", ""), value.replace("-", "")}:
            assert spelling.encode() not in received, f"a restricted {kind} reached the hosted stand-in"
