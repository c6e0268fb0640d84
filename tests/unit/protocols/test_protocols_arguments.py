"""Arguments of a call: what is an object that the schema takes, and nothing that is almost one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.protocols.arguments import MAX_CHARACTERS, MAX_DEPTH, checker
from gateway.protocols.schema import compile_schema

CHECK = checker(
    compile_schema(
        {
            "type": "object",
            "properties": {"ref": {"type": "string", "pattern": "^A-[0-9]{1,8}$"}, "n": {"type": "integer"}},
            "required": ["ref"],
        }
    )
)
FREE = checker(compile_schema({"type": "object"}))


@pytest.mark.parametrize("text", ['{"ref":"A-1"}', ' {"ref": "A-12", "n": 3}\n', '{"ref":"A\\u002d1"}'])
def test_takes_an_object_that_the_schema_takes(text: str) -> None:
    assert CHECK(text) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "arguments-not-json"),
        ('{"ref":"A-1', "arguments-not-json"),
        ('{"ref":"A-1"', "arguments-not-json"),
        ('{"ref":"A-1"}}', "arguments-not-json"),
        ('{"ref":"A-1"} {"ref":"A-2"}', "arguments-not-json"),
        ("{'ref':'A-1'}", "arguments-not-json"),
        ('{"ref":"A-1",}', "arguments-not-json"),
        ('{"ref":"A-1","n":NaN}', "arguments-not-json"),
        ('{"ref":"A-1","n":1e999}', "arguments-not-json"),
        ("```json\n{}\n```", "arguments-not-json"),
        ('"A-1"', "arguments-not-an-object"),
        ('"{\\"ref\\":\\"A-1\\"}"', "arguments-not-an-object"),
        ('["A-1"]', "arguments-not-an-object"),
        ("null", "arguments-not-an-object"),
        ('{"ref":"A-1","ref":"A-2"}', "arguments-duplicate-key"),
        ('{"ref":"A-1","r\\u0065f":"A-2"}', "arguments-duplicate-key"),
        ("{}", "arguments-off-schema"),
        ('{"ref":1}', "arguments-off-schema"),
        ('{"ref":"A-1","n":"3"}', "arguments-off-schema"),
        ('{"ref":"A-1","n":3.5}', "arguments-off-schema"),
        ('{"ref":"A-1","extra":true}', "arguments-off-schema"),
        ('{"ref":"../../etc/passwd"}', "arguments-off-schema"),
        ('{"ref":"https://x.example/"}', "arguments-off-schema"),
        ('{"ref":"A-1; DROP TABLE accounts"}', "arguments-off-schema"),
        ('{"ref":"A-1\\n"}', "arguments-off-schema"),
        ('{"ref":"\\ud800"}', "arguments-off-schema"),
    ],
)
def test_names_the_fault_and_repairs_nothing(text: str, fault: str) -> None:
    assert CHECK(text) == fault


def test_what_is_too_large_or_too_deep_is_a_fault() -> None:
    assert FREE('{"a":"' + "x" * (MAX_CHARACTERS - 7) + '"}') == "arguments-too-large"
    assert FREE('{"a":"' + "x" * (MAX_CHARACTERS - 8) + '"}') is None
    assert FREE('{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}") == "arguments-too-deep"
    assert FREE('{"a":' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}") is None
    assert FREE('{"a":' + "[" * 100_000) == "arguments-not-json"
    assert FREE('{"a":[' + ",".join("[]" * 1 for _ in range(200)) + "]}") is None


def test_a_judge_that_raises_is_a_no() -> None:
    class Broken:
        def is_valid(self, instance: object) -> bool:
            raise RuntimeError(instance)

        def iter_errors(self, instance: object) -> Iterator[object]:
            raise RuntimeError(instance)

    assert checker(Broken())("{}") == "arguments-off-schema"
