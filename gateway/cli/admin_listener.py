"""The admin API's own listener beside the models': another port or a Unix socket, another application."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from gateway.administration import Place, place_of
from gateway.errors import ConfigurationError
from gateway.running import Gateway
from gateway.settings import Settings
from gateway.telemetry import log
from gateway.web.admin import build_admin_app
from gateway.web.wire import bounded_protocol

_STOP_SECONDS = 10


class AdminListener(uvicorn.Server):
    """uvicorn's server without signals of its own: it lives as long as the models' one."""

    _task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the other server."""
        yield

    def open(self, sockets: list[socket.socket] | None) -> None:
        """Serve from now on."""
        self._task = asyncio.create_task(self.serve(sockets), name="admin-listener")

    async def close(self) -> None:
        """Finish what runs, within a bound, and stop listening."""
        self.should_exit = True
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
            if not done:
                self._task.cancel()


async def open_admin(settings: Settings, gateway: Gateway) -> AdminListener | None:
    """The running listener, None when the settings want none. Raises `ConfigurationError`."""
    place = place_of(settings)
    if place is None or gateway.administration is None:
        return None
    sockets = None if place.path else [_bound(place)]
    if place.path:
        _claim(Path(place.path))
    server = settings.server
    config = uvicorn.Config(
        build_admin_app(gateway, gateway.administration),
        uds=place.path or None,
        http=bounded_protocol(
            server.max_header_bytes,
            server.header_timeout_seconds,
            server.body_timeout_seconds,
            gateway.note_wire_refusal,
        ),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        backlog=64,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    listener = AdminListener(config)
    listener.open(sockets)
    log().info("admin api listening", listen=settings.admin.listen)
    return listener


def _bound(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((place.host, place.port))
    except OSError as error:
        found.close()
        raise ConfigurationError(f"admin.listen: cannot listen there: {error.strerror}") from None
    found.setblocking(False)
    return found


def _claim(path: Path) -> None:
    """Leave a closed socket of mode 600 at the path: uvicorn takes its place and its mode.

    Raises `ConfigurationError` when the folder is open to others, or something else stands there.
    """
    try:
        folder = path.parent.stat()
        if stat.S_IMODE(folder.st_mode) & 0o022:
            # fail-closed: who may write there could put a socket of their own in this one's place.
            raise ConfigurationError(
                f"admin.listen: {path.parent}: expected a folder that only its owner writes"
            )
        if path.exists() and not path.is_socket():
            raise ConfigurationError(f"admin.listen: {path}: expected a socket or nothing")
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
                found.bind(str(path))
        finally:
            os.umask(before)
    except OSError as error:
        raise ConfigurationError(f"admin.listen: cannot listen there: {error.strerror}") from None
