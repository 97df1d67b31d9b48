# ruff: noqa: SIM117  nested blocks say in which order things close
"""A broker of ActiveMQ 6.1 in one network with ours, the bridge dialled by either, which is killed under load.

In short; ``ACTIVEMQ_VERSION=6.1.8`` runs every test beside that release.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import classic
import networks
import ours
import pytest
from classic import NEWER, Classic
from networks import Broker
from test_network import fresh, run

from entrepot.client.connection import connect
from entrepot.client.message import Message

HURRY = "initialReconnectDelay=50&maxReconnectDelay=200"
COUNT = 200


@pytest.fixture(scope="module", params=["ours dials", "theirs dials"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Both, ActiveMQ first; duplex."""
    if classic.unavailable(NEWER):
        pytest.skip(f"ActiveMQ {NEWER}: {classic.unavailable(NEWER)}")
    home = tmp_path_factory.mktemp("newer")
    theirs: Broker
    own: Broker
    if request.param == "ours dials":
        theirs = Classic(home / "theirs", name="theirs", version=NEWER)
        own = networks.bridging("entrepot", home / "own", name="own", to=[theirs], duplex=True)
    else:
        own = ours.Entrepot(home / "own", name="own")
        theirs = networks.bridging("classic", home / "theirs", name="theirs", to=[own], duplex=True, version=NEWER)
    assert isinstance(theirs, Classic)
    assert any(jar.endswith(f"activemq-broker-{NEWER}.jar") for jar in theirs.jars)
    for broker in (theirs, own):
        broker.start()
    for broker in (theirs, own):
        broker.await_ready()
    yield theirs, own
    for broker in (theirs, own):
        broker.kill()


@pytest.mark.parametrize("victim", [0, 1])
def test_queues_cross_both_ways_and_nothing_is_lost_when_either_is_killed(
    pair: tuple[Broker, Broker], victim: int
) -> None:
    async def produce(source: Broker, where: str) -> None:
        async with connect(f"failover:({source.url})?{HURRY}") as near, near.session() as session:
            async with session.producer(where) as producer:
                for number in range(COUNT):
                    await producer.send(Message(str(number), properties={"n": number}))
                    await asyncio.sleep(0.005)

    async def consume(target: Broker, where: str, seen: set[int]) -> None:
        async with connect(f"failover:({target.url})?{HURRY}") as far, far.session() as session:
            async with session.consumer(where) as consumer:
                while len(seen) < COUNT:
                    message = await consumer.receive(1.0)
                    if message is not None:
                        assert message.body == str(message.properties["n"])
                        seen.add(int(message.properties["n"]))

    async def main() -> None:
        seen: list[set[int]] = [set(), set()]
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for number, source in enumerate(pair):
                where = fresh()
                group.create_task(consume(pair[1 - number], where, seen[number]))
                group.create_task(produce(source, where))
            while min(len(each) for each in seen) < COUNT // 4:
                await asyncio.sleep(0.02)
            pair[victim].kill()
            pair[victim].start()

    run(main())


def test_topics_and_replies_cross(pair: tuple[Broker, Broker]) -> None:
    async def main() -> None:
        for source, target in (pair, pair[::-1]):
            where = fresh("topic")
            async with connect(target.url) as far, far.session() as serving, serving.consumer(where) as requests:
                async with connect(source.url) as near, near.session() as asking:
                    answers = await asking.temporary_queue()
                    async with asking.consumer(answers) as consumer, asking.producer(where) as producer:
                        request = None
                        for _ in range(100):  # until the bridge knows of the subscriber
                            await producer.send(Message("question", reply_to=answers))
                            request = await requests.receive(0.2)
                            if request is not None:
                                break
                        assert request is not None
                        async with serving.producer(request.reply_to) as answering:
                            for _ in range(100):  # and of where answers go
                                await answering.send("answer")
                                answer = await consumer.receive(0.2)
                                if answer is not None:
                                    break
                        assert answer is not None
                        assert answer.body == "answer"

    run(main())
