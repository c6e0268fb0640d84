"""Marks of assistant turns: equal when the same words come back, however they were cut or written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.chat import ChatRequest, Message, Role, TextPart, ToolCall
from gateway.domain.stream import Channel, TextDelta, ToolCallStart
from gateway.lineage.marks import SHORT_CHARS, Answer, Marker, turns_of

KEY = b"k" * 32
MARKER = Marker(KEY, "demo", "s" * 64)
WORDS = st.text(st.characters(codec="utf-8"), max_size=80)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def said(text: str) -> Message:
    return Message(Role.ASSISTANT, (TextPart(text),))


def request(*messages: Message) -> ChatRequest:
    return ChatRequest("assistant", messages)


@given(WORDS, st.lists(st.integers(0, 80), max_size=8), st.sampled_from(list(Channel)[:3]))
def test_an_answer_is_known_again_however_it_was_cut(text: str, cuts: list[int], channel: Channel) -> None:
    answer, at = Answer(MARKER), 0
    for cut in [*sorted(cuts), len(text)]:
        if cut > at:
            answer.feed(TextDelta(0, channel, text[at:cut]))
            at = cut
    assert answer.marks() == turns_of(request(said(text)), MARKER)


@given(WORDS, st.text(" \t\r\n\u00a0", max_size=5), st.text(" \n", max_size=5))
def test_white_space_around_and_within_makes_no_difference(text: str, before: str, behind: str) -> None:
    assert MARKER.text(before + text.replace(" ", " \n") + behind) == MARKER.text(text)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4), st.booleans(), st.integers(0, 4))
def test_a_tool_call_is_known_again_when_its_arguments_are_written_anew(
    arguments: dict[str, Any], is_ascii: bool, indent: int
) -> None:
    answer = Answer(MARKER)
    answer.feed(ToolCallStart(0, 0, "call_1", "transfer"))
    answer.feed(TextDelta(0, Channel.TOOL_ARGUMENTS, json.dumps(arguments), 0))
    turned = dict(reversed(arguments.items()))
    written = json.dumps(turned, ensure_ascii=is_ascii, indent=indent or None)
    back = Message(Role.ASSISTANT, (), tool_calls=(ToolCall("other-id", "transfer", written),))
    assert answer.marks() == turns_of(request(back), MARKER)


@given(WORDS, WORDS)
def test_parts_of_a_turn_are_known_alone_and_joined(first: str, second: str) -> None:
    split = Message(Role.ASSISTANT, (TextPart(first), TextPart(second)))
    marks = set(turns_of(request(split), MARKER))
    for text in (first, second, first + second):
        mark = MARKER.text(text)
        assert mark is None or mark in marks


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=60))
def test_marks_of_tenants_never_meet_and_short_ones_stay_with_their_subject(text: str) -> None:
    other_tenant, other_subject = Marker(KEY, "acme", "s" * 64), Marker(KEY, "demo", "t" * 64)
    assert MARKER.text(text) != other_tenant.text(text)
    is_short = len(text) < SHORT_CHARS
    assert (MARKER.text(text) == other_subject.text(text)) is not is_short
    assert MARKER.text(text) != Marker(b"other" * 8, "demo", "s" * 64).text(text)


def test_only_assistant_turns_count_and_all_their_fields() -> None:
    user = Message(Role.USER, (TextPart("a question of the user"),))
    assert turns_of(request(user), MARKER) == ()
    turn = Message(
        Role.ASSISTANT, (TextPart("content"),), reasoning="thoughts", refusal="no",
        tool_calls=(ToolCall("1", "f", "{}"),),
    )  # fmt: skip
    wanted = [MARKER.text("content"), MARKER.text("thoughts"), MARKER.text("no"), MARKER.call("f", "{}")]
    assert list(turns_of(request(turn), MARKER)) == wanted


def test_empty_answers_have_no_mark() -> None:
    answer = Answer(MARKER)
    answer.feed(TextDelta(0, Channel.CONTENT, " \n"))
    assert answer.marks() == ()
