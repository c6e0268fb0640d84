"""A candidate policy that decides beside the active one, only to be written down.

Invariants
1. The shadow's answer reaches no request: it goes into the record and into a metric.
2. Whatever fails in the shadow ends here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from gateway.domain.decision import Decision, Facts
from gateway.domain.record import ShadowFact
from gateway.policy.compare import Kind, answer_of, kind_of
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import evaluate

Shadowed = Literal["same", "differs", "fault"]


def shadow_of(
    policy: CompiledPolicy, configured: frozenset[str], observe: Callable[[Shadowed], None]
) -> Callable[[Facts, Decision], ShadowFact | None]:
    """What to ask after each decision: gives what `policy` would have decided otherwise, None for the same.

    The shadow's own floor of the tenant is applied. The same answer by another rule is the same.
    """

    def compare(facts: Facts, decision: Decision) -> ShadowFact | None:
        try:
            if facts.tenant in policy.tenants:
                facts = replace(facts, label=facts.label.join(policy.floor(facts.tenant)))
            answer = answer_of(evaluate(policy, facts, configured))
            if kind_of(answer_of(decision), answer) in (Kind.SAME, Kind.RULE):
                observe("same")
                return None
            observe("differs")
            return ShadowFact(policy.sha256, answer.destinations, answer.denied, answer.rule_ids)
        except Exception:  # noqa: BLE001
            # Not fail-closed: the active policy has decided, and a candidate must not be able to stop it.
            observe("fault")
            return None

    return compare
