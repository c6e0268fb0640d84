"""Hostile HTTP against a running gateway: framing, headers, size, slowness. Nothing of it gets further."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import ServerSettings
from tests.fakes.rig import CHAT, RawAnswer, Rig, Seen, chat, no_trace, open_rig, read_one

pytestmark = pytest.mark.integration

MARK = "tide-tables-of-the-harbour"
BODY = json.dumps(chat(MARK)).encode()
SIZE = len(BODY)
TIMEOUT_SECONDS = 2


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    limits = {
        "requests_per_minute: 600\n    tokens_per_minute: 600000": (
            "requests_per_minute: 100000\n    tokens_per_minute: 1000000000"
        ),
        "requests_per_minute: 1200": "requests_per_minute: 3",
    }
    times = f"header_timeout_seconds = {TIMEOUT_SECONDS}\nbody_timeout_seconds = {TIMEOUT_SECONDS}"
    with open_rig(tmp_path_factory.mktemp("http"), limits=limits, server_extra=times) as rig:
        yield rig


def chunked(body: bytes) -> bytes:
    return b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"


def second(rig: Rig) -> bytes:
    """A good request that hides behind a doubtful one."""
    return rig.request(chat(f"{MARK} smuggled"))


def assert_ended(answers: list[RawAnswer], seen: Seen, status: int, reason: str) -> None:
    """One refusal, a closed connection, a reason in log and counter, and nothing else at all."""
    assert [answer.status for answer in answers] == [status]
    assert answers[0].is_closed
    assert answers[0].code == reason
    assert answers[0].headers["connection"] == "close"
    assert [line["reason"] for line in seen.logged("connection refused")] == [reason]
    assert seen.grown(f'tidegate_web_refusals_total{{reason="{reason}"}}') == 1
    assert seen.records == []
    assert seen.upstream_bytes == b""
    no_trace(answers[0], seen, MARK)


# -- 10: where a request ends ----------------------------------------------------------------------

FRAMINGS: dict[str, Callable[[Rig], bytes]] = {
    "cl-and-te": lambda rig: rig.head("Transfer-Encoding: chunked", length=SIZE) + chunked(BODY),
    "te-and-short-cl": lambda rig: rig.head("Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "cl-twice-equal": lambda rig: rig.head(f"Content-Length: {SIZE}", length=SIZE) + BODY,
    "cl-twice-different": lambda rig: rig.head(f"Content-Length: {SIZE}", length=4) + BODY,
    "cl-list": lambda rig: rig.head(f"Content-Length: {SIZE}, {SIZE}") + BODY,
    "cl-plus": lambda rig: rig.head(f"Content-Length: +{SIZE}") + BODY,
    "cl-negative": lambda rig: rig.head("Content-Length: -1") + BODY,
    "cl-hex": lambda rig: rig.head(f"Content-Length: {SIZE:#x}") + BODY,
    "cl-overflow": lambda rig: rig.head(f"Content-Length: {2**64 + SIZE}") + BODY,
    "te-xchunked": lambda rig: rig.head("Transfer-Encoding: xchunked") + chunked(BODY),
    "te-chunked-identity": lambda rig: rig.head("Transfer-Encoding: chunked, identity") + chunked(BODY),
    "te-identity": lambda rig: rig.head("Transfer-Encoding: identity", length=SIZE) + BODY,
    "te-gzip-chunked": lambda rig: rig.head("Transfer-Encoding: gzip, chunked") + chunked(BODY),
    "te-twice": lambda rig: rig.head(*["Transfer-Encoding: chunked"] * 2) + chunked(BODY),
    "te-quoted": lambda rig: rig.head('Transfer-Encoding: "chunked"') + chunked(BODY),
    "te-vertical-tab": lambda rig: rig.head("Transfer-Encoding: \x0bchunked") + chunked(BODY),
    "te-space-before-colon": lambda rig: rig.head("Transfer-Encoding : chunked", length=SIZE) + chunked(BODY),
    "chunk-bare-lf": lambda rig: rig.head("Transfer-Encoding: chunked") + b"%x\n" % SIZE + BODY + b"\n0\n\n",
    "chunk-size-0x": lambda rig: rig.head("Transfer-Encoding: chunked") + b"0x" + chunked(BODY),
    "chunk-size-bad": lambda rig: rig.head("Transfer-Encoding: chunked") + b"zz\r\n" + BODY,
    "chunk-size-overflow": lambda rig: rig.head("Transfer-Encoding: chunked") + b"f" * 17 + b"\r\n" + BODY,
    "chunk-too-short": lambda rig: (
        rig.head("Transfer-Encoding: chunked") + b"%x\r\n" % (SIZE - 2) + BODY + b"\r\n0\r\n\r\n"
    ),
    "cl-in-trailer": lambda rig: (
        rig.head("Transfer-Encoding: chunked") + chunked(BODY)[:-2] + b"Content-Length: 3\r\n\r\n"
    ),
    "obs-fold": lambda rig: rig.head("X-A: b\r\n c", length=SIZE) + BODY,
    "obs-fold-first": lambda rig: (
        rig.head(length=SIZE).replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\n X: y\r\n", 1) + BODY
    ),
    "bare-lf": lambda rig: rig.head(length=SIZE).replace(b"\r\n", b"\n") + BODY,
    "bare-lf-one-line": lambda rig: (
        rig.head("X-A: b", length=SIZE).replace(b"X-A: b\r\n", b"X-A: b\n") + BODY
    ),
    "bare-cr": lambda rig: rig.head("X-A: b", length=SIZE).replace(b"X-A: b\r\n", b"X-A: b\r") + BODY,
    "space-before-colon": lambda rig: rig.head("X-A : b", length=SIZE) + BODY,
    "cl-space-before-colon": lambda rig: rig.head(f"Content-Length : {SIZE}") + BODY,
    "no-host": lambda rig: rig.head(length=SIZE).replace(b"Host: localhost\r\n", b"") + BODY,
    "two-hosts": lambda rig: rig.head("Host: elsewhere", length=SIZE) + BODY,
    "nul-in-target": lambda rig: rig.head(length=SIZE, path=f"{CHAT}\x00") + BODY,
    "http2-preface": lambda rig: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": lambda rig: bytes.fromhex("160301020001000001fc0303") + b"\0" * 64,
}


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_request_of_doubtful_framing_is_400_and_what_follows_is_not_served(rig: Rig, name: str) -> None:
    with rig.watch() as seen:
        answers = rig.send(FRAMINGS[name](rig) + second(rig))
    assert_ended(answers, seen, 400, "malformed-http")


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "TLS/1.0"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_the_body_of_an_upgrade_request_is_never_taken_for_a_request(
    rig: Rig, protocol: str, method: str
) -> None:
    hidden = second(rig)
    head = rig.head("Connection: Upgrade", f"Upgrade: {protocol}", length=len(hidden), method=method)
    with rig.watch() as seen, rig.connect() as link:
        link.sendall(head)
        time.sleep(0.1)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            link.sendall(hidden)
        answers = rig.read(link)
    assert_ended(answers, seen, 400, "upgrade-refused")


def test_a_body_refused_unread_is_not_taken_for_a_request(rig: Rig) -> None:
    hidden = second(rig)
    for lines, body in (
        ([f"Content-Length: {len(hidden)}"], hidden),
        (["Transfer-Encoding: chunked"], chunked(hidden)),
    ):
        head = rig.head(*lines).replace(b"application/json", b"text/plain")
        with rig.watch() as seen, rig.connect() as link:
            link.sendall(head)
            assert read_one(link).status == 415
            link.sendall(body)
            assert rig.read(link, first_seconds=0.5) == []
        assert seen.records == []
        assert seen.upstream_bytes == b""


def test_bytes_after_a_good_request_never_get_into_its_answer(rig: Rig) -> None:
    for body in (chat(MARK), chat(MARK, stream=True)):
        with rig.ended(), rig.connect() as link:
            link.sendall(rig.request(body))
            link.sendall(b"NONSENSE\r\n\r\n")
            data = b""
            try:
                while piece := link.recv(65_536):
                    data += piece
            except ConnectionResetError:
                pass
        # The good request is answered, or cut; a second answer may only follow a whole one.
        if data.count(b"HTTP/1.1 ") > 1:
            first, _, rest = data.partition(b"HTTP/1.1 400")
            assert first.endswith((b"}", b"0\r\n\r\n"))
            assert rest
        else:
            assert b"malformed-http" not in data or data.startswith(b"HTTP/1.1 400")


def test_good_requests_of_both_framings_and_pipelined_ones_are_served(rig: Rig) -> None:
    whole = rig.request(chat(MARK)) + rig.head("Transfer-Encoding: chunked") + chunked(BODY)
    with rig.watch() as seen:
        answers = rig.send(whole + rig.request(chat(MARK, stream=True)))
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [phase for phase, _ in seen.reasons].count("completed") == 3


def test_trailers_are_no_headers(rig: Rig) -> None:
    trailers = b"0\r\nX-Tidegate-Label: restricted\r\nX-Request-Id: from-the-trailer\r\n\r\n"
    with rig.watch() as seen:
        answer = rig.one(
            rig.head("Transfer-Encoding: chunked") + chunked(BODY).removesuffix(b"0\r\n\r\n") + trailers
        )
    assert answer.status == 200
    assert answer.headers["x-tidegate-label"] != "restricted"
    assert "client_request_ref" not in json.dumps(seen.records)
    bomb = b"0\r\nX-A: " + b"a" * 200_000
    with rig.watch() as seen:
        answers = rig.send(
            rig.head("Transfer-Encoding: chunked") + chunked(BODY).removesuffix(b"0\r\n\r\n") + bomb
        )
    assert_ended(answers, seen, 431, "headers-too-large")


# -- 11, 12, 13: what headers say ------------------------------------------------------------------

STRANGE = {"nul": "a\x00b-strange", "escape": "a\x1b[31mb-strange", "bell": "a\x07b-strange"}


@pytest.mark.parametrize("header", ["X-Request-Id", "X-Tenant", "X-Tidegate-Label"])
@pytest.mark.parametrize("kind", STRANGE)
def test_control_characters_in_a_header_end_the_connection(rig: Rig, header: str, kind: str) -> None:
    with rig.watch() as seen:
        answers = rig.send(rig.head(f"{header}: {STRANGE[kind]}", length=SIZE) + BODY + second(rig))
    assert_ended(answers, seen, 400, "malformed-http")
    no_trace(answers[0], seen, "b-strange")


@pytest.mark.parametrize("header", ["X-Request-Id", "X-Tidegate-Label"])
@pytest.mark.parametrize("value", ["caf\xe9-strange", "a\tb-strange", "s" * 129])
def test_a_header_value_that_is_not_plain_is_400_and_shown_nowhere(rig: Rig, header: str, value: str) -> None:
    with rig.watch() as seen:
        answer = rig.one(rig.head(f"{header}: {value}", length=SIZE) + BODY)
    assert (answer.status, answer.code) == (400, "invalid-header")
    assert [line["reason"] for line in seen.logged("request refused")] == ["invalid-header"]
    assert seen.grown('tidegate_web_refusals_total{reason="invalid-header"}') == 1
    assert seen.records == []
    assert seen.upstream_bytes == b""
    no_trace(answer, seen, value, "strange" if "strange" in value else value, MARK)


def test_crlf_in_a_header_value_is_only_another_header(rig: Rig) -> None:
    with rig.watch() as seen:
        answer = rig.one(rig.head("X-Request-Id: mine\r\nX-Injected: strange-value", length=SIZE) + BODY)
    assert answer.status == 200
    assert "x-injected" not in answer.headers
    no_trace(answer, seen, "strange-value", "mine\r\n")


SPOOFS = (
    "X-Forwarded-For: 10.66.66.66",
    "X-Real-Ip: 10.66.66.66",
    "Forwarded: for=10.66.66.66",
    "X-User-Id: root-of-all",
    "X-Tenant: acme",
    "X_Tenant: acme",
    "x_tenant: acme",
    "X-Tidegate-Tenant: acme",
    "X-Tenant-Id: acm\xe9",
    "X-Tidegate-Destination: hosted-openai",
    "X-Tidegate-Request-Id: req_chosen-by-the-caller",
    "X-Original-Url: /metrics",
    "X-Http-Method-Override: GET",
)


def test_headers_that_claim_another_caller_are_not_believed(rig: Rig) -> None:
    with rig.watch() as seen:
        answers = [rig.one(rig.head(*SPOOFS, length=SIZE) + BODY) for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 6, "acme's three requests a minute are not met"
    assert {record["who"]["tenant"] for record in seen.records} == {"demo"}
    for answer in answers:
        no_trace(answer, seen, "10.66.66.66", "root-of-all", "chosen-by-the-caller", "acm\xe9", MARK)
    for spoofed in (b"10.66.66.66", b"root-of-all", b"chosen-by-the-caller", b"acme"):
        assert spoofed not in seen.upstream_bytes, "no header of a client is passed on"


def test_the_limits_are_those_of_the_token(rig: Rig) -> None:
    token = rig.gateway.token("acme")
    request = rig.head("X-Tenant: demo", "x_tenant: demo", length=SIZE) + BODY
    request = request.replace(rig.token.encode(), token.encode())
    with rig.watch() as seen:
        statuses = [rig.one(request).status for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert {record["who"]["tenant"] for record in seen.records} == {"acme"}
    assert seen.reasons.count(("denied", "requests-limit-exceeded")) == 2


def test_a_request_id_of_the_client_is_kept_apart_from_the_servers_own(rig: Rig) -> None:
    first = rig.post(chat(MARK))
    taken = first.headers["x-request-id"]
    with rig.watch() as seen:
        answer = rig.post(chat(MARK), f"X-Request-Id: {taken}")
    assert answer.status == 200
    own = answer.headers["x-request-id"]
    assert own != taken
    assert answer.headers["x-tidegate-request-id"] == own
    assert {record["request_id"] for record in seen.records} == {own}
    assert taken not in json.dumps(seen.records), "the client's id is stored as a digest"
    assert "client_request_ref" in json.dumps(seen.records[0])
    assert taken not in answer.body.decode()


# -- 14: cost of hostile bodies --------------------------------------------------------------------


def cpu_seconds(rig: Rig) -> float:
    """User and system time of the gateway process, all threads."""
    fields = Path(f"/proc/{rig.gateway.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def keys(count: int) -> bytes:
    return b'{"model":"assistant","messages":[],' + b",".join(b'"k%d":1' % n for n in range(count)) + b"}"


def within_message(text: bytes) -> bytes:
    return b'{"model":"assistant","messages":[{"role":"user","content":' + text + b"}]}"


def in_schema(text: bytes) -> bytes:
    return (
        b'{"model":"assistant","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function",'
        b'"function":{"name":"f","parameters":{"a":' + text + b"}}}]}"
    )


MIB = 1024 * 1024
HOSTILE: dict[str, tuple[Callable[[], bytes], int, int]] = {
    # name: (body, status, how often)
    "array-50k-deep": (lambda: within_message(b"[" * 50_000 + b"]" * 50_000), 400, 20),
    "array-50k-deep-open": (lambda: b"[" * 50_000, 400, 20),
    "object-50k-deep": (lambda: b'{"a":' * 50_000 + b"1" + b"}" * 50_000, 400, 20),
    "schema-50k-deep": (lambda: in_schema(b'{"a":' * 50_000 + b"1" + b"}" * 50_000), 400, 20),
    "keys-300k": (lambda: keys(300_000), 400, 10),
    "keys-1m": (lambda: keys(1_000_000), 413, 5),
    "keys-100k-in-schema": (lambda: in_schema(keys(100_000)), 400, 10),
    "string-10mb": (lambda: within_message(b'"' + b"a" * (10 * MIB) + b'"'), 413, 5),
    "string-3mb-escapes-open": (lambda: within_message(b'"' + b"\\" * (3 * MIB)), 400, 10),
    "quotes-3mb": (lambda: b'"' * (3 * MIB), 400, 10),
    "commas-3mb": (lambda: b"[" + b"," * (3 * MIB), 400, 10),
    "integer-100k-digits": (lambda: b'{"model":"m","messages":[],"seed":' + b"9" * 100_000 + b"}", 400, 20),
    "integer-100k-digits-in-schema": (lambda: in_schema(b"9" * 100_000), 400, 20),
    "exponent-100k-digits": (lambda: in_schema(b"1e" + b"9" * 100_000), 400, 20),
    "fraction-100k-digits": (lambda: in_schema(b"0." + b"1" * 100_000), 400, 20),
}  # fmt: skip


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_for_less_than_50_ms_of_cpu(rig: Rig, name: str, framing: str) -> None:
    make, status, count = HOSTILE[name]
    body = make()
    if framing == "chunked":
        request = rig.head("Transfer-Encoding: chunked") + chunked(body)
    else:
        request = rig.head(length=len(body)) + body
    with rig.watch() as seen:
        before = cpu_seconds(rig)
        answers = [rig.one(request) for _ in range(count)]
        spent = (cpu_seconds(rig) - before) / count
    assert {answer.status for answer in answers} == {status}
    assert spent < 0.05, f"{spent * 1000:.0f} ms of CPU a request"
    assert seen.upstream_bytes == b""
    if status == 413:
        assert seen.records == []
        assert seen.grown('tidegate_web_refusals_total{reason="payload-too-large"}') == count
    else:
        assert [phase for phase, _ in seen.reasons] == ["denied"] * count
        assert {reason for _, reason in seen.reasons} == {answers[0].code}
    no_trace(answers[0], seen, "9" * 40, "k299999", "\\" * 40)


# -- 17: media -------------------------------------------------------------------------------------

MEDIA = {
    "none": "",
    "text": "Content-Type: text/plain",
    "form": "Content-Type: application/x-www-form-urlencoded",
    "multipart": "Content-Type: multipart/form-data; boundary=x",
    "like-json": "Content-Type: application/jsonx",
    "other-charset": "Content-Type: application/json; charset=utf-16",
    "two-parameters": "Content-Type: application/json; charset=utf-8; charset=utf-7",
    "gzip": "Content-Type: application/json\r\nContent-Encoding: gzip",
    "br": "Content-Type: application/json\r\nContent-Encoding: br",
    "zstd": "Content-Type: application/json\r\nContent-Encoding: zstd",
    "identity-gzip": "Content-Type: application/json\r\nContent-Encoding: identity, gzip",
}


@pytest.mark.parametrize("name", MEDIA)
def test_only_plain_json_is_read(rig: Rig, name: str) -> None:
    head = rig.head(length=SIZE).replace(b"Content-Type: application/json\r\n", b"")
    if MEDIA[name]:
        head = head.replace(b"\r\n\r\n", b"\r\n" + MEDIA[name].encode() + b"\r\n\r\n")
    with rig.watch() as seen:
        answer = rig.one(head + BODY)
    assert answer.status == 415
    assert answer.code in {"unsupported-media-type", "unsupported-content-encoding"}
    assert [line["reason"] for line in seen.logged("request refused")] == [answer.code]
    assert seen.records == []
    assert seen.upstream_bytes == b""
    no_trace(answer, seen, MARK)


def peak_kib(rig: Rig) -> int:
    """Highest resident size of the gateway process so far."""
    text = Path(f"/proc/{rig.gateway.process.pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize("encoding", ["gzip", "br", "x-unpacked"])
def test_a_compression_bomb_of_100_mib_is_415_and_takes_no_memory(rig: Rig, encoding: str) -> None:
    zeros = b"0" * MIB
    bomb = gzip.compress(zeros * 100, 6) if encoding == "gzip" else b""
    with rig.watch() as seen:
        before = peak_kib(rig)
        if encoding == "gzip":
            answer = rig.one(rig.head("Content-Encoding: gzip", length=len(bomb)) + bomb)
        else:
            with rig.connect() as link:
                link.sendall(rig.head(f"Content-Encoding: {encoding}", length=100 * MIB))
                answer = read_one(link)
                try:
                    for _ in range(100):
                        link.sendall(zeros)
                except (BrokenPipeError, ConnectionResetError):
                    pass
        grown = peak_kib(rig) - before
    assert (answer.status, answer.code) == (415, "unsupported-content-encoding")
    assert grown < 32 * 1024, f"{grown} KiB more"
    assert seen.records == []
    assert seen.upstream_bytes == b""


def test_a_body_too_large_without_a_length_takes_no_memory_either(rig: Rig) -> None:
    piece = b"%x\r\n" % MIB + b" " * MIB + b"\r\n"
    before = peak_kib(rig)
    with rig.connect() as link:
        link.sendall(rig.head("Transfer-Encoding: chunked"))
        try:
            for _ in range(100):
                link.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = read_one(link)
    assert (answer.status, answer.code) == (413, "payload-too-large")
    assert peak_kib(rig) - before < 32 * 1024


# -- 18: slowness and size of headers --------------------------------------------------------------


def seconds_until_closed(link: socket.socket, drip: bytes, pause: float = 0.1, most: float = 12.0) -> float:
    """Feed `drip` for ever; how long the gateway bears it."""
    began = time.monotonic()
    link.settimeout(pause)
    at = 0
    while time.monotonic() - began < most:
        try:
            link.sendall(drip[at % len(drip) : at % len(drip) + 1])
            at += 1
            if not link.recv(4096):
                return time.monotonic() - began
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            return time.monotonic() - began
    raise AssertionError("the gateway still listens")


def chunked_head(rig: Rig) -> bytes:
    return rig.head("Transfer-Encoding: chunked")


_LINE = b"POST /v1/chat/completions HTTP/1.1\r\nX-A: " + b"a" * 500
SLOW: dict[str, tuple[Callable[[Rig], bytes], bytes, str]] = {
    # name: (what is sent at once, what drips, reason)
    "headers-from-the-first-byte": (lambda rig: b"", _LINE, "header-timeout"),
    "headers-after-the-first": (lambda rig: rig.head()[:-2], b"X-A: b\r\n", "header-timeout"),
    "target": (lambda rig: b"GET /", b"a", "header-timeout"),
    "blank-lines": (lambda rig: b"GET /live HTTP/1.1\r\nHost: h\r\n\r\n", b"\r\n", "header-timeout"),
    "body": (lambda rig: rig.head(length=5000), b" ", "body-timeout"),
    "chunked-body": (chunked_head, b"1\r\n \r\n", "body-timeout"),
    "chunk-extension": (lambda rig: chunked_head(rig) + b"1;", b"a", "body-timeout"),
    "trailers": (lambda rig: chunked_head(rig) + chunked(BODY)[:-2], b"A: b\r\n", "body-timeout"),
    "body-already-refused": (
        lambda rig: rig.head("Content-Encoding: gzip", length=5000),
        b" ",
        "body-timeout",
    ),
    "body-of-a-get": (
        lambda rig: rig.head(length=5000, method="GET", path="/v1/models"),
        b" ",
        "body-timeout",
    ),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_client_is_let_go_in_time_with_a_reason(rig: Rig, name: str) -> None:
    at_once, drip, reason = SLOW[name]
    with rig.watch() as seen, rig.connect() as link:
        link.sendall(at_once(rig))
        seconds = seconds_until_closed(link, drip)
    assert seconds < TIMEOUT_SECONDS + 1.5
    assert seen.grown(f'tidegate_web_refusals_total{{reason="{reason}"}}') == 1
    assert seen.records == []
    assert seen.upstream_bytes == b""
    assert MARK not in seen.log_text


def test_a_connection_that_says_nothing_is_closed_too(rig: Rig) -> None:
    with rig.connect() as link:
        began = time.monotonic()
        link.settimeout(TIMEOUT_SECONDS + 2)
        assert link.recv(1) == b""
        assert time.monotonic() - began < TIMEOUT_SECONDS + 1.5


def test_the_times_of_a_gateway_that_says_nothing_of_them_are_ten_seconds_at_most() -> None:
    assert 0 < ServerSettings().header_timeout_seconds <= 10
    assert 0 < ServerSettings().body_timeout_seconds <= 10


LARGE: dict[str, Callable[[Rig], bytes]] = {
    "one-header": lambda rig: rig.head("X-A: " + "a" * 100_000, length=SIZE),
    "many-headers": lambda rig: rig.head(*[f"X-{n}: a" for n in range(12_000)], length=SIZE),
    "name": lambda rig: rig.head("X" * 100_000 + ": a", length=SIZE),
    "target": lambda rig: rig.head(length=SIZE, path=CHAT + "?" + "a" * 100_000),
    "authorization": lambda rig: rig.head("Authorization: Bearer " + "a" * 100_000, length=SIZE),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("pieces", [1, 40])
def test_a_header_block_of_100_kb_is_431_and_the_connection_ends(rig: Rig, name: str, pieces: int) -> None:
    data = LARGE[name](rig) + BODY + second(rig)
    step = len(data) // pieces + 1
    with rig.watch() as seen, rig.connect() as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), step):
            try:
                link.sendall(data[at : at + step])
            except (BrokenPipeError, ConnectionResetError):
                break
        answers = rig.read(link)
    assert_ended(answers, seen, 431, "headers-too-large")


def test_headers_without_an_end_are_cut_at_their_bound(rig: Rig) -> None:
    """Also within one line, where a parser has nothing to show yet."""
    before = peak_kib(rig)
    with rig.watch() as seen, rig.connect() as link:
        link.sendall(b"GET /live HTTP/1.1\r\nX-A: ")
        try:
            for _ in range(1000):
                link.sendall(b"a" * 65_536)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answers: list[Any] = []
        with contextlib.suppress(OSError):
            answers = rig.read(link)
    assert all(answer.status == 431 for answer in answers)
    assert seen.grown('tidegate_web_refusals_total{reason="headers-too-large"}') == 1
    assert peak_kib(rig) - before < 16 * 1024


def test_after_all_that_a_good_request_is_served(rig: Rig) -> None:
    assert rig.post(chat(MARK)).status == 200
