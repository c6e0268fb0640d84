"""Who may change this deployment, and the record of it: what the admin API stands on.

Enters: a bearer token, the name of an action. Leaves: an `Operator`, records, one change at a time.

Invariants
1. An operator's token is meant for the admin API: its audience and issuers are its own. A user's token is
   recognised and refused, never taken.
2. Every call of a verified caller is in the audit log before it is answered, a change before it acts. A call
   that cannot be recorded is refused.
3. A change acts once per key; a one-time token makes one change (see `gateway.rollout.ledger`).
4. No role changes and erases; no role here erases at all.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.activation import PolicyWatch, RecordEvent
from gateway.audit.canonical import LogEvent
from gateway.domain.principal import Principal
from gateway.domain.request import RawRequest
from gateway.errors import AdminForbidden, ConfigurationError, LimitExceeded, NotAuthenticated, Refusal
from gateway.identity.authenticator import Authenticator
from gateway.rollout.ledger import Done, Ledger
from gateway.rollout.store import STORE_NAME, BundleStore
from gateway.settings import AdminSettings, IdentitySettings, Settings
from gateway.upstream.pool import LaneState

#: Reads everything, changes nothing.
AUDITOR = "auditor"
#: Changes policy; erases nothing.
ADMINISTRATOR = "administrator"
#: Puts the second signature under another's candidate.
CHECKER = "checker"
ROLES = frozenset({AUDITOR, ADMINISTRATOR, CHECKER})
ONE_TIME_SCOPE = "one-time"
MAX_ACTORS = 1024
_MINUTE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Operator:
    """A verified caller of the admin API. `is_user`: the token is one for the models' API.

    `sees_all`: acts for the whole deployment, not for one tenant.
    """

    principal: Principal
    sees_all: bool
    is_user: bool = False

    @property
    def roles(self) -> frozenset[str]:
        """The roles that count here; none for a user's token."""
        return frozenset() if self.is_user else self.principal.roles & ROLES

    def may_see(self, tenant: str) -> bool:
        """Whether what belongs to this tenant exists for the caller."""
        return self.sees_all or tenant == self.principal.tenant


@dataclass(frozen=True, slots=True)
class Place:
    """Where the admin API listens: a Unix socket, or a host and port."""

    path: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class View:
    """What the API may tell of other rooms: the lanes to destinations, whether limits are shared."""

    required_signers: int
    build: str
    configured: frozenset[str]
    lanes: Callable[[], Sequence[LaneState]]
    limits_are_shared: Callable[[], bool]


class Reply(msgspec.Struct, frozen=True):
    """An answer in bytes. `code` is `ok`, or the refusal's; `etag` the active digest, where it is told."""

    status: int
    body: bytes
    code: str = "ok"
    etag: str = ""
    retry_after_seconds: int | None = None
    is_repeated: bool = False


def place_of(settings: Settings) -> Place | None:
    """Where to listen, None when the admin API is off. Raises `ConfigurationError`."""
    admin = settings.admin
    if not admin.listen:
        return None
    _check_issuers(settings)
    scheme, _, path = admin.listen.partition("unix:")
    if not scheme and path.startswith("/"):
        return Place(path, "", 0)
    host, _, port = admin.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError("admin.listen: expected HOST:PORT or unix:/PATH, such as 127.0.0.1:8081")
    host = host.strip("[]")
    if not _is_loopback(host) and not admin.behind_tls_proxy:
        # fail-closed: an operator's token must not cross a network in clear.
        raise ConfigurationError(
            "admin.listen: expected a loopback address or a Unix socket; for any other say "
            "admin.behind_tls_proxy = true, and put a proxy with TLS in front"
        )
    return Place("", host, int(port))


def identity_of(settings: Settings) -> IdentitySettings:
    """Settings of the room that verifies operators' tokens: as for users, with issuers of its own."""
    return msgspec.structs.replace(settings.identity, issuers=settings.admin.issuers)


def store_directory(settings: Settings) -> Path:
    """Where bundles and calls are kept."""
    place = settings.admin.directory
    return Path(place) if place else Path(settings.audit.directory) / STORE_NAME


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_issuers(settings: Settings) -> None:
    admin = settings.admin
    if not admin.issuers:
        raise ConfigurationError("admin.issuers: expected at least one issuer, because admin.listen is set")
    audiences = {issuer.audience for issuer in settings.identity.issuers}
    for issuer in admin.issuers:
        if issuer.audience in audiences:
            # fail-closed: with one audience for both, every user's token would be an operator's.
            raise ConfigurationError(
                f"admin.issuers: audience {issuer.audience!r}: expected another than that of identity.issuers"
            )
    known = {tenant for issuer in admin.issuers for tenant in issuer.tenants}
    if not admin.operator_tenants or not known.issuperset(admin.operator_tenants):
        raise ConfigurationError(
            "admin.operator_tenants: expected at least one tenant, each one of admin.issuers' tenants"
        )


class Administration:
    """The admin API's shells: two authenticators, the policy watch, store and ledger, the audit log."""

    def __init__(
        self,
        settings: AdminSettings,
        watch: PolicyWatch,
        store: BundleStore,
        ledger: Ledger,
        operators: Authenticator,
        users: Authenticator,
        record: RecordEvent,
        view: View,
        now: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.watch = watch
        self.store = store
        self.record = record
        self._ledger = ledger
        self._operators = operators
        self._users = users
        self.required_signers = view.required_signers
        self.build = view.build
        self.configured = view.configured
        self.lanes = view.lanes
        self.limits_are_shared = view.limits_are_shared
        self._now = now
        self._turn = asyncio.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    async def identify(self, raw: RawRequest) -> Operator:
        """The verified caller. Raises `NotAuthenticated`, `KeySetUnavailable`."""
        try:
            principal = await self._operators.authenticate(raw)
        except NotAuthenticated as refused:
            try:
                user = await self._users.authenticate(raw)
            except Refusal:
                raise refused from None
            # fail-closed: a valid token for the models' API is known, so its attempt is recorded by name.
            return Operator(user, sees_all=False, is_user=True)
        return Operator(principal, principal.tenant in self.settings.operator_tenants)

    def check_rate(self, operator: Operator) -> None:
        """Take one call from the caller's bucket. Raises `LimitExceeded`.

        Such a refusal is counted and logged, not recorded: else a caller could fill the audit log.
        """
        actor, now = operator.principal.subject_ref, self._now()
        per_minute = float(self.settings.calls_per_minute)
        level, then = self._buckets.pop(actor, (per_minute, now))
        level = min(per_minute, level + max(0.0, now - then) * per_minute / _MINUTE_SECONDS)
        if len(self._buckets) >= MAX_ACTORS:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[actor] = (max(0.0, level - 1), now)
        if level < 1:
            seconds = int((1 - level) * _MINUTE_SECONDS / per_minute) + 1
            raise LimitExceeded(
                "Too many calls of the admin API in a minute. Wait, then try again.",
                code="admin-rate-limited",
                retry_after_seconds=seconds,
            )

    async def note(
        self, operator: Operator, outcome: str, code: str, facts: tuple[tuple[str, str], ...]
    ) -> None:
        """Put a call into the audit log. Raises `AuditUnavailable`."""
        who = operator.principal
        await self.record(
            LogEvent(
                "admin-call",
                code,
                (
                    ("outcome", outcome),
                    ("actor", who.subject_ref),
                    ("token", who.token_ref),
                    ("tenant", who.tenant),
                    ("issuer", who.issuer),
                    ("client", who.client_id),
                    ("roles", " ".join(sorted(operator.roles))),
                    *facts,
                ),
            )
        )

    async def once(
        self, operator: Operator, key: str, request_sha256: str, act: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """Do a change, one at a time and once per key; `act` gives refusals as replies.

        Raises `Conflict`, `AdminForbidden` (token-without-id), `NotReady`.
        """
        who = operator.principal
        token = self._one_time(who)
        call = Done(who.subject_ref, key, request_sha256, int(self._now()))
        async with self._turn:
            known = await asyncio.to_thread(self._ledger.begin, call, token, who.expires_at_seconds)
            if known is not None:
                return Reply(known.status, known.body.encode(), "repeated", is_repeated=True)
            reply = await act()
            await asyncio.to_thread(self._ledger.end, call, token, reply.status, reply.body.decode())
        return reply

    def _one_time(self, who: Principal) -> str:
        """Name of the caller's token when it may make one change only, else nothing."""
        if not self.settings.one_time_tokens and ONE_TIME_SCOPE not in who.scopes:
            return ""
        if not who.token_id:
            # fail-closed: without an id its copies could not be told from it.
            raise AdminForbidden(
                "A change needs a one-time token with an id (jti). Ask your issuer for one.",
                code="token-without-id",
            )
        return f"{who.issuer} {who.token_id}"
