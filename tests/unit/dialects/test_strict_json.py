"""Bounds, duplicate keys, numbers and paths of `gateway.dialects.strict_json`."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from gateway.dialects.openai_request import parse_chat
from gateway.dialects.strict_json import MAX_DEPTH, MAX_PARTS, check_bounds, decode, json_text
from gateway.errors import RequestRefused

MIB = 1024 * 1024
HEAD = b'{"model":"a","messages":[{"role":"user","content":"x"}]'


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    """A nested object."""

    count: int | None = None
    gone: None = None


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """A body with typed and untyped parts."""

    name: str
    rows: list[Inner] = []
    free: dict[str, Any] | None = None


def refusal(body: bytes) -> RequestRefused:
    """The refusal of `body`."""
    with pytest.raises(RequestRefused) as caught:
        decode(body, Body)
    assert caught.value.http_status == 400
    return caught.value


def in_tool(text: bytes) -> bytes:
    """A chat body whose tool parameters hold `text`."""
    return HEAD + b',"tools":[{"type":"function","function":{"name":"f","parameters":{"a":' + text + b"}}}]}"


def in_content(text: bytes) -> bytes:
    """A chat body with `text` inside a message's string."""
    return HEAD[:-3] + text + b'"}]}'


def test_gives_the_typed_value() -> None:
    assert decode(b' {"name":"n","rows":[{"count":3}],"free":{"a":[1,{}]}}\n', Body) == Body(
        "n", [Inner(3)], {"a": [1, {}]}
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid-json"),
        (b" ", "invalid-json"),
        (b"nul", "invalid-json"),
        (b'{"name":"n"', "invalid-json"),
        (b'{"name":"n"} {}', "invalid-json"),
        (b'{"name":"n"}\x00', "invalid-json"),
        (b'\xef\xbb\xbf{"name":"n"}', "invalid-json"),
        (b'{"name":"\xff"}', "invalid-json"),
        (b'{"name":"n","free":{"a":"\xff"}}', "invalid-json"),
        (b'{"name":"\xed\xa0\x80"}', "invalid-json"),
        (b'{"name":"\xc0\x80"}', "invalid-json"),
        (b'{"name":"\\ud800"}', "invalid-json"),
        (b'{"name":"\\udc00x"}', "invalid-json"),
        (b'{"name":"n","free":{"a":"\\ud83d\\ud83d"}}', "invalid-json"),
        (b'{"name":"n","free":{"\\udfff":1}}', "invalid-json"),
        (b'{"name":"n","free":{"a":NaN}}', "invalid-json"),
        (b'{"name":"n","free":{"a":Infinity}}', "invalid-json"),
        (b'{"name":"n","free":{"a":-Infinity}}', "invalid-json"),
        (b'{"name":"n","free":{"a":01}}', "invalid-json"),
        (b'{"name":"n","free":{"a":1,}}', "invalid-json"),
        (b'{"name":"a\nb"}', "invalid-json"),
        (b'{"name":"\\q"}', "invalid-json"),
        (b"{'name':'n'}", "invalid-json"),
        (b'{"name":"n","free":{"a":1e400}}', "invalid-value"),
        (b'{"name":"n","free":{"a":-0}}', "invalid-value"),
        (b'{"name":"n","free":{"a":-0.0}}', "invalid-value"),
        (b'{"name":"n","free":{"a":18446744073709551616}}', "invalid-value"),
        (b'{"name":"n","rows":[{"count":' + b"9" * 100_000 + b"}]}", "invalid-value"),
        (b'{"name":"n","free":{"a":' + b"9" * 100_000 + b"}}", "invalid-value"),
        (b'{"name":"n","free":{"a":' + b"9" * 100_000 + b".5}}", "invalid-value"),
        (b'["name"]', "invalid-value"),
        (b"{}", "missing-field"),
    ],
)
def test_refuses_what_is_not_strict_json_of_the_type(body: bytes, code: str) -> None:
    assert refusal(body).code == code


@pytest.mark.parametrize(
    "body",
    [
        b'{"name":"a","name":"b"}',
        b'{"name":"a","n\\u0061me":"b"}',
        b'{"name":"a","rows":[{"count":1,"count":1}]}',
        b'{"name":"a","free":{"x":{"k":1,"\\u006b":2}}}',
    ],
)
def test_refuses_a_key_that_stands_twice_however_it_is_written(body: bytes) -> None:
    assert refusal(body).code == "duplicate-key"


def test_names_a_repeated_key_only_when_it_is_a_plain_name() -> None:
    assert refusal(b'{"name":"a","name":"b"}').param == "name"
    assert refusal(b'{"name":"a","free":{"secret value":1,"secret value":2}}').param == "(unprintable)"


def test_names_the_path_of_an_unknown_field() -> None:
    found = refusal(b'{"name":"a","rows":[{},{"colour":"red"}]}')
    assert (found.code, found.param) == ("unknown-field", "rows[1].colour")
    assert "`rows[1].colour`" in found.message
    assert "red" not in found.message


@pytest.mark.parametrize(
    "name", ["a" * 65, "a` - at `$.<b>", "a` - at `$x y", "a\\n", "\\u202e", "cle\\u00e9", "<b>", "a b", ""]
)
def test_does_not_echo_a_field_name_that_could_mislead(name: str) -> None:
    found = refusal(f'{{"name":"a","{name}":1}}'.encode())
    assert (found.code, found.param) == ("unknown-field", "(unprintable)")


def test_names_the_path_of_a_wrong_type_and_never_the_value() -> None:
    found = refusal(b'{"name":"a","rows":[{"count":"s3cret"}]}')
    assert (found.code, found.param) == ("invalid-value", "rows[0].count")
    assert "s3cret" not in found.message
    assert "expected `int | null`" in found.message


def test_counts_a_field_that_may_only_be_null_as_unknown() -> None:
    assert refusal(b'{"name":"a","rows":[{"gone":1}]}').code == "unknown-field"
    assert decode(b'{"name":"a","rows":[{"gone":null}]}', Body).rows == [Inner()]


def test_refuses_a_whole_number_written_as_a_fraction() -> None:
    assert refusal(b'{"name":"a","rows":[{"count":1.0}]}').param == "rows[0].count"


def test_takes_the_greatest_depth_and_refuses_one_more() -> None:
    def nested(levels: int) -> bytes:
        return b'{"name":"a","free":{"a":' + b"[" * levels + b"]" * levels + b"}}"

    decode(nested(MAX_DEPTH - 2), Body)
    assert refusal(nested(MAX_DEPTH - 1)).code == "json-too-deep"


@pytest.mark.parametrize("opening", [b"[", b"{", b'{"a":', b"[{"])
def test_refuses_any_nesting_bomb_before_it_is_parsed(opening: bytes) -> None:
    with pytest.raises(RequestRefused) as caught:
        check_bounds(opening * 20_000)
    assert caught.value.code == "json-too-deep"


def test_counts_only_what_stands_outside_strings() -> None:
    text = b'[{,\\"\\\\' * 30_000
    check_bounds(b'{"a":"' + text + b'"}')
    check_bounds(b'["\\\\","' + text + b'","\\\\\\""]')


@pytest.mark.parametrize("item", [b'""', b",", b"[]", b"{}", b'"\\""'])
def test_refuses_too_many_parts_of_any_kind(item: bytes) -> None:
    check_bounds(b"[" + item * (MAX_PARTS - 1) + b"]")
    with pytest.raises(RequestRefused) as caught:
        check_bounds(b"[" + item * MAX_PARTS + b"]")
    assert caught.value.code == "json-too-large"


def test_counts_parts_of_different_kinds_together() -> None:
    check_bounds(b"[" + b'{"a":1},' * (MAX_PARTS // 3 - 1) + b"1]")
    with pytest.raises(RequestRefused):
        check_bounds(b"[" + b'{"a":1},' * (MAX_PARTS // 3 + 1) + b"1]")


def test_takes_a_conversation_of_4000_turns_with_100_tools() -> None:
    turn = b'{"role":"user","content":"A question, asked \\"again\\"."}'
    schema = b",".join(b'"field%d":{"type":"string","description":"one of them"}' % at for at in range(8))
    tools = [
        b'{"type":"function","function":{"name":"f%d","parameters":{"type":"object","properties":{%s}}}}'
        % (at, schema)
        for at in range(100)
    ]
    body = b'{"model":"a","messages":[%s],"tools":[%s]}' % (b",".join([turn] * 4000), b",".join(tools))
    assert len(parse_chat(body).messages) == 4000


def test_writes_compact_json() -> None:
    assert json_text({"a": [1, "é"]}) == '{"a":[1,"é"]}'


HOSTILE = {
    "50,000 arrays": b"[" * 50_000 + b"]" * 50_000,
    "50,000 arrays in a tool": in_tool(b"[" * 50_000 + b"]" * 50_000),
    "50,000 objects in a tool": in_tool(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "unbalanced brackets": b"[" * (4 * MIB),
    "mixed brackets": b"[{" * (2 * MIB),
    "a million keys": b"{" + b",".join(b'"%d":1' % key for key in range(1_000_000)) + b"}",
    "as many keys as fit": in_tool(b"{" + b",".join(b'"%d":1' % key for key in range(29_000)) + b"}"),
    "keys with lists": in_tool(b"{" + b",".join(b'"%d":[1.5]' % key for key in range(19_000)) + b"}"),
    "large exponents": in_tool(b"[" + b"1.5e300," * 59_000 + b"1]"),
    "long integer": in_tool(b"9" * 100_000),
    "long string": in_content(b"x" * 10_000_000) + b"x",
    "quotes": in_content(b'\\"' * (2 * MIB)) + b"x",
    "quotes and commas": in_content(b'\\",' * MIB) + b"x",
    "unicode escapes": in_content(b"\\u00e9" * 700_000) + b"x",
    "lone surrogates": in_content(b"a\\ud83d" * 500_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_ends_a_hostile_body_within_50_ms_of_cpu(name: str) -> None:
    body = HOSTILE[name]
    spent = []
    for _ in range(3):
        before = time.thread_time()
        with suppress(RequestRefused):
            parse_chat(body)
        spent.append(time.thread_time() - before)
    # The least of three, because other processes share the caches of this machine.
    assert min(spent) < 0.05, spent
