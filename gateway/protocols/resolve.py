"""Stage 3: the prompt that a request names becomes its first message, its tools join the list.

Invariants
1. What comes out is all that leaves: nothing is rendered, added or replaced after this stage.
2. One pass: a value that looks like a placeholder stays as it is.
3. A request without prompt, tools and results of tools comes out unchanged, with no pins.
4. A tool of the registry is offered only to a caller with a role that its contract names.
5. The result of a tool that the registry knows by name carries that tool's label at least, and fits what some
   version of that tool returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.domain.caller import Caller
from gateway.domain.chat import (
    ChatRequest,
    Message,
    OfferedTool,
    ResolvedRequest,
    Role,
    TextPart,
    ToolDefinition,
)
from gateway.domain.label import Level
from gateway.errors import PolicyDenied, RequestRefused, Unresolvable
from gateway.protocols.document import Placeholder, Prompt, ToolSet
from gateway.protocols.registry import Registry
from gateway.protocols.results import check_results
from gateway.protocols.select import notices, select
from gateway.protocols.tool_gate import named_tool
from gateway.protocols.tools import MAX_TOOL_COUNT, Tool
from gateway.protocols.variables import holds_control_token, take_values


def resolve(request: ChatRequest, caller: Caller, registry: Registry) -> ResolvedRequest:
    """`request` with its prompt and tool set in place, and the pins that say which they were.

    The rendered prompt is the first message (system), before the client's own. The tools of the
    prompt's tool set come after the client's. `chat.prompt` of the result is None.

    Refuses what `gateway.protocols.select` refuses, and: prompt-variable-missing, -unknown, -invalid,
    -too-long, tool-name-clash, too-many-tools, tool-result-invalid (422), tool-schema-invalid (400),
    tool-not-granted (403), protocol-versions-mixed (400) for a history with calls of another version of the
    tool set.
    """
    level = _results_level(request.messages, registry)
    if level is not None:
        check_results(request.messages, frozenset(tool.name for tool in request.tools), registry.results)
    if request.prompt is None:
        return _without_prompt(request, caller, registry, level)
    prompt = select(request, request.prompt, caller, registry)
    documents: list[Prompt | ToolSet] = [prompt]
    tools, offered = request.tools, registry.own_tools.offer(request.tools)
    if prompt.tool_set is not None:
        tool_set = registry.tool_sets[prompt.tool_set]
        documents.append(tool_set)
        _check_history(request.messages, tool_set, registry)
        granted = [tool for tool in tool_set.tools if tool.is_granted(caller.roles)]
        tools = _join_tools(tools, tool_set.tools, granted)
        offered += tuple([tool.offered for tool in granted])
        _check_choice(request, offered, tool_set)
    fields = notices(documents, caller, registry)
    message = Message(Role.SYSTEM, (TextPart(render(prompt, request.prompt.variables)),))
    floors = [document.floor for document in documents if document.floor is not None]
    if level is not None:
        floors.append(level)
    return ResolvedRequest(
        chat=replace(request, messages=(message, *request.messages), tools=tools, prompt=None),
        pins=tuple(document.pin for document in documents),
        floor_level=max(floors).word if floors else None,
        offered=offered,
        notices=fields,
    )


def _without_prompt(
    request: ChatRequest, caller: Caller, registry: Registry, level: Level | None
) -> ResolvedRequest:
    if caller.protocol is not None:
        raise RequestRefused(
            "The header x-tidegate-protocol needs a `prompt` of the same name in the body.",
            code="protocol-versions-mixed",
            param="x-tidegate-protocol",
        )
    if level is None and not request.tools:
        return ResolvedRequest(request)
    return ResolvedRequest(
        request,
        floor_level=None if level is None else level.word,
        offered=registry.own_tools.offer(request.tools),
    )


def _results_level(messages: Sequence[Message], registry: Registry) -> Level | None:
    """Highest label of the results in the history, by the names of the tools that were called.

    A result whose call is not in the history counts as one of the most sensitive tool of the registry.
    """
    level: Level | None = None
    names: dict[str, str] | None = None
    for message in messages:
        if message.role is not Role.TOOL or not registry.result_levels:
            continue
        if names is None:
            names = {call.id: call.name for each in messages for call in each.tool_calls}
        name = names.get(message.tool_call_id or "")
        # fail-closed: the result of a call that was cut out of the history could be of any tool.
        found = max(registry.result_levels.values()) if name is None else registry.result_levels.get(name)
        if found is not None and (level is None or found > level):
            level = found
    return level


def _check_history(messages: Sequence[Message], tool_set: ToolSet, registry: Registry) -> None:
    """Refuse a conversation whose earlier calls are of a version that has other tools."""
    others = registry.tool_names.get(tool_set.pin.name, frozenset())
    own = {tool.name for tool in tool_set.tools}
    for at, message in enumerate(messages):
        for call in message.tool_calls:
            if call.name in others and call.name not in own:
                raise RequestRefused(
                    "The history has calls of another version of this tool set. Stay with the version that"
                    " the conversation began with, or begin a new one.",
                    code="protocol-versions-mixed",
                    param=f"messages[{at}].tool_calls",
                )


def _check_choice(request: ChatRequest, offered: Sequence[OfferedTool], tool_set: ToolSet) -> None:
    """Refuse a `tool_choice` that names a tool of the set which the caller may not use."""
    name = None if request.tool_choice is None else named_tool(request.tool_choice)
    if name in {tool.name for tool in tool_set.tools} and name not in {tool.name for tool in offered}:
        raise PolicyDenied(
            "None of your roles may use the tool that `tool_choice` names.",
            code="tool-not-granted",
            param="tool_choice",
        )


def render(prompt: Prompt, variables: tuple[tuple[str, str], ...]) -> str:
    """The text of a prompt with these values. Raises `Unresolvable` for values that it does not take."""
    values = take_values(prompt.variables, variables)
    if isinstance(values, Unresolvable):
        raise values
    text = "".join(
        values[segment.name] if isinstance(segment, Placeholder) else segment for segment in prompt.segments
    )
    if holds_control_token(text):
        # fail-closed: harmless pieces that make a control token together (`<` and `|im_end|`).
        raise Unresolvable(
            "The prompt variables make a control token of a chat template together. Change them.",
            code="prompt-variable-invalid",
            param="prompt.variables",
        )
    return text


def _join_tools(
    own: tuple[ToolDefinition, ...], pinned: Sequence[Tool], granted: Sequence[Tool]
) -> tuple[ToolDefinition, ...]:
    names = {tool.name for tool in own}
    for tool in pinned:
        if tool.name in names:
            # fail-closed: two tools of one name, and the client's could stand in for the reviewed one.
            raise Unresolvable(
                f"The prompt brings a tool named `{tool.name}`. Rename or remove your own.",
                code="tool-name-clash",
                param="tools",
            )
    if len(own) + len(granted) > MAX_TOOL_COUNT:
        raise Unresolvable(
            f"At most {MAX_TOOL_COUNT} tools fit into one request, the prompt's included.",
            code="too-many-tools",
            param="tools",
        )
    return own + tuple([tool.definition for tool in granted])
