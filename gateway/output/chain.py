"""The whole output filter of one exchange: a filter for findings, and one for each guard of the profile.

Guards that read what the model wrote come before the filter for findings, those that read what is left come
behind it. Each filter is fed with the events that the one before it released. Their texts do not depend on
the cuts, so neither do the next one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.domain.finding import Finding
from gateway.domain.stream import FilterAction, OutputFilter, StreamEvent
from gateway.output.guard import Asked
from gateway.output.hosts import HostRule
from gateway.output.judge import Find
from gateway.output.rules import OutputProfile
from gateway.output.stream_filter import StreamFilter


class ChainedFilter:
    """Filters in a row (`gateway.domain.stream.OutputFilter`). Raises `OutputBlocked`; dead after it."""

    __slots__ = ("_filters",)

    def __init__(self, filters: tuple[StreamFilter, ...]) -> None:
        self._filters = filters

    @property
    def actions(self) -> tuple[FilterAction, ...]:
        """What was done so far by all of them."""
        return tuple(action for each in self._filters for action in each.actions)

    @property
    def held_count(self) -> int:
        """Characters that are held back now, over all filters and texts."""
        return sum(each.held_count for each in self._filters)

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        """Events that may be released now."""
        return self._through((event,), 0)

    def flush(self) -> tuple[StreamEvent, ...]:
        """What was still held back, filtered, when the answer ends."""
        events: tuple[StreamEvent, ...] = ()
        for index, each in enumerate(self._filters):
            events += self._through(each.flush(), index + 1)
        return events

    def _through(self, events: tuple[StreamEvent, ...], first: int) -> tuple[StreamEvent, ...]:
        for each in self._filters[first:]:
            if len(events) == 1:
                events = each.feed(events[0])
            else:
                events = tuple(out for event in events for out in each.feed(event))
        return events


def new_output_filter(
    find: Find, profile: OutputProfile, clock_ns: Callable[[], int], budget_ns: int, asked: Asked
) -> OutputFilter:
    """The filter of one exchange with this profile. Without guards it is the filter for findings alone."""
    hosts = tuple(rule for rule in profile.rules if isinstance(rule, HostRule))
    findings = StreamFilter(_with_hosts(find, hosts) if hosts else find, profile, clock_ns, budget_ns)
    before: list[StreamFilter] = []
    behind: list[StreamFilter] = []
    for guard in profile.guards:
        if (maker := guard.prepare(asked)) is not None:
            filters = before if guard.is_first else behind
            filters.append(StreamFilter(_nothing, profile, clock_ns, budget_ns, maker))
    return ChainedFilter((*before, findings, *behind)) if before or behind else findings


def _with_hosts(find: Find, hosts: tuple[HostRule, ...]) -> Find:
    def found(text: str) -> tuple[Finding, ...]:
        own: Iterable[Finding] = (each for rule in hosts for each in rule.find(text))
        return (*find(text), *own)

    return found


def _nothing(text: str) -> tuple[Finding, ...]:
    """No findings: a guard's filter searches texts with its watch alone."""
    return ()
