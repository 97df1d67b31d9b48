"""Artemis' clustered examples by name (artemis.md 8.4): our nodes run what their files say, and show their numbers.

The client is an unmodified one of Artemis. The elements are those of each example; ports, directories and the group
differ, so that several runs on one machine do not meet. docs/artemis-cluster-tests.md lists them.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import artemis
import maven
import pytest
from artemis import Artemis
from classic import HOST, free_port
from java_clients import compiled, run
from ours import Entrepot, member
from test_discovery import multicast_works

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

SOURCE: Final = Path(__file__).with_name("java") / "clusters" / "Shown.java"
CLIENT: Final = "org.apache.activemq:artemis-jms-client:2.42.0"
MEETING_S: Final = 60.0
GROUP: Final = "231.7.7.7"
LOGIN: Final = "<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>"
ADDRESSES: Final = """<address name="exampleQueue"><anycast><queue name="{queue}"/></anycast></address>
<address name="exampleTopic"><multicast/></address>"""
BY_DATAGRAM: Final = """<broadcast-groups><broadcast-group name="my-broadcast-group">
<group-address>{group}</group-address><group-port>{udp}</group-port><broadcast-period>100</broadcast-period>
<connector-ref>netty-connector</connector-ref></broadcast-group></broadcast-groups>
<discovery-groups><discovery-group name="my-discovery-group"><group-address>{group}</group-address>
<group-port>{udp}</group-port><refresh-timeout>10000</refresh-timeout></discovery-group></discovery-groups>"""
BY_STACK: Final = """<broadcast-groups><broadcast-group name="my-broadcast-group">
<broadcast-period>500</broadcast-period><jgroups-file>{stack}</jgroups-file>
<jgroups-channel>active_broadcast_channel</jgroups-channel><connector-ref>netty-connector</connector-ref>
</broadcast-group></broadcast-groups>
<discovery-groups><discovery-group name="my-discovery-group"><jgroups-file>{stack}</jgroups-file>
<jgroups-channel>active_broadcast_channel</jgroups-channel><refresh-timeout>10000</refresh-timeout>
</discovery-group></discovery-groups>"""
STACK: Final = """<config xmlns="urn:org:jgroups"><TCP bind_addr="127.0.0.1" bind_port="7800"/><RED/>
<FILE_PING location="{share}"/><MERGE3 min_interval="10000" max_interval="30000"/><FD_SOCK2/>
<FD_ALL3 timeout="40000" interval="5000"/><VERIFY_SUSPECT2 timeout="1500"/><BARRIER/>
<pbcast.NAKACK2 use_mcast_xmit="false"/><UNICAST3/><pbcast.STABLE desired_avg_gossip="50000" max_bytes="4M"/>
<pbcast.GMS print_local_addr="true" join_timeout="2000"/><UFC max_credits="2M" min_threshold="0.4"/>
<MFC max_credits="2M" min_threshold="0.4"/><FRAG2 frag_size="60K"/><pbcast.STATE_TRANSFER/></config>"""
CONNECTION: Final = """<cluster-connections><cluster-connection name="my-cluster">
<connector-ref>netty-connector</connector-ref><retry-interval>500</retry-interval>
<use-duplicate-detection>true</use-duplicate-detection>
<message-load-balancing>{mode}</message-load-balancing><max-hops>{hops}</max-hops>
{others}</cluster-connection></cluster-connections>"""
DISCOVERED: Final = '<discovery-group-ref discovery-group-name="my-discovery-group"/>'
BY_URI: Final = """<cluster-connections><cluster-connection-uri name="my-cluster"
address="{seeds}?messageLoadBalancingType=STRICT;retryInterval=500;connectorName=netty-connector;maxHops=1"/>
</cluster-connections>"""
GROUPING: Final = """<grouping-handler name="my-grouping-handler"><type>{part}</type><address>exampleQueue</address>
<timeout>5000</timeout>{times}</grouping-handler>"""
AT_ONCE: Final = (
    '<address-setting match="exampleQueue"><redistribution-delay>0</redistribution-delay></address-setting>'
)
EVENS: Final = "0 2 4 6 8"
ODDS: Final = "1 3 5 7 9"
ALL: Final = "0 1 2 3 4 5 6 7 8 9"


class Cluster:
    """Nodes of ours, from the elements of an example. ``udp``: the port of their group."""

    def __init__(self, home: Path, count: int) -> None:
        self.home = home
        self.ports = [free_port() for _ in range(count)]
        self.udp = free_port()
        self.nodes: list[Artemis | Entrepot] = []

    def connectors(self, own: int, *others: int) -> str:
        """Return the element that says where node ``own`` is, and ``others``."""
        names = [("netty-connector", own), *((f"server{at}-connector", at) for at in others)]
        made = "".join(f'<connector name="{name}">tcp://{HOST}:{self.ports[at]}</connector>' for name, at in names)
        return f"<connectors>{made}</connectors>"

    def static(self, *others: int, direct: bool = False) -> str:
        told = ' allow-direct-connections-only="true"' if direct else ""
        listed = "".join(f"<connector-ref>server{at}-connector</connector-ref>" for at in others)
        return f"<static-connectors{told}>{listed}</static-connectors>" if others else ""

    def datagrams(self) -> str:
        return BY_DATAGRAM.format(group=GROUP, udp=self.udp)

    def add(self, core: str, *, settings: str = "", queue: str = "exampleQueue") -> None:
        at = len(self.nodes)
        home = self.home / f"server{at}"
        text = LOGIN + core
        addresses = ADDRESSES.format(queue=queue)
        self.nodes.append(member("ours", home, f"server{at}", self.ports[at], text, settings, addresses))

    @contextlib.contextmanager
    def running(self, met: list[int]) -> Iterator[Cluster]:
        """Run them; ``met``: how many others each has met when this goes on."""
        try:
            for each in self.nodes:
                each.start()
            until = time.monotonic() + MEETING_S
            for node, count in zip(self.nodes, met, strict=True):
                assert isinstance(node, Entrepot)
                log = node.home / "log"
                while log.read_text().count("met the node") < count:
                    assert time.monotonic() < until, log.read_text()[-3000:]
                    time.sleep(0.05)
            for each in self.nodes:
                each.await_ready()
            yield self
        finally:
            for each in self.nodes:
                each.kill()

    def command(self, examples: str) -> list[str]:
        """Return how the Java program is called that plays these examples."""
        jars = maven.jars(CLIENT)
        classes = compiled({SOURCE.name: SOURCE.read_text()}, f"{jars}/*")
        java = ["java", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true", "-cp", f"{classes}:{jars}/*"]
        urls = ",".join(each.url for each in self.nodes)
        return [*java, "Shown", examples, f"udp://{GROUP}:{self.udp}", urls]

    def played(self, examples: str) -> dict[str, list[str]]:
        """Return what each line that the program printed says, by its first part."""
        lines = [line.split(" | ") for line in run(self.command(examples)).splitlines()]
        return {name: parts for name, *parts in lines}

    def warnings(self) -> list[str]:
        """Return what the nodes warn of, after they were stopped in order."""
        for each in self.nodes:
            each.stop()
        logs = [(node.home / "log").read_text() for node in self.nodes]
        return [line for text in logs for line in text.splitlines() if " WARN" in line or " ERROR" in line]


@pytest.fixture(scope="module")
def by_datagram(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Two nodes: clustered-queue, clustered-topic and clustered-durable-subscription have one file."""
    needs_multicast()
    cluster = Cluster(tmp_path_factory.mktemp("datagram"), 2)
    for own in range(2):
        found = CONNECTION.format(mode="STRICT", hops=1, others=DISCOVERED)
        cluster.add(cluster.connectors(own) + cluster.datagrams() + found)
    with cluster.running([1, 1]):
        return cluster.played("clustered-queue,clustered-topic,clustered-durable-subscription")


def needs_multicast() -> None:
    if not multicast_works():
        pytest.skip("this machine has no network with multicast")


def test_clustered_queue(by_datagram: dict[str, list[str]]) -> None:
    assert sorted(by_datagram["clustered-queue"]) == [EVENS, ODDS]


def test_clustered_topic(by_datagram: dict[str, list[str]]) -> None:
    assert by_datagram["clustered-topic"] == [ALL, ALL]


def test_clustered_durable_subscription(by_datagram: dict[str, list[str]]) -> None:
    assert sorted(by_datagram["clustered-durable-subscription"]) == [EVENS, ODDS]


def test_clustered_topic_uri(tmp_path: Path) -> None:
    needs_multicast()
    cluster = Cluster(tmp_path, 2)
    for own in range(2):
        found = BY_URI.format(seeds="multicast://my-discovery-group")
        cluster.add(cluster.connectors(own) + cluster.datagrams() + found)
    with cluster.running([1, 1]):
        assert cluster.played("clustered-topic-uri") == {"clustered-topic-uri": [ALL, ALL]}


def test_clustered_jgroups(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2)
    stack = tmp_path / "test-jgroups-file_ping.xml"
    stack.write_text(STACK.format(share=tmp_path / "file.ping.dir"))
    for own in range(2):
        found = CONNECTION.format(mode="STRICT", hops=1, others=DISCOVERED)
        cluster.add(cluster.connectors(own) + BY_STACK.format(stack=stack) + found)
    with cluster.running([1, 1]):
        assert sorted(cluster.played("clustered-jgroups")["clustered-jgroups"]) == [EVENS, ODDS]


def test_clustered_grouping(tmp_path: Path) -> None:
    """Thirty of one group, ten sent to each node, are all read where the group is."""
    needs_multicast()
    cluster = Cluster(tmp_path, 3)
    for own in range(3):
        found = CONNECTION.format(mode="STRICT", hops=1, others=DISCOVERED)
        times = "" if own else "<group-timeout>-1</group-timeout><reaper-period>30000</reaper-period>"
        handler = GROUPING.format(part="REMOTE" if own else "LOCAL", times=times)
        cluster.add(cluster.connectors(own) + cluster.datagrams() + found + handler)
    with cluster.running([2, 2, 2]):
        got = cluster.played("clustered-grouping")["clustered-grouping"]
        assert got == [" ".join(str(number) for number in range(30))]


SHARED_OUT: Final = {" ".join(str(number) for number in range(first, 20, 4)) for first in range(4)}


def test_clustered_static_discovery(tmp_path: Path) -> None:
    """Each lists one other; they all meet, and 20 messages are read in turn at the four."""
    cluster = Cluster(tmp_path, 4)
    for own, other in enumerate((1, 0, 0, 0)):
        found = CONNECTION.format(mode="STRICT", hops=1, others=cluster.static(other))
        cluster.add(cluster.connectors(own, other) + found)
    with cluster.running([3] * 4):
        seen = cluster.played("clustered-static-discovery")
        assert set(seen["clustered-static-discovery nodes [0, 1, 2, 3]"]) == SHARED_OUT
        assert cluster.warnings() == []


def test_clustered_static_discovery_uri(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 4)
    for own, other in enumerate((1, 0, 0, 0)):
        found = BY_URI.format(seeds=f"static://(tcp://{HOST}:{cluster.ports[other]})")
        cluster.add(cluster.connectors(own) + found)
    with cluster.running([3] * 4):
        seen = cluster.played("clustered-static-discovery-uri")
        assert set(seen["clustered-static-discovery-uri nodes [0, 1, 2, 3]"]) == SHARED_OUT


def test_clustered_static_oneway(tmp_path: Path) -> None:
    """0 -> 1 -> 2: what the first is sent is read in turn at the three, and its client learns of all."""
    cluster = Cluster(tmp_path, 3)
    for own, others in enumerate([(1,), (2,), ()]):
        found = CONNECTION.format(mode="STRICT", hops=2 - own, others=cluster.static(*others, direct=True))
        cluster.add(cluster.connectors(own, *others) + found)
    with cluster.running([1, 1, 0]):
        seen = cluster.played("clustered-static-oneway")
        parts = {" ".join(str(number) for number in range(first, 18, 3)) for first in range(3)}
        assert set(seen["clustered-static-oneway nodes [0, 1, 2]"]) == parts


def test_queue_message_redistribution(tmp_path: Path) -> None:
    """What the closed reader of node 1 did not acknowledge is read at node 0."""
    needs_multicast()
    cluster = Cluster(tmp_path, 2)
    for own in range(2):
        found = CONNECTION.format(mode="ON_DEMAND", hops=1, others=DISCOVERED)
        cluster.add(cluster.connectors(own) + cluster.datagrams() + found, settings=AT_ONCE)
    with cluster.running([1, 1]):
        seen = cluster.played("queue-message-redistribution")
        first = seen["queue-message-redistribution first"]
        assert sorted(first) == [EVENS, ODDS]
        assert seen["queue-message-redistribution then"] == [" ".join(first)]


def test_symmetric_cluster(tmp_path: Path) -> None:
    """Six nodes: 500 to a topic reach the six, 500 to a queue the one that reads; and again when one was killed."""
    needs_multicast()
    cluster = Cluster(tmp_path, 6)
    for own in range(6):
        found = CONNECTION.format(mode="ON_DEMAND", hops=1, others=DISCOVERED)
        cluster.add(cluster.connectors(own) + cluster.datagrams() + found, queue="jms.queue.exampleQueue")
    with cluster.running([5] * 6):
        seen = cluster.played("symmetric-cluster")
        assert seen == {"symmetric-cluster nodes [0, 1, 2, 3, 4, 5]": ["500"] * 7}
        cluster.nodes.pop().kill()
        seen = cluster.played("symmetric-cluster")
        assert seen == {"symmetric-cluster nodes [0, 1, 2, 3, 4]": ["500"] * 6}


def test_client_side_load_balancing(tmp_path: Path) -> None:
    """Three connections of one factory are with three nodes, and each reads what was sent there and no more."""
    needs_multicast()
    cluster = Cluster(tmp_path, 3)
    for own in range(3):
        found = CONNECTION.format(mode="ON_DEMAND", hops=0, others=DISCOVERED)
        cluster.add(cluster.connectors(own) + cluster.datagrams() + found)
    with cluster.running([2] * 3):
        seen = cluster.played("client-side-load-balancing")
        each = [" ".join(str(number) for number in range(first, first + 10)) for first in (0, 100, 200)]
        assert seen == {"client-side-load-balancing nodes [0, 1, 2]": each}


SHARED_STORE: Final = """<ha-policy><shared-store><{part}><failover-on-shutdown>true</failover-on-shutdown></{part}>
</shared-store></ha-policy>"""


def test_shared_storage_static_cluster(tmp_path: Path) -> None:
    """A client goes on when the first of three that share a store is killed, and then the second.

    Both others wait from the beginning here. Clients are told of one of them and dial no other: it is the one that
    takes over, and says at once who is next.
    """
    cluster = Cluster(tmp_path, 3)
    statuses = {f"server{own}": f"{HOST}:{free_port()}" for own in range(3)}
    for own in range(3):
        others = [at for at in range(3) if at != own]
        found = CONNECTION.format(mode="ON_DEMAND", hops=0, others=cluster.static(*others))
        cluster.add(cluster.connectors(own, *others) + found + SHARED_STORE.format(part="backup" if own else "primary"))
    nodes = {node.name: node for node in cluster.nodes if isinstance(node, Entrepot)}
    for name, node in nodes.items():
        node.data = tmp_path / "shared"
        node.arguments = (shared_file(Path(node.arguments[0]), tmp_path), "--status", statuses[name])
    client = None
    try:
        nodes["server0"].start().await_ready()
        nodes["server1"].start()
        nodes["server2"].start()
        serving, known = "server0", told(statuses["server0"])
        command = cluster.command("shared-storage-static-cluster")
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert client.stdin is not None
        assert client.stdout is not None
        for last in (False, True):
            assert client.stdout.readline() == "kill\n"
            nodes[serving].kill()
            serving = known
            nodes[serving].await_ready()
            known = "" if last else told(statuses[serving])
            client.stdin.write("\n")
            client.stdin.flush()
        assert client.communicate(timeout=MEETING_S)[0] == "shared-storage-static-cluster | 20\n"
    finally:
        if client is not None:
            client.kill()
        for each in cluster.nodes:
            each.kill()


def shared_file(file: Path, home: Path) -> str:
    """Let a node keep its messages where the others keep theirs; return its file."""
    text = file.read_text()
    for name in ("paging", "bindings", "journal", "large-messages"):
        text = text.replace(f"{file.parent}/{name}", f"{home}/shared/{name}")
    file.write_text(text)
    return str(file)


def told(status: str) -> str:
    """Return whom clients of the node that serves are sent to, once they are."""
    until = time.monotonic() + MEETING_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{status}/status", timeout=5) as answer:
            facts = json.load(answer)
            if facts.get("successor"):
                return str(facts["successor"])
        time.sleep(0.05)
    raise AssertionError(f"clients of {status} are sent to nobody")
