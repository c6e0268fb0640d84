"""Checkpoints as signed notes."""

from __future__ import annotations

import pytest

from gateway.audit.checkpoint import (
    Checkpoint,
    NoteFault,
    NoteSignature,
    SignedCheckpoint,
    TrustedKey,
    is_key_name,
    key_id,
    parse_checkpoint,
    trust_of,
    verify_signatures,
)
from gateway.audit.keys import PemKey, new_pem, sign_note

NAME = "dep/replica/0"
KEY = PemKey(new_pem())
TRUST = trust_of((TrustedKey(NAME, KEY.public_key),))
POINT = Checkpoint(NAME, 12, b"\x07" * 32, ("time 2026-12-01T00:00:00.000000Z",))


def _signed(point: Checkpoint = POINT, key: PemKey = KEY, name: str = NAME) -> SignedCheckpoint:
    return SignedCheckpoint(point, (sign_note(key, name, point.text()),))


def test_the_key_id_is_that_of_signed_note() -> None:
    """Vector of Go's sumdb/note package: PeterNeumann+c74f20a3+ARpc2Qc…"""
    from base64 import b64decode

    encoded = b64decode("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    assert encoded[0] == 1
    assert key_id("PeterNeumann", encoded[1:]).hex() == "c74f20a3"


def test_a_published_note_of_another_tool_verifies() -> None:
    """The example note of Go's sumdb/note package is parsed and its signature holds."""
    from base64 import b64decode

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    text = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n"
    )
    line = (
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKv"
        "qfqdngotpRZb6KE6RyyBwJnAM="
    )
    raw = b64decode(line.split(" ")[2])
    assert raw[:4].hex() == "c74f20a3"
    public = b64decode("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")[1:]
    Ed25519PublicKey.from_public_bytes(public).verify(raw[4:], text.encode())
    assert NoteSignature("PeterNeumann", raw[:4], raw[4:]).line() == line + "\n"


def test_a_note_comes_back_as_it_was_and_verifies() -> None:
    signed = _signed()
    assert parse_checkpoint(signed.encode()) == signed
    assert verify_signatures(signed, TRUST) is None


def test_further_signatures_are_carried() -> None:
    witness = sign_note(PemKey(new_pem()), "witness.example", POINT.text())
    signed = SignedCheckpoint(POINT, (*_signed().signatures, witness))
    parsed = parse_checkpoint(signed.encode())
    assert parsed == signed
    assert verify_signatures(signed, TRUST) is None


def test_a_note_of_an_unknown_key_is_rogue() -> None:
    fault = verify_signatures(_signed(key=PemKey(new_pem())), TRUST)
    assert fault is not None
    assert fault.code == "rogue-signature"


def test_a_trusted_key_of_another_log_does_not_speak_for_this_one() -> None:
    other = TrustedKey("dep/replica/1", KEY.public_key)
    fault = verify_signatures(_signed(name="dep/replica/1"), trust_of((other,)))
    assert fault is not None
    assert fault.code == "rogue-signature"


def test_a_false_signature_under_a_trusted_key_id_is_bad_even_beside_a_good_one() -> None:
    good = _signed().signatures[0]
    bad = NoteSignature(good.name, good.key_id, bytes(64))
    for signatures in ((bad,), (good, bad), (NoteSignature(good.name, good.key_id, b"short"),)):
        fault = verify_signatures(SignedCheckpoint(POINT, signatures), TRUST)
        assert fault is not None
        assert fault.code == "bad-signature"


def test_a_changed_text_does_not_verify() -> None:
    changed = Checkpoint(NAME, 13, POINT.root, POINT.extensions)
    fault = verify_signatures(SignedCheckpoint(changed, _signed().signatures), TRUST)
    assert fault is not None
    assert fault.code == "bad-signature"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n12\n", b"\n012\n"),
        (b"\n12\n", b"\n-1\n"),
        (b"\n12\n", b"\n" + b"9" * 21 + b"\n"),
        (b"\n12\n", "\n١٢\n".encode()),
        (b"\n\n", b"\n"),
        ("— ".encode(), b"- "),
        (b"time", b"\xff"),
        (b"BwcH", b"Bwc"),
        (b"BwcH", b"Bwc="),
        (b"time 2026", b"\ntime 2026"),
        (b"dep/replica/0 ", b"dep+replica "),
    ],
)
def test_refuses_a_malformed_note(old: bytes, new: bytes) -> None:
    note = _signed().encode()
    assert old in note
    fault = parse_checkpoint(note.replace(old, new))
    assert isinstance(fault, NoteFault)
    assert fault.code == "malformed-checkpoint"


@pytest.mark.parametrize("note", [b"", b"\n\n", b"a\n1\n", b"x" * 9000, _signed().encode()[:-1]])
def test_refuses_a_note_without_lines(note: bytes) -> None:
    assert isinstance(parse_checkpoint(note), NoteFault)


def test_key_names_have_no_spaces_or_plus() -> None:
    assert is_key_name(NAME)
    assert not any(is_key_name(name) for name in ("", "a b", "a+b", "é", "a\n", "x" * 256))
