"""Whatever a destination receives was read: each value of the body that is sent stands in a piece."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.anthropic_body import encode_messages
from gateway.dialects.openai_body import encode_body
from gateway.domain.chat import (
    ChatRequest,
    JsonText,
    Message,
    OpaquePart,
    ResolvedRequest,
    Role,
    Sampling,
    Surface,
    TextPart,
    Thinking,
    ToolCall,
    ToolDefinition,
)
from gateway.domain.decision import Destination
from gateway.domain.label import Level
from gateway.sensitivity.pieces import Opaque, Text, pieces_of

WORD = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBER = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
TREE = st.recursive(
    st.one_of(WORD, NUMBER, st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORD, inner, max_size=3)),
    max_leaves=5,
)


def _json(tree: Any) -> JsonText:
    return JsonText(msgspec.json.encode(tree).decode())


JSON = TREE.map(_json)
MAYBE_WORD = st.none() | WORD
MESSAGE = st.builds(
    Message,
    st.sampled_from(list(Role)),
    st.lists(
        st.one_of(
            st.builds(TextPart, WORD),
            st.builds(OpaquePart, st.just("image_url"), st.just(JsonText('{"type":"image_url"}'))),
        ),
        max_size=3,
    ).map(tuple),
    MAYBE_WORD,
    st.lists(st.builds(ToolCall, WORD, WORD, WORD | JSON), max_size=2).map(tuple),
    MAYBE_WORD,
    MAYBE_WORD,
    MAYBE_WORD,
    st.booleans(),
)
TOOL = st.builds(ToolDefinition, WORD, MAYBE_WORD, st.none() | JSON, st.none() | st.booleans())
FLOAT = st.none() | st.floats(allow_nan=False, allow_infinity=False)
INT = st.none() | st.integers(-(2**63), 2**63 - 1)
SAMPLING = st.builds(
    Sampling,
    INT,
    FLOAT,
    FLOAT,
    st.integers(1, 2**62),
    st.lists(WORD, max_size=3).map(tuple),
    INT,
    FLOAT,
    FLOAT,
    st.none() | st.booleans(),
    INT,
    st.none()
    | st.dictionaries(st.integers(0, 10**18).map(str), NUMBER, max_size=3).map(
        lambda tree: JsonText(json.dumps(tree, separators=(",", ":")))
    ),
)
EXTENSIONS = ("top_k", "guided_json")
CHAT = st.builds(
    ChatRequest,
    st.just("assistant"),
    st.lists(MESSAGE, min_size=1, max_size=3).map(tuple),
    st.lists(TOOL, max_size=2).map(tuple),
    st.none() | JSON,
    st.none() | st.booleans(),
    st.none() | JSON,
    SAMPLING,
    st.booleans(),
    st.booleans(),
    st.none(),
    MAYBE_WORD,
    st.lists(st.tuples(st.sampled_from(EXTENSIONS), JSON), max_size=2, unique_by=lambda row: row[0]).map(
        tuple
    ),
)
#: Of the gateway's own choosing, or a closed word.
OWN = {("model",), ("stream_options", "include_usage")}
CLOSED = {"role", "type"}
#: Fields whose names the client chooses too: all below them counts, the names as well.
RAW = {
    "input",
    "input_schema",
    "schema",
    "parameters",
    "tool_choice",
    "response_format",
    "logit_bias",
    *EXTENSIONS,
}


def _leaves(tree: Any, path: tuple[str, ...] = (), is_raw: bool = False) -> Iterator[str]:
    """Every value below `tree` that the client chose, as it is serialised."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if is_raw:
                yield msgspec.json.encode(name).decode()[1:-1]
            yield from _leaves(value, (*path, name), is_raw or name in RAW)
    elif isinstance(tree, list):
        for value in tree:
            yield from _leaves(value, path, is_raw)
    elif tree is None or isinstance(tree, bool) or path in OWN or (path[-1] in CLOSED and not is_raw):
        return
    elif isinstance(tree, str):
        yield msgspec.json.encode(tree).decode()[1:-1] if is_raw else tree
    else:
        yield str(tree)


@pytest.mark.parametrize("kind", ["openai", "vllm"])
@settings(max_examples=100, deadline=None)
@given(chat=CHAT)
def test_every_value_that_is_sent_stands_in_a_piece(kind: str, chat: ChatRequest) -> None:
    place = Destination("d", kind, Level.INTERNAL, True, "eu", "model-1", frozenset(EXTENSIONS))
    # Numbers are kept as they are written: what another reader makes of them does not matter.
    body = json.loads(encode_body(ResolvedRequest(chat), place), parse_float=_Written, parse_int=_Written)
    pieces = list(pieces_of(chat))
    read = "\n".join(piece.text for piece in pieces if isinstance(piece, Text))
    assert any(isinstance(piece, Opaque) for piece in pieces) == ("image_url" in str(body["messages"]))
    for leaf in _leaves(body):
        assert leaf in read or leaf == "image_url"


SAYABLE = st.builds(
    Message,
    st.sampled_from(list(Role)),
    st.lists(st.builds(TextPart, WORD), max_size=3).map(tuple),
    st.none(),
    st.lists(
        st.builds(ToolCall, WORD, WORD, st.dictionaries(WORD, TREE, max_size=2).map(_json)), max_size=2
    ).map(tuple),
    MAYBE_WORD,
    MAYBE_WORD,
    MAYBE_WORD,
    st.booleans(),
    st.booleans(),
)
#: Of the schema of a tool that has none, and of the choice of a tool.
OWN_WORDS = {"type", "object", "tool", "name"}
FORM = st.dictionaries(WORD, TREE, max_size=2).map(
    lambda schema: _json({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
)
CHOICE = WORD.map(lambda name: _json({"type": "function", "function": {"name": name}}))


@settings(max_examples=150, deadline=None)
@given(
    turns=st.lists(SAYABLE, min_size=1, max_size=4),
    tools=st.lists(TOOL, max_size=2),
    form=st.none() | FORM,
    choice=st.none() | CHOICE,
    stops=st.lists(WORD, max_size=2),
    budget=st.none() | st.integers(1024, 10**6),
)
def test_every_value_that_an_anthropic_destination_receives_stands_in_a_piece(
    turns: list[Message],
    tools: list[ToolDefinition],
    form: JsonText | None,
    choice: JsonText | None,
    stops: list[str],
    budget: int | None,
) -> None:
    last = Message(Role.USER, (TextPart("A"),))
    chat = ChatRequest(
        "assistant", (*turns, last), tuple(tools), choice, response_format=form,
        sampling=Sampling(max_output_tokens=2**20, temperature=0.25, top_p=0.5, stop=tuple(stops)),
        surface=Surface.MESSAGES, thinking=Thinking.BUDGET if budget else None, thinking_budget_tokens=budget,
    )  # fmt: skip
    place = Destination("d", "anthropic", Level.INTERNAL, True, "eu", "model-1")
    sent = encode_messages(ResolvedRequest(chat), place, default_output_tokens=9)
    body = json.loads(sent, parse_float=_Written, parse_int=_Written)
    read = "\n".join(piece.text for piece in pieces_of(chat) if isinstance(piece, Text))
    for leaf in _leaves(body):
        assert leaf in read or leaf in OWN_WORDS


class _Written:
    """A number as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text
