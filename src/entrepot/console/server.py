"""The console as a server: its application, on a socket, until it is asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from entrepot.base.errors import AddressInUse, InvalidOption
from entrepot.console.acts import Acts
from entrepot.console.desk import Desks
from entrepot.console.gate import Gate, Shield
from entrepot.console.pages import Pages
from entrepot.console.standing_pages import Standing
from entrepot.console.tools import Tools
from entrepot.console.watch import Watches

PORT: Final = 8161
TIDY: Final = 5.0  # s between two looks at what is idle
SLOW: Final = 15.0  # s that a request may take to arrive
CONNECTIONS_MOST: Final = 500

log: Final = logging.getLogger("entrepot.console")


class ConsoleOptions:
    """What a console is started with."""

    def __init__(
        self,
        brokers: Mapping[str, str],
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        service: tuple[str, str] = ("", ""),
        read_only: bool = False,
        hosts: tuple[str, ...] = (),
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """``brokers``: name -> URL. ``service``: see `Tools`; ``hosts``: see `Gate`. Raises InvalidOption."""
        if not brokers:
            raise InvalidOption("the console has no broker to ask", remedy="name one: --broker NAME=tcp://HOST:61616")
        if key is not None and certificate is None:
            raise InvalidOption("--tls-key is about a certificate, and there is none", remedy="add --tls-certificate")
        self.brokers: Final = dict(brokers)
        self.host: Final = host
        self.port: Final = port
        self.service: Final = service
        self.read_only: Final = read_only
        self.hosts: Final = hosts
        self.certificate: Final = certificate
        self.key: Final = key


class Console:
    """One console. `start`, then `wait` or anything else, then `stop`."""

    def __init__(self, options: ConsoleOptions) -> None:
        self.options: Final = options
        self.desks: Final = Desks(options.brokers)
        self.gate: Final = Gate(self.desks, hosts=options.hosts, secure=options.certificate is not None)
        self.watches: Final = Watches(self.desks)
        self.app: Final = Shield(application(self))
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._seen: dict[object, float] = {}

    @property
    def url(self) -> str:
        """Where it is, with the port that it really has."""
        assert self._server is not None
        port = self._server.servers[0].sockets[0].getsockname()[1]
        scheme = "http" if self.options.certificate is None else "https"
        host = self.options.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self) -> None:
        """Listen. Raises AddressInUse."""
        options = self.options
        config = uvicorn.Config(
            self.app,
            host=options.host,
            port=options.port,
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MOST,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
            ssl_certfile=None if options.certificate is None else str(options.certificate),
            ssl_keyfile=None if options.key is None else str(options.key),
        )
        config.load()
        server = self._server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        try:
            await server.startup()
        except (OSError, SystemExit) as error:
            place = f"{options.host}:{options.port}"
            raise AddressInUse(
                f"the console cannot listen on {place}", remedy="choose another with --listen"
            ) from error
        self._serving = asyncio.create_task(self._serve(server))

    async def wait(self) -> None:
        """Return when it has ended."""
        if self._serving is not None:
            await self._serving

    def ask_to_stop(self, why: str = "") -> None:
        """Let `wait` return soon."""
        if self._server is not None:
            self._server.should_exit = True

    async def stop(self) -> None:
        """End it, and leave the brokers."""
        self.ask_to_stop()
        await self.wait()
        await self.desks.close()

    async def _serve(self, server: uvicorn.Server) -> None:
        tidying = asyncio.create_task(self._tidy(server))
        try:
            await server.main_loop()
            await server.shutdown()
        finally:
            tidying.cancel()

    async def _tidy(self, server: uvicorn.Server) -> None:
        while True:
            await asyncio.sleep(TIDY)
            self._end_slow(server)
            with contextlib.suppress(Exception):  # a desk that cannot be closed is none of the others' business
                await self.desks.tidy()

    def _end_slow(self, server: uvicorn.Server) -> None:
        """Close connections whose request does not arrive: uvicorn waits for ever for the rest of a head."""
        now = time.monotonic()
        waiting: dict[object, float] = {}
        for connection in list(server.server_state.connections):
            cycle: Any = getattr(connection, "cycle", None)
            if cycle is None or cycle.response_complete:
                waiting[connection] = since = self._seen.get(connection, now)
                if now - since > SLOW and getattr(connection, "transport", None) is not None:
                    connection.transport.close()
        self._seen = waiting


def application(console: Console) -> Starlette:
    """Return the application of a console."""
    options = console.options
    tools = Tools(console.gate, console.watches, options.service, read_only=options.read_only)
    pages = Pages(console.gate, console.watches, read_only=options.read_only)
    routes: list[BaseRoute] = [*tools.routes(), *pages.routes(), *Standing(pages).routes(), *Acts(pages).routes()]
    return Starlette(routes=routes)


@asynccontextmanager
async def serving(options: ConsoleOptions) -> AsyncIterator[Console]:
    """Run a console for as long as the body goes on."""
    console = Console(options)
    await console.start()
    try:
        yield console
    finally:
        await console.stop()
