from __future__ import annotations

from gateway.domain.limits import Budget, ScopeLimits, TenantLimits
from gateway.domain.principal import Principal
from gateway.limits.quotas import quotas_of

CALLER = Principal("acme", "alice", "ref", "t", "i", "app", "k", frozenset(), frozenset(), 0)


def test_a_tenant_alone_has_one_quota_with_its_budget() -> None:
    limits = TenantLimits(1, 2, 3, Budget(4))
    (quota,) = quotas_of(limits, CALLER, "assistant")
    assert (quota.scope, quota.owner, quota.limits) == ("tenant", "", ScopeLimits(1, 2, 3, Budget(4)))


def test_key_user_and_model_follow_where_they_are_limited() -> None:
    limits = TenantLimits(1, 2, 3, key=ScopeLimits(4), user=ScopeLimits(5), models={"m": ScopeLimits(6)})
    assert [(quota.scope, quota.owner) for quota in quotas_of(limits, CALLER, "m")] == [
        ("tenant", ""),
        ("key", "app"),
        ("user", "ref"),
        ("model", "m"),
    ]
    assert [quota.scope for quota in quotas_of(limits, CALLER, "M")] == ["tenant", "key", "user"]
