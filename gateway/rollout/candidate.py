"""One revision's bytes to a snapshot that could act: compiled, tested, bound to this deployment.

Invariants
1. A destination's URL must have a host that the policy names for it.
2. Nothing here acts: the result is a value, and a fault is a `ConfigurationError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import SplitResult, urlsplit

from gateway.domain.chat import ChatRequest, Role, TextPart
from gateway.domain.finding import Finding
from gateway.domain.stream import OutputFilter
from gateway.errors import ConfigurationError
from gateway.output.chain import new_output_filter
from gateway.output.guard import Asked
from gateway.output.profiles import parse_profile
from gateway.output.rules import OutputProfile
from gateway.policy import document
from gateway.policy.bundle import as_text, compile_and_test
from gateway.policy.compiled import CompiledPolicy, DestinationPolicy
from gateway.policy.evaluate import evaluate, private_only, servable_models
from gateway.policy.signing import Active
from gateway.protocols.registry import Registry, build_registry
from gateway.protocols.resolve import resolve
from gateway.rollout.answer_coverage import check_answer_coverage
from gateway.rollout.content import Content
from gateway.rollout.coverage import check_coverage
from gateway.sensitivity.classify import Classifier, FindingsCache
from gateway.sensitivity.detectors import Detector, DetectorSet
from gateway.settings import EndpointSettings, Settings
from gateway.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that passed every check, with its snapshot. `bundle` is its revision and digest,
    `detectors` the name@version of each detector."""

    policy: CompiledPolicy
    snapshot: Snapshot
    bundle: Active
    detectors: tuple[str, ...]
    protocols: Registry


def build_candidate(
    content: Content,
    settings: Settings,
    detectors_for: Callable[[CompiledPolicy], DetectorSet],
    cache: FindingsCache,
    context: Detector | None = None,
) -> Candidate:
    """The candidate of these bytes; `detectors_for` gives the set for a policy's own detectors, and
    `context` is the contextual model, where the settings ask for it.

    Raises `ConfigurationError`.
    """
    policy = compile_and_test(as_text(content.policies))
    _check_hosts(policy, settings.destinations)
    detectors = detectors_for(policy)
    registry = build_registry(content.protocols, content.lock, parse_yaml)
    classifier = Classifier(
        detectors,
        time.thread_time_ns,
        settings.sensitivity.budget_ms,
        cache,
        policy.base_level,
        context=context,
    )
    check_coverage(classifier.classify)
    profiles = output_profiles(policy)
    check_answer_coverage(profiles, detectors.find)
    configured = frozenset(settings.destinations)
    snapshot = Snapshot(
        resolve=partial(resolve, registry=registry),
        classify=classifier.classify,
        decide=partial(evaluate, policy, configured=configured),
        private_only=private_only,
        tenant_floor=policy.floor,
        models=lambda tenant: servable_models(policy, tenant, configured),
        new_filter=_filters(profiles, detectors.find, settings.output.budget_ms),
        policy_sha256=policy.sha256,
        protocols_sha256=registry.sha256,
        detectors_sha256=classifier.sha256,
        loaded_at_us=time.time_ns() // 1000,
        cost=policy.prices.cost,
        account=policy.shared.get,
    )
    return Candidate(policy, snapshot, Active(policy.revision, content.sha256), detectors.versions, registry)


def output_profiles(policy: CompiledPolicy) -> dict[str, OutputProfile]:
    """The profiles of output.yaml, read by the room that uses them. Raises `ConfigurationError`."""
    return {name: _profile(name, tree) for name, tree in policy.output_profiles.items()}


def parse_yaml(text: str, file: str) -> object:
    """The tree of a YAML document, as the registry wants it."""
    return document.plain(document.parse(text, file))


def _profile(name: str, tree: object) -> OutputProfile:
    if not isinstance(tree, Mapping):
        raise ConfigurationError(f"output.yaml: profiles.{name}: expected a mapping")
    return parse_profile(tree, name)


def _filters(
    profiles: Mapping[str, OutputProfile], find: Callable[[str], tuple[Finding, ...]], budget_ms: int
) -> Callable[[str, str, ChatRequest], OutputFilter]:
    budget_ns = budget_ms * 1_000_000

    def new_filter(name: str, tenant: str, chat: ChatRequest) -> OutputFilter:
        profile = profiles[name]
        asked = Asked(tenant, instructions(chat)) if profile.guards else Asked()
        return new_output_filter(find, profile, time.thread_time_ns, budget_ns, asked)

    return new_filter


def instructions(chat: ChatRequest) -> tuple[str, ...]:
    """The system and developer texts of a request, prompts of the registry included: they are rendered."""
    return tuple(
        part.text
        for message in chat.messages
        if message.role in {Role.SYSTEM, Role.DEVELOPER}
        for part in message.parts
        if isinstance(part, TextPart)
    )


def _check_hosts(policy: CompiledPolicy, endpoints: Mapping[str, EndpointSettings]) -> None:
    """Refuse a URL whose host the policy does not name for that destination."""
    for name, endpoint in endpoints.items():
        place = policy.destinations.get(name)
        if place is None:
            known = ", ".join(sorted(policy.destinations))
            raise ConfigurationError(
                f"settings: destinations.{name}: expected a destination of the policy ({known})"
            )
        if bool(endpoint.url) == bool(endpoint.replicas):
            raise ConfigurationError(f"settings: destinations.{name}: expected either url or replicas")
        for each in endpoint.servers:
            _check_url(name, each.url, place)
        if endpoint.hedge_after_seconds and place.hosted:
            # fail-closed: what is asked twice of a hosted provider has left twice, and is paid twice.
            raise ConfigurationError(
                f"settings: destinations.{name}.hedge_after_seconds: expected 0 for a hosted destination"
            )
        if endpoint.proxy:
            _plain_url(f"{name}.proxy", endpoint.proxy)


def _check_url(name: str, url: str, place: DestinationPolicy) -> None:
    parts = _plain_url(f"{name}.url", url)
    if parts.hostname not in place.hosts:
        # fail-closed: the policy says which hosts a destination's clearance is good for.
        raise ConfigurationError(
            f"settings: destinations.{name}.url: the host is not one of the policy's hosts for {name}"
        )
    if place.hosted and parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost"}:
        raise ConfigurationError(f"settings: destinations.{name}.url: expected https for a hosted one")


def _plain_url(key: str, url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"settings: destinations.{key}: expected an http or https URL")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError(
            f"settings: destinations.{key}: expected no credentials, query or fragment in the URL"
        )
    return parts
