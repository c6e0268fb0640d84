"""The filter of one exchange: events in, events out, and nothing unscanned between.

Invariants
1. Released text per (choice, channel, tool call) does not depend on how it was cut into deltas.
2. After `OutputBlocked` the filter is dead: every later call raises it again.
3. A choice's `Finish` comes after all of its text; after a stop nothing of the choice follows.
4. logprobs pass only with exactly the text that they describe, released unmodified as one delta, and
   when nothing is found in the alternatives that they tell.
5. The model and the fingerprint that a provider names pass only in the shape of a name, and scanned; its
   id of the answer does not pass.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

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
    UsageReport,
    Vector,
)
from gateway.errors import OutputBlocked
from gateway.output.guard import Watch
from gateway.output.hold import Hold
from gateway.output.judge import Find, Judge, Mask, blocked
from gateway.output.logprobs import beside
from gateway.output.pieces import Piece
from gateway.output.rules import Action, OutputProfile

#: Texts of one answer (choices times channels and tool calls); more is no answer.
MAX_TEXTS = 512
_PRINTABLE = re.compile(r"[\x20-\x7e]{0,256}")
# Models (`org/model`, `ft:model:org::id`), and fingerprints of a backend (`fp_44709d6fcb`).
_MODEL = re.compile(r"[A-Za-z0-9_.:/@-]{1,128}")
_FINGERPRINT = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_Key = tuple[int, Channel, int]


class _Waiting:
    """A delta on its way: how much of it is undecided, and what is not yet released of the rest."""

    __slots__ = ("event", "is_whole", "left", "parts")

    def __init__(self, event: TextDelta) -> None:
        self.event = event
        self.left = len(event.text)
        self.parts: list[str] = []
        self.is_whole = True  # nothing masked, nothing released apart


class _Text:
    """One filtered text with the deltas whose characters are not all decided yet."""

    __slots__ = ("hold", "waiting")

    def __init__(self, hold: Watch) -> None:
        self.hold: Watch = hold
        self.waiting: deque[_Waiting] = deque()

    def deal(self, piece: Piece) -> Iterator[_Waiting]:
        """Give a decided piece to the deltas that its characters came in; yields those now complete."""
        offset = 0
        while offset < piece.size:
            waiting = self.waiting[0]
            size = min(piece.size - offset, waiting.left)
            if piece.is_verbatim:
                waiting.parts.append(piece.text[offset : offset + size])
            else:
                waiting.is_whole = False
                if offset == 0:
                    waiting.parts.append(piece.text)
            offset += size
            waiting.left -= size
            if not waiting.left:
                yield self.waiting.popleft()


class StreamFilter:
    """Output filter of one exchange (`gateway.domain.stream.OutputFilter`).

    `budget_ns` bounds the scans of one event, per 4,096 characters of it begun. Held back per text: at
    most the profile's `hold_chars`, and the delta that brought them when it has logprobs.
    `new_watch(is_json)` makes the watch of one text when it is not to be searched for findings; logprobs and
    names are then left to the filter that does.
    Raises `OutputBlocked` from `feed` and `flush`.
    """

    __slots__ = (
        "_actions", "_dead", "_finished", "_judge", "_last", "_last_key", "_new_watch", "_profile",
        "_stopped", "_texts",
    )  # fmt: skip

    def __init__(
        self,
        find: Find,
        profile: OutputProfile,
        clock_ns: Callable[[], int],
        budget_ns: int,
        new_watch: Callable[[bool], Watch] | None = None,
    ) -> None:
        self._judge = Judge(find, profile, clock_ns, budget_ns)
        self._profile = profile
        self._new_watch = new_watch
        self._texts: dict[_Key, _Text] = {}
        self._last_key: _Key | None = None
        self._last: _Text | None = None
        self._finished: set[int] = set()
        self._stopped: set[int] = set()
        self._actions: dict[tuple[str, str, str], int] = {}
        self._dead = False

    @property
    def actions(self) -> tuple[FilterAction, ...]:
        """What was done so far, sorted by rule, action and kind."""
        return tuple(
            FilterAction(rule, action, kind, count)
            for (rule, action, kind), count in sorted(self._actions.items())
        )

    @property
    def held_count(self) -> int:
        """Characters that are held back now, over all texts."""
        return sum(text.hold.held_count for text in self._texts.values())

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        """Events that may be released now."""
        if self._dead:
            raise blocked("used-after-block")
        try:
            if type(event) is TextDelta:
                return self._delta(event)
            return self._other(event)
        except OutputBlocked:
            self._dead = True
            raise
        except Exception:  # noqa: BLE001
            # fail-closed: a fault of the filter itself is no reason to let the answer pass.
            self._dead = True
            raise blocked("filter-raised") from None

    def flush(self) -> tuple[StreamEvent, ...]:
        """What was still held back, filtered, when the answer ends."""
        if self._dead:
            raise blocked("used-after-block")
        try:
            self._judge.begin(self.held_count)
            return tuple(self._rest({choice for choice, _, _ in self._texts}))
        except OutputBlocked:
            self._dead = True
            raise
        except Exception:  # noqa: BLE001
            # fail-closed: what could not be filtered is not released at the end either.
            self._dead = True
            raise blocked("filter-raised") from None

    # --- text ------------------------------------------------------------------------------------------

    def _delta(self, event: TextDelta) -> tuple[StreamEvent, ...]:
        choice = event.choice
        if choice in self._finished:
            return self._late(choice)
        if not event.text:
            return (self._checked(event),)
        key = (choice, event.channel, event.tool)
        text = self._last if key == self._last_key and self._last is not None else self._text(key)
        if not text.waiting and text.hold.passes(event.text):
            return (event,) if event.logprobs is None else (self._checked(event),)
        self._judge.begin(len(event.text))
        text.waiting.append(_Waiting(event))
        return tuple(self._released(text, text.hold.feed(event.text)))

    def _late(self, choice: int) -> tuple[StreamEvent, ...]:
        """Nothing, after a stop by this filter; what follows the provider's own end is refused."""
        if choice in self._stopped:
            return ()
        # fail-closed: decoders guarantee the order; an answer without it is not understood.
        raise blocked("text-after-finish")

    def _text(self, key: _Key) -> _Text:
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= MAX_TEXTS:
                # fail-closed: an answer with so many parts is an attack on memory.
                raise blocked("too-many-texts")
            is_json = key[1] is Channel.TOOL_ARGUMENTS
            hold: Watch = (
                Hold(self._judge, self._profile.hold_chars, is_json)
                if self._new_watch is None
                else self._new_watch(is_json)
            )
            text = self._texts[key] = _Text(hold)
        self._last_key, self._last = key, text
        return text

    def _released(self, text: _Text, pieces: list[Piece]) -> list[StreamEvent]:
        """Events for decided pieces: as far as possible the deltas they came in."""
        events: list[StreamEvent] = []
        for piece in pieces:
            if piece.mask is not None:
                self._count(piece.mask)
            if piece.stops:
                choice = text.waiting[0].event.choice
                self._partly(text, events, is_last=True)
                return events + self._stop(choice)
            for waiting in text.deal(piece):
                if waiting.is_whole:
                    events.append(self._checked(waiting.event))
                elif released := "".join(waiting.parts):
                    events.append(_like(waiting.event, released))
        self._partly(text, events)
        return events

    @staticmethod
    def _partly(text: _Text, events: list[StreamEvent], is_last: bool = False) -> None:
        """Release the decided part of the delta in front, unless its logprobs ask to keep it whole."""
        if not text.waiting:
            return
        waiting = text.waiting[0]
        if waiting.event.logprobs is None or not waiting.is_whole or is_last:
            if released := "".join(waiting.parts):
                events.append(_like(waiting.event, released))
                waiting.is_whole = False
            waiting.parts.clear()
        if is_last:
            text.waiting.clear()

    def _checked(self, event: TextDelta) -> TextDelta:
        """The delta, without its logprobs when they say more than its text, or something to be masked."""
        if event.logprobs is None or self._new_watch is not None:
            return event
        told = beside(event.logprobs, event.text)
        if told is not None and not self._is_found(told):
            return event
        return TextDelta(event.choice, event.channel, event.text, event.tool)

    def _is_found(self, text: str) -> bool:
        """Whether a rule is about something in a text beside the answer's own; counts it."""
        if not text:
            return False
        self._judge.extend(len(text))
        masks = self._judge.scan(text)
        for mask in masks:
            self._count(mask)
        return bool(masks)

    # --- other events ----------------------------------------------------------------------------------

    def _other(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        match event:
            case AnswerStart():
                return (self._start(event),)
            case RoleDelta():
                _short(event.role)
                return () if event.choice in self._stopped else (event,)
            case ToolCallStart():
                return self._tool(event)
            case Finish():
                return self._finish(event)
            case UsageReport() | Vector():
                # Numbers only: decoders give nothing else.
                return (event,)
            case AnswerEnd():
                return (*self.flush(), event)
            case TextDelta():
                return self._delta(event)
            case _:
                assert_never(event)

    def _start(self, event: AnswerStart) -> AnswerStart:
        """The facts of the answer, without names that have another shape or hold a finding."""
        for value in (event.id, event.model, event.system_fingerprint or ""):
            _short(value)
        model, fingerprint = event.model, event.system_fingerprint or ""
        if _MODEL.fullmatch(model) is None or self._is_found(model):
            model = ""
        if _FINGERPRINT.fullmatch(fingerprint) is None or self._is_found(fingerprint):
            fingerprint = ""
        # The gateway answers under an id of its own, and to scan this one would cost 15 us.
        return AnswerStart("", model, event.created_seconds, fingerprint or None)

    def _tool(self, event: ToolCallStart) -> tuple[StreamEvent, ...]:
        if event.choice in self._finished:
            return self._late(event.choice)
        _short(event.name)
        _short(event.id)
        self._judge.begin(len(event.name) + len(event.id))
        if self._judge.scan(event.name):
            # fail-closed: a name cannot be masked and still call anything.
            raise blocked("tool-name")
        if masks := self._judge.scan(event.id):
            for mask in masks:
                self._count(mask)
            event = replace(event, id=f"call_redacted_{event.choice}_{event.tool}")
        return (event,)

    def _finish(self, event: Finish) -> tuple[StreamEvent, ...]:
        if event.choice in self._finished:
            return self._late(event.choice)
        self._judge.begin(len(event.stop_reason or ""))
        events = self._rest({event.choice})
        if event.choice in self._stopped:
            return tuple(events)
        self._finished.add(event.choice)
        _short(event.reason)
        if event.stop_reason is not None and self._judge.scan(event.stop_reason, is_json=True):
            event = replace(event, stop_reason=None)
        return (*events, event)

    def _rest(self, choices: set[int]) -> list[StreamEvent]:
        """What is still held of these choices, in the order their texts began."""
        events: list[StreamEvent] = []
        for (choice, _, _), text in list(self._texts.items()):
            if choice in choices and choice not in self._stopped:
                events += self._released(text, text.hold.flush())
        return events

    def _stop(self, choice: int) -> list[StreamEvent]:
        """End a choice by rule. What other texts of it still hold is dropped with the rest."""
        self._stopped.add(choice)
        self._finished.add(choice)
        return [Finish(choice, "content_filter")]

    def _count(self, mask: Mask) -> None:
        if mask.action is Action.BLOCK:
            raise blocked(f"rule {mask.rule}")
        key = (mask.rule, mask.action.word, mask.kind)
        self._actions[key] = self._actions.get(key, 0) + 1


def _like(event: TextDelta, text: str) -> TextDelta:
    return TextDelta(event.choice, event.channel, text, event.tool)


def _short(value: str) -> None:
    if _PRINTABLE.fullmatch(value) is None:
        # fail-closed: a provider's short string that is long or not printable ASCII carries something else.
        raise blocked("provider-string")
