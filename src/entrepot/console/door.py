"""One place where browsers find the console: a socket, with TLS or without, on which the application is served."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from entrepot.base.errors import AddressInUse
from entrepot.config.console import ConsolePlace, ConsoleTls
from entrepot.io.tls import TlsOptions, server_context

SLOW: Final = 15.0  # s that a request may take to arrive
UNREAD: Final = 60.0  # s in which somebody who has an answer to read reads something of it
CONNECTIONS_MOST: Final = 500


class _Still(NamedTuple):
    """A connection on which nothing happens, from when on, and with how many octets of an answer that are not read."""

    since: float
    unread: int


def tls_options(tls: ConsoleTls) -> TlsOptions:
    """Return what a place shows and asks for."""
    return TlsOptions(
        certificate=tls.certificate,
        key=tls.key,
        password=tls.password,
        trust=tls.trust,
        trust_password=tls.trust_password,
        need_client=tls.need_client,
        want_client=tls.want_client,
        protocols=tls.protocols,
        ciphers=tls.ciphers,
    )


def _unread(transport: asyncio.WriteTransport) -> int:
    """Return how many octets the peer has not acknowledged, as far as the system tells: it keeps megabytes for it."""
    unread = transport.get_write_buffer_size()
    link = transport.get_extra_info("socket")
    with suppress(AttributeError, ImportError, OSError, ValueError):  # none is there any more, or none is told
        import fcntl  # noqa: PLC0415 - not on every system
        import termios  # noqa: PLC0415 - as above

        unread += int.from_bytes(fcntl.ioctl(link.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return unread


class Door:
    """One of them. `open`, then `serve` until `ask_to_close`."""

    def __init__(self, place: ConsolePlace, app: ASGIApp) -> None:
        self.place: Final = place
        self.app: Final = app
        self._server: uvicorn.Server | None = None
        self._seen: dict[object, _Still] = {}

    @property
    def url(self) -> str:
        """Where it is, with the port that it really has."""
        assert self._server is not None
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return str(ConsolePlace(host=self.place.host, port=port, tls=self.place.tls))

    async def open(self) -> None:
        """Listen. Raises AddressInUse, InvalidOption."""
        place = self.place
        config = uvicorn.Config(
            self.app,
            host=place.host,
            port=place.port,
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
        )
        config.load()
        if place.tls is not None:
            config.ssl = server_context(tls_options(place.tls))
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        try:
            await server.startup()
        except (OSError, SystemExit) as error:
            raise AddressInUse(
                f"the console cannot listen on {place.host}:{place.port}", remedy="choose another with --listen"
            ) from error
        self._server = server

    async def serve(self) -> None:
        """Answer until it is asked to close, then close."""
        assert self._server is not None
        await self._server.main_loop()
        await self._server.shutdown()

    def ask_to_close(self) -> None:
        """Let `serve` return soon."""
        if self._server is not None:
            self._server.should_exit = True

    def end_slow(self) -> None:
        """End connections whose request does not come, or whose answer is not read: uvicorn waits for both for ever."""
        if self._server is None:
            return
        now = time.monotonic()
        still: dict[object, _Still] = {}
        for connection in list(self._server.server_state.connections):
            cycle: Any = getattr(connection, "cycle", None)
            transport = getattr(connection, "transport", None)
            unread = 0 if transport is None else _unread(transport)
            arrives = cycle is None or cycle.response_complete
            if not arrives and not unread:
                continue  # its answer is being made
            had = self._seen.get(connection)
            found = still[connection] = had if had is not None and had.unread == unread else _Still(now, unread)
            if transport is None or now - found.since <= (UNREAD if unread else SLOW):
                continue
            if unread:
                transport.abort()  # to close it would wait until that is read
            else:
                transport.close()
        self._seen = still
