"""Connections over AMQP between real processes: ours to ours, to Artemis, Artemis to ours; cut cables, kill -9.

What is sent or fetched may not be lost. What was on its way when the cable was cut, or when either broker fell, may
come twice: AMQP has no word by which the other side would know it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from cable import Cable
from ours import Entrepot, like_artemis

import entrepot
from entrepot.base.errors import EntrepotError
from promises import never

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

PATIENCE_S: Final = 30.0
CONNECTION: Final = """
<broker-connections>
  <amqp-connection uri="tcp://127.0.0.1:{port}" name="far" user="u" password="p" retry-interval="200">
    <sender address-match="out.#"/>
    <receiver queue-name="in"/>
  </amqp-connection>
</broker-connections>
"""
QUEUES: Final = """
<address name="out.a"><anycast><queue name="out.a"/></anycast></address>
<address name="in"><anycast><queue name="in"/></anycast></address>
"""
WAYS: Final = [("ours", "ours"), ("ours", "artemis"), ("artemis", "ours")]


def made(kind: str, home: Path, name: str, core: str = "") -> Artemis | Entrepot:
    broker = Artemis(home, name=name, core=core, addresses=QUEUES)
    if kind == "artemis":
        return broker
    ours = home / "ours"
    ours.mkdir()
    return like_artemis(ours, broker)


@contextlib.asynccontextmanager
async def session(broker: Artemis | Entrepot) -> AsyncIterator[Any]:
    url = broker.url.replace("tcp://", "core://")
    async with entrepot.connect(url) as connection, connection.session() as made_session:
        yield made_session


class Pair:
    """``near`` has the connection, over a cable to ``far``."""

    def __init__(self, home: Path, near: str, far: str) -> None:
        self.far = made(far, home / "far", "far")
        self.cable = Cable(self.far.port)
        self.near = made(near, home / "near", "near", CONNECTION.format(port=self.cable.port))

    def __enter__(self) -> Pair:
        try:
            self.far.start().await_ready()
            self.near.start().await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        self.cable.close()
        self.near.kill()
        self.far.kill()

    def send(self, broker: Artemis | Entrepot, where: str, *bodies: Any) -> None:
        async def play() -> None:
            async with asyncio.timeout(60), session(broker) as one, one.producer(where) as producer:
                for body in bodies:
                    await producer.send(body)

        asyncio.run(play())

    def read(self, broker: Artemis | Entrepot, where: str, most: int, patience: float = PATIENCE_S) -> list[Any]:
        """Return what is in a queue, at least as many as ``most`` if they come in time, and all that is."""
        found: list[Any] = []

        async def play() -> None:
            async with asyncio.timeout(120), session(broker) as one, one.consumer(where) as consumer:
                while True:
                    message = await consumer.receive(patience if len(found) < most else 1.0)
                    if message is None:
                        return
                    found.append(message.body)

        asyncio.run(play())
        return found

    def count(self, broker: Artemis | Entrepot, queue: str) -> int:
        """Return how many messages a queue has; -1: there is none."""

        async def play() -> int:
            url = broker.url.replace("tcp://", "core://")
            async with asyncio.timeout(30), entrepot.connect(url) as one, one.management() as manager:
                try:
                    return int(await manager.get(f"queue.{queue}", "messageCount"))
                except EntrepotError:
                    return -1

        return asyncio.run(play())


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_messages_cross_in_both_directions(tmp_path: Path, near: str, far: str) -> None:
    bodies = ["a", b"\0\xff", "x" * 500_000, b"y" * 3_000_000, "z"]
    with Pair(tmp_path, near, far) as pair:
        pair.send(pair.near, "out.a", *bodies)
        assert pair.read(pair.far, "out.a", len(bodies)) == bodies
        pair.send(pair.far, "in", *bodies)
        assert pair.read(pair.near, "in", len(bodies)) == bodies


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_cut_and_killed_nothing_is_lost(tmp_path: Path, near: str, far: str) -> None:
    sent: dict[str, list[str]] = {"out.a": [], "in": []}

    def send(pair: Pair, count: int) -> None:
        for where, broker in (("out.a", pair.near), ("in", pair.far)):
            more = [f"{len(sent[where]) + number}" for number in range(count)]
            pair.send(broker, where, *more)
            sent[where] += more

    with Pair(tmp_path, near, far) as pair:
        for _ in range(2):
            send(pair, 30)
            pair.cable.deaf = True
            send(pair, 20)
            pair.cable.cut()
            send(pair, 10)
            pair.cable.heal()
            send(pair, 30)
        time.sleep(1.0)
        send(pair, 100)
        pair.far.kill()
        pair.far.start().await_ready()
        send(pair, 50)
        pair.near.kill()
        pair.near.start().await_ready()
        send(pair, 50)
        came = {
            "out.a": pair.read(pair.far, "out.a", len(sent["out.a"])),
            "in": pair.read(pair.near, "in", len(sent["in"])),
        }
        with never():
            for where, bodies in sent.items():
                assert set(came[where]) == set(bodies), f"{where}: lost {set(bodies) - set(came[where])}"
        assert not pair.read(pair.near, "out.a", 1, 1.0)
        assert not pair.read(pair.far, "in", 1, 1.0)
