"""Stage 3: the prompt that a request names becomes its first message, its tools join the list.

Invariants
1. What comes out is all that leaves: nothing is rendered, added or replaced after this stage.
2. One pass: a value that looks like a placeholder stays as it is.
3. A request without a prompt comes out unchanged, with no pins.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.domain.chat import (
    ChatRequest,
    Message,
    PromptReference,
    ResolvedRequest,
    Role,
    TextPart,
    ToolDefinition,
)
from gateway.errors import NotFound, Unresolvable
from gateway.protocols.document import Placeholder, Prompt, ToolSet
from gateway.protocols.registry import Registry
from gateway.protocols.tools import MAX_TOOL_COUNT
from gateway.protocols.variables import holds_control_token, take_values


def resolve(request: ChatRequest, registry: Registry) -> ResolvedRequest:
    """`request` with its prompt and tool set in place, and the pins that say which they were.

    The rendered prompt is the first message (system), before the client's own. The tools of the
    prompt's tool set come after the client's. `chat.prompt` of the result is None.

    Raises `NotFound` (prompt-not-found) and `Unresolvable` (prompt-version-missing,
    prompt-variable-missing, -unknown, -invalid, -too-long, tool-name-clash, too-many-tools).
    """
    if request.prompt is None:
        return ResolvedRequest(request)
    prompt = _find_prompt(request.prompt, registry)
    message = Message(Role.SYSTEM, (TextPart(_render(prompt, request.prompt)),))
    documents: list[Prompt | ToolSet] = [prompt]
    tools = request.tools
    if prompt.tool_set is not None:
        tool_set = registry.tool_sets[prompt.tool_set]
        documents.append(tool_set)
        tools = _join_tools(tools, tool_set.tools)
    floors = [document.floor for document in documents if document.floor is not None]
    return ResolvedRequest(
        chat=replace(request, messages=(message, *request.messages), tools=tools, prompt=None),
        pins=tuple(document.pin for document in documents),
        floor_level=max(floors).word if floors else None,
    )


def _find_prompt(reference: PromptReference, registry: Registry) -> Prompt:
    version = reference.version
    if version is None:
        version = registry.stable.get(reference.id)
    if version is None and any(name == reference.id for name, _ in registry.prompts):
        raise Unresolvable(
            "This prompt has no default version. Name one in `prompt.version`.",
            code="prompt-version-missing",
            param="prompt.version",
        )
    prompt = None if version is None else registry.prompts.get((reference.id, version))
    if prompt is None:
        raise NotFound(
            "There is no such prompt. Check `prompt.id` and `prompt.version`.",
            code="prompt-not-found",
            param="prompt",
        )
    return prompt


def _render(prompt: Prompt, reference: PromptReference) -> str:
    values = take_values(prompt.variables, reference.variables)
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
    own: tuple[ToolDefinition, ...], pinned: tuple[ToolDefinition, ...]
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
    if len(own) + len(pinned) > MAX_TOOL_COUNT:
        raise Unresolvable(
            f"At most {MAX_TOOL_COUNT} tools fit into one request, the prompt's included.",
            code="too-many-tools",
            param="tools",
        )
    return own + pinned
