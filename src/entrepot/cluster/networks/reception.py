"""The door for other brokers: an accepted OpenWire connection that turns out to be one end of a bridge.

A one-way bridge is an ordinary client here. On a duplex one, once it is let in, this end becomes a `Bridge` of its own.
A broker that comes back takes the place of its own stale connection, which would hold its client id until it times out
(classic.md 1.3, "the half-open TCP cure"; Classic does so for duplex connections only). [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.cluster.channel import CensusPort
from entrepot.cluster.link import LinkCore, LinkOptions
from entrepot.cluster.networks.admission import UNLIMITED, is_out_of_reach
from entrepot.cluster.networks.bridge import Bridge
from entrepot.cluster.networks.comparison import Comparison, audit_of
from entrepot.cluster.networks.durables import durable_list
from entrepot.cluster.networks.neighbourhood import Neighbourhood
from entrepot.cluster.networks.properties import read_properties
from entrepot.cluster.networks.translation import listing
from entrepot.cluster.networks.wires import MESSAGES_PORTION, SessionWire
from entrepot.core.addressing.routing import Target
from entrepot.core.events.facts import BROKER_JOINED, BROKER_LEFT
from entrepot.core.events.neighbours import BrokerFact
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.model.predicate import Facts, Predicate, Test
from entrepot.model.value import NO, YES
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.acceptor import AGAIN
from entrepot.protocols.openwire.advisories import Advisories, is_advisory
from entrepot.protocols.openwire.commands import (
    BrokerInfo,
    BrokerSubscriptionInfo,
    Command,
    ConnectionControl,
    ConnectionInfo,
)
from entrepot.protocols.openwire.consuming import Doorman
from entrepot.protocols.openwire.delivery import OpenWireSubscription
from entrepot.protocols.openwire.ids import path_of, text_of
from entrepot.protocols.openwire.sending import Arrivals
from entrepot.protocols.openwire.server import Door, OpenWireSession, Peering
from entrepot.protocols.serving.outlet import Source

LISTED_SINCE: Final = 12  # version of OpenWire that has BrokerSubscriptionInfo


class _SessionCensus(CensusPort):
    """Tells the broker that opened a one-way bridge."""

    def __init__(self, session: OpenWireSession) -> None:
        self.session = session

    def tell_census(self, token: bytes) -> None:
        self.session.replies.write(ConnectionControl(token=token))


class _Heeded(Test):
    """True for what a bridge would not ignore of what is told of consumers (classic.md 1.5): its TTL, and the path.

    In a mesh every bridge's own subscription would else be told to every other broker, and be dropped there.
    """

    def __init__(self, advisories: Advisories, reader: str, ttl: int) -> None:
        """``reader``: the broker that reads. ``ttl``: its ``consumerTTL``, `UNLIMITED` where it is not known."""
        self.advisories: Final = advisories
        self.reader: Final = reader
        self.ttl: Final = ttl

    def verdict(self, subject: Facts) -> i64:
        """Look at the consumer that is being told of, if it is one."""
        info = self.advisories.about
        far = info is not None and is_out_of_reach(path_of(info.broker_path), self.ttl, self.reader)
        return NO if far else YES


class _LinkSource(Source):
    """The bridge on this end: it crosses as fast as the other side reads."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge

    def choked(self) -> None:
        """The other side reads too slowly."""
        self.bridge.link.flow.writable(False)

    def relieved(self) -> None:
        """It reads again."""
        self.bridge.link.flow.writable(True)


class _Compared(Arrivals):
    """Compares what another broker sends with what that one sent before.

    It says nothing about what its producer sends us himself: messages of one producer come over a bridge in any order,
    and one that never came here would be taken for one that did.
    """

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.comparison: Comparison | None = None

    def arrive(self, command: commands.Message, message: Message, target: Target, durable: bool) -> int:
        """Send ``message``, unless it came before."""
        comparison = self.comparison
        if comparison is None:
            comparison = self.arrival.compare(self.arrival.session.options.audit_network)
            self.comparison = comparison
        return comparison.send(message, command, target, durable)


class _Heeding(Doorman):
    """Tells a bridge that reads advisories only of what would count there."""

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival

    def opening(self, subscription: OpenWireSubscription, first: Destination) -> None:
        """Narrow what the bridge is told."""
        peer = self.arrival.peer
        if peer.broker_id is not None and subscription.selector is None and is_advisory(first.name):
            told = peer.network_properties or ""
            options, _ = read_properties(told)
            ttl = options.consumer_ttl if "consumerTTL=" in told else UNLIMITED
            heeded = _Heeded(self.arrival.session.acceptor.advisories, text_of(peer.broker_id), ttl)
            subscription.selector = Predicate("", (), heeded)


class Reception(Door):
    """The door for other brokers, of one ``neighbourhood``."""

    def __init__(self, neighbourhood: Neighbourhood) -> None:
        self.neighbourhood: Final = neighbourhood

    def peering(self, session: OpenWireSession, peer: BrokerInfo) -> Peering:
        """Return what becomes of a connection that ``peer`` opened."""
        return Arrival(session, self.neighbourhood, peer)


class Arrival(Peering):
    """One connection that another broker opened: ``bridge`` is our end of it, if it is duplex and was let in."""

    def __init__(self, session: OpenWireSession, neighbourhood: Neighbourhood, peer: BrokerInfo) -> None:
        self.session: Final = session
        self.neighbourhood: Final = neighbourhood
        self.peer = peer
        self.bridge: Bridge | None = None
        self.listed = False
        self.told: BrokerSubscriptionInfo | None = None  # said before it was let in: ActiveMQ does with syncDurableSubs
        self.census: CensusPort | None = None
        self._is_a_broker()

    @property
    def peer_name(self) -> str:
        """The name of the other broker."""
        return self.peer.broker_name or ""

    @property
    def peer_id(self) -> str:
        """The id of the other broker."""
        return "" if self.peer.broker_id is None else text_of(self.peer.broker_id)

    @property
    def peer_url(self) -> str:
        """Where the other broker says that it is reached."""
        return self.peer.broker_url or ""

    @property
    def connector(self) -> str:
        """The name of the other broker's network connector."""
        options, _ = read_properties(self.peer.network_properties or "")
        return str(options.name)

    def heard(self) -> None:
        """Octets came."""
        if self.bridge is not None:
            self.bridge.link.supervision.heard(int(self.session.broker.now))

    def take(self, command: Command) -> bool:
        """Let our end of a duplex bridge have it, if it is one of a bridge's."""
        if self.bridge is not None:
            return self.bridge.take(command, int(self.session.broker.now))
        if self.session.identity.info is None:
            if isinstance(command, BrokerInfo) and command.network_connection:
                self.peer = command
                self._is_a_broker()
            elif isinstance(command, BrokerSubscriptionInfo):
                self.told = command  # for the other end of a duplex bridge; a one-way bridge needs nothing of us
                return True
        return False

    def done(self, command: Command) -> None:
        """Once the other broker was let in: be what it wants of us, and let it know which brokers there are."""
        session = self.session
        info = session.identity.info
        if info is None:
            return
        if info is command:
            self.neighbourhood.arrivals[session.client_id] = self
        if self.peer.duplex_connection and self.bridge is None:
            self._be_the_other_end()
        elif not self.listed:
            self._list_durables()
            self.census = _SessionCensus(session)
            self.neighbourhood.clients.joined(self.census, self.peer)
        elif self.census is not None and isinstance(command, ConnectionControl):
            self.neighbourhood.clients.heard(self.census, command.token)

    def _is_a_broker(self) -> None:
        """It brings messages of others; what it asks to be answered may come twice.

        A one-way bridge that sends here reads advisories alone. To refuse it a message would end it, and double what it
        has under way; unread, it sees a broker that lives and takes nothing for now.
        """
        session = self.session
        session.portion = MESSAGES_PORTION
        session.broker.hub.announce(BrokerFact(BROKER_JOINED, session.number, self.peer_id, self.peer_name))
        session.steering.is_broker = True
        session.identity.brings = True
        session.identity.unread = True
        session.need_sending().arrivals = _Compared(self)
        session.need_consuming().doorman = _Heeding(self)

    def compare(self, audit: int) -> Comparison:
        """Return what is compared of what the other broker sends. ``audit`` as for `Comparison`."""
        session = self.session
        program = session.decoder.wire_format.peer
        return Comparison(session.broker, session.subject.name, self.peer_id, program, audit)

    def _list_durables(self) -> None:
        """Tell a one-way bridge once which durable subscriptions there are here, if it asked (``syncDurableSubs``)."""
        self.listed = True
        session = self.session
        options, lists = read_properties(self.peer.network_properties or "")
        if options.sync_durable_subscriptions and session.encoder.wire_format.version >= LISTED_SINCE:
            session.replies.write(listing(session.broker, durable_list(session.broker, options, lists)))

    def entering(self, info: ConnectionInfo) -> None:
        """End the stale connection of the same broker, and user, that holds the client id."""
        before = self.neighbourhood.arrivals.get(info.client_id or "")
        if isinstance(before, Arrival) and before is not self:
            user = self.session.subject.name
            if before.peer.broker_id == self.peer.broker_id and before.session.subject.name == user:
                before.session.superseded(AGAIN)

    def _be_the_other_end(self) -> None:
        session = self.session
        broker = session.broker
        options, lists = read_properties(self.peer.network_properties or "")
        options = options.replaced(duplex=True)
        link = LinkCore(
            f"{options.name} from {self.peer_name or self.peer_id}",
            broker,
            LinkOptions(interval=self.neighbourhood.interval or options.supervision),
            doubts=self.neighbourhood.doubts,
        )
        bridge = Bridge(self.neighbourhood, options, lists, link, initiator=False)
        bridge.subject = session.subject
        audit = session.options.audit_network
        bridge.inbound.comparison = self.compare(audit if audit >= 0 else audit_of(options))
        self.bridge = bridge
        session.identity.unread = False
        session.outlet.add_source(_LinkSource(bridge))
        if self.peer_id == broker.ids.node_id:  # we talk to ourselves
            session.leave()
            session.note()
            return
        bridge.accept(SessionWire(session), self.peer, int(broker.now))
        told, self.told = self.told, None
        if told is not None:
            bridge.take(told, int(broker.now))

    def released(self) -> None:
        """The session gives back all that it holds: the bridge ends."""
        session = self.session
        census, self.census = self.census, None
        if census is not None:
            self.neighbourhood.clients.left(census)
        bridge, self.bridge = self.bridge, None
        if bridge is not None:
            bridge.link.failed(0, "the other broker closed the connection", int(session.broker.now))
            self.neighbourhood.leave(bridge)
        if self.neighbourhood.arrivals.get(session.client_id) is self:
            del self.neighbourhood.arrivals[session.client_id]
        if session.identity.brings:
            session.broker.hub.announce(BrokerFact(BROKER_LEFT, session.number, self.peer_id, self.peer_name))
