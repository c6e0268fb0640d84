"""Tool sets: a list of functions, each with schemas and with what a caller must know about calling it.

Invariants
1. A schema is checked when the set is loaded, and points nowhere outside itself: a `$ref` to an
   address would be a fetch at a stranger's word.
2. `parameters` is sent as compact JSON with keys in the order in which the file has them. The file's
   bytes are pinned, so the text is fixed too, and models read properties in their author's order.
3. A tool without a contract is offered to nobody: nobody has said who may use it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import msgspec

from gateway.domain.chat import JsonText, OfferedTool, ToolDefinition
from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.protocols.arguments import checker
from gateway.protocols.schema import Judge, SchemaFault, compile_schema
from gateway.protocols.variables import holds_control_token, is_plain_text

#: Most tools in one request (OpenAI's bound).
MAX_TOOL_COUNT = 128
MAX_DESCRIPTION_CHARACTERS = 4096
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WORD = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*")
_REQUIRED = frozenset({"name", "description", "parameters"})
_CONTRACT = frozenset(
    {"roles", "side_effects", "idempotent", "timeout_seconds", "errors", "result_label", "result"}
)

SideEffects = Literal["read", "write", "external", "financial"]


class ToolError(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One way in which a tool fails, and whether the same call may be tried again."""

    retryable: bool
    description: str = ""


class Contract(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What `tools.json` says of a tool beside what the model is told. All fields are required.

    `result` is the JSON Schema of its result. `side_effects`: `read` changes nothing, `write` changes data
    of the company, `external` reaches people or systems outside, `financial` moves money or binds to it.
    """

    roles: tuple[str, ...]
    side_effects: SideEffects
    idempotent: bool
    timeout_seconds: int
    errors: dict[str, ToolError]
    result_label: Literal["public", "internal", "confidential", "restricted"]
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the registry. `offered` judges its arguments, `result` its results."""

    definition: ToolDefinition
    offered: OfferedTool
    contract: Contract | None = None
    result: Judge | None = None

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.definition.name

    @property
    def result_level(self) -> Level | None:
        """Label that its results have at least; None without a contract."""
        return None if self.contract is None else Level.parse(self.contract.result_label)

    def is_granted(self, roles: frozenset[str]) -> bool:
        """Whether one of `roles` may use it."""
        return self.contract is not None and not roles.isdisjoint(self.contract.roles)


def parse_tools(document: bytes, place: str, source: str = "") -> tuple[Tool, ...]:
    """The tools of a `tools.json`: an array of `{name, description, parameters, strict?, …contract}`.

    `place` names the file in errors, `source` (name@version) the tool set in records. Raises
    `ConfigurationError`: not strict JSON, no array of 1 to 128, unknown or missing field, bad or repeated
    name, half a contract, a schema that is none or of another type than object.
    """
    entries = strict_json(document, place)
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_TOOL_COUNT:
        raise ConfigurationError(f"{place}: expected an array of 1 to {MAX_TOOL_COUNT} tools")
    tools: dict[str, Tool] = {}
    for index, entry in enumerate(entries):
        tool = _tool(entry, f"{place}: [{index}]", source)
        if tool.name in tools:
            raise ConfigurationError(f"{place}: [{index}].name: expected a name used once, found it twice")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(entry: object, place: str, source: str) -> Tool:
    if not isinstance(entry, dict) or not _REQUIRED <= entry.keys() <= _REQUIRED | _CONTRACT | {"strict"}:
        raise ConfigurationError(
            f"{place}: expected an object with name, description, parameters, and at most strict,"
            f" {', '.join(sorted(_CONTRACT))}"
        )
    name, description, strict = entry["name"], entry["description"], entry.get("strict")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigurationError(f"{place}.name: expected 1 to 64 of A-Z a-z 0-9 _ -")
    _check_description(description, f"{place}.description")
    if strict is not None and not isinstance(strict, bool):
        raise ConfigurationError(f"{place}.strict: expected true or false")
    schema = entry["parameters"]
    judge = _judge(schema, f"{place}.parameters", is_object=True)
    text = compact_json(schema)
    contract = _contract(entry, place)
    return Tool(
        ToolDefinition(name, description, text, strict),
        OfferedTool(name, source, hashlib.sha256(text.encode()).hexdigest(), checker(judge)),
        contract,
        None if contract is None else _judge(contract.result, f"{place}.result", is_object=False),
    )


def _check_description(description: object, place: str) -> None:
    if not isinstance(description, str) or not 0 < len(description) <= MAX_DESCRIPTION_CHARACTERS:
        raise ConfigurationError(f"{place}: expected text of 1 to {MAX_DESCRIPTION_CHARACTERS} characters")
    if not is_plain_text(description, multiline=True) or holds_control_token(description):
        # fail-closed: what a reviewer cannot see must not reach the model as an instruction.
        raise ConfigurationError(
            f"{place}: expected text without invisible characters and control tokens of chat templates"
        )


def _contract(entry: Mapping[str, Any], place: str) -> Contract | None:
    given = {key: entry[key] for key in entry if key in _CONTRACT}
    if not given:
        return None
    try:
        contract = msgspec.convert(given, Contract)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place}: {error}") from None
    if not all(_WORD.fullmatch(role) for role in contract.roles):
        raise ConfigurationError(f"{place}.roles: expected words of a-z 0-9 joined by - _ or .")
    if not 1 <= contract.timeout_seconds <= 3600:
        raise ConfigurationError(f"{place}.timeout_seconds: expected 1 to 3600")
    if not all(_WORD.fullmatch(code) for code in contract.errors):
        raise ConfigurationError(f"{place}.errors: expected codes of a-z 0-9 joined by - _ or .")
    if contract.side_effects != "read" and not contract.idempotent:
        for code, failure in contract.errors.items():
            if failure.retryable:
                # fail-closed: a second try of such a call could do the work twice.
                raise ConfigurationError(
                    f"{place}.errors.{code}.retryable: expected false, because the tool changes something and"
                    " is not idempotent"
                )
    return contract


def _judge(schema: object, place: str, *, is_object: bool) -> Judge:
    try:
        return compile_schema(schema, is_object=is_object)
    except SchemaFault as fault:
        where = f"{place}.{fault.place}" if fault.place else place
        raise ConfigurationError(f"{where}: {fault.expected}") from None


def compact_json(value: object) -> JsonText:
    """Compact JSON of `value`, keys in their order."""
    return JsonText(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def strict_json(document: bytes, place: str) -> object:
    """The JSON value in a file. Raises `ConfigurationError` with line and column; keys stand once."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            raise ConfigurationError(f"{place}: expected unique keys, found one twice in an object")
        return value

    def no_constant(word: str) -> NoReturn:
        raise ConfigurationError(f"{place}: expected JSON, found {word}")

    try:
        value: object = json.loads(
            document.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant
        )
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{place}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{place}: expected JSON in UTF-8 of moderate depth") from None
    return value
