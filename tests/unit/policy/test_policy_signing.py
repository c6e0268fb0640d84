from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.errors import ConfigurationError
from gateway.policy.signing import (
    FORMAT,
    Active,
    Signature,
    SignatureRefused,
    SignedBundle,
    Signer,
    check_revision,
    check_signatures,
    parse_signed,
    signer_of,
    trusted_signers,
)

BUNDLE = Active(7, "a" * 64)
PLAIN = SignedBundle(FORMAT, "bank", 7, BUNDLE.sha256)


@dataclass
class Person:
    name: str
    key: Ed25519PrivateKey

    @property
    def signer(self) -> Signer:
        return Signer(self.name, self.key.public_key().public_bytes_raw())

    def sign(self, signed: SignedBundle) -> Signature:
        raw = self.key.sign(signed.statement)
        return Signature(self.name, self.signer.key_id, base64.b64encode(raw).decode())


MAKER, CHECKER, STRANGER = (
    Person(name, Ed25519PrivateKey.from_private_bytes(bytes([at]) * 32))
    for at, name in enumerate(("maker", "checker", "stranger"), 1)
)
TRUSTED = (MAKER.signer, CHECKER.signer)


def signed_by(*people: Person, bundle: SignedBundle = PLAIN) -> SignedBundle:
    return msgspec.structs.replace(bundle, signatures=tuple(person.sign(bundle) for person in people))


def refusal(signed: SignedBundle | None, required: int = 2, trusted: tuple[Signer, ...] = TRUSTED) -> str:
    with pytest.raises(SignatureRefused) as caught:
        check_signatures(signed, "bank", BUNDLE, trusted, required)
    assert str(caught.value).startswith("bundle.sig: ")
    return caught.value.reason


def test_maker_and_checker_make_a_policy_act() -> None:
    names = check_signatures(signed_by(MAKER, CHECKER), "bank", BUNDLE, TRUSTED, 2)
    assert names == ("checker", "maker")


def test_the_statement_is_the_documented_text() -> None:
    assert msgspec.structs.replace(PLAIN, rollback_from=9).statement == (
        b"tidegate-bundle/1\npolicy bank\nrevision 7\nsha256 " + b"a" * 64 + b"\nrollback-from 9\n"
    )
    assert PLAIN.statement.endswith(b"\nrollback-from -\n")


def test_maker_is_not_checker() -> None:
    assert refusal(signed_by(MAKER, MAKER)) == "maker-is-checker"


def test_one_key_under_two_names_is_refused_in_the_settings() -> None:
    key = base64.b64encode(MAKER.signer.public_key).decode()
    with pytest.raises(ConfigurationError, match="each name and each key once"):
        trusted_signers([("maker", key), ("checker", key)], 2)
    other = base64.b64encode(CHECKER.signer.public_key).decode()
    with pytest.raises(ConfigurationError, match="each name and each key once"):
        trusted_signers([("maker", key), ("maker", other)], 2)


def test_the_makers_key_under_another_name_counts_nothing() -> None:
    double = Person("checker", MAKER.key)
    assert refusal(signed_by(MAKER, double)) == "unsigned"


@pytest.mark.parametrize(
    "signed",
    [None, PLAIN, signed_by(MAKER), signed_by(STRANGER, CHECKER)],
    ids=["no-file", "no-signature", "one", "stranger"],
)
def test_too_few_signatures_are_refused(signed: SignedBundle | None) -> None:
    assert refusal(signed) == "unsigned"


def test_demanded_signatures_without_trusted_signers_are_refused() -> None:
    assert refusal(signed_by(MAKER, CHECKER), trusted=()) == "unsigned"
    with pytest.raises(ConfigurationError, match=r"at least 2 policy\.signers"):
        trusted_signers([], 2)


@pytest.mark.parametrize(
    "change",
    [{"policy": "other"}, {"revision": 8}, {"sha256": "b" * 64}],
    ids=["policy", "revision", "files"],
)
@pytest.mark.parametrize("required", [0, 2])
def test_a_statement_about_something_else_is_refused(change: dict[str, object], required: int) -> None:
    other = msgspec.structs.replace(PLAIN, **change)
    assert refusal(signed_by(MAKER, CHECKER, bundle=other), required) == "bad-signature"


@pytest.mark.parametrize("required", [0, 1, 2])
def test_a_signature_that_does_not_hold_is_refused_however_many_others_do(required: int) -> None:
    wrong = Signature("checker", CHECKER.signer.key_id, base64.b64encode(bytes(64)).decode())
    signed = msgspec.structs.replace(PLAIN, signatures=(MAKER.sign(PLAIN), wrong))
    assert refusal(signed, required) == "bad-signature"
    for broken in ("!", "", "AAAA"):
        odd = msgspec.structs.replace(wrong, signature=broken)
        assert refusal(msgspec.structs.replace(PLAIN, signatures=(odd,)), required) == "bad-signature"


def test_a_signature_over_another_rollback_does_not_hold() -> None:
    moved = msgspec.structs.replace(signed_by(MAKER, CHECKER), rollback_from=100)
    assert refusal(moved) == "bad-signature"


def test_without_signers_nothing_is_checked() -> None:
    assert check_signatures(signed_by(STRANGER), "other", BUNDLE, (), 0) == ()
    assert check_signatures(None, "bank", BUNDLE, TRUSTED, 0) == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        msgspec.json.encode(PLAIN)[:-5],
        b"[]",
        msgspec.json.encode({"format": FORMAT}),
        msgspec.json.encode(msgspec.structs.replace(PLAIN, format="tidegate-bundle/9")),
        msgspec.json.encode(PLAIN)[:-1] + b',"extra":1}',
        b"\xff\xfe",
    ],
)
def test_a_half_written_or_odd_file_is_refused(content: bytes) -> None:
    with pytest.raises(SignatureRefused) as caught:
        parse_signed(content)
    assert caught.value.reason == "bad-signature"


def test_a_written_file_reads_back() -> None:
    signed = signed_by(MAKER, CHECKER)
    assert parse_signed(msgspec.json.encode(signed)) == signed


@pytest.mark.parametrize("key", ["", "x", "AAAA", base64.b64encode(bytes(33)).decode()])
def test_refuses_what_is_no_public_key(key: str) -> None:
    with pytest.raises(ConfigurationError, match="32 bytes in base64"):
        signer_of("maker", key)


@pytest.mark.parametrize(
    ("one", "active"),
    [(Active(0, "x"), None), (Active(8, "x"), BUNDLE), (BUNDLE, BUNDLE)],
)
@pytest.mark.parametrize("required", [0, 2])
def test_a_later_or_the_same_revision_may_act(one: Active, active: Active | None, required: int) -> None:
    assert check_revision(one, active, None, (), required) is False


def test_other_files_under_the_same_revision_need_no_signature_or_another_number() -> None:
    other = Active(7, "b" * 64)
    assert check_revision(other, BUNDLE, None, (), 0) is False
    with pytest.raises(SignatureRefused) as caught:
        check_revision(other, BUNDLE, None, ("maker", "checker"), 2)
    assert caught.value.reason == "same-revision"


@pytest.mark.parametrize(
    ("rollback_from", "signers"),
    [(None, ("maker",)), (6, ("maker",)), (7, ()), (99, ())],
)
def test_an_older_revision_is_refused_without_a_signed_rollback(
    rollback_from: int | None, signers: tuple[str, ...]
) -> None:
    signed = msgspec.structs.replace(PLAIN, revision=3, rollback_from=rollback_from)
    for required in (0, 2):
        with pytest.raises(SignatureRefused) as caught:
            check_revision(Active(3, "c"), BUNDLE, signed, signers, required)
        assert caught.value.reason == "older-revision"


def test_a_signed_rollback_names_the_newest_revision_that_it_replaces() -> None:
    signed = msgspec.structs.replace(PLAIN, revision=3, rollback_from=7)
    assert check_revision(Active(3, "c"), BUNDLE, signed, ("checker", "maker"), 2) is True
    # The same statement is of no use once a later revision acted.
    with pytest.raises(SignatureRefused):
        check_revision(Active(3, "c"), Active(8, "d"), signed, ("checker", "maker"), 2)
