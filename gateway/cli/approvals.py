"""`tidegate approvals list | show | approve | deny`: the desk of the people who agree to requests.

The commands ask a running gateway, which knows who they are by their token: what it records is a verified
person, not a name that was typed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click
import httpx

from gateway.errors import ConfigurationError
from gateway.settings import read_secret

_TIMEOUT_SECONDS = 15.0


@click.group()
def approvals() -> None:
    """List and decide requests that wait for a person."""


def _desk(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")(command)
    command = click.option(
        "--token",
        metavar="REF",
        default="env:TIDEGATE_TOKEN",
        show_default=True,
        help="Your token: file:PATH or env:NAME.",
    )(command)
    return click.option(
        "--url", default="http://127.0.0.1:8080", show_default=True, help="Base URL of the gateway."
    )(command)


@approvals.command(name="list")
@_desk
def list_command(url: str, token: str, as_json: bool) -> None:
    """Print the approvals that wait for you, and those that you asked for."""
    tree = _call("GET", url, "/v1/approvals", token)
    if as_json:
        click.echo(json.dumps(tree, indent=2))
        return
    for one in tree["data"]:
        places = ", ".join(one["destinations"])
        click.echo(f"{one['id']}  {one['state']:<8} {one['seconds_left']:>6} s  {one['level']} to {places}")
    if not tree["data"]:
        click.echo("nothing waits for you", err=True)


@approvals.command()
@click.argument("approval_id")
@_desk
def show(approval_id: str, url: str, token: str, as_json: bool) -> None:
    """Print what one approval is about."""
    _print(_call("GET", url, f"/v1/approvals/{_checked(approval_id)}", token), as_json)


@approvals.command()
@click.argument("approval_id")
@_desk
def approve(approval_id: str, url: str, token: str, as_json: bool) -> None:
    """Agree: the request may be sent once."""
    _print(_call("POST", url, f"/v1/approvals/{_checked(approval_id)}/approve", token), as_json)


@approvals.command()
@click.argument("approval_id")
@_desk
def deny(approval_id: str, url: str, token: str, as_json: bool) -> None:
    """Do not agree."""
    _print(_call("POST", url, f"/v1/approvals/{_checked(approval_id)}/deny", token), as_json)


def _checked(approval_id: str) -> str:
    """The id, when it can stand in a path."""
    if not (approval_id.isascii() and approval_id.replace("_", "").isalnum()):
        raise click.BadParameter("expected an id such as apr_0123…", param_hint="APPROVAL_ID")
    return approval_id


def _call(method: str, url: str, path: str, reference: str) -> Any:
    """The answer as a tree. Ends the command with status 1 for a refusal, 2 when there is no answer."""
    try:
        secret = read_secret(reference)
        headers = {"authorization": f"Bearer {secret.reveal()}"}
        with httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT_SECONDS) as client:
            answer = client.request(method, path)
            tree = answer.json()
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        click.echo(f"tidegate: {url}: no answer of a gateway ({type(error).__name__})", err=True)
        sys.exit(2)
    if answer.status_code != 200:
        told = tree.get("error", {}) if isinstance(tree, dict) else {}
        click.echo(f"refused ({told.get('code', answer.status_code)}): {told.get('message', '')}", err=True)
        sys.exit(1)
    return tree


def _print(tree: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(tree, indent=2))
        return
    width = max(map(len, tree))
    for key, value in tree.items():
        shown = ", ".join(value) if isinstance(value, list) else "" if value is None else value
        click.echo(f"{key:<{width}}  {shown}")
