"""Our own client and a cluster of Artemis and ours: lists of brokers, groups, policies, and a broker that dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import artemis
import pytest
from artemis import Artemis
from classic import free_port
from ours import Entrepot, like_artemis

import entrepot
from entrepot.client.balancing import FirstElement

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

GROUP: Final = "231.7.7.9"
PATIENCE_S: Final = 30
CLUSTER: Final = """
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="self">tcp://127.0.0.1:{own}</connector></connectors>
<broadcast-groups><broadcast-group name="b">
  <group-address>{group}</group-address><group-port>{port}</group-port>
  <broadcast-period>200</broadcast-period><connector-ref>self</connector-ref>
</broadcast-group></broadcast-groups>
<discovery-groups><discovery-group name="d">
  <group-address>{group}</group-address><group-port>{port}</group-port>
</discovery-group></discovery-groups>
<cluster-connections><cluster-connection name="c">
  <connector-ref>self</connector-ref><retry-interval>200</retry-interval>
  <discovery-group-ref discovery-group-name="d"/>
</cluster-connection></cluster-connections>
"""


class Pair:
    """An Artemis and one of ours, which find one another in a group."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.artemis = self._node(home / "a")
        other = self._node(home / "b")
        (home / "ours").mkdir()
        self.ours = like_artemis(home / "ours", other)
        file = home / "ours" / "broker.xml"  # the acceptor is replaced already, the connector is not
        file.write_text(file.read_text().replace(f":{other.port}<", f":{self.ours.port}<"))
        self.ports = [self.artemis.port, self.ours.port]
        self.nodes: list[Artemis | Entrepot] = [self.artemis, self.ours]
        for node in self.nodes:
            node.start().await_ready()

    def _node(self, home: Path) -> Artemis:
        made = Artemis(home, name=home.name)
        text = (home / "broker.xml").read_text()
        before, _, rest = text.partition("<connectors>")
        text = before + rest.partition("</connectors>")[2]
        own = CLUSTER.format(own=made.port, group=GROUP, port=self.port)
        (home / "broker.xml").write_text(text.replace("<address-settings>", f"{own}<address-settings>", 1))
        return made

    @property
    def listed(self) -> str:
        return "(" + ",".join(f"tcp://127.0.0.1:{port}" for port in self.ports) + ")"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("cluster"))
    yield made
    for node in made.nodes:
        node.kill()


async def used(url: str, times: int, **options: entrepot.client.balancing.Balancing) -> list[int]:
    """Return the ports of the brokers that new connections went to."""
    found = []
    for _ in range(times):
        async with asyncio.timeout(PATIENCE_S), entrepot.connect(url, **options) as connection:
            found.append(int(connection.broker.rpartition(":")[2].partition("?")[0]))
    return found


def test_policies_over_a_list(pair: Pair) -> None:
    async def play() -> None:
        own = f"{pair.listed}?useTopologyForLoadBalancing=false"
        assert Counter(await used(own, 10)) == dict.fromkeys(pair.ports, 5)
        first = f"{pair.listed}?useTopologyForLoadBalancing=false&connectionLoadBalancingPolicyClassName="
        assert await used(f"{first}FirstElementConnectionLoadBalancingPolicy", 3) == [pair.ports[0]] * 3
        assert len(set(await used(f"{first}RandomStickyConnectionLoadBalancingPolicy", 6))) == 1

        class Second:
            def select(self, count: int) -> int:
                return 1

        assert await used(own, 3, balancing=Second()) == [pair.ports[1]] * 3

    asyncio.run(play())


def test_a_group_is_heard_and_its_members_share_the_connections(pair: Pair) -> None:
    async def play() -> None:
        url = f"udp://{GROUP}:{pair.port}?initialWaitTimeout=20000&retryInterval=100"
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while len(set(await used(url, 2))) < 2:  # until a topology of both was told
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.2)
        assert Counter(await used(url, 10)) == dict.fromkeys(pair.ports, 5)
        with pytest.raises(entrepot.Unreachable, match="no broker announced itself"):
            await used(f"udp://{GROUP}:{free_port()}?initialWaitTimeout=200", 1)

    asyncio.run(play())


def test_the_other_member_is_used_when_one_dies(pair: Pair) -> None:
    """From a list of one: the topology names the other."""

    async def play() -> None:
        url = f"(tcp://127.0.0.1:{pair.artemis.port})?ha=true&reconnectAttempts=-1&retryInterval=100"
        resumed = asyncio.Event()
        async with (
            asyncio.timeout(2 * PATIENCE_S),
            entrepot.connect(url, balancing=FirstElement(), on_resumed=lambda place: resumed.set()) as connection,
            connection.session() as session,
            session.producer("after") as producer,
        ):
            pair.artemis.kill()
            await resumed.wait()
            assert connection.broker.startswith(f"tcp://127.0.0.1:{pair.ours.port}")
            await producer.send("there")
            async with session.consumer("after") as consumer:
                message = await consumer.receive(PATIENCE_S)
                assert message is not None
                assert message.body == "there"

    asyncio.run(play())
