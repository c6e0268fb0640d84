"""What a policy folder becomes: one snapshot, activated whole or not at all.

Enters: the folder of `settings.policy.directory`. Leaves: snapshots in the holder, events in the log.

Invariants
1. A candidate is compiled, checked, tested, bound to this deployment's endpoints, recorded, then swapped
   whole. A fault at any step keeps the last good snapshot.
2. A destination's URL must have a host that the policy names for it.
3. An activation is in the audit log before it acts; when it cannot be recorded, it does not act.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from gateway.audit.canonical import LogEvent
from gateway.domain.finding import Finding
from gateway.domain.limits import TenantLimits
from gateway.domain.record import Receipt
from gateway.errors import AuditUnavailable, ConfigurationError
from gateway.output.rules import OutputProfile, parse_profile
from gateway.output.stream_filter import StreamFilter
from gateway.policy import document
from gateway.policy.bundle import Loaded, fingerprint, try_load
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import evaluate, private_only, servable_models
from gateway.protocols.registry import Registry
from gateway.protocols.registry_files import load_registry, read_files, read_lock
from gateway.protocols.resolve import resolve
from gateway.sensitivity.classify import Classifier, FindingsCache
from gateway.sensitivity.detectors import Detector, build_detectors
from gateway.settings import EndpointSettings, Settings
from gateway.snapshot import Snapshot, SnapshotHolder
from gateway.telemetry import Metrics, log, report_fault

#: Makes an event of the log durable (`AuditLog.record_event`).
RecordEvent = Callable[[LogEvent], Awaitable[Receipt]]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A policy that passed every check, with its snapshot."""

    policy: CompiledPolicy
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a folder is not taken: for operators, with file and place."""

    reason: str


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
        """Take what the folder holds now, at the start. Raises `ConfigurationError`."""
        self._seen = self._fingerprint()
        outcome = self._prepare()
        if isinstance(outcome, _Refused):
            self._note_refused()
            raise ConfigurationError(outcome.reason)
        self._activate(outcome)

    async def announce(self, record: RecordEvent) -> None:
        """Record the first activation, before anything is served. Raises `AuditUnavailable`."""
        if self._policy is not None:
            await record(self._event(self._policy, self._holder.current))

    async def run(self, record: RecordEvent) -> None:
        """Look at the folder again and again; ends only by cancellation."""
        while True:
            await asyncio.sleep(self._settings.policy.poll_seconds)
            try:
                await self._look(record)
            except AuditUnavailable as fault:
                # fail-closed: what cannot be recorded does not act; the next look tries again.
                self._seen = ""
                report_fault("policy activation not recorded", fault)
            except Exception as fault:  # noqa: BLE001
                # fail-closed: whatever went wrong, the last good policy stays and the watch goes on.
                report_fault("policy watch failed", fault)

    async def _look(self, record: RecordEvent) -> None:
        seen = await asyncio.to_thread(self._fingerprint)
        if seen == self._seen:
            return
        outcome = await asyncio.to_thread(self._prepare)
        self._seen = seen
        if isinstance(outcome, _Candidate):
            await record(self._event(outcome.policy, outcome.snapshot))
            self._activate(outcome)
            return
        self._note_refused()
        log().error(
            "policy rejected, the last good one stays", reason=outcome.reason, active=self.active_version
        )
        await record(LogEvent("policy-rejected", "invalid", (("active_version", self.active_version),)))

    def _fingerprint(self) -> str:
        """Digest over everything that a snapshot is made of: policy files, prompts, tools, their lock."""
        protocols = self._directory / "protocols"
        digest = hashlib.sha256(fingerprint(self._directory).encode())
        try:
            digest.update(read_lock(protocols))
            for name, content in sorted(read_files(protocols).items()):
                digest.update(f"{name} {len(content)} ".encode() + content)
        except ConfigurationError as error:
            digest.update(str(error).encode())
        return digest.hexdigest()

    def _prepare(self) -> _Candidate | _Refused:
        outcome = try_load(self._policy, self._directory)
        if not isinstance(outcome, Loaded):
            return _Refused(outcome.reason)
        try:
            _check_hosts(outcome.policy, self._settings.destinations)
            registry = load_registry(self._directory / "protocols", _parse_yaml)
            return _Candidate(outcome.policy, self._snapshot(outcome.policy, registry))
        except ConfigurationError as error:
            return _Refused(str(error))

    def _activate(self, candidate: _Candidate) -> None:
        policy = self._policy = candidate.policy
        self._holder.activate(candidate.snapshot)
        self.is_rejected = False
        self._metrics.policy_is_stale.set(0)
        self._metrics.policy_info.clear()
        self._metrics.policy_info.labels(policy.version, policy.sha256).set(1)
        self._metrics.policy_loaded.set_to_current_time()
        log().info("policy activated", version=policy.version, sha256=policy.sha256)

    def _event(self, policy: CompiledPolicy, snapshot: Snapshot) -> LogEvent:
        """The activation as an event; it spells out what the digests in records stand for."""
        return LogEvent(
            "policy-activated",
            "ok",
            (
                ("policy_id", policy.id),
                ("policy_version", policy.version),
                ("policy_sha256", policy.sha256),
                ("protocols_sha256", snapshot.protocols_sha256),
                ("detectors_sha256", snapshot.detectors_sha256),
                ("detectors", " ".join(self._detectors.versions)),
                ("destinations", " ".join(sorted(policy.destinations))),
                ("configured", " ".join(sorted(self._settings.destinations))),
            ),
        )

    def _note_refused(self) -> None:
        self.is_rejected = True
        self._metrics.policy_is_stale.set(1)
        self._metrics.policy_rejected.inc()

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


def _profile(name: str, tree: object) -> OutputProfile:
    if not isinstance(tree, Mapping):
        raise ConfigurationError(f"output.yaml: profiles.{name}: expected a mapping")
    return parse_profile(tree, name)


def _filters(
    profiles: Mapping[str, OutputProfile], find: Callable[[str], tuple[Finding, ...]], budget_ms: int
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
