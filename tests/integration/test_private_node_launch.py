"""The launcher against stand-in children: real processes, real signals, a small HTTP server for vLLM."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from private_node.arguments import LaunchPlan
from private_node.launch import EXIT_CHILD_DIED, EXIT_GUARD_OPEN, EXIT_NOT_READY, EXIT_STOPPED, Node
from private_node.probe import Address, NotReady, Ready, guard_hole, probe

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
KEY = "node-key-0123456789abcdef"
STAND_IN = """
import json, os, signal, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, key, mode = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if mode == "die":
    print("a line before the end")
    sys.exit("the engine core could not start")
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "memory":
    import mmap
    name = "/dev/shm/tidegate-test-%d" % os.getpid()
    with open(name, "w+b") as file:
        file.truncate(4096)
        kept = mmap.mmap(file.fileno(), 4096)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
if mode == "orphan":
    subprocess.Popen([sys.executable, "-c", "import signal, time; "
                      "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
class Handler(BaseHTTPRequestHandler):
    def do_GET(self): self.answer()
    def do_POST(self): self.answer()
    def answer(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        known = self.headers.get("authorization") == "Bearer " + key or mode == "open"
        served = self.path in ("/v1/chat/completions", "/v1/models")
        status = 404 if not served else 200 if known else 401
        if mode == "dead-engine" and status == 200: status = 500
        answer = {"choices": [{"finish_reason": "length"}], "usage": {"completion_tokens": 1},
                  "system_fingerprint": "stand-in"}
        if mode == "empty": answer = {"choices": [], "usage": None}
        if mode == "tokenless": answer["usage"]["completion_tokens"] = 0
        body = b"<html>" if mode == "html" else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *parts): pass
server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("INFO:     Application startup complete.", flush=True)
server.serve_forever()
"""


def free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


class Run:
    """A node with a stand-in child, served on this thread; `said` holds the progress lines."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.said: list[str] = []
        self.ready = threading.Event()
        self.drain = folder / "drain"
        self.address = Address("127.0.0.1", free_port())
        script = folder / "stand_in.py"
        script.write_text(STAND_IN)
        argv = (sys.executable, str(script), str(self.address.port), KEY, mode)
        plan = LaunchPlan(argv, {"PATH": os.environ["PATH"]}, ())
        self.node = Node(
            plan, self.address, KEY, "m", log=folder / "log", drain=self.drain, report=self._report
        )

    def _report(self, line: str) -> None:
        self.said.append(line)
        if line.startswith("ready "):
            self.ready.set()

    @property
    def child(self) -> int:
        return int(next(line for line in self.said if line.startswith("vLLM started")).split()[3].rstrip(","))

    def serve(
        self, when_ready: Callable[[], None] | None = None, start: float = 20, shutdown: float = 5
    ) -> int:
        def follow() -> None:
            if self.ready.wait(20) and when_ready is not None:
                when_ready()

        follower = threading.Thread(target=follow)
        follower.start()
        try:
            return self.node.serve(start, shutdown)
        finally:
            self.ready.set()
            follower.join()


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_is_ready_and_stops_on_sigterm(tmp_path: Path) -> None:
    run = Run(tmp_path, "good")
    drained: list[bool] = []
    assert run.serve(stop) == EXIT_STOPPED
    drained.append(run.drain.exists())
    ready = next(line for line in run.said if line.startswith("ready "))
    assert f"base_url=http://127.0.0.1:{run.address.port}/v1 model=m " in ready
    assert "fingerprint=stand-in" in ready
    assert drained == [False]
    assert run.said[-1] == "stopped, no process left"
    assert group_is_gone(run.child)


def test_gives_the_signals_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    Run(tmp_path, "good").serve(stop)
    assert signal.getsignal(signal.SIGTERM) is before


def test_reports_the_last_lines_of_a_child_that_dies(tmp_path: Path) -> None:
    run = Run(tmp_path, "die")
    assert run.serve() == EXIT_CHILD_DIED
    assert any("vLLM died (exit code 1)" in line for line in run.said)
    assert "  | the engine core could not start" in run.said


def test_reports_a_child_that_dies_after_it_was_ready(tmp_path: Path) -> None:
    run = Run(tmp_path, "good")
    assert run.serve(lambda: os.kill(run.child, signal.SIGKILL)) == EXIT_CHILD_DIED
    assert any("vLLM died (signal SIGKILL)" in line for line in run.said)


@pytest.mark.parametrize("mode", ["dead-engine", "empty", "tokenless", "html"])
def test_never_counts_as_ready_without_a_real_token(tmp_path: Path, mode: str) -> None:
    run = Run(tmp_path, mode)
    assert run.serve(start=2) == EXIT_NOT_READY
    assert not any(line.startswith("ready ") for line in run.said)
    assert group_is_gone(run.child)


def test_stops_a_node_whose_guard_is_open(tmp_path: Path) -> None:
    run = Run(tmp_path, "open")
    assert run.serve() == EXIT_GUARD_OPEN
    assert not any(line.startswith("ready ") for line in run.said)
    assert any("GET /v1/models: expected status 401, found 200" in line for line in run.said)
    assert group_is_gone(run.child)


def test_kills_the_group_when_a_second_signal_asks(tmp_path: Path) -> None:
    run = Run(tmp_path, "stubborn")

    def stop_twice() -> None:
        stop()
        while not run.drain.exists():
            time.sleep(0.01)
        time.sleep(0.3)
        stop()

    started = time.monotonic()
    assert run.serve(stop_twice, shutdown=30) == EXIT_STOPPED
    assert time.monotonic() - started < 15
    assert any("killing the process group" in line for line in run.said)
    assert group_is_gone(run.child)


def test_kills_what_the_child_left_in_its_group(tmp_path: Path) -> None:
    run = Run(tmp_path, "orphan")
    assert run.serve(stop) == EXIT_STOPPED
    assert group_is_gone(run.child)


@pytest.mark.parametrize("is_killed", [False, True])
def test_removes_the_shared_memory_that_the_child_left(tmp_path: Path, is_killed: bool) -> None:
    run, seen = Run(tmp_path, "memory"), list[bool]()

    def end() -> None:
        seen.append(Path(f"/dev/shm/tidegate-test-{run.child}").exists())
        if is_killed:
            os.kill(run.child, signal.SIGKILL)
        else:
            stop()

    assert run.serve(end) == (EXIT_CHILD_DIED if is_killed else EXIT_STOPPED)
    assert seen == [True]
    assert not Path(f"/dev/shm/tidegate-test-{run.child}").exists()


def test_refuses_new_work_before_it_tells_the_child(tmp_path: Path) -> None:
    run = Run(tmp_path, "stubborn")
    seen: list[bool] = []

    def stop_and_look() -> None:
        stop()
        deadline = time.monotonic() + 5
        while not run.drain.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(run.drain.exists())
        stop()

    run.serve(stop_and_look)
    assert seen == [True]
    assert not run.drain.exists()


def test_stops_at_once_while_it_waits_for_the_first_token(tmp_path: Path) -> None:
    run = Run(tmp_path, "dead-engine")
    threading.Timer(1.0, stop).start()
    started = time.monotonic()
    assert run.serve(start=60) == EXIT_STOPPED
    assert time.monotonic() - started < 10


def test_takes_the_child_along_when_the_launcher_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    port = free_port()
    argv = [sys.executable, str(script), str(port), KEY, "good"]
    program = (
        "import json, sys; from pathlib import Path\n"
        "from private_node.launch import Node; from private_node.arguments import LaunchPlan\n"
        "from private_node.probe import Address\n"
        f"plan = LaunchPlan(tuple(json.loads({json.dumps(argv)!r})), {{}}, ())\n"
        f"folder = Path({str(tmp_path)!r})\n"
        f"node = Node(plan, Address('127.0.0.1', {port}), {KEY!r}, 'm', log=folder / 'log',\n"
        "            drain=folder / 'drain', report=lambda line: print(line, flush=True))\n"
        "sys.exit(node.serve(20, 5))\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    first = launcher.stdout.readline()
    child = int(first.split()[3].rstrip(","))
    while not launcher.stdout.readline().startswith("ready "):
        assert launcher.poll() is None
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    deadline = time.monotonic() + 10
    while not group_is_gone(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert group_is_gone(child)


def test_probes_nothing_as_not_ready() -> None:
    nowhere = Address("127.0.0.1", free_port())
    assert probe(nowhere, KEY, "m", 1.0) == NotReady("no answer (ConnectionRefusedError)")
    hole = guard_hole(nowhere, KEY, 1.0)
    assert hole is not None
    assert hole.startswith("GET /v1/models: no answer")


def test_probes_a_stand_in_as_ready(tmp_path: Path) -> None:
    run = Run(tmp_path, "good")
    states: list[Ready | NotReady] = []

    def ask_and_stop() -> None:
        states.append(probe(run.address, KEY, "m", 5.0))
        states.append(probe(run.address, "another-key-0123456789", "m", 5.0))
        stop()

    run.serve(ask_and_stop)
    assert isinstance(states[0], Ready)
    assert states[1] == NotReady("status 401")
