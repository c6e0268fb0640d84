"""What a policy folder becomes: one snapshot, activated whole or not at all.

Enters: the folder of `settings.policy.directory`, or a bundle that an administrator orders.
Leaves: snapshots in the holder, events in the log.

Invariants
1. A candidate is read once, compiled, checked, tested, bound to this deployment's endpoints, its signatures
   and its revision checked, recorded, then swapped whole. A fault at any step keeps the last good snapshot.
2. An activation is in the audit log before it acts; when it cannot be recorded, it does not act.
3. A revision below the one that acted last acts only as a signed rollback, also after a restart.
4. The shadow candidate never acts, and its faults reach no request.
5. One change at a time: the folder's watch and administrators take turns, and an order acts only on the
   state that it names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from gateway.audit.canonical import LogEvent
from gateway.domain.decision import Decision, Facts
from gateway.domain.limits import TenantLimits
from gateway.domain.record import Receipt, ShadowFact
from gateway.errors import AuditUnavailable, ConfigurationError
from gateway.policy.bundle import Loaded, fingerprint, try_load
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.signing import (
    Active,
)
from gateway.rollout.content import Content, fingerprint_of, read_content
from gateway.rollout.order import EventFacts, Order, PolicyState
from gateway.rollout.preparer import PolicyRefused, Preparer, Read, Ready, compiled, row_of
from gateway.rollout.revision import STATE_NAME, read_active, write_active
from gateway.rollout.shadow import shadow_of
from gateway.rollout.store import BundleStore, StoredBundle
from gateway.sensitivity.classify import FindingsCache
from gateway.sensitivity.detectors import Detector
from gateway.settings import Settings
from gateway.snapshot import SnapshotHolder
from gateway.telemetry import Metrics, log, report_fault

#: Who activates what the folder holds.
FOLDER = "folder"
#: Makes an event of the log durable (`AuditLog.record_event`).
RecordEvent = Callable[[LogEvent], Awaitable[Receipt]]


class PolicyWatch:
    """Takes the policy folder's content into the snapshot holder, at the start and when it changes."""

    def __init__(
        self,
        settings: Settings,
        holder: SnapshotHolder,
        metrics: Metrics,
        cache: FindingsCache,
        extra_detectors: Sequence[Detector],
        store: BundleStore | None = None,
    ) -> None:
        """Raises `ConfigurationError` for signers that cannot be used."""
        self._settings = settings
        self._directory = Path(settings.policy.directory)
        self._holder = holder
        self._metrics = metrics
        self._preparer = Preparer(settings, cache, extra_detectors)
        place = settings.policy.state_file
        self._state = Path(place) if place else Path(settings.audit.directory) / STATE_NAME
        self._policy: CompiledPolicy | None = None
        self._active: Active | None = None
        self._first: LogEvent | None = None
        self._shadow: CompiledPolicy | None = None
        self._seen = self._seen_shadow = ""
        self._store = store
        self._ready: Ready | None = None
        self._rejected: tuple[int, PolicyRefused] | None = None
        self._turn = asyncio.Lock()
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
        return known.limits

    def load(self) -> None:
        """Take what the folder holds now, at the start. Raises `ConfigurationError`."""
        self._active = read_active(self._state)
        self._seen = fingerprint_of(self._directory)
        outcome = self._preparer.prepare(self._first_content, self._active)
        if isinstance(outcome, PolicyRefused):
            self._note_refused(outcome, FOLDER)
            raise ConfigurationError(outcome.reason)
        self._first = self._event(outcome)
        self._activate(outcome)

    async def announce(self, record: RecordEvent) -> None:
        """Record the first activation, before anything is served.

        Raises `AuditUnavailable`, and `ConfigurationError` when the revision cannot be kept.
        """
        if self._first is not None and self._active is not None:
            await record(self._first)
            await asyncio.to_thread(write_active, self._state, self._active)
            if self._ready is not None:
                await asyncio.to_thread(self._keep, self._ready, FOLDER)
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
        async with self._turn:
            await self._look_now(record)

    async def _look_now(self, record: RecordEvent, facts: EventFacts = ()) -> PolicyRefused | None:
        seen = await asyncio.to_thread(fingerprint_of, self._directory)
        if seen == self._seen:
            return None
        read = partial(read_content, self._directory)
        outcome = await asyncio.to_thread(self._preparer.prepare, read, self._active)
        self._seen = seen
        return await self._take(outcome, record, facts, FOLDER)

    async def _take(
        self, outcome: Ready | PolicyRefused, record: RecordEvent, facts: EventFacts, by: str
    ) -> PolicyRefused | None:
        """Let a candidate act, or record why not. Raises `AuditUnavailable`: then it does not act."""
        if isinstance(outcome, Ready):
            await record(self._event(outcome, facts))
            try:
                await asyncio.to_thread(self._keep, outcome, by)
                await asyncio.to_thread(write_active, self._state, outcome.candidate.bundle)
            except ConfigurationError as error:
                # fail-closed: a restart would not know this revision, so an older one could come back.
                outcome = PolicyRefused("revision-not-kept", str(error))
            else:
                self._activate(outcome)
                return None
        self._note_refused(outcome, by)
        log().error(
            "policy rejected, the last good one stays", reason=outcome.reason, active=self.active_version
        )
        active = (("active_version", self.active_version), ("active_revision", self._revision))
        await record(LogEvent("policy-rejected", outcome.code, (*active, *facts)))
        return outcome

    def _first_content(self) -> Content:
        """What acts at the start: the folder's, unless the API put this very folder aside."""
        store, active = self._store, self._active
        if store is not None and active is not None and store.overridden == self._seen:
            return store.content(active.sha256)
        return read_content(self._directory)

    def _keep(self, ready: Ready, by: str) -> None:
        """Keep what is going to act in the store, where there is one. Raises `ConfigurationError`."""
        if self._store is None:
            return
        now_us, candidate = time.time_ns() // 1000, ready.candidate
        known = self._store.row(candidate.bundle.sha256)
        row = row_of(candidate, ready.signers, known.maker if known else by, now_us)
        row = msgspec.structs.replace(row, activated_at_us=now_us, activated_by=by)
        self._store.keep(ready.content, row, self._held)
        self._store.override("" if by == FOLDER else self._seen)

    @property
    def _revision(self) -> int:
        return self._active.revision if self._active is not None else 0

    def _activate(self, ready: Ready) -> None:
        candidate = ready.candidate
        self._ready = ready
        self._rejected = None
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

    def _event(self, ready: Ready, facts: EventFacts = ()) -> LogEvent:
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
                *facts,
            ),
        )

    def _note_refused(self, refused: PolicyRefused, by: str) -> None:
        if by == FOLDER:
            # The folder says another thing than what acts, until somebody mends it. An administrator whose
            # candidate is refused hears it at once.
            self.is_rejected = True
            self._metrics.policy_is_stale.set(1)
        self._rejected = (time.time_ns() // 1000, refused)
        self._metrics.policy_rejected.inc()

    # -- orders of administrators --------------------------------------------------------------------

    @property
    def state(self) -> PolicyState:
        """What acts now. Raises `ConfigurationError` before the first activation."""
        ready = self._ready
        if ready is None:
            raise ConfigurationError("policy: nothing acts yet")
        snapshot, candidate = ready.candidate.snapshot, ready.candidate
        return PolicyState(
            candidate.policy,
            candidate.protocols,
            candidate.bundle,
            ready.signers,
            snapshot.loaded_at_us,
            self._shadow,
            self._rejected,
        )

    async def check(self, read: Read, order: Order, record: RecordEvent) -> StoredBundle | PolicyRefused:
        """Check and store a candidate; it does not act. Signatures that are there must hold.

        Raises `AuditUnavailable`.
        """
        async with self._turn:
            outcome = await asyncio.to_thread(self._preparer.check, read)
            if isinstance(outcome, Ready):
                return await asyncio.to_thread(self._store_candidate, outcome, order.actor)
            return await self._take(outcome, record, order.facts, order.actor) or outcome

    async def activate(self, read: Read, order: Order, record: RecordEvent) -> PolicyRefused | None:
        """Let a stored bundle act. Raises `AuditUnavailable`: then it does not act."""
        async with self._turn:
            stale = self._stale(order)
            if stale is not None:
                return stale
            outcome = await asyncio.to_thread(
                self._preparer.prepare, read, self._active, is_ordered_rollback=order.is_rollback
            )
            return await self._take(outcome, record, order.facts, order.actor)

    async def reload(self, order: Order, record: RecordEvent) -> PolicyRefused | None:
        """Look at the folder now, also when it did not change. Raises `AuditUnavailable`."""
        async with self._turn:
            stale = self._stale(order)
            if stale is not None:
                return stale
            self._seen = ""
            try:
                return await self._look_now(record, order.facts)
            except AuditUnavailable:
                # fail-closed: what cannot be recorded does not act; the watch tries again.
                self._seen = ""
                raise

    async def compare(self, read: Read | None, order: Order, record: RecordEvent) -> PolicyRefused | None:
        """Let a stored bundle decide beside the active policy, or (None) nothing any more."""
        async with self._turn:
            stale = self._stale(order)
            if stale is not None:
                return stale
            if read is None:
                await record(LogEvent("policy-shadowed", "ended", order.facts))
                self._set_shadow(None)
                return None
            outcome = await asyncio.to_thread(compiled, read)
            if isinstance(outcome, PolicyRefused):
                return outcome
            facts = (("policy_version", outcome.version), ("policy_sha256", outcome.sha256), *order.facts)
            await record(LogEvent("policy-shadowed", "ok", facts))
            self._set_shadow(outcome)
            return None

    def _stale(self, order: Order) -> PolicyRefused | None:
        active = self._active.sha256 if self._active is not None else ""
        if order.expected_sha256 == active:
            return None
        return PolicyRefused("stale-digest", "the active digest is another one by now")

    def _store_candidate(self, ready: Ready, maker: str) -> StoredBundle | PolicyRefused:
        assert self._store is not None
        row = row_of(ready.candidate, ready.signers, maker, time.time_ns() // 1000)
        known = self._store.row(row.sha256)
        if known is not None:
            row = msgspec.structs.replace(known, signers=ready.signers)
        try:
            self._store.keep(ready.content, row, self._held)
        except ConfigurationError as error:
            return PolicyRefused("bundle-not-kept", str(error))
        return row

    @property
    def _held(self) -> frozenset[str]:
        return frozenset(() if self._active is None else (self._active.sha256,))

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
            self._set_shadow(outcome.policy)
        else:
            # A broken candidate is compared no more; the active policy is not concerned.
            log().error("shadow policy rejected", reason=outcome.reason)
            self._set_shadow(None)

    def _set_shadow(self, policy: CompiledPolicy | None) -> None:
        self._shadow = policy
        if policy is not None:
            log().info("shadow policy compared", version=policy.version, sha256=policy.sha256)
        self._metrics.policy_is_shadowed.set(0 if self._shadow is None else 1)
        self._holder.activate(replace(self._holder.current, shadow=self._shadowing()))

    def _shadowing(self) -> Callable[[Facts, Decision], ShadowFact | None] | None:
        if self._shadow is None:
            return None
        configured = frozenset(self._settings.destinations)
        return shadow_of(self._shadow, configured, self._metrics.observe_shadow)
