"""A gateway between recording upstreams, and a look at all that an attempt left behind.

    with open_rig(folder) as rig, rig.watch() as seen:
        answer = rig.send(raw_request_bytes)
    seen.records, seen.log_lines, seen.upstream_bytes, seen.grown("tidegate_…")

What was seen is read when the block ends: records from the audit log on disk (they are durable before an
answer goes out), lines from the log file, bytes from the recordings of the stand-ins.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx2

from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from tests.fakes.fault_standin import read_log
from tests.fakes.hosted_standin import recorded_bytes
from tests.fakes.stack import Child, GatewayProcess, copy_policies, start_child, start_gateway

CHAT = "/v1/chat/completions"
STANDIN = "tests.fakes.hosted_standin"
ENDS = frozenset({"completed", "aborted", "abandoned"})


def chat(text: str, **more: Any) -> dict[str, Any]:
    """A chat request with one user message."""
    return {"model": "assistant", "messages": [{"role": "user", "content": text}], **more}


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for `condition()`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@dataclass
class RawAnswer:
    """One HTTP answer as bytes. `is_closed`: the gateway closed the connection after it."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_closed: bool = False

    @property
    def code(self) -> str:
        """Code of an OpenAI-shaped error body; empty when there is none."""
        try:
            return str(json.loads(self.body)["error"]["code"])
        except (ValueError, KeyError, TypeError):
            return ""


def parse_answers(data: bytes, is_closed: bool) -> list[RawAnswer]:
    """All whole HTTP/1.1 answers in `data`, which must hold nothing else."""
    answers: list[RawAnswer] = []
    while data:
        head, mark, rest = data.partition(b"\r\n\r\n")
        assert mark, f"a cut answer: {data[:200]!r}"
        lines = head.decode("latin-1").split("\r\n")
        assert lines[0].startswith("HTTP/1.1 "), f"no answer begins here: {data[:200]!r}"
        headers = {n.strip().lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        if headers.get("transfer-encoding") == "chunked":
            body, rest = _chunked(rest)
        else:
            size = int(headers.get("content-length", "0"))
            body, rest = rest[:size], rest[size:]
            assert len(body) == size, "a cut body"
        answers.append(RawAnswer(int(lines[0].split(" ")[1]), headers, body))
        data = rest
    if answers:
        answers[-1].is_closed = is_closed
    return answers


def _chunked(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        size_line, mark, data = data.partition(b"\r\n")
        assert mark, "a cut chunk"
        size = int(size_line, 16)
        body += data[:size]
        assert data[size : size + 2] == b"\r\n", "a cut chunk"
        data = data[size + 2 :]
        if size == 0:
            return body, data


@dataclass
class Seen:
    """What happened while it was watched; filled at the end of the block."""

    records: list[dict[str, Any]] = field(default_factory=list)
    log_text: str = ""
    upstream_bytes: bytes = b""
    hosted_bytes: bytes = b""
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def log_lines(self) -> list[dict[str, Any]]:
        """Lines of the gateway's log; each must be one JSON object."""
        return [json.loads(line) for line in self.log_text.splitlines()]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """(phase, reason) of the new audit records."""
        return [(each["phase"], each["reason_code"]) for each in self.records]

    def grown(self, sample: str) -> float:
        """By how much a metric sample grew."""
        return self.metrics.get(sample, 0.0)

    def logged(self, event: str) -> list[dict[str, Any]]:
        """New log lines of one event."""
        return [line for line in self.log_lines if line["event"] == event]


@dataclass
class Rig:
    """A gateway process and its two recording upstreams.

    With `open_rig(…, faulty=True)` the private one fails as `control` says and writes `fault_log`.
    """

    gateway: GatewayProcess
    hosted: Path
    private: Path
    token: str
    control: Path
    fault_log: Path

    @property
    def address(self) -> tuple[str, int]:
        """Where the gateway listens."""
        return "127.0.0.1", int(self.gateway.base_url.rsplit(":", 1)[1])

    def connect(self, timeout: float = 15.0) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(self.address, timeout)

    def head(self, *lines: str, length: int | None = None, path: str = CHAT, method: str = "POST") -> bytes:
        """Head of a good request, with further header lines; `length` adds content-length."""
        rows = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}"]
        rows.append("Content-Type: application/json")
        rows += lines
        if length is not None:
            rows.append(f"Content-Length: {length}")
        return "\r\n".join(rows).encode("latin-1") + b"\r\n\r\n"

    def request(self, body: Any, *lines: str) -> bytes:
        """A whole good request; `body` is bytes or a value for JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.head(*lines, length=len(data)) + data

    def send(self, data: bytes, quiet_seconds: float = 0.4) -> list[RawAnswer]:
        """Send bytes on a new connection; all answers until it is closed or quiet for a while."""
        with self.connect() as link:
            with suppress(BrokenPipeError, ConnectionResetError):
                link.sendall(data)
            return self.read(link, quiet_seconds)

    @staticmethod
    def read(link: socket.socket, quiet_seconds: float = 0.4, first_seconds: float = 15.0) -> list[RawAnswer]:
        """Answers on a connection. Waits long for the first byte, and a little after the last."""
        data, is_closed = b"", False
        link.settimeout(first_seconds)
        try:
            while piece := link.recv(65_536):
                data += piece
                link.settimeout(quiet_seconds)
            is_closed = True
        except TimeoutError:
            pass
        except ConnectionResetError:
            is_closed = True
        return parse_answers(data, is_closed)

    def one(self, data: bytes) -> RawAnswer:
        """The one answer to these bytes, read until it is whole."""
        with self.connect() as link:
            with suppress(BrokenPipeError, ConnectionResetError):
                link.sendall(data)
            return read_one(link)

    def post(self, body: Any, *lines: str) -> RawAnswer:
        """The answer to a good head with this body."""
        return self.one(self.request(body, *lines))

    def metrics(self) -> dict[str, float]:
        """All samples of /metrics."""
        text = httpx.get(self.gateway.base_url + "/metrics", trust_env=False).text
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def records(self) -> list[dict[str, Any]]:
        """All audit records of requests on disk (the log's own events left out)."""
        source = StoredLog(OsFiles(self.gateway.state.audit, ()))
        found = (json.loads(stored) for stored in stored_records(source))
        return [record for record in found if record["phase"] != "log"]

    def fault(self, mode: str, **more: Any) -> None:
        """What the failing upstream does from now on."""
        draft = self.control.with_suffix(".tmp")
        draft.write_text(json.dumps({"mode": mode, **more}))
        draft.replace(self.control)

    def fault_events(self, event: str) -> list[dict[str, Any]]:
        """What the failing upstream noted."""
        return [entry for entry in read_log(self.fault_log) if entry["event"] == event]

    @contextmanager
    def ended(self) -> Iterator[None]:
        """After the block, wait until nothing is in flight and every intent has its end in the log."""
        yield
        time.sleep(0.2)  # for a request that is not yet admitted
        until(self._is_quiet)

    def _is_quiet(self) -> bool:
        phases = [record["phase"] for record in self.records()]
        is_closed = phases.count("admitted") == sum(phase in ENDS for phase in phases)
        return is_closed and self.metrics()["tidegate_web_in_flight_requests"] == 0

    @contextmanager
    def watch(self) -> Iterator[Seen]:
        """See what happens inside the block."""
        seen = Seen()
        count, log_size = len(self.records()), self.gateway.log_path.stat().st_size
        hosted, private = len(recorded_bytes(self.hosted)), len(recorded_bytes(self.private))
        before = self.metrics()
        yield seen
        after = self.metrics()
        seen.metrics = {name: value - before.get(name, 0.0) for name, value in after.items()}
        seen.records = self.records()[count:]
        seen.log_text = self.gateway.log_path.read_bytes()[log_size:].decode()
        # Recordings are one file a connection, so what is new is not always at the end: sizes tell.
        seen.hosted_bytes = recorded_bytes(self.hosted) if len(recorded_bytes(self.hosted)) != hosted else b""
        new_private = recorded_bytes(self.private)
        seen.upstream_bytes = seen.hosted_bytes + (new_private if len(new_private) != private else b"")


def read_one(link: socket.socket, timeout: float = 15.0) -> RawAnswer:
    """One answer, read until it is whole (or the connection ends)."""
    link.settimeout(timeout)
    data, is_closed = bytearray(), False
    while not is_closed and not _may_be_whole(data):
        try:
            piece = link.recv(262_144)
        except ConnectionResetError:
            piece = b""
        data += piece
        is_closed = not piece
    answers = parse_answers(bytes(data), is_closed)
    assert len(answers) == 1, f"{len(answers)} answers"
    return answers[0]


def _may_be_whole(data: bytearray) -> bool:
    """Whether one answer could end here. (An event never ends like the last chunk does.)"""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)\r\n", data[: end + 2])
    if length is not None:
        return len(data) >= end + 4 + int(length[1])
    return data.endswith(b"\r\n0\r\n\r\n")


def no_trace(answer: RawAnswer | httpx.Response | httpx2.Response, seen: Seen, *secrets: str) -> None:
    """None of the secrets in the body, a header of the answer, the log or an audit record."""
    body = answer.body if isinstance(answer, RawAnswer) else answer.content
    shown = body.decode("utf-8", "replace") + repr(dict(answer.headers))
    for secret in secrets:
        assert secret
        assert secret not in shown, "a secret is in the answer"
        assert secret not in seen.log_text, "a secret is in the log"
        assert secret not in json.dumps(seen.records, ensure_ascii=False), "a secret is in the audit log"


@contextmanager
def open_rig(
    directory: Path,
    *,
    routing: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    faulty: bool = False,
    **options: Any,
) -> Iterator[Rig]:
    """A rig in `directory`; edits of the policy files and options of `start_gateway`."""
    policies = copy_policies(directory / "policies", routing)
    text = (policies / "limits.yaml").read_text("utf-8")
    for old, new in (limits or {}).items():
        assert old in text, f"limits.yaml has no {old!r}"
        text = text.replace(old, new)
    (policies / "limits.yaml").write_text(text, "utf-8")
    hosted_record, private_record = directory / "hosted", directory / "private"
    children: list[Child] = []
    gateway: GatewayProcess | None = None
    try:
        children.append(start_child([STANDIN, "--port", "0", "--record", str(hosted_record)]))
        command = [STANDIN, "--port", "0", "--kind", "vllm", "--record", str(private_record)]
        control, fault_log = directory / "control.json", directory / "fault.jsonl"
        if faulty:
            command = ["tests.fakes.fault_standin", "--port", "0", "--record", str(private_record)]
            command += ["--control", str(control), "--log", str(fault_log)]
        children.append(start_child(command))
        gateway = start_gateway(
            directory / "gw",
            hosted=children[0].url,
            private=children[1].url,
            policies=policies,
            # A busy machine's disk must not turn a refusal that is tested here into a 503.
            audit_extra="deadline_ms = 10000",
            small_segments=True,
            **options,
        )
        yield Rig(gateway, hosted_record, private_record, gateway.token(), control, fault_log)
    finally:
        if gateway is not None:
            gateway.stop()
        for child in children:
            child.stop()
