"""Message groups over clusters of real processes, ours and real Artemis nodes: either kind decides (artemis.md 1.21).

The client is an unmodified one of Artemis. It sends each group to every node, and reads at every node: all of a group
must be read at one, what was sent to one node in its order; and at the same one after the node that decides was killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import artemis
import maven
import pytest
from artemis import Artemis
from classic import HOST, free_port
from java_clients import compiled, run
from ours import Entrepot, member

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

SOURCE: Final = Path(__file__).with_name("java") / "clusters" / "Grouped.java"
CLIENT: Final = "org.apache.activemq:artemis-jms-client:2.42.0"
GROUPS: Final = 6
CLUSTER: Final = """
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<connectors>{connectors}</connectors>
<cluster-connections><cluster-connection name="c">
  <connector-ref>n{own}</connector-ref><retry-interval>100</retry-interval><max-retry-interval>500</max-retry-interval>
  <message-load-balancing>ON_DEMAND</message-load-balancing><max-hops>1</max-hops>
  <static-connectors>{others}</static-connectors>
</cluster-connection></cluster-connections>
<grouping-handler name="groups"><type>{type}</type><address>grouped</address><timeout>3000</timeout></grouping-handler>
"""


def node(kind: str, home: Path, own: int, ports: list[int]) -> Artemis | Entrepot:
    """Return node number ``own`` of the cluster at ``ports``; the first one decides where groups go."""
    connectors = "".join(f'<connector name="n{at}">tcp://{HOST}:{port}</connector>' for at, port in enumerate(ports))
    others = "".join(f"<connector-ref>n{at}</connector-ref>" for at in range(len(ports)) if at != own)
    part = "REMOTE" if own else "LOCAL"
    core = CLUSTER.format(connectors=connectors, own=own, others=others, type=part)
    return member(kind, home, f"n{own}", ports[own], core)


@pytest.mark.parametrize(
    "kinds", [("ours", "artemis", "ours"), ("artemis", "ours", "ours"), ("ours", "ours")], ids="-".join
)
def test_a_group_is_read_at_one_node(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    ports = [free_port() for _ in kinds]
    nodes = [node(kind, tmp_path / f"n{at}", at, ports) for at, kind in enumerate(kinds)]
    try:
        for each in nodes:
            each.start()
        for each in nodes:
            each.await_ready()
        first = played(nodes)
        assert all(" got 12 in order" in line for line in first), first
        assert len(first) == GROUPS
        assert len({line.split()[2] for line in first}) > 1, first
        nodes[0].kill()
        nodes[0].start()
        nodes[0].await_ready()
        assert played(nodes) == first
    finally:
        for each in nodes:
            each.kill()


def played(nodes: list[Artemis | Entrepot]) -> list[str]:
    """Return what the Java program prints that knows ``nodes``."""
    jars = maven.jars(CLIENT)
    classes = compiled({SOURCE.name: SOURCE.read_text()}, f"{jars}/*")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}/*", "Grouped"]
    return run([*command, *(each.url for each in nodes)]).splitlines()
