"""A small finder for the output filter's tests, and a way to run a text through the filter in pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count, pairwise

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level, Tag
from gateway.domain.stream import Channel, FilterAction, Finish, TextDelta
from gateway.output.judge import Find
from gateway.output.rules import DEFAULT_PROFILE, OutputProfile
from gateway.output.stream_filter import StreamFilter

RESTRICTED = Label(Level.RESTRICTED, frozenset({Tag.PII}))
CONFIDENTIAL = Label(Level.CONFIDENTIAL, frozenset({Tag.PII}))
SECRET = Label(Level.RESTRICTED, frozenset({Tag.SECRET}))

_KINDS: tuple[tuple[str, Label, str], ...] = (
    ("card", RESTRICTED, r"(?<!\d)\d(?:[ -]?\d){14,15}(?!\d)"),
    ("iban", RESTRICTED, r"(?i)(?<![A-Z0-9])(?:GB|DE|FR|CH)\d\d(?: ?[A-Z0-9]){14,30}(?![A-Z0-9])"),
    ("ssn", RESTRICTED, r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])"),
    ("member-id", RESTRICTED, r"(?<!\d)\d{9}(?!\d)(?= is my member number)"),
    ("email", CONFIDENTIAL, r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
    ("email", CONFIDENTIAL, r"[A-Za-z0-9.]+ ?[\[(] ?at ?[\])] ?[a-z0-9-]+(?: ?[\[(] ?dot ?[\])] ?[a-z]+)+"),
    ("phone", CONFIDENTIAL, r"\+\d{1,3}(?:[ ()-]{0,2}\d){7,12}"),
    ("aws-key", SECRET, r"(?<![A-Z0-9])AKIA[A-Z0-9]{16}"),
    ("github-token", SECRET, r"gh[pousr]_[A-Za-z0-9]{36}"),
    ("openai-key", SECRET, r"(?<![a-z])sk-[A-Za-z0-9-]{20,}"),
    ("jwt", SECRET, r"eyJ[\w-]+\.[\w-]+\.[\w-]+"),
    ("password", SECRET, r"(?i)(?<=password: )\S{6,}|(?<=password is )\S{6,}"),
)  # fmt: skip
_EXPRESSIONS = tuple((kind, label, re.compile(expression)) for kind, label, expression in _KINDS)


def find(text: str) -> tuple[Finding, ...]:
    """Findings of a dozen simple expressions."""
    return tuple(
        Finding(kind, "fake@1", label, *match.span())
        for kind, label, expression in _EXPRESSIONS
        for match in expression.finditer(text)
    )


def new_filter(
    profile: OutputProfile = DEFAULT_PROFILE, finder: Find = find, budget_ns: int = 1_000_000
) -> StreamFilter:
    """A filter whose clock moves one nanosecond a look."""
    ticks = count()
    return StreamFilter(finder, profile, lambda: next(ticks), budget_ns)


def delta(text: str, choice: int = 0, channel: Channel = Channel.CONTENT, tool: int = -1) -> TextDelta:
    """A delta of content, unless said otherwise."""
    return TextDelta(choice, channel, text, tool)


def cut(text: str, places: Sequence[int]) -> list[str]:
    """`text` cut at these places."""
    return [text[first:last] for first, last in pairwise([0, *sorted(set(places)), len(text)])]


def released(
    parts: Sequence[str],
    *,
    channel: Channel = Channel.CONTENT,
    profile: OutputProfile = DEFAULT_PROFILE,
    finder: Find = find,
) -> tuple[str, str, tuple[FilterAction, ...]]:
    """Text that leaves when `parts` come as deltas of one choice, its finish reason, and what was done."""
    filter_ = new_filter(profile, finder)
    tool = 0 if channel is Channel.TOOL_ARGUMENTS else -1
    events = [event for part in parts for event in filter_.feed(delta(part, 0, channel, tool))]
    events += filter_.feed(Finish(0, "stop"))
    events += filter_.flush()
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    reasons = [event.reason for event in events if isinstance(event, Finish)]
    assert len(reasons) == 1
    return text, reasons[0], filter_.actions
