"""What a policy folder becomes: one snapshot, activated whole or not at all.

Enters: the folder of `settings.policy.directory`. Leaves: snapshots in the holder, events in the log.

Invariants
1. A candidate is read once, compiled, checked, tested, bound to this deployment's endpoints, its signatures
   and its revision checked, recorded, then swapped whole. A fault at any step keeps the last good snapshot.
2. An activation is in the audit log before it acts; when it cannot be recorded, it does not act.
3. A revision below the one that acted last acts only as a signed rollback, also after a restart.
4. The shadow candidate never acts, and its faults reach no request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.audit.canonical import LogEvent
from gateway.domain.decision import Decision, Facts
from gateway.domain.limits import TenantLimits
from gateway.domain.record import Receipt, ShadowFact
from gateway.errors import AuditUnavailable, ConfigurationError
from gateway.policy.bundle import Loaded, fingerprint, try_load
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.signing import (
    Active,
    SignatureRefused,
    check_revision,
    check_signatures,
    parse_signed,
    trusted_signers,
)
from gateway.rollout.candidate import Candidate, build_candidate
from gateway.rollout.content import fingerprint_of, read_content
from gateway.rollout.revision import STATE_NAME, read_active, write_active
from gateway.rollout.shadow import shadow_of
from gateway.sensitivity.classify import FindingsCache
from gateway.sensitivity.context import load_context_model
from gateway.sensitivity.detectors import Detector, DetectorSet, build_detectors
from gateway.settings import Settings
from gateway.snapshot import SnapshotHolder
from gateway.telemetry import Metrics, log, report_fault

#: Makes an event of the log durable (`AuditLog.record_event`).
RecordEvent = Callable[[LogEvent], Awaitable[Receipt]]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A candidate that may act, who signed it, and whether it is a rollback."""

    candidate: Candidate
    signers: tuple[str, ...]
    is_rollback: bool


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a folder is not taken: a code for the record, a sentence for operators with file and place."""

    code: str
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
        """Raises `ConfigurationError` for signers that cannot be used."""
        self._settings = settings
        self._directory = Path(settings.policy.directory)
        self._holder = holder
        self._metrics = metrics
        self._cache = cache
        is_builtin = settings.sensitivity.contextual_model == "builtin"
        self._context = load_context_model() if is_builtin else None
        self._extra_detectors = tuple(extra_detectors)
        self._detectors: tuple[str, DetectorSet] | None = None
        pairs = [(signer.name, signer.public_key) for signer in settings.policy.signers]
        self._signers = trusted_signers(pairs, settings.policy.required_signers)
        place = settings.policy.state_file
        self._state = Path(place) if place else Path(settings.audit.directory) / STATE_NAME
        self._policy: CompiledPolicy | None = None
        self._active: Active | None = None
        self._first: LogEvent | None = None
        self._shadow: CompiledPolicy | None = None
        self._seen = self._seen_shadow = ""
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
        self._active = read_active(self._state)
        self._seen = fingerprint_of(self._directory)
        outcome = self._prepare()
        if isinstance(outcome, _Refused):
            self._note_refused()
            raise ConfigurationError(outcome.reason)
        self._first = self._event(outcome)
        self._activate(outcome.candidate)

    async def announce(self, record: RecordEvent) -> None:
        """Record the first activation, before anything is served.

        Raises `AuditUnavailable`, and `ConfigurationError` when the revision cannot be kept.
        """
        if self._first is not None and self._active is not None:
            await record(self._first)
            await asyncio.to_thread(write_active, self._state, self._active)
        await self._look_shadow(record)

    async def run(self, record: RecordEvent) -> None:
        """Look at the folders again and again; ends only by cancellation."""
        while True:
            await asyncio.sleep(self._settings.policy.poll_seconds)
            try:
                await self._look(record)
                await self._look_shadow(record)
            except AuditUnavailable as fault:
                # fail-closed: what cannot be recorded does not act; the next look tries again.
                self._seen = ""
                report_fault("policy activation not recorded", fault)
            except Exception as fault:  # noqa: BLE001
                # fail-closed: whatever went wrong, the last good policy stays and the watch goes on.
                report_fault("policy watch failed", fault)

    async def _look(self, record: RecordEvent) -> None:
        seen = await asyncio.to_thread(fingerprint_of, self._directory)
        if seen == self._seen:
            return
        outcome = await asyncio.to_thread(self._prepare)
        self._seen = seen
        if isinstance(outcome, _Ready):
            await record(self._event(outcome))
            try:
                await asyncio.to_thread(write_active, self._state, outcome.candidate.bundle)
            except ConfigurationError as error:
                # fail-closed: a restart would not know this revision, so an older one could come back.
                outcome = _Refused("revision-not-kept", str(error))
            else:
                self._activate(outcome.candidate)
                return
        self._note_refused()
        log().error(
            "policy rejected, the last good one stays", reason=outcome.reason, active=self.active_version
        )
        facts = (("active_version", self.active_version), ("active_revision", self._revision))
        await record(LogEvent("policy-rejected", outcome.code, facts))

    def _prepare(self) -> _Ready | _Refused:
        settings = self._settings.policy
        try:
            content = read_content(self._directory)
            candidate = build_candidate(
                content, self._settings, self._detectors_for, self._cache, self._context
            )
            signed = None
            if self._signers and content.signature is not None:
                signed = parse_signed(content.signature)
            required = settings.required_signers
            names = check_signatures(signed, candidate.policy.id, candidate.bundle, self._signers, required)
            is_rollback = check_revision(candidate.bundle, self._active, signed, names, required)
            return _Ready(candidate, names, is_rollback)
        except SignatureRefused as error:
            return _Refused(error.reason, str(error))
        except ConfigurationError as error:
            return _Refused("invalid", str(error))
        except Exception as error:  # noqa: BLE001
            # fail-closed: a fault of the loader keeps the last good policy instead of ending the watch.
            return _Refused("loader-fault", f"{self._directory}: cannot be loaded: {type(error).__name__}")

    def _detectors_for(self, policy: CompiledPolicy) -> DetectorSet:
        """The built-in detectors with the policy's own; the last set is kept, for policies that leave
        them as they are. Takes about 2 s for a new one. Raises `ConfigurationError`."""
        own = policy.own_detectors
        known = self._detectors
        if known is None or known[0] != own.sha256:
            engine = self._settings.sensitivity.engine
            known = self._detectors = (own.sha256, build_detectors(engine, self._extra_detectors, own))
        return known[1]

    @property
    def _revision(self) -> int:
        return self._active.revision if self._active is not None else 0

    def _activate(self, candidate: Candidate) -> None:
        policy = self._policy = candidate.policy
        self._active = candidate.bundle
        self._holder.activate(replace(candidate.snapshot, shadow=self._shadowing()))
        self.is_rejected = False
        self._metrics.policy_is_stale.set(0)
        self._metrics.policy_info.clear()
        self._metrics.policy_info.labels(policy.version, policy.sha256).set(1)
        self._metrics.policy_revision.set(policy.revision)
        self._metrics.policy_loaded.set_to_current_time()
        log().info("policy activated", version=policy.version, revision=policy.revision, sha256=policy.sha256)

    def _event(self, ready: _Ready) -> LogEvent:
        """The activation as an event; it spells out what the digests in records stand for."""
        policy, snapshot = ready.candidate.policy, ready.candidate.snapshot
        return LogEvent(
            "policy-rolled-back" if ready.is_rollback else "policy-activated",
            "ok",
            (
                ("policy_id", policy.id),
                ("policy_version", policy.version),
                ("policy_sha256", policy.sha256),
                ("revision", policy.revision),
                ("replaced_revision", self._revision),
                ("bundle_sha256", ready.candidate.bundle.sha256),
                ("signers", " ".join(ready.signers)),
                ("protocols_sha256", snapshot.protocols_sha256),
                ("detectors_sha256", snapshot.detectors_sha256),
                ("detectors", " ".join(ready.candidate.detectors)),
                ("destinations", " ".join(sorted(policy.destinations))),
                ("configured", " ".join(sorted(self._settings.destinations))),
            ),
        )

    def _note_refused(self) -> None:
        self.is_rejected = True
        self._metrics.policy_is_stale.set(1)
        self._metrics.policy_rejected.inc()

    # -- the shadow ----------------------------------------------------------------------------------

    async def _look_shadow(self, record: RecordEvent) -> None:
        place = self._settings.policy.shadow_directory
        if not place:
            return
        seen = await asyncio.to_thread(fingerprint, Path(place))
        if seen == self._seen_shadow:
            return
        outcome = await asyncio.to_thread(try_load, self._shadow, Path(place))
        self._seen_shadow = seen
        if isinstance(outcome, Loaded):
            version, digest = outcome.policy.version, outcome.policy.sha256
            facts = (("policy_version", version), ("policy_sha256", digest))
            await record(LogEvent("policy-shadowed", "ok", facts))
            self._shadow = outcome.policy
            log().info("shadow policy compared", version=version, sha256=digest)
        else:
            # A broken candidate is compared no more; the active policy is not concerned.
            self._shadow = None
            log().error("shadow policy rejected", reason=outcome.reason)
        self._metrics.policy_is_shadowed.set(0 if self._shadow is None else 1)
        self._holder.activate(replace(self._holder.current, shadow=self._shadowing()))

    def _shadowing(self) -> Callable[[Facts, Decision], ShadowFact | None] | None:
        if self._shadow is None:
            return None
        configured = frozenset(self._settings.destinations)
        return shadow_of(self._shadow, configured, self._metrics.observe_shadow)
