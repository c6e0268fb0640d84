"""Chat bodies: what was parsed survives a round trip, and no bytes lead anywhere but to 400."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.openai_request import encode_body, parse_chat
from gateway.dialects.schema_words import STEERING
from gateway.domain.chat import ResolvedRequest
from gateway.errors import RequestRefused
from tests.unit.dialects.chat_bodies import body, place

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
#: Keywords of schemas; the words that are refused there have tests of their own.
KEYS = WORDS.filter(lambda word: word not in STEERING)
NAMES = st.from_regex(r"\A[A-Za-z0-9_.\-]{1,12}\Z")
SOME = st.text("abcxyz", min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63).filter(lambda n: n != 0) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=3)
TEXTS = WORDS | st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": WORDS}), min_size=1, max_size=3
)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": SOME,
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": NAMES, "arguments": WORDS}),
        }
    ),
    min_size=1,
    max_size=2,
)
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["system", "developer", "user"]), "content": TEXTS},
            optional={"name": SOME},
        ),
        st.fixed_dictionaries(
            {"role": st.just("assistant"), "content": TEXTS},
            optional={"tool_calls": CALLS, "refusal": WORDS, "reasoning_content": WORDS},
        ),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": st.none(), "tool_calls": CALLS}),
        st.fixed_dictionaries({"role": st.just("tool"), "content": TEXTS, "tool_call_id": SOME}),
    ),
    min_size=1,
    max_size=4,
)
TOOLS = st.lists(NAMES, min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.tuples(
        *[
            st.fixed_dictionaries(
                {
                    "type": st.just("function"),
                    "function": st.fixed_dictionaries(
                        {"name": st.just(name)},
                        optional={"description": WORDS, "parameters": OBJECTS, "strict": st.booleans()},
                    ),
                }
            )
            for name in names
        ]
    ).map(list)
)
FIELDS = st.fixed_dictionaries(
    {"messages": MESSAGES},
    optional={
        "tools": TOOLS,
        "tool_choice": st.sampled_from(["auto", "none", "required"]),
        "parallel_tool_calls": st.booleans(),
        "response_format": st.sampled_from([{"type": "text"}, {"type": "json_object"}])
        | st.fixed_dictionaries(
            {
                "type": st.just("json_schema"),
                "json_schema": st.fixed_dictionaries({"name": NAMES, "schema": OBJECTS}),
            }
        ),
        "max_tokens": st.integers(1, 10_000),
        "temperature": st.floats(0.01, 2),
        "top_p": st.floats(0.01, 1),
        "n": st.integers(1, 8),
        "stop": SOME | st.lists(SOME, min_size=1, max_size=3),
        "seed": st.integers(-(2**63), 2**63 - 1).filter(lambda n: n != 0),
        "presence_penalty": st.floats(-2, 2).filter(lambda x: x != 0),
        "logprobs": st.just(True),
        "logit_bias": st.dictionaries(st.integers(0, 9**9).map(str), st.integers(1, 100), max_size=3),
        "stream": st.booleans(),
        "reasoning_effort": st.sampled_from(["low", "medium", "high"]),
        "top_k": st.integers(-1, 100).filter(lambda n: n != 0),
        "bad_words": st.lists(SOME, max_size=3),
        "structured_outputs": st.fixed_dictionaries({"json": OBJECTS})
        | st.fixed_dictionaries({"regex": SOME}),
        "chat_template_kwargs": st.fixed_dictionaries({"enable_thinking": st.booleans()}),
    },
)


@given(fields=FIELDS)
@settings(max_examples=150)
def test_a_body_encoded_for_vllm_parses_to_the_same_request(fields: dict[str, Any]) -> None:
    chat = parse_chat(body(**fields))
    again = parse_chat(encode_body(ResolvedRequest(chat), place("vllm", model=chat.model)))
    # A stream always asks for usage.
    assert again == replace(chat, include_usage=chat.stream)


@given(fields=FIELDS, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
@settings(max_examples=50)
def test_the_request_does_not_depend_on_how_its_json_is_written(
    fields: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    whole = {"model": "assistant", **fields}
    turned = json.dumps(dict(reversed(whole.items())), ensure_ascii=ascii_only, indent=indent)
    assert parse_chat(turned.encode()) == parse_chat(json.dumps(whole).encode())


@given(fields=FIELDS, name=st.text(min_size=1, max_size=70), at=st.integers(0, 10))
@settings(max_examples=100)
def test_a_field_that_is_not_of_the_dialect_is_refused_wherever_it_stands(
    fields: dict[str, Any], name: str, at: int
) -> None:
    whole: dict[str, Any] = {"model": "assistant", **fields}
    messages = whole["messages"]
    target = whole if at == 0 else messages[at % len(messages)]
    key = "x-" + name
    target[key] = "s3cret-value"
    with pytest.raises(RequestRefused) as caught:
        parse_chat(json.dumps(whole).encode())
    message = caught.value.message
    assert "s3cret" not in message
    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 400


HOSTILE = st.lists(
    st.sampled_from(
        [
            *(
                b'{"model":"a"',
                b'"messages":[',
                b'{"role":"user"',
                b'"content":',
                b'"x"',
                b"[",
                b"]",
                b"{",
                b"}",
            ),
            *(
                b",",
                b":",
                b'"',
                b"\\",
                b"\\u",
                b"d800",
                b"\xff",
                b"NaN",
                b"1e999",
                b"-0",
                b"null",
                b"1",
                b" ",
            ),
        ]
    ),
    max_size=40,
).map(b"".join)


@given(text=HOSTILE | st.binary(max_size=60))
@settings(max_examples=200)
def test_any_bytes_are_a_request_or_a_refusal(text: bytes) -> None:
    # Nothing else may come out: any other exception would be a 500.
    with suppress(RequestRefused):
        parse_chat(text)


@given(value=OBJECTS, cut=st.integers(0, 10))
@settings(max_examples=100)
def test_untyped_parts_keep_their_value(value: dict[str, Any], cut: int) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": value}}
    found = parse_chat(body(tools=[tool])).tools[0].parameters
    assert found is not None
    assert json.loads(found) == value
