"""One place where browsers find the console: a socket, with TLS or without, on which the application is served."""

from __future__ import annotations

import time
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from entrepot.base.errors import AddressInUse
from entrepot.config.console import ConsolePlace, ConsoleTls
from entrepot.io.tls import TlsOptions, server_context

SLOW: Final = 15.0  # s that a request may take to arrive
CONNECTIONS_MOST: Final = 500


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


class Door:
    """One of them. `open`, then `serve` until `ask_to_close`."""

    def __init__(self, place: ConsolePlace, app: ASGIApp) -> None:
        self.place: Final = place
        self.app: Final = app
        self._server: uvicorn.Server | None = None
        self._seen: dict[object, float] = {}

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
        """Close connections whose request does not arrive: uvicorn waits for ever for the rest of a head."""
        if self._server is None:
            return
        now = time.monotonic()
        waiting: dict[object, float] = {}
        for connection in list(self._server.server_state.connections):
            cycle: Any = getattr(connection, "cycle", None)
            if cycle is None or cycle.response_complete:
                waiting[connection] = since = self._seen.get(connection, now)
                if now - since > SLOW and getattr(connection, "transport", None) is not None:
                    connection.transport.close()
        self._seen = waiting
