"""`tidegate token`: keys are kept close, tokens verify."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.token import DEFAULT_AUDIENCE, DEFAULT_ISSUER, token
from gateway.identity.keys import parse_key_set
from gateway.identity.tokens import check_claims, read_token, verify_signature
from tests.fakes.tokens import issuer_settings


def run(*arguments: object) -> Result:
    return CliRunner().invoke(token, [str(argument) for argument in arguments])


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder with a fresh pair."""
    assert run("--new-key", tmp_path / "new" / "identity").exit_code == 0
    return tmp_path / "new" / "identity"


def test_writes_a_private_key_for_its_owner_only(keys: Path) -> None:
    assert stat.S_IMODE((keys / "signing-key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert len(parse_key_set((keys / "jwks.json").read_bytes()).keys) == 1


def test_never_overwrites_a_key(keys: Path) -> None:
    before = (keys / "signing-key.pem").read_bytes()
    result = run("--new-key", keys)
    assert result.exit_code == 2
    assert "exists already" in result.stderr
    assert (keys / "signing-key.pem").read_bytes() == before


def test_prints_a_token_that_the_key_set_verifies(keys: Path) -> None:
    result = run(
        *("--key", keys / "signing-key.pem", "--tenant", "acme", "--subject", "alice", "--ttl", 60),
        *("--role", "user", "--role", "auditor", "--scope", "chat", "--client-id", "app-1"),
    )
    assert result.exit_code == 0, result.stderr
    issuer = issuer_settings(issuer=DEFAULT_ISSUER, audience=DEFAULT_AUDIENCE)
    unverified = read_token(result.stdout.strip())
    key = parse_key_set((keys / "jwks.json").read_bytes()).keys[unverified.key_id]
    verify_signature(unverified, key, issuer)
    claims = check_claims(unverified.claims, issuer, time.time(), 5)
    assert (claims.tenant, claims.subject, claims.client_id) == ("acme", "alice", "app-1")
    assert claims.roles == {"user", "auditor"}
    assert claims.scopes == {"chat"}
    assert claims.expires_at_seconds - time.time() <= 60


def test_refuses_a_key_that_others_can_read(keys: Path) -> None:
    (keys / "signing-key.pem").chmod(0o640)
    result = run("--key", keys / "signing-key.pem", "--tenant", "acme", "--subject", "alice")
    assert result.exit_code == 2
    assert "expected mode 600, found 640" in result.stderr
    assert result.stdout == ""


def test_says_what_is_missing_or_wrong(keys: Path, tmp_path: Path) -> None:
    pem = keys / "signing-key.pem"
    junk = tmp_path / "junk.pem"
    junk.write_bytes(b"junk")
    junk.chmod(0o600)
    assert "--tenant" in run("--key", pem, "--subject", "alice").stderr
    assert "cannot be read" in run("--key", tmp_path / "no", "--tenant", "a", "--subject", "b").stderr
    assert "Ed25519" in run("--key", junk, "--tenant", "a", "--subject", "b").stderr
    assert run("--key", pem, "--tenant", "a", "--subject", "b", "--ttl", 0).exit_code == 2
    assert "cannot be written" in run("--new-key", junk / "folder").stderr
