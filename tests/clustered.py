"""Whole brokers in one cluster, in one process and in virtual time: what contacts dial is a pair of octet streams."""

from __future__ import annotations

from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters.connection import ClusterConnection
from entrepot.cluster.clusters.contact import Contact, Effect
from entrepot.cluster.clusters.members import Credentials
from entrepot.cluster.clusters.options import ClusterOptions, connector_of
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.primitives import Connector
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.failover import Dial
from entrepot.protocols.session import Session, Shell
from kit import Rig

FIRST_PORT = 7000
SECRET = Credentials("cluster", "secret")


def connector(number: int) -> Connector:
    """Return where node ``number`` is."""
    return connector_of(f"n{number}", Endpoint("tcp", host="h", port=FIRST_PORT + number))


class Cable:
    """One connection between two nodes."""

    def __init__(self, near: Node, far: Node, contact: Contact, attempt: int) -> None:
        self.near, self.far = near, far
        self.contact, self.attempt = contact, attempt
        self.client: Session = contact.open(Shell(), attempt)
        far.accepted += 1
        self.server = CoreServerSession(Shell(), far.acceptor, CoreOptions(), far.accepted, f"{near.name}:{attempt}")
        self.cut = False

    def carry(self) -> bool:
        """Carry what both said; return whether there was anything."""
        said = self.client.outgoing()
        if said:
            self.server.receive(said, self.far.rig.now)
            self.far.turn()
        heard = self.server.outgoing()
        if heard and not self.client.closing:
            self.client.receive(heard, self.near.rig.now)
            self.near.turn()
        if self.client.closing or self.server.closing:
            self.break_off("closed")
        return bool(said or heard)

    def break_off(self, why: str) -> None:
        """Nothing passes any more, and both ends know."""
        if not self.cut:
            self.cut = True
            self.server.detach(why, self.far.rig.now)
            self.client.detach(why, self.near.rig.now)


class Node:
    """One broker."""

    def __init__(
        self,
        world: Cluster,
        number: int,
        seeds: list[int],
        *,
        credentials: Credentials = SECRET,
        own: int = -1,
        seed: int = 0,
    ) -> None:
        self.world, self.number, self.name = world, number, f"n{number}"
        self.rig = Rig(seed=seed or number + 1)
        self.acceptor = CoreAcceptor(self.rig.broker)
        self.accepted = 0
        self.said: list[str] = []
        options = ClusterOptions(
            name="c", own=connector(number if own < 0 else own), seeds=tuple(connector(one) for one in seeds)
        )
        self.connection = ClusterConnection(
            self.rig.broker, options, credentials, lambda who, what: self.said.append(what)
        )
        self.acceptor.membership = self.connection.members
        world.nodes[FIRST_PORT + number] = self

    def start(self) -> None:
        """Join."""
        self.connection.start(self._perform)

    def _perform(self, contact: Contact, effects: list[Effect]) -> None:
        for effect in effects:
            cables = self.world.cables
            if isinstance(effect, Dial):
                node = self.world.nodes.get(effect.place.port)
                if node is None:
                    contact.failed(effect.attempt, "connection refused")
                else:
                    cables.append(Cable(self, node, contact, effect.attempt))
            else:
                for cable in cables:
                    if cable.contact is contact and cable.attempt == effect.attempt and not cable.cut:
                        cable.break_off("dropped")

    def turn(self) -> None:
        """End a turn."""
        self.rig.turn()

    def known(self) -> list[str]:
        """Return the members that it knows, by the names of their connectors."""
        members = self.connection.topology.members.values()
        return sorted(one.primary.name for one in members if one.primary is not None)

    @property
    def uuid(self) -> str:
        """Its id in the cluster."""
        return self.connection.topology.own.node

    def leave(self, *, orderly: bool) -> None:
        """Stop: every peer is told, or finds a broken connection."""
        del self.world.nodes[FIRST_PORT + self.number]
        for cable in self.world.cables:
            if cable.far is self and not cable.cut:
                if orderly:
                    cable.server.shut("the broker stops", self.rig.now)
                    cable.client.receive(cable.server.outgoing(), cable.near.rig.now)
                cable.break_off("gone")
        self.connection.stop()
        for cable in self.world.cables:
            if cable.near is self:
                cable.break_off("gone")


class Cluster:
    """All nodes, by port, and what joins them."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.cables: list[Cable] = []

    def node(self, number: int, seeds: list[int], **given: object) -> Node:
        """Return a new node, that has not joined yet."""
        return Node(self, number, seeds, **given)  # type: ignore[arg-type]

    def wait(self, ms: int = 100) -> None:
        """Let time pass everywhere."""
        for _ in range(max(1, ms // 10)):
            for node in list(self.nodes.values()):
                node.rig.wait(10)
            for _ in range(1000):
                self.cables = [cable for cable in self.cables if not cable.cut]
                if not sum([cable.carry() for cable in self.cables]):
                    break
