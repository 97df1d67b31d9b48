"""Mirrors over AMQP between real processes: an Artemis into ours, ours into an Artemis; cut cables, kill -9.

What was sent and acknowledged at one broker is at the other as often as it is at the first: a message that comes again
is known there, as both say what they call it.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from cable import Cable
from classic import free_port
from ours import Entrepot
from test_amqp_connections import Pair, made, session

import entrepot
from entrepot.base.errors import EntrepotError
from promises import never

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

MIRROR: Final = """
<broker-connections>
  <amqp-connection uri="tcp://127.0.0.1:{port}" name="far" user="u" password="p" retry-interval="200">
    <mirror/>
  </amqp-connection>
</broker-connections>
"""
PATIENCE_S: Final = 20.0
RESUMED_S: Final = 90.0  # an Artemis whose sessions wait for a mirror gives up waiting for them one after the other
WAYS: Final = [("artemis", "ours"), ("ours", "ours"), ("ours", "artemis")]
ALL: Final = os.environ.get("ENTREPOT_AMQP_MIRRORS", "") == "all"


def asked(near: str, far: str, soon: tuple[str, str]) -> None:
    """Skip what takes minutes more than is to be seen in every run."""
    if not ALL and (near, far) != soon:
        pytest.skip("`make amqp-mirrors` runs it")


class Mirrored(Pair):
    """``near`` mirrors itself into ``far``, over a cable."""

    said = MIRROR

    def __init__(self, home: Path, near: str, far: str) -> None:
        self.far = made(far, home / "far", "far")
        self.cable = Cable(self.far.port)
        self.near = made(near, home / "near", "near", self.said.format(port=self.cable.port))

    def wait(self, broker: Artemis | Entrepot, queue: str, count: int, patience_s: float = PATIENCE_S) -> None:
        """Wait until a queue has so many messages."""
        until = time.monotonic() + patience_s
        while (found := self.count(broker, queue)) != count:
            assert time.monotonic() < until, f"{queue} of {broker.name} has {found}, not {count}"
            time.sleep(0.1)

    def ask(self, broker: Artemis | Entrepot, operation: str, *arguments: object) -> Any:
        """Do an operation of management."""

        async def play() -> Any:
            url = broker.url.replace("tcp://", "core://")
            async with asyncio.timeout(30), entrepot.connect(url) as one, one.management() as manager:
                return await manager.call("broker", operation, *arguments)

        return asyncio.run(play())

    def take(self, broker: Artemis | Entrepot, queue: str, count: int) -> list[Any]:
        """Take so many messages out of a queue."""
        found: list[Any] = []

        async def play() -> None:
            async with asyncio.timeout(60), session(broker) as one, one.consumer(queue, prefetch=1) as consumer:
                while len(found) < count:
                    message = await consumer.receive(PATIENCE_S)
                    assert message is not None
                    found.append(message.body)

        asyncio.run(play())
        return found

    def same(self, *queues: str) -> None:
        """Wait until each queue has as many messages there as here."""
        for queue in queues:
            self.wait(self.far, queue, self.count(self.near, queue))


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_what_is_sent_and_taken_here_is_so_there(tmp_path: Path, near: str, far: str) -> None:
    asked(near, far, ("ours", "artemis"))
    bodies = ["a", b"\0\xff", "x" * 500_000, b"y" * 3_000_000, "z"]
    with Mirrored(tmp_path, near, far) as pair:
        pair.send(pair.near, "Q", *bodies)
        pair.wait(pair.far, "Q", len(bodies))
        assert pair.take(pair.near, "Q", 2) == bodies[:2]
        pair.wait(pair.far, "Q", 3)
        if isinstance(pair.far, Entrepot):
            rows = pair.ask(pair.far, "describeBridges")
            (row,) = [row for row in rows if row["kind"] == "mirror"]
            assert (row["messages"], row["acknowledged"], row["unmatched"]) == (len(bodies), 2, 0)
            assert "mirrors itself into this one" in str(pair.ask(pair.far, "explain", "queue://Q"))
        if isinstance(pair.near, Entrepot):
            assert "was not told yet of" in str(pair.ask(pair.near, "explain", "queue://Q"))
        assert pair.read(pair.far, "Q", 3) == bodies[2:]


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_cut_and_killed_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, near: str, far: str) -> None:
    asked(near, far, ("artemis", "ours"))
    sent: list[str] = []
    taken: list[str] = []

    def go_on(pair: Mirrored, sends: int, takes: int) -> None:
        more = [f"{len(sent) + number}" for number in range(sends)]
        pair.send(pair.near, "Q", *more)
        sent.extend(more)
        taken.extend(pair.take(pair.near, "Q", takes))

    with Mirrored(tmp_path, near, far) as pair:
        go_on(pair, 30, 10)
        pair.cable.deaf = True
        go_on(pair, 20, 10)
        pair.cable.cut()
        go_on(pair, 20, 10)
        pair.cable.heal()
        go_on(pair, 200, 20)
        pair.far.kill()
        go_on(pair, 20, 20)
        pair.far.start().await_ready()
        go_on(pair, 100, 20)
        pair.near.kill()
        pair.near.start().await_ready()
        go_on(pair, 20, 10)
        left = [body for body in sent if body not in taken]
        pair.wait(pair.far, "Q", len(left))
        with never():
            assert pair.read(pair.far, "Q", len(left)) == left


class InStep(Mirrored):
    """Clients of ``near`` are answered when ``far`` has it."""

    said = MIRROR.replace("<mirror/>", '<mirror sync="true"/>')

    async def publish(self, answered: list[str], *bodies: str) -> None:
        """Send one after the other, until one is not answered in 3 s, or the broker is gone."""
        try:
            async with session(self.near) as one, one.producer("Q") as producer:
                for body in bodies:
                    async with asyncio.timeout(3):
                        await producer.send(body)
                    answered.append(body)
        except (EntrepotError, TimeoutError, OSError):
            return


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_in_step_what_was_answered_is_there_whoever_is_killed(tmp_path: Path, near: str, far: str) -> None:
    asked(near, far, ("ours", "artemis"))
    answered: list[str] = []
    with InStep(tmp_path, near, far) as pair:
        asyncio.run(pair.publish(answered, *[f"a{number}" for number in range(20)]))
        assert len(answered) == 20
        assert pair.count(pair.far, "Q") == 20
        pair.cable.cut()  # an Artemis does not dial again where a port is open and nobody is behind it
        pair.far.kill()
        asyncio.run(pair.publish(answered, "b"))
        with never():
            assert "b" not in answered
        if isinstance(pair.near, Entrepot):
            assert "wait for that (sync)" in str(pair.ask(pair.near, "explain", "queue://Q"))
        pair.far.start().await_ready()
        pair.cable.heal()
        pair.wait(pair.far, "Q", 21, RESUMED_S)

        async def until_killed() -> None:
            flood = asyncio.create_task(pair.publish(answered, *[f"c{number}" for number in range(5_000)]))
            await asyncio.sleep(1.5)
            await asyncio.to_thread(pair.near.kill)
            flood.cancel()

        asyncio.run(until_killed())
        assert len(answered) > 20
        found = pair.read(pair.far, "Q", len(answered))
        with never():
            assert not [body for body in answered if body not in found]
            assert len(set(found)) == len(found)


class Dual(Mirrored):
    """Two brokers that mirror each other."""

    def __init__(self, home: Path, near: str, far: str) -> None:
        port = free_port()
        self.far = made(far, home / "far", "far", MIRROR.format(port=port))
        self.cable = Cable(self.far.port)
        self.near = made(near, home / "near", "near", MIRROR.format(port=self.cable.port))
        back(self.near, port)


def back(broker: Artemis | Entrepot, port: int) -> None:
    """Let ``broker`` listen at ``port``: its file, and whoever reads it again, say so."""
    file = broker.home / "broker.xml"
    file.write_text(file.read_text().replace(f":{broker.port}?", f":{port}?"))
    broker.port = port


@pytest.mark.parametrize(("near", "far"), [("ours", "artemis"), ("ours", "ours")])
def test_two_that_mirror_each_other_do_not_echo(tmp_path: Path, near: str, far: str) -> None:
    asked(near, far, ("ours", "artemis"))
    with Dual(tmp_path, near, far) as pair:
        pair.send(pair.near, "Q", "a", "b", "c")
        pair.wait(pair.far, "Q", 3)
        pair.send(pair.far, "Q", "d", "e")
        pair.wait(pair.near, "Q", 5)
        assert pair.take(pair.far, "Q", 1) == ["a"]
        pair.wait(pair.near, "Q", 4)
        pair.near.kill()
        pair.send(pair.far, "Q", "f")
        pair.near.start().await_ready()
        pair.wait(pair.near, "Q", 5)
        assert pair.take(pair.near, "Q", 2) == ["b", "c"]
        pair.wait(pair.far, "Q", 3)
        time.sleep(1.0)
        with never():
            assert pair.count(pair.near, "Q") == pair.count(pair.far, "Q") == 3
        assert pair.read(pair.far, "Q", 3) == ["d", "e", "f"]
        pair.wait(pair.near, "Q", 0)
