"""Checkpoints: the size and root of a log as a signed note that public tools can read.

    <origin>
    <size, decimal>
    <root, base64>
    [extension lines]
    <empty line>
    — <name> <base64(key id || signature)>      one or more

Invariants
1. A key's id is the first 4 bytes of SHA-256(name || 0x0A || algorithm || public key); algorithm 1 is
   Ed25519. The key's name is the log's origin.
2. A note is good when at least one signature by a trusted key verifies and none by a trusted key fails.
   Signatures by unknown keys (witnesses, a second algorithm) are carried and not judged.
3. Every field has one spelling: anything else is malformed.

Source: C2SP tlog-checkpoint and signed-note (c2sp.org).
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.tree import HASH_BYTES

ALGORITHM_ED25519 = 1
KEY_ID_BYTES = 4
MAX_NOTE_BYTES = 8 * 1024
_DASH = "\u2014 "


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is signed: a log's name, how many records it has, their root, and extension lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        """The signed text, with its final newline."""
        lines = [self.origin, str(self.size), b64encode(self.root).decode(), *self.extensions]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line."""

    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        """The line as it stands in a note, with its newline."""
        return f"{_DASH}{self.name} {b64encode(self.key_id + self.signature).decode()}\n"


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A parsed note. Its signatures are not yet verified."""

    checkpoint: Checkpoint
    signatures: tuple[NoteSignature, ...]

    def encode(self) -> bytes:
        """The note's bytes."""
        return (self.checkpoint.text() + "\n" + "".join(s.line() for s in self.signatures)).encode()


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """An Ed25519 public key (32 bytes) under the name of the log that it signs."""

    name: str
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """Invariant 1."""
        return key_id(self.name, self.public_key)


@dataclass(frozen=True, slots=True)
class NoteFault:
    """Why a note is not good: `malformed-checkpoint`, `rogue-signature` or `bad-signature`."""

    code: str
    detail: str


#: Trusted keys by name and key id.
Trust = Mapping[tuple[str, bytes], TrustedKey]


def trust_of(keys: tuple[TrustedKey, ...]) -> Trust:
    """Trusted keys, ready for look-up."""
    return {(key.name, key.key_id): key for key in keys}


def key_id(name: str, public_key: bytes, algorithm: int = ALGORITHM_ED25519) -> bytes:
    """Key id of a signed note (4 bytes)."""
    return sha256(name.encode() + b"\n" + bytes([algorithm]) + public_key).digest()[:KEY_ID_BYTES]


def is_key_name(name: str) -> bool:
    """True for a name that a note can carry: printable ASCII without space or plus, 1 to 255 long."""
    return 0 < len(name) <= 255 and name.isascii() and name.isprintable() and not set(name) & {" ", "+"}


def parse_checkpoint(note: bytes) -> SignedCheckpoint | NoteFault:
    """Parsed note, or why it is malformed."""
    if len(note) > MAX_NOTE_BYTES:
        return NoteFault("malformed-checkpoint", "the note is too long")
    try:
        text, separator, tail = note.decode().rpartition("\n\n")
    except UnicodeDecodeError:
        return NoteFault("malformed-checkpoint", "the note is not UTF-8")
    lines = text.split("\n")
    if not separator or len(lines) < 3 or not tail.endswith("\n") or "" in lines:
        return NoteFault("malformed-checkpoint", "the note lacks a line or a signature")
    origin, size, root, *extensions = lines
    signatures = tuple(parse_signature(line) for line in tail[:-1].split("\n"))
    root_bytes = _base64(root)
    good_size = size.isascii() and size.isdigit() and len(size) <= 20 and str(int(size)) == size
    if not good_size or root_bytes is None or len(root_bytes) != HASH_BYTES:
        return NoteFault("malformed-checkpoint", "size or root is malformed")
    kept = tuple(signature for signature in signatures if signature is not None)
    if len(kept) != len(signatures):
        return NoteFault("malformed-checkpoint", "a signature line is malformed")
    return SignedCheckpoint(Checkpoint(origin, int(size), root_bytes, tuple(extensions)), kept)


def verify_signatures(signed: SignedCheckpoint, trust: Trust) -> NoteFault | None:
    """None when the note is good (invariant 2), else why not."""
    message = signed.checkpoint.text().encode()
    good_count = 0
    for signature in signed.signatures:
        key = trust.get((signature.name, signature.key_id))
        if key is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.public_key).verify(signature.signature, message)
        except (InvalidSignature, ValueError):
            return NoteFault("bad-signature", "a signature by a trusted key does not verify")
        if key.name == signed.checkpoint.origin:
            good_count += 1
    if good_count == 0:
        # fail-closed: a note that no trusted key of this very log has signed proves nothing.
        return NoteFault("rogue-signature", "no trusted key of this log has signed the checkpoint")
    return None


def parse_signature(line: str) -> NoteSignature | None:
    """One signature line of a note, without its newline; None when it is malformed."""
    name, _, blob = line.removeprefix(_DASH).partition(" ")
    raw = _base64(blob)
    if not line.startswith(_DASH) or not is_key_name(name) or raw is None or len(raw) <= KEY_ID_BYTES:
        return None
    return NoteSignature(name, raw[:KEY_ID_BYTES], raw[KEY_ID_BYTES:])


def _base64(text: str) -> bytes | None:
    try:
        raw = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if b64encode(raw).decode() == text else None
