"""The door for other brokers: an accepted OpenWire connection that turns out to be one end of a bridge.

A one-way bridge is an ordinary client here. On a duplex one, once it is let in, this end becomes a `Bridge` of its own.
A broker that comes back takes the place of its own stale connection, which would hold its client id until it times out
(classic.md 1.3, "the half-open TCP cure"; Classic does so for duplex connections only). [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Instant
from entrepot.cluster.channel import CensusPort
from entrepot.cluster.link import LinkCore, LinkOptions
from entrepot.cluster.networks.admission import UNLIMITED, is_too_far, path_of
from entrepot.cluster.networks.bridge import Bridge
from entrepot.cluster.networks.comparison import Comparison, audit_of
from entrepot.cluster.networks.durables import durable_list
from entrepot.cluster.networks.neighbourhood import Neighbourhood
from entrepot.cluster.networks.properties import read_properties
from entrepot.cluster.networks.wires import MESSAGES_PORTION, SessionWire
from entrepot.core.addressing.routing import Target
from entrepot.core.events import trace as facts
from entrepot.model.address import Destination as Address
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
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import text_of
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.sending import Arrivals
from entrepot.protocols.openwire.server import OpenWireSession
from entrepot.protocols.serving.outlet import Source
from entrepot.protocols.session import Shell

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
        if info is None or not info.broker_path:
            return NO if info is not None and self.ttl == 0 else YES
        path = path_of(info.broker_path)
        return NO if self.reader in path or is_too_far(len(path), self.ttl) else YES


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

    def __init__(self, session: NetworkSession) -> None:
        self.session = session
        self.comparison: Comparison | None = None

    def arrive(self, command: commands.Message, message: Message, target: Target, durable: bool) -> int:
        """Send ``message``, unless it came before."""
        session = self.session
        comparison = self.comparison
        if comparison is None:
            peer = session.peer_broker
            assert peer is not None
            comparison = session.compare(peer, session.options.audit_network)
            self.comparison = comparison
        return comparison.send(message, command, target, durable)


class _Heeding(Doorman):
    """Tells a bridge that reads advisories only of what would count there."""

    def __init__(self, session: NetworkSession) -> None:
        self.session = session

    def opening(self, subscription: OpenWireSubscription, first: Address) -> None:
        """Narrow what the bridge is told."""
        peer = self.session.peer_broker
        if (
            peer is not None
            and peer.broker_id is not None
            and subscription.selector is None
            and is_advisory(first.name)
        ):
            told = peer.network_properties or ""
            options, _ = read_properties(told)
            ttl = options.consumer_ttl if "consumerTTL=" in told else UNLIMITED
            heeded = _Heeded(self.session.acceptor.advisories, text_of(peer.broker_id), ttl)
            subscription.selector = Predicate("", (), heeded)


class NetworkSession(OpenWireSession):
    """An accepted connection of a client or of another broker."""

    def __init__(
        self, shell: Shell, neighbourhood: Neighbourhood, options: OpenWireOptions, number: i64, peer: str
    ) -> None:
        super().__init__(shell, neighbourhood.acceptor, options, number, peer)
        self.neighbourhood: Neighbourhood = neighbourhood
        self.peer_broker: BrokerInfo | None = None
        self.bridge: Bridge | None = None
        self.listed: bool = False
        self.told: BrokerSubscriptionInfo | None = None  # said before it was let in: ActiveMQ does with syncDurableSubs
        self.census: CensusPort | None = None

    @property
    def peer_name(self) -> str:
        """The name of the other broker, "" when this is a client."""
        return "" if self.peer_broker is None else self.peer_broker.broker_name or ""

    @property
    def peer_url(self) -> str:
        """Where the other broker says that it is reached."""
        return "" if self.peer_broker is None else self.peer_broker.broker_url or ""

    @property
    def connector(self) -> str:
        """The name of the other broker's network connector."""
        if self.peer_broker is None:
            return ""
        options, _ = read_properties(self.peer_broker.network_properties or "")
        return str(options.name)

    def receive(self, data: bytes, now: Instant) -> None:
        """Take the next chunk."""
        super().receive(data, now)
        if self.bridge is not None and data:
            self.bridge.link.supervision.heard(now)

    def take(self, command: Structure) -> None:
        """Do one command: one end of a bridge is told of it first."""
        if self.bridge is not None and isinstance(command, Command) and self.bridge.take(command, int(self.broker.now)):
            self.received += 1
            return
        entered = self.identity.info is not None
        if not entered and isinstance(command, BrokerInfo) and command.network_connection:
            self.peer_broker = command
            self._is_a_broker(command)
        peer = self.peer_broker
        if peer is not None and not entered and isinstance(command, BrokerSubscriptionInfo):
            self.told = command  # for the other end of a duplex bridge; a one-way bridge needs nothing of us
            return
        super().take(command)
        if peer is not None and self.identity.info is not None:
            self._entered(peer, command)

    def _entered(self, peer: BrokerInfo, command: Structure) -> None:
        """The other broker was let in, and ``command`` has been done."""
        if self.identity.info is command:
            self.neighbourhood.arrivals[self.client_id] = self
        if peer.duplex_connection and self.bridge is None:
            self._be_the_other_end(peer)
        elif not self.listed:
            self._list_durables(peer)
            self.census = _SessionCensus(self)
            self.neighbourhood.clients.joined(self.census, peer)
        elif self.census is not None and isinstance(command, ConnectionControl):
            self.neighbourhood.clients.heard(self.census, command.token)

    def _is_a_broker(self, peer: BrokerInfo) -> None:
        """It brings messages of others; what it asks to be answered may come twice.

        A one-way bridge that sends here reads advisories alone. To refuse it a message would end it, and double what it
        has under way; unread, it sees a broker that lives and takes nothing for now.
        """
        self.portion = MESSAGES_PORTION
        trace = self.broker.trace
        if trace is not None:
            there = "" if peer.broker_id is None else text_of(peer.broker_id)
            trace.define(facts.NAME_ORIGIN, self.number, f"{there}\t{peer.broker_name or ''}")
        self.steering.is_broker = True
        self.identity.brings = True
        self.identity.unread = True
        self.sending.arrivals = _Compared(self)
        self.consuming.doorman = _Heeding(self)

    def compare(self, peer: BrokerInfo, audit: int) -> Comparison:
        """Return what is compared of what ``peer`` sends. ``audit`` as for `Comparison`."""
        there = "" if peer.broker_id is None else text_of(peer.broker_id)
        return Comparison(self.broker, self.subject.name, there, self.decoder.wire_format.peer, audit)

    def _list_durables(self, peer: BrokerInfo) -> None:
        """Tell a one-way bridge once which durable subscriptions there are here, if it asked (``syncDurableSubs``)."""
        self.listed = True
        options, lists = read_properties(peer.network_properties or "")
        if options.sync_durable_subscriptions and self.encoder.wire_format.version >= LISTED_SINCE:
            self.replies.write(durable_list(self.acceptor, options, lists))

    def entering(self, info: ConnectionInfo) -> None:
        """End the stale connection of the same broker, and user, that holds the client id."""
        peer = self.peer_broker
        if peer is None:
            return
        client_id = info.client_id or ""
        before = self.neighbourhood.arrivals.get(client_id)
        if isinstance(before, NetworkSession) and before.peer_broker is not None and before is not self:
            same = before.peer_broker.broker_id == peer.broker_id and before.subject.name == self.subject.name
            if same:
                before.superseded(AGAIN)

    def _be_the_other_end(self, peer: BrokerInfo) -> None:
        options, lists = read_properties(peer.network_properties or "")
        options = options.replaced(duplex=True)
        there = "" if peer.broker_id is None else text_of(peer.broker_id)
        link = LinkCore(
            f"{options.name} from {peer.broker_name or there}",
            self.broker,
            LinkOptions(interval=self.neighbourhood.interval or options.supervision),
            doubts=self.neighbourhood.doubts,
        )
        bridge = Bridge(self.neighbourhood, options, lists, link, initiator=False)
        bridge.subject = self.subject
        audit = self.options.audit_network
        bridge.inbound.comparison = self.compare(peer, audit if audit >= 0 else audit_of(options))
        self.bridge = bridge
        self.identity.unread = False
        self.outlet.add_source(_LinkSource(bridge))
        if there == self.broker.ids.node_id:
            self.fail_loop()
            return
        bridge.accept(SessionWire(self), peer, int(self.broker.now))
        told, self.told = self.told, None
        if told is not None:
            bridge.take(told, int(self.broker.now))

    def fail_loop(self) -> None:
        """We talk to ourselves."""
        self.leave()
        self.note()

    def release(self) -> None:
        """Give back all that this connection holds."""
        census, self.census = self.census, None
        if census is not None:
            self.neighbourhood.clients.left(census)
        bridge, self.bridge = self.bridge, None
        if bridge is not None:
            bridge.link.failed(0, "the other broker closed the connection", int(self.broker.now))
            self.neighbourhood.leave(bridge)
        if self.neighbourhood.arrivals.get(self.client_id) is self:
            del self.neighbourhood.arrivals[self.client_id]
        if self.peer_broker is not None and self.broker.trace is not None:
            self.broker.trace.forget(facts.NAME_ORIGIN, self.number)
        super().release()
