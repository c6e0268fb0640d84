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
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

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
from gateway.protocols.tool_gate import guard
from gateway.rollout.ledger import Ledger
from gateway.rollout.store import BundleStore
from gateway.running import Gateway, Parts
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
        parts = Parts(authenticator, limiter, pool, audit, watch, turnstile, lineage)
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
