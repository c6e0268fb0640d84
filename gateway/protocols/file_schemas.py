"""JSON Schemas of the files of this room, for editors: made from the types that read the files.

They know names, kinds and required fields. What refers to other files (versions, tool sets) and what is
counted (lengths, dates) is checked by `tidegate protocol lint`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gateway.protocols.cases import PromptCases, ToolCases
from gateway.protocols.channels import ChannelFile, FloorFile
from gateway.protocols.document import PromptManifest, ToolSetManifest
from gateway.protocols.schema import NEWEST
from gateway.protocols.tools import MAX_DESCRIPTION_CHARACTERS, MAX_TOOL_COUNT, Contract

#: Type of each file, by the name of its schema.
_TYPES: dict[str, tuple[str, Any]] = {
    "protocol-manifest": ("manifest.yaml of a prompt or a tool set.", PromptManifest | ToolSetManifest),
    "protocol-prompt-cases": ("tests/*.yaml of a prompt.", PromptCases),
    "protocol-tool-cases": ("tests/*.yaml of a tool set.", ToolCases),
    "protocol-channels": ("channels.yaml: which version a name means.", dict[str, ChannelFile]),
    "protocol-floors": ("floors.yaml: lowest version by tenant and prompt.", dict[str, dict[str, FloorFile]]),
}
_TOOL: dict[str, Any] = {
    "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "description": {"type": "string", "minLength": 1, "maxLength": MAX_DESCRIPTION_CHARACTERS},
    "parameters": {"type": "object", "required": ["type"], "properties": {"type": {"const": "object"}}},
    "strict": {"type": "boolean"},
}


def file_schemas() -> dict[str, bytes]:
    """Content of `policies/schema/` by file name, for all files of `policies/protocols/`."""
    schemas = {name: (title, msgspec.json.schema(kind)) for name, (title, kind) in _TYPES.items()}
    schemas["protocol-tools"] = ("tools.json of a tool set.", _tools())
    return {f"{name}.schema.json": _written(*schemas[name]) for name in sorted(schemas)}


def _tools() -> dict[str, Any]:
    """A list of tools; a contract stands whole or not at all."""
    (contract,), components = msgspec.json.schema_components([Contract], ref_template="#/$defs/{name}")
    fields = components.pop(contract["$ref"].rpartition("/")[2])["properties"]
    item = {
        "type": "object",
        "properties": {**_TOOL, **fields},
        "required": ["name", "description", "parameters"],
        "dependentRequired": {name: sorted(fields.keys() - {name}) for name in fields},
        "additionalProperties": False,
    }
    return {"type": "array", "minItems": 1, "maxItems": MAX_TOOL_COUNT, "items": item, "$defs": components}


def _written(title: str, schema: dict[str, Any]) -> bytes:
    whole = {"$schema": NEWEST, "description": title, **_plain(schema)}
    return json.dumps(whole, ensure_ascii=False, indent=2).encode() + b"\n"


def _plain(node: Any) -> Any:
    """Without the keyword of OpenAPI that JSON Schema does not know."""
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items() if key != "discriminator"}
    return [_plain(item) for item in node] if isinstance(node, list) else node
