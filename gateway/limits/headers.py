"""Rate-limit response headers.

Source: draft-ietf-httpapi-ratelimit-headers-10 (`RateLimit-Policy`, `RateLimit`; structured fields) and
the `x-ratelimit-*` names that OpenAI's SDK users read.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.domain.limits import USD_MICROS_MAX, LimitState

WINDOW_SECONDS = 60

#: From this share of a budget on, in percent, every answer says how much is used.
NOTICE_PERCENT = 80

#: Budget thresholds in percent whose crossing is logged and counted.
THRESHOLDS = (50, 80, 95)

_CONCURRENCY = "concurrency"
_MONEY = ("day", "month")


def limit_headers(states: Sequence[LimitState]) -> list[tuple[bytes, bytes]]:
    """Header pairs, lower-case names; empty when there are no states.

    `requests` and `tokens` are per minute (`w=60`); `concurrency` has no window and the draft's
    quota unit `concurrent-requests`; `day` and `month` are in the unit `usd-micros`. A name begins with its
    scope (`user-tokens`) unless that is the tenant. OpenAI's names tell of the scope with the least left.
    """
    if not states:
        return []
    shown = [state for state in states if state.limit < USD_MICROS_MAX]
    policies = ", ".join(map(_policy, shown))
    quotas = ", ".join(f'"{state.name}";r={state.remaining};t={state.reset_seconds}' for state in shown)
    headers = [(b"ratelimit-policy", policies.encode()), (b"ratelimit", quotas.encode())]
    for kind in ("requests", "tokens"):
        of_kind = [state for state in states if _kind(state) == kind]
        if of_kind:
            state, name = min(of_kind, key=lambda each: each.remaining), kind.encode()
            headers.append((b"x-ratelimit-limit-" + name, b"%d" % state.limit))
            headers.append((b"x-ratelimit-remaining-" + name, b"%d" % state.remaining))
            headers.append((b"x-ratelimit-reset-" + name, _duration(state.reset_seconds)))
    notices = ", ".join(filter(None, map(_notice, states)))
    if notices:
        headers.append((b"x-tidegate-budget", notices.encode()))
    return headers


def _kind(state: LimitState) -> str:
    return state.name.rsplit("-", 1)[-1]


def _policy(state: LimitState) -> str:
    kind = _kind(state)
    if kind == _CONCURRENCY:
        return f'"{state.name}";q={state.limit};qu="concurrent-requests"'
    if kind in _MONEY:
        return f'"{state.name}";q={state.limit};qu="usd-micros";w={state.reset_seconds}'
    return f'"{state.name}";q={state.limit};w={WINDOW_SECONDS}'


def _duration(seconds: int) -> bytes:
    """Seconds in OpenAI's notation: `17s`, `1m20s`."""
    minutes, rest = divmod(seconds, 60)
    return b"%dm%ds" % (minutes, rest) if minutes else b"%ds" % rest


def _notice(state: LimitState) -> str:
    """Use of a budget that is nearly spent, or above its soft bound; empty otherwise."""
    if _kind(state) not in _MONEY:
        return ""
    is_over = state.soft is not None and _used(state) > state.soft
    percent = _used(state) * 100 // max(1, state.limit)
    words = [f"used={percent}"] if percent >= NOTICE_PERCENT else []
    words += ["soft-exceeded"] if is_over else []
    return ";".join((f'"{state.name}"', *words)) if words else ""


def _used(state: LimitState) -> int:
    return state.limit - state.remaining


def crossed(states: Sequence[LimitState], cost: int) -> list[tuple[str, str]]:
    """(period, threshold) of each budget bound that the last `cost` has crossed; `soft` or a percentage."""
    found = []
    for state in states:
        if _kind(state) in _MONEY and cost:
            used = _used(state)
            bounds = [(str(percent), state.limit * percent // 100) for percent in THRESHOLDS]
            if state.soft is not None:
                bounds.append(("soft", state.soft))
            found += [(_kind(state), word) for word, bound in bounds if used - cost <= bound < used]
    return found
