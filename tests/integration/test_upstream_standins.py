"""The stand-ins do what other tests rely on: they keep every byte, fail as told and note who leaves."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.dialects.openai_answer import ChatPlainDecoder, ChatStreamDecoder
from gateway.domain.stream import AnswerEnd, Finish, StreamEvent, TextDelta, ToolCallStart, UsageReport
from gateway.errors import UpstreamFailed
from tests.fakes.fault_standin import read_log
from tests.fakes.hosted_standin import recorded_bytes, recorded_requests
from tests.unit.dialects.chat_bodies import asked, place

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
PATH = "/v1/chat/completions"


@contextmanager
def standin(name: str, *arguments: str) -> Iterator[int]:
    """A running stand-in; gives its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.fakes.{name}", *arguments], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode()
        assert line.startswith("listening on ")
        yield int(line.split()[-1])
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()


def post(port: int, body: dict[str, Any], path: str = PATH) -> tuple[int, bytes]:
    """Status and body of one request; what came of it when the body was cut."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body, separators=(",", ":")))
        answer = connection.getresponse()
        try:
            return answer.status, answer.read()
        except http.client.IncompleteRead as cut:
            return answer.status, cut.partial
    finally:
        connection.close()


def request(stream: bool, **fields: Any) -> dict[str, Any]:
    """A request body for model `moe`."""
    body = {"model": "moe", "messages": [{"role": "user", "content": "Hello"}], "stream": stream, **fields}
    return body | ({"stream_options": {"include_usage": True}} if stream else {})


def events_of(answer: bytes, stream: bool, n: int = 1, **sampling: Any) -> list[StreamEvent]:
    """The answer as the gateway reads it."""
    decoder = (ChatStreamDecoder if stream else ChatPlainDecoder)(
        place(), asked(n=n, stream=stream, **sampling)
    )
    pieces = [answer[at : at + 50_000] for at in range(0, len(answer), 50_000)]
    return [*[item for piece in pieces for item in decoder.feed(piece)], *decoder.flush()]


def text_of(events: list[StreamEvent], choice: int = 0) -> str:
    """The text of one choice."""
    return "".join(item.text for item in events if isinstance(item, TextDelta) and item.choice == choice)


@pytest.mark.parametrize("name", ["hosted_standin", "fast_standin"])
def test_a_good_standin_answers_what_the_gateway_reads(name: str, tmp_path: Path) -> None:
    with standin(name, *(["--record", str(tmp_path)] if name == "hosted_standin" else [])) as port:
        for stream in (False, True):
            status, answer = post(port, request(stream))
            events = events_of(answer, stream)
            assert (status, events[-1]) == (200, AnswerEnd())
            assert isinstance(events[-2], UsageReport)
            assert text_of(events).startswith("The tide turns twice a day")


def test_the_hosted_standin_answers_tools_choices_and_log_probabilities(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "look", "parameters": schema}}]
    with standin("hosted_standin", "--record", str(tmp_path)) as port:
        for stream in (False, True):
            _, answer = post(port, request(stream, tools=tools, tool_choice="required"))
            events = events_of(answer, stream)
            assert [item.name for item in events if isinstance(item, ToolCallStart)] == ["look"]
            assert json.loads(text_of(events)) == {"city": "harbour"}
            _, answer = post(port, request(stream, n=2, logprobs=True, max_completion_tokens=3))
            events = events_of(answer, stream, n=2, logprobs=True)
            assert [item.reason for item in events if isinstance(item, Finish)] == ["length", "length"]
            assert text_of(events, 0) != text_of(events, 1)
            assert any(isinstance(item, TextDelta) and item.logprobs for item in events)


def test_the_hosted_standin_keeps_every_byte_before_it_answers(tmp_path: Path) -> None:
    with standin("hosted_standin", "--record", str(tmp_path)) as port:
        post(port, request(False))
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nx-part: half-a-request")
            for _ in range(200):
                if b"half-a-request" in recorded_bytes(tmp_path):
                    break
                time.sleep(0.01)
        kept = recorded_bytes(tmp_path)
    assert b'"content":"Hello"' in kept
    assert b"half-a-request" in kept
    assert [json.loads(line["body"])["model"] for line in recorded_requests(tmp_path)] == ["moe"]


def test_the_hosted_standin_refuses_what_the_real_one_refuses(tmp_path: Path) -> None:
    with standin("hosted_standin", "--record", str(tmp_path), "--api-key", "k") as port:
        assert post(port, request(False))[0] == 401
    with standin("hosted_standin", "--record", str(tmp_path)) as port:
        assert post(port, request(False, cache_salt="s"))[0] == 400
    with standin("hosted_standin", "--record", str(tmp_path), "--kind", "vllm") as port:
        assert post(port, request(False, cache_salt="s"))[0] == 200


STREAM_FAULTS = {
    "die-mid-event": "upstream-truncated",
    "die-mid-utf8": "upstream-truncated",
    "die-after-text": "upstream-truncated",
    "no-done": "upstream-truncated",
    "malformed-json": "upstream-malformed",
    "two-finish": "upstream-malformed",
    "delta-after-finish": "upstream-malformed",
    "wrong-model": "upstream-malformed",
    "error-in-stream": "upstream-error-in-stream",
    "long-line": "upstream-oversized",
    "wrong-content-type": "upstream-truncated",
}
PLAIN_FAULTS = {
    "die-mid-event": "upstream-truncated",
    "malformed-json": "upstream-truncated",
    "two-finish": "upstream-malformed",
    "wrong-model": "upstream-malformed",
    "error-in-stream": "upstream-error-in-stream",
    "wrong-content-type": "upstream-malformed",
}


def test_each_fault_is_read_as_its_own_failure(tmp_path: Path) -> None:
    with standin("fault_standin", "--log", str(tmp_path / "log")) as port:
        for stream, faults in ((True, STREAM_FAULTS), (False, PLAIN_FAULTS)):
            for mode, code in faults.items():
                _, answer = post(port, request(stream), f"{PATH}?mode={mode}")
                with pytest.raises(UpstreamFailed) as caught:
                    events_of(answer, stream)
                assert (mode, caught.value.code) == (mode, code)


def test_harmless_oddities_are_still_answers(tmp_path: Path) -> None:
    with standin("fault_standin", "--log", str(tmp_path / "log")) as port:
        for mode in ("ok", "no-usage", "usage-everywhere", "late-done"):
            _, answer = post(port, request(True), f"{PATH}?mode={mode}&delay_ms=10")
            assert (mode, events_of(answer, True)[-1]) == (mode, AnswerEnd())
        assert events_of(post(port, request(False), f"{PATH}?mode=no-usage")[1], False)[-1] == AnswerEnd()


def test_statuses_come_with_and_without_retry_after(tmp_path: Path) -> None:
    with standin("fault_standin", "--log", str(tmp_path / "log")) as port:
        for mode, status in (("429-retry", 429), ("500", 500), ("503", 503)):
            assert post(port, request(True), f"{PATH}?mode={mode}")[0] == status
        assert post(port, {**request(True), "model": "fault-429"})[0] == 429


def test_the_control_file_decides_anew_for_each_request(tmp_path: Path) -> None:
    control = tmp_path / "control"
    text = "My IBAN is DE89 3704 0044 0532 0130 00, 潮汐."
    with standin("fault_standin", "--log", str(tmp_path / "log"), "--control", str(control)) as port:
        for sizes in ([1], [3, 1, 7], [500]):
            control.write_text(json.dumps({"mode": "emit", "text": text, "sizes": sizes}))
            assert text_of(events_of(post(port, request(True))[1], True)) == text
        assert text_of(events_of(post(port, request(False))[1], False)) == text
        pieces = [base64.b64encode(b"data: a").decode(), base64.b64encode(b"b\n\n").decode()]
        control.write_text(json.dumps({"mode": "raw", "pieces": pieces}))
        assert post(port, request(True))[1] == b"data: ab\n\n"
        control.write_text(json.dumps({"mode": "refuse"}))
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            post(port, request(True))


@pytest.mark.parametrize("mode", ["silence", "silence-after-head", "pause-after-first", "endless-trickle"])
def test_the_log_tells_when_a_client_leaves_a_running_answer(mode: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with standin("fault_standin", "--log", str(log)) as port:
        body = json.dumps(request(True)).encode()
        head = f"POST {PATH}?mode={mode} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(head.encode() + body)
            while not any(line["event"] == "request" for line in read_log(log)):
                time.sleep(0.01)
            left_at = time.monotonic()
        for _ in range(300):
            left = [line for line in read_log(log) if line["event"] == "client-closed"]
            if left:
                break
            time.sleep(0.01)
    assert left[0]["is_busy"] is True
    assert left_at <= left[0]["at_mono"] < left_at + 1
