"""`tidegate token`: development tokens from a local key, and the key itself.

For development and tests only: in production your identity provider signs, and the gateway holds no
private key of an issuer.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import click

from gateway.errors import ConfigurationError
from gateway.identity import minting

PRIVATE_KEY_NAME = "signing-key.pem"
KEY_SET_NAME = "jwks.json"
DEFAULT_ISSUER = "tidegate-development"
DEFAULT_AUDIENCE = "tidegate"
_MAX_PEM_BYTES = 16 * 1024


@click.command()
@click.option(
    "--new-key", type=click.Path(path_type=Path), metavar="DIR", help="Make a key pair in DIR and end."
)
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Private key in PEM.",
)
@click.option("--issuer", default=DEFAULT_ISSUER, show_default=True, help="As in the gateway's settings.")
@click.option("--audience", default=DEFAULT_AUDIENCE, show_default=True, help="As in the gateway's settings.")
@click.option("--tenant", help="Tenant that the caller belongs to.")
@click.option("--subject", help="Name of the caller.")
@click.option("--role", "roles", multiple=True, help="A role; may be repeated.")
@click.option("--scope", "scopes", multiple=True, help="A scope; may be repeated.")
@click.option("--client-id", default="", help="Application that the token is for (azp).")
@click.option("--id", "token_id", default="", help="Id of the token (jti); one-time tokens need one.")
@click.option("--ttl", default=3600, show_default=True, type=click.IntRange(1, 30 * 86_400), help="Seconds.")
def token(
    new_key: Path | None,
    key: Path | None,
    issuer: str,
    audience: str,
    tenant: str | None,
    subject: str | None,
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    client_id: str,
    token_id: str,
    ttl: int,
) -> None:
    """Print a development token, or make the key pair that signs them.

    \b
    tidegate token --new-key var/identity
    tidegate token --key var/identity/signing-key.pem --tenant acme --subject alice --role user
    """
    try:
        if new_key is not None:
            write_new_key(new_key)
            click.echo(f"{new_key / PRIVATE_KEY_NAME} (keep it secret)\n{new_key / KEY_SET_NAME}", err=True)
            return
        if key is None or not tenant or not subject:
            raise click.UsageError("--key, --tenant and --subject are needed for a token (or --new-key DIR).")
        grant = minting.Grant(
            issuer,
            audience,
            tenant,
            subject,
            int(time.time()),
            ttl,
            roles,
            scopes,
            client_id=client_id,
            token_id=token_id,
        )
        click.echo(minting.mint_token(read_private_key(key), grant))
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)


def write_new_key(directory: Path) -> None:
    """Write `signing-key.pem` (mode 600) and `jwks.json` into `directory`, which is made when missing.

    Raises `ConfigurationError` when one of them is there already: a key is never overwritten.
    """
    pair = minting.new_key()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(directory / PRIVATE_KEY_NAME, pair.private_pem, 0o600)
        _write_new(directory / KEY_SET_NAME, pair.key_set, 0o644)
    except FileExistsError as error:
        raise ConfigurationError(
            f"{error.filename}: exists already and is not overwritten; remove it or choose another folder"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{directory}: cannot be written: {error.strerror}") from None


def read_private_key(path: Path) -> bytes:
    """The PEM in `path`. Raises `ConfigurationError` when others than its owner may read it."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            pem = file.read(_MAX_PEM_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        # fail-closed: a key that others can read may sign for anybody.
        raise ConfigurationError(f"{path}: expected mode 600, found {mode:o}; run chmod 600 and retry")
    return pem


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist; its mode is right from the first moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
