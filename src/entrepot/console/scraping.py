"""What `/metrics` answers: made once for all who ask for the same at about the same time, and sent as they read it.

A page of 10,000 queues has 8 MB. So however many scrapers there are, and however many of them never read, it is written
once in `LEAST` s, held once, and goes out in pieces of which each connection has one or two.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from starlette.responses import Response, StreamingResponse

from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.console import metrics as encoder
from entrepot.console.desk import Desk
from entrepot.console.watch import Shelf, Watches
from entrepot.core.operators.overlook import OLD_MS
from entrepot.core.operators.together.asker import Asker
from entrepot.management.view import BrokerView, Sides

EXPLAINED: Final = 20  # queues whose reasons a detailed scrape asks for
CONSUMERS: Final = 1_000
KINDS_MOST: Final = 20  # texts that are kept: of each user, in two forms, with details and without
PIECE: Final = 65_536  # octets


class Scrape(NamedTuple):
    """Who asks for which text."""

    user: str
    password: str
    open_metrics: bool
    detailed: bool


class Scraped(NamedTuple):
    """A text, and how the answer that has it is called."""

    octets: bytes
    status: int
    kind: str

    def response(self) -> Response:
        """Return an answer that is sent as it is read."""
        headers = {"content-length": str(len(self.octets))}
        return StreamingResponse(self._pieces(), self.status, headers=headers, media_type=self.kind)

    async def _pieces(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.octets), PIECE):
            yield self.octets[start : start + PIECE]


class Scrapes:
    """The texts of all who ask."""

    def __init__(self, watches: Watches) -> None:
        self.watches: Final = watches
        self._kept: Final = Shelf[Scrape](KINDS_MOST, share=1.0)  # of the console's time

    async def of(self, scrape: Scrape) -> Scraped:
        """Return the text; one that was just made, if there is one. Raises EntrepotError."""
        return await self._kept.of(scrape, lambda: self._made(scrape))

    async def _made(self, scrape: Scrape) -> Scraped:
        sides = await self.watches.sides(scrape.user, scrape.password)
        text = encoder.metrics(sides.views.values(), open_metrics=scrape.open_metrics, detailed=scrape.detailed)
        await self._addresses(text, scrape, sides)
        up = [(f'{{target="{encoder.escaped(name)}"}}', 1) for name in sides.views]
        up += [(f'{{target="{encoder.escaped(name)}"}}', 0) for name in sides.failures]
        text.family("entrepot_up", "gauge", "1 where a broker answers", up)
        if scrape.detailed:
            await self._details(text, scrape, sides)
        kind = encoder.OPEN_METRICS if scrape.open_metrics else encoder.PLAIN
        return Scraped(text.text().encode(), 200 if sides.views else 503, kind)

    async def _addresses(self, text: encoder.Text, scrape: Scrape, sides: Sides[BrokerView]) -> None:
        counts = {}
        for name, view in sides.views.items():
            with suppress(EntrepotError):  # it went, or is older: the other brokers are still wanted
                watch = await self.watches.of(name, scrape.user, scrape.password)
                counts[view.name] = await watch.addresses()
        encoder.addresses(text, counts)

    async def _details(self, text: encoder.Text, scrape: Scrape, sides: Sides[BrokerView]) -> None:
        missing = []
        for name, view in sides.views.items():
            try:
                desk = await self.watches.desks.at(name, scrape.user, scrape.password)
                consumers, reasons = await _consumers(desk), await stuck(desk, view)
                stored = await desk.ask("broker", "describeStorage")
                encoder.standing(text, view.name, stored, await desk.ask("broker", "describeAvailability"))
            except EntrepotError:  # it may not be asked for this, or went: the other brokers are still wanted
                consumers, reasons = [], {}
                missing.append((f'{{target="{encoder.escaped(name)}"}}', 1))
            encoder.details(text, view.name, consumers, view.bridges, reasons)
        text.family("entrepot_details_missing", "gauge", "1 where consumers and reasons were not told", missing)


async def stuck(desk: Asker, view: BrokerView) -> dict[str, int]:
    """Return how many messages wait for which reason, in the `EXPLAINED` queues that wait longest."""
    waiting = [queue for queue in view.own() if queue.waiting and (not queue.consumers or queue.oldest_ms > OLD_MS)]
    counts: dict[str, int] = {}
    for queue in sorted(waiting, key=lambda one: -one.oldest_ms)[:EXPLAINED]:
        try:
            told = await desk.ask("broker", "explain", queue.name)
        except InvalidDestination:  # it went since the view was taken: the others' reasons are still wanted
            continue
        for one in told["queues"]:
            for reason in one["reasons"]:
                code = str(reason["code"])
                counts[code] = counts.get(code, 0) + int(reason["messages"])
    return counts


async def _consumers(desk: Desk) -> list[dict[str, Any]]:
    page = json.loads(await desk.ask("broker", "listConsumers", "", 1, CONSUMERS))
    return list(page["data"])
