"""`tidegate up`: everything on one machine, for a first look: node, Valkey, gateway.

It starts the private node in its own environment, then the gateway (which starts an embedded
Valkey), waits until both truly answer, and prints a request to paste. Ctrl-C stops all of it, the
gateway first.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path

import click
import httpx

from gateway.cli.local import LocalEndpoint, LocalState, prepare, settings_text
from gateway.cli.token import DEFAULT_AUDIENCE, DEFAULT_ISSUER, read_private_key
from gateway.errors import ConfigurationError
from gateway.identity.minting import Grant, mint_token

_NODE_READY_SECONDS = 1800
_GATEWAY_READY_SECONDS = 60
_STOP_SECONDS = 60
#: Sequences that the node's CPU profile runs at a time (`max_sequences` of private_node/profiles/cpu.toml).
_NODE_PLACES = 64
_HOSTED_KEY = "TIDEGATE_HOSTED_KEY"
_HOSTED_URL = "TIDEGATE_HOSTED_URL"


@click.command()
@click.option("--directory", type=click.Path(path_type=Path), default=Path("var"), show_default=True)
@click.option("--policies", type=click.Path(path_type=Path), default=Path("policies"), show_default=True)
@click.option("--port", default=8080, show_default=True, help="Port of the gateway.")
@click.option("--node-port", default=8100, show_default=True, help="Port of the private node.")
@click.option(
    "--node-python",
    type=click.Path(path_type=Path),
    default=Path(".venv-node/bin/python"),
    show_default=True,
    help="Interpreter of the private node's environment.",
)
def up(directory: Path, policies: Path, port: int, node_port: int, node_python: Path) -> None:
    """Start the private node, Valkey and the gateway here; print a request to paste."""
    try:
        sys.exit(asyncio.run(_Up(directory, policies, port, node_port, node_python).run()))
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)


def say(text: str) -> None:
    """One line of progress on standard error."""
    click.echo(text, err=True)


class _Up:
    def __init__(self, directory: Path, policies: Path, port: int, node_port: int, node_python: Path) -> None:
        self._state = LocalState(directory.resolve())
        self._policies = policies.resolve()
        self._port = port
        self._node_port = node_port
        self._node_python = node_python
        self._started = time.monotonic()
        self._stop = asyncio.Event()

    async def run(self) -> int:
        if not self._node_python.exists():
            raise ConfigurationError(f"{self._node_python} is missing. Run `make install-node` first.")
        prepare(self._state)
        self._write_settings()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        node = await self._start_node()
        gateway: Process | None = None
        try:
            if not await self._until_node_ready(node):
                return 0 if self._stop.is_set() else 1
            gateway = await self._start_gateway()
            if not await self._until_gateway_ready(gateway):
                return 0 if self._stop.is_set() else 1
            self._show()
            return await self._watch(node, gateway)
        finally:
            if gateway is not None:
                await _end("gateway", gateway)
            await _end("private node", node)

    # -- start -------------------------------------------------------------------------------------

    def _write_settings(self) -> None:
        places = {
            "private-moe": LocalEndpoint(
                f"http://127.0.0.1:{self._node_port}/v1", f"file:{self._state.node_key}", _NODE_PLACES
            )
        }
        if os.environ.get(_HOSTED_KEY):
            url = os.environ.get(_HOSTED_URL, "https://api.openai.com/v1")
            places["hosted-openai"] = LocalEndpoint(url, f"env:{_HOSTED_KEY}")
            self._say(
                f"hosted destination configured from {_HOSTED_KEY}: public and internal data may go there"
            )
        else:
            self._say(f"no {_HOSTED_KEY} in the environment: everything stays on the private node")
        text = settings_text(
            self._state, host="127.0.0.1", port=self._port, policies=self._policies, destinations=places
        )
        self._state.settings.write_text(text, encoding="utf-8")

    async def _start_node(self) -> Process:
        self._say("private node: starting (the first start builds the reference model)")
        return await asyncio.create_subprocess_exec(
            str(self._node_python),
            "-m",
            "private_node",
            "serve",
            "--profile=cpu",
            f"--port={self._node_port}",
            f"--key-file={self._state.node_key}",
            f"--log-file={self._state.directory / 'vllm.log'}",
            env={**os.environ, "TQDM_DISABLE": "1"},  # bars of libraries would break the lines of progress
            stderr=PIPE,
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )

    async def _until_node_ready(self, node: Process) -> bool:
        """Pass the node's progress on until it says that it is ready."""
        ready = asyncio.Event()
        reader = asyncio.create_task(self._relay_lines(node, ready))
        if not await self._any_of(ready.wait(), node.wait(), timeout_seconds=_NODE_READY_SECONDS):
            self._say("private node: not ready in time")
            return False
        if not ready.is_set() and not self._stop.is_set():
            await reader
            self._say(f"private node: ended with status {node.returncode} before it was ready")
        return ready.is_set() and not self._stop.is_set()

    async def _relay_lines(self, node: Process, ready: asyncio.Event) -> None:
        if node.stderr is None:
            return
        async for raw in node.stderr:
            line = raw.decode("utf-8", "replace").rstrip()
            self._say(line.replace("private_node:", "private node:"))
            if "private_node: ready " in line:
                ready.set()

    async def _start_gateway(self) -> Process:
        self._say("gateway: starting, with an embedded Valkey")
        path = self._state.directory / "gateway.log"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        log = os.fdopen(handle, "ab")
        with log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gateway.cli",
                "serve",
                str(self._state.settings),
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )

    async def _until_gateway_ready(self, gateway: Process) -> bool:
        deadline = time.monotonic() + _GATEWAY_READY_SECONDS
        async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:
            while time.monotonic() < deadline and not self._stop.is_set():
                if gateway.returncode is not None:
                    break
                with contextlib.suppress(httpx.TransportError):
                    answer = await client.get(f"http://127.0.0.1:{self._port}/ready")
                    if answer.status_code == 200:
                        self._say("gateway: ready")
                        return True
                await asyncio.sleep(0.1)
        if not self._stop.is_set():
            self._say(f"gateway: not ready; see {self._state.directory / 'gateway.log'}")
        return False

    def _show(self) -> None:
        grant = Grant(DEFAULT_ISSUER, DEFAULT_AUDIENCE, "demo", "you", int(time.time()), 12 * 3600, ("user",))
        token = mint_token(read_private_key(self._state.private_key), grant)
        base = f"http://127.0.0.1:{self._port}"
        say("")
        click.echo("Ready. This request holds a valid IBAN, so it stays on the private node:\n")
        click.echo(
            f"curl -si {base}/v1/chat/completions \\\n"
            f"  -H 'Authorization: Bearer {token}' \\\n"
            "  -H 'Content-Type: application/json' \\\n"
            '  -d \'{"model":"assistant","temperature":0,"max_tokens":60,"messages":['
            '{"role":"system","content":"Answer in one short English sentence."},'
            '{"role":"user","content":"Customer with IBAN DE89 3704 0044 0532 0130 00 asks: '
            "What is the capital of France?\"}]}'"
        )
        click.echo("\nIts record and the proof, with the request id of the answer:\n")
        click.echo(f"tidegate audit show REQUEST_ID --dir {self._state.audit}")
        click.echo(f"tidegate audit verify {self._state.audit} --trust {self._state.trust}")
        click.echo("\nCtrl-C stops everything.")
        sys.stdout.flush()

    # -- run and stop ------------------------------------------------------------------------------

    async def _watch(self, node: Process, gateway: Process) -> int:
        await self._any_of(node.wait(), gateway.wait(), timeout_seconds=None)
        if self._stop.is_set():
            self._say("stopping")
            return 0
        name, code = (
            ("gateway", gateway.returncode)
            if gateway.returncode is not None
            else ("private node", node.returncode)
        )
        self._say(f"{name}: ended by itself with status {code}; stopping the rest")
        return 1

    async def _any_of(self, *waits: object, timeout_seconds: float | None) -> bool:
        """True when one of `waits` or the wish to stop came before the timeout."""
        tasks = [asyncio.ensure_future(each) for each in (*waits, self._stop.wait())]  # type: ignore[call-overload]
        done, pending = await asyncio.wait(
            tasks, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        return bool(done)

    def _say(self, text: str) -> None:
        say(f"{time.monotonic() - self._started:6.1f} s  {text}")


async def _end(name: str, process: Process) -> None:
    """SIGTERM by pid, then SIGKILL after a bounded wait."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
    say(f"          {name}: stopped")


def _die_with_parent() -> Callable[[], object] | None:
    """For Linux: the child gets SIGTERM when this process is gone, however it went."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(1, signal.SIGTERM, 0, 0, 0)
