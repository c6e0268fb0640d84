"""The policy folder, read once: what is hashed, signed, compiled and used are the same bytes.

Invariants
1. `sha256` covers names and bytes of every policy file, case, prompt, tool set, the channels and the lock.
2. A folder that changes while it is read gives no content.
3. The top folder is resolved once. When it is a Kubernetes volume (`..data` is a link to a folder beside
   it), everything is read from that one revision; below it no link is followed out of the folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import ConfigurationError
from gateway.policy.bundle import read_raw, top_of
from gateway.policy.signing import MAX_SIGNATURE_BYTES, SIGNATURE_FILE
from gateway.protocols.registry_files import read_files, read_lock

PROTOCOLS = "protocols"


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of one revision. `signature` is the content of the signature file, None when there is none."""

    policies: Mapping[str, bytes]
    protocols: Mapping[str, bytes]
    lock: bytes
    signature: bytes | None
    sha256: str


def read_content(directory: Path) -> Content:
    """What the folder holds now. Raises `ConfigurationError`."""
    first, second = _read(directory), _read(directory)
    if (first.sha256, first.signature) != (second.sha256, second.signature):
        # fail-closed: half of an old and half of a new policy is neither.
        raise ConfigurationError(
            f"{directory}: expected files that stand still, found a change while reading"
        )
    return first


def fingerprint_of(directory: Path) -> str:
    """Digest that changes with any byte of the content, signature included. Never raises."""
    try:
        content = _read(directory)
    except ConfigurationError as error:
        return "unreadable-" + hashlib.sha256(str(error).encode()).hexdigest()
    return hashlib.sha256(content.sha256.encode() + b"\n" + (content.signature or b"")).hexdigest()


def _read(directory: Path) -> Content:
    top = top_of(directory)
    policies = read_raw(top)
    protocols = read_files(top / PROTOCOLS)
    lock = read_lock(top / PROTOCOLS)
    digest = hashlib.sha256()
    named = {**policies, **{f"{PROTOCOLS}/{name}": content for name, content in protocols.items()}}
    named[f"{PROTOCOLS}.lock"] = lock
    for name in sorted(named):
        digest.update(f"{len(name.encode())}:{name}:{len(named[name])}:".encode() + named[name])
    return Content(policies, protocols, lock, _signature(top), digest.hexdigest())


def _signature(top: Path) -> bytes | None:
    path = top / SIGNATURE_FILE
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(top):
            raise ConfigurationError(f"{SIGNATURE_FILE}: expected no link that leaves the folder")
        with path.open("rb") as file:
            content = file.read(MAX_SIGNATURE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{SIGNATURE_FILE}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_SIGNATURE_BYTES:
        raise ConfigurationError(
            f"{SIGNATURE_FILE}: expected at most {MAX_SIGNATURE_BYTES} bytes, found more"
        )
    return content
