"""The composition root: the only module that knows every room's shell.

Enters: settings. Leaves: a running `Gateway`, and at its end everything closed in the opposite order.
Never: a decision; this module only hands values and callables to the rooms that need them.

Invariants
1. Nothing serves before: keys load or their grace runs, a first policy compiled and passed its cases,
   the audit log was recovered and can be written.
2. What is opened is closed in the opposite order, the audit log last.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

import msgspec

from gateway.activation import PolicyWatch
from gateway.administration import Administration, View, identity_of, place_of, store_directory
from gateway.approval_desk import ApprovalDesk
from gateway.approvals.store import RedisApprovals
from gateway.audit.writer import AuditLog
from gateway.dialects.table import Own, WireFormats, encode, error_of
from gateway.domain.admitted import Admitted
from gateway.domain.chat import ChatRequest, Surface
from gateway.domain.decision import WORKLOADS, Destination
from gateway.domain.outgoing import Outgoing
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError, NotAuthenticated, Refusal
from gateway.identity.authenticator import Authenticator
from gateway.identity.jwks import key_source
from gateway.limits.embedded import EmbeddedValkey
from gateway.limits.estimate import BYTES_PER_TOKEN, estimate_output_tokens, estimate_prompt_tokens
from gateway.limits.fair_queue import Capacity, ClassShare
from gateway.limits.headers import limit_headers
from gateway.limits.redis_store import RedisLimiter
from gateway.limits.turnstile import Door, Turnstile
from gateway.lineage.store import Lineage
from gateway.pipeline.admit import Walk
from gateway.pipeline.relay import Relay
from gateway.protocols.tool_gate import guard
from gateway.rollout.ledger import Ledger
from gateway.rollout.store import BundleStore
from gateway.sensitivity.classify import FindingsCache
from gateway.sensitivity.detectors import Detector
from gateway.settings import DEFAULT_CLASSES, IdentitySettings, Settings, read_secret
from gateway.snapshot import SnapshotHolder
from gateway.telemetry import Metrics, log, report_fault, report_refusal
from gateway.upstream.endpoints import contexts_of, endpoint_of
from gateway.upstream.pool import ConnectionPool

BUILD = f"tidegate/{version('tidegate')}"
#: Reserved for an answer whose client names no bound. A longer answer becomes debt when it is settled.
DEFAULT_OUTPUT_TOKENS = 1024


class Gateway:
    """One running gateway. Made by `open_gateway`."""

    def __init__(
        self, settings: Settings, walk: Walk, parts: _Parts, metrics: Metrics, desk: ApprovalDesk
    ) -> None:
        self.settings = settings
        self.desk = desk
        self.walk = walk
        self.metrics = metrics
        self.failed = asyncio.Event()
        self.in_flight_count = 0
        self.is_leaving = False
        self.is_draining = False
        self.administration: Administration | None = None
        self._parts = parts
        self._running: set[Relay] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def enter(self) -> None:
        """A request is being served from now on."""
        self.in_flight_count += 1
        self._is_idle.clear()
        self.metrics.in_flight.set(self.in_flight_count)

    def leave(self) -> None:
        """It is not any more."""
        self.in_flight_count -= 1
        if not self.in_flight_count:
            self._is_idle.set()
        self.metrics.in_flight.set(self.in_flight_count)

    def leaving(self, reply: Relay) -> _Leaving:
        """`reply` as an ASGI application that calls `leave` at its end."""
        return _Leaving(self, reply)

    def begin_leave(self) -> None:
        """Leave rotation: `/ready` says 503; requests that still come are served."""
        self.is_leaving = True

    def begin_drain(self) -> None:
        """New requests are turned away; running answers go on."""
        self.is_leaving = self.is_draining = True

    def stop_exchanges(self) -> None:
        """End every running answer with an error that says so."""
        for relay in tuple(self._running):
            relay.stop()

    async def closed(self, seconds: float) -> None:
        """Wait until nothing is in flight, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_idle.wait()

    def run(self, relay: Relay) -> None:
        """This answer is running from now on, until `ended`."""
        self._running.add(relay)

    def ended(self, relay: Relay) -> None:
        """It is not any more."""
        self._running.discard(relay)
        self.leave()

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

    def render_metrics(self) -> bytes:
        """Exposition text; states that nobody pushes are read now."""
        metrics, parts = self.metrics, self._parts
        health = parts.limiter.health
        metrics.running_tasks.set(len(asyncio.all_tasks()))
        metrics.limits_is_degraded.set(0 if health.is_connected else 1)
        metrics.limits_degraded.set(health.degraded_count)
        metrics.limits_lost.set(health.settle_lost_count)
        metrics.keys_are_missing.set(len(parts.authenticator.unready_issuers))
        for lane in parts.pool.lanes():
            labels = (lane.destination, str(lane.replica), lane.model)
            metrics.breaker_is_open.labels(*labels).set(1 if lane.is_open else 0)
            metrics.upstream_limit.labels(*labels).set(lane.limit)
        for name, replica, tokens in parts.pool.outstanding():
            metrics.upstream_outstanding.labels(name, str(replica)).set(tokens)
        metrics.lineage_pending.set(parts.lineage.pending_count)
        metrics.lineage_lost.set(parts.lineage.lost_count)
        for name, queue in parts.turnstile.queues.items():
            metrics.queue_running.labels(name).set(queue.running_count)
            for workload in WORKLOADS:
                metrics.queue_waiting.labels(name, workload).set(queue.waiting_count(workload))
        return metrics.render()

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
            "draining": self.is_leaving,
        }
        is_ready = (
            states["policy"] == "ok"
            and states["audit"] == "ok"
            and states["keys"] == "ok"
            and not self.is_leaving
        )
        return msgspec.json.encode({"status": "ready" if is_ready else "not-ready", **states}), is_ready


class _Leaving:
    """The last part of a request that is being served."""

    __slots__ = ("_gateway", "_reply")

    def __init__(self, gateway: Gateway, reply: Relay) -> None:
        self._gateway = gateway
        self._reply = reply

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._gateway.run(self._reply)
        try:
            await self._reply(scope, receive, send)
        finally:
            self._gateway.ended(self._reply)


class _Parts:
    """The shells that `Gateway` asks for their state."""

    def __init__(
        self,
        authenticator: Authenticator,
        limiter: RedisLimiter,
        pool: ConnectionPool,
        audit: AuditLog,
        watch: PolicyWatch,
        turnstile: Turnstile,
        lineage: Lineage,
    ) -> None:
        self.authenticator = authenticator
        self.limiter = limiter
        self.pool = pool
        self.audit = audit
        self.turnstile = turnstile
        self.lineage = lineage
        self.watch = watch


def _doors(settings: Settings) -> dict[str, Door]:
    """The doors of all destinations with a bounded number of places. Raises `ConfigurationError`."""
    doors = {}
    for name, endpoint in settings.destinations.items():
        if endpoint.queue is None:
            continue
        where, queue = f"destinations.{name}.queue", endpoint.queue
        if unknown := sorted(set(queue.classes) - set(WORKLOADS)):
            raise ConfigurationError(f"{where}.classes: expected one of {WORKLOADS}, found {unknown[0]!r}")
        try:
            shares = {
                word: ClassShare(each.weight, -(-queue.running * each.share_percent // 100), each.waiting)
                for word, each in (DEFAULT_CLASSES | queue.classes).items()
            }
            doors[name] = Door(Capacity(queue.running, shares), queue.wait_seconds)
        except ValueError as error:
            raise ConfigurationError(f"{where}: {error}") from None
    return doors


def _note_credential_fault(error: ConfigurationError) -> None:
    # The sentence names the reference, never the value.
    log().error("credential not taken", reason=str(error))


def _encoder(pepper: bytes, settings: Settings) -> Callable[[Admitted, Destination], Outgoing]:
    """Encoder of what is sent; a tenant's cache salt keeps prefix caches of tenants apart."""
    ranked = {name for name, endpoint in settings.destinations.items() if endpoint.priority}

    def digest(words: str) -> str:
        return hmac.digest(pepper, words.encode("utf-8", "surrogatepass"), "sha256").hex()

    def encoded(admitted: Admitted, destination: Destination) -> Outgoing:
        tenant, user = admitted.principal.tenant, admitted.request.chat.end_user
        is_vllm = destination.kind == "vllm"
        is_ranked = is_vllm and destination.name in ranked
        own = Own(
            max_output_tokens=admitted.permit.obligations.max_output_tokens,
            default_output_tokens=DEFAULT_OUTPUT_TOKENS,
            cache_salt=digest(f"cache-salt:{tenant}") if is_vllm else None,
            priority=WORKLOADS.index(admitted.workload) if is_ranked else None,
            user_digest=None if user is None else digest(f"end-user:{tenant}:{user}"),
        )
        return encode(admitted.request, destination, own)

    return encoded


def problem(
    refusal: Refusal, request_id: str, surface: Surface = Surface.CHAT
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
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
    if surface is Surface.MESSAGES:
        headers.append((b"request-id", request_id.encode()))
    body = error_of(refusal, request_id, surface)
    headers.append((b"content-length", str(len(body)).encode()))
    headers.extend(refusal.headers)
    return refusal.http_status, headers, body


def _estimate(chat: ChatRequest) -> tuple[int, int]:
    if chat.embedding is not None:
        return estimate_prompt_tokens(chat), 0
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
    is_administered = place_of(settings) is not None
    store = BundleStore(store_directory(settings)) if is_administered else None
    cache = FindingsCache(secrets.token_bytes(32))
    watch = PolicyWatch(settings, holder, metrics, cache, extra_detectors, store)
    watch.load()
    async with AsyncExitStack() as stack:
        audit = await _open_audit(settings, stack)
        authenticator = await _open_identity(settings.identity, pepper, stack)
        limiter = await _open_limits(settings, watch, metrics, stack)
        endpoints = {
            name: endpoint_of(each, _note_credential_fault) for name, each in settings.destinations.items()
        }
        pool = await stack.enter_async_context(
            ConnectionPool(endpoints, _encoder(key, settings), BUILD, metrics.observe_upstream)
        )
        turnstile = Turnstile(_doors(settings), time.monotonic)
        approvals = RedisApprovals(
            limiter.run_script,
            lambda: secrets.token_hex(8),
            lambda data: hmac.digest(key, data, "sha256").hex(),
            settings.approvals.wait_seconds,
            settings.approvals.use_seconds,
        )
        lineage = Lineage(limiter.run_script, key, settings.lineage.lifetime_seconds, report_fault)
        walk = Walk(
            snapshots=holder,
            authenticator=authenticator,
            limiter=limiter,
            approvals=approvals,
            lineage=lineage,
            journal=audit,
            upstream=pool,
            doors=turnstile,
            dialects=WireFormats(),
            new_gate=guard,
            problem=problem,
            estimate=_estimate,
            tokens_of_chars=lambda count: -(-count // BYTES_PER_TOKEN),
            keyed_digest=lambda data: hmac.digest(key, data, "sha256").hex(),
            digest_key=key,
            limit_headers=limit_headers,
            observe=metrics.observe,
            report_fault=report_fault,
            report_refusal=report_refusal,
            clock_ns=time.perf_counter_ns,
            context_tokens=contexts_of(settings.destinations).get,
            region=settings.policy.region,
            write_timeout_seconds=float(settings.server.write_timeout_seconds),
        )
        await watch.announce(audit.record_event)
        parts = _Parts(authenticator, limiter, pool, audit, watch, turnstile, lineage)
        gateway = Gateway(settings, walk, parts, metrics, ApprovalDesk(approvals, audit.record_event))
        if store is not None:
            operators = await _open_identity(identity_of(settings), pepper, stack)
            view = View(
                settings.policy.required_signers,
                BUILD,
                frozenset(settings.destinations),
                pool.lanes,
                lambda: limiter.health.is_connected,
            )
            gateway.administration = Administration(
                settings.admin,
                watch,
                store,
                Ledger(store_directory(settings)),
                operators,
                authenticator,
                audit.record_event,
                view,
                time.time,
            )
        audit.failed.add_done_callback(lambda done: gateway.note_audit_failure())
        watcher = asyncio.create_task(watch.run(audit.record_event), name="policy-watch")
        stack.callback(watcher.cancel)
        yield gateway


async def _open_audit(settings: Settings, stack: AsyncExitStack) -> AuditLog:
    config = hashlib.sha256(msgspec.json.encode(settings)).hexdigest()
    audit = AuditLog.open(settings.audit, read_secret(settings.audit.signing_key), BUILD, config)
    await audit.start()
    stack.push_async_callback(audit.close)
    return audit


async def _open_identity(settings: IdentitySettings, pepper: Secret, stack: AsyncExitStack) -> Authenticator:
    sources = {each.issuer: key_source(each, settings, time.monotonic) for each in settings.issuers}
    authenticator = Authenticator(settings, sources, pepper, time.time)
    stack.push_async_callback(authenticator.aclose)
    await authenticator.start()
    return authenticator


async def _open_limits(
    settings: Settings, watch: PolicyWatch, metrics: Metrics, stack: AsyncExitStack
) -> RedisLimiter:
    url = settings.limits.redis_url
    if url.startswith(("file:", "env:")):
        url = read_secret(url).reveal()
    if not url:
        url = (await stack.enter_async_context(EmbeddedValkey())).url
    return await stack.enter_async_context(
        RedisLimiter(url, watch.limits_for, settings.limits, notice=metrics.note_budget)
    )
