"""Slow strangers, slow readers and a slow disk: nobody's slowness takes the gateway away from others."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import time
from pathlib import Path

import httpx
import pytest

from gateway.audit.canonical import WriterContext
from gateway.audit.clock import boot_id
from gateway.audit.commit import CommitLimits
from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.keys import PemKey, new_pem
from gateway.audit.store import FileStore, StoredLog
from gateway.audit.verify import verify_log
from gateway.audit.writer import JOURNAL_BYTES, AuditLog
from gateway.pipeline.admit import admit
from gateway.pipeline.relay import Relay
from tests.fakes.rooms import Rooms, raw_request
from tests.fakes.stack import GatewayProcess, running_gateway, start_child
from tests.unit.pipeline.test_relay import PLAIN, Client, body, with_upstream

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
QUESTION = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}


def connect(gateway: GatewayProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(gateway.base_url.rsplit(":", 1)[1])))


def in_flight(gateway: GatewayProcess) -> float:
    lines = httpx.get(gateway.base_url + "/metrics", trust_env=False).text.splitlines()
    [line] = [each for each in lines if each.startswith("tidegate_web_in_flight_requests ")]
    return float(line.split()[1])


def test_strangers_who_send_slowly_do_not_turn_callers_away(tmp_path: Path) -> None:
    node = start_child(
        ["tests.fakes.hosted_standin", "--port=0", f"--record={tmp_path / 'node'}", "--kind=vllm"]
    )
    try:
        with running_gateway(tmp_path / "gw", private=node.url, server_extra="max_in_flight = 8") as gateway:
            strangers = [connect(gateway) for _ in range(8)]
            for link in strangers:
                link.sendall(
                    f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
                    + b"Content-Length: 100\r\n\r\n{"
                )
            time.sleep(0.3)
            with gateway.client() as client:
                assert client.post(CHAT, json=QUESTION).status_code == 200
            for link in strangers:
                link.close()
    finally:
        node.stop()


def test_a_client_that_never_reads_the_last_bytes_is_let_go(tmp_path: Path) -> None:
    answer = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "reference-moe",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "word " * 2_400_000},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    control = tmp_path / "control.json"
    piece = base64.b64encode(json.dumps(answer).encode()).decode()
    control.write_text(json.dumps({"mode": "raw", "content_type": "application/json", "pieces": [piece]}))
    node = start_child(
        ["tests.fakes.fault_standin", "--port=0", f"--log={tmp_path / 'log'}", f"--control={control}"]
    )
    try:
        with running_gateway(
            tmp_path / "gw", private=node.url, server_extra="write_timeout_seconds = 1"
        ) as gateway:
            payload = json.dumps(QUESTION).encode()
            request = (
                f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {gateway.token()}\r\nContent-Length: {len(payload)}\r\n\r\n"
            ).encode() + payload
            link = connect(gateway)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.sendall(request + request)  # the first answer fills the buffers, the second cannot be sent
            deadline = time.monotonic() + 15
            time.sleep(1.0)
            while in_flight(gateway) > 0:
                assert time.monotonic() < deadline, "a slot is held by a client that does not read"
                time.sleep(0.2)
            link.close()
    finally:
        node.stop()


class SlowFiles(OsFiles):
    """A disk whose sync takes `pause_seconds`."""

    pause_seconds = 0.0

    def sync(self, handle: int) -> None:
        time.sleep(SlowFiles.pause_seconds)
        super().sync(handle)


async def test_a_slow_disk_leaves_one_closing_record_and_the_client_gets_its_answer(tmp_path: Path) -> None:
    SlowFiles.pause_seconds = 0.0
    files = SlowFiles(tmp_path, ("segments", "checkpoints"))
    context = WriterContext("tidegate/local/0", "tests", "0" * 64, boot_id())
    store = FileStore(files, 1 << 20, JOURNAL_BYTES)
    log = AuditLog(store, PemKey(new_pem()), context, 0.25, CommitLimits(reserve_bytes=65_536))
    await log.start()
    rooms: Rooms = with_upstream(hosted_openai=[PLAIN])
    rooms.journal = log  # type: ignore[assignment]
    walk, snapshot = rooms.walk(), rooms.snapshot()
    admitted = await admit(walk, snapshot, raw_request(body(False)))
    SlowFiles.pause_seconds = 0.6  # longer than an intent may wait, shorter than a closing record may
    client = Client()
    await Relay(walk, snapshot, admitted, 0, 1)({}, client.receive, client.send)
    SlowFiles.pause_seconds = 0.0
    await asyncio.sleep(0.2)
    await log.close()
    source = StoredLog(OsFiles(tmp_path, ()))
    rows = [json.loads(record) for record in stored_records(source)]
    assert client.status == 200
    assert [row["phase"] for row in rows if row.get("request_id") == "req_1"] == ["admitted", "completed"]
    assert verify_log(source, None).surplus_outcomes == []
