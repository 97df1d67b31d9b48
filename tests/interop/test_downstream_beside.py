"""Downstreams between real processes: ours tells Artemis, Artemis tells ours; cut cables and kill -9 of either side.

Here the broker that has the messages has the file: it tells the other one to fetch, and where from. As with upstreams,
what our broker fetches neither is lost nor comes twice; of what an Artemis fetches only loss is looked for. Ours among
themselves: `tests/shell/test_federation.py`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest
from artemis import unavailable
from cable import Cable
from classic import free_port
from ours import member
from test_federation_beside import QUEUE, SUBSCRIPTION, Pair

from promises import never

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

DOWNSTREAM: Final = """
<connectors>
  <connector name="near">tcp://127.0.0.1:{near}</connector><connector name="back">tcp://127.0.0.1:{back}</connector>
</connectors>
<federations><federation name="F" user="u" password="p">
  <downstream name="D">
    <connection-ttl>6000</connection-ttl><retry-interval>100</retry-interval>
    <initial-connect-attempts>-1</initial-connect-attempts><reconnect-attempts>-1</reconnect-attempts>
    <check-period>2000</check-period>
    <static-connectors><connector-ref>near</connector-ref></static-connectors>
    <policy ref="all"/>
    <upstream-connector-ref>back</upstream-connector-ref>
  </downstream>
  <policy-set name="all"><policy ref="queues"/><policy ref="addresses"/></policy-set>
  <queue-policy name="queues"><include queue-match="orders" address-match="#"/></queue-policy>
  <address-policy name="addresses" max-hops="1" auto-delete="false"><include address-match="news"/></address-policy>
</federation></federations>
"""
WAYS: Final = [("ours", "artemis"), ("artemis", "ours")]
NO_QUEUE: Final = '<address name="news"><multicast/></address>'


class Told(Pair):
    """``far`` has the messages and the file; ``near`` fetches. Both ways go over a cable."""

    def __init__(self, home: Path, near: str, far: str) -> None:
        ports = {"near": free_port(), "far": free_port()}
        self.cable = Cable(ports["far"])  # near fetches over it
        self.order = Cable(ports["near"])  # far tells near to
        self.near = member(near, home / "near", "near", ports["near"], "", addresses=QUEUE + SUBSCRIPTION)
        self.near.start().await_ready()
        text = DOWNSTREAM.format(near=self.order.port, back=self.cable.port)
        self.far = member(far, home / "far", "far", ports["far"], text, addresses=QUEUE + NO_QUEUE)
        self.far.start().await_ready()

    def close(self) -> None:
        self.order.close()
        super().close()


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_who_is_told_fetches_a_queue_and_an_address(tmp_path: Path, near: str, far: str) -> None:
    pair = Told(tmp_path, near, far)
    try:
        large = b"x" * 300_000
        pair.await_address()
        pair.send("orders", "a", b"\0\xff", {"k": 5}, large, "z")
        time.sleep(1.0)
        assert pair.read(pair.near, "orders", 5) == ["a", b"\0\xff", {"k": 5}, large, "z"]
        pair.send("topic://news", "a", "b")
        assert pair.read(pair.near, "news::desk", 2) == ["a", "b"]
    finally:
        pair.close()


@pytest.mark.parametrize(("near", "far"), WAYS)
def test_cut_and_killed_it_is_deployed_again_and_nothing_is_lost(tmp_path: Path, near: str, far: str) -> None:
    pair = Told(tmp_path, near, far)
    sent: list[str] = []

    def send(count: int) -> None:
        more = [f"{len(sent) + number}" for number in range(count)]
        pair.send("orders", *more)
        sent.extend(more)

    def disturb() -> None:
        send(30)
        pair.order.cut()
        send(20)
        pair.cable.cut()
        pair.order.heal()
        pair.cable.heal()
        time.sleep(1.0)
        send(100)
        pair.far.kill()
        pair.far.start().await_ready()
        send(30)
        time.sleep(1.0)
        send(100)
        pair.near.kill()

    try:
        pair.while_read("orders", disturb)
        pair.near.start().await_ready()
        send(5)
        came = pair.read(pair.near, "orders", len(sent))
        with never():
            assert set(came) == set(sent), f"lost {sorted(set(sent) - set(came), key=int)}"
            assert near == "artemis" or len(came) == len(sent), f"{len(came) - len(set(came))} came twice"
    finally:
        pair.close()
