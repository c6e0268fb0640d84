"""A destination with one place: who waits, who is told to come back, who goes first."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.fakes.hosted_standin import recorded_bytes, recorded_requests
from tests.fakes.rig import Rig, open_rig, until

PLACES = "priority = true\nqueue = { running = 1, wait_seconds = 20 }"
PROMPT = {"model": "assistant", "messages": [{"role": "user", "content": "When does the lock open?"}]}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_rig(tmp_path, faulty=True, endpoint_extra=PLACES) as made:
        yield made


def client(rig: Rig, workload: str = "interactive", **headers: str) -> httpx.Client:
    return httpx.Client(
        base_url=rig.gateway.base_url,
        headers={
            **rig.gateway.headers(),
            "x-tidegate-label": "restricted",
            "x-tidegate-workload": workload,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
        timeout=60,
        trust_env=False,
    )


class Occupied:
    """The one place, taken by a stream that goes on until it is let go."""

    def __init__(self, rig: Rig) -> None:
        rig.fault("emit", text="The lock opens at noon. " * 400, sizes=[4], delay_ms=10)
        self._rig = rig
        self._go = threading.Event()
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with (
            client(self._rig) as caller,
            caller.stream("POST", "/v1/chat/completions", json={**PROMPT, "stream": True}) as answer,
        ):
            assert answer.status_code == 200
            pieces = answer.iter_bytes()
            next(pieces)
            self._began.set()
            self._go.wait(60)
            del pieces  # an iterator that is forgotten closes the answer

    def __enter__(self) -> Occupied:
        self._thread.start()
        assert self._began.wait(30)
        self._rig.fault("emit", text="At noon.")
        return self

    def let_go(self) -> None:
        self._go.set()

    def __exit__(self, *exc: object) -> None:
        self._go.set()
        self._thread.join(60)


def waiting(rig: Rig, workload: str) -> float:
    return rig.metrics()[
        f'tidegate_queue_waiting_requests{{destination="private-moe",workload="{workload}"}}'
    ]


def test_who_would_not_wait_is_told_to_come_back_and_nothing_of_it_reaches_the_node(rig: Rig) -> None:
    with Occupied(rig):
        before = len(recorded_bytes(rig.private))
        with rig.watch() as seen, client(rig, x_tidegate_max_wait="0") as caller:
            answer = caller.post("/v1/chat/completions", json=PROMPT)
        assert answer.status_code == 429
        assert answer.json()["error"]["code"] == "destination-wait-too-long"
        assert 1 <= int(answer.headers["retry-after"]) <= 3600
        assert len(recorded_bytes(rig.private)) == before
        assert seen.hosted_bytes == b""
        assert seen.reasons == [("admitted", "admitted"), ("aborted", "destination-wait-too-long")]
        assert seen.records[-1]["decision"]["limits"]["settled_tokens"] == 0


def test_users_go_before_batch_and_the_node_is_told_the_priority(rig: Rig) -> None:
    order: list[str] = []

    def ask(workload: str) -> None:
        with client(rig, workload) as caller:
            assert caller.post("/v1/chat/completions", json=PROMPT).status_code == 200
        order.append(workload)

    with Occupied(rig) as place, ThreadPoolExecutor(8) as pool:
        jobs = []
        for workload, count in (("training-data", 2), ("batch", 2), ("interactive", 3)):
            jobs += [pool.submit(ask, workload) for _ in range(count)]
            until(lambda workload=workload, count=count: waiting(rig, workload) == count)  # type: ignore[misc]
        place.let_go()
        for job in jobs:
            job.result(60)
    assert order[0] == "interactive"
    assert order[-1] == "training-data"
    bodies = [json.loads(request["body"]) for request in recorded_requests(rig.private)]
    told = [body["priority"] for body in bodies if not body.get("stream")]
    assert sorted(told) == [0, 0, 0, 1, 1, 3, 3]


def test_a_client_that_goes_while_it_waits_leaves_no_trace_at_the_door(rig: Rig) -> None:
    with Occupied(rig):
        with client(rig) as caller, pytest.raises(httpx.ReadTimeout):
            caller.post("/v1/chat/completions", json=PROMPT, timeout=0.5)
        until(lambda: waiting(rig, "interactive") == 0)
    with client(rig) as caller:
        assert caller.post("/v1/chat/completions", json=PROMPT).status_code == 200
    until(lambda: rig.metrics()['tidegate_queue_running_requests{destination="private-moe"}'] == 0)
    ends = [(each["phase"], each["reason_code"]) for each in rig.records() if each["phase"] == "aborted"]
    assert ("aborted", "client-disconnected") in ends
