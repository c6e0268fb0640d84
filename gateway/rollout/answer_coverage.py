"""Which text of an answer the output filter reads: found out by asking, before anything is served.

For every text that an event can carry, small answers are made with a known identifier in that place: whole,
as a plain answer has it, and cut in two, as a stream has it; in the first choice and in a second. They go
through the real filter with each profile of the policy. A place where the identifier comes out again, or that
has neither a probe nor a reason why it holds no text, refuses the candidate. Each place is asked once more
with a filter that cannot scan, which must not let it out either. Cost: 11 ms for a rule of a profile.

Pure: no clock, no IO.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from gateway.domain.chat import JsonText
from gateway.domain.finding import Coverage, Finding
from gateway.domain.label import Label
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Channel,
    Finish,
    RoleDelta,
    StreamEvent,
    TextDelta,
    ToolCallStart,
)
from gateway.errors import ConfigurationError, OutputBlocked
from gateway.output.rules import KindRule, OutputProfile
from gateway.output.stream_filter import StreamFilter
from gateway.rollout.coverage import CANARY, text_fields

Find = Callable[[str], tuple[Finding, ...]]
Events = tuple[StreamEvent, ...]

CHOICES = (0, 1)
#: Identifier without blanks, for places that take no others.
_COMPACT = CANARY.replace(" ", "")
_MANY_NS = 10**12

#: Places that carry no text of a provider, and why.
NO_TEXT: dict[str, str] = {
    "RoleDelta.role": "the decoder writes it, and takes no other word than assistant",
    "Finish.reason": "a word of the dialect; the decoder takes no other",
    "UsageReport.usage.source": "written by the decoder",
    "Vector.values": "finite numbers only, written anew by the decoder",
}
#: Places whose text is not read because it never passes; they are asked all the same.
NEVER_PASSES: dict[str, str] = {"AnswerStart.id": "the gateway answers under an id of its own"}


@dataclass(frozen=True, slots=True)
class AnswerCell:
    """One row: a place of an answer, what is said of it, and what becomes of a finding in a plain answer, in
    a streamed one, and of a text that cannot be scanned."""

    field: str
    coverage: Coverage
    plain: str
    streamed: str
    unscannable: str
    note: str = ""


def _logprobs(text: str) -> JsonText:
    """Logprobs of a text in one token, with the identifier among the alternatives."""
    other = {"token": _COMPACT, "logprob": -1.0, "bytes": None}
    return JsonText(
        json.dumps({"content": [{"token": text, "logprob": -0.1, "bytes": None, "top_logprobs": [other]}]})
    )


def _texts(channel: Channel, choice: int, pieces: tuple[str, ...]) -> Events:
    if channel is not Channel.TOOL_ARGUMENTS:
        return tuple(TextDelta(choice, channel, piece) for piece in pieces)
    start = ToolCallStart(choice, 0, "call_1", "tool")
    whole = ('{"a":"', *pieces, '"}') if len(pieces) > 1 else (f'{{"a":"{pieces[0]}"}}',)
    return (start, *(TextDelta(choice, channel, piece, 0) for piece in whole))


def _probes(field: str, choice: int, *, is_streamed: bool) -> Events:
    """Events of an answer with the identifier in one place."""
    start, end = AnswerStart("", "model", 0), Finish(choice, "stop")
    half = len(CANARY) // 2
    pieces = (CANARY[:half], CANARY[half:]) if is_streamed else (CANARY,)
    body: Events = (TextDelta(choice, Channel.CONTENT, "well"),)
    name, _, word = field.partition("[")
    match name:
        case "AnswerStart.id":
            start = replace(start, id=_COMPACT)
        case "AnswerStart.model":
            start = replace(start, model=_COMPACT)
        case "AnswerStart.system_fingerprint":
            start = replace(start, system_fingerprint=_COMPACT)
        case "ToolCallStart.id":
            body = (ToolCallStart(choice, 0, _COMPACT, "tool"),)
        case "ToolCallStart.name":
            body = (ToolCallStart(choice, 0, "call_1", _COMPACT),)
        case "Finish.stop_reason":
            end = replace(end, stop_reason=JsonText(json.dumps(CANARY)))
        case "TextDelta.logprobs":
            body = (TextDelta(choice, Channel.CONTENT, "well", -1, _logprobs("well")),)
        case _:
            body = _texts(Channel(word.rstrip("]")), choice, pieces)
    first: Events = tuple(RoleDelta(each, "assistant") for each in range(choice + 1))
    return (start, *first, *body, end, AnswerEnd())


def answer_fields() -> tuple[str, ...]:
    """Places of all text that an event can carry; `TextDelta.text` once for each channel."""
    found: list[str] = []
    for kind in get_args(StreamEvent):
        for path in text_fields(kind):
            field = f"{kind.__name__}.{path}"
            channels = [f"{field}[{channel.value}]" for channel in Channel]
            found += channels if field == "TextDelta.text" else [field]
    return tuple(found)


def outcome(events: Events, new_filter: Callable[[], StreamFilter]) -> str | None:
    """What becomes of the identifier in these events: a word, or None when it comes out."""
    filtered: list[StreamEvent] = []
    gate = new_filter()
    try:
        for event in events:
            filtered += gate.feed(event)
        filtered += gate.flush()
    except OutputBlocked:
        is_ended = True
    else:
        is_ended = False
    said = "".join(_spelled(filtered))
    if _COMPACT in said.replace(" ", ""):
        return None
    if is_ended:
        return "answer ends"
    if any(isinstance(event, Finish) and event.reason == "content_filter" for event in filtered):
        return "choice ends"
    return "masked" if gate.actions else "left out"


def _spelled(events: list[StreamEvent]) -> Iterator[str]:
    """All text of events; pieces of one text follow one another."""
    for event in events:
        if not isinstance(event, TextDelta):
            yield f"\n{event!r}\n"
    for channel in Channel:
        for event in events:
            if isinstance(event, TextDelta) and event.channel is channel:
                yield event.text
                yield event.logprobs or ""
        yield "\n"


def answer_matrix(profile: OutputProfile, find: Find) -> tuple[AnswerCell, ...]:
    """Every text of an answer under one profile. `find` must find the identifier, as the profile acts on it.

    Raises `ConfigurationError` for a place that nobody thought of, or that lets the identifier out.
    """

    def clock() -> int:
        return 0

    def seeing() -> StreamFilter:
        return StreamFilter(find, profile, clock, _MANY_NS)

    def blind() -> StreamFilter:
        return StreamFilter(_cannot, profile, clock, _MANY_NS)

    return tuple(_cell(field, profile.name, seeing, blind) for field in answer_fields())


def _cannot(text: str) -> tuple[Finding, ...]:
    raise RuntimeError("a detector that fails")


def _cell(
    field: str, profile: str, seeing: Callable[[], StreamFilter], blind: Callable[[], StreamFilter]
) -> AnswerCell:
    if field in NO_TEXT:
        return AnswerCell(field, Coverage.NOTHING, "-", "-", "-", NO_TEXT[field])
    words: dict[bool, str] = {}
    unread: str | None = ""
    for is_streamed in (False, True):
        for choice in CHOICES:
            try:
                events = _probes(field, choice, is_streamed=is_streamed)
            except ValueError:
                # fail-closed: a place without a probe might leave unread.
                raise ConfigurationError(f"coverage of answers: no probe for {field}") from None
            found, unread = outcome(events, seeing), outcome(events, blind)
            if found is None or unread is None:
                # fail-closed: a filter that does not read a place does not guard it.
                way = "streamed" if is_streamed else "plain"
                raise ConfigurationError(
                    f"coverage of answers: profile {profile}: the output filter lets out {field}"
                    f" ({way}, choice {choice}{', unscanned' if found is not None else ''})"
                )
            words[is_streamed] = found
    if field in NEVER_PASSES:
        return AnswerCell(field, Coverage.NOTHING, words[False], words[True], "left out", NEVER_PASSES[field])
    return AnswerCell(field, Coverage.SCANNED, words[False], words[True], unread or "")


def check_answer_coverage(profiles: Mapping[str, OutputProfile], find: Find) -> None:
    """Return when each profile of the policy guards every text of an answer. Raises `ConfigurationError`.

    `find` are the detectors that will run. What they say of the identifier is given the kind and the level
    that a rule of the profile acts on, so that a profile for secrets only is asked about a secret.
    """
    if not find(CANARY):
        # fail-closed: without a finding every place would look guarded.
        raise ConfigurationError("coverage of answers: the detectors do not find the identifier of the probe")
    for profile in profiles.values():
        for rule in profile.rules:
            if isinstance(rule, KindRule):
                answer_matrix(replace(profile, rules=(rule,)), _as_seen_by(rule, find))


def _as_seen_by(rule: KindRule, find: Find) -> Find:
    kind = rule.kinds[0].rstrip("*") or "iban"

    def seen(text: str) -> tuple[Finding, ...]:
        return tuple(replace(one, kind=kind, label=Label(rule.level)) for one in find(text))

    return seen
