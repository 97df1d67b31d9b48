"""Clusters of real processes, from copied configurations of Artemis: ours among themselves, and ours with Artemis.

The clients are unmodified ones of Artemis. One reads the topology, others send to one node what is read on the other.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import artemis
import maven
import paho.mqtt.client as paho
import pytest
from artemis import Artemis
from classic import free_port
from java_clients import compiled, run
from ours import Entrepot, member

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

SOURCES: Final = Path(__file__).with_name("java") / "clusters"
CLIENT: Final = "org.apache.activemq:artemis-jms-client:2.42.0"
MQTT: Final = f"org.apache.activemq:artemis-mqtt-protocol:{artemis.VERSION}"
CLUSTER: Final = """
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<connectors>
  <connector name="self">tcp://127.0.0.1:{own}</connector><connector name="other">tcp://127.0.0.1:{other}</connector>
</connectors>
<cluster-connections><cluster-connection name="c">
  <connector-ref>self</connector-ref><retry-interval>200</retry-interval>
  <message-load-balancing>ON_DEMAND</message-load-balancing><max-hops>1</max-hops>
  <static-connectors><connector-ref>other</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
"""
MOVING: Final = """
<address-setting match="moved.#"><redistribution-delay>400</redistribution-delay></address-setting>
"""
EXPECTED: Final = """\
members 2
both 10 10
there 20
filtered total 10 there at most two true
topic 5 5 5
large 3
end
"""


def node(kind: str, home: Path, name: str, own: int, other: int) -> Artemis | Entrepot:
    """Return a broker of that kind; both run the same file."""
    return member(kind, home, name, own, CLUSTER.format(own=own, other=other), MOVING)


EXPECTED_MOVED: Final = """\
moved.backlog 30 in order true after the delay true
moved.large 3 in order true after the delay true
moved.left 15 in order true from 5
moved.news 10 in order true
end
"""


@pytest.mark.parametrize("kinds", [("ours", "ours"), ("ours", "artemis"), ("artemis", "ours")], ids="-".join)
def test_what_waits_on_one_node_moves_to_where_it_is_read(tmp_path: Path, kinds: tuple[str, str]) -> None:
    assert played(tmp_path, kinds, "Moved") == EXPECTED_MOVED


@pytest.mark.parametrize("kinds", [("ours", "ours"), ("ours", "artemis"), ("artemis", "ours")], ids="-".join)
def test_what_is_sent_to_one_node_is_read_on_the_other(tmp_path: Path, kinds: tuple[str, str]) -> None:
    assert played(tmp_path, kinds, "Balanced") == EXPECTED


def played(home: Path, kinds: tuple[str, str], program: str) -> str:
    """Return what the Java ``program`` prints that knows the nodes of a cluster, of these kinds."""
    with pair(home, kinds) as (nodes, _):
        jars = maven.jars(CLIENT)
        classes = compiled({one.name: one.read_text() for one in SOURCES.glob("*.java")}, f"{jars}/*")
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}/*", program]
        return run([*command, *(each.url for each in nodes)])


@pytest.mark.parametrize("kinds", [("ours", "ours"), ("ours", "artemis"), ("artemis", "ours")], ids="-".join)
def test_a_client_id_of_mqtt_is_one_connections_in_the_cluster(
    tmp_path: Path, kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artemis, "ARTIFACTS", (*artemis.ARTIFACTS, MQTT))
    with pair(tmp_path, kinds) as (nodes, _), connected(nodes[0]) as older:
        gone = threading.Event()
        older.on_disconnect = lambda *_: gone.set()
        until = time.monotonic() + 30
        while not gone.wait(2):  # the nodes may not have met when the newer one came
            assert time.monotonic() < until, "the older connection stays"
            with connected(nodes[1]):
                gone.wait(2)


@contextlib.contextmanager
def connected(broker: Artemis | Entrepot) -> Iterator[paho.Client]:
    """Yield a client whose id is always the same, once the broker has let it in; it does not come back by itself."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "meter", protocol=5, reconnect_on_failure=False)
    entered = threading.Event()
    client.on_connect = lambda *_: entered.set()
    assert client.connect("127.0.0.1", int(broker.url.rpartition(":")[2])) == 0
    client.loop_start()
    try:
        assert entered.wait(20), "it is not let in"
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


@contextlib.contextmanager
def pair(home: Path, kinds: tuple[str, str]) -> Iterator[tuple[list[Artemis | Entrepot], list[str]]]:
    """Run two nodes that know each other; yield them, and where the Python client finds them."""
    ports = free_port(), free_port()
    nodes = [node(kind, home / f"n{at}", f"n{at}", ports[at], ports[1 - at]) for at, kind in enumerate(kinds)]
    try:
        for each in nodes:
            each.start()
        for each in nodes:
            each.await_ready()
        yield nodes, [f"core://127.0.0.1:{port}" for port in ports]
    finally:
        for each in nodes:
            each.kill()
