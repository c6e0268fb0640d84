"""The replicas of one destination, their load and health, and which one is asked next. Pure.

Invariants
1. Health is per replica and model: a model that fails does not close its neighbour.
2. A replica is healthy again when tokens come, not when it says 200.
3. No replica gets more than `LOAD_BOUND` times its share of the outstanding tokens for the sake of a
   cache: the conversation then goes to the next one, and stays there.
   Source: Mirrokni, Thorup, Zadimoghaddam 2018, "Consistent Hashing with Bounded Loads".
4. Every hold ends exactly once, and then nothing of it is left in the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from gateway.upstream.affinity import Placements, rendezvous
from gateway.upstream.breaker import Breaker
from gateway.upstream.concurrency import Concurrency

LOAD_BOUND = 1.25
#: How an attempt ended for the replica: `limited` is its 429, `refused` any other word about the request,
#: `unknown` says nothing about it.
Verdict = Literal["good", "bad", "limited", "refused", "unknown"]
#: Why this replica: it holds the prefix; its holder had too much to do; nobody holds it.
Placed = Literal["home", "spilled", "new"]


@dataclass(slots=True)
class Lane:
    """One model at one replica."""

    breaker: Breaker
    concurrency: Concurrency


@dataclass(slots=True)
class Replica:
    """One server of a destination. `granted_tokens` is all it ever got, to break ties fairly."""

    index: int
    weight: int
    max_in_flight: int
    outstanding_tokens: int = 0
    granted_tokens: int = 0
    lanes: dict[str, Lane] = field(default_factory=dict)

    def lane(self, model: str) -> Lane:
        """State of one of its models. Models come from the policy, so there are few."""
        found = self.lanes.get(model)
        if found is None:
            found = self.lanes[model] = Lane(Breaker(), Concurrency(self.max_in_flight))
        return found


class Hold:
    """A request's place at a replica, from before the connection to the end of the answer."""

    __slots__ = ("_lane", "_tokens", "is_ended", "replica")

    def __init__(self, replica: Replica, lane: Lane, tokens: int) -> None:
        self.replica = replica
        self._lane = lane
        self._tokens = tokens
        self.is_ended = False
        replica.outstanding_tokens += tokens
        replica.granted_tokens += tokens
        lane.concurrency.enter()

    def progress(self) -> None:
        """Tokens have come: a probe need not wait for the end of its answer to close the breaker."""
        if self._lane.breaker.is_probing:
            self._lane.breaker.succeed()

    def end(self, verdict: Verdict, now_seconds: float) -> None:
        """The attempt is over. Idempotent: the first verdict counts."""
        if self.is_ended:
            return
        self.is_ended = True
        self.replica.outstanding_tokens -= self._tokens
        breaker, concurrency = self._lane.breaker, self._lane.concurrency
        if verdict == "limited":
            concurrency.shrink(now_seconds)
        elif verdict == "good":
            concurrency.grow()
        concurrency.leave()
        if verdict == "bad":
            breaker.fail(now_seconds)
        elif verdict == "unknown":
            breaker.abandon()
        else:
            breaker.succeed()


def take(replica: Replica, model: str, tokens: int, now_seconds: float) -> Hold | None:
    """A place at this replica, or None while its breaker is open or its limit is reached."""
    lane = replica.lane(model)
    if not lane.concurrency.has_room or not lane.breaker.allow(now_seconds):
        return None
    return Hold(replica, lane, tokens)


def by_load(replicas: Sequence[Replica]) -> list[Replica]:
    """Replicas, the one with the least outstanding tokens for its weight first."""
    return sorted(
        replicas,
        key=lambda each: (
            each.outstanding_tokens / each.weight,
            each.granted_tokens / each.weight,
            each.index,
        ),
    )


def by_prefix(
    replicas: Sequence[Replica], hashes: Sequence[int], placements: Placements, tokens: int
) -> list[Replica]:
    """Replicas for a conversation: its home unless that is overloaded, then its next homes, then the rest.

    `hashes` are those of `affinity.prefixes`; `tokens` is what the request may cost. The order of the
    others is that of the rendezvous, so a conversation that spills over goes to the same place again.
    """
    ranking = [replicas[place] for place in rendezvous(hashes[0], [each.weight for each in replicas])]
    known = placements.find(hashes)
    for at, each in enumerate(ranking):
        if each.index == known:
            ranking.insert(0, ranking.pop(at))
            break
    total = sum(each.outstanding_tokens for each in replicas) + tokens
    weights = sum(each.weight for each in replicas)
    inside: list[Replica] = []
    beyond: list[Replica] = []
    for each in ranking:
        bound = ceil(LOAD_BOUND * total * each.weight / weights)
        # A replica with nothing to do is never overloaded, however large the request.
        is_inside = each.outstanding_tokens == 0 or each.outstanding_tokens + tokens <= bound
        (inside if is_inside else beyond).append(each)
    return inside + by_load(beyond)


def placed(known: int | None, chosen: int) -> Placed:
    """What the choice means for the cache."""
    return "new" if known is None else "home" if known == chosen else "spilled"
