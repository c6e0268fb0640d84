"""Settings of one gateway process: a TOML file, checked whole before anything starts.

What the policy says about trust (clearance, region, allowed hosts) is in policies/. Here stands only
where this process listens and how it reaches things. Unknown keys are refused. Secrets are
references, `file:PATH` or `env:NAME`, never values.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError


class ServerSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Listening side and its bounds."""

    host: str = "127.0.0.1"
    port: int = 8080
    max_body_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 32 * 1024
    header_timeout_seconds: int = 10
    body_timeout_seconds: int = 10
    write_timeout_seconds: int = 30
    max_in_flight: int = 1024
    leave_seconds: int = 0
    drain_seconds: int = 30


class IssuerSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One token issuer. `keys` is `file:PATH` (JWK set) or an `https:`/`http:` URL of a JWK set.

    `tenants` lists the tenants that this issuer may speak for. `client_ids`, when given, lists the
    accepted authorised parties (`azp`).
    """

    issuer: str
    audience: str
    keys: str
    tenants: tuple[str, ...]
    algorithms: tuple[Literal["EdDSA", "ES256", "RS256"], ...] = ("EdDSA", "ES256", "RS256")
    client_ids: tuple[str, ...] = ()
    tenant_claim: str = "tenant"
    roles_claim: str = "roles"


class IdentitySettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Token verification. All times in seconds.

    `cooldown_seconds` is the least time between two fetches of a key set; with the time that a fetch
    takes it stays under the five seconds in which a new key must be accepted.
    """

    issuers: tuple[IssuerSettings, ...]
    leeway_seconds: int = 30
    refresh_seconds: int = 300
    cooldown_seconds: int = 4
    stale_grace_seconds: int = 3600
    fetch_timeout_seconds: int = 3


class SignerSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A person whose signature of a policy counts. `public_key` is Ed25519, 32 bytes in base64."""

    name: str
    public_key: str


class PolicySettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where the policy files are, who must have signed them, and what else is known when they act.

    `state_file` keeps the revision that acted last; empty: in the audit log's folder. `shadow_directory`
    holds a candidate that decides beside the active policy, only to be recorded; empty: none.
    """

    directory: str = "policies"
    poll_seconds: float = 1.0
    region: str = ""
    required_signers: Literal[0, 1, 2] = 0
    signers: tuple[SignerSettings, ...] = ()
    state_file: str = ""
    shadow_directory: str = ""


class SensitivitySettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`contextual_model` has no default: running without one must be said in words (`none`).

    `builtin` reads what a text is about: sensitive facts that hold no identifier.
    """

    contextual_model: Literal["none", "builtin"]
    budget_ms: int = 1000
    engine: Literal["hyperscan", "re2"] = "hyperscan"


class LimitSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`redis_url` is a URL or a secret reference to one; empty: the gateway starts an embedded Valkey."""

    redis_url: str = ""
    timeout_ms: int = 250
    lease_seconds: int = 900


class ApprovalSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long a request waits for a person's decision, and how long an approval is good for, in seconds."""

    wait_seconds: int = 86_400
    use_seconds: int = 3_600


class LineageSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long the gateway knows again what it said above `internal`, in seconds."""

    lifetime_seconds: int = 30 * 86_400


class AuditSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The audit log of this writer. `signing_key` is a reference to an Ed25519 PKCS#8 PEM."""

    directory: str
    signing_key: str
    origin: str = "tidegate/local/0"
    deadline_ms: int = 250
    segment_bytes: int = 64 * 1024 * 1024


class AdminSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The admin API; off while `listen` is empty. Its tokens come from its own issuers and audience.

    `listen` is HOST:PORT or `unix:PATH`. TLS is not ended here, so a host other than loopback needs
    `behind_tls_proxy`. Tokens of `operator_tenants` act for the whole deployment, those of any other tenant
    only see what is their own. `one_time_tokens`: each change spends its token.
    """

    listen: str = ""
    issuers: tuple[IssuerSettings, ...] = ()
    operator_tenants: tuple[str, ...] = ()
    behind_tls_proxy: bool = False
    one_time_tokens: bool = False
    directory: str = ""
    max_body_bytes: int = 16 * 1024 * 1024
    calls_per_minute: int = 120


class OutputSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Time that the output filter may take for one event."""

    budget_ms: int = 250


class ClassSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What one workload class gets of a destination's places."""

    weight: int = 1
    share_percent: int = 100
    waiting: int = 64


#: Users come first; work that nobody waits for can never take all places.
DEFAULT_CLASSES: dict[str, ClassSettings] = {
    "interactive": ClassSettings(weight=16, share_percent=100, waiting=256),
    "batch": ClassSettings(weight=4, share_percent=50, waiting=256),
    "evaluation": ClassSettings(weight=1, share_percent=25),
    "training-data": ClassSettings(weight=1, share_percent=25),
}


class QueueSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Places of a destination that one gateway process may fill at a time, and who waits for them."""

    running: int
    wait_seconds: float = 30.0
    classes: dict[str, ClassSettings] = {}


class ReplicaSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One of several servers of a destination, and its share of the work beside the others."""

    url: str
    weight: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1


class EndpointSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How to reach one destination of the policy: by `url`, or by several `replicas`. Deadlines in seconds.

    `networks` are CIDR ranges that connections may go to; `proxy_credential` is a reference to
    `user:password`.
    """

    url: str = ""
    replicas: tuple[ReplicaSettings, ...] = ()
    credential: str = ""
    connect_seconds: float = 5.0
    first_byte_seconds: float = 60.0
    idle_seconds: float = 30.0
    total_seconds: float = 600.0
    max_connections: Annotated[int, msgspec.Meta(ge=1)] = 512
    priority: bool = False
    queue: QueueSettings | None = None
    prefix_affinity: bool = True
    hedge_after_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    context_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    networks: tuple[str, ...] = ()
    ca_file: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""
    proxy: str = ""
    proxy_credential: str = ""

    @property
    def servers(self) -> tuple[ReplicaSettings, ...]:
        """All replicas; a destination with a `url` has one."""
        return self.replicas or (ReplicaSettings(self.url),)


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything that one process needs. `pepper` keys the digests of subjects and texts."""

    identity: IdentitySettings
    sensitivity: SensitivitySettings
    audit: AuditSettings
    pepper: str
    server: ServerSettings = ServerSettings()
    policy: PolicySettings = PolicySettings()
    limits: LimitSettings = LimitSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    output: OutputSettings = OutputSettings()
    admin: AdminSettings = AdminSettings()
    lineage: LineageSettings = LineageSettings()
    destinations: dict[str, EndpointSettings] = {}


def load_settings(path: Path) -> Settings:
    """Settings from a TOML file; relative paths inside are relative to the working directory.

    Raises `ConfigurationError` that names file and key.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from None
    try:
        return msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def read_secret(reference: str) -> Secret:
    """Secret behind `file:PATH` or `env:NAME`; trailing newlines are dropped.

    Raises `ConfigurationError` that names the reference, never the value.
    """
    scheme, _, place = reference.partition(":")
    if scheme == "env" and place:
        value = os.environ.get(place)
        if not value:
            raise ConfigurationError(f"secret {reference}: the environment variable is not set or empty")
        return Secret(value)
    if scheme == "file" and place:
        try:
            value = Path(place).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(f"secret {reference}: the file cannot be read as text") from None
        if not value:
            raise ConfigurationError(f"secret {reference}: the file is empty")
        return Secret(value)
    raise ConfigurationError(f"secret reference {reference!r}: expected file:PATH or env:NAME")
