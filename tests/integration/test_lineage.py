"""An answer to something restricted comes back without its question: a running gateway, a real store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.hosted_standin import recorded_bytes
from tests.fakes.rig import Rig, open_rig
from tests.fakes.stack import running_gateway, start_child
from tests.fakes.valkey_server import ValkeyServer

PLACE = "x-tidegate-destination"
#: Nothing that a detector knows; restricted only because its question was.
ANSWER = "The second reading came back worse than the first, and the treatment begins on Monday."


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_rig(tmp_path, faulty=True) as made:
        made.fault("emit", text=ANSWER)
        yield made


def ask(rig: Rig, messages: list[dict[str, Any]], stream: bool = False, **headers: str) -> httpx.Response:
    with rig.gateway.client() as client:
        body = {"model": "assistant", "messages": messages, "stream": stream}
        return client.post("/v1/chat/completions", json=body, headers=headers)


def begin(rig: Rig, stream: bool = False) -> str:
    """A restricted question; the words of its answer."""
    question = {"role": "user", "content": "What about account DE89 3704 0044 0532 0130 00?"}
    answer = ask(rig, [question], stream)
    assert answer.headers["x-tidegate-destination"] == "private-moe"
    if not stream:
        return str(answer.json()["choices"][0]["message"]["content"])
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for event in events for choice in json.loads(event)["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def history(said: str) -> list[dict[str, Any]]:
    """The conversation without its first question."""
    return [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "Say it in simpler words."},
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_the_answer_alone_stays_where_its_question_had_to_stay(rig: Rig, stream: bool) -> None:
    said = begin(rig, stream)
    assert said == ANSWER
    before = len(recorded_bytes(rig.hosted))
    with rig.watch() as seen:
        answer = ask(rig, history(f"\n{said}  "))
    assert answer.headers["x-tidegate-destination"] == "private-moe"
    assert answer.headers["x-tidegate-label"] == "restricted"
    assert seen.records[0]["decision"]["classifier"]["inherited"] == "restricted"
    assert len(recorded_bytes(rig.hosted)) == before


def test_words_that_were_never_said_may_go_where_they_could(rig: Rig) -> None:
    begin(rig)
    answer = ask(rig, history("The weather turns on Monday, and nobody begins anything."))
    assert answer.headers["x-tidegate-destination"] == "hosted-openai"


def test_it_is_known_again_after_a_restart_and_while_the_store_is_away(tmp_path: Path) -> None:
    """The embedded Valkey ends with its gateway, so a store of its own outlives two of them."""
    store = ValkeyServer()
    store.start()
    hosted = start_child(["tests.fakes.hosted_standin", "--port", "0", "--record", str(tmp_path / "hosted")])
    private = start_child(
        ["tests.fakes.hosted_standin", "--port", "0", "--kind", "vllm", "--record", str(tmp_path / "private")]
    )
    places: Any = {"hosted": hosted.url, "private": private.url, "redis_url": store.url}
    body: dict[str, Any] = {"model": "assistant"}
    try:
        with running_gateway(tmp_path / "gw", **places) as first, first.client() as client:
            body["messages"] = [{"role": "user", "content": "About DE89 3704 0044 0532 0130 00, please."}]
            said = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
        body["messages"] = history(said)
        with running_gateway(tmp_path / "gw", **places) as second, second.client() as client:
            answer = client.post("/v1/chat/completions", json=body)
            assert answer.headers["x-tidegate-destination"] == "private-moe"
            body["messages"] = history("Nobody here ever said anything like this before.")
            assert client.post("/v1/chat/completions", json=body).headers[PLACE] == "hosted-openai"
            store.kill()
            answer = client.post("/v1/chat/completions", json=body)
            assert answer.headers[PLACE] == "private-moe", "what cannot be looked up may be anything"
            assert answer.headers["x-tidegate-label"] == "restricted"
    finally:
        hosted.stop()
        private.stop()
        store.remove()
