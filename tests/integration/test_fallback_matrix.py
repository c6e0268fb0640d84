"""A hosted provider that fails, with the private node behind it: who is asked next, what is recorded first.

The tenant may have one request in flight, so a reservation that is not given back is seen by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from tests.fakes.chat_answers import SENTENCES
from tests.fakes.fault_standin import read_log
from tests.fakes.hosted_standin import recorded_bytes
from tests.fakes.rig import chat, until
from tests.fakes.stack import GatewayProcess, copy_policies, start_child, start_gateway

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

#: What the hosted provider does, and why the next destination is asked.
FALLS_BACK = {
    "500": "upstream-failed",
    "401": "upstream-failed",
    "302": "upstream-failed",
    "503": "upstream-unavailable",
    "429": "upstream-rate-limited",
    "429-retry": "upstream-rate-limited",
    "wrong-content-type": "upstream-wrong-content-type",
}
#: What is the answer itself: a refusal of the request, a request that was accepted, or an answer that began.
STAYS = {
    "400": (400, "upstream-rejected"),
    "silence": (504, "upstream-first-byte-timeout"),
    "silence-after-head": (504, "upstream-idle-timeout"),
    "die-after-text": (200, "upstream-truncated"),
    "two-finish": (200, "upstream-malformed"),
    "no-done": (200, "upstream-truncated"),
}


@dataclass
class Pair:
    """A gateway with a failing hosted provider and a sound private node."""

    gateway: GatewayProcess
    folder: Path

    def fault(self, mode: str) -> None:
        draft = self.folder / "control.tmp"
        draft.write_text(json.dumps({"mode": mode}))
        draft.replace(self.folder / "control")

    def stored(self) -> list[dict[str, Any]]:
        source = StoredLog(OsFiles(self.gateway.state.audit, ()))
        return [json.loads(stored) for stored in stored_records(source)]

    def asked(self) -> tuple[int, int]:
        """Requests at the provider, bytes at the node."""
        requests = [entry for entry in read_log(self.folder / "log") if entry["event"] == "request"]
        return len(requests), len(recorded_bytes(self.folder / "private"))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("fallback")
    policies = copy_policies(folder / "policies")
    limits = policies / "limits.yaml"
    text = limits.read_text().replace("requests_per_minute: 600\n", "requests_per_minute: 100000\n")
    limits.write_text(text.replace("concurrency: 64", "concurrency: 1"))
    faulty = [
        "tests.fakes.fault_standin",
        "--port=0",
        f"--log={folder / 'log'}",
        f"--control={folder / 'control'}",
    ]
    sound = ["tests.fakes.hosted_standin", "--port=0", "--kind=vllm", f"--record={folder / 'private'}"]
    children = [start_child(faulty), start_child(sound)]
    gateway = None
    try:
        gateway = start_gateway(
            folder / "gw",
            hosted=children[0].url,
            private=children[1].url,
            policies=policies,
            endpoint_extra="first_byte_seconds = 2\nidle_seconds = 2",
        )
        yield Pair(gateway, folder)
    finally:
        if gateway is not None:
            gateway.stop()
        for child in children:
            child.stop()


def ask(pair: Pair, stream: bool) -> tuple[int, str, str]:
    """Status, destination and body of one ordinary request."""
    with pair.gateway.client(timeout=60) as client:
        answer = client.post("/v1/chat/completions", json=chat("hello", stream=stream))
    return answer.status_code, answer.headers["x-tidegate-destination"], answer.text


def said(text: str) -> str:
    """The words of a streamed answer, however its deltas were joined."""
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def sound_again(pair: Pair) -> None:
    """Closes the breaker, lifts the limit that a 429 left, and shows that no lease was kept."""
    pair.fault("ok")
    until(lambda: ask(pair, False)[:2] == (200, "hosted-openai"), 60)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", FALLS_BACK)
def test_the_next_destination_of_the_permit_answers(pair: Pair, mode: str, stream: bool) -> None:
    pair.fault(mode)
    before, asked = len(pair.stored()), pair.asked()
    status, destination, text = ask(pair, stream)
    assert (status, destination) == (200, "private-moe")
    assert SENTENCES[0] in (said(text) if stream else text)
    assert ("[DONE]" in text) is stream
    admitted, attempt, completed = pair.stored()[before:]
    assert (admitted["phase"], completed["phase"]) == ("admitted", "completed")
    assert (attempt["event_type"], attempt["reason_code"]) == ("upstream-attempt", FALLS_BACK[mode])
    assert attempt["event"]["request_id"] == admitted["request_id"]
    assert attempt["event"]["intent_seq"] == admitted["seq"]
    assert attempt["event"]["destination"] == "private-moe"
    assert [each["outcome"] for each in completed["decision"]["route"]["attempts"]] == [
        FALLS_BACK[mode],
        "answered",
    ]
    usage = completed["result"]["usage"]
    assert usage["source"] == "provider"
    assert completed["decision"]["limits"]["settled_tokens"] == usage["input"] + usage["output"]
    assert pair.asked()[0] == asked[0] + 1
    sound_again(pair)


@pytest.mark.parametrize("mode", STAYS)
def test_what_was_refused_accepted_or_begun_goes_nowhere_else(pair: Pair, mode: str) -> None:
    pair.fault(mode)
    before, asked = len(pair.stored()), pair.asked()
    status, destination, text = ask(pair, stream=True)
    assert (status, destination) == (STAYS[mode][0], "hosted-openai")
    assert STAYS[mode][1] in text
    assert "[DONE]" not in text
    admitted, aborted = pair.stored()[before:]
    assert (admitted["phase"], aborted["phase"], aborted["reason_code"]) == (
        "admitted",
        "aborted",
        STAYS[mode][1],
    )
    assert pair.asked() == (asked[0] + 1, asked[1]), "not a byte to the next destination"
    sound_again(pair)
