"""channels.yaml and floors.yaml: what they say, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gateway.errors import ConfigurationError
from gateway.protocols.channels import (
    Channel,
    Floor,
    Lifetime,
    RetirementFile,
    read_channels,
    read_floors,
    read_lifetime,
)
from gateway.protocols.version import Version

ONE, TWO = Version(1, 0, 0), Version(2, 0, 0)
PROMPTS = {"greeting": (ONE, TWO)}
SETS = {"search": (ONE,)}
#: 2026-12-01 and 2027-03-01, midnight in UTC.
DECEMBER, MARCH = 1_796_083_200, 1_803_859_200


def channels(text: str) -> Any:
    return read_channels(yaml.safe_load(text), PROMPTS, SETS)


def test_reads_channels_and_the_share_of_a_canary() -> None:
    found, _ = channels("greeting: {stable: 1.0.0, canary: {version: 2.0.0, percent: 2.5}, previous: 2.0.0}")
    assert found == {"greeting": Channel(ONE, TWO, 250, TWO)}


def test_reads_dates_of_prompts_and_of_tool_sets() -> None:
    found, lifetimes = channels(
        "greeting: {stable: 2.0.0, retire: {1.0.0: {deprecated: '2026-12-01', removed: '2027-03-01'}}}\n"
        "search: {retire: {1.0.0: {deprecated: '2026-12-01'}}}"
    )
    assert lifetimes == {
        ("greeting", ONE): Lifetime(DECEMBER, MARCH),
        ("search", ONE): Lifetime(DECEMBER, None),
    }
    assert set(found) == {"greeting"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("greeting: {stable: 3.0.0}", "greeting.stable: no prompt greeting@3.0.0"),
        ("greeting: {stable: ^1}", "greeting.stable: no prompt"),
        ("greeting: {canary: {version: 1.0.0, percent: 5}}", "greeting: expected stable"),
        ("greeting: {stable: 1.0.0, canary: {version: 9.0.0, percent: 5}}", "greeting.canary.version"),
        ("greeting: {stable: 1.0.0, canary: {version: 2.0.0, percent: 101}}", "expected 0 to 100"),
        ("greeting: {stable: 1.0.0, canary: {version: 2.0.0, percent: -1}}", "expected 0 to 100"),
        ("greeting: {stable: 1.0.0, canary: {version: 2.0.0}}", "missing required field `percent`"),
        ("greeting: {stable: 1.0.0, previous: 0.1.0}", "greeting.previous"),
        ("greeting: {}", "expected stable, or dates"),
        (
            "greeting: {stable: 1.0.0, retire: {7.0.0: {deprecated: '2026-12-01'}}}",
            "no document greeting@7.0.0",
        ),
        ("greeting: {stable: 1.0.0, retire: {1.0.0: {deprecated: soon}}}", "as YYYY-MM-DD"),
        ("greeting: {stable: 1.0.0, retire: {1.0.0: {deprecated: '20261201'}}}", "as YYYY-MM-DD"),
        ("greeting: {stable: 1.0.0, retire: {1.0.0: {deprecated: '2026-02-30'}}}", "as YYYY-MM-DD"),
        ("greeting: {stable: 1.0.0, retire: {1.0.0: {removed: '2026-12-01'}}}", "before `removed`"),
        (
            "greeting: {stable: 1.0.0, retire: {1.0.0: {deprecated: '2026-12-01', removed: '2026-12-01'}}}",
            "before `removed`",
        ),
        ("search: {stable: 1.0.0}", "search.stable: no prompt search@1.0.0"),
    ],
)
def test_names_what_is_wrong_in_the_channels(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        channels(text)
    assert str(caught.value).startswith("channels.yaml: ")
    assert words in str(caught.value)


def test_reads_floors_and_asks_for_a_version_unless_told_otherwise() -> None:
    floors = read_floors(
        {
            "acme": {"greeting": {"lowest": "2.0.0"}},
            "demo": {"greeting": {"lowest": "1.0.0", "require_version": False}},
        },
        PROMPTS,
    )
    assert floors == {"acme": {"greeting": Floor(TWO, True)}, "demo": {"greeting": Floor(ONE, False)}}


@pytest.mark.parametrize(
    "tree",
    [
        {"acme": {"greeting": {"lowest": "3.0.0"}}},
        {"acme": {"greeting": {"lowest": "^1"}}},
        {"acme": {"greeting": {}}},
        {"acme": {"nothing": {"lowest": "1.0.0"}}},
        {"Acme Ltd": {"greeting": {"lowest": "1.0.0"}}},
        {"acme": {"greeting": {"lowest": "1.0.0", "extra": 1}}},
        ["acme"],
    ],
)
def test_refuses_a_floor_that_nothing_reaches_or_nobody_has(tree: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^floors\.yaml: "):
        read_floors(tree, PROMPTS)


def test_a_document_without_dates_has_no_end() -> None:
    assert read_lifetime(RetirementFile(), "p") is None
