"""One running gateway: what is in flight, whether it is ready, what it tells of itself.

Enters: the shells that `assembly` started. Leaves: readiness, metrics, the end of each answer at shutdown.
Never: a decision about a request.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from gateway.activation import PolicyWatch
from gateway.administration import Administration
from gateway.approval_desk import ApprovalDesk
from gateway.audit.writer import AuditLog
from gateway.domain.decision import WORKLOADS
from gateway.errors import NotAuthenticated, Refusal
from gateway.identity.authenticator import Authenticator
from gateway.limits.redis_store import RedisLimiter
from gateway.limits.turnstile import Turnstile
from gateway.lineage.store import Lineage
from gateway.pipeline.admit import Walk
from gateway.pipeline.relay import Relay
from gateway.settings import Settings
from gateway.telemetry import Metrics, log
from gateway.upstream.pool import ConnectionPool


class Gateway:
    """One running gateway. Made by `open_gateway`."""

    def __init__(
        self, settings: Settings, walk: Walk, parts: Parts, metrics: Metrics, desk: ApprovalDesk
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


class Parts:
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
