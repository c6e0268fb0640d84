"""Bodies of the admin API, as types: what is read, what is answered, and their schema for the OpenAPI page.

Times are RFC 3339 in UTC. Nothing here holds a secret, a URL of a destination, or a name of a user.
"""

from __future__ import annotations

import msgspec

from gateway.policy.signing import Signature, SignedBundle


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault of a candidate: where, what was expected, what was found. `message` is the whole line."""

    message: str
    file: str = ""
    line: int | None = None
    column: int | None = None
    expected: str = ""
    found: str = ""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refusal (RFC 9457). `detail` says what was refused and what to do next."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    findings: tuple[Finding, ...] = ()


class PolicyName(msgspec.Struct, frozen=True):
    """A policy by its id, version and digests; `sha256` is the bundle's, with all files of the folder."""

    id: str
    version: str
    revision: int
    sha256: str
    policy_sha256: str


class Shadow(msgspec.Struct, frozen=True):
    """The policy that decides beside the active one, only to be recorded."""

    id: str
    version: str
    revision: int
    policy_sha256: str


class Rejection(msgspec.Struct, frozen=True):
    """A candidate that was not taken since the last one that was."""

    at: str
    code: str
    findings: tuple[Finding, ...]


class PolicyAnswer(msgspec.Struct, frozen=True):
    """What decides now. `signers` are names from the settings."""

    active: PolicyName
    signers: tuple[str, ...]
    since: str
    required_signers: int
    shadow: Shadow | None
    last_rejection: Rejection | None


class Bundle(msgspec.Struct, frozen=True):
    """A stored bundle. `maker` and `activated_by` are keyed digests of people, or `folder`."""

    name: PolicyName
    signers: tuple[str, ...]
    missing_signatures: int
    maker: str
    stored_at: str
    activated_at: str | None
    activated_by: str
    is_active: bool


class Bundles(msgspec.Struct, frozen=True):
    """Stored bundles, newest first."""

    bundles: tuple[Bundle, ...]


class BundleFiles(msgspec.Struct, frozen=True):
    """A bundle with its text, for review, and the statement that a checker signs."""

    bundle: Bundle
    files: dict[str, str]
    signature: SignedBundle | None


class ProtocolVersions(msgspec.Struct, frozen=True):
    """A prompt's versions, oldest first."""

    name: str
    versions: tuple[str, ...]


class Protocols(msgspec.Struct, frozen=True):
    """Prompts and tool sets of the active bundle."""

    sha256: str
    prompts: tuple[ProtocolVersions, ...]
    tool_sets: tuple[str, ...]


class Lane(msgspec.Struct, frozen=True):
    """One model on one replica of a destination. `breaker`: closed or open."""

    replica: int
    model: str
    breaker: str


class DestinationState(msgspec.Struct, frozen=True):
    """A destination of the policy, and how this process finds it. `health`: ok, degraded (some breakers are
    open), down (all are), not-configured."""

    name: str
    kind: str
    clearance: str
    hosted: bool
    region: str
    retention: str | None
    models: tuple[str, ...]
    health: str
    lanes: tuple[Lane, ...]


class Destinations(msgspec.Struct, frozen=True):
    """All destinations of the active policy."""

    destinations: tuple[DestinationState, ...]


class TenantLimit(msgspec.Struct, frozen=True):
    """A tenant's limits by the active policy, and its floor."""

    tenant: str
    floor: str
    requests_per_minute: int
    tokens_per_minute: int
    concurrency: int


class Limits(msgspec.Struct, frozen=True):
    """Limits of every tenant that the caller may see. `store`: ok or degraded."""

    tenants: tuple[TenantLimit, ...]
    store: str


class Version(msgspec.Struct, frozen=True):
    """What runs."""

    build: str
    api: str


class Changed(msgspec.Struct, frozen=True):
    """What a change did; `active` acts from now on."""

    outcome: str
    active: PolicyName


class Upload(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A bundle to store: the text of each file of a policy folder, and its `bundle.sig`."""

    files: dict[str, str]
    signature: SignedBundle | None = None


class Countersign(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A second person's signature over a stored bundle's statement."""

    signature: Signature


class Activate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The stored bundle that is to act."""

    sha256: str


class Rollback(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The revision to go back to, and why. `signature`: the signed rollback, where signers are demanded."""

    to_revision: int
    reason: str
    signature: SignedBundle | None = None


class Nothing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An empty object."""
