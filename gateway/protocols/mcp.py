"""A saved `tools/list` result of an MCP server, as the tools of a tool set.

Invariants
1. Either the whole list comes over, or nothing does and every reason is said: a part that is left out in
   silence is a part that nobody reviewed.
2. Annotations of a server are hints. They choose the stricter side-effect class where they are missing, and
   grant nothing: roles and the label of results come from the administrator.

Source: Model Context Protocol, schema of 2026-07-28 and of 2025-11-25 (`Tool`, `ToolAnnotations`,
`ListToolsResult`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gateway.errors import ConfigurationError
from gateway.protocols.schema import SchemaFault, compile_schema
from gateway.protocols.tools import MAX_DESCRIPTION_CHARACTERS, MAX_TOOL_COUNT
from gateway.protocols.variables import holds_control_token, is_plain_text

Spec = Literal["2026-07-28", "2025-11-25"]
SPECS: tuple[Spec, ...] = ("2026-07-28", "2025-11-25")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LIST_FIELDS: dict[Spec, frozenset[str]] = {
    "2026-07-28": frozenset({"tools", "nextCursor", "_meta", "ttlMs", "cacheScope", "resultType"}),
    "2025-11-25": frozenset({"tools", "nextCursor", "_meta"}),
}
_TOOL_FIELDS = frozenset(
    {"name", "title", "description", "icons", "inputSchema", "outputSchema", "annotations", "_meta"}
)
_HINTS = frozenset({"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
#: Only for display; left out, and said.
_DISPLAY = ("title", "icons", "_meta")


@dataclass(frozen=True, slots=True)
class Grant:
    """What an MCP server cannot say: who may use its tools, and what their results are."""

    roles: tuple[str, ...]
    result_label: str
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Imported:
    """Entries for `tools.json`, and what was left out of each tool (`name: field, …`)."""

    entries: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...]


def import_tools(value: object, spec: Spec, grant: Grant, place: str) -> Imported:
    """The tools of `value`: a `tools/list` result, or the whole JSON-RPC answer that holds one.

    Raises `ConfigurationError` with one line for every part that cannot be taken.
    """
    result = _result(value, place)
    reasons = list(_list_reasons(result, spec))
    tools = result.get("tools")
    entries: list[dict[str, Any]] = []
    left_out: list[str] = []
    seen: set[str] = set()
    for at, tool in enumerate(tools if isinstance(tools, list) else ()):
        found = list(_tool_reasons(tool, spec))
        name = tool.get("name") if isinstance(tool, dict) else None
        where = f"tools[{at}]" + (f" ({name})" if isinstance(name, str) and _NAME.fullmatch(name) else "")
        if isinstance(name, str) and name in seen:
            found.append("name: another tool has it already")
        reasons += [f"{where}: {reason}" for reason in found]
        if not found and isinstance(tool, dict):
            seen.add(tool["name"])
            entries.append(_entry(tool, grant))
            dropped = [field for field in _DISPLAY if field in tool]
            left_out += [f"{tool['name']}: {', '.join(dropped)}"] if dropped else []
    if reasons:
        raise ConfigurationError("\n".join(f"{place}: {reason}" for reason in reasons))
    return Imported(tuple(entries), tuple(left_out))


def _result(value: object, place: str) -> dict[str, Any]:
    if isinstance(value, dict) and "jsonrpc" in value:
        if "result" not in value:
            raise ConfigurationError(f"{place}: expected a result, found another JSON-RPC message")
        value = value["result"]
    if not isinstance(value, dict):
        raise ConfigurationError(f"{place}: expected the result of tools/list (an object with tools)")
    return value


def _list_reasons(result: dict[str, Any], spec: Spec) -> Iterator[str]:
    tools = result.get("tools")
    if not isinstance(tools, list) or not 1 <= len(tools) <= MAX_TOOL_COUNT:
        yield f"tools: expected a list of 1 to {MAX_TOOL_COUNT} tools"
    for field in sorted(map(str, result.keys() - _LIST_FIELDS[spec])):
        yield f"{field[:40]}: not a field of tools/list in {spec}"
    if result.get("nextCursor"):
        yield "nextCursor: the list goes on; save all of its pages in one `tools`, without nextCursor"
    if result.get("resultType", "complete") != "complete":
        yield "resultType: expected complete; the server wants something before it lists its tools"


def _tool_reasons(tool: object, spec: Spec) -> Iterator[str]:
    if not isinstance(tool, dict):
        yield "expected an object"
        return
    allowed = _TOOL_FIELDS | {"execution"} if spec == "2025-11-25" else _TOOL_FIELDS
    for field in sorted(map(str, tool.keys() - allowed)):
        yield f"{field[:40]}: not a field of a tool in {spec}"
    checks: tuple[Callable[[dict[str, Any]], Iterator[str]], ...] = (
        _name_reasons,
        _description_reasons,
        _annotation_reasons,
        _execution_reasons,
    )
    for check in checks:
        yield from check(tool)
    yield from _schema_reasons("inputSchema", tool.get("inputSchema"), is_object=True)
    if "outputSchema" in tool:
        yield from _schema_reasons("outputSchema", tool["outputSchema"], is_object=spec == "2025-11-25")


def _name_reasons(tool: dict[str, Any]) -> Iterator[str]:
    name = tool.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        yield "name: expected 1 to 64 of A-Z a-z 0-9 _ -, which is all that chat completions carry"


def _description_reasons(tool: dict[str, Any]) -> Iterator[str]:
    text = tool.get("description")
    if not isinstance(text, str) or not 0 < len(text) <= MAX_DESCRIPTION_CHARACTERS:
        yield f"description: expected 1 to {MAX_DESCRIPTION_CHARACTERS} characters for the model to read"
    elif not is_plain_text(text, multiline=True) or holds_control_token(text):
        yield "description: holds invisible characters or control tokens of chat templates"


def _annotation_reasons(tool: dict[str, Any]) -> Iterator[str]:
    hints = tool.get("annotations", {})
    if not isinstance(hints, dict):
        yield "annotations: expected an object"
        return
    for field in sorted(map(str, hints.keys() - _HINTS)):
        yield f"annotations.{field[:40]}: not an annotation of the specification"
    for field in sorted(_HINTS & hints.keys() - {"title"}):
        if not isinstance(hints[field], bool):
            yield f"annotations.{field}: expected true or false"


def _execution_reasons(tool: dict[str, Any]) -> Iterator[str]:
    execution = tool.get("execution", {})
    if not isinstance(execution, dict) or not execution.keys() <= {"taskSupport"}:
        yield "execution: expected at most taskSupport"
    elif execution.get("taskSupport", "forbidden") not in ("forbidden", "optional"):
        yield "execution.taskSupport: the tool only runs as a task, which a tool call of a chat cannot carry"


def _schema_reasons(field: str, schema: object, *, is_object: bool) -> Iterator[str]:
    if field == "inputSchema" and _holds_key(schema, "x-mcp-header"):
        # fail-closed: such an argument also travels in an HTTP header, where nothing classifies it.
        yield f"{field}: x-mcp-header would send arguments in HTTP headers too; remove it from the schema"
    try:
        compile_schema(schema, is_object=is_object)
    except SchemaFault as fault:
        yield f"{field}{'.' if fault.place else ''}{fault.place}: {fault.expected}"


def _holds_key(node: object, key: str, depth: int = 0) -> bool:
    if depth > 64:
        return True
    items: Sequence[object] = ()
    if isinstance(node, dict):
        if key in node:
            return True
        items = list(node.values())
    elif isinstance(node, list):
        items = node
    return any(_holds_key(item, key, depth + 1) for item in items)


def _entry(tool: dict[str, Any], grant: Grant) -> dict[str, Any]:
    hints = tool.get("annotations", {})
    is_read = hints.get("readOnlyHint", False)
    # The specification's defaults are the strict ones: it writes, and it reaches the open world.
    side_effects = "external" if hints.get("openWorldHint", True) else "read" if is_read else "write"
    return {
        "name": tool["name"],
        "description": tool["description"],
        "parameters": tool["inputSchema"],
        "roles": list(grant.roles),
        "side_effects": side_effects,
        "idempotent": bool(is_read or hints.get("idempotentHint", False)),
        "timeout_seconds": grant.timeout_seconds,
        "errors": {},
        "result_label": grant.result_label,
        "result": tool.get("outputSchema", {}),
    }
