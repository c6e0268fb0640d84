"""Answers that fail, leak or never end, and clients that leave or do not read, on a running gateway.

The tenant of these tests may have one request in flight, so a reservation that is not given back is seen
by the next request.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level
from gateway.errors import OutputBlocked
from gateway.output.rules import OutputProfile
from gateway.output.stream_filter import StreamFilter
from gateway.pipeline.admit import admit
from gateway.pipeline.relay import Relay
from tests.fakes.rig import RawAnswer, Rig, Seen, chat, no_trace, open_rig, until
from tests.fakes.rooms import Rooms, raw_request

pytestmark = pytest.mark.integration

MARK = "tide-tables-of-the-harbour"
#: Keeps a request on the private node, which is the one that fails here.
HOME = "X-Tidegate-Label: restricted"
WORDS = "standin-provider-words"
MODEL = "reference-moe"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    limits = {
        "requests_per_minute: 600\n    tokens_per_minute: 600000\n    concurrency: 64": (
            "requests_per_minute: 100000\n    tokens_per_minute: 1000000000\n    concurrency: 1"
        )
    }
    times = "first_byte_seconds = 1\nidle_seconds = 1\ntotal_seconds = 4"
    with open_rig(
        tmp_path_factory.mktemp("streams"),
        limits=limits,
        faulty=True,
        endpoint_extra=times,
        server_extra="write_timeout_seconds = 2",
    ) as rig:
        yield rig


@contextmanager
def fault(rig: Rig, mode: str, **more: Any) -> Iterator[Seen]:
    """The upstream fails so inside the block; after it the gateway serves, with nothing left over."""
    rig.fault(mode, **more)
    with rig.watch() as seen, rig.ended():
        yield seen
    rig.fault("ok")
    # One in flight is allowed: a lease that was kept would make this a 429. It also closes the breaker.
    assert rig.post(chat("x"), HOME).status == 200


def ask(rig: Rig, stream: bool, **more: Any) -> RawAnswer:
    if stream:
        more = {"stream": True, "stream_options": {"include_usage": True}, **more}
    return rig.post(chat(MARK, **more), HOME)


def events(answer: RawAnswer) -> list[Any]:
    """Data of the events of a stream; also checks that there is nothing but events with data."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    text = answer.body.decode("utf-8")
    assert text.endswith("\n\n")
    found: list[Any] = []
    for block in text[:-2].split("\n\n"):
        assert block.startswith("data: "), f"not a data line: {block[:80]!r}"
        assert "\n" not in block, f"more than one line: {block[:80]!r}"
        data = block.removeprefix("data: ")
        found.append(data if data == "[DONE]" else json.loads(data))
    return found


def text_of(answer: RawAnswer, stream: bool, choice: int = 0) -> str:
    """The content that a client gets to read."""
    if not stream:
        content = json.loads(answer.body)["choices"][choice]["message"]["content"]
        return str(content)
    words = []
    for event in events(answer):
        if event != "[DONE]" and "choices" in event:
            words += [c["delta"].get("content") or "" for c in event["choices"] if c["index"] == choice]
    return "".join(words)


def assert_clean(answer: RawAnswer, seen: Seen, stream: bool) -> None:
    """A whole answer, and its record."""
    assert answer.status == 200
    assert seen.reasons == [("admitted", "admitted"), ("completed", "completed")]
    if stream:
        assert events(answer)[-1] == "[DONE]"
        assert b'"finish_reason":"stop"' in answer.body


def assert_error(answer: RawAnswer, seen: Seen, status: int, code: str) -> None:
    """An HTTP error in OpenAI's shape, and the aborted record with its reason."""
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert b"[DONE]" not in answer.body
    assert_aborted(answer, seen, code, status)


def assert_in_band(answer: RawAnswer, seen: Seen, code: str, status: int = 502) -> None:
    """A stream that tells its failure at its end, and never looks whole."""
    assert answer.status == 200
    found = events(answer)
    assert found[-1]["error"]["code"] == code
    assert found[-1]["request_id"] == answer.headers["x-request-id"]
    assert all("error" not in event for event in found[:-1])
    assert b"[DONE]" not in answer.body
    assert b'"finish_reason":"' not in answer.body, "a cut answer has no finish reason"
    assert b'"usage":{' not in answer.body
    assert_aborted(answer, seen, code, status)


def assert_aborted(answer: RawAnswer, seen: Seen, code: str, status: int) -> None:
    assert seen.reasons == [("admitted", "admitted"), ("aborted", code)]
    assert seen.records[1]["result"]["status"] == status
    assert seen.grown(
        f'tidegate_pipeline_requests_total{{destination="private-moe",phase="aborted",reason="{code}"}}'
    )
    assert seen.hosted_bytes == b"", "a restricted request is not tried elsewhere"
    no_trace(answer, seen, MARK, WORDS, "standin")


# -- each fault of an upstream has one outcome -----------------------------------------------------

CUT = ("in-band", 502, "upstream-truncated")
BAD = ("in-band", 502, "upstream-malformed")
MATRIX: dict[tuple[str, bool], tuple[str, int, str]] = {
    ("silence", False): ("http", 504, "upstream-first-byte-timeout"),
    ("silence", True): ("http", 504, "upstream-first-byte-timeout"),
    ("silence-after-head", False): ("http", 504, "upstream-idle-timeout"),
    ("silence-after-head", True): ("http", 504, "upstream-idle-timeout"),
    ("pause-after-first", False): ("http", 504, "upstream-idle-timeout"),
    ("pause-after-first", True): ("in-band", 504, "upstream-idle-timeout"),
    ("die-mid-event", False): ("http", 502, "upstream-truncated"),
    ("die-mid-event", True): CUT,
    ("die-mid-utf8", False): ("http", 502, "upstream-truncated"),
    ("die-mid-utf8", True): CUT,
    ("die-after-text", False): ("http", 502, "upstream-truncated"),
    ("die-after-text", True): CUT,
    ("no-done", True): CUT,
    ("endless-trickle", True): ("in-band", 504, "upstream-total-timeout"),
    ("long-body", False): ("http", 502, "upstream-oversized"),
    ("long-body", True): ("in-band", 502, "upstream-oversized"),
    ("long-line", True): ("in-band", 502, "upstream-oversized"),
    ("wrong-content-type", False): ("http", 502, "upstream-wrong-content-type"),
    ("wrong-content-type", True): ("http", 502, "upstream-wrong-content-type"),
    ("malformed-json", False): ("http", 502, "upstream-truncated"),
    ("malformed-json", True): BAD,
    ("two-finish", False): ("http", 502, "upstream-malformed"),
    ("two-finish", True): BAD,
    ("delta-after-finish", True): BAD,
    ("wrong-model", False): ("http", 502, "upstream-malformed"),
    ("wrong-model", True): ("http", 502, "upstream-malformed"),
    ("error-in-stream", False): ("http", 502, "upstream-error-in-stream"),
    ("error-in-stream", True): ("in-band", 502, "upstream-error-in-stream"),
    ("500", False): ("http", 502, "upstream-failed"),
    ("500", True): ("http", 502, "upstream-failed"),
    ("503", False): ("http", 503, "upstream-unavailable"),
    ("503-retry", True): ("http", 503, "upstream-unavailable"),
    ("429", True): ("http", 429, "upstream-rate-limited"),
    ("429-retry", False): ("http", 429, "upstream-rate-limited"),
    ("401", False): ("http", 502, "upstream-failed"),
    ("400", True): ("http", 400, "upstream-rejected"),
    ("302", False): ("http", 502, "upstream-failed"),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "stream"), MATRIX)
def test_a_fault_of_the_upstream_has_one_outcome(rig: Rig, mode: str, stream: bool) -> None:
    kind, status, code = MATRIX[mode, stream]
    more = {"megabytes": 33} if mode == "long-body" else {}
    with fault(rig, mode, **more) as seen:
        answer = ask(rig, stream)
    if kind == "http":
        assert_error(answer, seen, status, code)
    else:
        assert_in_band(answer, seen, code, status)
    if status in {429, 503}:
        assert int(answer.headers["retry-after"]) == (7 if mode.endswith("retry") else 5)
    assert seen.records[1]["decision"]["limits"]["settled_tokens"] >= 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_that_is_reset_is_tried_once_more(rig: Rig, stream: bool) -> None:
    """Whether a reset shows while connecting or while sending is up to the kernel."""
    with fault(rig, "refuse") as seen:
        answer = ask(rig, stream)
    assert (answer.status, answer.code) in {(502, "upstream-disconnected"), (503, "upstream-unreachable")}
    assert_error(answer, seen, answer.status, answer.code)
    attempts = seen.records[1]["decision"]["route"]["attempts"]
    assert 1 <= len(attempts) <= 2
    assert len(attempts) == 2 or attempts[0]["outcome"] == "upstream-unreachable"
    assert (
        seen.grown('tidegate_upstream_events_total{destination="private-moe",event="retry"}')
        == len(attempts) - 1
    )


STATUSES = {
    403: (502, "upstream-failed"),
    404: (502, "upstream-failed"),
    408: (504, "upstream-timeout"),
    413: (413, "upstream-rejected"),
    418: (502, "upstream-failed"),
    422: (422, "upstream-rejected"),
    502: (502, "upstream-failed"),
    504: (504, "upstream-timeout"),
    204: (502, "upstream-malformed"),
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_of_the_upstream_has_one_outcome(rig: Rig, status: int) -> None:
    with fault(rig, "status", status=status) as seen:
        answer = ask(rig, stream=True)
    assert_error(answer, seen, *STATUSES[status])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["ok", "no-usage", "trickle", "late-done", "usage-everywhere"])
def test_an_answer_that_is_only_unusual_is_whole(rig: Rig, mode: str, stream: bool) -> None:
    with fault(rig, mode, delay_ms=0 if mode == "trickle" else 300) as seen:
        answer = ask(rig, stream)
    assert_clean(answer, seen, stream)
    assert text_of(answer, stream)
    usage = seen.records[1]["result"]["usage"]
    assert usage["source"] == ("estimate" if mode == "no-usage" else "provider")
    assert usage["output"] > 0


def test_an_endless_answer_ends_at_a_bound(rig: Rig) -> None:
    with fault(rig, "endless") as seen:
        answer = ask(rig, stream=True)
    [_, (_, code)] = seen.reasons
    assert code in {"upstream-oversized", "upstream-total-timeout"}
    assert_in_band(answer, seen, code, 502 if code == "upstream-oversized" else 504)
    assert rig.fault_events("client-closed")[-1]["is_busy"], "the upstream was cancelled"


def test_a_cut_answer_is_paid_for_as_far_as_it_came(rig: Rig) -> None:
    """F19, F72: what a provider will charge is settled by estimate, not forgotten."""
    for mode in ("die-after-text", "error-in-stream"):
        with fault(rig, mode) as seen:
            ask(rig, stream=True)
        aborted = seen.records[1]
        assert aborted["result"]["usage"]["source"] == "estimate"
        assert aborted["decision"]["limits"]["settled_tokens"] > 0
    with fault(rig, "503") as seen:
        ask(rig, stream=True)
    assert seen.records[1]["decision"]["limits"]["settled_tokens"] == 0, "nothing was accepted"


# -- 46, F2 to F5: the same masks on stream and plain ----------------------------------------------

KEY = (
    "sk-proj-"
    + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2bC3dE4fG5hJ6"
    + "T3BlbkFJ"
    + "k7L8m9N0p1Q2r3S4t5U6v7W8x9Y0z1A2"
)
SECRETS = {
    "iban": "DE89370400440532013000",
    "iban-in-groups": "DE89 3704 0044 0532 0130 00",
    "card": "4539 5787 6362 1486",
    "ssn": "536-22-8726",
    "e-mail": "jane.roe@harbour-office.co",
    "gitlab-token": "glpat-" + "x7Kq2mVb9RtZ4cWn8YpL",
    "aws-key": "AKIA" + "QYLPMN5HHHFPZAM2",
    "jwt": (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ."
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
    ),
}  # fmt: skip


def spoken(secret: str) -> str:
    return f"The account is {secret} and the gate closes at noon."


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_an_answer_is_masked_alike_plain_and_streamed_whatever_the_cut(
    rig: Rig, name: str
) -> None:
    """Two deltas, cut at every offset of the secret; then one character each."""
    secret = SECRETS[name]
    text = spoken(secret)
    start = text.index(secret)
    with fault(rig, "emit", text=text) as seen:
        plain = ask(rig, stream=False)
    assert_clean(plain, seen, stream=False)
    masked = text_of(plain, stream=False)
    assert "[redacted:" in masked
    assert secret not in plain.body.decode()
    no_trace(plain, seen, secret)
    cuts = [[offset, 10_000] for offset in range(start, start + len(secret) + 1)]
    rig.fault("ok")
    with rig.watch() as seen:
        for sizes in [*cuts, [1], [7], [start + 3, 1]]:
            rig.fault("emit", text=text, sizes=sizes)
            answer = ask(rig, stream=True)
            assert text_of(answer, stream=True) == masked, f"cut at {sizes}"
            assert secret.encode() not in answer.body
            assert events(answer)[-1] == "[DONE]"
    assert [reason for phase, reason in seen.reasons if phase == "aborted"] == []
    assert all(record["decision"].get("filters") for record in seen.records if record["phase"] == "completed")
    assert secret not in seen.log_text


def sse(words: dict[str, Any], reason: str | None = None, index: int = 0) -> bytes:
    """One chunk of an upstream."""
    choice = {"index": index, "delta": words, "finish_reason": reason}
    said = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(said, ensure_ascii=False).encode() + b"\n\n"


def pieces(*parts: bytes) -> list[str]:
    return [base64.b64encode(part).decode() for part in parts]


def test_a_secret_cut_by_the_network_at_every_byte_is_masked_too(rig: Rig) -> None:
    secret = SECRETS["iban"]
    event = sse({"content": spoken(secret)})
    head, end = sse({"role": "assistant", "content": ""}), sse({}, "stop") + b"data: [DONE]\n\n"
    start = event.index(secret.encode())
    for cut in range(start, start + len(secret) + 1):
        rig.fault("raw", pieces=pieces(head, event[:cut], event[cut:] + end))
        answer = ask(rig, stream=True)
        assert "[redacted:" in text_of(answer, stream=True)
        assert secret.encode() not in answer.body


PAY = {
    "type": "function",
    "function": {"name": "pay", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    "channel", ["content", "reasoning_content", "reasoning", "refusal", "tool_calls", "second-choice"]
)
def test_a_secret_is_masked_in_every_channel(rig: Rig, channel: str) -> None:
    secret = SECRETS["iban"]
    halves = (f"It is {secret[:9]}", f"{secret[9:]} indeed.")
    index = 1 if channel == "second-choice" else 0
    body = [sse({"role": "assistant", "content": ""}, index=number) for number in range(index + 1)]
    if channel == "tool_calls":
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "pay", "arguments": ""}}
        body.append(sse({"tool_calls": [call]}))
        for half in (f'{{"to": "{secret[:9]}', f'{secret[9:]}"}}'):
            body.append(sse({"tool_calls": [{"index": 0, "function": {"arguments": half}}]}))
    else:
        name = "content" if channel == "second-choice" else channel
        body += [sse({name: half}, index=index) for half in halves]
    body += [sse({}, "stop", index=number) for number in range(index + 1)]
    with fault(rig, "raw", pieces=pieces(*body, b"data: [DONE]\n\n")) as seen:
        more = {"tools": [PAY]} if channel == "tool_calls" else {}
        answer = ask(rig, stream=True, n=index + 1, **more)
    assert_clean(answer, seen, stream=True)
    assert b"[redacted:iban]" in answer.body
    for part in (secret[9:], secret[4:9]):
        assert part.encode() not in answer.body
    if channel == "tool_calls":
        arguments = "".join(
            call["function"].get("arguments", "")
            for event in events(answer)[:-1]
            for choice in event["choices"]
            for call in choice["delta"].get("tool_calls", [])
        )
        assert json.loads(arguments)["to"].endswith("[redacted:iban]"), "still JSON"


def test_a_secret_early_in_a_long_answer_is_masked_before_and_prose_does_not_wait(rig: Rig) -> None:
    """F4, F5: nothing is shown and taken back, and nothing waits for the end."""
    secret = SECRETS["gitlab-token"]
    prose = " ".join(["The tide turns twice a day and the keeper notes it."] * 8)
    text = f"Use the token {secret} for the gate. {prose}"
    rig.fault("emit", text=text, sizes=[5], delay_ms=20)
    with rig.connect() as link:
        link.sendall(rig.request(chat(MARK, stream=True), HOME))
        began, data, first = time.monotonic(), b"", 0.0
        link.settimeout(10)
        while not data.endswith(b"0\r\n\r\n"):
            data += link.recv(65_536)
            assert secret.encode() not in data
            if not first and b"The tide" in data.replace(b'"content":"', b""):
                first = time.monotonic() - began
            if not first and data.count(b'"content":"') > 2:
                first = time.monotonic() - began
    total = time.monotonic() - began
    assert total > 1.0
    assert first < total / 4, f"first words after {first:.2f} s of {total:.2f} s"


# -- F8 to F15: what a stream is made of -----------------------------------------------------------

CJK = "潮汐は一日に二回変わる。🌊 Größe — 水門"


def test_characters_cut_by_the_network_arrive_whole(rig: Rig) -> None:
    """F8, F9, F10."""
    head = sse({"role": "assistant", "content": ""})
    wire = head + sse({"content": CJK}) + sse({}, "stop") + b"data: [DONE]\n\n"
    start = wire.index("潮".encode())
    size = len(CJK.encode())
    for cut in range(start, start + size):
        rig.fault("raw", pieces=pieces(wire[:cut], wire[cut:]), delay_ms=0)
        assert text_of(ask(rig, stream=True), stream=True) == CJK
    with fault(
        rig, "raw", pieces=pieces(*(wire[at : at + 1] for at in range(len(wire)))), delay_ms=0
    ) as seen:
        answer = ask(rig, stream=True)
    assert_clean(answer, seen, stream=True)
    assert text_of(answer, stream=True) == CJK
    assert "\ufffd" not in answer.body.decode()


def test_events_without_data_comments_and_heartbeats_do_not_reach_the_client(rig: Rig) -> None:
    """F11, F12, F14: `events` refuses a block that is not one data line."""
    beat = b": keepalive\n\n"
    wire = [
        b"\xef\xbb\xbfretry: 3000\n\n",
        b"id: 1\n\n",
        b": ping\n\n",
        sse({"role": "assistant", "content": ""}),
        b"id: 2\nevent: message\n" + sse({"content": "The tide"}),
        beat,
        sse({"content": " is"})[:-1] + b": within\n\n",
        sse({"content": " high."}).replace(b"\n\n", b"\r\n\r\n"),
        b"event: ping\n\n",
        sse({}, "stop"),
        beat * 3,
        b"data: [DONE]\n\n",
    ]
    with fault(rig, "raw", pieces=pieces(*wire)) as seen:
        answer = ask(rig, stream=True)
    assert_clean(answer, seen, stream=True)
    assert text_of(answer, stream=True) == "The tide is high."
    for word in (b"retry", b"ping", b"keepalive", b"within", b"\nid"):
        assert word not in answer.body


@pytest.mark.parametrize("mode", ["ok", "usage-everywhere", "no-usage"])
@pytest.mark.parametrize("wants_usage", [True, False])
def test_usage_comes_once_at_the_end_in_a_chunk_without_choices(
    rig: Rig, mode: str, wants_usage: bool
) -> None:
    """F15."""
    with fault(rig, mode) as seen:
        options = {"include_usage": True} if wants_usage else None
        answer = rig.post(chat(MARK, stream=True, stream_options=options), HOME)
    assert_clean(answer, seen, stream=True)
    chunks = events(answer)[:-1]
    told = [chunk for chunk in chunks if chunk.get("usage")]
    assert len(told) == int(wants_usage and mode != "no-usage")
    for chunk in told:
        assert chunk["choices"] == []
        assert chunk is chunks[-1]
    for chunk in chunks:
        assert chunk["choices"] or chunk in told
        assert ("usage" in chunk) == wants_usage
        for choice in chunk["choices"]:
            assert "finish_reason" in choice
    assert [c["finish_reason"] for chunk in chunks for c in chunk["choices"]].count("stop") == 1


def test_a_server_of_vllms_kind_is_asked_for_usage_in_its_own_words(rig: Rig) -> None:
    """F17."""
    with fault(rig, "ok"):
        rig.post(chat(MARK, stream=True), HOME)
    asked = (rig.private / "requests.jsonl").read_text().splitlines()
    bodies = [json.loads(json.loads(line)["body"]) for line in asked]
    streamed = [body for body in bodies if body.get("stream")]
    assert streamed
    assert all(body["stream_options"] == {"include_usage": True} for body in streamed)
    assert all("stream_usage" not in body for body in bodies)


# -- F21, F25, 19: clients that leave, and clients that do not read --------------------------------

LEAVING = {
    "before-the-first-byte-plain": ("silence", False, b""),
    "before-the-first-byte-stream": ("silence", True, b""),
    "after-the-head": ("silence-after-head", True, b""),
    "within-a-plain-body": ("pause-after-first", False, b""),
    "between-events": ("endless-trickle", True, b"tide"),
    "within-a-silence": ("pause-after-first", True, b"The tide"),
}


@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("name", LEAVING)
def test_when_the_client_leaves_the_upstream_is_cancelled_within_a_second(
    rig: Rig, name: str, is_pipelined: bool
) -> None:
    mode, stream, wait_for = LEAVING[name]
    asked, closed = len(rig.fault_events("request")), cancelled_count(rig)
    with fault(rig, mode) as seen:
        with rig.connect() as link:
            link.sendall(rig.request(chat(MARK, stream=stream), HOME))
            until(lambda: len(rig.fault_events("request")) > asked, 5)
            data = b""
            while wait_for not in data:
                data += link.recv(4096)
            if is_pipelined:
                link.sendall(rig.request(chat(MARK), HOME))
                time.sleep(0.1)
            left_at = time.monotonic()
        until(lambda: cancelled_count(rig) > closed, 3)
        gone = [entry for entry in rig.fault_events("client-closed") if entry["is_busy"]][closed]
    assert gone["at_mono"] - left_at < 1.0
    assert seen.reasons[:2] == [("admitted", "admitted"), ("aborted", "client-disconnected")]
    assert len(rig.fault_events("request")) <= asked + 2, "what was pipelined is not served to nobody"
    result = seen.records[1]["result"]
    assert result["client_disconnected"] is True
    assert result["status"] == 499
    assert MARK not in seen.log_text


def cancelled_count(rig: Rig) -> int:
    """How often the upstream was left in the middle of an answer."""
    return sum(entry["is_busy"] for entry in rig.fault_events("client-closed"))


def resident_kib(rig: Rig) -> int:
    text = Path(f"/proc/{rig.gateway.process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0])


def test_a_client_that_never_reads_is_given_up_at_the_write_deadline(rig: Rig) -> None:
    """19, F25: and meanwhile nothing piles up."""
    closed = cancelled_count(rig)
    # Large events: more than all buffers of the system, less than the bound of an answer.
    with fault(rig, "long-body") as seen, rig.connect() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        before = resident_kib(rig)
        began = time.monotonic()
        link.sendall(rig.request(chat(MARK, stream=True), HOME))
        most = 0
        while cancelled_count(rig) == closed:
            most = max(most, resident_kib(rig) - before)
            assert time.monotonic() - began < 8, "the upstream still sends"
            time.sleep(0.1)
    assert seen.reasons == [("admitted", "admitted"), ("aborted", "client-stalled")]
    assert most < 16 * 1024, f"{most} KiB piled up"
    assert MARK not in seen.log_text


def test_a_client_that_reads_slowly_slows_the_upstream_and_fills_no_memory(rig: Rig) -> None:
    """F25."""
    with fault(rig, "long-body"), rig.connect() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        before = resident_kib(rig)
        link.sendall(rig.request(chat(MARK, stream=True), HOME))
        most, got = 0, 0
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            got += len(link.recv(2048))
            most = max(most, resident_kib(rig) - before)
            time.sleep(0.02)
    assert got > 20_000, "it was served all the while"
    assert most < 16 * 1024, f"{most} KiB piled up"


# -- 50: the filter fails --------------------------------------------------------------------------


def test_when_the_filter_has_no_time_left_the_answer_is_an_error_and_nothing_of_it_is_shown(
    tmp_path: Path,
) -> None:
    secret = SECRETS["iban"]
    with open_rig(tmp_path, faulty=True, extra="\n[output]\nbudget_ms = 0\n") as rig:
        rig.fault("emit", text=f"The gate opens. {spoken(secret)} UNFILTERED-TAIL", delay_ms=10)
        for stream in (True, False):
            with rig.watch() as seen:
                answer = ask(rig, stream)
            assert_error(answer, seen, 502, "output-blocked")
            for word in (secret, secret[:10], "UNFILTERED-TAIL", "closes at noon"):
                assert word.encode() not in answer.body


class Listener:
    """An ASGI client that collects."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        async for message in self._never():
            return message
        raise AssertionError

    async def _never(self) -> AsyncIterator[dict[str, Any]]:
        import asyncio

        await asyncio.Event().wait()
        yield {}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


@pytest.mark.parametrize("how", ["raises", "raises-blocked", "lies", "is-slow"])
@pytest.mark.parametrize("stream", [True, False])
async def test_when_a_finder_fails_mid_stream_nothing_unscanned_follows(how: str, stream: bool) -> None:
    now = [0]

    def find(text: str) -> tuple[Finding, ...]:
        if "4539" in text:
            if how == "raises":
                raise RuntimeError(text)
            if how == "raises-blocked":
                raise OutputBlocked("stopped")
            if how == "lies":
                return (Finding("card", "fake@1", Label(Level.RESTRICTED), 0, 10_000),)
            now[0] += 10**9
        return ()

    rooms = Rooms()
    rooms.filter = StreamFilter(find, OutputProfile("default"), lambda: now[0], 50_000_000)  # type: ignore[assignment]
    words = [sse({"role": "assistant", "content": ""}), sse({"content": "Good words. "})]
    words += [sse({"content": "4539578763621486 "}), sse({"content": "UNFILTERED-TAIL"})]
    whole = [*words, sse({}, "stop"), b"data: [DONE]\n\n"]
    text = "Good words. 4539578763621486 UNFILTERED-TAIL"
    message = {"role": "assistant", "content": text}
    said = {"id": "x", "created": 1, "model": MODEL}
    plain = {**said, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    rooms.configured = frozenset({"private-moe"})
    rooms.upstream.scripts = {"private-moe": whole if stream else [json.dumps(plain).encode()]}
    walk, snapshot = rooms.walk(), rooms.snapshot()
    body = json.dumps(chat("hi", stream=stream)).encode()
    listener = Listener()
    admitted = await admit(walk, snapshot, raw_request(body))
    await Relay(walk, snapshot, admitted, 0, 1)({}, listener.receive, listener.send)
    assert listener.status == (200 if stream else 502)
    assert b'"code":"output-blocked"' in listener.body or b'"code":"internal-error"' in listener.body
    for word in (b"UNFILTERED-TAIL", b"4539", b"[DONE]", b'"finish_reason":"stop"'):
        assert word not in listener.body
    assert rooms.journal.phases == ["admitted", "aborted"]
    assert len(rooms.limiter.settled) == 1
    assert rooms.upstream.answers[0].is_closed
