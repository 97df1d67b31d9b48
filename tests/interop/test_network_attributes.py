# ruff: noqa: SIM117  nested blocks say in which order things close
"""What attributes of network connectors do between this broker and ActiveMQ Classic, in both directions.

The two run the same file, which has a connector for each attribute; what they carry is kept apart by lists. Both
directions are tried at once: ``near`` has the connector, ``far`` is where it leads.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import classic
import pytest
from cable import Cable
from classic import HOST, Classic
from ours import Entrepot

from entrepot.base.errors import Unreachable
from entrepot.client.connection import connect
from entrepot.client.consumer import Consumer
from entrepot.client.message import Message
from shell.certificates import Certificates

pytestmark = pytest.mark.skipif(bool(classic.unavailable()), reason=f"classic: {classic.unavailable()}")

PATIENCE = 20.0
QUIET = 0.6  # s without a message, after others have crossed
TRIES = 100
FAST = "initialReconnectDelay=100&amp;useExponentialBackOff=false"

FILE = """<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
                           http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
                           http://activemq.apache.org/schema/core
                           http://activemq.apache.org/schema/core/activemq-core.xsd">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" useJmx="false" dataDirectory="{home}/data"
        useVirtualDestSubs="true" useVirtualDestSubsOnCreation="true">
<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
  <virtualTopic name="VirtualTopic.&gt;" prefix="Consumer.*."/>
  <compositeQueue name="{name}.mix"><forwardTo><queue physicalName="{name}.part"/></forwardTo></compositeQueue>
  <compositeQueue name="{name}.unread"><forwardTo><queue physicalName="{name}.made"/></forwardTo></compositeQueue>
</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
<networkConnectors>
  <networkConnector name="tls" uri="static:(ssl://{host}:{peer_tls})?{fast}"><dynamicallyIncludedDestinations>
    <queue physicalName="{peer}.tls"/></dynamicallyIncludedDestinations></networkConnector>
  <networkConnector name="sync" uri="static:(tcp://{host}:{sync})?{fast}" syncDurableSubs="true">
    <dynamicallyIncludedDestinations><topic physicalName="{peer}.sync"/></dynamicallyIncludedDestinations>
  </networkConnector>
  <networkConnector name="virtual" uri="static:(tcp://{host}:{peer_port})?{fast}" useVirtualDestSubs="true">
    <dynamicallyIncludedDestinations><queue physicalName="{peer}.mix"/><queue physicalName="{peer}.unread"/>
    <topic physicalName="VirtualTopic.&gt;"/></dynamicallyIncludedDestinations></networkConnector>
  <networkConnector name="static" uri="static:(tcp://{host}:{peer_port})?{fast}" staticBridge="true">
    <staticallyIncludedDestinations><queue physicalName="{peer}.static"/></staticallyIncludedDestinations>
  </networkConnector>
  <networkConnector name="behind" uri="static:(tcp://{host}:{peer_port})?{fast}" consumerPriorityBase="-3"
    decreaseNetworkConsumerPriority="true"><dynamicallyIncludedDestinations><queue physicalName="{peer}.behind"/>
    </dynamicallyIncludedDestinations></networkConnector>
  <networkConnector name="equal" uri="static:(tcp://{host}:{peer_port})?{fast}"
    decreaseNetworkConsumerPriority="false"><dynamicallyIncludedDestinations><queue physicalName="{peer}.equal"/>
    </dynamicallyIncludedDestinations></networkConnector>
  <networkConnector name="audit" uri="static:(tcp://{host}:{audit})?{fast}"><dynamicallyIncludedDestinations>
    <queue physicalName="{peer}.audit"/></dynamicallyIncludedDestinations></networkConnector>
</networkConnectors>
<persistenceAdapter><kahaDB directory="{home}/kahadb"/></persistenceAdapter>
<plugins><statisticsBrokerPlugin/></plugins>
<sslContext><sslContext keyStore="{files}/server.p12" keyStorePassword="secret" trustStore="{files}/trust.p12"
  trustStorePassword="secret"/></sslContext>
<transportConnectors>
  <transportConnector name="openwire" uri="tcp://{host}:{port}" auditNetworkProducers="true"/>
  <transportConnector name="secure" uri="ssl://{host}:{tls}?needClientAuth=true"/>
</transportConnectors>
</broker></beans>
"""


class Way(NamedTuple):
    """One direction. ``sync``, ``audit``: the cables that the connectors of these names go through."""

    near: Classic | Entrepot
    far: Classic | Entrepot
    sync: Cable
    audit: Cable


class Two:
    """Both brokers, running."""

    def __init__(self, home: Path) -> None:
        files = home / "files"
        files.mkdir()
        self.certificates = Certificates(files)
        made = ["keytool", "-importcert", "-noprompt", "-alias", "a", "-file", str(self.certificates.authority)]
        made += ["-keystore", str(files / "trust.p12"), "-storetype", "PKCS12", "-storepass", "secret"]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
        theirs = Classic(home / "theirs", name="theirs")
        ours = Entrepot(home / "ours", name="ours")
        self.brokers: list[Classic | Entrepot] = [theirs, ours]
        self.tls = {broker.name: classic.free_port() for broker in self.brokers}
        self.ways: list[Way] = []
        for near, far in ((theirs, ours), (ours, theirs)):
            way = Way(near, far, Cable(far.port), Cable(far.port))
            self.ways.append(way)
            text = FILE.format(
                name=near.name, home=near.home, host=HOST, port=near.port, tls=self.tls[near.name], peer=far.name,
                peer_port=far.port, peer_tls=self.tls[far.name], sync=way.sync.port, audit=way.audit.port,
                files=files, fast=FAST,
            )  # fmt: skip
            (near.home / "activemq.xml").write_text(text)
        ours.arguments = (str(ours.home / "activemq.xml"),)
        ours.by_file = True
        try:
            for broker in self.brokers:
                broker.start()
            for broker in self.brokers:
                broker.await_ready()
        except RuntimeError:
            self.end()
            raise

    def each(self, test: Callable[[Way], Awaitable[None]]) -> None:
        """Try ``test`` in both directions, at once."""

        async def both() -> None:
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                for way in self.ways:
                    group.create_task(_named(test, way))

        asyncio.run(both())

    def end(self) -> None:
        for way in self.ways:
            way.sync.close()
            way.audit.close()
        for broker in self.brokers:
            broker.kill()


async def _named(test: Callable[[Way], Awaitable[None]], way: Way) -> None:
    try:
        await test(way)
    except AssertionError as error:
        raise AssertionError(f"from {way.near.name} to {way.far.name}: {error}") from error


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    made = Two(tmp_path_factory.mktemp("two"))
    yield made
    made.end()


async def send(broker: Classic | Entrepot, where: str, *bodies: str) -> None:
    async with connect(broker.url) as connection, connection.session() as session, session.producer(where) as producer:
        for body in bodies:
            await producer.send(Message(body))


async def arrives(source: Classic | Entrepot, where: str, consumer: Consumer) -> None:
    """Send until something arrives, and take the rest of it."""
    for _ in range(TRIES):
        await send(source, where, "probe")
        if await consumer.receive(0.2) is not None:
            break
    else:
        raise AssertionError(f"nothing crossed for {where}")
    while await consumer.receive(QUIET) is not None:
        pass


async def bodies(consumer: Consumer, count: int) -> list[object]:
    found: list[object] = []
    while len(found) < count:
        message = await consumer.receive(PATIENCE)
        assert message is not None, f"{found} came, and then nothing"
        found.append(message.body)
    rest = await consumer.receive(QUIET)
    assert rest is None, f"{rest.body} came too"
    return found


async def readers(broker: Classic | Entrepot, where: str) -> int:
    """Return how many consumers the broker counts for a destination: its own statistics say it."""
    async with connect(broker.url) as connection, connection.session() as session:
        kind, _, name = where.partition("://")
        asked = f"{kind}://ActiveMQ.Statistics.Destination.{name}"
        answer = await session.request(asked, Message(""), timeout=5)
        assert isinstance(answer.body, dict)
        return int(answer.body["consumerCount"])


async def until_read(broker: Classic | Entrepot, where: str, count: int) -> None:
    for _ in range(TRIES):
        if await readers(broker, where) == count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{where} is read by {await readers(broker, where)}, not {count}")


NUMBERS = [str(number) for number in range(20)]


def test_tls_with_certificates_on_both_sides(two: Two) -> None:
    async def test(way: Way) -> None:
        where = f"queue://{way.far.name}.tls"
        async with connect(way.far.url) as connection, connection.session() as session:
            async with session.consumer(where) as consumer:
                await arrives(way.near, where, consumer)
                await send(way.near, where, *NUMBERS)
                assert await bodies(consumer, len(NUMBERS)) == NUMBERS
        nameless = f"ssl://{HOST}:{two.tls[way.far.name]}?transport.trustStorePath={two.certificates.authority}"
        with pytest.raises(Unreachable):
            await connect(nameless)

    two.each(test)


def test_durable_subscriptions_made_and_removed_while_the_bridge_was_away(two: Two) -> None:
    async def test(way: Way) -> None:
        where = f"topic://{way.far.name}.sync"
        way.sync.cut()
        async with connect(way.far.url, client_id="sync") as connection, connection.session() as session:
            async with session.consumer(where, durable="sub"):
                pass
        way.sync.heal()
        for number in range(TRIES):  # nobody is there: only its list tells the near broker of the subscription
            await send(way.near, where, str(number))
            if await readers(way.near, where) > 0:
                break
            await asyncio.sleep(0.1)
        await send(way.near, where, "last")
        async with connect(way.far.url, client_id="sync") as connection, connection.session() as session:
            async with session.consumer(where, durable="sub") as consumer:
                message = await consumer.receive(PATIENCE)
                while message is not None and message.body != "last":
                    message = await consumer.receive(PATIENCE)
                assert message is not None, "what was sent to a durable subscription is not there"
            way.sync.cut()
            await connection.unsubscribe("sub")
        assert await readers(way.near, where) == 1
        way.sync.heal()
        if way.near.name == "ours":  # ActiveMQ 5.17.2 makes what is missing, and keeps what is not needed any more
            await until_read(way.near, where, 0)

    two.each(test)


def test_readers_of_what_is_filled_are_demand_for_what_fills_it(two: Two) -> None:
    async def test(way: Way) -> None:
        name = way.far.name
        for source, target in (
            (f"queue://{name}.mix", f"queue://{name}.part"),
            (f"topic://VirtualTopic.{name}", f"queue://Consumer.c.VirtualTopic.{name}"),
        ):
            async with connect(way.far.url) as connection, connection.session() as session:
                async with session.consumer(target) as consumer:
                    await arrives(way.near, source, consumer)
                    await send(way.near, source, *NUMBERS)
                    assert await bodies(consumer, len(NUMBERS)) == NUMBERS

    two.each(test)


def test_a_queue_that_is_filled_is_demand_without_a_reader(two: Two) -> None:
    async def test(way: Way) -> None:
        target = f"queue://{way.far.name}.made"
        await send(way.far, target, "made")
        await send(way.near, f"queue://{way.far.name}.unread", *NUMBERS)
        await until_read(way.near, f"queue://{way.far.name}.unread", 1)
        async with connect(way.far.url) as connection, connection.session() as session:
            async with session.consumer(target) as consumer:
                assert await bodies(consumer, 1 + len(NUMBERS)) == ["made", *NUMBERS]

    two.each(test)


def test_a_static_bridge_carries_what_is_listed_and_hears_of_nothing_else(two: Two) -> None:
    async def test(way: Way) -> None:
        listed, other = f"queue://{way.far.name}.static", f"queue://{way.far.name}.nowhere"
        async with connect(way.far.url) as connection, connection.session() as session:
            async with session.consumer(other) as consumer:
                await send(way.near, listed, *NUMBERS)
                await send(way.near, other, "stays")
                async with session.consumer(listed) as taking:
                    assert await bodies(taking, len(NUMBERS)) == NUMBERS
                assert await consumer.receive(QUIET) is None
        assert await readers(way.near, other) == 0

    two.each(test)


@pytest.mark.parametrize("rank", ["behind", "equal"])
def test_a_bridge_ranks_behind_readers_here_if_it_shall(two: Two, rank: str) -> None:
    async def test(way: Way) -> None:
        where = f"queue://{way.far.name}.{rank}"
        async with connect(way.far.url) as there, there.session() as session, session.consumer(where) as far:
            async with connect(way.near.url) as here, here.session() as another, another.consumer(where) as near:
                await until_read(way.near, where, 2)
                await send(way.near, where, *NUMBERS)
                if rank == "behind":
                    assert await bodies(near, len(NUMBERS)) == NUMBERS
                    assert await far.receive(0) is None
                else:
                    shares = {"near": 0, "far": 0}
                    while sum(shares.values()) < len(NUMBERS):
                        for name, consumer in (("near", near), ("far", far)):
                            shares[name] += int(await consumer.receive(0.1) is not None)
                    assert min(shares.values()) > 0, shares

    two.each(test)


def test_what_is_sent_again_because_its_answer_was_lost_arrives_once(two: Two) -> None:
    async def test(way: Way) -> None:
        where = f"queue://{way.far.name}.audit"
        async with connect(way.far.url) as connection, connection.session() as session:
            async with session.consumer(where) as consumer:
                await arrives(way.near, where, consumer)
                way.audit.deaf = True
                await send(way.near, where, "once")
                assert await bodies(consumer, 1) == ["once"]
                way.audit.cut()
                way.audit.heal()
                await send(way.near, where, "after")
                assert await bodies(consumer, 1) == ["after"]

    two.each(test)
