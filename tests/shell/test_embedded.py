"""A broker inside a program: what it offers to clients, with asyncio and without."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

import entrepot
from entrepot import Broker, InvalidOption, blocking


def test_one_port_for_both_languages() -> None:
    """Finding U17: the URI of a transport is found by its scheme."""

    async def main() -> None:
        async with Broker() as broker:
            assert broker.url.startswith("tcp://127.0.0.1:")
            assert broker.uri("tcp") == broker.url
            assert broker.uri("stomp").rpartition(":")[2] == broker.url.rpartition(":")[2]
            async with entrepot.connect(broker.url) as connection, connection.session() as session:
                async with session.producer("q") as producer:
                    await producer.send("one")
                assert broker.queues.show("q").messages == 1
            with pytest.raises(InvalidOption, match=r"does not speak 'gopher' \(it speaks openwire, stomp") as refused:
                broker.uri("gopher")
            assert "tcp" not in refused.value.message

    asyncio.run(main())


def test_a_program_without_asyncio_has_a_broker() -> None:
    with Broker() as broker, blocking.connect(broker.url):
        pass  # the thread of blocking clients and that of its look-ups stay
    before = threading.active_count()
    with Broker() as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        broker.queues.create("made")
        producer = session.producer("made")
        for number in range(3):
            producer.send(str(number), properties={"odd": number % 2 == 1})
        assert broker.queues.show("made").messages == 3
        assert broker.queues.move("made", "other", selector="odd = TRUE") == 1
        assert [view.name for view in broker.queues.list() if view.routing == "ANYCAST"] == ["made", "other"]
        with session.consumer("other") as consumer:
            message = consumer.receive(timeout=5)
            assert message is not None
            assert message.body == "1"
        assert broker.queues.purge("made") == 2
        with pytest.raises(entrepot.InvalidDestination):
            broker.queues.show("nobody made it")
    assert threading.active_count() <= before


def test_a_broker_that_cannot_start_says_so_where_it_is_opened() -> None:
    with Broker() as first:
        port = first.url.rpartition(":")[2]
        with pytest.raises(entrepot.EntrepotError, match=port), Broker(listen=[f"auto://127.0.0.1:{port}"]):
            pytest.fail("two listen on one port")


def test_properties_come_on_top_of_those_of_a_message() -> None:
    with Broker() as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        producer, consumer = session.producer("q"), session.consumer("q")
        order = entrepot.Message("tea", properties={"region": "eu", "kind": "a"})
        producer.send(order, properties={"kind": "b"})
        producer.send("coffee", properties={"region": "us"})
        first, second = consumer.receive(timeout=5), consumer.receive(timeout=5)
        assert first is not None
        assert second is not None
        assert first.properties == {"region": "eu", "kind": "b"}
        assert (second.body, second.properties) == ("coffee", {"region": "us"})
        assert order.properties == {"region": "eu", "kind": "a"}


@pytest.mark.parametrize("name", ["quue://Q", "Topic://Q", "queue:///queue://Q"])
def test_a_kind_that_is_misspelt_makes_no_queue(name: str) -> None:
    """Finding U16."""
    with Broker() as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        if name.startswith("queue:"):
            session.consumer(name).close()  # it stands in the middle of a name
            return
        with pytest.raises(entrepot.InvalidDestination, match="queue://, topic://"):
            session.producer(name)
        with pytest.raises(entrepot.InvalidDestination):
            session.producer().send("x", destination=name)
        assert [view for view in broker.queues.list() if view.routing == "ANYCAST"] == []


def test_a_place_without_a_port_is_shown_without_one() -> None:
    """Finding U16."""
    with pytest.raises(entrepot.Unreachable) as refused:
        blocking.connect("http://127.0.0.2")
    assert "127.0.0.2" in str(refused.value)
    assert "-1" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["tcp", "core"])
@pytest.mark.parametrize("turns", range(8))
def test_a_consumer_whose_opening_is_given_up_takes_nothing(scheme: str, turns: int) -> None:
    """What it would have been given waits for others. The broker may have made it already, or not yet."""

    async def main() -> None:
        async with Broker(listen=["auto://127.0.0.1:0"]) as broker:
            url = broker.uris[0].replace("auto", scheme)
            async with entrepot.connect(url) as connection, connection.session() as session:
                await session.producer("q")
                opening = asyncio.ensure_future(opened(session))
                for _ in range(turns):
                    await asyncio.sleep(0)
                opening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await opening).close()
                async with session.producer("q") as producer, session.consumer("q") as consumer:
                    for number in range(10):
                        await producer.send(str(number))
                    received = [await consumer.receive(5) for _ in range(10)]
                    assert [one and one.body for one in received] == [str(number) for number in range(10)]

    async def opened(session: entrepot.Session) -> entrepot.Consumer:
        return await session.consumer("q")

    asyncio.run(asyncio.wait_for(main(), 60))
