"""Unit tests of `gateway.output.stream_filter`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from gateway.domain.chat import JsonText
from gateway.domain.finding import Finding
from gateway.domain.label import Level
from gateway.domain.limits import Usage
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Channel,
    FilterAction,
    Finish,
    OutputFilter,
    RoleDelta,
    StreamEvent,
    TextDelta,
    ToolCallStart,
    UsageReport,
)
from gateway.errors import OutputBlocked
from gateway.output.rules import Action, KindRule, OutputProfile
from gateway.output.stream_filter import MAX_TEXTS, StreamFilter
from tests.fakes.output_finder import delta, find, new_filter

CARD = "4111 1111 1111 1111"
RULE = "identifiers-and-secrets@1"


def _profile(action: Action) -> OutputProfile:
    return OutputProfile("p", (KindRule("cards@1", ("card",), Level.PUBLIC, action),))


def _feed(filter_: StreamFilter, *events: StreamEvent) -> list[StreamEvent]:
    return [released for event in events for released in filter_.feed(event)]


def _logprobs(*tokens: str) -> JsonText:
    return JsonText(json.dumps({"content": [{"token": token, "logprob": -1.0} for token in tokens]}))


def test_is_an_output_filter() -> None:
    filter_: OutputFilter = new_filter()
    assert filter_.actions == ()


def test_prose_leaves_as_the_very_events_that_came() -> None:
    filter_ = new_filter()
    events = [delta(text) for text in ("The tide", " comes in", ", twice", " a day.")]
    assert [filter_.feed(event) for event in events] == [(event,) for event in events]
    assert all(left[0] is came for left, came in zip(map(filter_.feed, events), events, strict=True))
    assert filter_.held_count == 0
    assert filter_.flush() == ()


def test_prose_costs_no_scan_and_no_look_at_the_clock() -> None:
    def never(text: str = "") -> tuple[Finding, ...]:
        raise AssertionError(text)

    filter_ = StreamFilter(never, OutputProfile("p"), lambda: len(never()), 0)
    assert _feed(filter_, delta("Plain words, nothing else."), Finish(0, "stop"))[-1] == Finish(0, "stop")


def test_held_text_leaves_before_the_finish_of_its_choice() -> None:
    filter_ = new_filter()
    assert _feed(filter_, delta("card "), delta(CARD[:7]), delta(CARD[7:])) == [delta("card ")]
    assert filter_.held_count == len(CARD)
    assert _feed(filter_, Finish(0, "stop")) == [delta("[redacted:card]"), Finish(0, "stop")]
    assert filter_.actions == (FilterAction(RULE, "redact", "card", 1),)


def test_actions_are_counted_by_rule_action_and_kind() -> None:
    filter_ = new_filter()
    _feed(filter_, delta(f"{CARD}, a@b.org, {CARD}. "), Finish(0, "stop"))
    assert filter_.actions == (
        FilterAction(RULE, "redact", "card", 2),
        FilterAction(RULE, "redact", "email", 1),
    )


def test_each_choice_channel_and_tool_call_is_a_text_of_its_own() -> None:
    filter_ = new_filter()
    places = [
        (0, Channel.CONTENT, -1),
        (1, Channel.CONTENT, -1),
        (0, Channel.REASONING, -1),
        (0, Channel.REFUSAL, -1),
        (0, Channel.TOOL_ARGUMENTS, 0),
        (0, Channel.TOOL_ARGUMENTS, 1),
    ]
    events: list[StreamEvent] = []
    for half in ("x 4111 1111", " 1111 1111 y"):
        for choice, channel, tool in places:
            text = half.replace("x", '"x').replace("y", 'y"') if tool >= 0 else half
            events += filter_.feed(TextDelta(choice, channel, text, tool))
    events += filter_.flush()
    for choice, channel, tool in places:
        released = [
            event.text
            for event in events
            if isinstance(event, TextDelta)
            and (event.choice, event.channel, event.tool) == (choice, channel, tool)
        ]
        assert "".join(released).strip('"') == "x [redacted:card] y"


def test_finish_flushes_only_its_own_choice_in_the_order_its_texts_began() -> None:
    filter_ = new_filter()
    events = [
        TextDelta(1, Channel.CONTENT, "7"),
        TextDelta(0, Channel.REASONING, "8"),
        TextDelta(0, Channel.CONTENT, "9"),
    ]
    assert _feed(filter_, *events) == []
    assert _feed(filter_, Finish(0, "length")) == [events[1], events[2], Finish(0, "length")]
    assert filter_.flush() == (events[0],)


def test_stop_ends_the_choice_with_content_filter_and_drops_the_rest() -> None:
    filter_ = new_filter(_profile(Action.STOP))
    released = _feed(
        filter_,
        RoleDelta(0, "assistant"),
        delta(f"My card is {CARD}. And that was all of it, nothing else to say."),
        delta(" more"),
        TextDelta(0, Channel.REASONING, "thoughts"),
        ToolCallStart(0, 0, "call_1", "pay"),
        delta("other", choice=1),
        Finish(0, "stop"),
        RoleDelta(0, "assistant"),
        Finish(1, "stop"),
    )
    assert released == [
        RoleDelta(0, "assistant"),
        delta("My card is "),
        Finish(0, "content_filter"),
        delta("other", choice=1),
        Finish(1, "stop"),
    ]
    assert filter_.actions == (FilterAction("cards@1", "stop", "card", 1),)


def test_stop_at_the_finish_gives_one_finish() -> None:
    filter_ = new_filter(_profile(Action.STOP))
    assert _feed(filter_, delta(CARD), Finish(0, "stop")) == [Finish(0, "content_filter")]


def test_stop_at_flush_ends_the_choice() -> None:
    filter_ = new_filter(_profile(Action.STOP))
    _feed(filter_, delta(CARD))
    assert filter_.flush() == (Finish(0, "content_filter"),)


def test_block_ends_the_answer_and_leaves_the_filter_dead() -> None:
    filter_ = new_filter(_profile(Action.BLOCK))
    with pytest.raises(OutputBlocked) as caught:
        filter_.feed(delta(f"My card is {CARD}. And that was all of it, nothing else to say."))
    assert caught.value.code == "output-blocked"
    assert "4111" not in f"{caught.value.message} {caught.value.detail}"
    with pytest.raises(OutputBlocked):
        filter_.feed(delta("prose"))
    with pytest.raises(OutputBlocked):
        filter_.flush()


@pytest.mark.parametrize("end", ["feed", "finish", "flush"])
def test_finder_that_raises_blocks_and_lets_no_tail_out(end: str) -> None:
    def broken(text: str) -> tuple[Finding, ...]:
        raise ValueError(text)

    filter_ = new_filter(finder=broken)
    assert _feed(filter_, delta("prose "), delta("alice@corp.org")) == [delta("prose "), delta("alice")]
    ends: dict[str, Callable[[], object]] = {
        "feed": partial(filter_.feed, delta(" and")),
        "finish": partial(filter_.feed, Finish(0, "stop")),
        "flush": filter_.flush,
    }
    with pytest.raises(OutputBlocked) as caught:
        ends[end]()
    assert caught.value.__cause__ is None
    with pytest.raises(OutputBlocked):
        filter_.flush()


def test_spent_budget_blocks() -> None:
    ticks = count(0, 10)
    filter_ = StreamFilter(find, OutputProfile("p"), lambda: next(ticks), 15)
    assert filter_.feed(delta("a@b.org ")) == (delta("a[redacted:email] "),)
    with pytest.raises(OutputBlocked) as caught:
        filter_.feed(delta("a@b.org c@d.org "))
    assert caught.value.detail == "budget-spent"


def test_fault_of_the_filter_itself_blocks() -> None:
    filter_ = new_filter()
    with pytest.raises(OutputBlocked) as caught:
        filter_.feed(TextDelta(0, Channel.CONTENT, b"x"))  # type: ignore[arg-type]
    assert caught.value.detail == "filter-raised"


def test_text_after_a_finish_blocks() -> None:
    for late in (delta("x"), ToolCallStart(0, 0, "id", "name"), Finish(0, "stop")):
        filter_ = new_filter()
        _feed(filter_, delta("x"), Finish(0, "stop"))
        with pytest.raises(OutputBlocked):
            filter_.feed(late)


def test_too_many_texts_block() -> None:
    filter_ = new_filter()
    for choice in range(MAX_TEXTS):
        filter_.feed(delta("x", choice=choice))
    with pytest.raises(OutputBlocked):
        filter_.feed(delta("x", choice=MAX_TEXTS))


# --- logprobs ------------------------------------------------------------------------------------------


def _with_logprobs(text: str, *tokens: str) -> TextDelta:
    return TextDelta(0, Channel.CONTENT, text, -1, _logprobs(*(tokens or (text,))))


def test_logprobs_pass_with_prose() -> None:
    event = _with_logprobs("Hello")
    assert new_filter().feed(event) == (event,)


def test_logprobs_pass_with_text_that_was_held_and_released_unmodified() -> None:
    filter_ = new_filter()
    events = [_with_logprobs(text) for text in ("in 20", "24", " there")]
    assert _feed(filter_, *events) == events


def test_logprobs_of_masked_text_and_of_what_was_cut_with_it_are_dropped() -> None:
    filter_ = new_filter()
    events = [_with_logprobs(text) for text in ("card ", "x 4111 1111 ", "1111 1111", ", so", " be it")]
    assert _feed(filter_, *events, Finish(0, "stop")) == [
        events[0],
        delta("x [redacted:card]"),
        events[3],
        events[4],
        Finish(0, "stop"),
    ]


def test_logprobs_that_say_more_than_their_text_are_dropped() -> None:
    assert new_filter().feed(_with_logprobs("Hello", "4111", "1111")) == (delta("Hello"),)
    assert new_filter().feed(_with_logprobs("", "4111")) == (delta(""),)


def _with_alternative(token: str, **more: object) -> TextDelta:
    row = {"token": "Hello", "logprob": -1.0, "top_logprobs": [{"token": token, "logprob": -2.0, **more}]}
    return TextDelta(0, Channel.CONTENT, "Hello", -1, JsonText(json.dumps({"content": [row]})))


@pytest.mark.parametrize(
    "event", [_with_alternative(CARD), _with_alternative("token:1", bytes=list(CARD.encode()))]
)
def test_logprobs_with_a_finding_in_an_alternative_are_dropped(event: TextDelta) -> None:
    filter_ = new_filter()
    assert filter_.feed(event) == (delta("Hello"),)
    assert filter_.actions == (FilterAction(RULE, "redact", "card", 1),)
    with pytest.raises(OutputBlocked):
        new_filter(_profile(Action.BLOCK)).feed(event)


def test_logprobs_with_plain_alternatives_pass_and_their_scan_has_a_budget_of_its_own() -> None:
    event = _with_alternative(" Hello there")
    assert new_filter(budget_ns=1).feed(event) == (event,)


def test_finding_over_the_alternatives_of_one_rank_drops_the_logprobs() -> None:
    rows = [{"token": "a", "top_logprobs": [{"token": part}]} for part in CARD.split()]
    event = TextDelta(0, Channel.CONTENT, "aaaa", -1, JsonText(json.dumps({"content": rows})))
    assert new_filter().feed(event) == (delta("aaaa"),)


def test_stop_releases_the_beginning_of_its_delta_without_logprobs() -> None:
    filter_ = new_filter(_profile(Action.STOP))
    released = _feed(filter_, _with_logprobs(f"My card is {CARD}."), Finish(0, "stop"))
    assert released == [delta("My card is "), Finish(0, "content_filter")]


# --- other events --------------------------------------------------------------------------------------


def test_other_events_pass() -> None:
    events: list[StreamEvent] = [
        AnswerStart("", "moe", 1_700_000_000, "vllm-0.32.0-tp2-ep"),
        RoleDelta(0, "assistant"),
        ToolCallStart(0, 0, "call_1", "get_weather"),
        Finish(0, "stop", JsonText('"###"')),
        UsageReport(Usage(3, 4)),
        AnswerEnd(),
    ]
    assert _feed(new_filter(), *events) == events


def test_answer_end_comes_after_what_was_held() -> None:
    assert _feed(new_filter(), delta("17"), AnswerEnd()) == [delta("17"), AnswerEnd()]


@pytest.mark.parametrize(
    "event",
    [
        AnswerStart("a\nb", "moe", 0),
        AnswerStart("a", "mo\u00e9", 0),
        AnswerStart("a", "moe", 0, "x" * 257),
        RoleDelta(0, "r\x00le"),
        ToolCallStart(0, 0, "id", "n\u00e4me"),
        ToolCallStart(0, 0, "i\td", "name"),
        Finish(0, "st\u00f6p"),
    ],
)
def test_short_strings_of_a_provider_that_are_not_printable_ascii_block(event: StreamEvent) -> None:
    with pytest.raises(OutputBlocked) as caught:
        new_filter().feed(event)
    assert caught.value.detail == "provider-string"


@pytest.mark.parametrize("told", [CARD.replace(" ", ""), "a b", "", "x" * 65, "card=4", "a/b", "fp:1"])
def test_fingerprint_with_a_finding_or_of_another_shape_is_dropped(told: str) -> None:
    assert new_filter().feed(AnswerStart("a", "moe", 1, told)) == (AnswerStart("", "moe", 1),)


@pytest.mark.parametrize("told", [CARD.replace(" ", ""), CARD, "a b", "x" * 129])
def test_model_with_a_finding_or_of_another_shape_and_any_id_are_emptied(told: str) -> None:
    assert new_filter().feed(AnswerStart(told, "org/moe:1", 1)) == (AnswerStart("", "org/moe:1", 1),)
    assert new_filter().feed(AnswerStart("id", told, 1)) == (AnswerStart("", "", 1),)


def test_finding_in_a_name_is_counted_and_may_block() -> None:
    filter_ = new_filter()
    start = AnswerStart("a", "moe", 1, CARD.replace(" ", "-"))
    filter_.feed(start)
    assert filter_.actions == (FilterAction(RULE, "redact", "card", 1),)
    with pytest.raises(OutputBlocked):
        new_filter(_profile(Action.BLOCK)).feed(start)


def test_tool_name_with_a_finding_blocks() -> None:
    with pytest.raises(OutputBlocked) as caught:
        new_filter().feed(ToolCallStart(0, 0, "call_1", "mail_alice@corp.org"))
    assert caught.value.detail == "tool-name"


def test_tool_id_with_a_finding_gets_another_id() -> None:
    filter_ = new_filter()
    assert filter_.feed(ToolCallStart(0, 2, CARD, "pay")) == (
        ToolCallStart(0, 2, "call_redacted_0_2", "pay"),
    )
    assert filter_.actions == (FilterAction(RULE, "redact", "card", 1),)


def test_tool_id_with_a_blocking_finding_blocks() -> None:
    with pytest.raises(OutputBlocked):
        new_filter(_profile(Action.BLOCK)).feed(ToolCallStart(0, 2, CARD, "pay"))


def test_stop_reason_with_a_finding_is_dropped() -> None:
    told = (f'"{CARD}"', '"\\u0034111 1111 1111 1111"')
    for event in (Finish(0, "stop", JsonText(text)) for text in told):
        assert new_filter().feed(event) == (Finish(0, "stop", None),)
