# ruff: noqa: SIM117  nested blocks say in which order things close
"""Three brokers of ours and one of ActiveMQ in their midst, joined by nothing but their own activemq.xml.

    a <=> k (ActiveMQ, asks for a password) <=> c <-- d

What crosses is what `entrepot check` says of the same four files.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import classic
import ours
import pytest

from entrepot.analysis.graph import served
from entrepot.analysis.members import member_of
from entrepot.analysis.model import Network
from entrepot.analysis.rules import judge
from entrepot.analysis.survey import network_of
from entrepot.cli.configuration import examine
from entrepot.client.connection import connect
from entrepot.client.message import Message
from entrepot.config.findings import Severity

PATIENCE = 20.0
QUIET = 1.0  # s without a message, after others have crossed
FAST = "initialReconnectDelay=100&amp;useExponentialBackOff=false"

FILE = """<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}">
<networkConnectors>{connectors}</networkConnectors>
<persistenceAdapter><kahaDB directory="{home}/kahadb"/></persistenceAdapter>
<transportConnectors><transportConnector name="openwire" uri="tcp://127.0.0.1:{port}"/></transportConnectors>
</broker></beans>
"""


def connector(name: str, port: int, attributes: str, body: str = "") -> str:
    uri = f"static:(tcp://127.0.0.1:{port})?{FAST}"
    return f'<networkConnector name="{name}" uri="{uri}" networkTTL="3" {attributes}>{body}</networkConnector>'


class FromFile(ours.Entrepot):
    """`entrepot run FILE`."""

    def __init__(self, home: Path, name: str, connectors: str = "") -> None:
        super().__init__(home, name=name)
        self.file = home / f"{name}.xml"
        self.file.write_text(FILE.format(name=name, home=home, port=self.port, connectors=connectors))

    def start(self) -> FromFile:
        command = [sys.executable, "-m", "entrepot", "run", str(self.file)]
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self


class Four:
    """The network, running."""

    def __init__(self, home: Path) -> None:
        self.c = FromFile(home / "c", "c")
        self.k = classic.Classic(home / "k", name="k", authenticated=True)
        file = home / "k" / "activemq.xml"
        to_c = connector("k-c", self.c.port, 'duplex="true" userName="app" password="secret"')
        file.write_text(
            file.read_text().replace("<plugins>", f"<networkConnectors>{to_c}</networkConnectors><plugins>", 1)
        )
        excluded = '<excludedDestinations><queue physicalName="private.&gt;"/></excludedDestinations>'
        self.a = FromFile(
            home / "a",
            "a",
            connector("a-k", self.k.port, 'duplex="true" userName="app" password="secret"', excluded),
        )
        lists = (
            '<dynamicallyIncludedDestinations><queue physicalName="orders.&gt;"/></dynamicallyIncludedDestinations>'
            '<staticallyIncludedDestinations><queue physicalName="reports"/></staticallyIncludedDestinations>'
        )
        self.d = FromFile(home / "d", "d", connector("d-c", self.c.port, 'conduitSubscriptions="false"', lists))
        self.files = [self.a.file, file, self.c.file, self.d.file]
        self.brokers = (self.a, self.k, self.c, self.d)
        for broker in self.brokers:
            broker.start()
        for broker in self.brokers:
            broker.await_ready()

    def network(self) -> Network:
        members = []
        for file in self.files:
            reading = examine(str(file), ())
            assert reading.draft is not None, [finding.describe() for finding in reading.findings.errors]
            members.append(member_of(reading.draft, file.name))
        return network_of(members)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Four]:
    if classic.unavailable():
        pytest.skip(classic.unavailable())
    made = Four(tmp_path_factory.mktemp("four"))
    yield made
    for broker in made.brokers:
        broker.kill()


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await main

    asyncio.run(bounded())


async def send(source: FromFile, where: str, *bodies: str) -> None:
    async with connect(source.url) as connection, connection.session() as session, session.producer(where) as producer:
        for body in bodies:
            await producer.send(Message(body))


async def crosses(source: FromFile, target: FromFile, where: str, expected: list[str]) -> None:
    """Consume at ``target`` what is sent at ``source``; send until the first one arrives."""
    async with connect(target.url) as connection, connection.session() as session, session.consumer(where) as consumer:
        for _ in range(100):
            await send(source, where, "probe")
            received = await consumer.receive(0.3)
            if received is not None:
                break
        else:
            raise AssertionError(f"nothing crossed from {source.name} to {target.name} for {where}")
        while await consumer.receive(QUIET) is not None:
            pass
        await send(source, where, *expected)
        for body in expected:
            received = await consumer.receive(PATIENCE)
            assert received is not None, body
            assert received.body == body


BODIES = [f"m{number}" for number in range(20)]


def test_the_checker_says_that_it_works_and_how_far(four: Four) -> None:
    network = four.network()
    assert [one.what for one in judge(network) if one.severity is Severity.ERROR] == []
    assert [node.name for node in network.nodes] == ["a", "k", "c", "d"]
    assert served(4, network.links) == [[0, 1, 2, -1], [1, 0, 1, -1], [2, 1, 0, -1], [3, 2, 1, 0]]


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_two_hops_through_activemq_either_way(four: Four, kind: str) -> None:
    run(crosses(four.a, four.c, f"{kind}://there.{kind}", BODIES))
    run(crosses(four.c, four.a, f"{kind}://back.{kind}", BODIES))


@pytest.mark.parametrize(("asking", "serving"), [("a", "c"), ("c", "a")])
def test_a_reply_comes_back_over_two_hops_through_activemq(four: Four, asking: str, serving: str) -> None:
    """Requests go to a queue, replies to a temporary queue of a broker that is not even a neighbour."""

    async def main() -> None:
        near: FromFile = getattr(four, asking)
        far: FromFile = getattr(four, serving)
        where = f"queue://asked.by.{asking}"
        async with connect(far.url) as there, there.session() as session, session.consumer(where) as requests:
            while await requests.receive(0.3) is None:
                await send(near, where, "probe")
            async with connect(near.url) as here, here.session() as asker:
                answers = await asker.temporary_queue()
                async with asker.consumer(answers) as replies, asker.producer(where) as producer:
                    for number in range(3):
                        await producer.send(Message(f"question {number}", reply_to=answers))
                    answered = 0
                    while answered < 3:
                        request = await requests.receive(PATIENCE)
                        assert request is not None
                        if request.reply_to is None:
                            continue  # a probe
                        async with session.producer(request.reply_to) as back:
                            await back.send(f"answer to {request.body}")
                        answered += 1
                    for number in range(3):
                        reply = await replies.receive(PATIENCE)
                        assert reply is not None
                        assert reply.body == f"answer to question {number}"

    run(main())


def test_three_hops_by_a_list_of_what_may_cross(four: Four) -> None:
    run(crosses(four.d, four.a, "queue://orders.1", BODIES))


def test_what_is_included_statically_goes_without_being_asked_for(four: Four) -> None:
    async def main() -> None:
        await send(four.d, "queue://reports", *BODIES)
        await asyncio.sleep(QUIET)
        four.d.kill()  # it is not needed any more: the messages are there
        async with connect(four.c.url) as connection, connection.session() as session:
            async with session.consumer("queue://reports") as consumer:
                received = [await consumer.receive(PATIENCE) for _ in BODIES]
        four.d.start().await_ready()
        assert [one.body if one is not None else None for one in received] == BODIES

    run(main())


@pytest.mark.parametrize(("source", "where"), [("a", "queue://private.x"), ("d", "queue://elsewhere")])
def test_what_is_excluded_or_not_included_stays(four: Four, source: str, where: str) -> None:
    async def main() -> None:
        begin: FromFile = getattr(four, source)
        async with connect(four.c.url) as connection, connection.session() as session:
            async with session.consumer(where) as consumer:
                await send(begin, where, "stays")
                await crosses(begin, four.c, "queue://orders.sentinel", ["crosses"])
                assert await consumer.receive(QUIET) is None
        async with connect(begin.url) as connection, connection.session() as session:
            async with session.consumer(where) as consumer:
                received = await consumer.receive(PATIENCE)
                assert received is not None
                assert received.body == "stays"

    run(main())
