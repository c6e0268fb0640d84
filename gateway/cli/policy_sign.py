"""`tidegate policy new-key | sign | signatures`: maker and checker put their names under a policy folder."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import click
import msgspec

from gateway.audit.keys import PemKey, new_pem
from gateway.cli.policy_changes import FOLDER
from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError
from gateway.policy.bundle import as_text, compile_and_test, top_of
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.fields import NAME
from gateway.policy.signing import (
    FORMAT,
    SIGNATURE_FILE,
    Active,
    Signature,
    SignedBundle,
    Signer,
    check_signatures,
    parse_signed,
    signer_of,
)
from gateway.protocols.registry import build_registry
from gateway.rollout.candidate import output_profiles, parse_yaml
from gateway.rollout.content import Content, read_content

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="new-key")
@click.option("--key", type=click.Path(path_type=Path), required=True, help="Private key file to make.")
@click.option("--name", required=True, help="Name of the person who will sign with it.")
def new_key_command(key: Path, name: str) -> None:
    """Make a person's signing key, and print the lines for the gateway's settings."""
    _check_name(name)
    pem = new_pem()
    try:
        handle = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise click.ClickException(f"--key: cannot be made: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(pem.reveal())
    public = base64.b64encode(PemKey(pem).public_key).decode()
    click.echo(f'[[policy.signers]]\nname = "{name}"\npublic_key = "{public}"')


@click.command(name="sign")
@click.argument("directory", type=FOLDER)
@click.option("--key", type=_FILE, required=True, help="Your private key, from `tidegate policy new-key`.")
@click.option("--name", required=True, help="Your name, as it stands in the gateway's settings.")
@click.option(
    "--rollback-from",
    type=click.IntRange(0),
    help="The newest revision that this older one may replace. Each signer has to name the same.",
)
def sign_command(directory: Path, key: Path, name: str, rollback_from: int | None) -> None:
    """Sign what DIRECTORY holds now. The maker signs first, the checker adds a second signature.

    The folder must be sound and its cases must hold. Signatures over other files or another statement are
    dropped. A second signature with the same key, or under the same name, is refused.
    """
    _check_name(name)
    try:
        signing = PemKey(Secret(key.read_text(encoding="ascii")))
        content = read_content(directory)
        policy = _sound(content)
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from None
    fresh = SignedBundle(FORMAT, policy.id, policy.revision, content.sha256, (), rollback_from)
    kept = _kept(content, fresh)
    me = Signer(name, signing.public_key)
    for other in kept:
        if _is_by(other, me):
            raise click.ClickException(
                f"already signed by {other.name} with this key or name: maker and checker are two persons"
            )
    mine = Signature(name, me.key_id, base64.b64encode(signing.sign(fresh.statement)).decode())
    signed = msgspec.structs.replace(fresh, signatures=(*kept, mine))
    _write(top_of(directory) / SIGNATURE_FILE, signed)
    click.echo(fresh.statement.decode(), nl=False)
    click.echo(f"signed by {', '.join(each.name for each in signed.signatures)}")


@click.command(name="signatures")
@click.argument("directory", type=FOLDER)
@click.option("--signer", "signers", multiple=True, help="NAME=PUBLIC_KEY of a person; may be repeated.")
@click.option("--required", type=click.IntRange(0, 2), default=0, help="How many must sign.")
def signatures_command(directory: Path, signers: tuple[str, ...], required: int) -> None:
    """Say who signed DIRECTORY. Exit status 1 when the signatures are not enough or do not hold."""
    try:
        pairs = [each.partition("=") for each in signers]
        trusted = [signer_of(name, key) for name, _, key in pairs]
        content = read_content(directory)
        policy = _sound(content)
        signed = None if content.signature is None else parse_signed(content.signature)
        bundle = Active(policy.revision, content.sha256)
        names = check_signatures(signed, policy.id, bundle, trusted, required)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"policy {policy.id} revision {policy.revision} sha256 {content.sha256}")
    click.echo(f"signed by {', '.join(names) or 'nobody that was named'}")


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise click.BadParameter("expected letters, digits, '.', '_', '/' and '-'", param_hint="--name")


def _sound(content: Content) -> CompiledPolicy:
    """The policy of the content, when it and its prompts are sound. Raises `ConfigurationError`."""
    policy = compile_and_test(as_text(content.policies))
    build_registry(content.protocols, content.lock, parse_yaml)
    output_profiles(policy)
    return policy


def _kept(content: Content, fresh: SignedBundle) -> tuple[Signature, ...]:
    """Signatures that are there already, when they are over the same statement."""
    if content.signature is None:
        return ()
    try:
        old = parse_signed(content.signature)
    except ConfigurationError as error:
        raise click.ClickException(f"{error}; remove it to start again") from None
    if old.statement == fresh.statement:
        return old.signatures
    click.echo(f"{SIGNATURE_FILE} was about another state or statement; its signatures are dropped", err=True)
    return ()


def _is_by(other: Signature, me: Signer) -> bool:
    """Whether a signature has my name, or was made with my key under another."""
    if other.name == me.name:
        return True
    same_key = Signer(other.name, me.public_key)
    return other.key_id == same_key.key_id


def _write(path: Path, signed: SignedBundle) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(signed), indent=2) + b"\n")
    draft.replace(path)
