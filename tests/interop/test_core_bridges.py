"""Core bridges between real processes: ours to ours, to Artemis, from Artemis; cut cables, kill -9 of either side.

With duplicate detection, which is the default, nothing may be lost and nothing may come twice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from cable import Cable
from ours import Entrepot, of_kind

import entrepot
from promises import never

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

PATIENCE_S: Final = 30.0
LARGE: Final = 3_000_000
BRIDGE: Final = """
<connectors><connector name="far">tcp://127.0.0.1:{port}</connector></connectors>
<bridges><bridge name="orders">
  <queue-name>near</queue-name><forwarding-address>far</forwarding-address>
  <retry-interval>100</retry-interval><reconnect-attempts>-1</reconnect-attempts>
  <confirmation-window-size>{window}</confirmation-window-size><check-period>2000</check-period>
  <connection-ttl>6000</connection-ttl><user>u</user><password>p</password>
  <static-connectors><connector-ref>far</connector-ref></static-connectors>
</bridge></bridges>
"""
QUEUE: Final = '<address name="{name}"><anycast><queue name="{name}"/></anycast></address>'


def made(kind: str, home: Path, name: str, core: str = "", *, queue: str) -> Artemis | Entrepot:
    return of_kind(kind, home, name, core, addresses=QUEUE.format(name=queue))


class Pair:
    """``near`` has the bridge, over a cable to ``far``."""

    def __init__(self, home: Path, near: str, far: str, window: int = 1 << 20) -> None:
        self.far = made(far, home / "far", "far", queue="far")
        self.far.start().await_ready()
        self.cable = Cable(self.far.port)
        self.near = made(near, home / "near", "near", BRIDGE.format(port=self.cable.port, window=window), queue="near")
        self.near.start().await_ready()

    def close(self) -> None:
        self.cable.close()
        self.near.kill()
        self.far.kill()

    def send(self, *bodies: Any) -> None:
        async def play() -> None:
            url = self.near.url.replace("tcp://", "core://")
            async with (
                asyncio.timeout(60),
                entrepot.connect(url) as connection,
                connection.session() as session,
                session.producer("near") as producer,
            ):
                for body in bodies:
                    await producer.send(body)

        asyncio.run(play())

    def there(self, most: int, patience: float = PATIENCE_S) -> list[Any]:
        """Return what is in the queue ``far``, at least as many as ``most`` if they come in time, and all that is."""
        found: list[Any] = []

        async def play() -> None:
            url = self.far.url.replace("tcp://", "core://")
            async with (
                asyncio.timeout(120),
                entrepot.connect(url) as connection,
                connection.session() as session,
                session.consumer("far") as consumer,
            ):
                while True:
                    message = await consumer.receive(patience if len(found) < most else 0.7)
                    if message is None:
                        return
                    found.append(message.body)

        asyncio.run(play())
        return found


WAYS: Final = [("ours", "ours"), ("ours", "artemis"), ("artemis", "ours")]


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_messages_cross_large_ones_too(tmp_path: Path, near: str, far: str) -> None:
    pair = Pair(tmp_path, near, far)
    try:
        large = b"x" * LARGE
        pair.send("a", b"\0\xff", {"k": 5}, large, "z")
        assert pair.there(5) == ["a", b"\0\xff", {"k": 5}, large, "z"]
    finally:
        pair.close()


@pytest.mark.parametrize("far", ["ours", "artemis"])
def test_a_bridge_of_artemis_without_a_confirmation_window_never_opens(tmp_path: Path, far: str) -> None:
    """To nobody: it lets its session confirm packets, which a session without a window refuses (docs/bridges.md)."""
    pair = Pair(tmp_path, "artemis", far, -1)
    try:
        pair.send("a")
        assert pair.there(1, 2.0) == []
    finally:
        pair.close()


@pytest.mark.parametrize(("near", "far", "window"), [*((*way, 1 << 20) for way in WAYS), ("ours", "artemis", -1)])
def test_cut_and_killed_nothing_is_lost_and_nothing_comes_twice(
    tmp_path: Path, near: str, far: str, window: int
) -> None:
    pair = Pair(tmp_path, near, far, window)
    sent: list[str] = []

    def send(count: int) -> None:
        more = [f"{len(sent) + number}" for number in range(count)]
        pair.send(*more)
        sent.extend(more)

    try:
        for _ in range(2):
            send(20)
            pair.cable.deaf = True  # what the other broker confirms is lost
            send(20)
            pair.cable.cut()
            send(5)
            pair.cable.heal()
            send(20)
        pair.cable.deaf = True
        send(20)
        pair.far.kill()
        pair.cable.heal()
        pair.far.start().await_ready()
        send(20)
        pair.near.kill()
        pair.near.start().await_ready()
        send(5)
        came = pair.there(len(sent))
        with never():
            assert sorted(came, key=int) == sent, (
                f"lost {set(sent) - set(came)}, and {len(came) - len(set(came))} twice"
            )
    finally:
        pair.close()
