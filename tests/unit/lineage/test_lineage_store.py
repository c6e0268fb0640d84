"""The store of marks: what it writes, and what it says when Redis does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.chat import ChatRequest, Message, Role, TextPart
from gateway.domain.label import PUBLIC, UNKNOWN, Label, Level, Tag
from gateway.domain.stream import Channel, TextDelta
from gateway.errors import StoreUnavailable
from gateway.lineage import store
from gateway.lineage.marks import Answer, Marker
from gateway.lineage.store import Lineage
from tests.fakes.rooms import PRINCIPAL

SECRET = Label(Level.RESTRICTED, frozenset({Tag.PHI}))
TEXT = "The result of the test is positive; she begins treatment on Monday."


class Server:
    """Answers look-ups from what was kept; can be down."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.calls = 0
        self.is_down = False

    async def run(self, text: bytes, keys: tuple[bytes, ...], arguments: tuple[Any, ...]) -> Any:
        self.calls += 1
        if self.is_down:
            raise StoreUnavailable("down")
        if not arguments:
            return [self.values.get(key) for key in keys]
        for key in keys:
            self.values[key] = arguments[0]
        return len(keys)


@pytest.fixture
def server() -> Server:
    return Server()


def lineage(server: Server) -> Lineage:
    return Lineage(server.run, b"k" * 32, 60, lambda phrase, error: None)


def answer(text: str = TEXT) -> Answer:
    made = Answer(Marker(b"k" * 32, PRINCIPAL.tenant, PRINCIPAL.subject_ref))
    made.feed(TextDelta(0, Channel.CONTENT, text))
    return made


def history(*texts: str) -> ChatRequest:
    return ChatRequest("assistant", tuple(Message(Role.ASSISTANT, (TextPart(text),)) for text in texts))


async def test_what_was_said_about_something_restricted_comes_back_restricted(server: Server) -> None:
    room = lineage(server)
    await room.remember(PRINCIPAL, answer(), SECRET)
    assert await room.floor(PRINCIPAL, history("something else entirely, said by somebody", TEXT)) == SECRET
    assert not any(TEXT.split()[1].encode() in key for key in server.values)


async def test_what_was_never_said_has_no_floor_and_a_first_turn_asks_nothing(server: Server) -> None:
    room = lineage(server)
    assert await room.floor(PRINCIPAL, history("never said by this gateway, as far as it knows")) == PUBLIC
    before = server.calls
    assert await room.floor(PRINCIPAL, ChatRequest("m", (Message(Role.USER, (TextPart(TEXT),)),))) == PUBLIC
    assert server.calls == before


@pytest.mark.parametrize("level", [Level.PUBLIC, Level.INTERNAL])
def test_harmless_answers_are_not_kept(server: Server, level: Level) -> None:
    assert lineage(server).listen(PRINCIPAL, Label(level)) is None


async def test_a_listener_keeps_what_it_heard(server: Server) -> None:
    room = lineage(server)
    listener = room.listen(PRINCIPAL, SECRET)
    assert listener is not None
    listener.feed(TextDelta(0, Channel.CONTENT, TEXT))
    await listener.remember()
    assert await room.floor(PRINCIPAL, history(TEXT)) == SECRET


async def test_without_the_store_every_assistant_turn_is_unknown(server: Server) -> None:
    server.is_down = True
    assert await lineage(server).floor(PRINCIPAL, history(TEXT)) == UNKNOWN


async def test_an_answer_of_nonsense_is_no_answer(server: Server) -> None:
    room = lineage(server)
    await room.remember(PRINCIPAL, answer(), SECRET)
    server.values = dict.fromkeys(server.values, b"9:what")
    assert (await room.floor(PRINCIPAL, history(TEXT))).level is Level.RESTRICTED


async def test_what_the_store_missed_is_known_here_and_handed_over_when_it_is_back(server: Server) -> None:
    room = lineage(server)
    server.is_down = True
    await room.remember(PRINCIPAL, answer(), SECRET)
    await room.remember(PRINCIPAL, answer("Another answer, about a merger that nobody knows."), SECRET)
    assert room.pending_count == 2
    server.is_down = False
    assert await room.floor(PRINCIPAL, history(TEXT)) == SECRET
    await room.remember(PRINCIPAL, answer("A third answer, when the store is back again."), SECRET)
    assert room.pending_count == 0
    assert len(server.values) == 3


async def test_what_waits_is_bounded_and_its_loss_is_counted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_PENDING", 3)
    room = lineage(server)
    server.is_down = True
    for number in range(5):
        await room.remember(PRINCIPAL, answer(f"Answer number {number} of five, about a patient."), SECRET)
    assert (room.pending_count, room.lost_count) == (3, 2)
