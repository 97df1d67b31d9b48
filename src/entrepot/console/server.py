"""The console as a server: its application, at one place or several, until it is asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from entrepot.base.errors import InvalidOption
from entrepot.config.console import ConsolePlace, ConsoleRealm
from entrepot.console.acts import Acts
from entrepot.console.connected import Connected
from entrepot.console.desk import Desks
from entrepot.console.door import Door
from entrepot.console.effective_pages import Effective
from entrepot.console.export import Exports
from entrepot.console.gate import Gate, Shield
from entrepot.console.letter_pages import Letters
from entrepot.console.network_pages import Network
from entrepot.console.pages import Pages
from entrepot.console.realm import Realm
from entrepot.console.report_pages import ReportPages
from entrepot.console.rights_pages import Rights
from entrepot.console.standing_pages import Standing
from entrepot.console.subscription_pages import Subscriptions
from entrepot.console.tools import Tools
from entrepot.console.watch import Watches

PLACE: Final = ConsolePlace(host="127.0.0.1", port=8161)
TIDY: Final = 5.0  # s between two looks at what is idle

log: Final = logging.getLogger("entrepot.console")


class ConsoleOptions:
    """What a console is started with."""

    def __init__(
        self,
        brokers: Mapping[str, str],
        *,
        places: tuple[ConsolePlace, ...] = (PLACE,),
        realm: ConsoleRealm | None = None,
        service: tuple[str, str] = ("", ""),
        read_only: bool = False,
        hosts: tuple[str, ...] = (),
        reports: str = "",
    ) -> None:
        """``brokers``: name -> URL. ``service``: see `Tools`; ``hosts``: see `Gate`. Raises InvalidOption.

        ``realm``: users of the console itself, None where the brokers say who comes in. ``reports``: the directory of
        the Spark jobs' reports, "" for none.
        """
        if not brokers:
            raise InvalidOption("the console has no broker to ask", remedy="name one: --broker NAME=tcp://HOST:61616")
        self.brokers: Final = dict(brokers)
        self.places: Final = places
        self.realm: Final = realm
        self.service: Final = service
        self.read_only: Final = read_only
        self.hosts: Final = hosts
        self.reports: Final = reports


class Console:
    """One console. `start`, then `wait` or anything else, then `stop`."""

    def __init__(self, options: ConsoleOptions) -> None:
        self.options: Final = options
        self.desks: Final = Desks(options.brokers)
        realm = None if options.realm is None else Realm(options.realm)
        self.gate: Final = Gate(self.desks, hosts=options.hosts, realm=realm)
        self.watches: Final = Watches(self.desks)
        self.app: Final = Shield(application(self))
        self.doors: Final = [Door(place, self.app) for place in options.places]
        self._serving: asyncio.Task[None] | None = None

    @property
    def urls(self) -> list[str]:
        """Where it is, with the ports that it really has."""
        return [door.url for door in self.doors]

    @property
    def url(self) -> str:
        """The first of them."""
        return self.urls[0]

    async def start(self) -> None:
        """Listen. Raises AddressInUse, InvalidOption."""
        opened: list[Door] = []
        try:
            for door in self.doors:
                await door.open()
                opened.append(door)
        except BaseException:
            self.ask_to_stop()
            await asyncio.gather(*(door.serve() for door in opened))
            raise
        self._serving = asyncio.create_task(self._serve())

    async def wait(self) -> None:
        """Return when it has ended."""
        if self._serving is not None:
            await self._serving

    def ask_to_stop(self, why: str = "") -> None:
        """Let `wait` return soon."""
        for door in self.doors:
            door.ask_to_close()

    async def stop(self) -> None:
        """End it, and leave the brokers."""
        self.ask_to_stop()
        await self.wait()
        await self.desks.close()

    async def _serve(self) -> None:
        tidying = asyncio.create_task(self._tidy())
        try:
            await asyncio.gather(*(door.serve() for door in self.doors))
        finally:
            tidying.cancel()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY)
            for door in self.doors:
                door.end_slow()
            with contextlib.suppress(Exception):  # a desk that cannot be closed is none of the others' business
                await self.desks.tidy()


def application(console: Console) -> Starlette:
    """Return the application of a console."""
    options = console.options
    tools = Tools(console.gate, console.watches, options.service, read_only=options.read_only)
    pages = Pages(console.gate, console.watches, read_only=options.read_only)
    looks = (Letters(pages), Subscriptions(pages), Network(pages), Standing(pages), Rights(pages), Effective(pages))
    more = (*looks, Connected(pages), ReportPages(pages, options.reports), Acts(pages), Exports(pages))
    routes: list[BaseRoute] = [*tools.routes(), *pages.routes()]
    for each in more:
        routes += each.routes()
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
