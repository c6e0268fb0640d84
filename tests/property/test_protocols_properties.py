"""Laws of the registry and of rendering that hold for any input."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.chat import ChatRequest, Message, PromptReference, Role, TextPart
from gateway.errors import ConfigurationError, NotFound, Unresolvable
from gateway.protocols.document import document_sha256
from gateway.protocols.registry import build_registry, format_lock, parse_lock
from gateway.protocols.resolve import resolve
from gateway.protocols.tools import parse_tools
from gateway.protocols.variables import (
    ChoiceVariable,
    IntegerVariable,
    StringVariable,
    Variable,
    holds_control_token,
    value_fault,
)
from tests.fakes.protocol_files import TOOLS, caller, good_files, lock_of, parse_yaml, registry_of

REGISTRY = registry_of(good_files())
QUESTION = Message(Role.USER, (TextPart("How are you?"),))
#: Text with the characters that matter to templates and chat formats more often than chance gives them.
TRICKY = st.text(
    st.sampled_from("{}<|>[]/\n\r\t\x00\u200b\u202e｜si") | st.characters(codec="utf-8"), max_size=24
)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,5})?", fullmatch=True)
VERSIONS = st.tuples(*[st.integers(0, 99)] * 3).map(lambda numbers: ".".join(map(str, numbers)))


@given(TRICKY)
def test_a_value_stands_in_the_message_as_it_is_or_the_request_is_refused(value: str) -> None:
    request = ChatRequest("m", (QUESTION,), prompt=PromptReference("greeting", None, (("who", value),)))
    try:
        resolved = resolve(request, caller(), REGISTRY)
    except Unresolvable as refusal:
        assert refusal.code.startswith("prompt-variable-")  # noqa: PT017
        return
    assert resolved.chat.messages == (
        Message(Role.SYSTEM, (TextPart(f"Greet {value}. Only {value}."),)),
        QUESTION,
    )
    assert not set(value) & set("\n\r\x00\u202e\u200b")
    assert not holds_control_token(value)


@given(st.text(max_size=30), st.none() | st.text(max_size=10), st.lists(st.tuples(st.text(), st.text())))
def test_any_reference_is_resolved_or_refused(
    name: str, version: str | None, variables: list[tuple[str, str]]
) -> None:
    request = ChatRequest("m", (QUESTION,), prompt=PromptReference(name, version, tuple(variables)))
    try:
        resolved = resolve(request, caller(), REGISTRY)
    except (NotFound, Unresolvable):
        return
    assert (name, resolved.pins[0].version) in REGISTRY.prompts


@given(
    st.sampled_from(
        [
            StringVariable(max_characters=10),
            StringVariable(multiline=True),
            IntegerVariable(minimum=-10, maximum=10),
            ChoiceVariable(("a", "b")),
        ]
    ),
    TRICKY | st.integers().map(str),
)
def test_any_value_is_taken_or_has_a_reason(variable: Variable, value: str) -> None:
    fault = value_fault(variable, value)
    if fault is None:
        assert value
        assert not holds_control_token(value)
    else:
        assert fault[1].startswith("expected")


@given(st.dictionaries(st.tuples(NAMES, VERSIONS), st.binary(min_size=32, max_size=32).map(bytes.hex)))
def test_a_lock_that_is_written_is_read_back(digests: dict[tuple[str, str], str]) -> None:
    assert parse_lock(format_lock(digests)) == digests


@given(st.binary(max_size=200))
def test_any_bytes_are_a_lock_or_refused(lock: bytes) -> None:
    try:
        entries = parse_lock(lock)
    except ConfigurationError:
        return
    assert parse_lock(format_lock(entries)) == entries


FOLDERS = st.dictionaries(st.sampled_from(["a", "b", "a.md", "1"]), st.binary(max_size=12), max_size=3)


@given(FOLDERS, FOLDERS)
def test_two_folders_have_one_digest_only_when_they_are_equal(
    one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    assert (document_sha256(one) == document_sha256(two)) == (one == two)


@given(st.sampled_from(sorted(good_files())), st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_of_a_locked_document_is_noticed(path: str, place: int, mask: int) -> None:
    files = good_files()
    content = bytearray(files[path])
    content[place % len(content)] ^= mask
    try:
        registry = build_registry(files | {path: bytes(content)}, lock_of(good_files()), tolerant_yaml)
    except ConfigurationError:
        return
    assert path == "channels.yaml"
    assert registry.prompts.keys() == REGISTRY.prompts.keys()


@given(st.binary(max_size=100), st.integers(0, len(TOOLS)), st.integers(0, 30))
def test_any_damage_to_a_tool_set_gives_tools_or_a_named_error(junk: bytes, place: int, cut: int) -> None:
    try:
        parse_tools(TOOLS[:place] + junk + TOOLS[place + cut :], "place")
    except ConfigurationError as error:
        assert str(error).startswith("place")  # noqa: PT017


def tolerant_yaml(text: str, file: str) -> Any:
    """As the real reader: everything that is no YAML is a `ConfigurationError`."""
    try:
        return parse_yaml(text, file)
    except Exception:
        raise ConfigurationError(f"{file}: not YAML") from None
