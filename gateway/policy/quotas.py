"""limits.yaml: tenants with what they may use, and the limits that tenants share at a destination."""

from __future__ import annotations

from collections.abc import Collection

from gateway.domain.label import Label
from gateway.domain.limits import (
    LIMIT_MAX,
    NO_BUDGET,
    USD_MICROS_MAX,
    Budget,
    Quota,
    ScopeLimits,
    TenantLimits,
)
from gateway.policy.compiled import TenantPolicy
from gateway.policy.fields import Field, Section

RATES = ("requests_per_minute", "tokens_per_minute", "concurrency")
_SCOPE_KEYS = (*RATES, "budget")
_BUDGET_KEYS = ("day_usd_micros", "month_usd_micros", "soft_day_usd_micros", "soft_month_usd_micros")

#: Destination → the account whose keys hold its limits, and these limits.
Shared = dict[str, tuple[str, tuple[Quota, ...]]]


def read_tenants(root: Section, models: Collection[str]) -> dict[str, TenantPolicy]:
    """The tenants of limits.yaml by name. Raises `ConfigurationError`."""
    root.only("version", "default", "tenants", "accounts", "destinations")
    root["version"].name()
    default_field = root.get("default")
    default: dict[str, int] = {}
    if default_field is not None:
        section = default_field.section().only(*RATES)
        default = {key: section[key].integer(1, LIMIT_MAX) for key in RATES}
    tenants = {}
    for name, field in root["tenants"].section().named():
        section = field.section().only("floor", *_SCOPE_KEYS, "per_key", "per_user", "models")
        rates = {
            key: default[key] if key in default and key not in section else section[key].integer(1, LIMIT_MAX)
            for key in RATES
        }
        limits = TenantLimits(
            **rates,
            budget=_budget(section.get("budget")),
            key=_optional(section.get("per_key")),
            user=_optional(section.get("per_user")),
            models=_of_models(section.get("models"), models),
        )
        tenants[name] = TenantPolicy(name=name, floor=Label(section["floor"].level()), limits=limits)
    if not tenants:
        raise root["tenants"].fault("at least one tenant", "none")
    return tenants


def read_shared(root: Section, destinations: Collection[str]) -> Shared:
    """The limits of accounts and destinations, by destination. Raises `ConfigurationError`."""
    accounts: dict[str, tuple[str, Quota]] = {}
    accounts_field = root.get("accounts")
    for name, field in () if accounts_field is None else accounts_field.section().named():
        section = field.section().only("destinations", *_SCOPE_KEYS)
        quota = Quota("account", name, _scope(section))
        for each in section["destinations"].items():
            place = each.choice(destinations, "a destination of routing.yaml")
            if place in accounts:
                raise each.fault("a destination that no other account names")
            accounts[place] = (name, quota)
    shared: Shared = {place: (name, (quota,)) for place, (name, quota) in accounts.items()}
    places_field = root.get("destinations")
    for name, field in () if places_field is None else places_field.section().named():
        if name not in destinations:
            raise field.fault("a destination of routing.yaml", name)
        quota = Quota("destination", name, _scope(field.section().only(*_SCOPE_KEYS)))
        account, quotas = shared.get(name, (f"destination/{name}", ()))
        shared[name] = (account, (*quotas, quota))
    return shared


def _of_models(field: Field | None, models: Collection[str]) -> dict[str, ScopeLimits]:
    found = {}
    for name, item in () if field is None else field.section().named():
        if name not in models:
            raise item.fault("a model of routing.yaml", name)
        found[name] = _scope(item.section().only(*_SCOPE_KEYS))
    return found


def _optional(field: Field | None) -> ScopeLimits | None:
    return None if field is None else _scope(field.section().only(*_SCOPE_KEYS))


def _scope(section: Section) -> ScopeLimits:
    """Limits of which each may be left out, but not all."""
    rates = {key: section[key].integer(1, LIMIT_MAX) for key in RATES if key in section}
    limits = ScopeLimits(**rates, budget=_budget(section.get("budget")))
    if limits == ScopeLimits():
        raise section.fault(f"at least one of {', '.join(_SCOPE_KEYS)}", "none")
    return limits


def _budget(field: Field | None) -> Budget:
    """A budget. With a soft one alone the hard one is as large as a number may be, so money is counted."""
    if field is None:
        return NO_BUDGET
    section = field.section().only(*_BUDGET_KEYS)
    given = {key: section[key].integer(1, USD_MICROS_MAX) for key in _BUDGET_KEYS if key in section}
    if not given:
        raise section.fault(f"at least one of {', '.join(_BUDGET_KEYS)}", "none")
    for period in ("day_usd_micros", "month_usd_micros"):
        soft = given.get(f"soft_{period}")
        if soft is not None and soft > given.setdefault(period, USD_MICROS_MAX):
            raise section[f"soft_{period}"].fault(f"at most {period}, {given[period]}", str(soft))
    return Budget(**given)
