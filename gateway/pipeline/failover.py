"""When another destination of the same permit may be asked. Pure."""

from __future__ import annotations

from gateway.errors import (
    DestinationBusy,
    Refusal,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)


def may_try_next(refusal: Refusal) -> bool:
    """Whether another destination of the permit may be asked after this refusal."""
    if isinstance(refusal, UpstreamRejected):
        # A refusal of the request itself is never routed around; a provider's 429 says "not now".
        return refusal.upstream_status == 429
    if isinstance(refusal, UpstreamTimeout):
        return refusal.code == "upstream-connect-timeout"
    return isinstance(refusal, UpstreamUnavailable | UpstreamFailed | DestinationBusy)
