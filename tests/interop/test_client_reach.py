"""How the Python client finds brokers: announcements, fanout, moves, waiting, TLS; against real ones."""
# ruff: noqa: SIM117  nested blocks say in which order things close

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import classic
import pytest
from artemis import Artemis
from classic import Classic
from networks import bridging
from ours import Entrepot

from entrepot.base.errors import TimedOut, Unreachable
from entrepot.client.connection import connect
from entrepot.io.datagram import join
from entrepot.protocols.announcement import announcement
from shell.certificates import Certificates

Broker = Artemis | Classic | Entrepot
PATIENCE = 10.0
GROUP_PORT = 16_155


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await main

    asyncio.run(bounded())


def test_a_broker_that_announces_itself_is_found(broker: Broker) -> None:
    async def main() -> None:
        group = uuid.uuid4().hex
        speaker = await join("239.255.2.3", GROUP_PORT, lambda data, sender: None)
        url = f"discovery:(multicast://239.255.2.3:{GROUP_PORT}?group={group})"
        opening = asyncio.create_task(connect(url).open())
        for _ in range(100):
            speaker.say(announcement(group, broker.url, alive=True))
            await asyncio.sleep(0.05)
            if opening.done():
                break
        connection = await opening
        assert connection.broker == broker.url
        await connection.close()
        speaker.close()

    run(main())


@pytest.mark.skipif(bool(classic.unavailable()), reason=f"classic: {classic.unavailable()}")
def test_activemq_announces_itself_and_is_found(tmp_path: Path) -> None:
    """The datagrams of a real broker; that it goes is noticed, too."""
    beacon = f"multicast://239.255.2.3:{GROUP_PORT}?group={uuid.uuid4().hex}"
    broker = Classic(tmp_path, connector=f'discoveryUri="{beacon}"').start()

    async def main() -> None:
        async with connect(f"discovery:({beacon})") as connection, connection.session() as session:
            assert connection.broker.endswith(f":{broker.port}")
            async with session.producer("Q") as producer, session.consumer("Q") as consumer:
                await producer.send("found")
                message = await consumer.receive(PATIENCE)
                assert message is not None
                assert message.body == "found"

    try:
        run(main())
    finally:
        broker.kill()


@pytest.mark.skipif(bool(classic.unavailable()), reason=f"classic: {classic.unavailable()}")
def test_activemq_sends_its_clients_to_a_broker_that_joins(tmp_path: Path) -> None:
    """``rebalanceClusterClients``: of the clients of one broker, some move, with all that they had open."""
    moving = 'updateClusterClients="true" rebalanceClusterClients="true" updateClusterClientsOnRemove="true"'
    first = Classic(tmp_path / "first", name="first", connector=moving).start().await_ready()
    second = bridging("classic", tmp_path / "second", name="second", to=[first], duplex=True, connector=moving)

    async def main() -> None:
        updated: list[list[str]] = []
        url = f"failover:({first.url})?randomize=false"
        clients = [await connect(url, on_updated=updated.append) for _ in range(4)]
        where = uuid.uuid4().hex
        sessions = [client.session() for client in clients]
        producers = [await session.producer(f"queue://{where}.{at}") for at, session in enumerate(sessions)]
        consumers = [await session.consumer(f"queue://{where}.{at}") for at, session in enumerate(sessions)]
        await asyncio.to_thread(lambda: second.start().await_ready())
        async with asyncio.timeout(30):
            while len({client.broker.rpartition(":")[2] for client in clients}) < 2:
                await asyncio.sleep(0.05)
        assert any(str(second.port) in "".join(places) for places in updated)
        for at, (producer, consumer) in enumerate(zip(producers, consumers, strict=True)):
            await producer.send(f"after {at}")
            message = await consumer.receive(PATIENCE)
            assert message is not None
            assert message.body == f"after {at}"
        for client in clients:
            await client.close()

    try:
        run(main())
    finally:
        first.kill()
        second.kill()


def test_fanout(pair: list[Broker]) -> None:
    async def main() -> None:
        topic, queue = f"topic://{uuid.uuid4().hex}", uuid.uuid4().hex
        heard: list[str] = []

        async def listen(url: str, ready: asyncio.Event) -> None:
            async with connect(url) as connection, connection.session() as session:
                async with session.consumer(topic) as consumer:
                    ready.set()
                    message = await consumer.receive(PATIENCE)
                    assert message is not None
                    heard.append(str(message.body))

        events = [asyncio.Event() for _ in pair]
        listeners = [asyncio.create_task(listen(each.url, event)) for each, event in zip(pair, events, strict=True)]
        for event in events:
            await event.wait()
        async with connect(f"fanout:(static:({pair[0].url},{pair[1].url}))?initialReconnectDelay=10") as connection:
            async with connection.session() as session, session.producer(topic) as producer:
                await producer.send("to all")
                await asyncio.gather(*listeners)
                assert heard == ["to all", "to all"]
                async with session.consumer(queue) as consumer, session.producer(queue) as to_queue:
                    await to_queue.send("to the primary")
                    message = await consumer.receive(PATIENCE)
                    assert message is not None
                    assert message.body == "to the primary"
                    primary = next(each for each in pair if each.url == connection.broker)
                    assert connection.program
                    primary.kill()
                    await asyncio.sleep(0.1)
                    await to_queue.send("to the next")
                    message = await consumer.receive(PATIENCE)
                    assert message is not None
                    assert message.body == "to the next"

    run(main())


def test_priority_backup_goes_home(pair: list[Broker]) -> None:
    async def main() -> None:
        home, away = pair
        home.kill()
        moves: list[str] = []
        url = f"failover:({home.url},{away.url})?priorityBackup=true&randomize=false&maxReconnectDelay=200"
        async with connect(url, on_resumed=moves.append) as connection, connection.session() as session:
            assert connection.broker == away.url
            where = uuid.uuid4().hex
            async with session.consumer(where) as consumer, session.producer(where) as producer:
                await asyncio.to_thread(lambda: home.start().await_ready())
                while home.url not in moves:  # a broker that is still starting may turn us away once
                    await asyncio.sleep(0.02)
                assert connection.broker == home.url
                await producer.send("home")
                message = await consumer.receive(PATIENCE)
                assert message is not None
                assert message.body == "home"

    run(main())


def test_a_send_waits_in_an_outage_and_no_longer_than_allowed(pair: list[Broker]) -> None:
    async def main() -> None:
        broker = pair[0]
        async with connect(f"failover:({broker.url})?timeout=200&jms.closeTimeout=100") as connection:
            async with connection.session() as session, session.producer("Q") as producer:
                await producer.send("x", persistent=False)
                broker.kill()
                await asyncio.sleep(0.05)
                with pytest.raises(TimedOut, match="Failover timeout of 200 ms reached"):
                    await producer.send("y", persistent=False)

    run(main())


def test_without_failover_the_loss_is_told(pair: list[Broker]) -> None:
    async def main() -> None:
        broker = pair[0]
        async with connect(broker.url) as connection, connection.session() as session:
            consumer = await session.consumer("Q")
            producer = await session.producer("Q")
            waiting = asyncio.create_task(consumer.receive(PATIENCE))
            await asyncio.sleep(0.05)
            broker.kill()
            with pytest.raises(Unreachable):
                await waiting
            with pytest.raises(Unreachable):
                await producer.send("x")
            assert not connection.connected

    run(main())


def test_tls(kind: str, tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    makers: dict[str, type[Broker]] = {"classic": Classic, "artemis": Artemis, "entrepot": Entrepot}
    made = makers[kind](tmp_path, key_store=files.store)
    made.start()

    async def main() -> None:
        where = f"ssl://localhost:{made.port}"
        trusting = f"{where}?transport.trustStorePath={files.authority}"
        async with connect(f"failover:({trusting})?maxReconnectDelay=200") as connection:
            async with connection.session() as session, session.producer("Q") as producer:
                await producer.send("secret")
            async with connection.session() as session, session.consumer("Q") as consumer:
                message = await consumer.receive(PATIENCE)
                assert message is not None
                assert message.body == "secret"
        with pytest.raises(Unreachable, match="certificate"):
            await connect(where)

    try:
        run(main())
    finally:
        made.kill()


def test_nobody_there() -> None:
    async def main() -> None:
        with pytest.raises(Unreachable):
            await connect("tcp://127.0.0.1:1")
        with pytest.raises(Unreachable):
            await connect("failover:(tcp://127.0.0.1:1)?startupMaxReconnectAttempts=2")
        with pytest.raises(TimedOut):
            await connect("failover:(tcp://127.0.0.1:1)?jms.connectResponseTimeout=100")

    run(main())


def test_the_list_of_brokers_in_a_file(broker: Broker, tmp_path: Path) -> None:
    async def main() -> None:
        listed = tmp_path / "brokers.txt"
        listed.write_text(broker.url)
        updated: list[list[str]] = []
        url = f"failover:(tcp://127.0.0.1:1)?updateURIsURL={listed}"
        async with connect(url, on_updated=updated.append) as connection:
            assert connection.broker == broker.url
            assert updated == [[broker.url]]

    run(main())
