"""Which quotas a request must fit into."""

from __future__ import annotations

from gateway.domain.limits import Quota, TenantLimits
from gateway.domain.principal import Principal


def quotas_of(limits: TenantLimits, principal: Principal, model: str) -> tuple[Quota, ...]:
    """The tenant's, and those of key, user and model where the tenant has such limits.

    A key is the application that a token was issued to (`azp` or `client_id`): tokens live for minutes, so
    many of them are still one key. A user is the token's subject, by its keyed digest.
    """
    quotas = [Quota("tenant", "", limits.whole)]
    if limits.key is not None:
        quotas.append(Quota("key", principal.client_id or "-", limits.key))
    if limits.user is not None:
        quotas.append(Quota("user", principal.subject_ref, limits.user))
    of_model = limits.models.get(model)
    if of_model is not None:
        quotas.append(Quota("model", model, of_model))
    return tuple(quotas)
