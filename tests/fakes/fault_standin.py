"""A stand-in upstream that fails on purpose, and that notes when a client goes away.

    python -m tests.fakes.fault_standin --port 0 --log FILE [--control FILE] [--record DIR]

First line of stdout: `listening on PORT`. Stops on SIGTERM.

Which fault: the JSON object in the control file (`{"mode": "endless", ...}`, read anew for each
request), else the query (`?mode=endless`), else a model name `fault-MODE`, else `ok`. Modes::

    refuse                 reset at once (from the control file: before anything is read)
    silence                read the request, send nothing
    silence-after-head     status and headers, then nothing
    pause-after-first      one content chunk, then nothing
    die-mid-event          cut within an SSE event (or within a plain body)
    die-mid-utf8           cut within a character
    die-after-text         cut between two events, before any finish
    endless                content without end, as fast as the reader reads
    endless-trickle        content without end, `delay_ms` (20) apart
    long-line              one line of 10 MB
    long-body              a plain body or stream of `megabytes` (64)
    wrong-content-type     200 with HTML
    malformed-json         an event (or body) that is no JSON
    status                 answer `status` (500) with `retry_after` when given
    429 429-retry 500 503 503-retry 401 400 302
    trickle                a good answer, one byte each `delay_ms` (5)
    two-finish             two finish reasons for one choice
    delta-after-finish     text after the finish reason
    no-usage  no-done  usage-everywhere
    late-done              `[DONE]` comes `delay_ms` (1000) after the rest
    error-in-stream        an `{"error": ...}` event after some text
    wrong-model            an answer of another model
    emit                   `text` in deltas of `sizes` characters (the last size repeats)
    raw                    status 200, `content_type`, then `pieces` (base64), each its own write

The log is JSON lines: `request` (connection, model, mode), `finished`, `closed` (by the stand-in),
`client-closed` (with `is_busy`: an answer was still being sent), each with `at_unix` and `at_mono`
(`time.monotonic()`, comparable between processes of one Linux machine).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.chat_answers import chunk, delta, plain_answer, streamed_answer, usage_of
from tests.fakes.hosted_standin import Recorder
from tests.fakes.wire_server import Connection, Hooks, Request, serve

FINGERPRINT = "fp_fault"
_STATUS_MODES: dict[str, dict[str, Any]] = {
    "429": {"status": 429},
    "429-retry": {"status": 429, "retry_after": 7},
    "500": {"status": 500},
    "503": {"status": 503},
    "503-retry": {"status": 503, "retry_after": 7},
    "401": {"status": 401},
    "400": {"status": 400},
    "302": {"status": 302, "location": "http://127.0.0.1:9/"},
    "status": {"status": 500},
}


def read_log(path: Path) -> list[dict[str, Any]]:
    """All entries of a log so far."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


class FaultStandin:
    """Handler with the modes of this module's head."""

    def __init__(self, log: Path, control: Path | None, recorder: Recorder | None) -> None:
        self._log = log
        self._control = control
        self._recorder = recorder
        self._number = 0

    def note(self, event: str, **facts: Any) -> None:
        """Append one line to the log."""
        line = {"event": event, "at_mono": time.monotonic(), "at_unix": time.time(), **facts}
        with self._log.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def opened(self, connection: Connection) -> None:
        """Reset at once when the control file says so."""
        if self._controlled().get("mode") == "refuse":
            self.note("refused", connection=connection.number)
            connection.abort()

    def bytes_came(self, connection: Connection, data: bytes) -> None:
        """Keep what arrived."""
        if self._recorder is not None:
            self._recorder.bytes_came(connection, data)

    def closed(self, connection: Connection) -> None:
        """Note the time at which a client went away."""
        event = "client-closed" if connection.is_left else "closed"
        self.note(event, connection=connection.number, is_busy=connection.busy)

    async def __call__(self, connection: Connection, request: Request) -> None:
        """Answer one request with its fault."""
        if self._recorder is not None:
            self._recorder.request_came(request)
        body = json.loads(request.body) if request.body else {}
        control = self._chosen(request, body)
        mode = str(control.get("mode", "ok"))
        self._number += 1
        self.note("request", connection=connection.number, model=body.get("model"), mode=mode)
        if mode in _STATUS_MODES:
            await self._status(connection, {**_STATUS_MODES[mode], **control})
        elif mode == "refuse":
            connection.abort()
        elif mode == "silence":
            await connection.closed.wait()
        elif mode == "wrong-content-type":
            await connection.answer(200, b"<html><body>Welcome</body></html>", content_type="text/html")
        elif mode == "raw":
            await self._raw(connection, control)
        elif body.get("stream"):
            await self._stream(connection, body, mode, control)
        else:
            await self._plain(connection, body, mode, control)
        if not connection.is_left:
            self.note("finished", connection=connection.number, mode=mode)

    def _controlled(self) -> dict[str, Any]:
        if self._control is None or not self._control.exists():
            return {}
        text = self._control.read_text("utf-8")
        found: dict[str, Any] = json.loads(text) if text.strip() else {}
        return found

    def _chosen(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        control = self._controlled()
        if control.get("mode"):
            return control
        query = dict(parse_qsl(urlsplit(request.path).query))
        if query.get("mode"):
            return dict(query)
        model = str(body.get("model", ""))
        return {"mode": model.removeprefix("fault-")} if model.startswith("fault-") else {}

    async def _status(self, connection: Connection, control: dict[str, Any]) -> None:
        extra = ""
        if "retry_after" in control:
            extra += f"retry-after: {control['retry_after']}\r\n"
        if "location" in control:
            extra += f"location: {control['location']}\r\n"
        error = {"message": "standin-provider-words", "type": "server_error", "param": None, "code": None}
        await connection.answer(int(control["status"]), json.dumps({"error": error}).encode(), extra=extra)

    async def _raw(self, connection: Connection, control: dict[str, Any]) -> None:
        await connection.open_stream(control.get("content_type", "text/event-stream"))
        for piece in control.get("pieces", []):
            await connection.send_chunk(base64.b64decode(piece))
            await asyncio.sleep(float(control.get("delay_ms", 1)) / 1000)
        if control.get("cut"):
            connection.close()
        else:
            await connection.end_stream()

    async def _plain(
        self, connection: Connection, body: dict[str, Any], mode: str, control: dict[str, Any]
    ) -> None:
        answer = plain_answer(body, number=self._number, fingerprint=FINGERPRINT)
        match mode:
            case "two-finish":
                answer["choices"].append(answer["choices"][0])
            case "no-usage":
                answer.pop("usage")
            case "wrong-model":
                answer["model"] = "another-model"
            case "error-in-stream":
                answer = {"error": {"message": "standin-provider-words", "code": 500}}
            case "emit":
                answer["choices"][0]["message"]["content"] = control["text"]
            case "long-line" | "long-body" | "endless" | "endless-trickle":
                size = int(control.get("megabytes", 10 if mode == "long-line" else 64))
                answer["choices"][0]["message"]["content"] = "tide " * (size * 1024 * 1024 // 5)
        data = json.dumps(answer, ensure_ascii=False).encode()
        if mode in (
            "die-mid-event",
            "die-mid-utf8",
            "die-after-text",
            "silence-after-head",
            "pause-after-first",
        ):
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            await connection.send(head % len(data))
            if mode == "silence-after-head":
                await connection.closed.wait()
                return
            await connection.send(data[: len(data) // 2])
            if mode == "pause-after-first":
                await connection.closed.wait()
            connection.close()
        elif mode == "malformed-json":
            await connection.answer(200, data[:-3])
        elif mode == "trickle":
            await connection.open_stream("application/json")
            await self._trickle(connection, data, control)
            await connection.end_stream()
        else:
            await connection.answer(200, data)

    async def _trickle(self, connection: Connection, data: bytes, control: dict[str, Any]) -> None:
        for at in range(len(data)):
            await connection.send_chunk(data[at : at + 1])
            await asyncio.sleep(float(control.get("delay_ms", 5)) / 1000)

    async def _stream(
        self, connection: Connection, body: dict[str, Any], mode: str, control: dict[str, Any]
    ) -> None:
        await connection.open_stream()
        if mode == "silence-after-head":
            await connection.closed.wait()
            return
        events = list(streamed_answer(body, number=self._number, fingerprint=FINGERPRINT))
        head, done = events[: body.get("n", 1)], events[-1]

        def say(words: dict[str, Any], reason: str | None = None) -> bytes:
            return chunk(body, self._number, FINGERPRINT, [delta(0, words, reason)])

        match mode:
            case "endless" | "endless-trickle":
                await _send(connection, head)
                await self._endless(connection, say({"content": "tide "}), mode, control)
            case "pause-after-first":
                await _send(connection, [*head, say({"content": "The tide"})])
                await connection.closed.wait()
            case "long-line" | "long-body":
                await self._long(connection, head, say, mode, control)
            case "trickle":
                for event in events:
                    await self._trickle(connection, event, control)
            case "usage-everywhere":
                await self._usage_everywhere(connection, body)
            case "late-done":
                await _send(connection, events[:-1])
                await _pause(control, 1000)
                await _send(connection, [done])
            case "emit":
                await self._emit(connection, events, say, control)
            case _:
                await _send(connection, _altered(events, say, mode))
                if mode.startswith("die-"):
                    connection.close()
        if not connection.is_closed:
            await connection.end_stream()

    async def _emit(
        self, connection: Connection, events: list[bytes], say: Any, control: dict[str, Any]
    ) -> None:
        await _send(connection, events[:1])
        for piece in _pieces(control["text"], control.get("sizes") or [4]):
            await _send(connection, [say({"content": piece})])
            await _pause(control, 0)
        usage = [event for event in events if b'"choices":[]' in event]
        await _send(connection, [say({}, "stop"), *usage, events[-1]])

    async def _endless(
        self, connection: Connection, event: bytes, mode: str, control: dict[str, Any]
    ) -> None:
        pause = float(control.get("delay_ms", 20)) / 1000 if mode == "endless-trickle" else 0
        while not connection.is_closed:
            await connection.send_chunk(event)
            await asyncio.sleep(pause)

    async def _long(
        self, connection: Connection, head: list[bytes], say: Any, mode: str, control: dict[str, Any]
    ) -> None:
        for event in head:
            await connection.send_chunk(event)
        if mode == "long-line":
            event = say({"content": "tide " * (10 * 1024 * 1024 // 5)})
            for at in range(0, len(event), 65_536):
                await connection.send_chunk(event[at : at + 65_536])
            return
        event = say({"content": "tide " * 2_000})
        for _ in range(int(control.get("megabytes", 64)) * 100):
            if connection.is_closed:
                return
            await connection.send_chunk(event)

    async def _usage_everywhere(self, connection: Connection, body: dict[str, Any]) -> None:
        for count, word in enumerate(["The ", "tide ", "turns."], start=1):
            choices = [delta(0, {"role": "assistant", "content": word})]
            usage = usage_of(body, count)
            await connection.send_chunk(chunk(body, self._number, FINGERPRINT, choices, usage=usage))
        last = chunk(body, self._number, FINGERPRINT, [delta(0, {}, "stop")], usage=usage_of(body, 4))
        await connection.send_chunk(last)
        await connection.send_chunk(b"data: [DONE]\n\n")


async def _send(connection: Connection, pieces: list[bytes]) -> None:
    """Each piece as a chunk and a write of its own."""
    for piece in pieces:
        await connection.send_chunk(piece)
        await asyncio.sleep(0)


async def _pause(control: dict[str, Any], default_ms: float) -> None:
    await asyncio.sleep(float(control.get("delay_ms", default_ms)) / 1000)


def _altered(events: list[bytes], say: Any, mode: str) -> list[bytes]:
    """The events of a good answer with the fault of `mode` put in."""
    tail = [event for event in events if b'"finish_reason":"' in event]
    start, done = events[:4], events[-1]
    match mode:
        case "die-mid-event":
            return [*start, events[4][: len(events[4]) // 2]]
        case "die-mid-utf8":
            text = say({"content": "潮汐"})
            return [events[0], text[: text.find("汐".encode()) + 1]]
        case "die-after-text":
            return start
        case "malformed-json":
            return [events[0], b'data: {"choices": [\n\n', done]
        case "two-finish":
            return [*start, *tail, *tail, done]
        case "delta-after-finish":
            return [*start, *tail, say({"content": "more"}), done]
        case "no-usage":
            return [event for event in events if b'"choices":[]' not in event]
        case "no-done":
            return events[:-1]
        case "error-in-stream":
            return [*start, b'data: {"error": {"message": "standin-provider-words"}}\n\n']
        case "wrong-model":
            return [event.replace(b'"model":"', b'"model":"another-') for event in events]
    return events


def _pieces(text: str, sizes: list[int]) -> list[str]:
    """`text` cut into pieces of `sizes` characters; the last size repeats."""
    found = []
    at = 0
    turn = 0
    while at < len(text):
        size = max(1, sizes[min(turn, len(sizes) - 1)])
        found.append(text[at : at + size])
        at += size
        turn += 1
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--control", type=Path)
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    recorder = Recorder(given.record) if given.record else None
    standin = FaultStandin(given.log, given.control, recorder)
    hooks = Hooks(on_open=standin.opened, on_bytes=standin.bytes_came, on_close=standin.closed)
    asyncio.run(serve(standin, hooks, host=given.host, port=given.port))


if __name__ == "__main__":
    main()
