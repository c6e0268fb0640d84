"""Which version a request gets, by channel, range, floor and date; and which refusals there are."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.chat import ChatRequest, Message, PromptReference, Role, TextPart
from gateway.errors import NotFound, Refusal, Removed, RequestRefused, Unresolvable, UpgradeRequired
from gateway.protocols.registry import Registry
from gateway.protocols.resolve import resolve
from tests.fakes.protocol_files import caller, good_files, prompt_manifest, registry_of

DECEMBER, MARCH = 1_796_083_200, 1_803_859_200


def registry(channels: str = "greeting: {stable: 1.2.0}", floors: str = "{}", **manifest: Any) -> Registry:
    """Versions 1.0.0, 1.2.0, 1.10.0 and 2.0.0 of one prompt."""
    files = {
        "channels.yaml": channels.encode(),
        "floors.yaml": floors.encode(),
        **{path: content for path, content in good_files().items() if path.startswith("search/")},
    }
    for version in ("1.0.0", "1.2.0", "1.10.0", "2.0.0"):
        fields = manifest if version == "1.0.0" else {}
        files[f"greeting/{version}/manifest.yaml"] = prompt_manifest(version=version, **fields)
        files[f"greeting/{version}/prompt.md"] = b"Greet {{who}}."
    return registry_of(files)


def chosen(registry: Registry, version: str | None, text: str = "Hello", **fields: Any) -> str:
    request = ChatRequest(
        "m",
        (Message(Role.SYSTEM, (TextPart("Be brief."),)), Message(Role.USER, (TextPart(text),))),
        prompt=PromptReference("greeting", version, (("who", "Ada"),)),
    )
    return resolve(request, caller(**fields), registry).pins[0].version


def headers(registry: Registry, version: str | None, **fields: Any) -> dict[bytes, bytes]:
    request = ChatRequest("m", (), prompt=PromptReference("greeting", version, (("who", "Ada"),)))
    return dict(resolve(request, caller(**fields), registry).notices)


def refusal(registry: Registry, version: str | None, **fields: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        chosen(registry, version, **fields)
    return caught.value


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        (None, "1.2.0"),
        ("stable", "1.2.0"),
        ("1.0.0", "1.0.0"),
        ("^1", "1.10.0"),
        ("^1.0.0", "1.10.0"),
        ("~1.0", "1.0.0"),
        ("~1.2", "1.2.0"),
        ("~1", "1.10.0"),
        ("^2", "2.0.0"),
    ],
)
def test_gives_the_version_that_was_asked_for(asked: str | None, version: str) -> None:
    assert chosen(registry(), asked) == version


def test_channels_are_named_too() -> None:
    all_three = registry("greeting: {stable: 1.2.0, previous: 1.0.0, canary: {version: 2.0.0, percent: 0}}")
    assert [chosen(all_three, word) for word in ("stable", "previous", "canary", None)] == [
        "1.2.0", "1.0.0", "2.0.0", "1.2.0",
    ]  # fmt: skip


def test_a_range_never_finds_the_canary() -> None:
    canary = registry("greeting: {stable: 1.2.0, canary: {version: 1.10.0, percent: 100}}")
    assert chosen(canary, "^1") == "1.2.0"
    assert chosen(canary, "1.10.0") == "1.10.0"
    assert chosen(canary, None) == "1.10.0"


def test_a_canary_takes_its_share_of_conversations_and_keeps_each() -> None:
    canary = registry("greeting: {stable: 1.2.0, canary: {version: 2.0.0, percent: 5}}")
    texts = [f"Conversation {number}" for number in range(2000)]
    first = [chosen(canary, None, text) for text in texts]
    assert first == [chosen(canary, None, text) for text in texts]
    assert 60 <= first.count("2.0.0") <= 140
    other = [chosen(canary, None, text, tenant="acme") for text in texts]
    assert other != first
    keyed = [chosen(canary, None, text, keyed_digest=lambda data: "0" * 64) for text in texts[:5]]
    assert keyed == ["2.0.0"] * 5


def test_a_canary_of_nothing_takes_nobody_and_one_of_all_takes_everybody() -> None:
    def first(data: bytes) -> str:
        return "0" * 64

    def last(data: bytes) -> str:
        return f"{9_999:012x}" + "0" * 52

    nobody = registry("greeting: {stable: 1.2.0, canary: {version: 2.0.0, percent: 0}}")
    assert chosen(nobody, None, keyed_digest=first) == "1.2.0"
    everybody = registry("greeting: {stable: 1.2.0, canary: {version: 2.0.0, percent: 100}}")
    assert chosen(everybody, None, keyed_digest=last) == "2.0.0"


def test_a_range_that_holds_nothing_is_not_found() -> None:
    assert isinstance(refusal(registry(), "^3"), NotFound)
    assert isinstance(refusal(registry(), "previous"), NotFound)


def test_without_channels_a_version_is_needed() -> None:
    assert isinstance(refusal(registry("{}"), None), Unresolvable)
    assert chosen(registry("{}"), "^1") == "1.10.0"


FLOOR = "demo: {greeting: {lowest: 1.2.0}}"


@pytest.mark.parametrize("asked", ["1.0.0", "~1.0", "0.9.0", "1.1.7", "previous"])
def test_a_version_below_the_floor_is_426_and_says_the_lowest(asked: str) -> None:
    found = refusal(registry("greeting: {stable: 1.2.0, previous: 1.0.0}", FLOOR), asked)
    assert isinstance(found, UpgradeRequired)
    assert (found.http_status, found.code) == (426, "protocol-version-below-floor")
    assert found.headers == ((b"upgrade", b"greeting/1.2.0"),)
    assert "1.2.0" in found.message


@pytest.mark.parametrize("asked", ["1.2.0", "^1", "stable"])
def test_a_version_at_or_above_the_floor_is_given(asked: str) -> None:
    assert chosen(registry(floors=FLOOR), asked) in {"1.2.0", "1.10.0"}


def test_a_floor_asks_for_a_version_to_be_named() -> None:
    found = refusal(registry(floors=FLOOR), None)
    assert (found.http_status, found.code) == (400, "protocol-version-required")
    free = registry(floors="demo: {greeting: {lowest: 1.2.0, require_version: false}}")
    assert chosen(free, None) == "1.2.0"


def test_a_default_below_the_floor_is_426_too() -> None:
    low = registry("greeting: {stable: 1.0.0}", "demo: {greeting: {lowest: 1.2.0, require_version: false}}")
    assert refusal(low, None).http_status == 426


def test_a_floor_is_one_tenants_own() -> None:
    assert chosen(registry(floors=FLOOR), "1.0.0", tenant="acme") == "1.0.0"


def test_the_header_names_the_version_as_well() -> None:
    assert chosen(registry(), None, protocol="greeting@1.0.0") == "1.0.0"
    assert chosen(registry(), "1.0.0", protocol="greeting@1.0.0") == "1.0.0"
    assert chosen(registry(), "^1", protocol="greeting@1.10.0") == "1.10.0"
    assert chosen(registry(floors=FLOOR), None, protocol="greeting@stable") == "1.2.0"


@pytest.mark.parametrize(
    "protocol", ["greeting@1.0.0", "greeting@^2", "other@1.2.0", "greeting", "greeting@", ""]
)
def test_header_and_body_that_differ_are_mixed_versions(protocol: str) -> None:
    found = refusal(registry(), "1.2.0", protocol=protocol)
    assert isinstance(found, RequestRefused)
    assert (found.http_status, found.code) == (400, "protocol-versions-mixed")


def test_tells_which_version_it_was() -> None:
    assert headers(registry(), "^1") == {b"x-tidegate-protocol": b"greeting@1.10.0"}


def test_tells_that_a_version_will_end_and_warns_once_it_is_deprecated() -> None:
    dated = registry(deprecated="2026-12-01", removed="2027-03-01")
    before = headers(dated, "1.0.0", now_seconds=DECEMBER - 1)
    assert before == {
        b"x-tidegate-protocol": b"greeting@1.0.0",
        b"deprecation": b"@1796083200",
        b"sunset": b"Mon, 01 Mar 2027 00:00:00 GMT",
    }
    after = headers(dated, "1.0.0", now_seconds=DECEMBER)
    assert after == {**before, b"x-tidegate-warning": b"protocol-deprecated"}
    assert headers(dated, "1.2.0", now_seconds=DECEMBER) == {b"x-tidegate-protocol": b"greeting@1.2.0"}


def test_a_version_is_gone_from_its_removal_date_on() -> None:
    dated = registry(deprecated="2026-12-01", removed="2027-03-01")
    assert chosen(dated, "1.0.0", now_seconds=MARCH - 1) == "1.0.0"
    found = refusal(dated, "1.0.0", now_seconds=MARCH)
    assert isinstance(found, Removed)
    assert (found.http_status, found.code) == (410, "protocol-removed")


def test_dates_of_the_channels_stand_before_those_of_the_manifest() -> None:
    dated = registry(
        "greeting: {stable: 1.2.0, retire: {1.0.0: {deprecated: '2026-11-01', removed: '2026-12-01'}}}",
        deprecated="2026-12-01",
        removed="2027-03-01",
    )
    assert refusal(dated, "1.0.0", now_seconds=DECEMBER).http_status == 410


def test_a_prompt_ends_with_its_tool_set() -> None:
    ending = registry(
        "greeting: {stable: 1.0.0}\n"
        "search: {retire: {1.0.0: {deprecated: '2026-11-01', removed: '2026-12-01'}}}",
        tools="search@1.0.0",
    )
    assert headers(ending, "1.0.0", now_seconds=0)[b"sunset"] == b"Tue, 01 Dec 2026 00:00:00 GMT"
    assert refusal(ending, "1.0.0", now_seconds=DECEMBER).http_status == 410
