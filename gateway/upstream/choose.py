"""The order in which the destinations of a permit are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.domain.decision import Destination


def order(
    destinations: Sequence[Destination], is_open: Callable[[Destination], bool]
) -> tuple[Destination, ...]:
    """The permit's own order, with destinations that no replica can serve just now moved to the end.

    Nothing is added and nothing is dropped: the permit alone says what may be tried.
    """
    ready = [place for place in destinations if not is_open(place)]
    waiting = [place for place in destinations if is_open(place)]
    return (*ready, *waiting)
