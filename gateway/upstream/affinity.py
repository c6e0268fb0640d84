"""Which replica holds the KV cache of a conversation. Pure.

A replica that has answered a conversation still holds the keys and values of its prefix; another would
compute them again. So a request goes back to where the longest prefix of its messages went last, and a
conversation that is not known goes to a place that every gateway process computes alike (rendezvous
hashing over the prefix up to the first turn that is no system text).

Invariants
1. Hashes are chained: the hash of a prefix is made of the hash before it and the next message, so two
   requests share the hash of a prefix exactly when they share every message of it (but for collisions
   of 64 bits, which cost a cache miss and nothing else).
2. The seed holds the tenant, so conversations of two tenants never share a hash.
3. What is remembered is hashes, never text, and at most `capacity` of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from math import log

from gateway.domain.chat import ChatRequest, Message, OpaquePart, Role, TextPart

#: Prefixes of one request that are looked up and remembered; of a longer conversation the last ones.
MAX_PREFIXES = 64
#: Prefixes that are remembered for one destination. About 150 bytes each.
CAPACITY = 50_000
_INSTRUCTIONS = frozenset({Role.SYSTEM, Role.DEVELOPER})


def prefixes(seed: bytes, chat: ChatRequest) -> tuple[int, ...]:
    """Chained hashes of the message prefixes of a request, shortest first; at least one.

    The first is that of the conversation's start: instructions and the first other message. `seed` is what
    separates tenants. Tools stand before the messages in a prompt, so they are part of the start.
    """
    state = blake2b(seed, digest_size=8)
    for tool in chat.tools:
        _feed(state, tool.name, tool.description or "", tool.parameters or "")
    value = state.digest()
    found: list[int] = []
    is_begun = False
    for message in chat.messages:
        value = _next(value, message)
        is_begun = is_begun or message.role not in _INSTRUCTIONS
        if is_begun:
            found.append(int.from_bytes(value))
    if not found:
        return (int.from_bytes(value),)
    # The start is always kept: it alone says where an unknown conversation goes.
    return tuple(found if len(found) <= MAX_PREFIXES else [found[0], *found[-MAX_PREFIXES + 1 :]])


def _next(value: bytes, message: Message) -> bytes:
    state = blake2b(value, digest_size=8)
    _feed(state, message.role.value, message.name or "", message.tool_call_id or "")
    for part in message.parts:
        match part:
            case TextPart(text):
                _feed(state, text)
            case OpaquePart(_, payload):
                _feed(state, payload)
    for call in message.tool_calls:
        _feed(state, call.id, call.name, call.arguments)
    _feed(state, message.refusal or "", message.reasoning or "")
    return state.digest()


def _feed(state: blake2b, *texts: str) -> None:
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        # The length first, so that no two lists of texts give the same bytes.
        state.update(len(data).to_bytes(8) + data)


def rendezvous(start: int, weights: Sequence[int]) -> list[int]:
    """Indexes of all replicas, best first, for one hash: the same in every process.

    A replica is first for a share of the hashes that follows its weight. When one comes or goes, only the
    hashes that it wins change their place. Source: Schindelhauer and Schomaker 2005, logarithmic method.
    """
    key = start.to_bytes(8)
    scores = []
    for index, weight in enumerate(weights):
        drawn = int.from_bytes(blake2b(key, digest_size=8, salt=index.to_bytes(8)).digest())
        scores.append(-weight / log((drawn + 1) / (2**64 + 2)))
    return sorted(range(len(weights)), key=lambda index: -scores[index])


class Placements:
    """Where prefixes went last, the least recently used forgotten first."""

    __slots__ = ("_capacity", "_places")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._places: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def find(self, hashes: Sequence[int]) -> int | None:
        """Index of the replica that got the longest known prefix; None for an unknown conversation."""
        for value in reversed(hashes):
            place = self._places.get(value)
            if place is not None:
                return place
        return None

    def note(self, hashes: Sequence[int], place: int) -> None:
        """These prefixes are now at this replica."""
        places = self._places
        for value in hashes:
            places[value] = place
            places.move_to_end(value)
        while len(places) > self._capacity:
            places.popitem(last=False)
