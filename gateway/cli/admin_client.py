"""A client of the admin API for the command line: one connection, one token, answers as values."""

from __future__ import annotations

import ipaddress
import json
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import click
import httpx

from gateway.domain.secret import Secret
from gateway.web.admin_table import PREFIX

_TIMEOUT_SECONDS = 120.0
#: The API refused: its problem document is on standard error.
REFUSED = 1
#: Nobody answers there, or what is asked for cannot be sent.
UNREACHABLE = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was no refusal; `digest` is the active one, where the API tells it."""

    body: dict[str, Any]
    digest: str


class AdminClient:
    """Asks the admin API at `place` (a URL or `unix:/PATH`). Raises `click.UsageError` for no such place."""

    def __init__(self, place: str, token: Secret) -> None:
        base, transport = place.rstrip("/"), None
        if place.startswith("unix:"):
            base, transport = "http://admin", httpx.HTTPTransport(uds=place.removeprefix("unix:"))
        else:
            _check_url(base)
        self._http = httpx.Client(
            base_url=base + PREFIX,
            headers={"authorization": f"Bearer {token.reveal()}"},
            transport=transport,
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
        )

    def read(self, path: str) -> Answer:
        """GET. Ends the command when refused."""
        return self._ask("GET", path)

    def change(
        self, method: str, path: str, body: object = None, *, match: str = "", key: str = ""
    ) -> Answer:
        """A change with its own key. Ends the command when refused."""
        headers = {"idempotency-key": key or secrets.token_hex(16)}
        if match:
            headers["if-match"] = f'"{match}"'
        return self._ask(method, path, body, headers)

    def _ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        try:
            reply = self._http.request(method, path, json=body, headers=headers)
            tree = json.loads(reply.content)
        except httpx.HTTPError as error:
            click.echo(f"tidegate: the admin API does not answer: {type(error).__name__}", err=True)
            raise click.exceptions.Exit(UNREACHABLE) from None
        except ValueError:
            click.echo("tidegate: what answers there is no admin API", err=True)
            raise click.exceptions.Exit(UNREACHABLE) from None
        if reply.status_code >= 400:
            _show_problem(tree)
            raise click.exceptions.Exit(REFUSED)
        return Answer(tree, reply.headers.get("etag", "").strip('"'))


def _check_url(base: str) -> None:
    parts = urlsplit(base)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path:
        raise click.UsageError("--url: expected https://HOST:PORT, http on loopback, or unix:/PATH")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        # fail-closed: an operator's token must not cross a network in clear.
        raise click.UsageError("--url: expected https for a host that is not this machine")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _show_problem(tree: dict[str, Any]) -> None:
    click.echo(f"refused: {tree.get('code')}: {tree.get('detail')}", err=True)
    for finding in tree.get("findings", ()):
        click.echo(f"  {finding['message']}", err=True)
    click.echo(f"request id {tree.get('request_id')}", err=True)
