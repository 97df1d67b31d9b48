"""Federation of queues over AMQP between real processes: what is read at one broker is fetched from the other.

Nothing that was sent is lost when the cable is cut or either broker falls; what was on its way then may come twice.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from cable import Cable
from ours import Entrepot
from test_amqp_connections import PATIENCE_S, Pair, made, session

import entrepot

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

FEDERATION: Final = """
<broker-connections>
  <amqp-connection uri="tcp://127.0.0.1:{port}" name="far" user="u" password="p" retry-interval="200">
    <federation>
      <local-queue-policy name="all">
        <include address-match="#" queue-match="in"/>
        <include address-match="#" queue-match="late"/>
      </local-queue-policy>
      <local-address-policy name="news" max-hops="1"><include address-match="news.#"/></local-address-policy>
      <remote-queue-policy name="back">
        <include address-match="#" queue-match="out.a"/>
        <include address-match="#" queue-match="later"/>
      </remote-queue-policy>
      <remote-address-policy name="told" max-hops="1"><include address-match="told.#"/></remote-address-policy>
    </federation>
  </amqp-connection>
</broker-connections>
"""
PULLING: Final = """
<broker-connections>
  <amqp-connection uri="tcp://127.0.0.1:{port}?amqpLowCredits=10;amqpMinLargeMessageSize=50000" name="far" user="u"
      password="p" retry-interval="200">
    <federation>
      <local-queue-policy name="all"><include address-match="#" queue-match="in"/></local-queue-policy>
      <remote-queue-policy name="back"><include address-match="#" queue-match="out.a"/></remote-queue-policy>
      <property key="amqpCredits" value="0"/>
      <property key="amqpPullConsumerCredits" value="5"/>
    </federation>
  </amqp-connection>
</broker-connections>
"""
PULLED: Final = 5
PROBE: Final = "is anybody there?"
WAYS: Final = [("ours", "artemis"), ("artemis", "ours"), ("ours", "ours")]


class Federated(Pair):
    """``near`` fetches from ``far``, over a cable."""

    def __init__(self, home: Path, near: str, far: str, connection: str = FEDERATION) -> None:
        self.far = made(far, home / "far", "far")
        self.cable = Cable(self.far.port)
        self.cable.lingers_s = 1.0  # Artemis does not hear that a connection ends which it has opened this moment
        self.near = made(near, home / "near", "near", connection.format(port=self.cable.port))

    def read_while(
        self, where: str, wanted: set[Any], happens: Callable[[], None], broker: Artemis | Entrepot | None = None
    ) -> list[Any]:
        """Read at ``near``, or at ``broker``, while something happens, until all that is wanted came; return that."""
        found: list[Any] = []

        async def play() -> None:
            async with asyncio.timeout(120), session(broker or self.near) as one, one.consumer(where) as consumer:
                under_way = asyncio.create_task(asyncio.to_thread(happens))
                while not wanted <= set(found):
                    message = await consumer.receive(PATIENCE_S)
                    assert message is not None, f"{sorted(map(str, wanted - set(found)))[:9]} did not come"
                    found.append(message.body)
                await under_way

        asyncio.run(play())
        return found

    def hear(self, here: Artemis | Entrepot, there: Artemis | Entrepot, topic: str, bodies: list[Any]) -> list[Any]:
        """Publish at ``there`` as soon as who listens at ``here`` is heard of; return what he got."""
        found: list[Any] = []
        heard = threading.Event()

        def tell() -> None:
            while not heard.is_set():
                self.send(there, topic, PROBE)
                time.sleep(0.2)
            self.send(there, topic, *bodies)

        async def play() -> None:
            async with asyncio.timeout(60), session(here) as one, one.consumer(topic) as consumer:
                under_way = asyncio.create_task(asyncio.to_thread(tell))
                try:
                    while len(found) < len(bodies):
                        message = await consumer.receive(PATIENCE_S)
                        assert message is not None, f"{len(found)} of {len(bodies)} came, {heard.is_set()=}"
                        if message.body == PROBE:
                            heard.set()
                        else:
                            found.append(message.body)
                finally:
                    heard.set()
                    await under_way

        asyncio.run(play())
        return found


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_what_is_read_here_is_fetched_there(tmp_path: Path, near: str, far: str) -> None:
    bodies = ["a", b"\0\xff", "x" * 500_000, b"y" * 3_000_000, "z"]
    with Federated(tmp_path, near, far) as pair:
        pair.send(pair.far, "in", *bodies)
        assert pair.read(pair.near, "in", len(bodies)) == bodies
        pair.send(pair.far, "in", "stays")
        assert pair.read(pair.far, "in", 1) == ["stays"]
        assert pair.read_while("late", {"made"}, lambda: pair.send(pair.far, "late", "made")) == ["made"]


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_what_is_read_there_is_fetched_from_here_where_that_was_ordered(tmp_path: Path, near: str, far: str) -> None:
    bodies = ["a", b"\0\xff", "x" * 500_000, "z"]
    with Federated(tmp_path, near, far) as pair:
        pair.send(pair.near, "out.a", *bodies)
        assert pair.read(pair.far, "out.a", len(bodies)) == bodies
        pair.send(pair.near, "out.a", "stays")
        assert pair.read(pair.near, "out.a", 1) == ["stays"]
        made = pair.read_while("later", {"made"}, lambda: pair.send(pair.near, "later", "made"), pair.far)
        assert made == ["made"]


@pytest.mark.parametrize(("near", "far"), WAYS)
@pytest.mark.parametrize("ordered", [False, True])
def test_what_is_published_there_comes_to_who_listens_here(tmp_path: Path, near: str, far: str, ordered: bool) -> None:
    with Federated(tmp_path, near, far) as pair:
        here, there = (pair.far, pair.near) if ordered else (pair.near, pair.far)
        topic = "topic://told.x" if ordered else "topic://news.x"
        bodies = [*(f"{number}" for number in range(20)), "x" * 500_000, b"y" * 3_000]
        assert pair.hear(here, there, topic, bodies) == bodies


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_cut_and_killed_nothing_is_lost(tmp_path: Path, near: str, far: str) -> None:
    sent = [f"{number}" for number in range(60)]
    with Federated(tmp_path, near, far) as pair:

        def happens() -> None:
            pair.send(pair.far, "in", *sent[:20])
            pair.cable.cut()
            pair.cable.heal()
            pair.send(pair.far, "in", *sent[20:40])
            pair.far.kill()
            pair.far.start().await_ready()
            pair.send(pair.far, "in", *sent[40:])

        came = pair.read_while("in", set(sent), happens)
        assert sorted(set(came), key=int) == sent
        last = [came.index(body) for body in sent[40:]]
        assert last == sorted(last)
        pair.send(pair.far, "in", "after")
        pair.near.kill()
        pair.near.start().await_ready()
        assert "after" in pair.read(pair.near, "in", 1)


@pytest.mark.parametrize(("near", "far"), WAYS)
@pytest.mark.parametrize("ordered", [False, True])
def test_what_is_pulled_comes_when_nothing_waits_where_it_is_read(
    tmp_path: Path, near: str, far: str, ordered: bool
) -> None:
    """``amqpCredits=0``: by a policy of the one that dials, and by one that it has the other one carry out."""
    bodies = [f"{number}" for number in range(11)]
    bodies.append("x" * 300_000)
    with Federated(tmp_path, near, far, PULLING) as pair:
        here, there, queue = (pair.far, pair.near, "out.a") if ordered else (pair.near, pair.far, "in")
        pair.send(here, queue, "own", "more")
        pair.send(there, queue, *bodies)

        async def play() -> list[Any]:
            url = here.url.replace("tcp://", "core://")
            found: list[Any] = []
            async with (
                asyncio.timeout(180),
                entrepot.connect(url) as connection,
                connection.session(entrepot.Acknowledge.INDIVIDUAL) as one,
                one.consumer(queue, prefetch=0) as consumer,
            ):
                message = await _next(consumer, 5.0)
                await asyncio.sleep(4.0)
                assert await asyncio.to_thread(pair.count, there, queue) == len(bodies), "one waits here"
                for taken in range(1, len(bodies) + 3):
                    found.append(message.body)
                    await message.acknowledge()
                    fetched = len(bodies) - await asyncio.to_thread(pair.count, there, queue)
                    most = 0 if taken < 2 else PULLED * ((taken - 2) // PULLED + 1)
                    assert fetched <= most, f"{fetched} were fetched when {taken} were taken"
                    if taken < len(bodies) + 2:
                        message = await _next(consumer, 40.0)  # an Artemis looks after 1, 2, 4 ... 30 s
            return found

        assert asyncio.run(play()) == ["own", "more", *bodies]
        until = (
            time.monotonic() + PATIENCE_S
        )  # what came is answered when it is on disk, which may be after it was read
        while pair.count(there, queue) > 0:
            assert time.monotonic() < until, "a message that came is not settled"
            time.sleep(0.1)


async def _next(consumer: Any, patience: float) -> Any:
    message = await consumer.receive(patience)
    assert message is not None, "nothing came"
    return message
