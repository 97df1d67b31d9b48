# ruff: noqa: SIM117  nested blocks say in which order things close
"""Who waits for an acknowledgement knows that it is stored: in each mode, after `kill -9`, and when it is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path

import pytest

import entrepot
from entrepot import Acknowledge, Broker, blocking
from entrepot.base.errors import Refused, TransactionError, Unreachable
from shell.daemon import Daemon

ROUNDS = 5


def run(main: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(bounded())


def openwire(daemon: Daemon) -> str:
    uris: list[str] = json.loads(daemon.ports.read_text())["uris"]
    return next(uri for uri in uris if uri.startswith("tcp"))


async def fill(session: entrepot.Session, count: int) -> None:
    async with session.producer("q") as producer:
        for number in range(count):
            await producer.send(str(number))


async def left(url: str) -> list[object]:
    async with entrepot.connect(url) as connection, connection.session() as session:
        async with session.browser("q") as browser:
            return [message.body async for message in browser]


@pytest.mark.parametrize("mode", [Acknowledge.CLIENT, Acknowledge.INDIVIDUAL, Acknowledge.AUTO, Acknowledge.DUPS_OK])
def test_what_is_acknowledged_and_awaited_survives_a_kill(tmp_path: Path, mode: Acknowledge) -> None:
    daemon = Daemon(tmp_path, "--listen", "tcp://127.0.0.1:0").start()

    async def round_of(number: int) -> None:
        async with entrepot.connect(openwire(daemon)) as connection, connection.session(mode) as session:
            async with session.consumer("q") as consumer:
                message = await consumer.receive(10)
                assert message is not None
                assert message.body == str(number)
                await message.acknowledge()
                daemon.kill()

    async def main() -> None:
        async with entrepot.connect(openwire(daemon)) as connection, connection.session() as session:
            await fill(session, ROUNDS + 1)
        for number in range(ROUNDS):
            await round_of(number)
            daemon.start()
        assert await left(openwire(daemon)) == [str(ROUNDS)]

    try:
        run(main())
    finally:
        daemon.stop()


def test_and_so_it_does_without_asyncio(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "--listen", "tcp://127.0.0.1:0").start()
    try:
        with blocking.connect(openwire(daemon)) as connection, connection.session(Acknowledge.INDIVIDUAL) as session:
            with session.producer("q") as producer:
                for body in ("one", "two"):
                    producer.send(body)
            with session.consumer("q") as consumer:
                for message in consumer:
                    message.acknowledge().wait()
                    daemon.kill()
                    break
        daemon.start()
        run(check_left(openwire(daemon), ["two"]))
    finally:
        daemon.stop()


async def check_left(url: str, bodies: list[object]) -> None:
    assert await left(url) == bodies


def test_a_broker_that_is_gone_confirms_nothing(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "--listen", "tcp://127.0.0.1:0").start()

    async def main() -> None:
        url = f"failover:({openwire(daemon)})?initialReconnectDelay=10"
        async with entrepot.connect(url) as connection:
            async with connection.session(Acknowledge.INDIVIDUAL) as session, session.consumer("q") as consumer:
                await fill(session, 1)
                message = await consumer.receive(10)
                assert message is not None
                daemon.kill()
                with pytest.raises(Unreachable, match="in doubt"):
                    await message.acknowledge()
                with pytest.raises(Unreachable, match="in doubt"):
                    await message.acknowledge()

    try:
        run(main())
    finally:
        daemon.stop()


def test_later_and_several_at_once() -> None:
    async def main() -> None:
        async with Broker() as broker, entrepot.connect(broker.url) as connection:
            async with connection.session(Acknowledge.INDIVIDUAL) as session, session.consumer("q") as consumer:
                await fill(session, 20)
                told = [message.acknowledge() for message in await consumer.receive_many(10, 10)]
                told += [message.acknowledge() for message in await consumer.receive_many(10, 10)]
                await asyncio.gather(*told)
                assert broker.queues.show("q").messages == 20 - len(told)
                await told[0]  # and again

    run(main())


def test_client_mode_settles_what_came_before() -> None:
    async def main() -> None:
        async with Broker() as broker, entrepot.connect(broker.url) as connection:
            async with connection.session(Acknowledge.CLIENT) as session, session.consumer("q") as consumer:
                await fill(session, 3)
                first, second = await consumer.receive(10), await consumer.receive(10)
                assert first is not None
                assert second is not None
                await second.acknowledge()
                assert broker.queues.show("q").messages == 1
                await first.acknowledge()

    run(main())


@pytest.mark.parametrize("mode", [Acknowledge.AUTO, Acknowledge.DUPS_OK])
def test_an_iteration_need_not_wait_for_the_next(mode: Acknowledge) -> None:
    async def main() -> None:
        async with Broker() as broker:
            async with entrepot.connect(broker.url) as connection, connection.session(mode) as session:
                await fill(session, 3)
                async with session.consumer("q") as consumer:
                    waiting = 3
                    async for message in consumer:
                        assert broker.queues.show("q").messages == waiting
                        await message.acknowledge()
                        waiting -= 1
                        assert broker.queues.show("q").messages == waiting
                        if waiting == 0:
                            break

    run(main())


def test_what_was_not_acknowledged_is_not_confirmed() -> None:
    async def main() -> None:
        async with Broker() as broker, entrepot.connect(broker.url) as connection:
            async with connection.session(Acknowledge.TRANSACTED) as session:
                await fill(session, 2)
                await session.commit()
                async with session.consumer("q") as consumer:
                    message = await consumer.receive(10)
                    assert message is not None
                    with pytest.raises(TransactionError, match="commit"):
                        await message.acknowledge()
                await session.rollback()
            async with connection.session(Acknowledge.INDIVIDUAL) as session:
                async with session.consumer("q") as consumer:
                    message = await consumer.receive(10)
                    assert message is not None
                    session.recover()
                    with pytest.raises(Refused, match="handed out again"):
                        await message.acknowledge()
                with pytest.raises(Refused, match="closed"):
                    await message.acknowledge()
            async with connection.session() as session, session.browser("q") as browser:
                async for message in browser:
                    with pytest.raises(Refused, match="browser"):
                        await message.acknowledge()
            assert broker.queues.show("q").messages == 2

    run(main())
