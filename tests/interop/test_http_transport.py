# ruff: noqa: SIM117  nested blocks say in which order things close
"""ActiveMQ's own http: transport: unmodified Java clients and bridges come to us, and ours go to ActiveMQ Classic.

Java's XStream needs ``--add-opens`` to read or write an exception on Java 16 or later, on either side; ActiveMQ's start
script has it, so the programs here have it too.
"""

from __future__ import annotations

import asyncio
import difflib
import socket
import time
import uuid
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import classic
import java_clients
import maven
import networks
import ours
import pytest
from java_clients import Program

from entrepot.client.connection import connect
from entrepot.client.message import Message

HTTP: Final = "org.apache.activemq:activemq-http:5.17.6"  # its XStream writes numbers that older ones cannot on Java 17
OPENED: Final = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util")]
PATIENCE: Final = 20.0
FEATURES: Final = [
    "types", "headers", "properties", "acknowledge", "pull", "temporary", "durable", "groups",
]  # fmt: skip
CONNECTOR: Final = '<transportConnector name="http" uri="http://{host}:{port}"/></transportConnectors>'

pytestmark = pytest.mark.skipif(bool(java_clients.unavailable()), reason=f"Java: {java_clients.unavailable()}")


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(bounded())


@pytest.fixture(scope="module")
def jars() -> Path:
    try:
        return maven.jars(HTTP)
    except maven.Unavailable as error:
        pytest.skip(str(error))


class HttpClassic(classic.Classic):
    """ActiveMQ Classic that listens for HTTP as well; ``url`` says so."""

    def __init__(self, home: Path, jars: Path, *, name: str) -> None:
        super().__init__(home, name=name)
        self.http_port = classic.free_port()
        text = (home / "activemq.xml").read_text()
        connector = CONNECTOR.format(host=classic.HOST, port=self.http_port)
        (home / "activemq.xml").write_text(text.replace("</transportConnectors>", connector))
        self.jars = [*self.jars, *([] if classic.VERSION else [f"{jars}/*"])]  # a release has its own
        self.java = OPENED

    def await_ready(self) -> HttpClassic:
        super().await_ready()  # its connectors open one after the other
        until = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection((classic.HOST, self.http_port), timeout=1).close()
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)
            else:
                return self

    @property
    def url(self) -> str:
        return f"http://{classic.HOST}:{self.http_port}"


class HttpEntrepot(ours.Entrepot):
    """This broker, which listens for HTTP as well; ``url`` says so."""

    def __init__(self, home: Path, *, name: str) -> None:
        self.http_port = classic.free_port()
        super().__init__(home, name=name, arguments=("--listen", self.url))

    @property
    def url(self) -> str:
        return f"http://{classic.HOST}:{self.http_port}"


@pytest.fixture(scope="module")
def far(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpEntrepot]:
    broker = HttpEntrepot(tmp_path_factory.mktemp("ours"), name="far")
    broker.start().await_ready()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def far_classic(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpClassic]:
    broker = HttpClassic(tmp_path_factory.mktemp("classic"), jars, name="far")
    broker.start().await_ready()
    yield broker
    broker.kill()


def features(text: str) -> dict[str, list[str]]:
    """Return the lines of a transcript by feature, without what no exception over HTTP can say: its JMS class."""
    parts = (part.partition("\n") for part in text.split("## ")[1:])
    return {
        name: [line for line in lines.splitlines() if ": javax.jms." not in line and ": there is no such" not in line]
        for name, _, lines in parts
    }


def test_java_clients_are_served_as_over_a_socket(jars: Path, tmp_path: Path) -> None:
    program = Program()
    program.path = f"{program.path}:{jars}/*"
    program.options = OPENED
    brokers = [HttpEntrepot(tmp_path / name, name=name) for name in ("polled", "spoken")]
    try:
        for broker in brokers:
            broker.start().await_ready()
        with ThreadPoolExecutor() as pool:
            urls = [brokers[0].url, f"tcp://{classic.HOST}:{brokers[1].port}"]
            texts = pool.map(lambda url: program.run("Exercise", url, *FEATURES), urls)
            polled, spoken = (features(text) for text in texts)
    finally:
        for broker in brokers:
            broker.kill()
    assert list(polled) == [*FEATURES, "end"]
    lines = list(difflib.unified_diff(named(spoken), named(polled), "socket", "http", lineterm="", n=1))
    assert not lines, "\n".join(lines)
    assert sum(map(len, polled.values())) > 30


def named(found: dict[str, list[str]]) -> list[str]:
    """Return the lines, without the numbers that make names unique in one run, and what an exception is called."""
    return [
        f"{name}: {line}".replace("java.lang.Throwable", "java.lang.Exception")
        for name in found
        for line in found[name]
    ]


def test_a_python_client_polls_activemq(far_classic: HttpClassic) -> None:
    async def main() -> None:
        where = f"queue://py.{uuid.uuid4().hex}"
        async with connect(far_classic.url) as connection, connection.session() as session:
            async with session.producer(where) as producer, session.consumer(where) as consumer:
                sent = Message("é <&> \U0001f600\x01" * 1000, properties={"n": 7, "name": "x<y"}, correlation_id="a&b")
                await producer.send(sent)
                received = await consumer.receive(PATIENCE)
                assert received is not None
                assert (received.body, received.properties, received.correlation_id) == (
                    sent.body,
                    sent.properties,
                    sent.correlation_id,
                )
                answers = await session.temporary_queue()
                async with session.consumer(answers) as replies:
                    await producer.send(Message("question", reply_to=answers))
                    question = await consumer.receive(PATIENCE)
                    assert question is not None
                    async with session.producer(question.reply_to) as answering:
                        await answering.send("answer")
                    reply = await replies.receive(PATIENCE)
                    assert reply is not None
                    assert reply.body == "answer"

    run(main())


async def crosses(source: str, target: str, count: int = 100) -> None:
    """Send at ``source`` what a consumer at ``target`` waits for: all of it arrives, in order."""
    where = f"queue://cross.{uuid.uuid4().hex}"
    async with connect(target) as there, there.session() as reading, reading.consumer(where) as consumer:
        async with connect(source) as here, here.session() as writing, writing.producer(where) as producer:
            for number in range(count):
                await producer.send(Message(f"body {number} \U0001f600", properties={"n": number}))
            for number in range(count):
                received = await consumer.receive(PATIENCE)
                assert received is not None, f"{number} of {count} arrived"
                assert (received.body, received.properties["n"]) == (f"body {number} \U0001f600", number)


def test_our_bridge_goes_to_activemq_and_back_after_it_was_killed(far_classic: HttpClassic, tmp_path: Path) -> None:
    near = networks.bridging("entrepot", tmp_path, name="near", to=[far_classic], duplex=True)
    near.start().await_ready()
    there = f"tcp://{classic.HOST}:{far_classic.port}"

    async def left_behind() -> None:
        async with connect(near.url) as here, here.session() as session, session.producer("queue://left") as producer:
            for number in range(20):
                await producer.send(f"left {number}")

    async def fetched() -> None:
        async with connect(there) as back, back.session() as session, session.consumer("queue://left") as consumer:
            for number in range(20):
                received = await consumer.receive(PATIENCE)
                assert received is not None
                assert received.body == f"left {number}"

    try:
        run(crosses(near.url, there))
        run(crosses(there, near.url))
        far_classic.kill()
        run(left_behind())
        far_classic.start().await_ready()
        run(fetched())
        run(crosses(near.url, there))
    finally:
        near.kill()


def test_the_bridge_of_activemq_comes_to_us(far: HttpEntrepot, jars: Path, tmp_path: Path) -> None:
    near = networks.bridging("classic", tmp_path, name="near", to=[far], duplex=True)
    assert isinstance(near, classic.Classic)
    near.jars = [*near.jars, *([] if classic.VERSION else [f"{jars}/*"])]
    near.java = OPENED
    near.start().await_ready()
    there = f"tcp://{classic.HOST}:{far.port}"
    try:
        run(crosses(near.url, there))
        run(crosses(there, near.url))
    finally:
        near.kill()
