"""A statement about a log, for people to hand on: JSON in a signed note (C2SP signed-note).

The text of the note is the JSON; under a blank line stand the signatures. A statement that nobody signed says
so when it is checked. Anybody can make it again from the log, which is the better proof.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.checkpoint import Trust, parse_signature
from gateway.audit.keys import KeySource, sign_note

MAX_STATEMENT_BYTES = 16 * 1024 * 1024


def encode_statement(tree: Mapping[str, Any], origin: str, keys: KeySource | None) -> str:
    """The note's text; signed under the log's name when `keys` are given."""
    text = json.dumps(tree, indent=2, ensure_ascii=True) + "\n"
    return text + "\n" + (sign_note(keys, origin, text).line() if keys is not None else "")


def check_statement(note: bytes, trust: Trust) -> tuple[dict[str, Any] | None, str]:
    """The statement, and why it is not proven (empty: a trusted key of its log signed exactly this)."""
    if len(note) > MAX_STATEMENT_BYTES:
        return None, "the statement is too long"
    try:
        text, blank, tail = note.decode().partition("\n\n")
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None, "this is no statement"
    if not blank or not isinstance(tree, dict) or not isinstance(tree.get("origin"), str):
        return None, "this is no statement"
    if not tail:
        return tree, "nobody has signed it"
    for line in tail.removesuffix("\n").split("\n"):
        signature = parse_signature(line)
        key = None if signature is None else trust.get((signature.name, signature.key_id))
        if signature is None or key is None or key.name != tree["origin"]:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.public_key).verify(
                signature.signature, (text + "\n").encode()
            )
        except (InvalidSignature, ValueError):
            return tree, "a signature by a trusted key does not verify"
        return tree, ""
    # fail-closed: signatures of keys that nobody here trusts prove nothing.
    return tree, "no trusted key of this log has signed it"
