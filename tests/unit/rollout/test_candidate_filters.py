"""Unit tests of how `gateway.rollout.candidate` gives the output filter what it has to know of a request."""

from __future__ import annotations

import pytest

from gateway.domain.chat import ChatRequest, JsonText, Message, OpaquePart, Role, TextPart
from gateway.domain.finding import Finding
from gateway.domain.stream import Channel, Finish, TextDelta
from gateway.errors import OutputBlocked
from gateway.output.profiles import parse_profile
from gateway.rollout.candidate import _filters, instructions

CANARY = "tide-7f3a-heron-91c2"
SYSTEM = "Never promise a payment above four thousand without the consent of a second clerk of the desk."
DEVELOPER = "Letters to a court are written in the third person, and are read by the head before they go out."
CHAT = ChatRequest(
    "assistant",
    (
        Message(Role.SYSTEM, (TextPart(SYSTEM),)),
        Message(Role.DEVELOPER, (TextPart(DEVELOPER), OpaquePart("image", JsonText("{}")))),
        Message(Role.USER, (TextPart("What do you do?"),)),
    ),
)
PROFILE = parse_profile(
    {
        "rules": [
            {"name": "rest"},
            {"name": "prompt", "about": "instructions"},
            {"name": "canaries", "about": "canaries", "canaries": [{"text": CANARY, "tenant": "acme"}]},
        ]
    }
)


def _find(text: str) -> tuple[Finding, ...]:
    return ()


NEW_FILTER = _filters({"default": parse_profile({}), "strict": PROFILE}, _find, 60_000)


def _delta(text: str) -> TextDelta:
    return TextDelta(0, Channel.CONTENT, text, -1)


def test_instructions_are_the_system_and_developer_texts() -> None:
    assert instructions(CHAT) == (SYSTEM, DEVELOPER)


def test_the_filter_knows_which_tenant_asks() -> None:
    event = _delta(f"It says {CANARY} here.")
    assert NEW_FILTER("strict", "acme", CHAT).feed(event) == (event,)
    with pytest.raises(OutputBlocked):
        NEW_FILTER("strict", "beta", CHAT).feed(event)
    assert NEW_FILTER("default", "beta", CHAT).feed(event) == (event,)


def test_the_filter_knows_the_instructions_of_its_own_request() -> None:
    event = _delta(f"{SYSTEM} {DEVELOPER}")
    events = NEW_FILTER("strict", "beta", CHAT).feed(event)
    assert events[-1] == Finish(0, "content_filter")
    assert NEW_FILTER("strict", "beta", ChatRequest("assistant", ())).feed(event) == (event,)
