"""The composition root: the only module that knows every room's shell.

Enters: settings. Leaves: a running `Gateway`, and at its end everything closed in the opposite order.
Never: a decision; this module only hands values and callables to the rooms that need them.

Invariants
1. Nothing serves before: keys load or their grace runs, a first policy compiled and passed its cases,
   the audit log was recovered and can be written.
2. A destination's URL must have a host that the active policy names for it, else the policy (at a
   reload) or the start is refused.
3. A candidate policy is compiled, checked, tested, then swapped whole; else the last good one stays.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.audit.writer import AuditLog
from gateway.dialects.openai_body import encode_body
from gateway.dialects.openai_errors import error_body
from gateway.dialects.openai_request import parse_chat
from gateway.dialects.table import OpenAIDialects
from gateway.domain.admitted import Admitted
from gateway.domain.chat import ChatRequest
from gateway.domain.decision import Destination
from gateway.domain.limits import TenantLimits
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError, NotAuthenticated, Refusal
from gateway.identity.authenticator import Authenticator
from gateway.identity.jwks import key_source
from gateway.limits.embedded import EmbeddedValkey
from gateway.limits.estimate import BYTES_PER_TOKEN, estimate_output_tokens, estimate_prompt_tokens
from gateway.limits.headers import limit_headers
from gateway.limits.redis_store import RedisLimiter
from gateway.output.rules import OutputProfile, parse_profile
from gateway.output.stream_filter import StreamFilter
from gateway.pipeline.admit import Walk
from gateway.policy import document
from gateway.policy.bundle import Loaded, fingerprint, try_load
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import evaluate, private_only, servable_models
from gateway.protocols.registry import Registry
from gateway.protocols.registry_files import load_registry
from gateway.protocols.resolve import resolve
from gateway.sensitivity.classify import Classifier, FindingsCache
from gateway.sensitivity.detectors import Detector, build_detectors
from gateway.settings import EndpointSettings, Settings, read_secret
from gateway.snapshot import Snapshot, SnapshotHolder
from gateway.telemetry import Metrics, log, report_fault
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.pool import ConnectionPool, Endpoint

BUILD = f"tidegate/{version('tidegate')}"
#: Reserved for an answer whose client names no bound. A longer answer becomes debt when it is settled.
DEFAULT_OUTPUT_TOKENS = 1024


class Gateway:
    """One running gateway. Made by `open_gateway`."""

    def __init__(self, settings: Settings, walk: Walk, parts: _Parts, metrics: Metrics) -> None:
        self.settings = settings
        self.walk = walk
        self.metrics = metrics
        self.failed = asyncio.Event()
        self.in_flight_count = 0
        self.is_draining = False
        self._parts = parts

    def counted(self, reply: Callable[..., Any]) -> _Counted:
        """`reply` as an ASGI application that counts as in flight while it runs."""
        return _Counted(self, reply)

    def begin_drain(self) -> None:
        """Leave rotation: `/ready` says 503 and new requests are turned away."""
        self.is_draining = True

    def note_audit_failure(self) -> None:
        """The log cannot be written any more: not ready, and the process is to end."""
        self.metrics.audit_is_failed.set(1)
        self.failed.set()

    def note_refusal(self, refusal: Refusal, request_id: str) -> None:
        """Count and log a refusal.

        What is refused before or at authentication has no audit record: strangers must not be able to
        fill the audit log.
        """
        if isinstance(refusal, NotAuthenticated):
            self.metrics.authentication_failures.labels(refusal.code).inc()
            log().warning("authentication failed", reason=refusal.code, request_id=request_id)
        else:
            self.metrics.refusals.labels(refusal.code).inc()
            log().info(
                "request refused", reason=refusal.code, status=refusal.http_status, request_id=request_id
            )

    def note_wire_refusal(self, reason: str) -> None:
        """Count and log a connection that was ended before a request could be read."""
        self.metrics.refusals.labels(reason).inc()
        log().info("connection refused", reason=reason)

    def readiness(self) -> tuple[bytes, bool]:
        """Body of `/ready` and whether requests would be walked. Says states, never contents."""
        parts = self._parts
        states = {
            "policy": "ok" if not self.walk.snapshots.is_empty else "missing",
            "policy_candidate": "rejected" if parts.watch.is_rejected else "ok",
            "policy_version": parts.watch.active_version,
            "audit": "ok" if parts.audit.healthy else "failed",
            "limits": "ok" if parts.limiter.health.is_connected else "degraded",
            "keys": "ok" if not parts.authenticator.unready_issuers else "unavailable",
            "draining": self.is_draining,
        }
        is_ready = (
            states["policy"] == "ok"
            and states["audit"] == "ok"
            and states["keys"] == "ok"
            and not self.is_draining
        )
        return msgspec.json.encode({"status": "ready" if is_ready else "not-ready", **states}), is_ready


class _Counted:
    """Counts one exchange as in flight."""

    __slots__ = ("_gateway", "_reply")

    def __init__(self, gateway: Gateway, reply: Callable[..., Any]) -> None:
        self._gateway = gateway
        self._reply = reply

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        gateway = self._gateway
        gateway.in_flight_count += 1
        gateway.metrics.in_flight.set(gateway.in_flight_count)
        try:
            await self._reply(scope, receive, send)
        finally:
            gateway.in_flight_count -= 1
            gateway.metrics.in_flight.set(gateway.in_flight_count)


class _Parts:
    """The shells that `Gateway` asks for their state."""

    def __init__(
        self, authenticator: Authenticator, limiter: RedisLimiter, audit: AuditLog, watch: PolicyWatch
    ) -> None:
        self.authenticator = authenticator
        self.limiter = limiter
        self.audit = audit
        self.watch = watch


class PolicyWatch:
    """Takes the policy folder's content into the snapshot holder, at the start and when it changes."""

    def __init__(
        self,
        settings: Settings,
        holder: SnapshotHolder,
        metrics: Metrics,
        cache: FindingsCache,
        extra_detectors: Sequence[Detector],
    ) -> None:
        self._settings = settings
        self._directory = Path(settings.policy.directory)
        self._holder = holder
        self._metrics = metrics
        self._cache = cache
        self._detectors = build_detectors(settings.sensitivity.engine, extra_detectors)
        self._policy: CompiledPolicy | None = None
        self._seen = ""
        self.is_rejected = False

    @property
    def active_version(self) -> str:
        """Version of the active policy; empty before the first."""
        return self._policy.version if self._policy else ""

    def limits_for(self, tenant: str) -> TenantLimits:
        """Limits of a tenant in the active policy. Raises `ConfigurationError` for an unknown one."""
        known = self._policy.tenants.get(tenant) if self._policy else None
        if known is None:
            raise ConfigurationError("tenant has no limits")
        return TenantLimits(known.requests_per_minute, known.tokens_per_minute, known.concurrency)

    def load(self) -> None:
        """Load and activate what the folder holds now; on any fault keep what is active.

        Raises `ConfigurationError` when nothing is active yet.
        """
        outcome = try_load(self._policy, self._directory)
        self._seen = outcome.fingerprint
        if isinstance(outcome, Loaded):
            try:
                self._activate(outcome.policy)
            except ConfigurationError as error:
                self._reject(str(error))
        else:
            self._reject(outcome.reason)

    def _activate(self, policy: CompiledPolicy) -> None:
        _check_hosts(policy, self._settings.destinations)
        registry = load_registry(self._directory / "protocols", _parse_yaml)
        self._holder.activate(self._snapshot(policy, registry))
        self._policy = policy
        self.is_rejected = False
        self._metrics.policy_is_stale.set(0)
        self._metrics.policy_info.clear()
        self._metrics.policy_info.labels(policy.version, policy.sha256).set(1)
        self._metrics.policy_loaded.set_to_current_time()
        log().info("policy activated", version=policy.version, sha256=policy.sha256)

    def _reject(self, reason: str) -> None:
        self.is_rejected = True
        self._metrics.policy_is_stale.set(1)
        self._metrics.policy_rejected.inc()
        if self._policy is None:
            raise ConfigurationError(reason)
        log().error("policy rejected, the last good one stays", reason=reason, active=self._policy.version)

    def _snapshot(self, policy: CompiledPolicy, registry: Registry) -> Snapshot:
        settings = self._settings
        classifier = Classifier(
            self._detectors,
            time.perf_counter_ns,
            settings.sensitivity.budget_ms,
            self._cache,
            policy.base_level,
        )
        profiles = {name: _profile(name, tree) for name, tree in policy.output_profiles.items()}
        configured = frozenset(settings.destinations)
        return Snapshot(
            resolve=partial(resolve, registry=registry),
            classify=classifier.classify,
            decide=partial(evaluate, policy, configured=configured),
            private_only=private_only,
            tenant_floor=policy.floor,
            models=lambda tenant: servable_models(policy, tenant, configured),
            new_filter=_filters(profiles, self._detectors.find, settings.output.budget_ms),
            policy_sha256=policy.sha256,
            protocols_sha256=registry.sha256,
            detectors_sha256=classifier.sha256,
            loaded_at_us=time.time_ns() // 1000,
        )

    async def run(self) -> None:
        """Look at the folder again and again; ends only by cancellation."""
        while True:
            await asyncio.sleep(self._settings.policy.poll_seconds)
            try:
                if fingerprint(self._directory) != self._seen:
                    self.load()
            except Exception as fault:  # noqa: BLE001
                # fail-closed: whatever went wrong, the last good policy stays and the watch goes on.
                report_fault("policy watch failed", fault)


def _profile(name: str, tree: object) -> OutputProfile:
    if not isinstance(tree, Mapping):
        raise ConfigurationError(f"output.yaml: profiles.{name}: expected a mapping")
    return parse_profile(tree, name)


def _filters(
    profiles: Mapping[str, OutputProfile], find: Any, budget_ms: int
) -> Callable[[str], StreamFilter]:
    budget_ns = budget_ms * 1_000_000

    def new_filter(name: str) -> StreamFilter:
        return StreamFilter(find, profiles[name], time.perf_counter_ns, budget_ns)

    return new_filter


def _parse_yaml(text: str, file: str) -> object:
    return document.plain(document.parse(text, file))


def _check_hosts(policy: CompiledPolicy, endpoints: Mapping[str, EndpointSettings]) -> None:
    """Refuse a URL whose host the policy does not name for that destination."""
    for name, endpoint in endpoints.items():
        place = policy.destinations.get(name)
        if place is None:
            known = ", ".join(sorted(policy.destinations))
            raise ConfigurationError(
                f"settings: destinations.{name}: expected a destination of the policy ({known})"
            )
        parts = urlsplit(endpoint.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError(f"settings: destinations.{name}.url: expected an http or https URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigurationError(
                f"settings: destinations.{name}.url: expected no credentials, query or fragment in the URL"
            )
        if parts.hostname not in place.hosts:
            # fail-closed: the policy says which hosts a destination's clearance is good for.
            raise ConfigurationError(
                f"settings: destinations.{name}.url: the host is not one of the policy's hosts for {name}"
            )
        if place.hosted and parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost"}:
            raise ConfigurationError(f"settings: destinations.{name}.url: expected https for a hosted one")


def _endpoint(settings: EndpointSettings) -> Endpoint:
    return Endpoint(
        url=settings.url,
        credential=read_secret(settings.credential) if settings.credential else None,
        deadlines=Deadlines(
            settings.connect_seconds,
            settings.first_byte_seconds,
            settings.idle_seconds,
            settings.total_seconds,
        ),
        max_connections=settings.max_connections,
    )


def _encoder(pepper: bytes) -> Callable[[Admitted, Destination], bytes]:
    """Encoder of upstream bodies; a tenant's cache salt keeps prefix caches of tenants apart."""

    def encode(admitted: Admitted, destination: Destination) -> bytes:
        salt = None
        if destination.kind == "vllm":
            salt = hmac.digest(pepper, b"cache-salt:" + admitted.principal.tenant.encode(), "sha256").hex()
        return encode_body(
            admitted.request,
            destination,
            max_output_tokens=admitted.permit.obligations.max_output_tokens,
            cache_salt=salt,
        )

    return encode


def problem(refusal: Refusal, request_id: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of a refusal. Nothing of the request appears in any of them."""
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"x-request-id", request_id.encode()),
        (b"x-tidegate-request-id", request_id.encode()),
    ]
    if refusal.retry_after_seconds is not None:
        headers.append((b"retry-after", str(refusal.retry_after_seconds).encode()))
    if isinstance(refusal, NotAuthenticated):
        headers.append((b"www-authenticate", b'Bearer realm="tidegate"'))
    body = error_body(refusal, request_id)
    headers.append((b"content-length", str(len(body)).encode()))
    return refusal.http_status, headers, body


def _estimate(chat: ChatRequest) -> tuple[int, int]:
    return estimate_prompt_tokens(chat), estimate_output_tokens(chat, DEFAULT_OUTPUT_TOKENS)


@asynccontextmanager
async def open_gateway(
    settings: Settings, extra_detectors: Sequence[Detector] = ()
) -> AsyncIterator[Gateway]:
    """A gateway with everything started; all of it is closed at the end, audit log last.

    `extra_detectors` run beside the built-in ones. Raises `ConfigurationError` when it cannot start.
    """
    pepper = read_secret(settings.pepper)
    key = hashlib.sha256(b"tidegate digest key:" + pepper.reveal().encode()).digest()
    metrics = Metrics()
    holder = SnapshotHolder()
    watch = PolicyWatch(settings, holder, metrics, FindingsCache(secrets.token_bytes(32)), extra_detectors)
    watch.load()
    async with AsyncExitStack() as stack:
        audit = await _open_audit(settings, stack)
        authenticator = await _open_identity(settings, pepper, stack)
        limiter = await _open_limits(settings, watch, stack)
        endpoints = {name: _endpoint(each) for name, each in settings.destinations.items()}
        pool = await stack.enter_async_context(ConnectionPool(endpoints, _encoder(key), BUILD))
        walk = Walk(
            snapshots=holder,
            authenticator=authenticator,
            parse=parse_chat,
            limiter=limiter,
            journal=audit,
            upstream=pool,
            dialects=OpenAIDialects(),
            problem=problem,
            estimate=_estimate,
            tokens_of_chars=lambda count: -(-count // BYTES_PER_TOKEN),
            keyed_digest=lambda data: hmac.digest(key, data, "sha256").hex(),
            digest_key=key,
            limit_headers=limit_headers,
            observe=metrics.observe,
            report_fault=report_fault,
            write_timeout_seconds=float(settings.server.write_timeout_seconds),
        )
        gateway = Gateway(settings, walk, _Parts(authenticator, limiter, audit, watch), metrics)
        audit.failed.add_done_callback(lambda done: gateway.note_audit_failure())
        watcher = asyncio.create_task(watch.run(), name="policy-watch")
        stack.callback(watcher.cancel)
        yield gateway


async def _open_audit(settings: Settings, stack: AsyncExitStack) -> AuditLog:
    config = hashlib.sha256(msgspec.json.encode(settings)).hexdigest()
    audit = AuditLog.open(settings.audit, read_secret(settings.audit.signing_key), BUILD, config)
    await audit.start()
    stack.push_async_callback(audit.close)
    return audit


async def _open_identity(settings: Settings, pepper: Secret, stack: AsyncExitStack) -> Authenticator:
    sources = {
        each.issuer: key_source(each, settings.identity, time.time) for each in settings.identity.issuers
    }
    authenticator = Authenticator(settings.identity, sources, pepper, time.time)
    stack.push_async_callback(authenticator.aclose)
    await authenticator.start()
    return authenticator


async def _open_limits(settings: Settings, watch: PolicyWatch, stack: AsyncExitStack) -> RedisLimiter:
    url = settings.limits.redis_url
    if not url:
        url = (await stack.enter_async_context(EmbeddedValkey())).url
    return await stack.enter_async_context(RedisLimiter(url, watch.limits_for, settings.limits))
