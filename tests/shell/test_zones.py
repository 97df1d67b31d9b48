"""Python clients of brokers in this process: spread over those that join, and at home in their zone."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable

from entrepot.client.connection import Connection, connect
from entrepot.embedded import Broker

MOVING = "updateClusterClients=true&rebalanceClusterClients=true&updateClusterClientsOnRemove=true"
PATIENCE_S = 40.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def broker(name: str, port: int, *peers: int, zone: str = "") -> Broker:
    return Broker(
        name=name,
        listen=[f"openwire://127.0.0.1:{port}?{MOVING}"],
        connect=[f"static:(tcp://127.0.0.1:{peer})?initialReconnectDelay=100" for peer in peers],
        duplex=True,
        zone=zone,
    )


async def reached(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not wanted():
            await asyncio.sleep(0.05)


def spread(clients: list[Connection]) -> list[int]:
    """Return how many clients each broker has, the fewest first."""
    return sorted(Counter(client.broker for client in clients if client.connected).values())


def test_clients_spread_over_a_broker_that_joins_and_lose_nothing() -> None:
    async def main() -> None:
        one, two = free_port(), free_port()
        async with broker("one", one):
            clients = [await connect(f"failover:(tcp://127.0.0.1:{one})") for _ in range(6)]
            sessions = [client.session() for client in clients]
            consumers = [await session.consumer(f"queue://q{at}") for at, session in enumerate(sessions)]
            producers = [await session.producer(f"queue://q{at}") for at, session in enumerate(sessions)]
            for at, producer in enumerate(producers):
                await producer.send(f"before {at}")
            async with broker("two", two, one):
                for at, consumer in enumerate(consumers):
                    message = await consumer.receive(10)
                    assert message is not None
                    assert message.body == f"before {at}"
                await reached(lambda: spread(clients) == [3, 3])
                for at, (producer, consumer) in enumerate(zip(producers, consumers, strict=True)):
                    await producer.send(f"after {at}")
                    message = await consumer.receive(10)
                    assert message is not None
                    assert message.body == f"after {at}"
            await reached(lambda: spread(clients) == [6])
            for client in clients:
                await client.close()

    asyncio.run(main())


def test_clients_of_a_broker_that_stops_are_with_the_others_and_spread_again() -> None:
    """Stop them one by one until one is left, which is none that the clients were configured with; begin anew."""

    async def main() -> None:
        ports = [free_port() for _ in range(3)]
        brokers = [broker(f"b{at}", port, *ports[:at]) for at, port in enumerate(ports)]
        for each in brokers:
            await each.__aenter__()
        clients = [await connect(f"failover:(tcp://127.0.0.1:{ports[0]})?maxReconnectDelay=500") for _ in range(6)]
        await reached(lambda: spread(clients) == [2, 2, 2])
        await brokers[0].node.stop()
        await reached(lambda: spread(clients) == [3, 3])
        brokers[0] = broker("b0", ports[0], *ports[1:])
        await brokers[0].__aenter__()
        await reached(lambda: spread(clients) == [2, 2, 2])
        for each in brokers[:2]:
            await each.node.stop()
        await reached(lambda: spread(clients) == [6])
        await brokers[2].node.stop()  # nobody is left: they dial those they ever knew
        async with broker("b1", ports[1]):
            await reached(lambda: spread(clients) == [6])
            for client in clients:
                await client.close()

    asyncio.run(main())


def test_a_client_goes_abroad_when_nobody_is_at_home_and_comes_back() -> None:
    async def main() -> None:
        near, far = free_port(), free_port()
        url = f"failover:(tcp://127.0.0.1:{far}?zone=far,tcp://127.0.0.1:{near})?zone=near&maxReconnectDelay=500"
        async with broker("far", far, near, zone="far"):
            async with broker("near", near, zone="near"):
                client = await connect(url)
                await reached(lambda: client.broker.endswith(f":{near}"))  # at once, or sent there by the other one
            await reached(lambda: client.connected and client.broker.partition("?")[0].endswith(f":{far}"))
            async with broker("near", near, zone="near"):
                await reached(lambda: client.broker.endswith(f":{near}"))
                async with client.session() as session, session.producer("queue://q") as producer:
                    await producer.send("at home")
            await client.close()

    asyncio.run(main())
