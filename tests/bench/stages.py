"""CPU of each stage alone, in one process: where the time of a plain request goes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.assembly import open_gateway
from gateway.cli.local import LocalEndpoint, LocalState, prepare, settings_text
from gateway.cli.token import DEFAULT_AUDIENCE, DEFAULT_ISSUER, read_private_key
from gateway.dialects.openai_body import encode_body
from gateway.domain.caller import Caller
from gateway.domain.chat import ResolvedRequest
from gateway.domain.decision import Destination, Facts, Permit
from gateway.domain.label import PUBLIC
from gateway.domain.limits import Reservation, Usage
from gateway.domain.principal import Principal
from gateway.domain.request import RawRequest
from gateway.domain.secret import Secret
from gateway.identity.minting import Grant, mint_token
from gateway.pipeline import records
from gateway.pipeline.records import Trail
from gateway.running import Gateway
from gateway.settings import load_settings
from tests.bench.load import body
from tests.fakes.fast_standin import _plain as plain_answer

URL = "http://127.0.0.1:9/v1"


def run(directory: Path, policies: Path, count: int) -> dict[str, float]:
    """Microseconds of CPU per call, by stage, over `count` calls each."""
    state = LocalState(directory)
    prepare(state)
    places = {"hosted-openai": LocalEndpoint(URL), "private-moe": LocalEndpoint(URL)}
    state.settings.write_text(
        settings_text(state, host="127.0.0.1", port=0, policies=policies, destinations=places)
    )
    return asyncio.run(_run(state, count))


async def _run(state: LocalState, count: int) -> dict[str, float]:
    async with open_gateway(load_settings(state.settings)) as gateway:
        return await _stages(gateway, state, count)


async def _stages(gateway: Gateway, state: LocalState, count: int) -> dict[str, float]:
    walk, snapshot = gateway.walk, gateway.walk.snapshots.current
    grant = Grant(DEFAULT_ISSUER, DEFAULT_AUDIENCE, "demo", "bench", int(time.time()), 3600, ("user",))
    bearer = Secret("Bearer " + mint_token(read_private_key(state.private_key), grant))
    chance = random.Random(3)
    bodies = [body(False, chance) for _ in range(count)]
    raws = [
        RawRequest(f"req_{i}", "chat.completions", bearer, None, None, data, "", 0, 0)
        for i, data in enumerate(bodies)
    ]
    principal = await walk.authenticator.authenticate(raws[0])
    chats = [walk.dialects.parse("chat.completions", data) for data in bodies]
    caller = Caller(principal.tenant, principal.roles, int(time.time()), walk.keyed_digest)
    resolved = [snapshot.resolve(chat, caller) for chat in chats]
    facts = Facts(
        principal.tenant, principal.roles, principal.scopes, PUBLIC, "assistant", "chat.completions",
        False, frozenset(), None, 400, 256, frozenset(),
    )  # fmt: skip
    permit = snapshot.decide(facts)
    assert isinstance(permit, Permit)
    place = permit.destinations[0]
    verdict = snapshot.classify(resolved[0], PUBLIC)
    trail = Trail(
        "req_0", "chat.completions", "0" * 64, None, principal, "assistant", resolved[0], verdict,
        decision=permit,
    )  # fmt: skip
    answer = plain_answer(place.model).partition(b"\r\n\r\n")[2] or plain_answer(place.model)
    cursor = iter(range(10**9))

    async def audit() -> None:
        await walk.journal.record(records.intent(trail, permit))

    figures = {
        "token (verified before)": await _timed_async(
            lambda: walk.authenticator.authenticate(raws[0]), count
        ),
        "parse": _timed(lambda: walk.dialects.parse("chat.completions", bodies[next(cursor) % count]), count),
        "resolve": _timed(lambda: snapshot.resolve(chats[0], caller), count),
    }
    fresh = iter(resolved)
    figures["classify 1 KB of new text"] = _timed(lambda: snapshot.classify(next(fresh), PUBLIC), count - 1)
    figures["decide"] = _timed(lambda: snapshot.decide(facts), count)
    figures["reserve and settle (Valkey)"] = await _limits(gateway, principal, count)
    figures["intent and outcome (durable, 16 in flight)"] = 2 * await _in_flight(audit, count, 16)
    figures["encode the upstream body"] = _timed(lambda: encode_body(resolved[0], place), count)
    figures["decode, filter, encode the answer"] = _timed(
        lambda: _answer(gateway, resolved[0], place, answer), count
    )
    return {name: round(value, 1) for name, value in figures.items()}


async def _limits(gateway: Gateway, principal: Principal, count: int) -> float:
    numbers = iter(range(10**9))

    async def both() -> None:
        held = await gateway.walk.limiter.reserve(principal, f"bench-{next(numbers)}", 400, 256)
        assert isinstance(held, Reservation)
        await gateway.walk.limiter.settle(held, Usage(400, 60))

    return await _in_flight(both, count, 16)


def _answer(gateway: Gateway, resolved: ResolvedRequest, place: Destination, data: bytes) -> bytes:
    walk, chat = gateway.walk, resolved.chat
    decoder = walk.dialects.decoder(place, chat)
    encoder = walk.dialects.encoder(chat, "req_0", 0)
    guard = walk.snapshots.current.new_filter("default", "acme", chat)
    output = walk.new_gate(guard, resolved, walk.keyed_digest)
    events = [*decoder.feed(data), *decoder.flush()]
    released = [out for event in events for out in output.feed(event)]
    return encoder.encode(released) + encoder.end()


def _timed(call: Callable[[], object], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - started) / count * 1e6


async def _timed_async(call: Callable[[], Awaitable[object]], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        await call()
    return (time.process_time() - started) / count * 1e6


async def _in_flight(call: Callable[[], Awaitable[None]], count: int, width: int) -> float:
    async def lane() -> None:
        for _ in range(count // width):
            await call()

    started = time.process_time()
    await asyncio.gather(*(lane() for _ in range(width)))
    return (time.process_time() - started) / (count // width * width) * 1e6
