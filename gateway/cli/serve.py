"""`tidegate serve SETTINGS`: run one gateway process until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click
import uvicorn

from gateway.assembly import open_gateway
from gateway.cli.admin_listener import open_admin
from gateway.errors import ConfigurationError
from gateway.running import Gateway
from gateway.settings import Settings, load_settings
from gateway.telemetry import configure_logging, log
from gateway.web.app import build_app
from gateway.web.wire import bounded_protocol

#: Time in which answers that were ended tell their clients and write their records.
CLOSING_SECONDS = 10


@click.command()
@click.argument("settings", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def serve(settings: Path) -> None:
    """Serve with the settings of a TOML file."""
    configure_logging()
    try:
        loaded = load_settings(settings)
        runner = asyncio.Runner(loop_factory=_new_loop)
        with runner:
            status = runner.run(_serve(loaded))
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(status)


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class _Server(uvicorn.Server):
    """uvicorn's server that takes the gateway out of rotation as soon as it is told to stop."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._is_told = False
        self._hurry = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as the wish to stop.

        uvicorn raises a caught signal again at the end, which would end the process before the audit log
        is closed.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: drain. Any further one: end running answers now, each with its record.

        uvicorn's own `force_exit` is never set: it would leave closing records and settlements behind.
        """
        if self._is_told:
            self._hurry.set()
        self._is_told = self.should_exit = True

    async def shutdown(self, sockets: object = None) -> None:
        """Leave rotation, stop admitting, let answers finish for a while, end the rest, then close."""
        settings = self._gateway.settings.server
        self._gateway.begin_leave()
        await self._pause(settings.leave_seconds)
        self._gateway.begin_drain()
        cutter = asyncio.create_task(self._cut_late(settings.drain_seconds))
        try:
            await super().shutdown(sockets)  # type: ignore[arg-type]
        finally:
            cutter.cancel()
        # What uvicorn cancelled at the very end still seals and settles.
        await self._gateway.closed(CLOSING_SECONDS)

    async def _cut_late(self, seconds: float) -> None:
        """End what still runs after the drain time, or at a second signal."""
        await self._pause(seconds)
        self._gateway.stop_exchanges()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()


async def _serve(settings: Settings) -> int:
    async with open_gateway(settings) as gateway:
        config = uvicorn.Config(
            build_app(gateway),
            host=settings.server.host,
            port=settings.server.port,
            http=bounded_protocol(
                settings.server.max_header_bytes,
                settings.server.header_timeout_seconds,
                settings.server.body_timeout_seconds,
                gateway.note_wire_refusal,
            ),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_keep_alive=75,
            backlog=2048,
            timeout_graceful_shutdown=settings.server.drain_seconds + CLOSING_SECONDS,
        )
        server = _Server(config, gateway)
        admin = await open_admin(settings, gateway)
        _settle_memory()
        watcher = asyncio.create_task(_stop_on_failure(server, gateway))
        log().info("serving", host=settings.server.host, port=settings.server.port)
        try:
            await server.serve()
        finally:
            watcher.cancel()
            if admin is not None:
                await admin.close()
        if gateway.failed.is_set():
            return 1
        return 0 if server.started else 2


def _settle_memory() -> None:
    """Keep the garbage collector away from what lives as long as the process.

    Detectors, policy and libraries are some hundred thousand objects; walking them again and again costs
    more than it frees. Requests make few cycles, so the young generation may grow larger.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


async def _stop_on_failure(server: uvicorn.Server, gateway: Gateway) -> None:
    """End the process when the audit log can no longer be trusted to the disk."""
    await gateway.failed.wait()
    log().error("audit log failed, ending the process")
    server.should_exit = True
