"""Who stands for a policy: signatures by maker and checker over one statement, and which revision may act.

The statement is text; each line ends with a line feed, the last one too:

    tidegate-bundle/1
    policy <id>
    revision <n>
    sha256 <hex>
    rollback-from <n, or ->

Invariants
1. A signature that a trusted signer's key does not verify refuses the bundle, however many others hold.
2. Two signatures count as two only when both name and key differ: maker and checker are two persons.
3. A statement about another policy, revision or digest than the folder's refuses the bundle.
4. A revision below the active one acts only with a signed statement that names the revision it may replace.

Pure: no file, no clock. Source: Ed25519 is RFC 8032; a key id is made as C2SP's signed-note makes it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.errors import ConfigurationError
from gateway.policy.fields import NAME

SIGNATURE_FILE = "bundle.sig"
FORMAT = "tidegate-bundle/1"
MAX_SIGNATURE_BYTES = 16 * 1024
KEY_BYTES = 32


class SignatureRefused(ConfigurationError):
    """A bundle that may not act. `reason` is kebab-case, for the audit record."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{SIGNATURE_FILE}: {message}")
        self.reason = reason


class Signature(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One signature over the statement, in base64."""

    name: str
    key_id: str
    signature: str


class SignedBundle(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Content of the signature file. `rollback_from` is the newest revision that this one may replace."""

    format: str
    policy: str
    revision: int
    sha256: str
    signatures: tuple[Signature, ...] = ()
    rollback_from: int | None = None

    @property
    def statement(self) -> bytes:
        """The bytes that are signed."""
        rollback = "-" if self.rollback_from is None else str(self.rollback_from)
        return (
            f"{FORMAT}\npolicy {self.policy}\nrevision {self.revision}\nsha256 {self.sha256}\n"
            f"rollback-from {rollback}\n"
        ).encode()


@dataclass(frozen=True, slots=True)
class Signer:
    """A person whose signature counts; `public_key` is Ed25519, 32 bytes."""

    name: str
    public_key: bytes

    @property
    def key_id(self) -> str:
        """Eight hex digits that name the key."""
        return hashlib.sha256(self.name.encode() + b"\n\x01" + self.public_key).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Active:
    """What acts now, or acted last: its revision and the digest of its bytes."""

    revision: int
    sha256: str


def signer_of(name: str, key: str) -> Signer:
    """A trusted signer; `key` is base64. Raises `ConfigurationError`."""
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES or not NAME.fullmatch(name):
        raise ConfigurationError(
            f"policy.signers: {name!r}: expected a name and an Ed25519 public key of 32 bytes in base64"
        )
    return Signer(name, raw)


def trusted_signers(pairs: Sequence[tuple[str, str]], required: int) -> tuple[Signer, ...]:
    """Signers from (name, key). Raises `ConfigurationError` when a name or key comes twice, or when there
    are fewer than `required`."""
    signers = tuple(signer_of(name, key) for name, key in pairs)
    for values in ([signer.name for signer in signers], [signer.public_key for signer in signers]):
        if len(set(values)) != len(values):
            # fail-closed: one key under two names would be maker and checker at once.
            raise ConfigurationError("policy.signers: expected each name and each key once")
    if len(signers) < required:
        raise ConfigurationError(
            f"policy.required_signers: expected at least {required} policy.signers, found {len(signers)}"
        )
    return signers


def parse_signed(content: bytes) -> SignedBundle:
    """The signature file's content. Raises `SignatureRefused`."""
    try:
        signed = msgspec.json.decode(content, type=SignedBundle)
    except msgspec.DecodeError as error:
        raise SignatureRefused("bad-signature", f"expected a signature file: {error}") from None
    if signed.format != FORMAT:
        raise SignatureRefused("bad-signature", f"expected format {FORMAT}")
    return signed


def check_signatures(
    signed: SignedBundle | None, policy: str, bundle: Active, trusted: Sequence[Signer], required: int
) -> tuple[str, ...]:
    """Names of those who signed, at least `required` different ones. Raises `SignatureRefused`.

    When nobody is trusted and nobody needed, nothing is checked. Signatures by unknown keys count nothing.
    """
    if not trusted and not required:
        return ()
    if signed is None:
        if required:
            raise SignatureRefused("unsigned", f"expected {required} signatures, found no such file")
        return ()
    if (signed.policy, signed.revision, signed.sha256) != (policy, bundle.revision, bundle.sha256):
        raise SignatureRefused(
            "bad-signature",
            f"expected a statement about {policy} revision {bundle.revision} sha256 {bundle.sha256}, "
            "found one about other files; sign this folder again",
        )
    valid = [signer for each in signed.signatures for signer in _verified(each, signed.statement, trusted)]
    different = {signer.name for signer in valid}
    if len(different) < required:
        if len(valid) >= required:
            raise SignatureRefused(
                "maker-is-checker",
                f"expected {required} different signers, found {valid[0].name} more than once",
            )
        raise SignatureRefused(
            "unsigned", f"expected {required} signatures of trusted signers, found {len(different)}"
        )
    return tuple(sorted(different))


def _verified(each: Signature, statement: bytes, trusted: Sequence[Signer]) -> list[Signer]:
    """The signer of a signature, in a list; empty when nobody trusted is meant."""
    signer = next((one for one in trusted if (one.name, one.key_id) == (each.name, each.key_id)), None)
    if signer is None:
        return []
    try:
        raw = base64.b64decode(each.signature, validate=True)
        Ed25519PublicKey.from_public_bytes(signer.public_key).verify(raw, statement)
    except (binascii.Error, ValueError, InvalidSignature):
        # fail-closed: a signature under a trusted name that does not hold is an attack or a broken file.
        raise SignatureRefused("bad-signature", f"the signature of {signer.name} does not hold") from None
    return [signer]


def check_revision(
    candidate: Active,
    active: Active | None,
    signed: SignedBundle | None,
    signers: Sequence[str],
    required: int,
) -> bool:
    """Whether the candidate is a signed rollback. Raises `SignatureRefused` when it may not act."""
    if active is None or candidate.revision > active.revision or candidate == active:
        return False
    if candidate.revision == active.revision:
        if not required:
            return False
        raise SignatureRefused(
            "same-revision",
            f"expected a revision above {active.revision}, because the files are not those of the active one",
        )
    allowed = signed.rollback_from if signed is not None and signers else None
    if allowed is None or allowed < active.revision:
        # fail-closed: old files that come back by mistake or by intent would undo what was decided since.
        raise SignatureRefused(
            "older-revision",
            f"expected revision {active.revision} or a later one, found {candidate.revision}; to go back, "
            "raise the revision, or sign a rollback (tidegate policy sign --rollback-from)",
        )
    return True
