"""The admin API of a real gateway process: settings for it, tokens, and a client that knows the rules."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from gateway.cli.local import LocalState
from gateway.cli.token import read_private_key
from gateway.identity.minting import Grant, mint_token
from tests.fakes.stack import GatewayProcess, free_port, start_gateway

ISSUER = "tidegate-operators"
AUDIENCE = "tidegate-admin"
OPERATORS = "operations"


@dataclass
class AdminStack:
    """A running gateway with its admin API."""

    gateway: GatewayProcess
    url: str
    folder: Path

    def token(
        self,
        *roles: str,
        subject: str = "olga",
        tenant: str = OPERATORS,
        scopes: tuple[str, ...] = (),
        token_id: str = "",
        ttl: int = 3600,
        audience: str = AUDIENCE,
    ) -> str:
        """An operator's token."""
        grant = Grant(
            ISSUER, audience, tenant, subject, int(time.time()), ttl, roles, scopes, token_id=token_id
        )
        return mint_token(read_private_key(self.gateway.state.private_key), grant)

    def client(self, *roles: str, **more: Any) -> AdminClient:
        """A client with a token of these roles."""
        return AdminClient(self.url, self.token(*roles, **more))


@dataclass
class AdminClient:
    """One operator. Changes get a fresh key and the digest that was read last, unless told otherwise."""

    url: str
    token: str
    http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=60))

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Read a path below `/admin/v1`."""
        return self.http.get(self.url + path, headers=self._headers(headers))

    def change(
        self, path: str, body: object = None, *, match: str | None = None, key: str = "", method: str = "POST"
    ) -> httpx.Response:
        """Send a change; `match` is the active digest ("" sends no If-Match, None the present one)."""
        headers = {"idempotency-key": key or secrets.token_hex(8)}
        digest = self.active() if match is None else match
        if digest:
            headers["if-match"] = f'"{digest}"'
        return self.http.request(method, self.url + path, json=body, headers=self._headers(headers))

    def active(self) -> str:
        """The active bundle's digest."""
        return str(self.get("/policy").json()["active"]["sha256"])

    def _headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}", **(more or {})}


def admin_settings(state: LocalState, listen: str, tenants: tuple[str, ...], extra: str = "") -> str:
    """TOML of the admin section, with the development keys as the operators' issuer."""
    names = ", ".join(f'"{name}"' for name in (OPERATORS, *tenants))
    return f"""
[admin]
listen = "{listen}"
operator_tenants = ["{OPERATORS}"]
{extra}
[[admin.issuers]]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
keys = "file:{state.key_set}"
tenants = [{names}]
"""


@contextmanager
def running_admin(
    directory: Path, *, admin_extra: str = "", signer_extra: str = "", **options: Any
) -> Iterator[AdminStack]:
    """A gateway with its admin API on a free port, ended at exit; `signer_extra` is TOML for the end."""
    port = free_port()
    state = LocalState(directory)
    text = admin_settings(state, f"127.0.0.1:{port}", ("demo", "acme"), admin_extra) + signer_extra
    gateway = start_gateway(directory, extra=text, **{"private": "http://127.0.0.1:9/v1", **options})
    try:
        yield AdminStack(gateway, f"http://127.0.0.1:{port}/admin/v1", gateway.policies)
    finally:
        gateway.stop()


def upload_of(folder: Path) -> dict[str, Any]:
    """A policy folder as the body of an upload."""
    return {
        "files": {
            path.relative_to(folder).as_posix(): path.read_text("utf-8")
            for path in sorted(folder.rglob("*"))
            if path.is_file() and _is_read(path.relative_to(folder))
        }
    }


def _is_read(path: Path) -> bool:
    top = path.parts[0]
    return (
        top == "protocols"
        or path.name == "protocols.lock"
        or (path.suffix in {".yaml", ".yml"} and (len(path.parts) == 1 or top == "cases"))
        or (top == "dictionaries" and path.suffix == ".txt")
    )


def revised(folder: Path, place: Path, revision: int) -> Path:
    """A copy of a policy folder with another revision, unsigned."""
    shutil.copytree(folder, place)
    (place / "bundle.sig").unlink(missing_ok=True)
    routing = place / "routing.yaml"
    lines = [line for line in routing.read_text("utf-8").splitlines() if not line.startswith("revision:")]
    routing.write_text(f"revision: {revision}\n" + "\n".join(lines) + "\n", "utf-8")
    return place
