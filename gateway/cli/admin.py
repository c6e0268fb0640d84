"""`tidegate admin`: what is in force in a running gateway, and changes of it, over its admin API.

Exit status 0: done. 1: the API refused, and says why. 2: nobody answers, or wrong usage.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.cli.admin_client import AdminClient, Answer
from gateway.cli.policy_changes import FOLDER
from gateway.errors import ConfigurationError
from gateway.policy.signing import SIGNATURE_FILE, SignedBundle, parse_signed
from gateway.rollout.content import read_content
from gateway.rollout.store import files_of
from gateway.settings import read_secret

_SHORT = 12
_MATCH = click.option(
    "--match", default="", help="Active digest that you decided on; else the one that acts when this runs."
)
_KEY = click.option(
    "--key", default="", help="Idempotency key; give the same to repeat a call. Default: new."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


@click.group()
@click.option(
    "--url",
    envvar="TIDEGATE_ADMIN_URL",
    default="http://127.0.0.1:8081",
    show_default=True,
    help="The admin API: https://HOST:PORT, http on loopback, or unix:/PATH.",
)
@click.option(
    "--token",
    "reference",
    default="env:TIDEGATE_ADMIN_TOKEN",
    show_default=True,
    help="Where your token is: file:PATH or env:NAME. Never the token itself.",
)
@click.pass_context
def admin(context: click.Context, url: str, reference: str) -> None:
    """Ask and change a running gateway over its admin API."""

    def client() -> AdminClient:
        try:
            return AdminClient(url, read_secret(reference))
        except ConfigurationError as error:
            raise click.UsageError(f"--token: {error}") from None

    context.obj = client


@admin.command()
@_JSON
@click.pass_obj
def status(client: Callable[[], AdminClient], as_json: bool) -> None:
    """Say which policy decides, since when, and who signed it."""
    answer = client().read("/policy")
    if as_json:
        _print(answer)
        return
    tree = answer.body
    click.echo(f"active     {_name(tree['active'])}")
    click.echo(f"since      {tree['since']}")
    click.echo(f"signed by  {', '.join(tree['signers']) or 'nobody'} ({tree['required_signers']} required)")
    shadow = tree["shadow"]
    click.echo(
        f"shadow     {shadow['id']} {shadow['version']} revision {shadow['revision']}"
        if shadow
        else "shadow     none"
    )
    rejection = tree["last_rejection"]
    if rejection:
        click.echo(f"rejected   {rejection['at']} {rejection['code']}")
        for finding in rejection["findings"]:
            click.echo(f"           {finding['message']}")


@admin.command()
@_JSON
@click.pass_obj
def revisions(client: Callable[[], AdminClient], as_json: bool) -> None:
    """List the stored bundles, newest first."""
    answer = client().read("/policy/revisions")
    if as_json:
        _print(answer)
        return
    for bundle in answer.body["bundles"]:
        mark = "*" if bundle["is_active"] else " "
        missing = f", {bundle['missing_signatures']} missing" if bundle["missing_signatures"] else ""
        acted = bundle["activated_at"] or "never"
        signers = ", ".join(bundle["signers"]) or "nobody"
        click.echo(f"{mark} {_name(bundle['name'])}  acted {acted}  signed by {signers}{missing}")


@admin.command()
@click.argument("directory", type=FOLDER)
@_KEY
@_JSON
@click.pass_obj
def upload(client: Callable[[], AdminClient], directory: Path, key: str, as_json: bool) -> None:
    """Send the policy folder DIRECTORY as a candidate. It is checked and stored; it does not act."""
    try:
        content = read_content(directory)
        signed = None if content.signature is None else parse_signed(content.signature)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
    body = {"files": files_of(content), "signature": None if signed is None else msgspec.to_builtins(signed)}
    _show_bundle(client().change("POST", "/policy/bundles", body, key=key), as_json)


@admin.command()
@click.argument("sha256")
@click.argument("directory", type=FOLDER)
@click.option("--name", required=True, help="Your name, as it stands in the gateway's settings.")
@_KEY
@_JSON
@click.pass_obj
def countersign(
    client: Callable[[], AdminClient], sha256: str, directory: Path, name: str, key: str, as_json: bool
) -> None:
    """Send your signature of DIRECTORY for the stored bundle SHA256.

    Sign your own copy first, with `tidegate policy sign`: what you read is then what you signed.
    """
    signed = _signed(directory, sha256)
    mine = [each for each in signed.signatures if each.name == name]
    if not mine:
        raise click.ClickException(f"{directory}/{SIGNATURE_FILE}: expected a signature of {name}")
    body = {"signature": msgspec.to_builtins(mine[0])}
    _show_bundle(client().change("POST", f"/policy/bundles/{sha256}/signatures", body, key=key), as_json)


def _signed(directory: Path, sha256: str) -> SignedBundle:
    try:
        content = read_content(directory)
        if content.signature is None or content.sha256 != sha256:
            raise click.ClickException(f"{directory}: expected a signed folder with the digest {sha256}")
        return parse_signed(content.signature)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None


@admin.command()
@click.argument("sha256")
@_MATCH
@_KEY
@_JSON
@click.pass_obj
def activate(client: Callable[[], AdminClient], sha256: str, match: str, key: str, as_json: bool) -> None:
    """Let the stored bundle SHA256 act."""
    _change(client(), "POST", "/policy/activate", {"sha256": sha256}, match, key, as_json)


@admin.command()
@click.argument("revision", type=click.IntRange(0))
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option("--signed", type=FOLDER, help="Folder with the signed rollback, where signatures are required.")
@_MATCH
@_KEY
@_JSON
@click.pass_obj
def rollback(
    client: Callable[[], AdminClient],
    revision: int,
    reason: str,
    signed: Path | None,
    match: str,
    key: str,
    as_json: bool,
) -> None:
    """Go back to REVISION, which acted before."""
    body: dict[str, Any] = {"to_revision": revision, "reason": reason}
    if signed is not None:
        try:
            content = read_content(signed)
        except ConfigurationError as error:
            raise click.ClickException(str(error)) from None
        body["signature"] = msgspec.to_builtins(_signed(signed, content.sha256))
    _change(client(), "POST", "/policy/rollback", body, match, key, as_json)


@admin.command()
@click.argument("sha256", required=False)
@click.option("--end", is_flag=True, help="End the comparison.")
@_MATCH
@_KEY
@_JSON
@click.pass_obj
def shadow(
    client: Callable[[], AdminClient], sha256: str | None, end: bool, match: str, key: str, as_json: bool
) -> None:
    """Let the stored bundle SHA256 decide beside the active policy, only to be recorded."""
    if end == (sha256 is not None):
        raise click.UsageError("give SHA256 or --end")
    method = "DELETE" if end else "POST"
    _change(client(), method, "/policy/shadow", None if end else {"sha256": sha256}, match, key, as_json)


@admin.command()
@_MATCH
@_KEY
@_JSON
@click.pass_obj
def reload(client: Callable[[], AdminClient], match: str, key: str, as_json: bool) -> None:
    """Let the gateway look at its policy folder now."""
    _change(client(), "POST", "/policy/reload", None, match, key, as_json)


def _change(
    api: AdminClient, method: str, path: str, body: object, match: str, key: str, as_json: bool
) -> None:
    digest = match or api.read("/policy").digest
    answer = api.change(method, path, body, match=digest, key=key)
    if as_json:
        _print(answer)
    else:
        click.echo(f"{answer.body['outcome']}: active is {_name(answer.body['active'])}")


def _show_bundle(answer: Answer, as_json: bool) -> None:
    if as_json:
        _print(answer)
        return
    click.echo(f"stored  {_name(answer.body['name'])}")
    click.echo(f"sha256  {answer.body['name']['sha256']}")
    signers = ", ".join(answer.body["signers"]) or "nobody"
    click.echo(f"signed by {signers}, {answer.body['missing_signatures']} missing")


def _print(answer: Answer) -> None:
    click.echo(json.dumps(answer.body, indent=2))


def _name(name: dict[str, Any]) -> str:
    return f"{name['id']} {name['version']} revision {name['revision']} sha256 {name['sha256'][:_SHORT]}"
