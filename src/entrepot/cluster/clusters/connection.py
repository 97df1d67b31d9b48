"""A cluster connection: this node in one cluster, and whom it knows there (artemis.md 1.10).

It dials the static connectors and whoever is heard in a discovery group, all of them and for as long as they are not
given up, so that a node which was not there at the start is found when it comes. What it learns is in its `Topology`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.base.environment import MILLISECOND, Instant, WallTime
from entrepot.base.primitive import INT, Primitive
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.carrying.connector import CoreConnector
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.cluster.clusters.agreeing import KINDS
from entrepot.cluster.clusters.contact import Contact, Effect, State
from entrepot.cluster.clusters.grouping import GroupingHandler
from entrepot.cluster.clusters.groups import Event, Found, Lost, Twin
from entrepot.cluster.clusters.members import Credentials, Members, Siblings
from entrepot.cluster.clusters.options import Balancing, ClusterOptions, place_of
from entrepot.cluster.clusters.redistribution import MOVING, Redistribution
from entrepot.cluster.clusters.remotes import NOTIFICATION_TYPE, Registry, RemoteQueues
from entrepot.cluster.clusters.topology import Member, Overseer, Topology, same_place
from entrepot.cluster.clusters.unresolved import Unresolved
from entrepot.cluster.clusters.visitors import Visitors
from entrepot.cluster.link import State as LinkState
from entrepot.core.addressing.binding import OFF, OFF_WITH_REDISTRIBUTION, ON_DEMAND, STRICT, RemoteBinding
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import BINDING_ADDED, BINDING_REMOVED, REMOTE_QUEUE, BindingFact
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.notifying import (
    ADDRESS,
    CLUSTER_NAME,
    CONSUMER_COUNT,
    DISTANCE,
    FILTER,
    ROUTING_NAME,
    SESSION_CREATED,
    Elsewhere,
    QueueInfo,
)
from entrepot.protocols.artemis.primitives import Connector

MODES: Final[Mapping[Balancing, int]] = {
    Balancing.STRICT: STRICT,
    Balancing.ON_DEMAND: ON_DEMAND,
    Balancing.OFF: OFF,
    Balancing.OFF_WITH_REDISTRIBUTION: OFF_WITH_REDISTRIBUTION,
}
LEADING: Final = (State.MEETING, State.MET)  # of a contact: somebody answers there
STARTED: Final = "CLUSTER_CONNECTION_STARTED"
STOPPED: Final = "CLUSTER_CONNECTION_STOPPED"
CONTACTS_MAX: Final = 1_000  # places: who says that a node is there could fill memory

Perform = Callable[[Contact, list[Effect]], None]
Carry = Callable[[CoreConnector], None]
"""Starts the way of messages to another node."""
Tell = Callable[[str, dict[str, object]], None]
"""Tells other brokers, as a notification of that type, if any listens."""


class Flow:
    """Everything about one other node: what it has, and the way of messages to it."""

    def __init__(self, remotes: RemoteQueues, way: CoreConnector) -> None:
        self.remotes: Final = remotes
        self.way = way


class _Known(Registry):
    """What is known of queues of other nodes is told on, one node further away (artemis.md 1.16)."""

    def __init__(self, connection: ClusterConnection, tell: Tell) -> None:
        options = connection.options
        own = connection.topology.own.node
        super().__init__(connection.broker, options.name, MODES[options.balancing], own, connection.say)
        self._tell: Final = tell
        self.redistribution: Redistribution | None = None
        self.grouping: GroupingHandler | None = None
        self._unresolved: Final = Unresolved(connection.broker)
        connection.broker.sending.detour = self._unresolved
        if self.mode in MOVING:
            self.redistribution = Redistribution(connection.broker, self._is_own)

    def _is_own(self, binding: RemoteBinding) -> bool:
        return any(one.bindings.get(binding.cluster_name) is binding for one in self.tellers)

    def changed(self, binding: RemoteBinding) -> None:
        """See what moves there."""
        if self.redistribution is not None:
            self.redistribution.changed(binding)

    def added(self, binding: RemoteBinding) -> None:
        """Tell of a queue."""
        self._unresolved.known()
        if self.grouping is not None:
            self.grouping.changed()
        self.broker.hub.announce(_fact(BINDING_ADDED, binding))

    def removed(self, binding: RemoteBinding, *, lost: bool) -> None:
        """Tell that it is gone. A group whose queue is lost waits for it."""
        fact = _fact(BINDING_REMOVED, binding)
        fact.lost = lost
        self.broker.hub.announce(fact)
        if self.grouping is not None and not lost:
            self.grouping.gone(binding.cluster_name)
        self.changed(binding)

    def complete(self, node: str) -> None:
        """See which groups go to queues that ``node`` has not."""
        if self.grouping is not None:
            self.grouping.complete(node)

    def group(self, handler: GroupingHandler) -> None:
        """Let all nodes agree where groups go; what belongs to one is not moved any more (artemis.md 1.17)."""
        self.grouping = handler
        if self.redistribution is not None:
            self.redistribution.keeps_groups = True

    def wanted(self, binding: RemoteBinding, selector: str, came: bool) -> None:
        """Tell of a consumer."""
        said: dict[str, object] = {
            ADDRESS: binding.address,
            CLUSTER_NAME: binding.cluster_name,
            ROUTING_NAME: binding.routing_name,
            DISTANCE: Primitive(INT, int(binding.distance)),
            CONSUMER_COUNT: Primitive(INT, int(binding.count)),
        }
        if selector or not came:
            said[FILTER] = selector or None
        self._tell("CONSUMER_CREATED" if came else "CONSUMER_CLOSED", said)


def _fact(kind: int, binding: RemoteBinding) -> BindingFact:
    fact = BindingFact(
        kind, REMOTE_QUEUE, binding.address, binding.routing_name, binding.cluster_name, binding.identity
    )
    fact.distance = binding.distance
    fact.filter = "" if binding.filter is None else binding.filter.text
    return fact


class _Due(Alarm):
    """A contact is to be dialled again."""

    def __init__(self, due: Instant, contact: Contact) -> None:
        super().__init__(due)
        self._contact: Final = contact

    def ring(self, now: Instant) -> None:
        """Dial, if it still wants that."""
        self._contact.advance()


class _Announcement(Alarm):
    """This node says once more that it is there."""

    def __init__(self, due: Instant, connection: ClusterConnection, left: int) -> None:
        super().__init__(due)
        self._connection: Final = connection
        self._left: Final = left

    def ring(self, now: Instant) -> None:
        """Say it."""
        self._connection.announce(self._left)


class ClusterConnection(Overseer):
    """One of a broker's. ``say``: takes what an operator should know: who, and what.

    ``listens``: it hears a discovery group. With neither that nor static connectors it dials nobody, and is a node that
    others send to (artemis.md 1.7).
    """

    def __init__(
        self,
        broker: BrokerCore,
        options: ClusterOptions,
        credentials: Credentials,
        say: Callable[[str, str], None],
        *,
        listens: bool = False,
        tell: Tell = lambda kind, said: None,
    ) -> None:
        self.broker: Final = broker
        self.options: Final = options
        self.contacts: dict[str, Contact] = {}
        own = Member(
            broker.ids.node.uuid_text,
            int(broker.wall),
            options.own,
            scale_down_group=options.scale_down_group or None,
        )
        self.topology: Final = Topology(own)
        members = Siblings if options.ways else Members
        self.members: Final[Members] = members(broker, self.topology, credentials, self.say, self.leads)
        self.credentials: Final = credentials
        self._say: Final = say
        self._tell: Final = tell
        self._perform: Perform = lambda contact, effects: None
        self._carry: Carry = lambda way: None
        self.registry: Final = _Known(self, tell)
        self.flows: dict[str, Flow] = {}  # by node
        self._visitors: Final = Visitors(broker, own.node, tell if options.max_hops > 1 else None)
        self.started = False
        self._announced: dict[str, Connector] = {}  # by place: its discovery group hears them
        self._dials: Final = listens or len(options.seeds) > 0 or len(options.ways) > 0
        self.topology.overseers.append(self)

    def start(self, perform: Perform, carry: Carry) -> None:
        """Dial everybody that is listed. ``perform`` carries out what contacts ask for."""
        self._perform = perform
        self._carry = carry
        self._begin()

    def _begin(self) -> None:
        self.started = True
        self.members.sight.begin()
        self.registry.complete(self.topology.own.node)
        for seed in self.options.seeds:
            self.look_at(seed)
        for way in self.options.ways:
            self._contact(way)
        for connector in list(self._announced.values()):
            self.look_at(connector)
        self.announce(self.options.notification_attempts)

    def stop(self) -> None:
        """Hang up. Peers learn that this node goes by what its own connections are told."""
        self.started = False
        self.members.sight.end()
        for contact in self.contacts.values():
            contact.close()

    def stands_in(self, backup: Connector | None) -> None:
        """Tell all that ``backup`` goes on where this node ends; None: nobody would."""
        self.topology.stands_in(backup, int(self.broker.wall))

    def suspend(self) -> None:
        """An operator stops it, until `resume` or the next start of the broker (artemis.md 7.2).

        It hangs up, and knows no queue of another node: what is sent here goes to queues here. What is on its way
        arrives, what waits for other nodes is kept. They go on sending to this one.
        """
        if not self.started:
            return
        self.stop()
        for flow in self.flows.values():
            self._sever(flow)
        self._tell(STOPPED, {"name": self.options.name})

    def resume(self) -> None:
        """An operator starts it again: it dials whom it knows, as `start` does."""
        if self.started:
            return
        self._begin()
        for member in list(self.topology.members.values()):
            self.member_up(member)
        self._tell(STARTED, {"name": self.options.name})

    def look_at(self, connector: Connector) -> None:
        """A node of the cluster may be at ``connector``."""
        place = place_of(connector)
        if place is None:
            self.say(f"the connector {connector.name!r} names no place of TCP: it is not dialled")
        elif not same_place(connector, self.options.own):
            self._contact(place)

    def member_up(self, member: Member) -> None:
        """A node that others told of is met too, unless only those that are listed may be."""
        if not self.started:
            return
        if self._dials and not self.options.direct and member.primary is not None and member.node != self.members.node:
            for contact in self.contacts.values():
                if contact.node == member.node and contact.state is State.MET:
                    return
            self.look_at(member.primary)

    def _contact(self, place: Endpoint) -> None:
        contact = Contact(place, self.options, self.members, self.credentials, self, self.broker.entropy)
        known = self.contacts.get(contact.key)
        if not self.started or (known is not None and known.state not in (State.FAILED, State.CLOSED)):
            return
        if known is None and len(self.contacts) >= CONTACTS_MAX:
            self.say(f"{contact.key} is not dialled: {CONTACTS_MAX} places are")
            return
        self.contacts[contact.key] = contact
        contact.start()

    def met(self) -> list[str]:
        """Return the nodes that are connected."""
        return [one.node for one in self.contacts.values() if one.state is State.MET]

    def place_of(self, member: Member) -> Endpoint | None:
        """Return where ``member`` is dialled: where it says that it is, else where it was met."""
        place = None if member.primary is None else place_of(member.primary)
        met = (one.place for one in self.contacts.values() if one.node == member.node and one.state is State.MET)
        return next(met, None) if place is None else place

    def reaches(self, node: str) -> bool:
        """Return whether what waits for ``node`` is on its way: a bridge there is open."""
        flow = self.flows.get(node)
        return flow is not None and any(one.link.state is LinkState.OPEN for one in flow.way.bridges.values())

    def leads(self, node: str) -> bool:
        """Return whether a connection that was dialled leads to ``node``: of a contact, or one that takes messages."""
        connected = (one.node for one in self.contacts.values() if one.state in LEADING)
        return node == self.topology.own.node or node in connected or self.reaches(node)

    def let_go(self, node: str) -> None:
        """Give back what is on its way to ``node``, which is away: somebody else takes it."""
        flow = self.flows.get(node)
        for bridge in flow.way.bridges.values() if flow is not None else ():
            bridge.let_go()

    def forget(self, connector: Connector) -> None:
        """``connector`` is announced no more: it is not dialled again, unless somebody is there now."""
        place = place_of(connector)
        if place is None:
            return
        self._announced.pop(authority(place), None)
        for key, contact in list(self.contacts.items()):
            if contact.place == place and contact.state is not State.MET:
                del self.contacts[key]
                contact.close()

    def heard(self, event: Event) -> None:
        """A discovery group says who is there."""
        if isinstance(event, Found):
            place = place_of(event.connector)
            if place is not None and len(self._announced) < CONTACTS_MAX:
                self._announced[authority(place)] = event.connector
            self.look_at(event.connector)
        elif isinstance(event, Lost):
            self.forget(event.connector)
        else:
            assert isinstance(event, Twin)
            mine = " (this broker's own)" if event.node == self.topology.own.node else ""
            self.say(
                f"AMQ212034: two brokers announce themselves as the node {event.node}{mine}: the data directory of one "
                "is a copy of the other's. Start one of them with an empty data directory"
            )

    def announce(self, left: int) -> None:
        """Say ``left`` times, at intervals, that this node is there (artemis.md 1.10)."""
        if not self.started or left <= 0:
            return
        self.topology.announce(self.wall())
        for contact in self.contacts.values():
            contact.announce()
        due = self.now() + self.options.notification_interval
        self.broker.timetable.add(_Announcement(due, self, left - 1))

    # -- what contacts ask ---------------------------------------------------------------------------------------------

    def meets(self, contact: Contact) -> str:
        """Let messages flow to the node that ``contact`` reached, unless another contact did before."""
        for other in self.contacts.values():
            if other is not contact and other.node == contact.node and other.state is State.MET:
                return f"the node {contact.node} is met at {other.key} already"
        flow = self.flows.get(contact.node)
        if flow is None:
            remotes = RemoteQueues(self.registry, contact.node)
            flow = Flow(remotes, self._way(contact.node, remotes.store().name, contact.place))
            self.flows[contact.node] = flow
        elif flow.way.entry.places != (contact.place,):
            flow.way.stop(self.now())
            flow.way = self._way(contact.node, flow.remotes.store().name, contact.place)
        if not flow.way.started or any(one.link.state is LinkState.FAILED for one in flow.way.bridges.values()):
            self._carry(flow.way)
        return ""

    def _way(self, node: str, store: str, place: Endpoint) -> CoreConnector:
        options = self.options
        credentials = self.credentials
        bridge = CoreBridgeOptions(
            name=f"{options.name} to {node}",
            queue=store,
            retry_interval=options.retry_ms * MILLISECOND,
            retry_multiplier=max(options.retry_multiplier, 1.0),
            retry_interval_max=options.retry_ms_max * MILLISECOND,
            attempts=options.attempts,
            attempts_first=options.attempts_first,
            deduplicates=options.deduplicates,
            confirmation_window=options.confirmation_window,
            producer_window=options.producer_window,
            large_from=options.large_octets,
            check_period=options.check_ms * MILLISECOND,
            ttl=options.ttl_ms * MILLISECOND,
            call_timeout=options.call_ms * MILLISECOND,
            user=credentials.user,
            password=credentials.password,
            client_id=options.client_id,
        )
        return CoreConnector(CoreBridgeEntry(options=bridge, places=(place,), clustered=True))

    def hears(self, contact: Contact, said: dict[str, object]) -> None:
        """A node tells of a queue, of a consumer, of a group, or of a client."""
        kind = said.get(NOTIFICATION_TYPE)
        if kind in KINDS:
            if self.registry.grouping is not None:
                self.registry.grouping.agreement.heard(str(kind), said)
            return
        if kind == SESSION_CREATED:
            self._visitors.heard(contact.node, said)
            return
        flow = self.flows.get(contact.node)
        if flow is not None:
            flow.remotes.take(said)

    def loses(self, contact: Contact) -> None:
        """The connection to a node is lost: others are preferred until it is back."""
        if contact.state in LEADING:
            self.members.sight.lost(contact.node)
        flow = self.flows.get(contact.node)
        if flow is not None and not any(
            other is not contact and other.node == contact.node and other.state is State.MET
            for other in self.contacts.values()
        ):
            flow.remotes.disconnected()

    def parts(self, node: str) -> None:
        """A node took leave: nothing more is sent to it; what waits for it is kept."""
        flow = self.flows.get(node)
        if flow is not None:
            self._sever(flow)

    def _sever(self, flow: Flow) -> None:
        """Send nothing more to a node: what is on its way arrives, what waits for it is kept."""
        flow.remotes.departed()
        flow.way.leave(self.now())

    def perform(self, contact: Contact, effects: list[Effect]) -> None:
        """Carry ``effects`` out."""
        self._perform(contact, effects)

    def wake(self, contact: Contact, due: Instant) -> None:
        """Dial again at ``due``."""
        self.broker.timetable.add(_Due(due, contact))

    def say(self, what: str) -> None:
        """Tell an operator."""
        self._say(self.options.name, what)

    def now(self) -> Instant:
        """Return the time."""
        return int(self.broker.now)

    def wall(self) -> WallTime:
        """Return the date."""
        return int(self.broker.wall)


class AllClusters(Elsewhere):
    """The queues of other nodes of all clusters, for who asks what queues there are."""

    def __init__(self, connections: list[ClusterConnection]) -> None:
        self._connections: Final = connections

    def infos(self) -> list[QueueInfo]:
        """Return one for each, with its distance from here."""
        return [_info(one) for each in self._connections for one in each.registry.all()]


def _info(binding: RemoteBinding) -> QueueInfo:
    info = QueueInfo(binding.address, binding.routing_name, binding.cluster_name, int(binding.identity))
    info.distance = int(binding.distance)
    info.filter = "" if binding.filter is None else binding.filter.text
    info.consumers = [""] * int(binding.count - binding.filtered)
    for text, count in binding.filters().items():
        info.consumers += [text] * count
    return info
