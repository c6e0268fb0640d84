"""How a destination is reached: pinned addresses, company CA, client certificate, proxy, rotated keys."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.secret import Secret
from gateway.errors import ConfigurationError, Refusal
from gateway.upstream.connector import Transport
from gateway.upstream.credentials import RotatingSecret
from gateway.upstream.pool import ConnectionPool
from tests.fakes.authority import Authority
from tests.integration.test_upstream_pool import KEY, admitted, pool_for

pytestmark = pytest.mark.integration

ANSWER = b"data: [DONE]\n\n"
LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass
class Server:
    """An upstream on loopback; keeps the head of each request and the client's certificate name."""

    port: int = 0
    heads: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    connection_count: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        peer = writer.get_extra_info("peercert") or {}
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(size)
            self.heads.append(head.decode())
            self.subjects += [value for row in peer.get("subject", ()) for _, value in row]
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n" % len(ANSWER) + ANSWER
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


def server_tls(authority: Authority, *, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.ca_file)
    return context


async def ask(pool: ConnectionPool, place: int = 0) -> str:
    """The code of one attempt at a place of the permit: hosted first, then private."""
    request = await admitted()
    try:
        answer = await pool.open(request, request.permit.destinations[place])
        async for _ in answer.chunks():
            pass
        await answer.close()
    except Refusal as refusal:
        return refusal.code
    return "answered"


# -- addresses -------------------------------------------------------------------------------------


async def test_a_name_is_resolved_and_checked_at_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebound name: what was a public address becomes the metadata service, or loopback."""
    answers = ["127.0.0.1", "127.0.0.1", "169.254.169.254", "10.0.0.1", "127.0.0.1"]
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host != "model.example":
            return real(host, port, *args, **more)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers[len(asked) - 1], port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with serving() as server:
        way = Transport(networks=("127.0.0.0/8",))
        async with pool_for(f"http://model.example:{server.port}/v1", way=way) as pool:
            codes = [await ask(pool) for _ in answers]
    refused = "upstream-address-not-allowed"
    assert codes == ["answered", "answered", refused, refused, "answered"]
    assert len(asked) == 5, "no answer of the resolver is kept"
    assert len(server.heads) == 3


@pytest.mark.parametrize(
    ("place", "networks", "code"),
    [
        (0, (), "upstream-address-not-allowed"),
        (0, LOOPBACK, "answered"),
        (1, (), "answered"),
        (1, ("10.0.0.0/8",), "upstream-address-not-allowed"),
    ],
)
async def test_a_name_leads_only_where_its_destination_lives(
    place: int, networks: tuple[str, ...], code: str
) -> None:
    async with serving() as server:
        way = Transport(networks=networks)
        async with pool_for(f"http://localhost:{server.port}/v1", way=way) as pool:
            assert await ask(pool, place) == code
    assert server.connection_count == (code == "answered")


async def test_an_address_that_is_not_allowed_opens_the_breaker_and_is_not_tried_again() -> None:
    way = Transport(networks=("10.0.0.0/8",))
    async with serving() as server, pool_for(f"http://127.0.0.1:{server.port}/v1", way=way) as pool:
        codes = [await ask(pool) for _ in range(6)]
    assert codes == ["upstream-address-not-allowed"] * 5 + ["upstream-circuit-open"]
    assert server.connection_count == 0


async def test_a_network_that_is_none_ends_the_start() -> None:
    with pytest.raises(
        ConfigurationError, match=r"destinations\.hosted-openai\.networks: expected an address"
    ):
        async with pool_for("http://127.0.0.1:1/v1", way=Transport(networks=("intern",))):
            pass


# -- TLS -------------------------------------------------------------------------------------------


async def test_only_the_companys_authority_is_trusted(tmp_path: Path) -> None:
    company, other = Authority(tmp_path, "company"), Authority(tmp_path, "other")
    async with serving(server_tls(company)) as server:
        url = f"https://127.0.0.1:{server.port}/v1"
        for way, code in (
            (Transport(), "upstream-tls-failed"),
            (Transport(ca_file=str(other.ca_file)), "upstream-tls-failed"),
            (Transport(ca_file=str(company.ca_file)), "answered"),
        ):
            async with pool_for(url, way=way) as pool:
                assert await ask(pool) == code
    assert len(server.heads) == 1


async def test_a_certificate_for_another_name_is_not_taken(tmp_path: Path) -> None:
    company = Authority(tmp_path, "company")
    async with serving(server_tls(company)) as server:
        way = Transport(ca_file=str(company.ca_file), networks=LOOPBACK)
        async with pool_for(f"https://127.0.0.2:{server.port}/v1", way=way) as pool:
            assert await ask(pool) in {"upstream-tls-failed", "upstream-unreachable"}
        async with pool_for(f"https://localhost:{server.port}/v1", way=way) as pool:
            assert await ask(pool) == "answered"


async def test_a_client_certificate_is_shown_and_taken_anew_when_it_changes(tmp_path: Path) -> None:
    company = Authority(tmp_path, "company")
    cert, key = company.issue("gateway-one", is_client=True)
    way = Transport(str(company.ca_file), str(cert), str(key))
    faults: list[ConfigurationError] = []
    async with serving(server_tls(company, wants_client=True)) as server:
        url = f"https://127.0.0.1:{server.port}/v1"
        async with pool_for(url, way=replace(way, client_cert_file="", client_key_file="")) as pool:
            assert await ask(pool) != "answered"
        async with pool_for(url, way=way, on_fault=faults.append) as pool:
            assert await ask(pool) == "answered"
            second_cert, second_key = company.issue("gateway-two", is_client=True)
            second_key.replace(key)
            second_cert.replace(cert)
            await until_asked(pool, lambda: server.subjects[-1] == "gateway-two")
            cert.write_text("no certificate")
            await until_asked(pool, lambda: bool(faults))
            assert await ask(pool) == "answered", "the last good one stays in use"
    assert server.subjects[0] == "gateway-one"
    assert str(cert) in str(faults[0])


@pytest.mark.parametrize("name", ["ca_file", "client_cert_file"])
async def test_a_file_that_is_no_certificate_ends_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    way = Transport(**{name: str(tmp_path / "bad.pem")})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=rf"hosted-openai\.{name}"):
        async with pool_for("https://127.0.0.1:1/v1", way=way):
            pass


async def until_asked(pool: ConnectionPool, condition: Any) -> None:
    """Ask again until it is so; files are looked at once a second."""
    async with asyncio.timeout(30):
        while not condition():
            assert await ask(pool) == "answered"
            await asyncio.sleep(0.1)


# -- proxy -----------------------------------------------------------------------------------------


@dataclass
class Proxy:
    """An egress proxy that speaks CONNECT, and wants a password when it has one."""

    port: int = 0
    password: str = ""
    heads: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            word = base64.b64encode(self.password.encode()).decode()
            if self.password and f"Basic {word}" not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                return
            host, _, port = head.split(" ")[1].rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        finally:
            writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxying(password: str = "") -> AsyncIterator[Proxy]:
    proxy = Proxy(password=password)
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as listening:
        proxy.port = listening.sockets[0].getsockname()[1]
        yield proxy


@pytest.mark.parametrize(
    ("credential", "code"), [("gate:word", "answered"), ("gate:wrong", "upstream-proxy-refused")]
)
async def test_an_egress_proxy_sees_the_address_and_nothing_else(
    tmp_path: Path, credential: str, code: str
) -> None:
    company = Authority(tmp_path, "company")
    async with serving(server_tls(company)) as server, proxying("gate:word") as proxy:
        way = Transport(
            ca_file=str(company.ca_file),
            proxy=f"http://127.0.0.1:{proxy.port}",
            proxy_credential=Secret(credential),
        )
        assert credential not in repr(way)
        async with pool_for(f"https://127.0.0.1:{server.port}/v1", way=way) as pool:
            assert await ask(pool) == code
    assert all(KEY.reveal() not in head and "hi" not in head.split("\r\n\r\n")[1] for head in proxy.heads)
    assert len(server.heads) == (code == "answered")


async def test_the_proxys_address_is_pinned_too(tmp_path: Path) -> None:
    async with proxying() as proxy:
        way = Transport(proxy=f"http://127.0.0.1:{proxy.port}", networks=("10.0.0.0/8",))
        async with pool_for("https://127.0.0.1:1/v1", way=way) as pool:
            assert await ask(pool) == "upstream-address-not-allowed"
    assert proxy.heads == []


# -- keys ------------------------------------------------------------------------------------------


async def test_a_key_in_a_file_is_taken_anew_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("key-of-today")
    credential = RotatingSecret(f"file:{path}", lambda error: None)
    async with (
        serving() as server,
        pool_for(f"http://127.0.0.1:{server.port}/v1", credential=credential.current) as pool,
    ):
        assert await ask(pool) == "answered"
        path.write_text("key-of-tomorrow")
        await until_asked(pool, lambda: "Bearer key-of-tomorrow" in server.heads[-1])
        path.unlink()
        assert await ask(pool) == "answered"
    assert "Bearer key-of-today" in server.heads[0]
    assert "Bearer key-of-tomorrow" in server.heads[-1]
