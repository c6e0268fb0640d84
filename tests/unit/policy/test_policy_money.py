from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.domain.decision import Destination
from gateway.domain.label import Level
from gateway.domain.limits import USD_MICROS_MAX, Budget, ScopeLimits, Usage
from gateway.errors import ConfigurationError
from gateway.policy.compile import compile_bundle
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.prices import Price
from tests.fakes.policy_pack import pack

DAY = 86_400
PLACE = Destination("private", "vllm", Level.RESTRICTED, False, "eu", "moe")
ENTRY = '- {destination: private, model: moe, from: "2026-01-02", input: 1000000, output: 4000000}'


def compiled(limits: str = "", prices: str | None = None) -> CompiledPolicy:
    files = pack()
    files["limits.yaml"] += limits
    if prices is not None:
        files["prices.yaml"] = f'version: "1"\nprices:\n  {prices}\n'
    return compile_bundle(files)


def in_acme(words: str) -> CompiledPolicy:
    files = pack()
    old = "acme: {floor: internal, "
    assert old in files["limits.yaml"]
    files["limits.yaml"] = files["limits.yaml"].replace(old, old + words + ", ")
    return compile_bundle(files)


def test_price_counts_cached_and_reasoning_tokens_as_parts_and_rounds_up() -> None:
    price = Price(0, input=1_000_000, cached=100_000, output=2_000_000, reasoning=5_000_000)
    assert price.of(Usage(100, 50, cached_tokens=40, reasoning_tokens=10)) == 60 + 4 + 80 + 50
    assert price.of(Usage(1, 0, cached_tokens=1)) == 1
    assert price.of(Usage(5, 0, cached_tokens=99)) == 1
    assert price.of(Usage(0, 0)) == 0


def test_latest_price_that_has_begun_holds_and_before_the_first_there_is_none() -> None:
    later = ENTRY.replace("01-02", "02-01").replace("1000000", "3000000")
    prices = compiled(prices=f"{ENTRY}\n  {later}").prices
    first = 20_455 * DAY
    assert prices.cost(PLACE, Usage(1, 1), first - 1) is None
    assert prices.cost(PLACE, Usage(1, 1), first) == 5
    assert prices.cost(PLACE, Usage(1, 1), first + 30 * DAY) == 7
    assert prices.cost(replace(PLACE, model="other"), Usage(1, 1), first) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("input: 1000000", "input: 0", "an integer from 1"),
        ("output: 4000000", "output: 0", "an integer from 1"),
        ("private", "nowhere", "a destination of routing.yaml"),
        ("2026-01-02", "2026-13-02", "a day like"),
        ("2026-01-02", "20260102", "a day like"),
        ("output: 4000000", "output: 4000000, cached: 2000000", "at most the price of input"),
        (ENTRY, f"{ENTRY}\n  {ENTRY}", "one price for a model and day"),
    ],
)
def test_refuses_a_price_that_is_none(old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        compiled(prices=ENTRY.replace(old, new))


def test_scopes_and_budgets_of_a_tenant_are_read() -> None:
    words = (
        "budget: {day_usd_micros: 5, soft_month_usd_micros: 9}, per_key: {concurrency: 3}, "
        "per_user: {budget: {day_usd_micros: 2}}, models: {fast: {tokens_per_minute: 7}}"
    )
    limits = in_acme(words).tenants["acme"].limits
    assert limits.budget == Budget(5, USD_MICROS_MAX, None, 9)
    assert limits.key == ScopeLimits(concurrency=3)
    assert limits.user == ScopeLimits(budget=Budget(2))
    assert limits.models == {"fast": ScopeLimits(tokens_per_minute=7)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("per_key: {}", "at least one of"),
        ("budget: {}", "at least one of"),
        ("budget: {day_usd_micros: 0}", "an integer from 1"),
        ("budget: {day_usd_micros: 5, soft_day_usd_micros: 6}", "at most day_usd_micros"),
        ("models: {none: {concurrency: 1}}", "a model of routing.yaml"),
        ("per_user: {concurrency: 0}", "an integer from 1"),
    ],
)
def test_refuses_a_scope_that_bounds_nothing(words: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        in_acme(words)


def test_limits_that_tenants_share_are_found_by_destination() -> None:
    words = (
        "accounts:\n  main: {destinations: [hosted], tokens_per_minute: 9}\n"
        "destinations:\n  hosted: {concurrency: 4}\n  private: {concurrency: 5}\n"
    )
    shared = compiled(words).shared
    account, quotas = shared["hosted"]
    assert (account, [(quota.scope, quota.owner) for quota in quotas]) == (
        "main",
        [("account", "main"), ("destination", "hosted")],
    )
    assert shared["private"][0] == "destination/private"


def test_a_destination_has_one_account() -> None:
    one = "{destinations: [hosted], tokens_per_minute: 9}"
    with pytest.raises(ConfigurationError, match="no other account"):
        compiled(f"accounts:\n  one: {one}\n  two: {one}\n")
