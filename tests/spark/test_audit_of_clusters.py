"""Nodes of a cluster, traced: a message that crossed, was redistributed or given away by one that left stays one."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from entrepot.pipeline.jobs.audit import DOUBLED, LOST, audit
from entrepot.pipeline.jobs.plan import plan
from entrepot.protocols.stomp.frames import encode_frame
from pairs import free_port
from shell.daemon import Daemon, Wire
from spark.made_traces import ACCEPTED, ACKNOWLEDGED, DELIVERED, MadeTrace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EACH = 300
PATIENCE = 30.0
NODE = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>n{at}</name>
<security-enabled>false</security-enabled><journal-directory>{home}/journal</journal-directory>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="n0">tcp://127.0.0.1:{ports[0]}</connector>
<connector name="n1">tcp://127.0.0.1:{ports[1]}</connector></connectors>{policy}
<acceptors><acceptor name="core">tcp://127.0.0.1:{core}?protocols=CORE</acceptor>
<acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP;anycastPrefix=/queue/</acceptor></acceptors>
<cluster-connections><cluster-connection name="c"><connector-ref>n{at}</connector-ref>
<retry-interval>50</retry-interval><static-connectors><connector-ref>n{other}</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<address-settings><address-setting match="#"><auto-delete-queues>false</auto-delete-queues>
<auto-delete-addresses>false</auto-delete-addresses><redistribution-delay>100</redistribution-delay>
</address-setting></address-settings></core></configuration>
"""
LEAVES = """<ha-policy><primary-only><scale-down><connectors><connector-ref>n1</connector-ref></connectors>
</scale-down></primary-only></ha-policy>"""


class Node(Daemon):
    """One of two; the first gives all that it has to the second when it stops."""

    def __init__(self, home: Path, at: int, ports: tuple[int, int]) -> None:
        place = home / f"n{at}"
        place.mkdir()
        self.stomp = free_port()
        text = NODE.format(
            at=at, other=1 - at, home=place, ports=ports, core=ports[at], stomp=self.stomp, policy="" if at else LEAVES
        )
        (place / "broker.xml").write_text(text)
        super().__init__(place, str(place / "broker.xml"), "--trace", str(home / "traces"), files=True)

    def start(self) -> Node:
        super().start()
        self.port = self.stomp
        return self


def send(node: Node, queue: str, count: int) -> None:
    """Send persistent messages; all are on disk when this returns."""
    wire = Wire(node.port)
    given = {"destination": f"/queue/{queue}", "persistent": "true"}
    wire.socket.sendall(b"".join(encode_frame("SEND", given, b"%d" % at) for at in range(count - 1)))
    assert wire.ask("SEND", given, b"last").command == "RECEIPT"
    wire.cut()


def take(wires: list[Wire], count: int) -> list[int]:
    """Acknowledge ``count`` messages; return how many each had."""
    got = [0] * len(wires)
    end = time.monotonic() + PATIENCE
    for wire in wires:
        wire.socket.settimeout(0.05)
    while sum(got) < count:
        assert time.monotonic() < end, got
        for at, wire in enumerate(wires):
            with contextlib.suppress(TimeoutError):
                while sum(got) < count:
                    assert wire.hear().command == "MESSAGE"
                    got[at] += 1
    time.sleep(0.2)
    return got


def reader(node: Node, queue: str) -> Wire:
    wire = Wire(node.port)
    wire.subscribe(f"/queue/{queue}", ack="auto")
    return wire


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    home = tmp_path_factory.mktemp("cluster")
    ports = (free_port(), free_port())
    zero, one = Node(home, 0, ports), Node(home, 1, ports)
    try:
        zero.start()
        one.start()
        # balanced: both have readers, and half of it crosses at once
        near, far = [reader(zero, "orders"), reader(zero, "orders")], reader(one, "orders")
        time.sleep(1.5)  # each knows the reader of the other
        send(zero, "orders", EACH)
        got = take([*near, far], EACH)
        # redistributed: nobody reads here any more, and then somebody does there
        send(zero, "moved", EACH)
        beyond = reader(one, "moved")
        take([beyond], EACH)
        # scale-down: what waits when the node leaves is at the other one
        send(zero, "kept", EACH)
        for wire in (*near, far, beyond):
            wire.cut()
        assert zero.stop() == 0, zero.told()
        take([reader(one, "kept")], EACH)
    finally:
        for node in (zero, one):
            if node.process is not None:
                node.stop()
    return home / "traces", got


def test_the_audit_of_a_cluster(spark: SparkSession, traced: tuple[Path, list[int]], tmp_path: Path) -> None:
    traces, got = traced
    outcome = audit(spark, [traces], tmp_path / "out")
    assert outcome.clean, (outcome.verdict(), outcome.findings[:5], outcome.totals)
    totals = {row["queue"]: row for row in outcome.totals}
    assert outcome.faults == []
    assert {name: (row["sent"], row["consumed"]) for name, row in totals.items()} == dict.fromkeys(
        ("orders", "moved", "kept"), (EACH, EACH)
    )
    assert totals["orders"]["forwarded"] == got[-1]
    assert totals["moved"]["forwarded"] == totals["kept"]["forwarded"] == EACH


def test_the_plan_of_a_cluster(spark: SparkSession, traced: tuple[Path, list[int]], tmp_path: Path) -> None:
    """Each node with readers gets as much, though one has two of them."""
    traces, got = traced
    made = plan(spark, [traces], tmp_path / "out")
    assert made.network.balanced
    produced = made.network.place("n0", "orders").produced
    assert made.network.forwarded["n0", "n1", "orders"] / produced == pytest.approx(got[-1] / EACH)
    assert made.now.forwarded["n0", "n1", "orders"] / produced == pytest.approx(got[-1] / EACH, abs=0.1)
    assert not any("artemis.internal" in queue or "activemq." in queue for queue in made.network.queues)


def test_what_a_cluster_loses_and_doubles_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """A forwards 1 to 100 to B; 40 never comes, 50 is consumed twice, and 60 comes to C as well, and is consumed."""
    store = "$.artemis.internal.sf.c.B"
    a = MadeTrace(
        tmp_path, "a-1", [(1, 16, f"{store}\t{store}\t1"), (2, 5, "c\tuuid-b\t\t")], layout=2, uuid="uuid-a"
    )  # fmt: skip
    names = [(1, 17, "orders\torders\t0"), (2, 9, "reader\t\t\tme"), (3, 1, "core:uuid-a:")]
    b, c = (MadeTrace(tmp_path, name, names, layout=2, uuid=f"uuid-{name[0]}") for name in ("b-1", "c-1"))
    for number in range(1, 101):
        for kind, flags in ((ACCEPTED, 0x41), (DELIVERED, 0), (ACKNOWLEDGED, 0)):
            a.add(kind=[kind], number=[number], place=16, peer=5 if kind != ACCEPTED else 1, flags=flags)
        for node in {40: (), 60: (b, c)}.get(number, (b,)):
            node.add(kind=[8], offset=[1], number=[500 + number], place=[number], peer=[0])
            node.add(kind=[ACCEPTED], number=[500 + number], place=17, peer=3, flags=0x41)
            for kind in (DELIVERED, ACKNOWLEDGED, *((ACKNOWLEDGED,) if number == 50 else ())):
                node.add(kind=[kind], number=[500 + number], place=17, peer=9)
    for node in (a, b, c):
        node.close()
    outcome = audit(spark, [tmp_path], tmp_path / "out")
    found = sorted((one.kind, one.identity.rpartition(":")[2]) for one in outcome.findings)
    assert found == sorted([(LOST, "40"), (DOUBLED, "50"), (DOUBLED, "60")]), outcome.findings
