"""What the web shell hands to the walk: bytes and a short, allow-listed set of facts."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.secret import Secret


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One request as received.

    `request_id` is made by the server and is the only id that is trusted. `client_request_id` is the
    client's own, stored as untrusted. `endpoint` is a closed name such as `chat.completions`, not a
    path. `declared_label` is the raw value of `x-tidegate-label` (a caller can only raise), `workload`
    that of `x-tidegate-workload`. `attributes` are (name, value) of the `x-tidegate-attribute-…` headers.
    `protocol` is the raw value of `x-tidegate-protocol`, `max_wait` that of `x-tidegate-max-wait`,
    `approval` that of `x-tidegate-approval`.
    `received_at_us` is Unix time, `received_mono_ns` the monotonic clock.
    """

    request_id: str
    endpoint: str
    authorization: Secret | None
    declared_label: str | None
    client_request_id: str | None
    body: bytes
    peer: str
    received_at_us: int
    received_mono_ns: int
    protocol: str | None = None
    workload: str | None = None
    max_wait: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    approval: str | None = None
