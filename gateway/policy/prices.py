"""prices.yaml: what a destination charges for a model, from which day on.

Prices are micro-dollars for a million tokens: 2.50 dollars are 2500000. Zero is not a price: what costs
nothing to buy still costs its machines, and a forgotten price must not read as free.
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gateway.domain.decision import Destination
from gateway.domain.limits import Usage
from gateway.policy.fields import Field, Section

#: Highest price, in micro-dollars for a million tokens: 10,000 dollars.
PRICE_MAX = 10_000_000_000

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars for a million tokens of each kind, from `from_day` (Unix day, UTC) on."""

    from_day: int
    input: int
    cached: int
    output: int
    reasoning: int

    def of(self, usage: Usage) -> int:
        """Micro-dollars for this usage, rounded up; cached and reasoning tokens are part of the others."""
        cached = min(max(0, usage.cached_tokens), max(0, usage.input_tokens))
        reasoning = min(max(0, usage.reasoning_tokens), max(0, usage.output_tokens))
        total = (
            (max(0, usage.input_tokens) - cached) * self.input
            + cached * self.cached
            + (max(0, usage.output_tokens) - reasoning) * self.output
            + reasoning * self.reasoning
        )
        return -(-total // _MILLION)


class PriceTable:
    """Prices by destination and the destination's own name of a model, each list in order of its days."""

    __slots__ = ("_days", "_prices")

    def __init__(self, prices: Mapping[tuple[str, str], tuple[Price, ...]]) -> None:
        self._prices = prices
        self._days = {key: [price.from_day for price in each] for key, each in prices.items()}

    def cost(self, place: Destination, usage: Usage, at_seconds: int) -> int | None:
        """Micro-dollars for `usage` there at that time; None when no price holds then."""
        key = (place.name, place.model)
        days = self._days.get(key)
        position = bisect_right(days, at_seconds // 86_400) if days else 0
        return self._prices[key][position - 1].of(usage) if position else None

    def __len__(self) -> int:
        return sum(map(len, self._prices.values()))


NO_PRICES = PriceTable({})


def read_prices(root: Section, destinations: Collection[str]) -> PriceTable:
    """The table of prices.yaml. Raises `ConfigurationError`."""
    root.only("version", "prices")
    root["version"].name()
    found: dict[tuple[str, str], dict[int, Price]] = {}
    for field in root["prices"].items():
        section = field.section().only(
            "destination", "model", "from", "input", "cached", "output", "reasoning"
        )
        place = section["destination"].choice(destinations, "a destination of routing.yaml")
        rates = {key: section[key].integer(1, PRICE_MAX) for key in ("input", "output")}
        if "cached" in section and section["cached"].integer(1, PRICE_MAX) > rates["input"]:
            raise section["cached"].fault(f"at most the price of input, {rates['input']}")
        price = Price(
            from_day=_day(section["from"]),
            input=rates["input"],
            output=rates["output"],
            cached=section["cached"].integer(1, PRICE_MAX) if "cached" in section else rates["input"],
            reasoning=section["reasoning"].integer(1, PRICE_MAX)
            if "reasoning" in section
            else rates["output"],
        )
        dated = found.setdefault((place, section["model"].text(128)), {})
        if price.from_day in dated:
            raise section["from"].fault("one price for a model and day")
        dated[price.from_day] = price
    return PriceTable({key: tuple(dated[day] for day in sorted(dated)) for key, dated in found.items()})


def _day(field: Field) -> int:
    text = field.text(10)
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        raise field.fault('a day like "2026-12-01", in quotes', text) from None
    if len(text) != 10:
        raise field.fault('a day like "2026-12-01", in quotes', text)
    return (day - datetime.date(1970, 1, 1)).days
