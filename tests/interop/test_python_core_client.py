"""Our own client over CORE, with a real Artemis: what it sends and receives, its transactions, kill -9 and again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import ours
import pytest
from artemis import Artemis, unavailable

import entrepot
from entrepot import Acknowledge, Message, Xid
from entrepot.base.errors import InvalidSelector, Refused, TransactionRolledBack

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    broker = Artemis(tmp_path_factory.mktemp("artemis"))
    broker.start().await_ready()
    yield broker
    broker.kill()


def core(broker: Artemis | ours.Entrepot) -> str:
    return broker.url.replace("tcp://", "core://")


def with_connection(test: Callable[[Any], Awaitable[None]]) -> Callable[[Artemis], None]:
    """Run ``test`` with a connection of its own."""

    def run(artemis: Artemis) -> None:
        async def play() -> None:
            async with asyncio.timeout(60), entrepot.connect(core(artemis)) as connection:
                await test(connection)

        asyncio.run(play())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def bodies(consumer: Any, most: int) -> list[object]:
    found: list[object] = []
    while len(found) < most and (message := await consumer.receive(PATIENCE_S)) is not None:
        found.append(message.body)
    return found


BODIES: list[object] = [
    "grüße 😀",
    b"\0\xff",
    {"a": 1, "b": None, "c": b"x"},
    [1, "x", None, 2.5],
    None,
    "",
    "y" * 5000,
]


@with_connection
async def test_every_kind_of_message(connection: Any) -> None:
    async with (
        connection.session() as session,
        session.producer("kinds") as producer,
        session.consumer("kinds") as consumer,
    ):
        for body in BODIES:
            await producer.send(body)
        assert await bodies(consumer, len(BODIES)) == BODIES


@with_connection
async def test_headers_and_properties(connection: Any) -> None:
    async with (
        connection.session() as session,
        session.producer("headers") as producer,
        session.consumer("headers") as consumer,
    ):
        await producer.send(
            Message("x", correlation_id="c", reply_to="queue://answers", type="t", group="g", properties={"n": 5}),
            priority=7,
            time_to_live=60.0,
        )
        message = await consumer.receive(PATIENCE_S)
        assert (message.correlation_id, message.reply_to, message.type) == ("c", "queue://answers", "t")
        assert message.properties["n"] == 5
        assert (message.priority, message.destination, message.persistent) == (7, "queue://headers", True)
        assert message.message_id.startswith("ID:")
        assert message.expiration > message.timestamp > 0


def test_more_than_all_windows(artemis: Artemis) -> None:
    asyncio.run(_more_than_all_windows(artemis))


async def _more_than_all_windows(artemis: Artemis) -> None:
    url = core(artemis) + "?consumerWindowSize=20000&producerWindowSize=4000"
    async with (
        asyncio.timeout(60),
        entrepot.connect(url) as connection,
        connection.session() as session,
        session.producer("many") as producer,
        session.consumer("many") as consumer,
    ):
        for number in range(200):
            await producer.send(f"{number} " + "x" * 900, wait=number % 10 == 0)
        found = await bodies(consumer, 200)
        assert [int(str(body).split()[0]) for body in found] == list(range(200))


@with_connection
async def test_large_messages(connection: Any) -> None:
    body = bytes(range(256)) * 8192  # 2 MiB, twice the window
    async with (
        connection.session() as session,
        session.producer("large") as producer,
        session.consumer("large") as consumer,
    ):
        await producer.send(body)
        await producer.send("é" * 200_000)
        assert await bodies(consumer, 2) == [body, "é" * 200_000]


@with_connection
async def test_transactions(connection: Any) -> None:
    async with (
        connection.session(Acknowledge.TRANSACTED) as session,
        session.producer("deeds") as producer,
        session.consumer("deeds") as consumer,
    ):
        await producer.send("undone")
        await session.rollback()
        await producer.send("done")
        assert await consumer.receive(0.3) is None
        await session.commit()
        message = await consumer.receive(PATIENCE_S)
        assert (message.body, message.redelivered) == ("done", False)
        await session.rollback()
        message = await consumer.receive(PATIENCE_S)
        assert (message.body, message.redelivered) == ("done", True)
        await session.commit()
        assert await consumer.receive(0.3) is None


@with_connection
async def test_acknowledgements(connection: Any) -> None:
    async with connection.session() as sender, sender.producer("acks") as producer:
        for number in range(4):
            await producer.send(str(number))
    async with connection.session(Acknowledge.CLIENT) as session, session.consumer("acks") as consumer:
        first = await consumer.receive(PATIENCE_S)
        await first.acknowledge()
        await consumer.receive(PATIENCE_S)
        session.recover()
        again = await consumer.receive(PATIENCE_S)
        assert (again.body, again.redelivered) == ("1", True)
        await again.acknowledge()
    async with connection.session(Acknowledge.INDIVIDUAL) as session, session.consumer("acks") as consumer:
        two, three = await consumer.receive(PATIENCE_S), await consumer.receive(PATIENCE_S)
        assert (two.body, three.body) == ("2", "3")
        await three.acknowledge()
    async with connection.session() as session, session.consumer("acks") as consumer:
        left = await consumer.receive(PATIENCE_S)
        assert left.body == "2"
        assert await consumer.receive(0.3) is None


@with_connection
async def test_browsing_and_one_at_a_time(connection: Any) -> None:
    queue = f"looked.at.{uuid4().hex}"
    async with connection.session() as session, session.producer(queue) as producer:
        for number in range(3):
            await producer.send(str(number))
        async with session.browser(queue) as browser:
            assert [message.body async for message in browser] == ["0", "1", "2"]
        async with session.consumer(queue, prefetch=0) as consumer:
            assert [(await consumer.receive(PATIENCE_S)).body for _ in range(3)] == ["0", "1", "2"]
            assert await consumer.receive(0.2) is None
            assert await consumer.receive(0) is None
            await producer.send("late")
            assert (await consumer.receive(PATIENCE_S)).body == "late"


@with_connection
async def test_pulls_of_every_size_take_one_each(connection: Any) -> None:
    """The credit of pulls does not drift: each brings one message and leaves the next ones to others."""
    queue = f"pulled.{uuid4().hex}"
    sizes = [1, 50_000, 300_000, 7, 102_400, 0] * 20
    async with (
        connection.session() as session,
        session.producer(queue) as producer,
        session.consumer(queue, prefetch=0) as consumer,
    ):
        for size in sizes:
            await producer.send(b"x" * size)
        for at, size in enumerate(sizes[:-6]):
            message = await consumer.receive(PATIENCE_S)
            assert message is not None, at
            assert len(message.body) == size
        async with connection.session() as other, other.consumer(queue) as rest:
            assert [len(body) for body in await bodies(rest, 6)] == sizes[-6:]  # type: ignore[arg-type]
        assert await consumer.receive(0) is None


def test_topics_and_subscriptions(artemis: Artemis) -> None:
    asyncio.run(_topics_and_subscriptions(artemis))


async def _topics_and_subscriptions(artemis: Artemis) -> None:
    url = core(artemis) + "?jms.clientID=watcher.1"
    async with asyncio.timeout(60):
        async with (
            entrepot.connect(url) as connection,
            connection.session() as session,
            session.producer("topic://news") as producer,
            session.consumer("topic://news", selector="JMSPriority > 4 AND colour = 'red'") as some,
            session.consumer("topic://news", no_local=True) as others,
            session.consumer("topic://news", durable="kept") as durable,
        ):
            await producer.send("grey")
            await producer.send("red", properties={"colour": "red"}, priority=6)
            assert (await some.receive(PATIENCE_S)).body == "red"
            assert await others.receive(0.3) is None
            assert (await durable.receive(PATIENCE_S)).destination == "topic://news"
        async with entrepot.connect(url) as connection, connection.session() as session:
            async with session.consumer("topic://news", durable="kept") as durable:
                assert (await durable.receive(PATIENCE_S)).body == "red"
            await connection.unsubscribe("kept")


@with_connection
async def test_requests_and_temporary_queues(connection: Any) -> None:
    async with connection.session() as server, server.consumer("asked") as asked, connection.session() as session:
        where = await session.temporary_queue()
        async with session.consumer(where) as answers, session.producer("asked") as producer:
            await producer.send(Message("2+2", reply_to=where))
            question = await asked.receive(PATIENCE_S)
            async with server.producer(question.reply_to) as replies:
                await replies.send("4")
            assert (await answers.receive(PATIENCE_S)).body == "4"


@with_connection
async def test_what_is_refused(connection: Any) -> None:
    async with connection.session() as session:
        with pytest.raises(InvalidSelector):
            async with session.consumer("refused", selector="a ="):
                pass


@pytest.fixture(params=["Artemis", "ours"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Artemis | ours.Entrepot]:
    """A broker of its own, to be killed."""
    theirs = Artemis(tmp_path)
    broker = theirs if request.param == "Artemis" else ours.like_artemis(tmp_path / "ours", theirs)
    broker.start().await_ready()
    yield broker
    broker.kill()


def test_branches_of_distributed_transactions(either: Artemis | ours.Entrepot) -> None:
    asyncio.run(_branches(core(either)))


async def _branches(url: str) -> None:
    done, undone = Xid(7, b"done", b"\0\xff"), Xid(7, b"undone")
    async with asyncio.timeout(60), entrepot.connect(url) as connection, entrepot.connect(url) as other:
        async with connection.session() as session, session.producer("orders") as producer:
            for number in range(3):
                await producer.send(str(number))
        async with (
            connection.session(Acknowledge.TRANSACTED, xa=True) as session,
            session.producer("results") as producer,
            session.consumer("orders") as orders,
        ):
            await session.begin_branch(done)
            await producer.send(f"{(await orders.receive(PATIENCE_S)).body} done")
            await session.end_branch(done)
            assert await connection.prepare(done)
            assert await other.prepared() == [done]
            async with other.session() as watching, watching.consumer("results") as results:
                assert await results.receive(0.2) is None
                await other.commit(done)
                assert (await results.receive(PATIENCE_S)).body == "0 done"
            await session.begin_branch(undone)
            await producer.send(f"{(await orders.receive(PATIENCE_S)).body} never")
            await session.end_branch(undone)
            await connection.rollback(undone)
            left = {(await orders.receive(PATIENCE_S)).body for _ in range(2)}
            assert left == {"1", "2"}
        assert await other.prepared() == []
        with pytest.raises(Refused):
            await connection.commit(Xid(3, b"unknown"))
        async with other.session() as session, session.consumer("orders") as orders:
            assert {(await orders.receive(PATIENCE_S)).body for _ in range(2)} == {"1", "2"}
        async with other.session() as session, session.consumer("results") as results:
            assert await results.receive(0.2) is None


def test_what_is_prepared_survives_a_kill_and_what_is_not_does_not(either: Artemis | ours.Entrepot) -> None:
    asyncio.run(_prepared_and_killed(either))


async def _prepared_and_killed(broker: Artemis | ours.Entrepot) -> None:
    kept, lost = Xid(1, b"kept"), Xid(1, b"lost")
    url = f"failover:({core(broker)})?maxReconnectDelay=100"
    async with asyncio.timeout(90), entrepot.connect(url) as connection:
        for xid in (kept, lost):
            session = connection.session(Acknowledge.TRANSACTED, xa=True)
            await session.begin_branch(xid)
            await (await session.producer("out")).send(xid.global_id.decode())
            await session.end_branch(xid)
        assert await connection.prepare(kept)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(lambda: broker.start().await_ready())
        assert await connection.prepared() == [kept]
        with pytest.raises(TransactionRolledBack):
            await connection.prepare(lost)
        await connection.commit(kept)
        async with connection.session() as plain, plain.consumer("out") as consumer:
            assert await bodies(consumer, 1) == ["kept"]
            assert await consumer.receive(0.2) is None


def test_kill_and_again(tmp_path: Path) -> None:
    """Nothing confirmed is lost, nothing comes twice of what was settled, and what is open goes on."""
    asyncio.run(_kill_and_again(tmp_path))


async def _kill_and_again(tmp_path: Path) -> None:
    broker = Artemis(tmp_path / "artemis")
    broker.start().await_ready()
    try:
        url = f"core:({broker.url})?initialReconnectDelay=50&maxReconnectDelay=200"
        async with (
            asyncio.timeout(120),
            entrepot.connect(url) as connection,
            connection.session() as session,
            session.producer("again") as producer,
            session.consumer("again") as consumer,
            connection.session(Acknowledge.TRANSACTED) as transacted,
            transacted.producer("again") as unsure,
            transacted.consumer("other") as other,
        ):
            await producer.send("before", destination="queue://other")
            await unsure.send("never")
            assert (await other.receive(PATIENCE_S)).body == "before"
            broker.kill()
            sending = asyncio.create_task(producer.send("across"))
            await asyncio.sleep(0.3)
            broker.start()
            await sending
            with pytest.raises(TransactionRolledBack):
                await transacted.commit()
            assert await bodies(consumer, 1) == ["across"]
            assert (await other.receive(PATIENCE_S)).body == "before"
            await unsure.send("after")
            await transacted.commit()
            assert await bodies(consumer, 1) == ["after"]
            assert await consumer.receive(0.5) is None
    finally:
        broker.kill()


def test_commands_speak_core(artemis: Artemis) -> None:
    """`entrepot send`, `receive`, `browse` and `perf` with ``--connect``."""

    def command(*words: str, given: str = "") -> str:
        line = [sys.executable, "-m", "entrepot", words[0], "--connect", core(artemis), *words[1:]]
        done = subprocess.run(line, input=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    command("send", "/queue/commands", "one", "--header", "colour=red", "--priority", "7")
    command("send", "/queue/commands", given="two\nthree\n")
    seen = [json.loads(line) for line in command("browse", "/queue/commands", "--output", "json").splitlines()]
    assert [row["body"] for row in seen] == ["one", "two", "three"]
    assert (seen[0]["headers"]["priority"], seen[0]["properties"]["colour"]) == ("7", "red")
    assert command("receive", "/queue/commands", "--selector", "colour = 'red'", "--count", "1") == "one\n"
    assert command("receive", "/queue/commands", "--count", "2") == "two\nthree\n"
    assert command("browse", "/queue/commands") == "", "none is left"
    figures = json.loads(command("perf", "--count", "400", "--persistent", "--ack", "client-individual", "--json"))
    assert (figures["sent"], figures["received"], figures["missing"]) == (400, 400, 0)
