"""Everything of a request that would be sent, piece by piece, and which pieces are read together.

Invariants
1. Every text and every number of the body that a destination receives is in a piece, as it is serialised.
   Left out are closed words (roles, kinds, booleans) and what the gateway sets itself.
2. Only what every destination receives stands in the joints of a conversation. What some do not receive
   (`reasoning`) is read in both ways: there, and not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from gateway.domain.chat import ChatRequest, Message, OpaquePart, Role, Sampling, ToolDefinition
from gateway.sensitivity import joints


class Strand(StrEnum):
    """Texts outside the conversation that a reader could lay end to end."""

    NAMES = "names"
    IDS = "ids"
    CALLS = "calls"
    TOOL_NAMES = "tool names"
    TOOLS = "tools"
    STOPS = "stops"
    BIASES = "biases"


@dataclass(frozen=True, slots=True)
class Text:
    """One text of the request.

    `speaker` says whose part of the conversation it is, `strand` where else it may continue another text.
    `is_natural`: people or models wrote it as prose. `is_optional`: some destinations do not receive it.
    """

    path: str
    text: str
    speaker: str | None = None
    strand: Strand | None = None
    is_natural: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """One part that is no text."""

    path: str


Piece = Text | Opaque

_ENCODER = msgspec.json.Encoder()
_NUMBERS = (
    "max_output_tokens",
    "temperature",
    "top_p",
    "n",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
)  # fmt: skip


def _message_pieces(path: str, message: Message) -> Iterator[Piece]:
    role = message.role.value
    # A field that only answers have is not sent with another role, so it may not stand between two texts.
    answer = role if message.role is Role.ASSISTANT else None
    if message.name is not None:
        yield Text(f"{path}.name", message.name, strand=Strand.NAMES)
    if message.tool_call_id is not None:
        yield Text(f"{path}.tool_call_id", message.tool_call_id, strand=Strand.IDS)
    if message.reasoning is not None:
        yield Text(f"{path}.reasoning", message.reasoning, answer, is_natural=True, is_optional=True)
    for place, part in enumerate(message.parts):
        where = f"{path}.content[{place}]"
        yield Opaque(where) if isinstance(part, OpaquePart) else Text(where, part.text, role, is_natural=True)
    if message.refusal is not None:
        yield Text(f"{path}.refusal", message.refusal, answer, is_natural=True)
    for place, call in enumerate(message.tool_calls):
        where = f"{path}.tool_calls[{place}]"
        yield Text(f"{where}.id", call.id, strand=Strand.IDS)
        yield Text(f"{where}.name", call.name, strand=Strand.TOOL_NAMES)
        yield Text(f"{where}.arguments", call.arguments, answer, Strand.CALLS, is_natural=True)


def _tool_pieces(path: str, tool: ToolDefinition) -> Iterator[Piece]:
    yield Text(f"{path}.name", tool.name, strand=Strand.TOOL_NAMES)
    if tool.description is not None:
        yield Text(f"{path}.description", tool.description, strand=Strand.TOOLS)
    if tool.parameters is not None:
        yield Text(f"{path}.parameters", tool.parameters, strand=Strand.TOOLS)


def _sampling_pieces(sampling: Sampling) -> Iterator[Piece]:
    for name in _NUMBERS:
        value = getattr(sampling, name)
        if value is not None and (value != 1 or name != "n"):
            yield Text(name, _ENCODER.encode(value).decode())
    for place, stop in enumerate(sampling.stop):
        yield Text(f"stop[{place}]", stop, strand=Strand.STOPS)
    if sampling.logit_bias is not None:
        yield Text("logit_bias", sampling.logit_bias, strand=Strand.BIASES)


def pieces_of(chat: ChatRequest) -> Iterator[Piece]:
    """Everything in the request that would be sent, in order."""
    for place, message in enumerate(chat.messages):
        yield from _message_pieces(f"messages[{place}]", message)
    for place, tool in enumerate(chat.tools):
        yield from _tool_pieces(f"tools[{place}]", tool)
    if chat.tool_choice is not None:
        yield Text("tool_choice", chat.tool_choice)
    if chat.response_format is not None:
        yield Text("response_format", chat.response_format)
    yield from _sampling_pieces(chat.sampling)
    if chat.reasoning_effort is not None:
        yield Text("reasoning_effort", chat.reasoning_effort)
    if chat.embedding is not None and chat.embedding.dimensions is not None:
        yield Text("dimensions", str(chat.embedding.dimensions))
    if chat.thinking_budget_tokens is not None:
        yield Text("thinking_budget_tokens", str(chat.thinking_budget_tokens))
    for name, value in chat.extensions:
        yield Text(name, value)


def conversation_strands(texts: Sequence[Text]) -> Iterator[joints.Strand]:
    """Readings of what was said, with what some destinations do not receive, and without it."""
    said = [text for text in texts if text.speaker is not None]
    always = [text for text in said if not text.is_optional]
    yield from joints.strands_of([(text.path, str(text.speaker), text.text) for text in always])
    if len(always) < len(said):
        yield from joints.strands_of([(text.path, str(text.speaker), text.text) for text in said])


#: A string of JSON; group 1 is what it says, group 2 is there when it names a field.
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)
_BIAS_KEY = re.compile(r'"0*([0-9]+)"')
#: With more keys the biases are a list of tokens; joined to one another they would say nothing.
_MOST_BIASES = 16
#: Rows joined at a time, and how many of them the next chunk repeats: the digits of a card, one a row.
_CHUNK = 1024
_CHUNK_OVERLAP = 64


def _rows(text: Text) -> list[joints.Row]:
    """The text as rows of its strand: of JSON the values that are strings, of biases the tokens."""
    if text.strand is Strand.BIASES:
        keys = [joints.Row(text.path, match[1], match.start(1)) for match in _BIAS_KEY.finditer(text.text)]
        return keys if len(keys) <= _MOST_BIASES else []
    if text.strand is Strand.CALLS or text.path.endswith(".parameters"):
        return [
            joints.Row(text.path, match[1], match.start(1))
            for match in _STRING.finditer(text.text)
            if match[2] is None
        ]
    return [joints.Row(text.path, text.text)]


def side_strands(texts: Sequence[Text]) -> Iterator[joints.Strand]:
    """Readings of names, identifiers, tools, calls and stops, each kind laid end to end.

    What repeats (the identifier of a call and of its result) is read once too.
    """
    strands: dict[Strand, list[joints.Row]] = {}
    for text in texts:
        if text.strand is not None:
            strands.setdefault(text.strand, []).extend(_rows(text))
    for strand, rows in strands.items():
        once = list({row.text: row for row in reversed(rows)}.values())[::-1]
        if len(once) < 2:
            continue
        yield from _in_chunks(rows)
        if len(once) < len(rows) and strand in {Strand.NAMES, Strand.IDS}:
            yield from _in_chunks(once)


def _in_chunks(rows: Sequence[joints.Row]) -> Iterator[joints.Strand]:
    """Readings of so many rows at a time, so that the time budget is asked between them."""
    for first in range(0, max(1, len(rows) - _CHUNK_OVERLAP), _CHUNK - _CHUNK_OVERLAP):
        yield from joints.readings(rows[first : first + _CHUNK])
