"""Several replicas of one destination over real sockets: who is asked, asked again, left alone."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.domain.admitted import Admitted
from gateway.domain.chat import Message, Role, TextPart
from gateway.domain.label import Level
from gateway.errors import AuditUnavailable, Refusal, UpstreamFailed, UpstreamRejected, UpstreamUnavailable
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.pool import ConnectionPool
from tests.fakes.fault_standin import read_log
from tests.fakes.stack import free_port
from tests.integration.test_upstream_pool import Faults, admitted, pool_for, read

pytestmark = pytest.mark.integration


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Faults, Faults]]:
    made = []
    try:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            made.append(Faults(tmp_path / name))
            made[-1].mode("ok")
        yield made[0], made[1]
    finally:
        for each in made:
            each.child.stop()


def talk(request: Admitted, *texts: str) -> Admitted:
    """The same request with these turns, user and assistant in turn."""
    roles = [Role.USER, Role.ASSISTANT] * len(texts)
    messages = tuple(Message(role, (TextPart(text),)) for role, text in zip(roles, texts, strict=False))
    resolved = request.request
    return replace(request, request=replace(resolved, chat=replace(resolved.chat, messages=messages)))


class Codes:
    """Hears of further attempts."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.seen: list[str] = []
        self.refusal = refusal

    async def __call__(self, code: str) -> None:
        self.seen.append(code)
        if self.refusal is not None:
            raise self.refusal


async def ask(pool: ConnectionPool, request: Admitted, again: Codes | None = None) -> None:
    answer = await pool.open(request, request.permit.destinations[0], again=again)
    async for _ in answer.chunks():
        answer.note_progress()
    await answer.close()


async def test_a_conversation_stays_with_its_replica_and_many_are_spread(pair: tuple[Faults, Faults]) -> None:
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair]) as pool:
        homes = []
        for number in range(24):
            before = pair[0].request_count()
            turns = [f"question {number}"]
            for _ in range(3):
                await ask(pool, talk(request, *turns))
                turns += ["an answer", "and then?"]
            homes.append(pair[0].request_count() - before)
    assert set(homes) == {0, 3}, "all turns of a conversation on one replica"
    assert 4 < homes.count(3) < 20


async def test_without_affinity_idle_replicas_take_turns(pair: tuple[Faults, Faults]) -> None:
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair], has_affinity=False) as pool:
        for _ in range(10):
            await ask(pool, request)
    assert [each.request_count() for each in pair] == [5, 5]


async def test_requests_in_flight_are_spread_by_their_tokens(pair: tuple[Faults, Faults]) -> None:
    for each in pair:
        each.mode("endless-trickle")
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair], has_affinity=False) as pool:
        answers = [await pool.open(request, request.permit.destinations[0]) for _ in range(8)]
        assert Counter(replica for name, replica, tokens in pool.outstanding() if tokens) == {0: 1, 1: 1}
        for answer in answers:
            await answer.close()
        assert all(tokens == 0 for _, _, tokens in pool.outstanding())
    assert [each.request_count() for each in pair] == [4, 4]


async def test_a_dead_replica_costs_no_request_and_is_soon_left_alone(pair: tuple[Faults, Faults]) -> None:
    request = await admitted()
    dead = f"http://127.0.0.1:{free_port()}/v1"
    async with pool_for(dead, pair[1].child.url, has_affinity=False) as pool:
        codes = Codes()
        for _ in range(40):
            await ask(pool, request, codes)
        assert pair[1].request_count() == 40
        assert codes.seen == ["upstream-unreachable"] * 5
        assert [lane.is_open for lane in pool.lanes()] == [True, False]
        assert pool.order(request.permit.destinations) == request.permit.destinations


@pytest.mark.parametrize("mode", ["500", "503", "refuse"])
async def test_a_failing_replica_is_answered_by_the_other(pair: tuple[Faults, Faults], mode: str) -> None:
    pair[0].mode(mode)
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair], has_affinity=False) as pool:
        for _ in range(8):
            await ask(pool, request, Codes())
    assert pair[1].request_count() == 8


async def test_a_request_that_is_refused_is_not_sent_to_the_next_replica(pair: tuple[Faults, Faults]) -> None:
    for each in pair:
        each.mode("400")
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair]) as pool:
        with pytest.raises(UpstreamRejected):
            await ask(pool, request, Codes())
    assert sum(each.request_count() for each in pair) == 1


async def test_retries_end_with_the_budget(pair: tuple[Faults, Faults]) -> None:
    for each in pair:
        each.mode("500")
    request = await admitted()
    attempts = 0
    counted: Counter[str] = Counter()
    async with pool_for(*[each.child.url for each in pair], has_affinity=False) as pool:
        pool._count = lambda destination, event: counted.update([event])
        for number in range(60):
            # Each with a model of its own, so that no breaker opens.
            place = replace(request.permit.destinations[0], model=f"m{number}")
            own = replace(request, permit=replace(request.permit, destinations=(place,)))
            with pytest.raises(UpstreamFailed):
                await pool.open(own, place, again=Codes())
        attempts = sum(each.request_count() for each in pair)
    assert attempts - 60 == counted["retry"] <= 10 + 60 / 10
    assert counted["retry-refused"] == 60 - counted["retry"]


async def test_a_retry_that_may_not_be_made_leaves_nothing_behind(pair: tuple[Faults, Faults]) -> None:
    pair[0].mode("503")
    pair[1].mode("503")
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair]) as pool:
        with pytest.raises(AuditUnavailable):
            await ask(pool, request, Codes(AuditUnavailable("full")))
        assert all(tokens == 0 for _, _, tokens in pool.outstanding())
        assert all(lane.in_flight == 0 for lane in pool.lanes())
    assert sum(each.request_count() for each in pair) == 1


async def test_the_total_deadline_is_one_for_all_attempts(pair: tuple[Faults, Faults]) -> None:
    pair[0].mode("silence")
    pair[1].mode("silence")
    request = await admitted()
    deadlines = Deadlines(connect_seconds=1, first_byte_seconds=30, idle_seconds=30, total_seconds=10)
    async with pool_for(*[each.child.url for each in pair], deadlines=deadlines) as pool:
        began = time.monotonic()
        with pytest.raises(Refusal) as caught:
            await pool.open(request, request.permit.destinations[0], waited_seconds=9.7)
        assert caught.value.code == "upstream-total-timeout"
        assert time.monotonic() - began < 5


async def test_a_429_lowers_the_limit_and_the_breaker_stays_closed(pair: tuple[Faults, Faults]) -> None:
    first = pair[0]
    request = await admitted()
    place = request.permit.destinations[0]
    async with pool_for(first.child.url) as pool:
        first.mode("endless-trickle")
        running = [await pool.open(request, place) for _ in range(7)]
        first.mode("429")
        codes = []
        for _ in range(3):
            with pytest.raises(UpstreamRejected) as caught:
                await pool.open(request, place, again=Codes())
            codes.append(caught.value.code)
        assert codes == [
            "upstream-rate-limited",
            "upstream-concurrency-limited",
            "upstream-concurrency-limited",
        ]
        [lane] = pool.lanes()
        assert (lane.is_open, lane.limit, lane.in_flight) == (False, 4, 7)
        for answer in running[:5]:
            await answer.close()
        first.mode("ok")
        await ask(pool, request)
        for answer in running[5:]:
            await answer.close()


async def test_bytes_without_tokens_do_not_keep_a_stream_alive(pair: tuple[Faults, Faults]) -> None:
    """F113: a node that says 200 and sends comments, but no tokens, is not healthy."""
    first = pair[0]
    first.mode("endless-trickle")
    request = await admitted()
    async with pool_for(first.child.url) as pool:
        answer = await pool.open(request, request.permit.destinations[0])
        with pytest.raises(Refusal) as caught:
            async for _ in answer.chunks():
                pass  # the decoder finds no event in them
        assert caught.value.code == "upstream-idle-timeout"
        await answer.close()
        assert pool._lines["hosted-openai"].replicas[0].lane("gpt-5.1").breaker.failure_count == 1


async def test_a_replica_that_always_cuts_its_answers_opens_the_breaker(pair: tuple[Faults, Faults]) -> None:
    """A body that is read to its end is no success when it was no answer."""
    first = pair[0]
    first.mode("no-done")
    request = await admitted()
    async with pool_for(first.child.url) as pool:
        for _ in range(5):
            answer = await pool.open(request, request.permit.destinations[0])
            async for _ in answer.chunks():
                answer.note_progress()
            await answer.close(is_faulty=True)
        with pytest.raises(UpstreamUnavailable) as caught:
            await pool.open(request, request.permit.destinations[0])
        assert caught.value.code == "upstream-circuit-open"


async def test_a_cancelled_attempt_leaves_no_load(pair: tuple[Faults, Faults]) -> None:
    for each in pair:
        each.mode("silence")
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair]) as pool:
        task = asyncio.create_task(pool.open(request, request.permit.destinations[0], again=Codes()))
        while not any(read_log(each.log) for each in pair):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(tokens == 0 for _, _, tokens in pool.outstanding())


async def test_a_good_answer_is_whole(pair: tuple[Faults, Faults]) -> None:
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair]) as pool:
        body = await read(pool, request, request.permit.destinations[0])
    assert body.endswith(b"data: [DONE]\n\n")


async def test_a_silent_replica_is_raced_by_another_and_let_go(pair: tuple[Faults, Faults]) -> None:
    """The first says 200 and then nothing: that is no beginning."""
    pair[0].mode("silence-after-head")
    request = await admitted(level=Level.RESTRICTED)
    [place] = request.permit.destinations
    deadlines = Deadlines(connect_seconds=5, first_byte_seconds=60, idle_seconds=60, total_seconds=60)
    urls = [each.child.url for each in pair]
    async with pool_for(*urls, has_affinity=False, hedge_after_seconds=0.2, deadlines=deadlines) as pool:
        codes = Codes()
        answer = await pool.open(request, place, again=codes)
        body = b"".join([chunk async for chunk in answer.chunks()])
        await answer.close()
        assert body.startswith(b"data: ")
        assert body.endswith(b"data: [DONE]\n\n")
        assert codes.seen == ["hedged"], "the second attempt is heard of before it is made"
        assert all(tokens == 0 for _, _, tokens in pool.outstanding())
        while not any(entry["event"] == "client-closed" for entry in read_log(pair[0].log)):
            await asyncio.sleep(0.02)
        assert [lane.is_open for lane in pool.lanes()] == [False, False]


async def test_a_prompt_replica_is_not_raced(pair: tuple[Faults, Faults]) -> None:
    request = await admitted(level=Level.RESTRICTED)
    [place] = request.permit.destinations
    async with pool_for(*[each.child.url for each in pair], hedge_after_seconds=60) as pool:
        answer = await pool.open(request, place, again=Codes())
        assert b"".join([chunk async for chunk in answer.chunks()]).endswith(b"data: [DONE]\n\n")
        await answer.close()
    assert sum(each.request_count() for each in pair) == 1


async def test_a_hosted_destination_is_never_asked_twice_at_a_time(pair: tuple[Faults, Faults]) -> None:
    for each in pair:
        each.mode("silence")
    request = await admitted()
    async with pool_for(*[each.child.url for each in pair], hedge_after_seconds=0.01) as pool:
        with pytest.raises(Refusal) as caught:
            await pool.open(request, request.permit.destinations[0], again=Codes())
    assert caught.value.code == "upstream-first-byte-timeout"
    assert sum(each.request_count() for each in pair) == 1


async def test_a_race_that_may_not_be_recorded_is_not_run(pair: tuple[Faults, Faults]) -> None:
    for each in pair:
        each.mode("silence")
    request = await admitted(level=Level.RESTRICTED)
    [place] = request.permit.destinations
    async with pool_for(*[each.child.url for each in pair], hedge_after_seconds=0.05) as pool:
        with pytest.raises(AuditUnavailable):
            await pool.open(request, place, again=Codes(AuditUnavailable("full")))
        assert all(tokens == 0 for _, _, tokens in pool.outstanding())
    assert sum(each.request_count() for each in pair) <= 1


async def test_a_race_that_is_cancelled_ends_both(pair: tuple[Faults, Faults]) -> None:
    for each in pair:
        each.mode("silence")
    request = await admitted(level=Level.RESTRICTED)
    [place] = request.permit.destinations
    deadlines = Deadlines(connect_seconds=5, first_byte_seconds=60, idle_seconds=60, total_seconds=60)
    urls = [each.child.url for each in pair]
    async with pool_for(*urls, hedge_after_seconds=0.05, deadlines=deadlines) as pool:
        task = asyncio.create_task(pool.open(request, place, again=Codes()))
        while not all(each.request_count() for each in pair):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for each in pair:
            while not any(entry["event"] == "client-closed" for entry in read_log(each.log)):
                await asyncio.sleep(0.02)
        assert all(tokens == 0 for _, _, tokens in pool.outstanding())
