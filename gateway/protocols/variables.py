"""Variables of a prompt: their kinds, and which values they take.

Invariants
1. A value is text inside one message. What a chat template could read as the end of a message or as
   another speaker (`<|im_end|>`, `[INST]`, `</s>` and their like) is refused, in a value and in what
   values and template make together.
2. Control characters, direction overrides and other invisible characters are refused; line breaks
   only where the variable says `multiline`.
3. The message of a refusal names the variable as the manifest spells it, never the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gateway.errors import Unresolvable

MAX_VALUE_CHARACTERS = 8192
_MAX_INTEGER = 10**15

#: Tokens with a meaning in the chat templates of ChatML, Llama 2 and 3, Mistral, Gemma, Qwen and
#: DeepSeek. Servers tokenise them as control tokens even when they stand in ordinary content.
_CONTROL_TOKEN = re.compile(
    r"<\s*[|｜]|[|｜]\s*>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\]"
    r"|<</?SYS>>"
    r"|</?(?:s|bos|eos|pad|unk|think|tool_call|tool_response|start_of_turn|end_of_turn)>",
    re.IGNORECASE,
)
#: Invisible characters that ordinary writing needs: no-break spaces, joiners, the ideographic space.
_HARMLESS = dict.fromkeys(map(ord, "\u00a0\u202f\u3000\u200c\u200d"))
_LINES = dict.fromkeys(map(ord, "\n\t"))
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")


class StringVariable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="type", tag="string"):
    """Free text of 1 to `max_characters` characters; `default` makes it optional."""

    max_characters: int = 200
    multiline: bool = False
    description: str = ""
    default: str | None = None


class IntegerVariable(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="type", tag="integer"
):
    """A whole number from `minimum` to `maximum`, both included, in plain decimal digits."""

    minimum: int = 0
    maximum: int = _MAX_INTEGER
    description: str = ""
    default: str | None = None


class ChoiceVariable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="type", tag="choice"):
    """Exactly one of `choices`."""

    choices: tuple[str, ...]
    description: str = ""
    default: str | None = None


Variable = StringVariable | IntegerVariable | ChoiceVariable


def holds_control_token(text: str) -> bool:
    """True when a chat template could read a part of `text` as more than text."""
    return _CONTROL_TOKEN.search(text) is not None


def is_plain_text(text: str, *, multiline: bool) -> bool:
    """True when `text` has no control, private, unassigned, override or surrogate character."""
    visible = text.translate(_HARMLESS)
    return (visible.translate(_LINES) if multiline else visible).isprintable()


def definition_fault(variable: Variable) -> str | None:
    """What is wrong with a variable's definition ("expected …"), or None."""
    match variable:
        case StringVariable():
            if not 1 <= variable.max_characters <= MAX_VALUE_CHARACTERS:
                return f"max_characters: expected 1 to {MAX_VALUE_CHARACTERS}"
        case IntegerVariable():
            if not -_MAX_INTEGER <= variable.minimum <= variable.maximum <= _MAX_INTEGER:
                return f"expected minimum ≤ maximum, both within ±{_MAX_INTEGER}"
        case ChoiceVariable():
            if not variable.choices or len(set(variable.choices)) != len(variable.choices):
                return "choices: expected at least one, each different"
            if not all(_text_fault(choice, StringVariable()) is None for choice in variable.choices):
                return "choices: expected plain text of 1 to 200 characters each"
    if variable.default is not None and value_fault(variable, variable.default) is not None:
        return "default: expected a value that the variable itself takes"
    return None


def value_fault(variable: Variable, value: str) -> tuple[str, str] | None:
    """Code and reason ("expected …") why `value` is not taken, or None."""
    match variable:
        case StringVariable():
            return _text_fault(value, variable)
        case IntegerVariable():
            if _INTEGER.fullmatch(value) and variable.minimum <= int(value) <= variable.maximum:
                return None
            return (
                "prompt-variable-invalid",
                f"expected a whole number from {variable.minimum} to {variable.maximum}",
            )
        case ChoiceVariable():
            if value in variable.choices:
                return None
            return "prompt-variable-invalid", "expected one of: " + ", ".join(variable.choices)


def take_values(
    variables: Mapping[str, Variable], given: tuple[tuple[str, str], ...]
) -> Mapping[str, str] | Unresolvable:
    """The value of every variable, defaults included; or the refusal of the first that does not fit."""
    values = dict(given)
    if len(values) != len(given):
        return _refusal("prompt-variable-invalid", "A prompt variable is given twice. Give each once.")
    if not values.keys() <= variables.keys():
        accepted = ", ".join(sorted(variables)) or "none"
        return _refusal(
            "prompt-variable-unknown", f"The prompt does not have such a variable. It has: {accepted}."
        )
    for name, variable in variables.items():
        value = values.get(name, variable.default)
        if value is None:
            return _refusal("prompt-variable-missing", f"The prompt variable `{name}` is required.")
        fault = value_fault(variable, value)
        if fault is not None:
            return _refusal(fault[0], f"The prompt variable `{name}` is not acceptable: {fault[1]}.")
        values[name] = value
    return values


def _text_fault(value: str, variable: StringVariable) -> tuple[str, str] | None:
    if len(value) > variable.max_characters:
        return "prompt-variable-too-long", f"expected at most {variable.max_characters} characters"
    if not value:
        return "prompt-variable-invalid", "expected at least one character"
    if not is_plain_text(value, multiline=variable.multiline):
        return "prompt-variable-invalid", "expected text without control or invisible characters"
    if holds_control_token(value):
        return "prompt-variable-invalid", "expected text without control tokens of chat templates"
    return None


def _refusal(code: str, message: str) -> Unresolvable:
    return Unresolvable(message, code=code, param="prompt.variables")
