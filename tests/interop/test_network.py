# ruff: noqa: SIM117  nested blocks say in which order things close
"""Bridges between this broker and ActiveMQ Classic, dialled by either, one way and duplex; killed under load."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import classic
import networks
import pytest
from networks import SHAPES, Broker

from entrepot.base.errors import EntrepotError
from entrepot.client.connection import connect
from entrepot.client.consumer import Consumer
from entrepot.client.message import Message

PATIENCE = 15.0


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(100):
            await main

    asyncio.run(bounded())


def fresh(kind: str = "queue") -> str:
    return f"{kind}://net.{uuid.uuid4().hex}"


class Pair:
    """``near`` dialled ``far``; messages go from near to far, and back when ``duplex``."""

    def __init__(self, home: Path, shape: str, attributes: str = "") -> None:
        near, far, self.duplex = SHAPES[shape]
        if "classic" in (near, far) and classic.unavailable():
            pytest.skip(classic.unavailable())
        self.far: Broker = networks.plain(far, home / "far", name="far")
        self.near: Broker = networks.bridging(
            near, home / "near", name="near", to=[self.far], duplex=self.duplex, attributes=attributes
        )
        self.far.start()
        self.near.start()
        self.far.await_ready()
        self.near.await_ready()

    def ways(self) -> list[tuple[Broker, Broker]]:
        return [(self.near, self.far), (self.far, self.near)] if self.duplex else [(self.near, self.far)]

    def kill(self) -> None:
        self.near.kill()
        self.far.kill()


@pytest.fixture(scope="module", params=list(SHAPES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp(request.param), request.param)
    yield made
    made.kill()


async def arrives(source: Broker, where: str, consumer: Consumer) -> None:
    """Send until something arrives: the bridge is open, and knows of the consumer. All of it has arrived then."""
    async with connect(source.url) as connection, connection.session() as session:
        async with session.producer(where) as producer:
            for number in range(200):
                await producer.send(f"probe {number}", persistent=False)
                seen = await consumer.receive(0.2)
                if seen is not None:
                    break
            else:
                raise AssertionError("nothing ever crossed")
    while seen.body != f"probe {number}":
        seen = await consumer.receive(PATIENCE)
        assert seen is not None, f"probe {number} did not arrive"


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("persistent", [True, False])
def test_messages_cross_in_order_with_all_they_say(pair: Pair, kind: str, persistent: bool) -> None:
    async def main() -> None:
        for source, target in pair.ways():
            where = fresh(kind)
            async with connect(target.url) as far, far.session() as reading, reading.consumer(where) as consumer:
                await arrives(source, where, consumer)
                async with connect(source.url) as near, near.session() as writing, writing.producer(where) as producer:
                    for number in range(200):
                        message = Message(f"body {number}", properties={"n": number})
                        await producer.send(message, persistent=persistent)
                    for number in range(200):
                        received = await consumer.receive(PATIENCE)
                        assert received is not None, f"{number} of 200 arrived"
                        assert received.body == f"body {number}"
                        assert received.properties["n"] == number
                    assert await consumer.receive(0.2) is None

    run(main())


def test_a_reply_comes_back_through_a_temporary_queue(pair: Pair) -> None:
    if not pair.duplex:
        pytest.skip("one way has no way back")

    async def main() -> None:
        where = fresh()
        async with connect(pair.far.url) as far, far.session() as serving, serving.consumer(where) as requests:
            await arrives(pair.near, where, requests)
            async with connect(pair.near.url) as near, near.session() as asking:
                answers = await asking.temporary_queue()
                async with asking.consumer(answers) as consumer, asking.producer(where) as producer:
                    await asyncio.sleep(1.0)
                    await producer.send(Message("question", reply_to=answers))
                    request = await requests.receive(PATIENCE)
                    assert request is not None
                    async with serving.producer(request.reply_to) as answering:
                        await answering.send("answer")
                    answer = await consumer.receive(PATIENCE)
                    assert answer is not None
                    assert answer.body == "answer"

    run(main())


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("victim", ["near", "far"])
def test_nothing_acknowledged_is_lost_when_either_side_is_killed(shape: str, victim: str, tmp_path: Path) -> None:
    made = Pair(tmp_path, shape)
    where = fresh()
    total = 400

    async def produce() -> None:
        url = f"failover:({made.near.url})?initialReconnectDelay=50&maxReconnectDelay=200"
        async with connect(url) as near, near.session() as session, session.producer(where) as producer:
            for number in range(total):
                await producer.send(str(number))
                if number % 20 == 0:
                    await asyncio.sleep(0.02)

    async def consume(seen: dict[str, int]) -> None:
        url = f"failover:({made.far.url})?initialReconnectDelay=50&maxReconnectDelay=200"
        async with connect(url) as far, far.session() as session, session.consumer(where) as consumer:
            while len(seen) < total:
                message = await consumer.receive(1.0)
                if message is not None:
                    seen[str(message.body)] = seen.get(str(message.body), 0) + 1

    async def main() -> None:
        seen: dict[str, int] = {}
        consuming = asyncio.create_task(consume(seen))
        producing = asyncio.create_task(produce())
        for _ in range(2):
            before = len(seen)
            async with asyncio.timeout(40):
                while len(seen) < min(before + 60, total):
                    await asyncio.sleep(0.02)
            broker = made.near if victim == "near" else made.far
            broker.kill()
            broker.start()
            await asyncio.to_thread(broker.await_ready)
        await producing
        try:
            async with asyncio.timeout(60):
                await consuming
        except TimeoutError:
            missing = [number for number in range(total) if str(number) not in seen]
            raise AssertionError(f"{len(missing)} were lost: {missing[:20]}") from None
        print(f"{shape}, {victim} killed twice: {sum(seen.values()) - total} came twice")

    try:
        run(main())
    finally:
        made.kill()


@pytest.mark.parametrize("shape", ["entrepot-classic", "classic-entrepot", "entrepot-entrepot"])
def test_a_durable_subscription_is_served_after_the_bridge_was_away(shape: str, tmp_path: Path) -> None:
    made = Pair(tmp_path, shape)
    where = fresh("topic")

    async def main() -> None:
        async with connect(made.far.url, client_id="d") as far, far.session() as session:
            async with session.consumer(where, durable="sub") as consumer:
                await arrives(made.near, where, consumer)
                made.far.kill()
        async with connect(made.near.url) as near, near.session() as session, session.producer(where) as producer:
            for number in range(10):
                await producer.send(str(number))
        made.far.start()
        await asyncio.to_thread(made.far.await_ready)
        async with connect(made.far.url, client_id="d") as far, far.session() as session:
            async with session.consumer(where, durable="sub") as consumer:
                got = []
                for _ in range(10):
                    message = await consumer.receive(30.0)
                    assert message is not None, f"{got} came"
                    got.append(message.body)
                assert got == [str(number) for number in range(10)]

    try:
        run(main())
    except EntrepotError as error:
        raise AssertionError(str(error)) from error
    finally:
        made.kill()


@pytest.mark.parametrize("middle", ["classic", "entrepot"])
def test_two_hops_through_a_foreign_broker(middle: str, tmp_path: Path) -> None:
    if classic.unavailable():
        pytest.skip(classic.unavailable())
    outer = "entrepot" if middle == "classic" else "classic"
    last = networks.plain(outer, tmp_path / "c", name="c")
    between = networks.bridging(
        middle, tmp_path / "b", name="b", to=[last], duplex=False, attributes='networkTTL="3" dynamicOnly="false"'
    )
    first = networks.bridging(outer, tmp_path / "a", name="a", to=[between], duplex=False, attributes='networkTTL="3"')
    where = fresh()

    async def main() -> None:
        async with connect(last.url) as far, far.session() as session, session.consumer(where) as consumer:
            await arrives(first, where, consumer)
            async with connect(first.url) as near, near.session() as writing, writing.producer(where) as producer:
                for number in range(100):
                    await producer.send(str(number))
            got = []
            for _ in range(100):
                message = await consumer.receive(PATIENCE)
                assert message is not None, f"{len(got)} came"
                got.append(message.body)
            assert got == [str(number) for number in range(100)]

    brokers = [last, between, first]
    try:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.await_ready()
        run(main())
    finally:
        for broker in brokers:
            broker.kill()
