from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.finding import Coverage, Finding
from gateway.domain.label import Label, Level
from gateway.domain.stream import Channel, Finish, TextDelta
from gateway.errors import ConfigurationError
from gateway.output.rules import DEFAULT_PROFILE, Action, KindRule, OutputProfile
from gateway.output.stream_filter import StreamFilter
from gateway.rollout import answer_coverage
from gateway.rollout.answer_coverage import (
    NO_TEXT,
    answer_fields,
    answer_matrix,
    check_answer_coverage,
    outcome,
)
from gateway.rollout.coverage import CANARY
from gateway.sensitivity.detectors import build_detectors

DETECTORS = build_detectors()


def profile(action: Action, kinds: tuple[str, ...] = ("*",)) -> OutputProfile:
    return OutputProfile("other", (KindRule("rule@1", kinds, Level.RESTRICTED, action),))


def test_every_channel_and_every_other_text_of_an_event_has_its_row() -> None:
    fields = [cell.field for cell in answer_matrix(DEFAULT_PROFILE, DETECTORS.find)]
    assert fields == list(answer_fields())
    assert {f"TextDelta.text[{channel.value}]" for channel in Channel} <= set(fields)
    assert NO_TEXT.keys() <= set(fields)


@pytest.mark.parametrize(
    ("action", "word"),
    [(Action.REDACT, "masked"), (Action.STOP, "choice ends"), (Action.BLOCK, "answer ends")],
)
def test_a_finding_in_text_has_the_consequence_of_the_rule(action: Action, word: str) -> None:
    cells = answer_matrix(profile(action), DETECTORS.find)
    texts = [cell for cell in cells if cell.field.startswith("TextDelta.text")]
    assert {(cell.plain, cell.streamed) for cell in texts} == {(word, word)}
    assert {cell.unscannable for cell in cells if cell.coverage is Coverage.SCANNED} == {"answer ends"}


def test_a_rule_for_secrets_only_is_asked_about_a_secret() -> None:
    check_answer_coverage({"other": profile(Action.REDACT, ("openai-*", "jwt"))}, DETECTORS.find)


def test_a_profile_that_acts_on_another_kind_lets_the_identifier_out() -> None:
    with pytest.raises(ConfigurationError, match=r"profile other: the output filter lets out "):
        answer_matrix(profile(Action.REDACT, ("jwt",)), DETECTORS.find)


def test_detectors_that_do_not_find_the_probe_show_nothing() -> None:
    with pytest.raises(ConfigurationError, match="do not find the identifier"):
        check_answer_coverage({"default": DEFAULT_PROFILE}, lambda text: ())


@pytest.mark.parametrize("channel", list(Channel))
def test_a_filter_that_is_blind_for_one_channel_is_noticed(channel: Channel, monkeypatch: Any) -> None:
    class Blind(StreamFilter):
        __slots__ = ()

        def feed(self, event: Any) -> Any:
            if type(event) is TextDelta and event.channel is channel:
                return (event,)
            return super().feed(event)

    monkeypatch.setattr(answer_coverage, "StreamFilter", Blind)
    with pytest.raises(ConfigurationError) as caught:
        check_answer_coverage({"default": DEFAULT_PROFILE}, DETECTORS.find)
    assert f"lets out TextDelta.text[{channel.value}] (plain, choice 0)" in str(caught.value)


def test_a_filter_that_is_blind_for_later_choices_is_noticed(monkeypatch: Any) -> None:
    class Blind(StreamFilter):
        __slots__ = ()

        def feed(self, event: Any) -> Any:
            return (event,) if getattr(event, "choice", 0) else super().feed(event)

    monkeypatch.setattr(answer_coverage, "StreamFilter", Blind)
    with pytest.raises(ConfigurationError, match=r"\(plain, choice 1\)"):
        check_answer_coverage({"default": DEFAULT_PROFILE}, DETECTORS.find)


def test_a_filter_that_reads_each_delta_alone_is_noticed(monkeypatch: Any) -> None:
    class Short(StreamFilter):
        __slots__ = ()

        def feed(self, event: Any) -> Any:
            if type(event) is TextDelta and not any(one.kind for one in DETECTORS.find(event.text)):
                return (event,)
            return super().feed(event)

    monkeypatch.setattr(answer_coverage, "StreamFilter", Short)
    with pytest.raises(ConfigurationError, match=r"\(streamed, choice 0\)"):
        check_answer_coverage({"default": DEFAULT_PROFILE}, DETECTORS.find)


def test_a_new_text_without_a_probe_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(answer_coverage, "answer_fields", lambda: ("Finish.comment",))
    with pytest.raises(ConfigurationError, match=r"no probe for Finish\.comment"):
        answer_matrix(DEFAULT_PROFILE, DETECTORS.find)


def test_the_identifier_is_seen_when_it_comes_out_in_pieces() -> None:
    def passing() -> StreamFilter:
        return StreamFilter(lambda text: (), DEFAULT_PROFILE, time.perf_counter_ns, 10**12)

    half = len(CANARY) // 2
    events = (
        TextDelta(0, Channel.CONTENT, CANARY[:half]),
        TextDelta(0, Channel.REASONING, "between"),
        TextDelta(0, Channel.CONTENT, CANARY[half:]),
        Finish(0, "stop"),
    )
    assert outcome(events, passing) is None
    assert outcome(events[1:2], passing) == "left out"


def test_the_level_of_the_rule_is_the_level_of_the_probe() -> None:
    public = replace(DEFAULT_PROFILE, rules=(KindRule("all@1", ("*",), Level.PUBLIC, Action.REDACT),))

    def low(text: str) -> tuple[Finding, ...]:
        return tuple(replace(one, label=Label(Level.PUBLIC)) for one in DETECTORS.find(text))

    check_answer_coverage({"default": public}, low)
    check_answer_coverage({"default": DEFAULT_PROFILE}, low)
