"""A real gateway process (and stand-ins) for tests, smoke and benchmarks: started, asked, ended by pid."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from gateway.cli.local import LocalEndpoint, LocalState, prepare, settings_text
from gateway.cli.token import DEFAULT_AUDIENCE, DEFAULT_ISSUER, read_private_key
from gateway.identity.minting import Grant, mint_token

ROOT = Path(__file__).resolve().parents[2]
POLICIES = ROOT / "policies"


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def copy_policies(target: Path, replace: Mapping[str, str] | None = None) -> Path:
    """The default pack with the hosted destination bound to loopback; `replace` edits routing.yaml."""
    shutil.copytree(POLICIES, target)
    routing = target / "routing.yaml"
    text = routing.read_text(encoding="utf-8")
    text = text.replace("hosts: [api.openai.com]", "hosts: [127.0.0.1]")
    for old, new in (replace or {}).items():
        assert old in text, f"routing.yaml has no {old!r}"
        text = text.replace(old, new)
    routing.write_text(text, encoding="utf-8")
    return target


@dataclass
class Child:
    """A child process that says `listening on PORT` first, such as the stand-ins of tests/fakes."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        """Base URL of an OpenAI-compatible server."""
        return f"http://127.0.0.1:{self.port}/v1"

    def stop(self) -> None:
        """End it by pid."""
        end(self.process)


def end(process: subprocess.Popen[bytes], seconds: float = 15.0) -> int:
    """SIGTERM, then SIGKILL; the exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
    return process.returncode


def start_child(arguments: Sequence[str], pin: str | None = None) -> Child:
    """Start `python -m …` and wait for its port."""
    command = [sys.executable, "-m", *arguments]
    if pin is not None:
        command = ["taskset", "-c", pin, *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    match = re.search(r"listening on (\d+)", line)
    if match is None:
        end(process)
        raise AssertionError(f"{arguments[0]} did not start: {line!r}")
    return Child(process, int(match.group(1)))


@dataclass
class GatewayProcess:
    """A running `tidegate serve`."""

    process: subprocess.Popen[bytes]
    base_url: str
    state: LocalState
    log_path: Path
    policies: Path

    def token(
        self,
        tenant: str = "demo",
        subject: str = "alice",
        roles: tuple[str, ...] = ("user",),
        ttl: int = 3600,
    ) -> str:
        """A valid development token."""
        grant = Grant(DEFAULT_ISSUER, DEFAULT_AUDIENCE, tenant, subject, int(time.time()), ttl, roles)
        return mint_token(read_private_key(self.state.private_key), grant)

    def headers(self, tenant: str = "demo", **extra: str) -> dict[str, str]:
        """Request headers with a token."""
        return {"authorization": f"Bearer {self.token(tenant)}", **extra}

    def client(self, tenant: str = "demo", timeout: float = 30.0) -> httpx.Client:
        """A plain HTTP client with a token."""
        return httpx.Client(
            base_url=self.base_url, headers=self.headers(tenant), timeout=timeout, trust_env=False
        )

    def log_text(self) -> str:
        """Everything that the process logged."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> int:
        """SIGTERM and wait."""
        return end(self.process, 60)

    def kill(self) -> None:
        """kill -9, as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def tidegate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return tidegate(*arguments)


def tidegate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `tidegate` with these arguments, capturing its output."""
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def start_gateway(
    directory: Path,
    *,
    hosted: str | None = None,
    private: str | None = None,
    private_credential: str = "",
    policies: Path | None = None,
    extra: str = "",
    endpoint_extra: str = "",
    redis_url: str = "",
    server_extra: str = "",
    audit_extra: str = "",
    limits_extra: str = "",
    policy_extra: str = "",
    small_segments: bool = False,
    obey_file_modes: bool = False,
    environ: Mapping[str, str] | None = None,
    pin: str | None = None,
    wait_ready: bool = True,
) -> GatewayProcess:
    """Start a gateway with its state in `directory` (kept from an earlier start, if there was one).

    `extra` is TOML for the end of the settings; `endpoint_extra` for each destination's section,
    `server_extra`, `audit_extra`, `limits_extra` and `policy_extra` for those sections. The audit log
    may take 10 s for a record unless `audit_extra` says otherwise: tests share their disk with builds.
    `obey_file_modes`: even root is bound by permission bits.
    """
    state = LocalState(directory)
    prepare(state)
    if policies is None:
        policies = directory / "policies"
        if not policies.exists():
            copy_policies(policies)
    places: dict[str, LocalEndpoint] = {}
    if private is not None:
        places["private-moe"] = LocalEndpoint(private, private_credential)
    if hosted is not None:
        places["hosted-openai"] = LocalEndpoint(hosted, "env:TIDEGATE_TEST_HOSTED_KEY")
    port = free_port()
    text = settings_text(
        state, host="127.0.0.1", port=port, policies=policies, destinations=places, redis_url=redis_url
    )
    if endpoint_extra:
        text = re.sub(r"(\[destinations\.[^\]]+\]\n)", r"\1" + endpoint_extra + "\n", text)
    text = text.replace("[server]\n", f"[server]\n{server_extra}\n")
    text = text.replace(
        "deadline_ms = 2000\n", "" if "deadline_ms" in audit_extra else "deadline_ms = 10000\n"
    )
    text = text.replace("[audit]\n", f"[audit]\n{audit_extra}\n")
    text = text.replace("[limits]\n", f"[limits]\n{limits_extra}\n")
    text = text.replace("[policy]\n", f"[policy]\n{policy_extra}\n")
    if small_segments:
        text = text.replace("[audit]\n", "[audit]\nsegment_bytes = 262144\n")
    state.settings.write_text(text + extra, encoding="utf-8")
    log_path = directory / "gateway.log"
    command = [sys.executable, "-m", "gateway.cli", "serve", str(state.settings)]
    if pin is not None:
        command = ["taskset", "-c", pin, *command]
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env={**os.environ, "TIDEGATE_TEST_HOSTED_KEY": "hosted-key-of-the-tests", **(environ or {})},
            preexec_fn=_obey_file_modes if obey_file_modes else None,  # noqa: PLW1509
        )
    gateway = GatewayProcess(process, f"http://127.0.0.1:{port}", state, log_path, policies)
    if wait_ready:
        try:
            wait_until_ready(gateway)
        except BaseException:
            gateway.stop()
            raise
    return gateway


def start_again(gateway: GatewayProcess) -> GatewayProcess:
    """A gateway that has ended, with the same settings, port and state; not yet ready."""
    with gateway.log_path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", "serve", str(gateway.state.settings)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env={**os.environ, "TIDEGATE_TEST_HOSTED_KEY": "hosted-key-of-the-tests"},
        )
    return replace(gateway, process=process)


def _obey_file_modes() -> None:
    """Drop CAP_DAC_OVERRIDE (1) from the bounding set, so that root loses it at exec."""
    if os.geteuid() == 0:
        ctypes.CDLL(None, use_errno=True).prctl(24, 1, 0, 0, 0)


def wait_until_ready(gateway: GatewayProcess, seconds: float = 120.0) -> None:
    """Wait for `/ready`; raises `AssertionError` with the log when it does not come."""
    deadline = time.monotonic() + seconds
    with httpx.Client(trust_env=False, timeout=2.0) as client:
        while time.monotonic() < deadline:
            if gateway.process.poll() is not None:
                break
            try:
                if client.get(gateway.base_url + "/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
    raise AssertionError(f"the gateway is not ready:\n{gateway.log_text()[-3000:]}")


@contextmanager
def running_gateway(directory: Path, **options: object) -> Iterator[GatewayProcess]:
    """`start_gateway`, ended at exit."""
    gateway = start_gateway(directory, **options)  # type: ignore[arg-type]
    try:
        yield gateway
    finally:
        gateway.stop()
