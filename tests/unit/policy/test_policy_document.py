from __future__ import annotations

import pytest

from gateway.errors import ConfigurationError
from gateway.policy.document import MAX_BYTES, MAX_DEPTH, MAX_NODES, Mapping, Scalar, Sequence, parse, plain


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, "a.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    "word", ["no", "yes", "on", "off", "y", "N", "2026-12-01", "1:30", "0b1", "1_000", "=", "<<"]
)
def test_reads_words_that_yaml_1_1_changes_as_text(word: str) -> None:
    assert plain(parse(f"a: {word}", "a.yaml")) == {"a": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("12", 12), ("-3", -3),
        ("010", 10), ("0o10", 8), ("0xff", 255), ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5),
        ("'true'", "true"), ('"12"', "12"),
    ],
)  # fmt: skip
def test_reads_core_schema_values(word: str, value: object) -> None:
    read = plain(parse(f"a: {word}", "a.yaml"))
    assert isinstance(read, dict)
    assert read["a"] == value
    assert type(read["a"]) is type(value)


def test_keeps_the_place_of_every_key_and_value() -> None:
    tree = parse("a:\n  - x\n  - b: 'y'\n", "a.yaml")
    assert isinstance(tree, Mapping)
    items = tree.entries["a"]
    assert isinstance(items, Sequence)
    assert (items.items[0].mark.line, items.items[0].mark.column) == (2, 5)
    inner = items.items[1]
    assert isinstance(inner, Mapping)
    value = inner.entries["b"]
    assert isinstance(value, Scalar)
    assert (inner.key_marks["b"].line, inner.key_marks["b"].column) == (3, 5)
    assert (value.mark.line, value.mark.column) == (3, 8)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: level > 1  # why\n", (1, 4)),
        ("a: 'level > 1'\n", (1, 5)),
        ('a: "level > 1"\n', (1, 5)),
        ("a: |\n    level > 1\n    && stream\n", (2, 5)),
        ("a: |-  # why\n  é > 1\n", (2, 3)),
        ("a: 'it''s'\n", None),
        ('a: "\\x41"\n', None),
        ("a: level >\n  1\n", None),
        ("a: >\n  level\n  > 1\n", None),
        ("a: |1\n   x\n", None),
        ("a: |\n\n  x\n", None),
        ("a: ''\n", (1, 5)),
    ],
)
def test_knows_where_a_text_starts_when_its_characters_can_be_counted(
    text: str, place: tuple[int, int] | None
) -> None:
    tree = parse(text, "a.yaml")
    assert isinstance(tree, Mapping)
    value = tree.entries["a"]
    assert isinstance(value, Scalar)
    mark = value.text_mark
    assert (mark and (mark.line, mark.column)) == place


def test_reads_windows_line_ends_as_one_break() -> None:
    assert plain(parse("a: 1\r\nb: 2\r\n", "a.yaml")) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("a: &x 1\nb: *x\n", "1:4", "&"),
        ("b: *x\n", "1:4", "an alias"),
        ("a: !!python/object/apply:os.system [id]\n", "1:4", "tag:yaml.org,2002:python"),
        ("a: !!str 1\n", "1:4", "tag:yaml.org,2002:str"),
        ("a: ! x\n", "1:4", '"!"'),
        ("a: 1\nb: 2\na: 3\n", "3:1", '"a" again (first at line 1)'),
        ("x:\n  a: 1\n  'a': 2\n", "3:3", '"a" again (first at line 2)'),
        ("%YAML 1.1\n---\na: 1\n", "1:1", "a % line"),
        ("%TAG ! tag:x:\n---\na: 1\n", "1:1", "a % line"),
        ("a: 1\n---\nb: 2\n", "2:1", "a second one"),
        ("1: a\n", "1:1", "1"),
        ("null: a\n", "1:1", "nothing"),
        ("true: a\n", "1:1", "true"),
        ("[a]: b\n", "1:1", "a list or mapping as key"),
        ("a: .inf\n", "1:4", '".inf"'),
        ("a: .nan\n", "1:4", '".nan"'),
        ("a: 1e999\n", "1:4", '"1e999"'),
        (f"a: {'9' * 5000}\n", "1:4", "999"),
        ("a: [\n", "2:1", "parsing a flow node"),
        ("a: b: c\n", "1:5", "mapping values are not allowed"),
        ("\ta: 1\n", "1:1", "cannot start any token"),
        ("", "1:1", "an empty file"),
        ("# only a comment\n", "1:1", "an empty file"),
        ("a: 1\n# hidden \u2028b: 2\n", "2:10", "U+2028"),
        ("a: x\u202ey\n", "1:5", "U+202E"),
        ("a: x\u200by\n", "1:5", "U+200B"),
        ("a: \x00\n", "1:4", "U+0000"),
        ("a: b\rc: d\n", "1:5", "U+000D"),
        ("a: \ud800\n", "1:4", "U+D800"),
        ("\ufeffa: 1\n", "1:1", "U+FEFF"),
    ],
)  # fmt: skip
def test_refuses_what_a_reviewer_could_misread(text: str, place: str, found: str) -> None:
    message = refusal(text)
    assert message.startswith(f"a.yaml:{place}: expected ")
    assert found in message.split(", found ", 1)[1]


def test_refuses_alias_bomb_at_its_first_anchor() -> None:
    bomb = "a: &a [x,x]\n" + "".join(
        f"{b}: &{b} [*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert refusal(bomb).startswith("a.yaml:1:4: expected no anchor")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000, "".join(" " * n + "a:\n" for n in range(500))]
)
def test_refuses_deep_text_at_its_bound(text: str) -> None:
    assert f"at most {MAX_DEPTH} levels" in refusal(text)


def test_takes_the_deepest_tree_that_is_allowed() -> None:
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, "a.yaml")


def test_refuses_too_many_nodes() -> None:
    assert f"at most {MAX_NODES} values" in refusal("[" + "1," * MAX_NODES + "]")


@pytest.mark.parametrize("text", ["#" * (MAX_BYTES + 1), "é" * (MAX_BYTES // 2 + 1)])
def test_refuses_too_many_bytes(text: str) -> None:
    assert f"at most {MAX_BYTES} bytes" in refusal(text)


def test_shows_a_bounded_part_of_a_long_value() -> None:
    message = refusal(f"{'k' * 5000}: 1\n{'k' * 5000}: 2\n")
    assert len(message) < 200
