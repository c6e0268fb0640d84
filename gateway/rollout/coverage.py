"""Which guard reads which field of which endpoint: found out by asking, before anything is served.

For every text that a request can carry a small request is made with a known identifier in that place, and
given to the classifier. A field that the classifier does not see, or that has neither a probe nor a reason
why it holds no text, refuses the candidate. So a field that is added tomorrow cannot be forgotten.

Pure: no clock, no IO.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

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
    ToolCall,
    ToolDefinition,
)
from gateway.domain.finding import Coverage, Verdict
from gateway.domain.label import PUBLIC, Label
from gateway.errors import ConfigurationError

#: A valid identifier that no table of example values holds.
CANARY = "DE89 3704 0044 0532 0130 00"
ENDPOINTS = tuple(surface.value for surface in Surface)
GUARD = "classifier"

_PLAIN = ChatRequest("assistant", (Message(Role.USER, (TextPart("a plain word"),)),))
_BIAS = JsonText(f'{{"{CANARY}":1}}')
_JSON = JsonText(f'{{"description":"{CANARY}"}}')

#: Fields that carry no text out of the gateway, and why.
NO_TEXT: dict[str, str] = {
    "model": "must equal a name of the policy; the destination's own name is sent instead",
    "prompt.id": "must equal a name of the registry; it is not sent",
    "prompt.version": "must equal a version of the registry; it is not sent",
    "end_user": "only a keyed hash of it is sent",
    "prompt.variables[]": "rendered into messages before anything is read",
    "messages[].parts[].kind": "a word of the dialect; the part counts as restricted anyway",
}


def _said(**more: object) -> ChatRequest:
    return replace(_PLAIN, messages=(replace(_PLAIN.messages[0], **more),))  # type: ignore[arg-type]


def _called(**more: str) -> ChatRequest:
    call = {"id": "call_1", "name": "tool", "arguments": "{}", **more}
    return _said(role=Role.ASSISTANT, tool_calls=(ToolCall(**call),))


def _offered(**more: object) -> ChatRequest:
    tool = replace(ToolDefinition("tool"), **more)  # type: ignore[arg-type]
    return replace(_PLAIN, tools=(tool,))


#: A request for each field, with the identifier in that field only.
PROBES: dict[str, ChatRequest] = {
    "messages[].parts[].text": _said(parts=(TextPart(CANARY),)),
    "messages[].parts[].payload": _said(parts=(OpaquePart("image_url", _JSON),)),
    "messages[].name": _said(name=CANARY),
    "messages[].tool_calls[].id": _called(id=CANARY),
    "messages[].tool_calls[].name": _called(name=CANARY),
    "messages[].tool_calls[].arguments": _called(arguments=_JSON),
    "messages[].tool_call_id": _said(role=Role.TOOL, tool_call_id=CANARY),
    "messages[].refusal": _said(role=Role.ASSISTANT, refusal=CANARY),
    "messages[].reasoning": _said(role=Role.ASSISTANT, reasoning=CANARY),
    "tools[].name": _offered(name=CANARY),
    "tools[].description": _offered(description=CANARY),
    "tools[].parameters": _offered(parameters=_JSON),
    "tool_choice": replace(_PLAIN, tool_choice=_JSON),
    "response_format": replace(_PLAIN, response_format=_JSON),
    "sampling.logit_bias": replace(_PLAIN, sampling=Sampling(logit_bias=_BIAS)),
    "sampling.stop[]": replace(_PLAIN, sampling=Sampling(stop=(CANARY,))),
    "reasoning_effort": replace(_PLAIN, reasoning_effort=CANARY),
    "extensions[]": replace(_PLAIN, extensions=(("structured_outputs", _JSON),)),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the matrix: an endpoint's field, and its guard or the reason why it needs none."""

    endpoint: str
    field: str
    guard: str


def matrix(probes: Mapping[str, ChatRequest] = PROBES) -> tuple[Cell, ...]:
    """Every text field of every endpoint. Raises `ConfigurationError` for one that nobody thought of."""
    fields = sorted(set(text_fields(ChatRequest)))
    odd = sorted(set(fields) ^ (probes.keys() | NO_TEXT.keys()))
    if odd:
        # fail-closed: a field without a probe might leave unread.
        raise ConfigurationError(f"coverage of requests: no guard is shown to read {', '.join(odd)}")
    return tuple(
        Cell(endpoint, field, GUARD if field in probes else NO_TEXT[field])
        for endpoint in ENDPOINTS
        for field in fields
    )


def check_coverage(classify: Callable[[ResolvedRequest, Label], Verdict]) -> None:
    """Return when the classifier sees the identifier in every field. Raises `ConfigurationError`."""
    matrix()
    blind = [field for field, chat in PROBES.items() if not _is_seen(classify(ResolvedRequest(chat), PUBLIC))]
    if blind:
        # fail-closed: a guard that does not read a field does not guard it.
        raise ConfigurationError(f"coverage of requests: the classifier does not read {', '.join(blind)}")


def _is_seen(verdict: Verdict) -> bool:
    return verdict.finding_count > 0 or any(part.coverage is Coverage.UNSCANNABLE for part in verdict.parts)


def text_fields(kind: type, prefix: str = "") -> Iterator[str]:
    """Paths of all text below a dataclass; a list's items have `[]`, closed words (enumerations) are none."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        yield from _texts(hints[field.name], f"{prefix}{field.name}")


def _texts(hint: object, path: str) -> Iterator[str]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for each in inner:
            yield from _texts(each, path)
    elif origin is tuple:
        # A tuple of one kind is a list; a pair (name, value) is one item whose value counts.
        for each in inner[-1:] if inner[-1] is not Ellipsis else inner[:1]:
            if typing.get_origin(each) is tuple and Ellipsis not in typing.get_args(each):
                yield from _texts(typing.get_args(each)[-1], f"{path}[]")
            else:
                yield from _texts(each, f"{path}[]")
    elif isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield from text_fields(hint, f"{path}.")
    elif hint is JsonText or (
        isinstance(hint, type) and issubclass(hint, str) and not issubclass(hint, Enum)
    ):
        yield path
