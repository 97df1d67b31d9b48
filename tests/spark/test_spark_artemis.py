"""Queues and topics of a real Artemis, read by Spark through a broker of ours beside it (docs/spark-on-activemq.md)."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path

import artemis
import pytest
from artemis import Artemis
from classic import free_port

import entrepot
from guides import all_blocks
from promises import never
from shell.daemon import Daemon
from spark.stand import PATIENCE, Stand

PAGE = "docs/spark-on-activemq.md"
PLACES = "tcp://a:61616,tcp://b:61616"  # of the page

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")


def connection_of_the_page(words: str) -> str:
    """Return what the page has behind ``--connect`` in its command with ``words``."""
    found = [block.text for block in all_blocks("text") if block.page == PAGE and "artemis:" in block.text]
    (line,) = [text for text in found if words in text]
    arguments = shlex.split(line)
    return arguments[arguments.index("--connect") + 1]


def core(foreign: Artemis) -> str:
    return foreign.url.replace("tcp://", "core://")


def produce(foreign: Artemis, where: str, bodies: list[str]) -> list[str]:
    async def play() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            entrepot.connect(core(foreign), user="app", password="secret") as connection,
            connection.session() as session,
            session.producer(where) as producer,
        ):
            for body in bodies:
                await producer.send(body)

    asyncio.run(play())
    return bodies


def take(foreign: Artemis, where: str, most: int = 0) -> list[str]:
    """Consume what is there, at least ``most`` if they come in time."""
    found: list[str] = []

    async def play() -> None:
        async with (
            asyncio.timeout(2 * PATIENCE),
            entrepot.connect(core(foreign), user="app", password="secret") as connection,
            connection.session() as session,
            session.consumer(where) as consumer,
        ):
            while (message := await consumer.receive(0.7 if len(found) >= most else PATIENCE)) is not None:
                body = message.body
                found.append(body.decode() if isinstance(body, bytes) else str(body))

    asyncio.run(play())
    return found


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    started = Artemis(tmp_path_factory.mktemp("foreign"), name="foreign", authenticated=True)
    try:
        yield started.start().await_ready()
    finally:
        started.kill()


@pytest.fixture
def beside(foreign: Artemis, tmp_path: Path, stand: Stand) -> Iterator[Daemon]:
    """The broker beside it, as the page says, with the way back; ``stand`` reads from there."""
    (tmp_path / "beside").mkdir()
    uri = connection_of_the_page("user=").replace(PLACES, foreign.url)
    uri = uri.replace("user=spark&password=SECRET", "user=app&password=secret")
    back = connection_of_the_page("back=").partition("?")[2]
    listen = f"stomp://127.0.0.1:{free_port()}"  # the same when it is started again
    connect = f"{uri}&{back}&retryInterval=100&maxRetryInterval=500"
    daemon = Daemon(tmp_path / "beside", "--listen", listen, "--name", f"b{free_port()}", "--connect", connect).start()
    stand.url = listen
    yield daemon
    stand.close()
    daemon.stop()


def test_the_page_does_what_it_says(foreign: Artemis, beside: Daemon, stand: Stand, tmp_path: Path) -> None:
    (block,) = [one for one in all_blocks("python") if one.page == PAGE]
    text = block.text.replace("stomp://127.0.0.1:61613", stand.url).replace('"data/', f'"{tmp_path}/data/')
    sent = produce(foreign, "orders", [f"{number}" for number in range(50)])
    made = {"spark": stand.spark}
    exec(compile(text, block.page, "exec"), made)  # the words of the page
    assert made["query"].awaitTermination(PATIENCE)
    landed = stand.spark.read.parquet(f"{tmp_path}/data/orders").select("text").collect()
    assert sorted((row["text"] for row in landed), key=int) == sent
    assert take(foreign, "orders") == []


def test_a_topic_and_what_came_while_nobody_read(foreign: Artemis, beside: Daemon, stand: Stand) -> None:
    def topic() -> None:
        stand.run(stand.stream(queue=None, topic="events", subscription="spark", demand="true").select("text"))

    topic()
    sent = produce(foreign, "topic://events", ["a", "b"])
    topic()
    assert sorted(stand.texts()) == sent


def test_kills_of_either_broker_lose_nothing_and_double_nothing(foreign: Artemis, beside: Daemon, stand: Stand) -> None:
    sent: list[str] = []
    query = stand.start(stand.stream(demand="true").select("text"), processingTime="0 seconds")
    for turn in range(2):
        sent += produce(foreign, stand.queue, [f"{turn}-{number}" for number in range(500)])
        if turn % 2:
            beside.kill()
            beside.start()
        else:
            foreign.kill()
            foreign.start().await_ready()
        stand.until(lambda: len(stand.texts()) >= len(sent))  # noqa: B023 - called here
    query.stop()
    with never():
        assert sorted(stand.texts()) == sorted(sent)
        assert take(foreign, stand.queue) == []


def test_the_way_back_is_once(foreign: Artemis, beside: Daemon, stand: Stand) -> None:
    frame = stand.spark.range(500).selectExpr("concat('r-', id) AS text")
    for _ in range(2):  # Spark writes a batch again when it does not know how the first attempt ended
        options = stand.given(queue="results", subscription=None, sink="returning", batch=1)
        frame.write.format("entrepot").options(**options).mode("append").save()
    came = take(foreign, "results", 500)
    with never():
        assert sorted(came) == sorted(f"r-{number}" for number in range(500))
