from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.policy.document import parse
from gateway.policy.fields import Field, nearest


def field(text: str) -> Field:
    return Field("a.yaml", "", parse(text, "a.yaml")).section()["a"]


@pytest.mark.parametrize(
    ("text", "read", "expected", "found"),
    [
        ("a: 1", Field.text, "text (put it in quotes)", "1"),
        ("a: ' '", Field.text, "text", '" "'),
        ("a:", Field.text, "text", "nothing"),
        (f"a: {'x' * 501}", Field.text, "at most 500 characters", "501"),
        ("a: 'x y'", Field.name, "a name of letters", '"x y"'),
        ("a: -x", Field.name, "a name of letters", '"-x"'),
        ("a: yes", Field.boolean, "true or false", '"yes"'),
        ("a: 1", Field.boolean, "true or false", "1"),
        ("a: true", lambda one: one.integer(1, 9), "an integer from 1 to 9", "true"),
        ("a: 1.0", lambda one: one.integer(1, 9), "an integer from 1 to 9", "1.0"),
        ("a: 10k", lambda one: one.integer(1, 9), "an integer from 1 to 9", '"10k"'),
        ("a: 0", lambda one: one.integer(1, 9), "an integer from 1 to 9", "0"),
        ("a: 10", lambda one: one.integer(1, 9), "an integer from 1 to 9", "10"),
        ("a: Public", Field.level, "one of public, internal, confidential, restricted", '"Public"'),
        ("a: [public]", Field.level, "one of public, internal, confidential, restricted", "a list"),
        ("a: {}", Field.items, "a list", "a mapping"),
        ("a: []", Field.section, "a mapping", "a list"),
        ("a: []", lambda one: one.distinct(Field.text), "at least one entry", "an empty list"),
        ("a: [x, y, x]", lambda one: one.distinct(Field.text), "each entry once", '"x" again'),
        ("a: tap", lambda one: one.choice(("top", "low"), "a place"), "a place (did you mean top?)", '"tap"'),
        ("a: {b: 1}", lambda one: one.section().only("c"), "a known key", '"b"'),
        ("a: {b: 1}", lambda one: one.section()["c"], "a value", "nothing"),
        ("a: {'b c': 1}", lambda one: list(one.section().named()), "a name of letters", '"b c"'),
    ],
)
def test_refuses_value_of_another_shape(
    text: str, read: Callable[[Field], object], expected: str, found: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(field(text))
    message = str(caught.value)
    assert message.startswith("a.yaml:1:")
    assert f"expected {expected}" in message
    assert message.endswith(f"found {found}")


def test_reads_values_of_each_shape() -> None:
    assert field("a: x").text() == "x"
    assert field("a: x/y.z-1").name() == "x/y.z-1"
    assert field("a: true").boolean() is True
    assert field("a: 9").integer(1, 9) == 9
    assert field("a: restricted").level() is Level.RESTRICTED
    assert field("a: [x, y]").distinct(Field.text) == ("x", "y")
    assert [item.path for item in field("a: [x, y]").items()] == ["a[0]", "a[1]"]


def test_finds_optional_field_only_when_it_is_there() -> None:
    section = field("a: {b: 1}").section()
    present = section.get("b")
    assert present is not None
    assert present.path == "a.b"
    assert section.get("c") is None
    assert "b" in section
    assert "c" not in section


def test_suggests_only_a_close_name() -> None:
    assert nearest("privat", ["private", "hosted"]) == " (did you mean private?)"
    assert nearest("zzz", ["private", "hosted"]) == ""
