"""Keys and settings for one machine: what `tidegate up` and the tests start from.

Nothing that is there already is overwritten, so a restart continues the same audit log.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from gateway.audit.checkpoint import TrustedKey
from gateway.audit.keys import PemKey, encode_trust, new_pem
from gateway.cli.token import DEFAULT_AUDIENCE, DEFAULT_ISSUER, KEY_SET_NAME, PRIVATE_KEY_NAME, write_new_key
from gateway.domain.secret import Secret

ORIGIN = "tidegate/local/0"


@dataclass(frozen=True, slots=True)
class LocalEndpoint:
    """A destination to bind: its base URL, a secret reference (empty: none), its places (0: unbounded)."""

    url: str
    credential: str = ""
    running: int = 0


@dataclass(frozen=True, slots=True)
class LocalState:
    """Where things lie below one folder."""

    directory: Path

    @property
    def settings(self) -> Path:
        """The settings file for `tidegate serve`."""
        return self.directory / "tidegate.toml"

    @property
    def private_key(self) -> Path:
        """Key that signs development tokens."""
        return self.directory / "identity" / PRIVATE_KEY_NAME

    @property
    def key_set(self) -> Path:
        """JWK set that the gateway verifies with."""
        return self.directory / "identity" / KEY_SET_NAME

    @property
    def audit(self) -> Path:
        """Folder of the audit log."""
        return self.directory / "audit"

    @property
    def audit_key(self) -> Path:
        """Private key of the audit log's checkpoints."""
        return self.directory / "audit-signing-key.pem"

    @property
    def trust(self) -> Path:
        """Public keys for `tidegate audit verify --trust`."""
        return self.directory / "audit-keys.json"

    @property
    def pepper(self) -> Path:
        """Key of subject digests."""
        return self.directory / "pepper"

    @property
    def node_key(self) -> Path:
        """Key that the private node asks for."""
        return self.directory / "node.key"


def prepare(state: LocalState) -> None:
    """Make what is missing: folder, token keys, audit key with trust file, pepper, node key."""
    state.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not state.private_key.exists():
        write_new_key(state.private_key.parent)
    if not state.audit_key.exists():
        pem = new_pem()
        _write_private(state.audit_key, pem.reveal())
        public = PemKey(pem).public_key
        state.trust.write_text(encode_trust((TrustedKey(ORIGIN, public),)), encoding="utf-8")
    for path in (state.pepper, state.node_key):
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(32) + "\n")
    state.audit.mkdir(mode=0o700, exist_ok=True)


def settings_text(
    state: LocalState,
    *,
    host: str,
    port: int,
    policies: Path,
    destinations: dict[str, LocalEndpoint],
    tenants: tuple[str, ...] = ("demo", "acme"),
    redis_url: str = "",
    extra: str = "",
) -> str:
    """A settings file for this folder. `extra` is TOML that is put at the end."""
    lines = [
        "# Written by `tidegate up` at each start. To keep changes, copy it and use `tidegate serve`.",
        f"pepper = {_quoted(f'file:{state.pepper}')}",
        "",
        "[server]",
        f"host = {_quoted(host)}",
        f"port = {port}",
        "",
        "[policy]",
        f"directory = {_quoted(str(policies))}",
        "",
        "[sensitivity]",
        "# There is no contextual model yet; running without one has to be said in words.",
        'contextual_model = "none"',
        "",
        "[audit]",
        f"directory = {_quoted(str(state.audit))}",
        f"signing_key = {_quoted(f'file:{state.audit_key}')}",
        f"origin = {_quoted(ORIGIN)}",
        "# One small machine that also runs the model: its disk may be busy for longer than the default.",
        "deadline_ms = 2000",
        "",
        "[limits]",
        f"redis_url = {_quoted(redis_url)}",
        "",
        "[[identity.issuers]]",
        f"issuer = {_quoted(DEFAULT_ISSUER)}",
        f"audience = {_quoted(DEFAULT_AUDIENCE)}",
        f"keys = {_quoted(f'file:{state.key_set}')}",
        f"tenants = [{', '.join(_quoted(name) for name in tenants)}]",
    ]
    for name, endpoint in destinations.items():
        lines += ["", f"[destinations.{name}]", f"url = {_quoted(endpoint.url)}"]
        if endpoint.credential:
            lines.append(f"credential = {_quoted(endpoint.credential)}")
        if endpoint.running:
            lines += ["priority = true", f"queue = {{ running = {endpoint.running} }}"]
    return "\n".join(lines) + "\n" + extra


def read_line(path: Path) -> Secret:
    """First line of a secret file."""
    return Secret(path.read_text(encoding="utf-8").strip())


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _quoted(text: str) -> str:
    """A TOML basic string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
