"""What the plan says of a cluster is held against a cluster that does it: nodes, consumers and producers are real.

Three nodes are traced; the plan is asked for more load and one node less; two nodes get that load. For how
long each of the two runs, ENTREPOT_PLAN_SECONDS says (`make pipeline-plan`); without it the test is passed over.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from entrepot.pipeline.jobs.forecast import GONE
from entrepot.pipeline.jobs.plan import advice, first_to_break, plan
from pairs import free_port
from shell.daemon import Daemon, Wire
from spark.soak_places import rows, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = float(os.environ.get("ENTREPOT_PLAN_SECONDS", "0"))
PACE: Final = 0.1  # s that a consumer takes for each message
RATE: Final = 24.0  # messages a second, all at the first node
BURST: Final = 30  # before that: so consumers are seen at their limit
TIMES: Final = 1.5
CLOSE: Final = 0.2
CONSUMERS: Final = (1, 3, 1)
NODE: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>n{at}</name>
<security-enabled>false</security-enabled><journal-directory>{home}/journal</journal-directory>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors>{connectors}</connectors>
<acceptors><acceptor name="core">tcp://127.0.0.1:{core}?protocols=CORE</acceptor>
<acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP;anycastPrefix=/queue/</acceptor></acceptors>
<cluster-connections><cluster-connection name="c"><connector-ref>n{at}</connector-ref>
<retry-interval>50</retry-interval><static-connectors>{others}</static-connectors></cluster-connection>
</cluster-connections>
<address-settings><address-setting match="#"><auto-delete-queues>false</auto-delete-queues>
<auto-delete-addresses>false</auto-delete-addresses></address-setting></address-settings></core></configuration>
"""


class Node(Daemon):
    """One of a cluster."""

    def __init__(self, home: Path, at: int, ports: list[int]) -> None:
        place = home / f"n{at}"
        place.mkdir()
        self.stomp = free_port()
        connectors = "".join(
            f'<connector name="n{one}">tcp://127.0.0.1:{port}</connector>' for one, port in enumerate(ports)
        )
        others = "".join(f"<connector-ref>n{one}</connector-ref>" for one in range(len(ports)) if one != at)
        text = NODE.format(at=at, home=place, core=ports[at], stomp=self.stomp, connectors=connectors, others=others)
        (place / "broker.xml").write_text(text)
        super().__init__(place, str(place / "broker.xml"), "--trace", str(home / "traces"), files=True)

    def start(self) -> Node:
        super().start()
        self.port = self.stomp
        return self

    def waits(self) -> int:
        """Return what waits here for its own consumers."""
        return next(int(row["messages"]) for row in rows(self.port, "queue", "list") if row["name"] == "orders")


class Consumer(threading.Thread):
    """Takes one message after the other, `PACE` s each."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self.done = 0
        self.wire = Wire(node.port)
        self.wire.subscribe("/queue/orders", ack="client-individual", **{"activemq.prefetchSize": "1"})

    def run(self) -> None:
        free = time.monotonic()
        try:
            while True:
                message = self.wire.message()
                free = max(free, time.monotonic()) + PACE
                time.sleep(max(0.0, free - time.monotonic()))
                self.wire.say("ACK", {"id": message.headers["ack"]})
                self.done += 1
        except (OSError, AssertionError, EOFError):
            return  # the broker is gone


class Seen:
    """What a run of a cluster did, a second: by node what was taken there, waits there at its end, and came there."""

    def __init__(self, taken: list[int], waits: list[int], seconds: float) -> None:
        self.taken = [count / seconds for count in taken]
        self.waits = [count / seconds for count in waits]
        self.came = [taken + waits for taken, waits in zip(self.taken, self.waits, strict=True)]


def run(home: Path, consumers: tuple[int, ...], times: float) -> Seen:
    """Let a cluster work for `SECONDS`: so many consumers at each node, ``times`` the load at the first."""
    home.mkdir()
    ports = [free_port() for _ in consumers]
    nodes = [Node(home, at, ports) for at in range(len(consumers))]
    try:
        for node in nodes:
            node.start()
        crew = [[Consumer(node) for _ in range(count)] for node, count in zip(nodes, consumers, strict=True)]
        near = nodes[0]
        until(lambda: _knows(near, len(nodes) - 1), "each node knows of the consumers of the others")
        time.sleep(1.0)
        for one in (one for some in crew for one in some):
            one.start()
        wire = Wire(near.port)
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < SECONDS:
            while sent < (BURST + RATE * passed) * times:
                wire.send("/queue/orders", b"x")
                sent += 1
            time.sleep(0.01)
        seen = Seen([sum(one.done for one in some) for some in crew], [node.waits() for node in nodes], passed)
        for one in (one for some in crew for one in some):
            one.wire.cut()
        return seen
    finally:
        for node in nodes:
            if node.process is not None:
                node.stop()


def _knows(node: Node, others: int) -> bool:
    """Return whether a node has a queue for each other one."""
    return sum(row["name"].startswith("$.artemis.internal.sf.") for row in rows(node.port, "queue", "list")) == others


@pytest.mark.skipif(not SECONDS, reason="minutes: make pipeline-plan")
@pytest.mark.timeout(600)
def test_throughput_forwarding_and_backlog_of_a_cluster_are_as_the_plan_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    run(tmp_path / "seen", CONSUMERS, 1.0)
    made = plan(spark, [tmp_path / "seen" / "traces"], tmp_path / "out", times=TIMES, without="n2", clients=GONE)
    assert made.network.balanced
    assert made.misfit() == []
    assert made.network.queues == ["orders"]  # not those of who asks the nodes how they are
    assert made.network.limit("orders") == pytest.approx(1 / PACE, rel=CLOSE)
    did = run(tmp_path / "run", CONSUMERS[:2], TIMES)
    for at, name in enumerate(("n0", "n1")):
        assert made.after.consumed[name, "orders"] == pytest.approx(did.taken[at], rel=CLOSE), (name, did.__dict__)
    assert made.after.edge("n0", "n1") == pytest.approx(did.came[1], rel=CLOSE), did.__dict__
    assert made.after.waiting == {("n0", "orders"): pytest.approx(did.waits[0], rel=CLOSE)}, did.__dict__
    assert did.waits[1] < CLOSE * did.came[1]
    # what breaks first: the node with one consumer, and no other takes its share
    assert first_to_break(made).startswith("orders at n0 breaks now")
    assert "n0, which gets" in " ".join(advice(made))
