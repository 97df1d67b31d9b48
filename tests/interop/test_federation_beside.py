"""Federation between real processes: ours of ours, of Artemis, Artemis of ours; cut cables, kill -9 of either side.

What this broker fetches may neither be lost nor come twice. An Artemis that fetches knows no message again, so what
it did not acknowledge before it fell, or before its cable was cut, comes twice there: of that only loss is looked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from cable import Cable
from ours import Entrepot, of_kind

import entrepot
from entrepot.base.errors import EntrepotError
from promises import never

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

PATIENCE_S: Final = 30.0
LARGE: Final = {"ours": 3_000_000, "artemis": 300_000}
"""Octets, by who fetches: an Artemis grants nothing while a body comes, and so never gets one of more than 1 MiB."""
FEDERATION: Final = """
<connectors><connector name="far">tcp://127.0.0.1:{port}</connector></connectors>
<federations><federation name="F" user="u" password="p">
  <upstream name="U">
    <connection-ttl>6000</connection-ttl><retry-interval>100</retry-interval>
    <initial-connect-attempts>-1</initial-connect-attempts><reconnect-attempts>-1</reconnect-attempts>
    <check-period>2000</check-period>
    <static-connectors><connector-ref>far</connector-ref></static-connectors>
    <policy ref="all"/>
  </upstream>
  <policy-set name="all"><policy ref="queues"/><policy ref="addresses"/></policy-set>
  <queue-policy name="queues"><include queue-match="orders" address-match="#"/></queue-policy>
  <address-policy name="addresses" max-hops="1" auto-delete="false"><include address-match="news"/></address-policy>
</federation></federations>
"""
QUEUE: Final = '<address name="orders"><anycast><queue name="orders"/></anycast></address>'
SUBSCRIPTION: Final = '<address name="news"><multicast><queue name="desk"/></multicast></address>'
WAYS: Final = [("ours", "ours"), ("ours", "artemis"), ("artemis", "ours")]


def made(kind: str, home: Path, name: str, core: str = "") -> Artemis | Entrepot:
    addresses = QUEUE + SUBSCRIPTION if core else QUEUE + '<address name="news"><multicast/></address>'
    return of_kind(kind, home, name, core, addresses=addresses)


def core_url(broker: Artemis | Entrepot) -> str:
    return broker.url.replace("tcp://", "core://")


@contextlib.asynccontextmanager
async def session(broker: Artemis | Entrepot) -> AsyncIterator[Any]:
    async with entrepot.connect(core_url(broker)) as connection, connection.session() as made_session:
        yield made_session


class Pair:
    """``near`` has the federation, over a cable to ``far``."""

    def __init__(self, home: Path, near: str, far: str) -> None:
        self.far = made(far, home / "far", "far")
        self.far.start().await_ready()
        self.cable = Cable(self.far.port)
        self.near = made(near, home / "near", "near", FEDERATION.format(port=self.cable.port))
        self.near.start().await_ready()

    def close(self) -> None:
        self.cable.close()
        self.near.kill()
        self.far.kill()

    def send(self, where: str, *bodies: Any) -> None:
        async def play() -> None:
            async with asyncio.timeout(60), session(self.far) as one, one.producer(where) as producer:
                for body in bodies:
                    await producer.send(body)

        asyncio.run(play())

    def read(self, broker: Artemis | Entrepot, where: str, most: int, patience: float = PATIENCE_S) -> list[Any]:
        """Return what is in a queue, at least ``most`` that differ if they come in time, and all that is."""
        found: list[Any] = []
        differ: set[str] = set()  # what comes twice is not what is waited for

        async def play() -> None:
            async with asyncio.timeout(120), session(broker) as one, one.consumer(where) as consumer:
                while True:
                    message = await consumer.receive(patience if len(differ) < most else 1.0)
                    if message is None:
                        return
                    found.append(message.body)
                    differ.add(repr(message.body))

        asyncio.run(play())
        return found

    def while_read(self, where: str, action: Callable[[], None]) -> None:
        """Do ``action`` while somebody reads a queue of ``near`` and takes nothing out of it."""

        async def play() -> None:
            async with session(self.near) as one, one.consumer(where):
                await asyncio.to_thread(action)

        with contextlib.suppress(EntrepotError, OSError):  # the broker may have been killed meanwhile
            asyncio.run(play())

    def await_address(self) -> None:
        """Wait until what is sent to the address of ``far`` comes."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self.send("topic://news", "probe")
            if self.read(self.near, "news::desk", 1, 1.0):
                return
            assert time.monotonic() < end, "nothing comes"


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_a_queue_is_fetched_from_while_somebody_reads(tmp_path: Path, near: str, far: str) -> None:
    pair = Pair(tmp_path, near, far)
    try:
        large = b"x" * LARGE[near]
        pair.send("orders", "a", b"\0\xff", {"k": 5}, large, "z")
        time.sleep(1.0)
        assert pair.read(pair.near, "orders", 5) == ["a", b"\0\xff", {"k": 5}, large, "z"]
        time.sleep(2.0)  # an Artemis closes its consumer a while later
        pair.send("orders", "stays")
        time.sleep(1.0)
        assert pair.read(pair.far, "orders", 1) == ["stays"]
    finally:
        pair.close()


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_an_address_is_fetched_from_while_a_queue_is_bound(tmp_path: Path, near: str, far: str) -> None:
    pair = Pair(tmp_path, near, far)
    try:
        large = b"x" * LARGE[near]
        pair.await_address()
        pair.send("topic://news", "a", large, "z")
        assert pair.read(pair.near, "news::desk", 3) == ["a", large, "z"]
    finally:
        pair.close()


@pytest.mark.parametrize(("near", "far"), WAYS)
@pytest.mark.parametrize(("sends", "reads"), [("orders", "orders"), ("topic://news", "news::desk")])
def test_cut_and_killed_nothing_is_lost_and_nothing_comes_twice(
    tmp_path: Path, near: str, far: str, sends: str, reads: str
) -> None:
    pair = Pair(tmp_path, near, far)
    sent: list[str] = []

    def send(count: int) -> None:
        more = [f"{len(sent) + number}" for number in range(count)]
        pair.send(sends, *more)
        sent.extend(more)

    def disturb() -> None:
        for _ in range(2):
            send(30)
            pair.cable.deaf = True
            send(20)
            pair.cable.cut()
            send(10)
            pair.cable.heal()
            send(30)
        time.sleep(1.0)
        send(100)
        pair.far.kill()
        pair.far.start().await_ready()
        send(30)
        time.sleep(1.0)
        send(100)
        pair.near.kill()

    try:
        if sends != "orders":
            pair.await_address()
        pair.while_read(reads, disturb)
        send(20)
        pair.near.start().await_ready()
        send(5)
        came = [one for one in pair.read(pair.near, reads, len(sent)) if one != "probe"]
        with never():
            assert set(came) == set(sent), f"lost {sorted(set(sent) - set(came), key=int)}"
            assert near == "artemis" or len(came) == len(sent), f"{len(came) - len(set(came))} came twice"
    finally:
        pair.close()
