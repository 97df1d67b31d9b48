"""Whole brokers in one cluster, in one process and in virtual time: what is dialled is a pair of octet streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.connector import CoreConnector
from entrepot.cluster.clusters.connection import AllClusters, ClusterConnection
from entrepot.cluster.clusters.contact import Contact
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.grouping import GroupingHandler
from entrepot.cluster.clusters.members import Credentials
from entrepot.cluster.clusters.options import Balancing, ClusterOptions, GroupingOptions, connector_of
from entrepot.cluster.dialled import Dialled
from entrepot.cluster.routers.probe import Probe
from entrepot.core.operators.census import Census
from entrepot.core.operators.management import install as manage
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.doorbell import install as notify
from entrepot.protocols.artemis.headers import TYPE_TEXT, Headers, assembled
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.primitives import Connector
from entrepot.protocols.artemis.sending import schedule
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.session import Session, Shell
from kit import Rig

FIRST_PORT = 7000
SECRET = Credentials("cluster", "secret")
STEP_MS = 10


def connector(number: int) -> Connector:
    """Return where node ``number`` is."""
    return connector_of(f"n{number}", Endpoint("tcp", host="h", port=FIRST_PORT + number))


NOWHERE = [connector_of(f"n{number}", Endpoint("unix", host=f"n{number}", port=0)) for number in range(8)]


class Wire(Shell):
    """The shell of one end."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.session: Session | None = None

    def go_on(self) -> None:
        if self.session is not None:
            self.session.resume(self.node.rig.now)


class Cable:
    """One connection between two nodes. ``silent``: nothing passes, and nobody knows."""

    def __init__(self, near: Node, far: Node, owner: Contact | Probe | Dialled, attempt: int, place: Endpoint) -> None:
        self.near, self.far = near, far
        self.owner, self.attempt = owner, attempt
        self.cut = False
        self.silent = False
        shell = Wire(near)
        now = near.rig.now
        self.client: Session = (
            owner.greet(shell, attempt, place, now) if isinstance(owner, Dialled) else owner.open(shell, attempt)
        )
        shell.session = self.client
        far.accepted += 1
        accepted = Wire(far)
        self.server = CoreServerSession(accepted, far.acceptor, CoreOptions(), far.accepted, f"{near.name}:{attempt}")
        accepted.session = self.server

    def carry(self) -> int:
        """Carry what both said; return how many octets."""
        if self.silent:
            return 0
        said = self.client.outgoing()
        watch = self.near.world.watch
        if said:
            self.far.act(lambda: self.server.receive(said, self.far.rig.now))
            watch(self)
        heard = self.server.outgoing()
        if heard and not self.client.closing:
            self.near.act(lambda: self.client.receive(heard, self.near.rig.now))
            watch(self)
        if self.client.closing or self.server.closing:
            self.break_off("closed")
        return len(said) + len(heard)

    def look(self) -> None:
        """Let both ends see what time it is."""
        for node, session in ((self.near, self.client), (self.far, self.server)):
            if not self.cut and session.deadline() <= node.rig.now:
                node.act(lambda node=node, session=session: session.advance(node.rig.now))  # type: ignore[misc]

    def break_off(self, why: str) -> None:
        """Nothing passes any more, and both ends know."""
        if not self.cut:
            self.cut = True
            self.far.act(lambda: self.server.detach(why, self.far.rig.now))
            self.near.act(lambda: self.client.detach(why, self.near.rig.now))


class Answering(Census):
    """What management of a node knows: how its drain stands, where a test made one."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def drain(self, verb: str, to: str) -> object:
        if self.node.foreign:
            return super().drain(verb, to)
        if verb == "branch":
            return self.node.rig.broker.branches.came(bytes.fromhex(to))
        assert verb == "status"
        return {"state": "idle"} if self.node.drain is None else self.node.drain.report()


class Node:
    """One broker. ``policies`` as `Rig` has them."""

    def __init__(
        self,
        world: Cluster,
        number: int,
        seeds: list[int],
        *,
        credentials: Credentials = SECRET,
        own: int = -1,
        seed: int = 0,
        balancing: Balancing = Balancing.ON_DEMAND,
        max_hops: int = 1,
        direct: bool = False,
        address: str = "",
        policies: dict[str, dict[str, str]] | None = None,
        grouping: GroupingOptions | None = None,
        ways: list[int] | None = None,
        group: str = "",
    ) -> None:
        """``group``: of nodes that give all to one another.

        ``ways``: processes of the same broker, by number; nobody is told where such a node is.
        """
        self.grouping_options = grouping
        self.grouping: GroupingHandler | None = None
        self.world, self.number, self.name = world, number, f"n{number}"
        self.rig = Rig(policies, seed=seed or number + 1)
        self.credentials = credentials
        self.options = ClusterOptions(
            name="c",
            own=connector(number if own < 0 else own) if ways is None else NOWHERE[number],
            ways=tuple(Endpoint("tcp", host="h", port=FIRST_PORT + one) for one in ways or ()),
            seeds=tuple(connector(one) for one in seeds),
            balancing=balancing,
            max_hops=max_hops,
            direct=direct or ways is not None,
            address=address,
            scale_down_group=group,
        )
        self.accepted = 0
        self.said: list[str] = []
        self.ways: list[CoreConnector] = []
        self.drain: Drain | None = None
        self.foreign = False  # it does not know what nodes of ours ask one another, as an Artemis
        self.acceptor: CoreAcceptor
        self.connection: ClusterConnection
        self._boot()
        world.nodes[FIRST_PORT + number] = self

    def _boot(self) -> None:
        broker = self.rig.broker
        manage(broker, Answering(self))
        doorbell = notify(broker, "activemq.notifications")
        self.acceptor = CoreAcceptor(broker)
        self.ways = []
        self.connection = ClusterConnection(
            broker,
            self.options,
            self.credentials,
            lambda who, what: self.said.append(what),
            tell=lambda kind, said: doorbell.notifications.tell(kind, said) if doorbell.listening else None,
        )
        if self.grouping_options is not None:
            self.grouping = GroupingHandler(
                broker,
                self.grouping_options,
                self.said.append,
                lambda kind, said: doorbell.notifications.tell(kind, said) if doorbell.listening else None,
                lambda address: True,
            )
            self.connection.registry.group(self.grouping)
        doorbell.notifications.elsewhere = AllClusters([self.connection])
        self.acceptor.membership = self.connection.members

    def start(self) -> None:
        """Join."""
        self.connection.start(self._perform, self._carry)

    def _carry(self, way: CoreConnector) -> None:
        if way not in self.ways:
            self.ways.append(way)
        way.start(self.rig.broker, self._perform, lambda who, what: self.said.append(what), self.rig.now)

    def _perform(self, owner: Contact | Probe | Dialled, effects: list[object]) -> None:
        for effect in effects:
            if isinstance(effect, Dial):
                self.world.dial(self, owner, effect)
            elif isinstance(effect, Drop):
                for cable in self.world.cables:
                    if cable.owner is owner and cable.attempt == effect.attempt and not cable.cut:
                        cable.client.shut("dropped", self.rig.now)

    def act(self, action: object) -> None:
        """Do ``action`` as one turn."""
        broker = self.rig.broker
        broker.tick(self.rig.now, self.rig.wall)
        action()  # type: ignore[operator]
        while broker.effort.waits():
            broker.effort.go_on()
        self.rig.turn()

    def send(self, text: str, bodies: Iterable[object], **properties: object) -> None:
        """Send messages of CORE to the queue or topic ``text``."""
        parsed = names.parse(text)
        target = self.rig.broker.target(parsed)
        for body in bodies:
            message = self.message(parsed[0].name, body, **properties)
            self.act(lambda message=message: self.rig.broker.send(message, target))  # type: ignore[misc]

    def message(self, address: str, body: object, **properties: object) -> Message:
        """Return a message of CORE."""
        headers = Headers()
        headers.address = address
        headers.kind = TYPE_TEXT
        headers.durable = True
        message = message_of(assembled(text_body(str(body)), headers, dict(properties)), "")
        if message.rare is not None and message.rare.deliver_at > 0:
            schedule(message, message.rare, self.rig.wall)
        return message

    def known(self) -> list[str]:
        """Return the members that it knows, by the names of their connectors."""
        members = self.connection.topology.members.values()
        return sorted(one.primary.name for one in members if one.primary is not None)

    def remote(self, address: str) -> list[tuple[str, int, int]]:
        """Return the queues of other nodes at ``address``: name, distance, consumers of those that are connected."""
        found = self.rig.broker.table.addresses.get(address)
        remotes = [] if found is None else found.remotes()
        return [(one.queue_name, int(one.distance), int(one.count)) for one in remotes if one.connected]

    @property
    def uuid(self) -> str:
        """Its id in the cluster."""
        return self.connection.topology.own.node

    def leave(self, *, orderly: bool) -> None:
        """Stop: every peer is told, or finds a broken connection."""
        del self.world.nodes[FIRST_PORT + self.number]
        if orderly:
            for way in self.ways:
                way.stop(self.rig.now)
        for cable in self.world.cables:
            if cable.far is self and not cable.cut:
                if orderly:
                    cable.server.shut("the broker stops", self.rig.now)
                    cable.carry()
                cable.break_off("gone")
        self.connection.stop()
        for cable in self.world.cables:
            if cable.near is self:
                cable.break_off("gone")

    def come_back(self, how: str = "kill") -> None:
        """Start again from the same disk, after `leave`."""
        self.rig.restart(how)
        self._boot()
        self.world.nodes[FIRST_PORT + self.number] = self
        self.start()


class Cluster:
    """All nodes, by port, and what joins them. ``apart``: pairs of numbers between which nothing can be dialled."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.cables: list[Cable] = []
        self.apart: list[tuple[int, int]] = []
        self.dialled: list[tuple[Node, object, Contact | Probe | Dialled, Dial]] = []
        self.watch: Callable[[Cable], None] = lambda cable: None  # called whenever something was carried

    def node(self, number: int, seeds: list[int], **given: object) -> Node:
        """Return a new node, that has not joined yet."""
        return Node(self, number, seeds, **given)  # type: ignore[arg-type]

    def dial(self, near: Node, owner: Contact | Probe | Dialled, effect: Dial) -> None:
        """Join ``near`` to the node that it dials, in a while."""
        self.dialled.append((near, near.rig.broker, owner, effect))

    def _join(self) -> None:
        waiting, self.dialled[:] = list(self.dialled), []
        for near, broker, owner, effect in waiting:
            if near.rig.broker is not broker:
                continue  # it died
            far = self.nodes.get(effect.place.port)
            if far is not None and not self.are_apart(near, far):
                self.cables.append(Cable(near, far, owner, effect.attempt, effect.place))
            elif not isinstance(owner, Dialled):
                near.act(lambda owner=owner, effect=effect: owner.failed(effect.attempt, "refused"))  # type: ignore[misc]
            else:
                now = near.rig.now
                near.act(
                    lambda owner=owner, effect=effect, now=now: owner.perform(  # type: ignore[misc]
                        owner.link.failed(effect.attempt, "refused", now)
                    )
                )

    def are_apart(self, one: Node, other: Node) -> bool:
        """Return whether nothing can be dialled between them."""
        return (one.number, other.number) in self.apart or (other.number, one.number) in self.apart

    def part(self, one: Node, other: Node) -> None:
        """Cut everything between two nodes, and let nothing be dialled."""
        self.apart.append((one.number, other.number))
        for cable in self.cables:
            if {cable.near.number, cable.far.number} == {one.number, other.number}:
                cable.break_off("cut")

    def wait(self, ms: int = 100) -> None:
        """Let time pass everywhere."""
        for _ in range(max(1, ms // STEP_MS)):
            for node in list(self.nodes.values()):
                node.rig.wait(STEP_MS)
            self.settle()
            for cable in self.cables:
                cable.look()

    def settle(self) -> None:
        """Carry everything that was said, until nobody says anything."""
        for _ in range(10_000):
            self._join()
            self.cables = [cable for cable in self.cables if not cable.cut]
            if not sum([0 if cable.cut else cable.carry() for cable in self.cables]) and not self.dialled:
                return
        raise AssertionError("the cluster is never at rest")


def joined(count: int, **given: object) -> tuple[Cluster, list[Node]]:
    """Return a cluster in which every node lists every other one, when all of them have met."""
    world = Cluster()
    nodes = [world.node(number, [one for one in range(count) if one != number], **given) for number in range(count)]
    for node in nodes:
        node.start()
    world.wait(100)
    return world, nodes
