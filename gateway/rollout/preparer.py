"""From a revision's bytes to a candidate that may act, or the reason why it may not. Nothing acts here.

Invariants
1. Whatever goes wrong, the result is a value: the last good policy stays.
2. Signatures and revision are judged on the bytes that were compiled, never on a second reading.

Not safe for two threads at a time: its owner takes turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.errors import ConfigurationError
from gateway.policy.bundle import as_text, compile_and_test
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
from gateway.rollout.content import Content
from gateway.rollout.store import StoredBundle
from gateway.sensitivity.classify import FindingsCache
from gateway.sensitivity.context import load_context_model
from gateway.sensitivity.detectors import Detector, DetectorSet, build_detectors
from gateway.settings import Settings

Read = Callable[[], Content]


@dataclass(frozen=True, slots=True)
class Ready:
    """A candidate that may act, who signed it, and whether it is a rollback."""

    candidate: Candidate
    signers: tuple[str, ...]
    is_rollback: bool
    content: Content


@dataclass(frozen=True, slots=True)
class PolicyRefused:
    """Why a policy is not taken: a code for the record, a sentence for operators with file and place."""

    code: str
    reason: str


class Preparer:
    """Makes candidates with this deployment's settings. Raises `ConfigurationError` for unusable signers."""

    def __init__(self, settings: Settings, cache: FindingsCache, extra_detectors: Sequence[Detector]) -> None:
        self._settings = settings
        self._cache = cache
        is_builtin = settings.sensitivity.contextual_model == "builtin"
        self._context = load_context_model() if is_builtin else None
        self._extra_detectors = tuple(extra_detectors)
        self._detectors: tuple[str, DetectorSet] | None = None
        pairs = [(signer.name, signer.public_key) for signer in settings.policy.signers]
        self._signers = trusted_signers(pairs, settings.policy.required_signers)

    def prepare(
        self, read: Read, active: Active | None, *, is_ordered_rollback: bool = False
    ) -> Ready | PolicyRefused:
        """A candidate that may take the place of `active`. `is_ordered_rollback`: an administrator orders
        an older revision; it counts where nobody has to sign."""
        settings = self._settings.policy
        try:
            content = read()
            candidate = self._build(content)
            signed = None
            if self._signers and content.signature is not None:
                signed = parse_signed(content.signature)
            required = settings.required_signers
            names = check_signatures(signed, candidate.policy.id, candidate.bundle, self._signers, required)
            if is_ordered_rollback and not required:
                # Nobody has to sign here: the recorded order of an administrator is the statement.
                is_rollback = True
            else:
                is_rollback = check_revision(candidate.bundle, active, signed, names, required)
            return Ready(candidate, names, is_rollback, content)
        except SignatureRefused as error:
            return PolicyRefused(error.reason, str(error))
        except ConfigurationError as error:
            return PolicyRefused("invalid", str(error))
        except Exception as error:  # noqa: BLE001
            # fail-closed: a fault of the loader keeps the last good policy instead of ending the watch.
            reason = f"{settings.directory}: cannot be loaded: {type(error).__name__}"
            return PolicyRefused("loader-fault", reason)

    def check(self, read: Read) -> Ready | PolicyRefused:
        """A candidate that compiles and holds its cases. Signatures that are there must hold, but are not
        counted yet, and its revision is not judged: it does not act."""
        try:
            content = read()
            candidate = self._build(content)
            signed = None if content.signature is None else parse_signed(content.signature)
            names = check_signatures(signed, candidate.policy.id, candidate.bundle, self._signers, 0)
        except SignatureRefused as error:
            return PolicyRefused(error.reason, str(error))
        except ConfigurationError as error:
            return PolicyRefused("invalid", str(error))
        except Exception as error:  # noqa: BLE001
            # fail-closed: what makes the loader fail is no candidate.
            return PolicyRefused("loader-fault", f"bundle: cannot be loaded: {type(error).__name__}")
        return Ready(candidate, names, False, content)

    def _build(self, content: Content) -> Candidate:
        return build_candidate(content, self._settings, self._detectors_for, self._cache, self._context)

    def _detectors_for(self, policy: CompiledPolicy) -> DetectorSet:
        """The built-in detectors with the policy's own; the last set is kept, for policies that leave
        them as they are. Takes about 2 s for a new one. Raises `ConfigurationError`."""
        own = policy.own_detectors
        known = self._detectors
        if known is None or known[0] != own.sha256:
            engine = self._settings.sensitivity.engine
            known = self._detectors = (own.sha256, build_detectors(engine, self._extra_detectors, own))
        return known[1]


def row_of(candidate: Candidate, signers: tuple[str, ...], maker: str, now_us: int) -> StoredBundle:
    """A candidate's row in the store."""
    policy, bundle = candidate.policy, candidate.bundle
    return StoredBundle(
        sha256=bundle.sha256,
        revision=bundle.revision,
        policy_id=policy.id,
        policy_version=policy.version,
        policy_sha256=policy.sha256,
        signers=signers,
        maker=maker,
        stored_at_us=now_us,
    )


def compiled(read: Read) -> CompiledPolicy | PolicyRefused:
    """A bundle's policy alone, for a comparison."""
    try:
        return compile_and_test(as_text(read().policies))
    except ConfigurationError as error:
        return PolicyRefused("invalid", str(error))
