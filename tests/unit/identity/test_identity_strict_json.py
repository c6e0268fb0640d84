"""JSON with one meaning only."""

from __future__ import annotations

import pytest

from gateway.identity.strict_json import DuplicateKey, NotStrict, parse_object


def test_gives_the_object() -> None:
    assert parse_object('{"a":[1,{"b":"ü"}]}'.encode()) == {"a": [1, {"b": "ü"}]}


@pytest.mark.parametrize(
    "document",
    [b'{"sub":"a","sub":"b"}', b'{"sub":"a","\\u0073ub":"b"}', b'{"a":{"b":1,"b":1}}', b'[{"a":1,"a":2}]'],
)
def test_refuses_a_key_that_stands_twice_at_any_depth_and_spelling(document: bytes) -> None:
    with pytest.raises(DuplicateKey):
        parse_object(document)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"1",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1} x',
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b"{'a':1}",
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_refuses_what_is_not_one_json_object(document: bytes) -> None:
    with pytest.raises(NotStrict):
        parse_object(document)
