"""Marks in Redis, with the label that each carries and a lifetime.

Invariants
1. A mark's label only rises while it is remembered.
2. Without Redis, whatever the assistant is said to have said counts as `restricted`.
3. A mark that Redis did not take is kept here, looked up here, and handed over when Redis is back. Beyond
   `MAX_PENDING` the oldest are lost; that is counted.
4. Nothing is asked and nothing is written for a request without assistant turns, or an answer that is
   `internal` or lower.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from gateway.domain.chat import ChatRequest
from gateway.domain.label import PUBLIC, UNKNOWN, Label, Level, Tag
from gateway.domain.principal import Principal
from gateway.domain.stream import StreamEvent
from gateway.errors import StoreUnavailable
from gateway.lineage.marks import Answer, Marker, turns_of

MAX_PENDING: Final = 100_000
#: Marks of one call; a history of more turns takes more calls.
_AT_ONCE: Final = 1000
_LOOK: Final = b"return redis.call('MGET', unpack(KEYS))"
#: Sets each mark to the higher of what it has and what it gets. A value is `<level>:<tags>`.
_KEEP: Final = b"""
local level = string.sub(ARGV[1], 1, 1)
for i = 1, #KEYS do
  local old = redis.call('GET', KEYS[i])
  if old and string.sub(old, 1, 1) > level then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  else
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  end
end
return #KEYS
"""


class RunScript(Protocol):
    """Runs a script on the shared Redis. Raises `StoreUnavailable`."""

    def __call__(
        self, text: bytes, keys: tuple[bytes, ...], arguments: tuple[bytes | str | int, ...], /
    ) -> Awaitable[Any]:
        """The script's answer."""
        ...


class Lineage:
    """Remembers what was said above `internal`, and for how long (`seconds`)."""

    def __init__(
        self, run: RunScript, key: bytes, seconds: int, report_fault: Callable[[str, BaseException], None]
    ) -> None:
        self._run = run
        self._key = key
        self._lifetime_ms = seconds * 1000
        self._report_fault = report_fault
        self._pending: dict[bytes, Label] = {}
        self.lost_count = 0

    @property
    def pending_count(self) -> int:
        """Marks that Redis has not taken yet."""
        return len(self._pending)

    async def floor(self, principal: Principal, chat: ChatRequest) -> Label:
        """The highest label of an assistant turn in this request that the gateway said itself."""
        marks = turns_of(chat, self.marker(principal))
        if not marks:
            return PUBLIC
        keys = _keys(principal.tenant, marks)
        floor = PUBLIC
        for key in keys:
            if key in self._pending:
                floor = floor.join(self._pending[key])
        try:
            for at in range(0, len(keys), _AT_ONCE):
                for value in await self._run(_LOOK, keys[at : at + _AT_ONCE], ()):
                    if value is not None:
                        floor = floor.join(_label(value))
        except (StoreUnavailable, TypeError, ValueError):
            # fail-closed: what cannot be looked up may have been said about anything.
            return floor.join(UNKNOWN)
        return floor

    def listen(self, principal: Principal, label: Label) -> Listener | None:
        """What takes an answer's released events; None under a label that nobody need remember."""
        return Listener(self, principal, label) if label.level > Level.INTERNAL else None

    async def remember(self, principal: Principal, answer: Answer, label: Label) -> None:
        """Keep the marks of an answer. Never raises for Redis: what it does not take waits here."""
        keys = _keys(principal.tenant, answer.marks())
        if keys and not await self._keep(keys, label):
            for key in keys:
                self._pending[key] = self._pending.pop(key, PUBLIC).join(label)
            while len(self._pending) > MAX_PENDING:
                del self._pending[next(iter(self._pending))]
                self.lost_count += 1
        elif self._pending:
            await self._hand_over()

    async def _hand_over(self) -> None:
        """Give Redis what it missed; one label at a time, so that each call is one script."""
        while self._pending:
            label = next(iter(self._pending.values()))
            # Keys of one call share a tenant, so that a cluster finds them on one node.
            first = next(iter(self._pending))
            tenant = first.partition(b"}")[0]
            keys = tuple(
                key for key, each in self._pending.items() if each == label and key.startswith(tenant + b"}")
            )[:_AT_ONCE]
            if not await self._keep(keys, label):
                return
            for key in keys:
                if self._pending.get(key) == label:
                    del self._pending[key]

    async def _keep(self, keys: tuple[bytes, ...], label: Label) -> bool:
        try:
            for at in range(0, len(keys), _AT_ONCE):
                await self._run(_KEEP, keys[at : at + _AT_ONCE], (_value(label), self._lifetime_ms))
        except StoreUnavailable as down:
            self._report_fault("lineage waits for the store", down)
            return False
        return True

    def marker(self, principal: Principal) -> Marker:
        """Marks for what is said to this principal."""
        return Marker(self._key, principal.tenant, principal.subject_ref)


class Listener:
    """The words of one answer, and who may hear them again under which label."""

    __slots__ = ("_answer", "_label", "_lineage", "_principal")

    def __init__(self, lineage: Lineage, principal: Principal, label: Label) -> None:
        self._lineage = lineage
        self._principal = principal
        self._label = label
        self._answer = Answer(lineage.marker(principal))

    def feed(self, event: StreamEvent) -> None:
        """Take a released event."""
        self._answer.feed(event)

    async def remember(self) -> None:
        """Keep what was said so far."""
        await self._lineage.remember(self._principal, self._answer, self._label)


def _keys(tenant: str, marks: Sequence[str]) -> tuple[bytes, ...]:
    """Hash-tagged by tenant, so that Redis Cluster keeps a tenant's marks on one node."""
    tag = hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return tuple(f"tg:{{said:{tag}}}:{mark}".encode() for mark in marks)


def _value(label: Label) -> bytes:
    return f"{int(label.level)}:{','.join(sorted(tag.value for tag in label.tags))}".encode()


def _label(value: bytes) -> Label:
    level, _, tags = value.decode().partition(":")
    return Label(Level(int(level)), frozenset(Tag(tag) for tag in tags.split(",") if tag))
