"""What administrators order of the policy watch, and what it shows them."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.policy.compiled import CompiledPolicy
from gateway.policy.signing import Active
from gateway.protocols.registry import Registry
from gateway.rollout.preparer import PolicyRefused

EventFacts = tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True)
class Order:
    """An administrator's change: who (a keyed digest), in which request, on which active digest."""

    actor: str
    request_id: str
    expected_sha256: str
    reason: str = ""
    is_rollback: bool = False

    @property
    def facts(self) -> tuple[tuple[str, str | int], ...]:
        """For the record of what it does."""
        more = (("reason", self.reason),) if self.reason else ()
        return (("actor", self.actor), ("admin_request_id", self.request_id), *more)


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What acts now, as administrators see it. Times are Unix microseconds.

    `rejected` is the last candidate that was not taken, with its time, since the last one that was."""

    policy: CompiledPolicy
    protocols: Registry
    bundle: Active
    signers: tuple[str, ...]
    since_us: int
    shadow: CompiledPolicy | None
    rejected: tuple[int, PolicyRefused] | None
