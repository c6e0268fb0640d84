"""Whatever a destination receives was read: each value of the body that is sent stands in a piece."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.openai_body import encode_body
from gateway.domain.chat import (
    ChatRequest,
    JsonText,
    Message,
    OpaquePart,
    ResolvedRequest,
    Role,
    Sampling,
    TextPart,
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
JSON = TREE.map(lambda tree: JsonText(msgspec.json.encode(tree).decode()))
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
RAW = {"parameters", "tool_choice", "response_format", "logit_bias", *EXTENSIONS}


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


class _Written:
    """A number as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text
