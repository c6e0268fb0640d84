"""A client's own tools: their schemas compiled when the request comes, and kept for the next one.

Invariants
1. A tool whose arguments could not be judged is not offered: a schema that does not compile is a refusal
   before anything leaves, not a fault when the call comes.
2. The memory is bounded, and an entry depends on the schema's text alone.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict

from gateway.domain.chat import CheckArguments, JsonText, OfferedTool, ToolDefinition
from gateway.errors import RequestRefused
from gateway.protocols.arguments import checker
from gateway.protocols.schema import SchemaFault, compile_schema

#: `OfferedTool.source` of a client's own tool.
OWN = "client"
#: A function without `parameters` takes none (OpenAI's reference).
_NO_PARAMETERS = JsonText('{"type":"object","properties":{}}')


class OwnTools:
    """Compiled schemas by digest of their text, the ones used longest ago dropped first.

    Bounds: `entry_count` schemas of at most `max_characters` each. Cost: 2 us for a known schema, 40 us
    and more for a new one.
    """

    __slots__ = ("_entries", "entry_count", "max_characters")

    def __init__(self, entry_count: int = 1024, max_characters: int = 65_536) -> None:
        self._entries: OrderedDict[str, CheckArguments] = OrderedDict()
        self.entry_count = entry_count
        self.max_characters = max_characters

    def __len__(self) -> int:
        return len(self._entries)

    def offer(self, tools: tuple[ToolDefinition, ...]) -> tuple[OfferedTool, ...]:
        """The tools with what judges their arguments, in their order.

        Refuses with `tool-schema-invalid` (400) when one has a schema that cannot be used.
        """
        return tuple([self._offer(tool, at) for at, tool in enumerate(tools)])

    def _offer(self, tool: ToolDefinition, at: int) -> OfferedTool:
        text = _NO_PARAMETERS if tool.parameters is None else tool.parameters
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        check = self._entries.get(digest)
        if check is None:
            check = self._compile(text, at)
            self._entries[digest] = check
            if len(self._entries) > self.entry_count:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(digest)
        return OfferedTool(tool.name, OWN, digest, check)

    def _compile(self, text: JsonText, at: int) -> CheckArguments:
        if len(text) > self.max_characters:
            raise _refused(at, f"expected at most {self.max_characters} characters")
        try:
            return checker(compile_schema(_as_object(json.loads(text)), versions=2))
        except SchemaFault as fault:
            raise _refused(at, fault.expected) from None


def _refused(at: int, expected: str) -> RequestRefused:
    return RequestRefused(
        f"The schema of `tools[{at}].function.parameters` cannot be used: {expected}.",
        code="tool-schema-invalid",
        param=f"tools[{at}].function.parameters",
    )


def _as_object(schema: object) -> object:
    """The schema with `type: object` said, as providers read one without a type."""
    if isinstance(schema, dict) and "type" not in schema:
        return {"type": "object", **schema}
    return schema
