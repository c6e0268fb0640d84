"""Logs and metrics of the process.

Logs: one JSON line per event on stderr; the event is a fixed lowercase phrase, facts are keys.
Metrics: Prometheus, `tidegate_<room>_<what>_<unit>`, labels from closed sets only.

Invariant: neither carries text of a prompt, an answer, a token or a header, nor an exception's text.
An exception is named by its class and by the place in the gateway's own source where it arose.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from gateway.errors import Refusal

#: What a refusal may tell operators beside its code: a closed word, sometimes with a rule's or class's name.
_CLOSED_WORDS = re.compile(r"[A-Za-z0-9._-]{0,64}(?: [A-Za-z0-9._-]{1,64})?")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


def configure_logging() -> None:
    """Set structlog up for JSON lines on stderr, and route the standard library's warnings there."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_ClassOnlyHandler()], level=logging.WARNING, force=True)


class _ClassOnlyHandler(logging.Handler):
    """Library log records as events, without their text: libraries quote input in messages."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print logger name, level and exception class, nothing that the library wrote."""
        cause = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        structlog.get_logger().warning(
            "library event",
            library=record.name,
            severity=record.levelname.lower(),
            place=f"{record.module}:{record.lineno}",
            error_class=cause,
        )


def log() -> Any:
    """The structured logger."""
    return structlog.get_logger()


def report_fault(phrase: str, error: BaseException) -> None:
    """Log an unexpected exception by class and place, never by its text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames[-4:]]
    log().error(phrase, error_class=type(error).__name__, places=places)


def report_refusal(refusal: Refusal, request_id: str) -> None:
    """Log why an admitted request was ended by the gateway, with the closed word that only operators see."""
    detail = refusal.detail or ""
    if _CLOSED_WORDS.fullmatch(detail) is None:
        # fail-closed: what has not the shape of a closed word may be a piece of an answer.
        detail = "withheld"
    log().warning(
        "answer refused",
        reason=refusal.code,
        detail=detail,
        status=refusal.http_status,
        request_id=request_id,
    )


class Metrics:
    """Every metric of the gateway, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tidegate_pipeline_requests",
            "Requests by how they ended",
            ["phase", "reason", "destination"],
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "tidegate_web_in_flight_requests", "Requests being served now", registry=self.registry
        )
        self.running_tasks = Gauge(
            "tidegate_web_running_tasks", "Tasks of the event loop", registry=self.registry
        )
        self.refusals = Counter(
            "tidegate_web_refusals",
            "Requests refused, by reason; those before authentication have no audit record",
            ["reason"],
            registry=self.registry,
        )
        self.authentication_failures = Counter(
            "tidegate_identity_failures",
            "Failed authentications by cause",
            ["reason"],
            registry=self.registry,
        )
        self.duration = Histogram(
            "tidegate_pipeline_duration_seconds",
            "Time from receipt to the sealed end",
            ["phase"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.policy_info = Gauge(
            "tidegate_policy_active_info",
            "1 for the active policy",
            ["version", "sha256"],
            registry=self.registry,
        )
        self.policy_rejected = Counter(
            "tidegate_policy_rejected_candidates",
            "Candidate policies that were not taken",
            registry=self.registry,
        )
        self.policy_is_stale = Gauge(
            "tidegate_policy_candidate_rejected_state",
            "1 while the folder holds a policy that was not taken",
            registry=self.registry,
        )
        self.policy_loaded = Gauge(
            "tidegate_policy_loaded_timestamp_seconds",
            "When the active policy was taken",
            registry=self.registry,
        )
        self.policy_revision = Gauge(
            "tidegate_policy_active_revision_info",
            "Revision of the active policy",
            registry=self.registry,
        )
        self.policy_is_shadowed = Gauge(
            "tidegate_policy_shadow_state",
            "1 while a candidate decides beside the active policy",
            registry=self.registry,
        )
        self.policy_shadow = Counter(
            "tidegate_policy_shadow_decisions",
            "Decisions of the candidate beside the active policy: same, differs, fault",
            ["outcome"],
            registry=self.registry,
        )
        self.audit_is_failed = Gauge(
            "tidegate_audit_failed_state",
            "1 when the audit log can no longer be written",
            registry=self.registry,
        )
        self.limits_is_degraded = Gauge(
            "tidegate_limits_degraded_state",
            "1 while reservations come from the local cap because Redis cannot be asked",
            registry=self.registry,
        )
        self.limits_degraded = Gauge(
            "tidegate_limits_degraded_reservations",
            "Reservations given or refused by the local cap since the start",
            registry=self.registry,
        )
        self.limits_lost = Gauge(
            "tidegate_limits_lost_settlements",
            "Settlements that did not reach Redis since the start",
            registry=self.registry,
        )
        self.limits_budget = Counter(
            "tidegate_limits_budget_notices",
            "Bounds of budgets that spending has crossed: a percentage of the hard one, or the soft one",
            ["period", "threshold"],
            registry=self.registry,
        )
        self.keys_are_missing = Gauge(
            "tidegate_identity_unverifiable_issuers",
            "Issuers whose tokens cannot be verified just now",
            registry=self.registry,
        )
        self.lineage_pending = Gauge(
            "tidegate_lineage_pending_marks",
            "Marks of answers that Redis has not taken yet",
            registry=self.registry,
        )
        self.lineage_lost = Gauge(
            "tidegate_lineage_lost_marks", "Marks of answers that were lost", registry=self.registry
        )
        self.queue_running = Gauge(
            "tidegate_queue_running_requests",
            "Places of a destination that this process fills now",
            ["destination"],
            registry=self.registry,
        )
        self.queue_waiting = Gauge(
            "tidegate_queue_waiting_requests",
            "Requests that wait for a place at a destination",
            ["destination", "workload"],
            registry=self.registry,
        )
        self.breaker_is_open = Gauge(
            "tidegate_upstream_breaker_open_state",
            "1 while the circuit breaker of a model at a replica is open",
            ["destination", "replica", "model"],
            registry=self.registry,
        )
        self.upstream_limit = Gauge(
            "tidegate_upstream_concurrency_limit_requests",
            "Requests that a model at a replica takes at a time, as its own 429 taught",
            ["destination", "replica", "model"],
            registry=self.registry,
        )
        self.upstream_outstanding = Gauge(
            "tidegate_upstream_outstanding_tokens",
            "Tokens that a replica was asked for and has not answered yet",
            ["destination", "replica"],
            registry=self.registry,
        )
        self.upstream_events = Counter(
            "tidegate_upstream_events",
            "Choices of a destination: retry, retry-refused, hedge, limited, home, spilled, new",
            ["destination", "event"],
            registry=self.registry,
        )
        self._children: dict[tuple[str, str, str], Any] = {}
        self._durations: dict[str, Any] = {}

    def note_budget(self, tenant: str, period: str, threshold: str) -> None:
        """Count and log that the spending of a tenant has crossed a bound of a budget."""
        self.limits_budget.labels(period, threshold).inc()
        log().warning("budget bound crossed", tenant=tenant, period=period, threshold=threshold)

    def observe_shadow(self, outcome: str) -> None:
        """Count one comparison with the shadow policy."""
        self.policy_shadow.labels(outcome).inc()

    def observe_upstream(self, destination: str, event: str) -> None:
        """Count one choice among the replicas of a destination."""
        self.upstream_events.labels(destination, event).inc()

    def observe(self, phase: str, reason: str, destination: str, elapsed_us: int) -> None:
        """Count the end of a request and the time it took."""
        key = (phase, reason, destination)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self.requests.labels(phase, reason, destination)
        child.inc()
        duration = self._durations.get(phase)
        if duration is None:
            duration = self._durations[phase] = self.duration.labels(phase)
        duration.observe(elapsed_us / 1e6)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)
