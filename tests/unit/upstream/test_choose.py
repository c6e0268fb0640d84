from __future__ import annotations

from gateway.domain.decision import Destination
from gateway.domain.label import Level
from gateway.upstream.choose import order


def _place(name: str) -> Destination:
    return Destination(name, "openai", Level.INTERNAL, True, "eu", "m")


def test_keeps_the_permits_order_when_all_are_well() -> None:
    places = (_place("a"), _place("b"))
    assert order(places, lambda _: False) == places


def test_moves_open_breakers_to_the_end_and_drops_nothing() -> None:
    a, b, c = _place("a"), _place("b"), _place("c")
    assert order((a, b, c), lambda place: place.name in {"a", "b"}) == (c, a, b)
