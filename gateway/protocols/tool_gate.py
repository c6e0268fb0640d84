"""The last stage before the client: no tool call passes that was not offered, whole and valid.

Stands behind the output filter and has its shape, so that plain and streamed answers go one way.

Invariants
1. Every call that is released names a tool that this request offers, and its arguments were judged whole.
   What is judged is what is released: masks of the output filter are in it already.
2. A call is held from its start until its choice finishes; text is not. Calls of a choice come out in the
   order in which they began, each as its start and one delta of arguments, then the choice's `Finish`.
3. What comes out does not depend on how arguments were cut into deltas.
4. After a refusal the gate is dead: every later call raises it again.
5. A choice that ends by `content_filter` has its held calls dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from gateway.domain.chat import JsonText, OfferedTool, ResolvedRequest
from gateway.domain.record import ToolCallFact
from gateway.domain.stream import (
    Channel,
    FilterAction,
    Finish,
    OutputFilter,
    StreamEvent,
    TextDelta,
    ToolCallStart,
)
from gateway.errors import ToolCallRefused
from gateway.protocols.arguments import MAX_CHARACTERS

#: Calls of one answer, over all choices.
MAX_CALLS = 256
_ARGUMENTS = Channel.TOOL_ARGUMENTS


class _Call:
    """A call that is held."""

    __slots__ = ("offered", "parts", "start")

    def __init__(self, start: ToolCallStart, offered: OfferedTool) -> None:
        self.start = start
        self.offered = offered
        self.parts: list[str] = []


class ToolGate:
    """`inner` (the output filter) with the tool calls of its events judged.

    `keyed_digest(data)` gives a keyed hash in hex, for the commitments in `calls`. Held: the arguments of
    all open calls, at most `MAX_CHARACTERS` together. Cost: 0.1 us for an event of text, 8 us for a call.
    Raises `ToolCallRefused` (tool-not-granted, tool-arguments-invalid), and what `inner` raises.
    """

    __slots__ = ("_digest", "_facts", "_held", "_inner", "_offered", "_refusal", "_size")

    def __init__(
        self,
        inner: OutputFilter,
        offered: Sequence[OfferedTool],
        keyed_digest: Callable[[bytes], str],
    ) -> None:
        self._inner = inner
        self._offered = {tool.name: tool for tool in offered}
        self._digest = keyed_digest
        self._held: dict[tuple[int, int], _Call] = {}
        self._facts: list[ToolCallFact] = []
        self._refusal: ToolCallRefused | None = None
        self._size = 0

    @property
    def actions(self) -> tuple[FilterAction, ...]:
        """What the output filter did so far."""
        return self._inner.actions

    @property
    def calls(self) -> tuple[ToolCallFact, ...]:
        """The calls that were judged so far: released, withheld, dropped, or why they were refused."""
        return tuple(self._facts)

    def feed(self, event: StreamEvent) -> tuple[StreamEvent, ...]:
        """Events that may be released now."""
        if self._refusal is not None:
            raise self._refusal
        return self._sifted(self._inner.feed(event))

    def flush(self) -> tuple[StreamEvent, ...]:
        """What the output filter still held, judged. A call that never ended is a refusal."""
        if self._refusal is not None:
            raise self._refusal
        events = self._sifted(self._inner.flush())
        for call in self._held.values():
            raise self._refused(call, "call-without-end")
        return events

    def _sifted(self, events: tuple[StreamEvent, ...]) -> tuple[StreamEvent, ...]:
        for event in events:
            kind = type(event)
            if kind is TextDelta:
                if event.channel is _ARGUMENTS:  # type: ignore[union-attr]
                    break
            elif kind is ToolCallStart or kind is Finish:
                break
        else:
            return events
        released: list[StreamEvent] = []
        for event in events:
            if type(event) is TextDelta and event.channel is _ARGUMENTS:
                self._add(event)
            elif type(event) is ToolCallStart:
                self._begin(event)
            elif type(event) is Finish:
                if self._held:
                    self._end(event, released)
                released.append(event)
            else:
                released.append(event)
        return tuple(released)

    def _begin(self, start: ToolCallStart) -> None:
        offered = self._offered.get(start.name)
        if offered is None:
            # fail-closed: a call that nobody granted, whether invented or planted in what the model read.
            self._facts.append(ToolCallFact("", "", "", None, "not-granted"))
            self._refusal = ToolCallRefused(
                "The model called a tool that this request does not offer; the call was not passed on.",
                code="tool-not-granted",
                param=f"tool_calls[{start.tool}].function.name",
                # A client that tries again by itself would get the same, and pay for it.
                headers=((b"x-should-retry", b"false"),),
            )
            raise self._refusal
        key = (start.choice, start.tool)
        call = _Call(start, offered)
        if key in self._held or len(self._held) + len(self._facts) >= MAX_CALLS:
            raise self._refused(call, "too-many-calls")
        self._held[key] = call

    def _add(self, event: TextDelta) -> None:
        call = self._held.get((event.choice, event.tool))
        if call is None:
            self._refusal = _invalid(event.tool, "arguments-without-call")
            raise self._refusal
        call.parts.append(event.text)
        self._size += len(event.text)
        if self._size > MAX_CHARACTERS:
            raise self._refused(call, "arguments-too-large")

    def _end(self, finish: Finish, released: list[StreamEvent]) -> None:
        """Judge the calls of a choice; all of them pass or none."""
        judged: list[tuple[_Call, str, str | None]] = []
        for key in [key for key in self._held if key[0] == finish.choice]:
            call = self._held.pop(key)
            text = "".join(call.parts)
            self._size -= len(text)
            judged.append((call, text, call.offered.fault(text)))
        is_cut = finish.reason == "content_filter"
        bad = None if is_cut else next((one for one in judged if one[2] is not None), None)
        passed = "dropped" if is_cut else "released" if bad is None else "withheld"
        for call, text, fault in judged:
            self._facts.append(self._fact(call, text, passed if is_cut or fault is None else fault))
            if passed == "released":
                released.append(call.start)
                released.append(TextDelta(finish.choice, _ARGUMENTS, text, call.start.tool))
        if bad is not None:
            self._refusal = _invalid(bad[0].start.tool, bad[2] or "")
            raise self._refusal

    def _refused(self, call: _Call, fault: str) -> ToolCallRefused:
        self._facts.append(self._fact(call, "".join(call.parts), fault))
        self._refusal = _invalid(call.start.tool, fault)
        return self._refusal

    def _fact(self, call: _Call, text: str, outcome: str) -> ToolCallFact:
        offered = call.offered
        commitment = self._digest(b"tool arguments:" + text.encode("utf-8", "surrogatepass"))
        if "@" not in offered.source:
            # Name and schema of a client's own tool are its free text.
            schema = self._digest(b"tool schema:" + offered.schema_sha256.encode())
            return ToolCallFact("", offered.source, "hmac:" + schema, commitment, outcome)
        schema = "sha256:" + offered.schema_sha256
        return ToolCallFact(offered.name, offered.source, schema, commitment, outcome)


def guard(inner: OutputFilter, request: ResolvedRequest, keyed_digest: Callable[[bytes], str]) -> ToolGate:
    """The gate of one exchange: only tools that `request` offers and its `tool_choice` leaves open."""
    offered: Sequence[OfferedTool] = request.offered
    if request.chat.tool_choice is not None:
        choice = json.loads(request.chat.tool_choice)
        if choice == "none":
            offered = ()
        elif (name := named_tool(request.chat.tool_choice)) is not None:
            offered = [tool for tool in offered if tool.name == name]
    return ToolGate(inner, offered, keyed_digest)


def named_tool(tool_choice: JsonText) -> str | None:
    """Name of the one function that a `tool_choice` (JSON) asks for; None when it names none."""
    match json.loads(tool_choice):
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return None


def _invalid(tool: int, fault: str) -> ToolCallRefused:
    return ToolCallRefused(
        "The model called a tool with arguments that the tool does not take; the call was not passed on."
        " Ask again, or make the tool's description clearer.",
        code="tool-arguments-invalid",
        param=f"tool_calls[{tool}].function.arguments",
        detail=fault,
    )
