"""The gate behind the output filter: calls held, judged, released in order or refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from gateway.domain.chat import ChatRequest, JsonText, OfferedTool, ResolvedRequest, ToolDefinition
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Channel,
    FilterAction,
    Finish,
    RoleDelta,
    StreamEvent,
    TextDelta,
    ToolCallStart,
)
from gateway.errors import OutputBlocked, ToolCallRefused
from gateway.protocols import tool_gate
from gateway.protocols.arguments import MAX_CHARACTERS
from gateway.protocols.own_tools import OwnTools
from gateway.protocols.tool_gate import ToolGate, guard

SCHEMA = JsonText('{"type":"object","properties":{"ref":{"type":"string"}},"required":["ref"]}')
(OWN,) = OwnTools().offer((ToolDefinition("own", None, SCHEMA),))
PINNED = OfferedTool("look_up", "search@1.0.0", "a" * 64, OWN.fault)
GOOD = '{"ref":"A-1"}'


class Inner:
    """An output filter that passes everything, holds what `held` says, and fails when told to."""

    def __init__(self) -> None:
        self.held: list[StreamEvent] = []
        self.fails = False

    @property
    def actions(self) -> tuple[FilterAction, ...]:
        return (FilterAction("r@1", "mask", "iban", 1),)

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        if self.fails:
            raise OutputBlocked("no")
        return (event,)

    def flush(self) -> tuple[StreamEvent, ...]:
        return tuple(self.held)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def gate(*offered: OfferedTool, inner: Inner | None = None) -> ToolGate:
    return ToolGate(inner or Inner(), offered or (OWN, PINNED), digest)


def start(name: str = "look_up", tool: int = 0, choice: int = 0) -> ToolCallStart:
    return ToolCallStart(choice, tool, f"call_{tool}", name)


def arguments(text: str, tool: int = 0, choice: int = 0) -> TextDelta:
    return TextDelta(choice, Channel.TOOL_ARGUMENTS, text, tool)


def text(words: str, choice: int = 0) -> TextDelta:
    return TextDelta(choice, Channel.CONTENT, words)


def run(one: ToolGate, *events: StreamEvent) -> list[StreamEvent]:
    return [out for event in events for out in one.feed(event)]


def refused(one: ToolGate, *events: StreamEvent) -> ToolCallRefused:
    with pytest.raises(ToolCallRefused) as caught:
        run(one, *events)
    return caught.value


def test_text_and_all_else_pass_at_once() -> None:
    events: list[StreamEvent] = [
        AnswerStart("id", "m", 1), RoleDelta(0, "assistant"), text("Hello"),
        TextDelta(0, Channel.REASONING, "hm"), Finish(0, "stop"), AnswerEnd(),
    ]  # fmt: skip
    one = gate()
    for event in events:
        assert one.feed(event) == (event,)
    assert one.flush() == ()
    assert one.calls == ()


def test_a_call_is_held_until_its_choice_finishes_and_text_is_not() -> None:
    one = gate()
    assert run(one, start(), arguments('{"ref":')) == []
    assert run(one, text("meanwhile")) == [text("meanwhile")]
    assert run(one, arguments('"A-1"}')) == []
    assert run(one, Finish(0, "tool_calls")) == [start(), arguments(GOOD), Finish(0, "tool_calls")]


def test_calls_come_out_in_the_order_in_which_they_began() -> None:
    one = gate()
    released = run(
        one,
        start(tool=0), start("own", tool=1), arguments('{"ref":"B"', 1), arguments('{"ref":"A"', 0),
        arguments("}", 1), arguments("}", 0), Finish(0, "tool_calls"),
    )  # fmt: skip
    assert released == [
        start(tool=0), arguments('{"ref":"A"}', 0), start("own", tool=1), arguments('{"ref":"B"}', 1),
        Finish(0, "tool_calls"),
    ]  # fmt: skip


def test_choices_do_not_wait_for_each_other() -> None:
    one = gate()
    run(one, start(), start(choice=1), arguments(GOOD), arguments(GOOD, choice=1))
    assert run(one, Finish(1, "tool_calls"))[-1] == Finish(1, "tool_calls")
    assert len(run(one, Finish(0, "tool_calls"))) == 3


def test_commits_to_what_was_released_and_names_only_reviewed_tools() -> None:
    one = gate()
    run(one, start(), arguments(GOOD), start("own", tool=1), arguments(GOOD, 1), Finish(0, "tool_calls"))
    pinned, own = one.calls
    commitment = digest(b"tool arguments:" + GOOD.encode())
    assert (pinned.name, pinned.source, pinned.schema) == ("look_up", "search@1.0.0", "sha256:" + "a" * 64)
    assert (pinned.arguments_hmac, pinned.outcome) == (commitment, "released")
    assert (own.name, own.source, own.outcome) == ("", "client", "released")
    assert own.schema == "hmac:" + digest(b"tool schema:" + OWN.schema_sha256.encode())


def test_a_call_that_nobody_offered_is_refused_at_its_start() -> None:
    one = gate()
    found = refused(one, text("Sure."), start("transfer_money"))
    assert (found.code, found.http_status, found.param) == (
        "tool-not-granted", 502, "tool_calls[0].function.name",
    )  # fmt: skip
    assert "transfer_money" not in found.message
    assert found.headers == ((b"x-should-retry", b"false"),)
    assert [(call.name, call.outcome) for call in one.calls] == [("", "not-granted")]


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ('"A-1"', "arguments-not-an-object"),
        ('{"ref":"A-1"', "arguments-not-json"),
        ("", "arguments-not-json"),
        ('{"ref":1}', "arguments-off-schema"),
        ('{"ref":"A-1","all":true}', "arguments-off-schema"),
        ('{"ref":"A","ref":"B"}', "arguments-duplicate-key"),
    ],
)
@pytest.mark.parametrize("reason", ["tool_calls", "stop", "length"])
def test_arguments_that_do_not_fit_are_refused_and_recorded(written: str, fault: str, reason: str) -> None:
    one = gate()
    found = refused(one, start(), arguments(written), Finish(0, reason))
    assert (found.code, found.detail) == ("tool-arguments-invalid", fault)
    assert found.param == "tool_calls[0].function.arguments"
    assert "A-1" not in found.message
    (call,) = one.calls
    assert (call.name, call.outcome) == ("look_up", fault)
    assert call.arguments_hmac == digest(b"tool arguments:" + written.encode())


def test_one_bad_call_holds_back_the_good_ones_of_its_choice() -> None:
    one = gate()
    refused(one, start(), arguments(GOOD), start(tool=1), arguments("{}", 1), Finish(0, "tool_calls"))
    assert [call.outcome for call in one.calls] == ["withheld", "arguments-off-schema"]


def test_after_a_refusal_nothing_comes_any_more() -> None:
    one = gate()
    refused(one, start("nobody"))
    assert refused(one, text("more")).code == "tool-not-granted"
    with pytest.raises(ToolCallRefused):
        one.flush()


def test_a_choice_that_was_stopped_loses_its_calls_and_ends() -> None:
    one = gate()
    assert run(one, start(), arguments('{"ref":'), Finish(0, "content_filter")) == [
        Finish(0, "content_filter")
    ]
    assert [call.outcome for call in one.calls] == ["dropped"]


def test_a_call_without_an_end_is_refused() -> None:
    one = gate()
    run(one, start(), arguments(GOOD))
    with pytest.raises(ToolCallRefused):
        one.flush()
    assert one.calls[0].outcome == "call-without-end"


def test_what_the_filter_held_is_judged_at_the_end_too() -> None:
    inner = Inner()
    one = gate(inner=inner)
    inner.held = [text("tail"), start("nobody")]
    with pytest.raises(ToolCallRefused):
        one.flush()


def test_broken_orders_of_events_are_refused() -> None:
    assert refused(gate(), arguments(GOOD)).detail == "arguments-without-call"
    assert refused(gate(), start(), start()).detail == "too-many-calls"
    assert refused(gate(), start(), arguments("x", 1)).detail == "arguments-without-call"


def test_what_is_held_has_a_bound() -> None:
    many = [start(tool=number) for number in range(tool_gate.MAX_CALLS + 1)]
    assert refused(gate(), *many).detail == "too-many-calls"
    piece = "x" * (MAX_CHARACTERS // 2)
    found = refused(gate(), start(), arguments(piece), arguments(piece), arguments("x"))
    assert found.detail == "arguments-too-large"
    halves = (start(), arguments(piece), start(tool=1), arguments(piece, 1), arguments("x", 1))
    assert refused(gate(), *halves).detail == "arguments-too-large"


def test_what_was_released_is_not_held_any_more() -> None:
    large = '{"ref":"' + "x" * (MAX_CHARACTERS - 10) + '"}'
    one = gate()
    for choice in range(3):
        run(one, start(choice=choice), arguments(large, choice=choice), Finish(choice, "tool_calls"))
    assert [call.outcome for call in one.calls] == ["released"] * 3


def test_a_block_of_the_filter_comes_through_and_its_actions_are_told() -> None:
    inner = Inner()
    one = gate(inner=inner)
    assert one.actions == inner.actions
    inner.fails = True
    with pytest.raises(OutputBlocked):
        one.feed(text("x"))


@pytest.mark.parametrize(
    ("choice", "open_tools"),
    [
        (None, {"own", "look_up"}),
        ('"auto"', {"own", "look_up"}),
        ('"required"', {"own", "look_up"}),
        ('"none"', set()),
        ('{"type":"function","function":{"name":"own"}}', {"own"}),
        ('{"type":"function","function":{"name":"nobody"}}', set()),
    ],
)
def test_only_what_the_tool_choice_leaves_open_may_be_called(
    choice: str | None, open_tools: set[str]
) -> None:
    asked = None if choice is None else JsonText(choice)
    request = ResolvedRequest(replace(ChatRequest("m", ()), tool_choice=asked), offered=(OWN, PINNED))
    for name in ("own", "look_up"):
        one = guard(Inner(), request, digest)
        if name in open_tools:
            assert run(one, start(name), arguments(GOOD), Finish(0, "stop"))
        else:
            assert refused(one, start(name)).code == "tool-not-granted"
