"""Any text gives a tree or a `ConfigurationError`, and a tree survives being written and read again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.policy.compile import compile_bundle
from gateway.policy.document import Plain, parse, plain
from tests.fakes.policy_pack import pack

YAML_PIECES = [
    "a", "b: ", "- ", "? ", "[", "]", "{", "}", ", ", ": ", "\n", "\n  ", "\n    ", "'", '"', "|", ">",
    "|2-\n", "&x ",
    "*x", "!!str ", "!t ", "%YAML 1.2\n", "---\n", "...\n", "#c", "1", "1e9", "0x", "~", "true",
    "\t", "\r", "\x00", "\u2028", "\ud800", "\x85", "é", "<<: ", "\\", "@", "`",
]  # fmt: skip
texts = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(YAML_PIECES), max_size=80).map("".join))
names = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_characters="\x7f\xad"), max_size=20
)
#: YAML 1.1's extra breaks and controls are refused by design, so they are not part of a round trip.
words = names.filter(lambda word: not any(0x7F <= ord(character) <= 0x9F for character in word))
values = st.one_of(st.none(), st.booleans(), st.integers(-(10**17), 10**17), words)
trees = st.recursive(
    values,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


def refusal(call: Callable[[], object]) -> str | None:
    """What a `ConfigurationError` says, or None; any other exception is the test's failure."""
    try:
        call()
    except ConfigurationError as error:
        return str(error)
    return None


@settings(max_examples=150, deadline=None)
@given(texts)
def test_any_text_gives_a_tree_or_a_configuration_error(text: str) -> None:
    start = time.process_time()
    message = refusal(lambda: parse(text, "a.yaml"))
    assert message is None or message.startswith("a.yaml:")
    assert message is None or len(message) < 1_000
    assert time.process_time() - start < 1.0


@settings(max_examples=100, deadline=None)
@given(trees)
def test_reads_back_what_was_written_as_json(tree: Plain) -> None:
    text = json.dumps(tree, ensure_ascii=False)
    assert plain(parse(text, "a.yaml")) == tree


@settings(max_examples=100, deadline=None)
@given(trees)
def test_reads_back_what_was_written_as_block_yaml(tree: Plain) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True, default_style='"', default_flow_style=False)
    read = plain(parse(text.replace("!!null ", "").replace("!!bool ", "").replace("!!int ", ""), "a.yaml"))
    assert json.dumps(read, sort_keys=True) == json.dumps(_as_texts(tree), sort_keys=True)


def _as_texts(tree: Plain) -> Plain:
    """What double quotes make of a tree: every value is text."""
    match tree:
        case list():
            return [_as_texts(item) for item in tree]
        case dict():
            return {key: _as_texts(value) for key, value in tree.items()}
        case bool():
            return "true" if tree else "false"
        case None:
            return "null"
        case _:
            return str(tree)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(pack())),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 40),
    st.one_of(texts, st.just("")),
)
def test_a_damaged_file_compiles_or_is_refused_with_its_place(
    name: str, where: float, cut: int, inserted: str
) -> None:
    files = pack()
    start = int(len(files[name]) * where)
    files[name] = files[name][:start] + inserted + files[name][start + cut :]
    message = refusal(lambda: compile_bundle(files))
    assert message is None or message.split(":", 1)[0] in files
