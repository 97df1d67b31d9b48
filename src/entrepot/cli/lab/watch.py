"""What the brokers of a lab say about themselves, asked a few times a second."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import EntrepotError
from entrepot.cli.lab.brokers import Broker, Network
from entrepot.cli.managing import Desk, managing

EVERY_S: Final = 0.5
PATIENCE: Final = 5 * SECOND
QUEUE: Final = "lab"
DOWN: Final = "down"


class Facts:
    """One broker, when it was asked last. Rates are messages a second between the last two answers."""

    def __init__(self) -> None:
        self.answering = False
        self.clients = 0
        self.consumers = 0
        self.waiting = 0
        self.in_flight = 0
        self.rate_in = 0.0
        self.rate_out = 0.0
        self.bridges: list[dict[str, Any]] = []
        self._before: tuple[float, int, int] | None = None

    def take(self, now: float, connections: int, queue: dict[str, Any] | None, bridges: list[dict[str, Any]]) -> None:
        """Note an answer. ``connections``: all, ours and those of bridges included."""
        self.answering = True
        self.bridges = bridges
        incoming = sum(1 for row in bridges if not row["initiator"])
        self.clients = max(0, connections - 1 - incoming)
        accepted = delivered = 0
        self.consumers = self.waiting = self.in_flight = 0
        if queue is not None:
            self.waiting, self.in_flight = queue["waiting"], queue["in_flight"]
            self.consumers = queue["consumers"]
            accepted, delivered = queue["accepted"], queue["settled"]
        if self._before is not None and now > self._before[0]:
            passed = now - self._before[0]
            self.rate_in = max(0.0, (accepted - self._before[1]) / passed)
            self.rate_out = max(0.0, (delivered - self._before[2]) / passed)
        self._before = (now, accepted, delivered)

    def lost(self) -> None:
        """It does not answer."""
        self.__init__()  # type: ignore[misc]


class Watch:
    """Asks all brokers until it is closed."""

    def __init__(self, network: Network) -> None:
        self.network: Final = network
        self.facts: Final = {broker.name: Facts() for broker in network.brokers}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to ask."""
        self._tasks = [asyncio.create_task(self._follow(broker)) for broker in self.network.brokers]

    async def close(self) -> None:
        """Ask no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, broker: Broker) -> None:
        while True:
            with suppress(EntrepotError, OSError, TimeoutError):
                if broker.up:
                    async with managing(broker.url) as desk:
                        await self._ask(broker, desk)
            self.facts[broker.name].lost()
            await asyncio.sleep(EVERY_S / 2)

    async def _ask(self, broker: Broker, desk: Desk) -> None:
        while broker.up:
            queues = await desk.ask("broker", "describeQueues", QUEUE, patience=PATIENCE)
            bridges = await desk.ask("broker", "describeBridges", patience=PATIENCE)
            connections = await desk.ask("broker", "getConnectionCount", patience=PATIENCE)
            now = asyncio.get_running_loop().time()
            self.facts[broker.name].take(now, int(connections), queues[0] if queues else None, bridges)
            await asyncio.sleep(EVERY_S)

    def state_of(self, near: Broker, far: Broker) -> str:
        """Return the state of the bridge between two brokers, as the one that dials sees it."""
        return next(
            (
                str(row["state"])
                for row in self.facts[near.name].bridges
                if row["initiator"] and row["connector"] == f"{near.name}-{far.name}"
            ),
            DOWN,
        )
