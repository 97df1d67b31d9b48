"""The load of a lab: for each broker a producer and a consumer that begin there, and a ledger of what was promised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.cli.lab.brokers import Network
from entrepot.client.connection import connect
from entrepot.client.session import Session
from entrepot.protocols.conversing.modes import Acknowledge

QUEUE: Final = "queue://lab"
RECONNECT: Final = "randomize=false&initialReconnectDelay=50&maxReconnectDelay=500&useExponentialBackOff=false"
PREFETCH: Final = 100
BATCH_SECONDS: Final = 0.02  # what is due in this time is sent together


class Ledger:
    """Which messages were promised to their producer, and how often each arrived."""

    def __init__(self) -> None:
        self.sent = 0
        self.promised: set[int] = set()
        self.arrived: dict[int, int] = {}

    @property
    def missing(self) -> int:
        """How many were promised and did not arrive yet."""
        return sum(1 for number in self.promised if number not in self.arrived)

    @property
    def twice(self) -> int:
        """How many deliveries were not the first of their message."""
        return sum(self.arrived.values()) - len(self.arrived)


class Load:
    """Starts and stops; consumers go on until `close`, so that what was sent arrives."""

    def __init__(self, network: Network, rate: float, say: Callable[[str], None]) -> None:
        self.network: Final = network
        self.rate: Final = rate
        self.say: Final = say
        self.ledger: Final = Ledger()
        self.running = False
        self._producers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let producers send, and consumers come if it is the first time."""
        if self.running:
            return
        self.running = True
        each = range(len(self.network.brokers))
        if not self._consumers:
            self._consumers = [asyncio.create_task(self._for_ever(self._consume, at)) for at in each]
        self._producers = [asyncio.create_task(self._for_ever(self._produce, at)) for at in each]

    async def stop(self) -> None:
        """Let producers end."""
        self.running = False
        await _end(self._producers)

    async def close(self, patience: float) -> None:
        """Stop, wait up to ``patience`` seconds until everything that was promised arrived, end all."""
        await self.stop()
        until = asyncio.get_running_loop().time() + patience
        while self.ledger.missing and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.05)
        await _end(self._consumers)

    async def _for_ever(self, work: Callable[[int], object], at: int) -> None:
        """Do ``work`` again whenever it fails: the failover of the client gives up on some errors, a lab does not."""
        while True:
            try:
                await work(at)  # type: ignore[misc]
            except EntrepotError as error:
                self.say(f"client of b{at + 1}: {error.message}")
                await asyncio.sleep(0.5)

    def _told(self, who: str, home: int) -> Callable[[str], None]:
        places = {str(broker.openwire): broker.name for broker in self.network.brokers}

        def resumed(url: str) -> None:
            port = url.partition("?")[0].rpartition(":")[2].rstrip(")/")
            self.say(f"{who} {home + 1} is at {places.get(port, url)} now")

        return resumed

    async def _produce(self, at: int) -> None:
        url = self.network.failover(at, RECONNECT)
        share = self.rate / len(self.network.brokers)
        async with connect(url, on_resumed=self._told("producer", at)) as connection, connection.session() as session:
            producer = await session.producer(QUEUE)
            clock = asyncio.get_running_loop().time
            began, due = clock(), 0
            while True:
                count = int((clock() - began) * share) - due
                if count <= 0:
                    await asyncio.sleep(BATCH_SECONDS)
                    continue
                count = min(count, 200)  # after an outage it does not make up for lost time in one go
                due = max(due + count, int((clock() - began) * share) - 200)
                numbers = range(self.ledger.sent, self.ledger.sent + count)
                self.ledger.sent += count

                async def send(number: int) -> None:
                    await producer.send(str(number))
                    self.ledger.promised.add(number)

                await asyncio.gather(*(send(number) for number in numbers))

    async def _consume(self, at: int) -> None:
        url = self.network.failover(at, RECONNECT)
        told = self._told("consumer", at)
        async with connect(url, on_resumed=told) as connection, connection.session(Acknowledge.INDIVIDUAL) as session:
            await self._take(session)

    async def _take(self, session: Session) -> None:
        consumer = await session.consumer(f"{QUEUE}?consumer.prefetchSize={PREFETCH}")
        async for received in consumer:
            number = int(str(received.body))
            self.ledger.arrived[number] = self.ledger.arrived.get(number, 0) + 1
            received.acknowledge()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()
