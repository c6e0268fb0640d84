"""Laws of choosing a version: floor, removal and range hold, whatever is asked for and however."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.chat import ChatRequest, Message, PromptReference, Role, TextPart
from gateway.errors import RequestRefused
from gateway.protocols.registry import Registry
from gateway.protocols.resolve import resolve
from gateway.protocols.version import parse_range, parse_version
from tests.fakes.protocol_files import caller, prompt_manifest, registry_of

VERSIONS = ("0.2.0", "0.2.7", "1.0.0", "1.2.0", "1.10.0", "2.0.0")
#: 2027-03-01, midnight in UTC: the day on which 1.0.0 is removed.
MARCH = 1_803_859_200
CHANNELS = (
    "{}",
    "greeting: {stable: 1.2.0}",
    "greeting: {stable: 1.0.0, previous: 0.2.0, canary: {version: 2.0.0, percent: 50}}",
    "greeting: {stable: 2.0.0, canary: {version: 1.10.0, percent: 100}}",
)
RETIRE = "1.0.0: {deprecated: '2026-12-01', removed: '2027-03-01'}"
ASKED = st.one_of(
    st.none(),
    st.sampled_from([*VERSIONS, "0.1.0", "stable", "canary", "previous", "latest", ""]),
    st.from_regex(r"[\^~][0-2](\.(0|2|10))?", fullmatch=True),
    st.text(max_size=6),
)


@cache
def registry(channels: str, lowest: str | None, is_named: bool) -> Registry:
    if channels != "{}":
        channels = channels[:-1] + ", retire: {" + RETIRE + "}}"
    files = {"channels.yaml": channels.encode()}
    if lowest is not None:
        word = "true" if is_named else "false"
        files["floors.yaml"] = f"demo: {{greeting: {{lowest: {lowest}, require_version: {word}}}}}".encode()
    for version in VERSIONS:
        files[f"greeting/{version}/manifest.yaml"] = prompt_manifest(version=version, variables={})
        files[f"greeting/{version}/prompt.md"] = b"Greet."
    return registry_of(files)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(CHANNELS),
    st.none() | st.sampled_from(VERSIONS),
    st.booleans(),
    ASKED,
    st.none() | ASKED,
    st.integers(MARCH - 1, MARCH),
    st.text(max_size=8),
)
def test_a_version_that_is_given_was_asked_for_and_is_allowed(
    channels: str,
    lowest: str | None,
    is_named: bool,
    asked: str | None,
    header: str | None,
    now_seconds: int,
    text: str,
) -> None:
    one = registry(channels, lowest, is_named)
    request = ChatRequest(
        "m", (Message(Role.USER, (TextPart(text),)),), prompt=PromptReference("greeting", asked, ())
    )
    protocol = None if header is None else f"greeting@{header}"
    try:
        resolved = resolve(request, caller(now_seconds=now_seconds, protocol=protocol), one)
    except RequestRefused:
        return
    given_version = resolved.pins[0].version
    version = parse_version(given_version)
    assert version is not None
    assert (b"x-tidegate-protocol", f"greeting@{given_version}".encode()) in resolved.notices
    if lowest is not None:
        floor = parse_version(lowest)
        assert floor is not None
        assert version >= floor
        assert not is_named or asked is not None or header is not None
    if channels != "{}" and now_seconds >= MARCH:
        assert given_version != "1.0.0"
    for word in (asked, header):
        if word is None:
            continue
        wanted = parse_range(word)
        if wanted is not None:
            assert wanted.lowest <= version < wanted.end
        elif parse_version(word) is not None:
            assert given_version == word
