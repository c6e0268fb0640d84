"""Runs vLLM as a child process: starts it, waits until it truly answers, drains it, leaves nothing behind.

In: a `LaunchPlan`. Out: progress lines, and an exit code for the command line.

Invariants
1. Ready means: a one-token completion with the key succeeded and the path guard held. Nothing else counts.
2. The child leads a process group of its own; its end is always followed by the end of that group and of
   the shared memory that the group held. When this process dies without a word, the kernel sends the child
   SIGTERM (Linux, `PR_SET_PDEATHSIG`).
3. On SIGTERM or SIGINT: new requests are refused first (the drain file), running ones get
   `shutdown_seconds`, then the group is killed. A second signal ends the waiting.
4. The child's output goes to the log file, never through a pipe: a slow reader cannot stall the server.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from private_node.arguments import LaunchPlan
from private_node.probe import Address, Ready, guard_hole, probe
from private_node.process_group import end_group, shared_memory_of

EXIT_STOPPED: Final = 0
EXIT_CHILD_DIED: Final = 3
EXIT_NOT_READY: Final = 4
EXIT_GUARD_OPEN: Final = 5

POLL_SECONDS: Final = 0.5
PROBE_TIMEOUT_SECONDS: Final = 20.0
KILL_GRACE_SECONDS: Final = 10.0
"""Added to the drain time before the group is killed."""
LAST_LINES: Final = 25
_PR_SET_PDEATHSIG: Final = 1

MILESTONES: Final = (
    ("rank 0 in world size", "ranks joined"),
    ("Starting to load model", "loading weights"),
    ("Loading weights took", "weights loaded"),
    ("KV cache size", "cache allocated"),
    ("Application startup complete", "server up, asking for a first token"),
)
"""What a line of vLLM's log means for the one who waits, in order."""

_Report = Callable[[str], None]


class _StopAsked(Exception):
    """Raised by the signal handler out of whatever waits, a probe included."""


class Node:
    """One vLLM child. `serve` is the whole life; the rest are its steps."""

    def __init__(
        self,
        plan: LaunchPlan,
        address: Address,
        key: str,
        model: str,
        *,
        log: Path,
        drain: Path,
        report: _Report,
    ) -> None:
        self._plan = plan
        self._address = address
        self._key = key
        self._model = model
        self._log = log
        self._drain = drain
        self._report = report
        self._shared_memory: set[Path] = set()
        self._stop_count = 0
        self._is_interruptible = False

    def serve(self, start_seconds: float, shutdown_seconds: float) -> int:
        """Starts, waits for readiness, watches until a stop is asked or the child dies. An exit code."""
        self._drain.unlink(missing_ok=True)
        with self._signals():
            child = self._start()
            try:
                return self._live(child, start_seconds)
            finally:
                self._end(child, shutdown_seconds)
                self._drain.unlink(missing_ok=True)

    def _live(self, child: subprocess.Popen[bytes], start_seconds: float) -> int:
        """From the start of the child to the wish to stop, or to its death."""
        try:
            self._is_interruptible = True
            if self._stop_count:  # asked between the start and the line above
                return EXIT_STOPPED
            code = self._wait_until_ready(child, start_seconds)
            return self._watch(child) if code is None else code
        except _StopAsked:
            return EXIT_STOPPED
        finally:
            self._is_interruptible = False

    def _start(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        parent = os.getpid()
        libc = ctypes.CDLL(None, use_errno=True)

        def bind_to_parent() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # the parent died before the line above
                os._exit(1)

        # What an engine logs about requests is nobody's but the owner's, an older file included.
        handle = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, 0o600)
        with os.fdopen(handle, "wb") as output:
            child = subprocess.Popen(  # noqa: S603 - argv is composed by `arguments`, no shell
                self._plan.argv,
                env=dict(self._plan.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=bind_to_parent,  # noqa: PLW1509 - this program has one thread
            )
        self._report(f"vLLM started, pid {child.pid}, log {self._log}")
        return child

    def _wait_until_ready(self, child: subprocess.Popen[bytes], start_seconds: float) -> int | None:
        """None once the node is ready, else the exit code."""
        started = time.monotonic()

        def step(line: str) -> None:
            self._report(f"{time.monotonic() - started:5.1f} s  {line}")

        milestones = LogFollower(self._log, step)
        while True:
            milestones.report_new()
            if child.poll() is not None:
                return self._report_death(child)
            elapsed = time.monotonic() - started
            if elapsed > start_seconds:
                self._report(f"not ready after {start_seconds:.0f} s; last lines of the log:")
                self._report_last_lines()
                return EXIT_NOT_READY
            if milestones.is_complete:
                state = probe(self._address, self._key, self._model, PROBE_TIMEOUT_SECONDS)
                if isinstance(state, Ready):
                    return self._confirm_guard(child, state, elapsed + state.seconds)
            time.sleep(POLL_SECONDS)

    def _confirm_guard(self, child: subprocess.Popen[bytes], state: Ready, elapsed: float) -> int | None:
        self._shared_memory = shared_memory_of(child.pid)
        hole = guard_hole(self._address, self._key, PROBE_TIMEOUT_SECONDS)
        if hole is not None:
            # fail-closed: a node whose routes are open must not be counted on, however well it answers.
            self._report(f"path guard does not hold, the node is stopped: {hole}")
            return EXIT_GUARD_OPEN
        self._report(
            f"ready base_url={self._address.base_url} model={self._model} seconds={elapsed:.1f} "
            f"first_token_seconds={state.seconds:.2f} fingerprint={state.system_fingerprint}"
        )
        return None

    def _watch(self, child: subprocess.Popen[bytes]) -> int:
        while child.poll() is None:
            time.sleep(POLL_SECONDS)
        return self._report_death(child)

    def _end(self, child: subprocess.Popen[bytes], shutdown_seconds: float) -> None:
        """Drains and ends the child, then whatever is left of its group."""
        if child.poll() is None:
            self._drain.parent.mkdir(parents=True, exist_ok=True)
            self._drain.touch()
            self._report(f"draining: new requests are refused, running ones have {shutdown_seconds:.0f} s")
            child.terminate()
            deadline = time.monotonic() + shutdown_seconds + KILL_GRACE_SECONDS
            asked = self._stop_count
            while child.poll() is None and time.monotonic() < deadline and self._stop_count == asked:
                time.sleep(0.1)
            if child.poll() is None:
                self._report("not ended in time or asked again: killing the process group")
        self._shared_memory |= shared_memory_of(child.pid)
        is_gone = end_group(child.pid, KILL_GRACE_SECONDS)
        child.wait()
        for path in self._shared_memory:
            path.unlink(missing_ok=True)
        self._report(
            "stopped, no process left" if is_gone else "stopped, but a process of the group lives on"
        )

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def ask(_number: int, _frame: FrameType | None) -> None:
            self._stop_count += 1
            if self._is_interruptible:
                self._is_interruptible = False
                raise _StopAsked

        kept = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)

    def _report_death(self, child: subprocess.Popen[bytes]) -> int:
        code = child.returncode
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._report(f"vLLM died ({cause}); last lines of {self._log}:")
        self._report_last_lines()
        return EXIT_CHILD_DIED

    def _report_last_lines(self) -> None:
        for line in last_lines(self._log, LAST_LINES):
            self._report(f"  | {line}")


class LogFollower:
    """Follows the log and reports each milestone once, in order of appearance."""

    def __init__(self, log: Path, report: _Report) -> None:
        self._log = log
        self._report = report
        self._offset = 0
        self._tail = b""
        self._seen: set[str] = set()

    @property
    def is_complete(self) -> bool:
        return MILESTONES[-1][1] in self._seen

    def report_new(self) -> None:
        with self._log.open("rb") as handle:
            handle.seek(self._offset)
            chunk = handle.read()
        self._offset += len(chunk)
        *lines, self._tail = (self._tail + chunk).split(b"\n")
        for line in lines:
            meaning = milestone(line.decode("utf-8", "replace"))
            if meaning is not None and meaning not in self._seen:
                self._seen.add(meaning)
                self._report(meaning)


def milestone(line: str) -> str | None:
    """What a log line means for the one who waits, or None. Pure."""
    return next((meaning for part, meaning in MILESTONES if part in line), None)


def last_lines(log: Path, count: int) -> list[str]:
    """The last `count` lines of a log, from its last 64 KiB; empty when there is none."""
    try:
        with log.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - 65_536))
            return handle.read().decode("utf-8", "replace").splitlines()[-count:]
    except OSError:
        return []
