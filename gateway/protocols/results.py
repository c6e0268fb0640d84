"""Results of tools, judged before a model reads them.

A tool of the registry promises what it returns. A result that is something else is refused with the tool's
name and the place, because whoever wrote it (a fault of the application, or an attacker behind the tool) is
not who the contract speaks of. It is never cut, cast or completed.

Invariants
1. A result of a registry's tool is strict JSON and fits the schema of some version of that tool, or it is one
   of the failures that the contract names, or the client says that the call failed.
2. A place in a refusal has only names of the schema; a key that the result invents is shown as `*`.
3. What cannot be judged (too large, too deep, not text, the judge raised) does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.domain.chat import Message, Role, TextPart
from gateway.errors import Unresolvable
from gateway.protocols.arguments import MAX_CHARACTERS, NotStrict, strict_value
from gateway.protocols.schema import Judge
from gateway.protocols.tools import Tool

#: Most steps of a place that a refusal shows.
_MAX_STEPS = 8


@dataclass(frozen=True, slots=True)
class ResultContract:
    """What one version of a tool returns: a judge, the names that its schema knows, its codes of failure."""

    judge: Judge
    names: frozenset[str]
    errors: frozenset[str]


def result_contracts(tools: Iterable[Tool]) -> dict[str, tuple[ResultContract, ...]]:
    """The contracts by name of the tool, of every version that has one."""
    found: dict[str, tuple[ResultContract, ...]] = {}
    for tool in tools:
        if tool.contract is not None and tool.result is not None:
            names = frozenset(_names(tool.contract.result))
            one = ResultContract(tool.result, names, frozenset(tool.contract.errors))
            found[tool.name] = (*found.get(tool.name, ()), one)
    return found


def check_results(
    messages: Sequence[Message],
    own_tools: frozenset[str],
    contracts: Mapping[str, tuple[ResultContract, ...]],
) -> None:
    """Return when every result of a registry's tool fits. Raises `Unresolvable` (422, tool-result-invalid).

    `own_tools` are names of the client's own tools, which nobody but the client has promised anything of. A
    result whose call is not in the history has no name; it is labelled, not judged.
    """
    names: dict[str, str] | None = None
    for at, message in enumerate(messages):
        if message.role is not Role.TOOL or message.is_error:
            continue
        if names is None:
            names = {call.id: call.name for each in messages for call in each.tool_calls}
        name = names.get(message.tool_call_id or "")
        if name is None or name in own_tools or name not in contracts:
            continue
        place = fault_of(message, contracts[name])
        if place is not None:
            raise Unresolvable(
                f"The result of the tool `{name}` does not fit the tool's schema at {place}. Send what the"
                " tool returned, or one of the failures that its contract names.",
                code="tool-result-invalid",
                param=f"messages[{at}].content",
            )


def fault_of(message: Message, contracts: Sequence[ResultContract]) -> str | None:
    """Where a result does not fit (`$` is the whole); None when it fits one of the contracts."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    text = "".join(texts)
    if len(texts) != len(message.parts) or len(text) > MAX_CHARACTERS:
        return "$"
    try:
        value = strict_value(text)
    except NotStrict:
        return "$"
    if any(_is_failure(value, one.errors) for one in contracts):
        return None
    place = "$"
    for one in contracts:
        try:
            if one.judge.is_valid(value):
                return None
            place = _place(one, value)
        except Exception:  # noqa: BLE001
            # fail-closed: what the judge cannot take is no result of this tool.
            place = "$"
    return place


def _is_failure(value: Any, errors: frozenset[str]) -> bool:
    """Whether it is `{"error": CODE}` or `{"error": {"code": CODE, …}}` with a code of the contract."""
    match value:
        case {"error": {"code": str(code)}} | {"error": str(code)}:
            return len(value) == 1 and code in errors
        case _:
            return False


def _place(contract: ResultContract, value: Any) -> str:
    """Place of the first fault, such as `$.accounts[2].balance`."""
    fault = next(iter(contract.judge.iter_errors(value)), None)
    steps = [] if fault is None else list(fault.instance_path)[:_MAX_STEPS]
    shown = (
        f"[{step}]" if isinstance(step, int) else f".{step}" if step in contract.names else ".*"
        for step in steps
    )
    return "$" + "".join(shown)


def _names(schema: Any) -> Iterator[str]:
    """Names of properties anywhere in a schema."""
    if isinstance(schema, list):
        for item in schema:
            yield from _names(item)
    elif isinstance(schema, dict):
        listed = schema.get("properties")
        if isinstance(listed, dict):
            yield from listed
        for item in schema.values():
            yield from _names(item)
