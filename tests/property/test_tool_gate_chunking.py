"""Laws of the tool gate: whole equals any split, alone and behind the real output filter."""

from __future__ import annotations

import hashlib
import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.chat import JsonText, OfferedTool, ToolDefinition
from gateway.domain.record import ToolCallFact
from gateway.domain.stream import Channel, Finish, OutputFilter, StreamEvent, TextDelta, ToolCallStart
from gateway.errors import Refusal
from gateway.protocols.own_tools import OwnTools
from gateway.protocols.tool_gate import ToolGate
from tests.fakes.output_finder import cut, new_filter
from tests.property.test_output_chunking import SECRETS

SCHEMA = {
    "type": "object",
    "properties": {"ref": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["ref"],
}
OFFERED = OwnTools().offer((ToolDefinition("own", None, JsonText(json.dumps(SCHEMA))),))
PINNED = OfferedTool("look_up", "search@1.0.0", "a" * 64, OFFERED[0].fault)

_values = st.one_of(
    st.fixed_dictionaries({"ref": st.text(max_size=12)}, optional={"n": st.integers()}),
    st.fixed_dictionaries({"ref": st.sampled_from(SECRETS)}),
    st.dictionaries(st.sampled_from(["ref", "n", "x"]), st.text(max_size=4) | st.integers(), max_size=3),
    st.text(max_size=6),
)
#: Arguments as models write them: mostly good, sometimes cut, sometimes something else.
arguments = st.one_of(
    _values.map(json.dumps),
    _values.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1)),
    st.tuples(_values.map(json.dumps), st.integers(0, 30)).map(lambda pair: pair[0][: pair[1]]),
    st.text(st.sampled_from('{}[]",:\\ref1 '), max_size=12),
)
answers = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.text("aé .,", max_size=12) | st.sampled_from(SECRETS)),
        st.tuples(st.sampled_from(["own", "look_up", "look_up", "nobody"]), arguments),
    ),
    max_size=5,
)


class Pass:
    """An output filter that passes everything."""

    actions = ()

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        return (event,)

    def flush(self) -> tuple[StreamEvent, ...]:
        return ()


def events_of(answer: list[tuple[str, str]], reason: str, random: Random | None) -> list[StreamEvent]:
    """Events of one choice; `random` cuts texts and mixes the deltas of calls that are open."""
    events: list[StreamEvent] = []
    open_calls: list[tuple[int, list[str]]] = []
    for at, (kind, text) in enumerate(answer):
        if kind == "text":
            events += [TextDelta(0, Channel.CONTENT, piece) for piece in _pieces(text, random)]
            continue
        events.append(ToolCallStart(0, at, f"c{at}", kind))
        open_calls.append((at, _pieces(text, random)))
        if random is None or random.random() < 0.5:
            events += _drained(open_calls, random)
    events += _drained(open_calls, random)
    return [*events, Finish(0, reason)]


def _pieces(text: str, random: Random | None) -> list[str]:
    if random is None:
        return [text] if text else []
    return [piece for piece in cut(text, sorted(random.choices(range(len(text) + 1), k=4))) if piece]


def _drained(open_calls: list[tuple[int, list[str]]], random: Random | None) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    while any(pieces for _, pieces in open_calls):
        ready = [call for call in open_calls if call[1]]
        tool, pieces = ready[0] if random is None else random.choice(ready)
        events.append(TextDelta(0, Channel.TOOL_ARGUMENTS, pieces.pop(0), tool))
    open_calls.clear()
    return events


Outcome = tuple[str, list[StreamEvent], str, tuple[ToolCallFact, ...]]


def outcome(inner: OutputFilter, events: list[StreamEvent]) -> Outcome:
    """Released content, all other released events, code of a refusal, facts."""
    gate = ToolGate(inner, (*OFFERED, PINNED), lambda data: hashlib.sha256(data).hexdigest())
    content: list[str] = []
    others: list[StreamEvent] = []
    code = ""
    try:
        for event in events:
            for out in gate.feed(event):
                if isinstance(out, TextDelta) and out.channel is Channel.CONTENT:
                    content.append(out.text)
                else:
                    others.append(out)
        assert gate.flush() == ()
    except Refusal as refusal:
        code = refusal.code
    return "".join(content), others, code, gate.calls


@settings(max_examples=150, deadline=None)
@given(answers, st.sampled_from(["tool_calls", "stop", "length", "content_filter"]), st.integers(0, 2**32))
def test_what_comes_out_does_not_depend_on_the_cuts(
    answer: list[tuple[str, str]], reason: str, seed: int
) -> None:
    whole = outcome(Pass(), events_of(answer, reason, None))
    for offset in range(3):
        assert outcome(Pass(), events_of(answer, reason, Random(seed + offset))) == whole


@settings(max_examples=150, deadline=None)
@given(answers, st.sampled_from(["tool_calls", "length"]), st.integers(0, 2**32))
def test_behind_the_output_filter_it_does_not_depend_on_the_cuts_either(
    answer: list[tuple[str, str]], reason: str, seed: int
) -> None:
    # A name that is not offered ends the answer early, and what the filter holds then follows its cuts.
    answer = [one for one in answer if one[0] != "nobody"]
    whole = outcome(new_filter(), events_of(answer, reason, None))
    for offset in range(3):
        assert outcome(new_filter(), events_of(answer, reason, Random(seed + offset))) == whole


@settings(max_examples=150, deadline=None)
@given(answers, st.sampled_from(["tool_calls", "stop", "length", "content_filter"]), st.integers(0, 2**32))
def test_every_call_that_comes_out_was_offered_and_is_an_object_of_its_schema(
    answer: list[tuple[str, str]], reason: str, seed: int
) -> None:
    _, others, code, facts = outcome(new_filter(), events_of(answer, reason, Random(seed)))
    starts = [event for event in others if isinstance(event, ToolCallStart)]
    texts = [event for event in others if isinstance(event, TextDelta)]
    assert [start.tool for start in starts] == [text.tool for text in texts]
    assert len(starts) == sum(fact.outcome == "released" for fact in facts)
    for start, text in zip(starts, texts, strict=True):
        assert start.name in {"own", "look_up"}
        value = json.loads(text.text)
        assert value.keys() <= {"ref", "n"}
        assert isinstance(value["ref"], str)
    if code:
        assert starts == []
        assert not any(isinstance(event, Finish) for event in others)
