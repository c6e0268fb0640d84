"""Sockets to destinations: TLS with the company's CA, client certificates, an egress proxy, pinned addresses.

Invariants
1. Every socket goes to an address that the rule of its URL allows; the check is made on the very address
   that is connected to, so there is no time between check and use.
2. Names are resolved anew for each connection.
3. TLS is 1.2 or newer and always verified. With a CA of its own, a destination trusts that one only.
"""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError
from gateway.upstream.credentials import file_signature
from gateway.upstream.networks import AddressRule, address_rule

#: Below the 5 s after which uvicorn-based servers (vLLM) close an idle connection.
_KEEPALIVE_SECONDS = 4.0


class AddressNotAllowed(PermissionError):
    """The name of a destination resolved to an address outside its networks."""


@dataclass(frozen=True, slots=True)
class Transport:
    """How to reach a URL beside its address. Files are PEM; `proxy_credential` is `user:password`.

    `networks` are CIDR ranges for what this process connects to: the destination, or the proxy.
    """

    ca_file: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""
    proxy: str = ""
    proxy_credential: Secret | None = None
    networks: tuple[str, ...] = ()
    max_connections: int = 512


@dataclass(slots=True)
class Gate:
    """The address check of one replica's sockets; `hosted` is what the policy says of the destination."""

    rule: AddressRule
    hosted: bool = True

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """A socket for one resolved address. Raises `AddressNotAllowed`."""
        family, kind, protocol, _, address = info
        if not self.rule.allows(str(address[0]), hosted=self.hosted):
            # fail-closed: whoever answers for a name does not decide where the request goes.
            raise AddressNotAllowed("address not allowed")
        return socket.socket(family, kind, protocol)


@dataclass(slots=True)
class Connector:
    """Connections to one URL."""

    transport: AiohttpTransport
    gate: Gate
    is_proxied: bool
    _tls: ssl.SSLContext | None
    _files: Transport
    _seen: tuple[object, ...] = field(default=())

    def note_place(self, *, hosted: bool) -> None:
        """What the policy says of this destination now; a proxy is always one of the company's."""
        self.gate.hosted = hosted and not self.is_proxied

    def renew(self) -> None:
        """Take a replaced client certificate for the next handshakes. Raises `ConfigurationError`."""
        seen = _signatures(self._files)
        if self._tls is not None and seen != self._seen:
            self._seen = seen
            _load_client(self._tls, self._files)


def connector_for(url: str, way: Transport) -> Connector:
    """Connections to a URL. Call it inside the running loop. Raises `ConfigurationError`."""
    seen = _signatures(way)
    tls = _tls(way)
    gate = Gate(address_rule(urlsplit(way.proxy or url).hostname or "", way.networks))
    connector = aiohttp.TCPConnector(
        limit=way.max_connections,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        use_dns_cache=False,
        ssl=True if tls is None else tls,
        socket_factory=gate.open_socket,
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
        timeout=aiohttp.ClientTimeout(total=None),
    )
    transport = AiohttpTransport(client=session, trust_env=False, verify=False, proxy=_proxy(way))
    return Connector(transport, gate, bool(way.proxy), tls, way, seen)


def _proxy(way: Transport) -> httpx.Proxy | None:
    if not way.proxy:
        return None
    if way.proxy_credential is None:
        return httpx.Proxy(way.proxy)
    if ":" not in way.proxy_credential.reveal():
        raise ConfigurationError("proxy_credential: expected user:password in the secret")
    word = b64encode(way.proxy_credential.reveal().encode()).decode()
    return httpx.Proxy(way.proxy, headers={"Proxy-Authorization": f"Basic {word}"})


def _tls(way: Transport) -> ssl.SSLContext | None:
    if not (way.ca_file or way.client_cert_file):
        return None
    try:
        context = ssl.create_default_context(cafile=way.ca_file or None)
    except OSError:
        raise ConfigurationError(f"ca_file: {way.ca_file}: expected certificates in PEM") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_client(context, way)
    return context


def _load_client(context: ssl.SSLContext, way: Transport) -> None:
    if not way.client_cert_file:
        return
    try:
        # An encrypted key would make OpenSSL ask on the terminal; an empty password makes it fail instead.
        context.load_cert_chain(way.client_cert_file, way.client_key_file or None, password="")
    except OSError:
        raise ConfigurationError(
            f"client_cert_file: {way.client_cert_file}: expected a certificate with its key in PEM"
        ) from None


def _signatures(way: Transport) -> tuple[object, ...]:
    return file_signature(way.client_cert_file), file_signature(way.client_key_file)
