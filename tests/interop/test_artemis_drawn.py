"""Messages of a real Artemis come to a broker of ours because somebody reads there by lease, and go back.

Cut cables, and kill -9 of either broker, while messages flow: nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from drawings import PATIENCE_S, Beside

import entrepot
from promises import never
from shell.certificates import Certificates
from shell.daemon import Wire

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

ROUNDS: Final = int(os.environ.get("ENTREPOT_ROUNDS", "6"))
SEED: Final = int(os.environ.get("ENTREPOT_SEED", "1"))
LARGE: Final = 300_000
ADDRESSES: Final = (
    '<address name="Q"><anycast><queue name="Q"/></anycast></address>'
    '<address name="results"><anycast><queue name="results"/></anycast></address>'
    '<address name="T"><multicast><queue name="theirs"/></multicast></address>'
)


class Joined(Beside):
    """``far`` is an Artemis; this broker of ours draws from it, over a cable."""

    def __init__(self, home: Path, more: str = "", trusted: Path | None = None, **artemis: Any) -> None:
        """``more``: options of the URI; ``trusted``: the authority of its certificate, where it speaks TLS."""
        self.far = Artemis(home / "far", name="far", addresses=ADDRESSES, **artemis)
        self.far.start().await_ready()
        place = "tcp://127.0.0.1:{port}" if trusted is None else f"ssl://localhost:{{port}}?trustStorePath={trusted}"
        super().__init__(home, self.far.port, more, scheme="artemis", place=place)

    def close(self) -> None:
        super().close()
        self.far.kill()

    # -- the Artemis ---------------------------------------------------------------------------------------------------

    def send(self, bodies: list[Any], where: str = "Q") -> None:
        """Send; each is on its disk when this returns. A connection that breaks is no reason to send one twice here."""

        async def play() -> None:
            async with (
                asyncio.timeout(PATIENCE_S),
                entrepot.connect(self.far.url.replace("tcp://", "core://")) as connection,
                connection.session() as session,
                session.producer(where) as producer,
            ):
                for body in bodies:
                    await producer.send(body)

        asyncio.run(play())

    def there(self, where: str = "Q", most: int = 0, patience: float = 0.7) -> list[Any]:
        """Return what is in a queue of the Artemis, and take it out: at least ``most`` if they come in time."""
        found: list[Any] = []

        async def play() -> None:
            async with (
                asyncio.timeout(2 * PATIENCE_S),
                entrepot.connect(self.far.url.replace("tcp://", "core://")) as connection,
                connection.session() as session,
                session.consumer(where) as consumer,
            ):
                while True:
                    message = await consumer.receive(patience if len(found) >= most else PATIENCE_S)
                    if message is None:
                        return
                    found.append(message.body)

        asyncio.run(play())
        return found


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[Joined]:
    made = Joined(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_what_is_there_and_what_comes(joined: Joined) -> None:
    sent = [f"{number}" for number in range(1_000)]
    joined.send(sent[:500])
    joined.hold("Q", queue="/queue/Q")
    joined.await_count("Q", 500)
    joined.send(sent[500:])
    joined.await_count("Q", 1_000)
    row = joined.explained("Q")
    assert (row["code"], row["source"], row["received"]) == ("reading", "Q", 1_000)
    joined.release("Q")
    assert joined.took("/queue/Q") == sent
    assert joined.there() == []


def test_large_ones_bytes_and_maps(joined: Joined) -> None:
    joined.hold("Q", queue="/queue/Q")
    joined.send(["a", "x" * LARGE, b"\0\xff", "z"])
    joined.await_count("Q", 4)
    joined.release("Q")
    wire = Wire(joined.listen)
    found = [frame.body for frame in wire.drain("/queue/Q")]
    assert found == [b"a", b"x" * LARGE, b"\0\xff", b"z"]
    assert joined.there() == []


def test_nobody_reads_and_nothing_comes(joined: Joined) -> None:
    joined.send(["a"])
    joined.hold("Q", queue="/queue/Q")
    joined.await_count("Q", 1)
    joined.release("Q")
    time.sleep(0.5)
    joined.send(["b"])
    assert joined.there(most=1) == ["b"]


def test_a_topic_is_kept_there_while_nobody_reads(joined: Joined) -> None:
    joined.hold("T", topic="/topic/T", subscription="mine")
    time.sleep(1)
    joined.send(["a"], "topic://T")
    joined.await_count("T::mine", 1)
    joined.release("T")
    time.sleep(0.5)
    joined.send(["b"], "topic://T")
    joined.hold("T", topic="/topic/T", subscription="mine")
    joined.await_count("T::mine", 2)
    joined.release("T")
    assert joined.took("T::mine") == ["a", "b"]


def test_a_subscription_of_theirs_is_read_by_the_name_of_its_queue(joined: Joined) -> None:
    joined.send(["a", "b"], "topic://T")
    joined.hold("theirs", queue="T::theirs")
    joined.await_count("T::theirs", 2)
    joined.release("theirs")
    assert joined.took("T::theirs") == ["a", "b"]


def test_a_user_and_tls(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    more = "&user=app&password=secret"
    made = Joined(tmp_path, more, trusted=files.authority, authenticated=True, key_store=files.store)
    try:
        made.hold("Q", queue="/queue/Q")

        async def play() -> None:
            url = f"core+ssl://localhost:{made.far.port}?transport.trustStorePath={files.authority}"
            async with (
                asyncio.timeout(PATIENCE_S),
                entrepot.connect(url, user="app", password="secret") as connection,
                connection.session() as session,
                session.producer("Q") as producer,
            ):
                await producer.send("a")

        asyncio.run(play())
        made.await_count("Q", 1)
    finally:
        made.close()


def test_cut_and_killed_nothing_is_lost_and_nothing_comes_twice(joined: Joined) -> None:
    """Each round kills, cuts or deafens at a moment of its own, while messages flow."""
    lots = random.Random(SEED)
    joined.hold("Q", queue="/queue/Q")
    sent: list[str] = []

    def flow(turn: int) -> list[str]:
        """Send while nobody reads, so that all is known to be there."""
        bodies = [f"{turn}-{number}" for number in range(1_000)]
        joined.send(bodies)
        return bodies

    def again() -> None:
        joined.daemon.start()
        joined.hold("Q", queue="/queue/Q")

    for turn in range(ROUNDS):
        what = ("beside", "far", "deaf", "stopped beside", "cut", "both")[turn % 6]
        joined.release("Q")
        time.sleep(0.2)
        sent += flow(turn)  # it waits at the Artemis: then it flows at full speed, and somebody dies in the midst of it
        joined.hold("Q", queue="/queue/Q")
        time.sleep(lots.uniform(0, 0.3))
        if what == "deaf":
            joined.cable.deaf = True
            time.sleep(0.3)
        if what in ("deaf", "cut"):
            joined.cable.cut()
            joined.cable.heal()
        if what in ("far", "both"):
            joined.far.kill()
        if what in ("beside", "both"):
            joined.daemon.kill()
        if what == "stopped beside":
            joined.daemon.stop()
        if what in ("far", "both"):
            joined.far.start().await_ready()
        if what in ("beside", "both", "stopped beside"):
            again()
        joined.await_count("Q", len(sent))
    joined.release("Q")
    time.sleep(0.5)
    came = joined.took("/queue/Q")
    with never():
        twice = sorted(text for text in set(came) if came.count(text) > 1)
        assert set(came) == set(sent), f"lost {sorted(set(sent) - set(came))[:20]}"
        assert twice == []
        assert joined.there() == []


def test_the_way_back_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    joined = Joined(tmp_path, "&back=results")
    sent: list[str] = []
    came: list[str] = []
    try:
        for turn in range(ROUNDS // 2 + 1):
            with ThreadPoolExecutor(1) as elsewhere:
                taking = elsewhere.submit(joined.there, "results", 500)
                wire = Wire(joined.listen)
                bodies = [f"{turn}-{number}" for number in range(500)]
                for body in bodies:
                    assert wire.send("/queue/results", body.encode(), persistent="true").command == "RECEIPT"
                sent += bodies
                wire.cut()
                if turn % 3 == 0:
                    joined.cable.deaf = True
                    joined.cable.cut()
                    joined.cable.heal()
                elif turn % 3 == 1:
                    joined.daemon.kill()
                    joined.daemon.start()
                came += [body.decode() for body in taking.result()]
        with never():
            assert sorted(came) == sorted(sent)
    finally:
        joined.close()
