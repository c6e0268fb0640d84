"""Rate-limit response headers.

Source: draft-ietf-httpapi-ratelimit-headers-09 (`RateLimit-Policy`, `RateLimit`; structured fields) and
the `x-ratelimit-*` names that OpenAI's SDK users read.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.domain.limits import LimitState

WINDOW_SECONDS = 60
_CONCURRENCY = "concurrency"


def limit_headers(states: Sequence[LimitState]) -> list[tuple[bytes, bytes]]:
    """Header pairs, lower-case names; empty when there are no states.

    `requests` and `tokens` are per minute (`w=60`); `concurrency` has no window and the draft's
    quota unit `concurrent-requests`. OpenAI has no name for concurrency, so it gets none there.
    """
    if not states:
        return []
    policies = ", ".join(map(_policy, states))
    quotas = ", ".join(f'"{state.name}";r={state.remaining};t={state.reset_seconds}' for state in states)
    headers = [(b"ratelimit-policy", policies.encode()), (b"ratelimit", quotas.encode())]
    for state in states:
        if state.name == _CONCURRENCY:
            continue
        name = state.name.encode()
        headers.append((b"x-ratelimit-limit-" + name, b"%d" % state.limit))
        headers.append((b"x-ratelimit-remaining-" + name, b"%d" % state.remaining))
        headers.append((b"x-ratelimit-reset-" + name, _duration(state.reset_seconds)))
    return headers


def _policy(state: LimitState) -> str:
    if state.name == _CONCURRENCY:
        return f'"{state.name}";q={state.limit};qu="concurrent-requests"'
    return f'"{state.name}";q={state.limit};w={WINDOW_SECONDS}'


def _duration(seconds: int) -> bytes:
    """Seconds in OpenAI's notation: `17s`, `1m20s`."""
    minutes, rest = divmod(seconds, 60)
    return b"%dm%ds" % (minutes, rest) if minutes else b"%ds" % rest
