"""What changes for callers between two versions of a document.

A change is `breaking` (an application that worked may not), `wider` (more may be done, or less is
protected: a reviewer should look twice), or `other`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gateway.domain.label import Level
from gateway.protocols.document import Prompt, ToolSet
from gateway.protocols.tools import Contract, Tool

_RANK = {"read": 0, "write": 1, "external": 2, "financial": 3}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, in words for a reviewer."""

    kind: Literal["breaking", "wider", "other"]
    text: str


def compare(old: Prompt | ToolSet, new: Prompt | ToolSet) -> tuple[Change, ...]:
    """Differences from `old` to `new`, in a fixed order; none when both act the same."""
    return tuple(_changes(old, new))


def _changes(old: Prompt | ToolSet, new: Prompt | ToolSet) -> Iterator[Change]:
    yield from _floor(old.floor, new.floor)
    match old, new:
        case Prompt(), Prompt():
            yield from _prompt(old, new)
        case ToolSet(), ToolSet():
            yield from _tool_set(old, new)
        case _:
            yield Change("breaking", "one is a prompt and the other a tool set")


def _floor(old: Level | None, new: Level | None) -> Iterator[Change]:
    if old != new:
        before, after = ("none" if each is None else each.word for each in (old, new))
        is_lower = new is None or (old is not None and new < old)
        yield Change("wider" if is_lower else "other", f"label floor: {before} → {after}")


def _prompt(old: Prompt, new: Prompt) -> Iterator[Change]:
    for name in sorted(old.variables.keys() - new.variables.keys()):
        yield Change("breaking", f"variable {name}: removed")
    for name in sorted(new.variables.keys() - old.variables.keys()):
        is_needed = new.variables[name].default is None
        yield Change("breaking" if is_needed else "other", f"variable {name}: added")
    for name in sorted(old.variables.keys() & new.variables.keys()):
        if old.variables[name] != new.variables[name]:
            yield Change("breaking", f"variable {name}: takes other values")
    if old.segments != new.segments:
        yield Change("other", "the text of the prompt differs")
    if old.tool_set != new.tool_set:
        before, after = ("@".join(each) if each else "none" for each in (old.tool_set, new.tool_set))
        yield Change("wider", f"tools: {before} → {after}")


def _tool_set(old: ToolSet, new: ToolSet) -> Iterator[Change]:
    before, after = ({tool.name: tool for tool in each.tools} for each in (old, new))
    for name in sorted(before.keys() - after.keys()):
        yield Change("breaking", f"tool {name}: removed")
    for name in sorted(after.keys() - before.keys()):
        yield Change("wider", f"tool {name}: added")
    for name in sorted(before.keys() & after.keys()):
        for change in _tool(before[name], after[name]):
            yield Change(change.kind, f"tool {name}: {change.text}")


def _tool(old: Tool, new: Tool) -> Iterator[Change]:
    if old.definition.description != new.definition.description:
        yield Change("other", "its description differs")
    if old.definition.parameters != new.definition.parameters:
        yield from _parameters(old, new)
    if old.definition.strict != new.definition.strict:
        yield Change("other", f"strict: {old.definition.strict} → {new.definition.strict}")
    if old.contract is None and new.contract is not None:
        yield Change("wider", f"has a contract now, for {', '.join(new.contract.roles) or 'nobody'}")
    elif old.contract is not None and new.contract is None:
        yield Change("breaking", "has no contract any more, so nobody may use it")
    elif old.contract is not None and new.contract is not None:
        yield from _contract(old.contract, new.contract)


def _parameters(old: Tool, new: Tool) -> Iterator[Change]:
    before, after = (json.loads(each.definition.parameters or "{}") for each in (old, new))
    had, has = (set(each.get("properties", {})) for each in (before, after))
    needed = set(after.get("required", [])) - set(before.get("required", []))
    for name in sorted(had - has):
        yield Change("breaking", f"argument {name}: removed")
    for name in sorted(has - had):
        yield Change("breaking" if name in needed else "other", f"argument {name}: added")
    for name in sorted(needed & had & has):
        yield Change("breaking", f"argument {name}: required now")
    if had == has and not needed:
        yield Change("breaking", "the schema of its arguments differs")


def _contract(old: Contract, new: Contract) -> Iterator[Change]:
    for role in sorted(set(new.roles) - set(old.roles)):
        yield Change("wider", f"role {role}: may use it now")
    for role in sorted(set(old.roles) - set(new.roles)):
        yield Change("breaking", f"role {role}: may not use it any more")
    if old.side_effects != new.side_effects:
        is_more = _RANK[new.side_effects] > _RANK[old.side_effects]
        yield Change(
            "wider" if is_more else "other", f"side effects: {old.side_effects} → {new.side_effects}"
        )
    if old.result_label != new.result_label:
        is_lower = Level.parse(new.result_label) < Level.parse(old.result_label)
        yield Change(
            "wider" if is_lower else "other", f"label of results: {old.result_label} → {new.result_label}"
        )
    if old.result != new.result:
        yield Change("breaking", "the schema of its result differs")
    for word, one, other in (
        ("idempotent", old.idempotent, new.idempotent),
        ("timeout_seconds", old.timeout_seconds, new.timeout_seconds),
        ("errors", sorted(old.errors), sorted(new.errors)),
    ):
        if one != other:
            yield Change("other", f"{word}: {one} → {other}")
