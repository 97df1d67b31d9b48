"""The Classic network connector: a link over OpenWire, fed by the demand of the far side; one way, or duplex.

`Bridge` is one end of one connection between two brokers. It introduces itself (classic.md 1.3), listens to what the
other broker's consumers want (`demand.py`), keeps a feed of the link for each demand, and on a duplex connection gives
what the other broker sends to its own (`Inbound`). It never dials: `LinkCore` decides that, a shell does it. [C]

One way and duplex differ on the wire: one way is an ordinary client, which gets advisories as dispatches; on a duplex
connection both ends send plain messages, advisories too, and the ConsumerInfo of one is a demand for the other.

Decided on purpose, where Classic does otherwise:
- a message that the far end of a duplex connection sends is taken even if our lists exclude it: Classic drops it
  without an answer, and it waits at the other end for ever;
- brokers keep their identity over a restart, so a path does not forget;
- a path names every broker once and the TTL does not count a way back, or a message that goes back could never turn
  to a broker that it has not seen, and would grow with each turn;
- a message that may have arrived before the connection died goes again marked as redelivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from entrepot.base.environment import Instant
from entrepot.base.errors import Fault
from entrepot.base.uri import Endpoint
from entrepot.cluster.channel import CensusPort
from entrepot.cluster.link import Effect, LinkCore, State
from entrepot.cluster.networks.admission import is_interpreted
from entrepot.cluster.networks.canary import Canary, canary_topic
from entrepot.cluster.networks.comparison import Comparison, audit_of, is_ours
from entrepot.cluster.networks.durables import Durables, durable_list
from entrepot.cluster.networks.feed import BridgeFeed
from entrepot.cluster.networks.forwarding import Forwarding, WrittenFeed
from entrepot.cluster.networks.handshake import Handshake
from entrepot.cluster.networks.hearing import Hearing
from entrepot.cluster.networks.inbound import Inbound
from entrepot.cluster.networks.lists import Lists, Place, destination_filter
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Neighbourhood
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.cluster.networks.report import report
from entrepot.cluster.networks.subscriptions import Subscriptions
from entrepot.cluster.networks.temporaries import Temporaries
from entrepot.cluster.networks.translation import listed, listing, reader_of, refusal_of, told_of
from entrepot.cluster.networks.wanted import Demand, Names
from entrepot.cluster.networks.wanted import Effect as DemandEffect
from entrepot.cluster.networks.wires import Wire
from entrepot.cluster.source import Feed
from entrepot.core.events.facts import (
    BRIDGE_STARTED,
    BRIDGE_STOPPED,
    BROKER_JOINED,
    FORWARD_FAILED,
)
from entrepot.core.events.neighbours import BridgeFact, BrokerFact
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import (
    BrokerInfo,
    BrokerSubscriptionInfo,
    Command,
    ConnectionControl,
    ConnectionError,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    FlushCommand,
    MessageAck,
    MessageDispatch,
    ProducerInfo,
    Response,
    SessionInfo,
)
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import text_of
from entrepot.protocols.openwire.negotiation import WIRE_FORMAT
from entrepot.protocols.session import Session, Shell

LOOP: Final = "it leads back to this broker"
GONE: Final = ("InvalidDestinationException", "DestinationDoesNotExistException")


Greeter = Callable[["Bridge", Shell, int, Endpoint, Instant], Session]


class _BridgeCensus(CensusPort):
    """Tells the other broker over the connection of a bridge."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def tell_census(self, token: bytes) -> None:
        self.wire.post(ConnectionControl(token=token))


class Bridge(BridgeEnd):
    """One end of one connection: joins the parts, and gives each what it is to know."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        options: NetworkConnectorOptions,
        lists: Lists,
        link: LinkCore,
        *,
        initiator: bool,
        driver: Callable[[Bridge, list[Effect]], None] = lambda bridge, effects: None,
    ) -> None:
        """``driver`` performs what the link decides; a link that the peer opened decides nothing to be performed."""
        super().__init__(neighbourhood, options, lists, link, initiator=initiator)
        self.driver: Final = driver
        self.forwarding: Final = Forwarding(self.broker, options, link.flow)
        self.handshake: Final = Handshake(self, self._open)
        self.hearing: Final = Hearing(self)
        self.canary: Final = Canary(self)
        self.durables: Final = Durables(self)
        self.temporaries: Final = Temporaries(self)
        self.subscriptions: Final = Subscriptions(self, self.durables, self.temporaries)
        self.inbound: Final = Inbound(self)
        self.greeter: Greeter = _nobody  # the connector's
        self.parted: Callable[[], object] = _nothing  # the connector's: called when the bridge has ended for good
        self.census: CensusPort | None = None
        self._peer: BrokerInfo | None = None
        self._listed: BrokerSubscriptionInfo | None = None
        link.port = self

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``. Raises InvalidOption."""
        return self.greeter(self, shell, attempt, place, now)

    def speaks(self, option: str) -> bool:
        """Return whether an option of a URI belongs to OpenWire."""
        return option.startswith(WIRE_FORMAT)

    def perform(self, effects: list[Effect]) -> None:
        """Have done what the link decided, and see when it wants to be called again."""
        if effects:
            self.driver(self, effects)
        self.watch()

    # -- the life of a connection (classic.md 1.3) ---------------------------------------------------------------------

    def meet(self, wire: Wire, peer: BrokerInfo, now: Instant) -> None:
        """The initiator hears who the other broker is: introduce ourselves."""
        there = text_of(peer.broker_id) if peer.broker_id is not None else ""
        if there == self.broker.ids.node_id:
            self.perform(self.link.give_up(LOOP, now))
            return
        connection = self._name(wire, peer, there)
        self.handshake.introduce(wire, connection, now)

    def accept(self, wire: Wire, peer: BrokerInfo, now: Instant) -> None:
        """The other broker opened a duplex connection and is let in: be its other end."""
        there = text_of(peer.broker_id) if peer.broker_id is not None else ""
        key = (self.options.name, there)
        before = self.neighbourhood.duplex.get(key)
        if before is not None and before is not self:  # a half-open connection: the new one counts
            before.perform(before.link.close("the other broker came in again", now))
        self.neighbourhood.duplex[key] = self
        connection = self._name(wire, peer, there)
        self.link.connected(0, now)
        self.handshake.reply(wire, connection, now)

    def _name(self, wire: Wire, peer: BrokerInfo, there_id: str) -> str:
        """Take the names of this connection; return that by which it is introduced there."""
        self.wire = wire
        self._peer = peer
        self.peer_url = peer.broker_url or ""
        here, there = self.broker.options.name, peer.broker_name or ""
        self.runs += 1
        self.durables.begin()
        token = self.broker.entropy.token(4).hex()
        self.names = Names(
            self.options.name,
            here,
            self.broker.ids.node_id,
            there,
            there_id,
            f"{there}->{here}-{token}-{self.serial}:{self.runs}",
            self.options.client_id_token,
        )
        if self.initiator:
            self.inbound.comparison = Comparison(self.broker, "", there_id, wire.program, audit_of(self.options))
        self.broker.hub.announce(BrokerFact(BROKER_JOINED, self.origin, there_id, there))
        connection = f"{here}->{there}-{token}-{self.serial}:{self.runs}"
        self.forwarding.begin(connection, ours=is_ours(wire.program))
        self.canary.begin(self.forwarding.producer)
        return connection

    def _open(self, now: Instant) -> None:
        """Say the rest of the introduction, and let messages flow."""
        wire = self.wire
        assert wire is not None
        producer = self.forwarding.producer
        self.handshake.finish(wire, producer)
        if not self.options.static:
            topic = canary_topic(self.options.name, self.names.here)
            self.canary.read_over(topic)
            topics = f"{destination_filter(self.options, self.lists)},{topic}"
            self.hearing.begin(wire, producer.connection_id or "", topics)
        self.canary.open(wire)
        self.link.opened(now)
        self.watch()
        self.say(f"the bridge to {self.names.there} ({self.names.there_id}) is open")
        self._announce(BRIDGE_STARTED)
        if self._peer is not None:
            self.census = _BridgeCensus(wire)
            self.neighbourhood.clients.joined(self.census, self._peer)
        self.obey(self.demand.begin(self.names))
        self.durables.look_again()
        listed, self._listed = self._listed, None
        if listed is not None:
            self._reconcile(listed)
        if self.options.sync_durable_subscriptions and self.duplex and self.initiator:
            self._list_durables()

    def lost(self, why: str) -> None:
        """The link gave the connection up."""
        wire, self.wire = self.wire, None
        census, self.census = self.census, None
        if census is not None:
            self.neighbourhood.clients.left(census)
        ended = self.demand.end()
        self.awaited.clear()
        self.canary.clear()
        self.subscriptions.clear()
        self.temporaries.clear()
        self.inbound.clear()
        if ended or wire is not None:
            self._announce(BRIDGE_STOPPED)
        if wire is not None:
            self.say(f"the bridge to {self.names.there} ended: {why}")
            wire.end(why)
        if not self.initiator or self.link.state is State.CLOSED:
            self.neighbourhood.leave(self)
            self.parted()
        self.obey([])  # others may serve now what this bridge served

    def _announce(self, kind: int, why: str = "") -> None:
        fact = BridgeFact(kind, self.link.name, self.names.there_id, self.names.there, why)
        fact.accepted = not self.initiator
        fact.advises = kind != FORWARD_FAILED or self.options.advise_failed_forward
        self.broker.hub.announce(fact)

    # -- what the other broker says ------------------------------------------------------------------------------------

    def take(self, command: Command, now: Instant) -> bool:
        """Obey a command of the other broker; False when it is none of a bridge's."""
        if isinstance(command, Response):
            self.responded(command, now)
        elif isinstance(command, MessageDispatch):
            self._dispatched(command)
        elif isinstance(command, BrokerSubscriptionInfo):
            self._reconcile(command)
        elif isinstance(command, ConnectionControl):
            if self.census is not None:
                self.neighbourhood.clients.heard(self.census, command.token)
            self._answer(command)
        elif isinstance(command, ConnectionError):
            self._failed(command, now)
        elif not self.duplex:
            return False
        elif isinstance(command, commands.Message):
            self._received(command)
        elif isinstance(command, ConsumerInfo):
            self.obey(self.demand.subscribed(reader_of(command)))
            self._answer(command)
        elif isinstance(command, (ConnectionInfo, SessionInfo, ProducerInfo, FlushCommand, MessageAck)):
            self._answer(command)
        else:
            return False
        return True

    def _failed(self, error: ConnectionError, now: Instant) -> None:
        if _is_forbidden(error.exception):
            self.say("the other broker refused a message that asked for no answer: our user may not send there")
            return
        why = "" if error.exception is None else f"{error.exception.class_name}: {error.exception.message}"
        self.perform(self.link.failed(self.link.attempt, f"the other broker reports an error: {why}", now))

    def _reconcile(self, told: BrokerSubscriptionInfo) -> None:
        """The other broker lists its durable subscriptions (``syncDurableSubs``); the other end of a duplex answers."""
        if self.link.state is not State.OPEN:
            self._listed = told  # a one-way peer says it before it answers our introduction
            return
        self.durables.restore(self.runs)  # what is not in the list goes
        self.obey(self.demand.reconciled(listed(told)))
        if self.duplex and not self.initiator:
            self._list_durables()

    def _list_durables(self) -> None:
        wire = self.wire
        if wire is not None:
            wire.post(listing(self.broker, durable_list(self.broker, self.options, self.lists)))

    def _answer(self, command: Command) -> None:
        if command.response_required and self.wire is not None:
            self.wire.post(Response(correlation_id=command.command_id))

    def responded(self, response: Response, now: Instant) -> None:
        """The other broker answered."""
        number = int(response.correlation_id)
        part = self.awaited.pop(number, None) if self.awaited else None
        if part is not None:
            part.answered(number, refusal_of(response), now)
        elif isinstance(response, ExceptionResponse):
            self._refused(number, response.exception, now)
        else:
            self.link.confirmed(number, now)

    def _refused(self, number: int, exception: Throwable | None, now: Instant) -> None:
        """The other broker does not take what we asked it to."""
        if _is_forbidden(exception):
            self.subscriptions.give_up(number, "" if exception is None else exception.message or "", now)
            return
        name = "" if exception is None else (exception.class_name or "").rpartition(".")[2]
        found = self.link.under_way.get(number)
        gone = found is not None and isinstance(found[0].feed, BridgeFeed) and found[0].feed.temporary and name in GONE
        why = name if exception is None else f"{name}: {exception.message}"
        self.perform(self.link.rejected(number, why, for_good=gone, now=now))

    def _dispatched(self, dispatch: MessageDispatch) -> None:
        message = dispatch.message
        if message is None:
            return
        if not self.canary.came_back(message):
            self.obey(self.demand.heard(told_of(message.data_structure)))
        self.hearing.heard(message)

    def _received(self, message: commands.Message) -> None:
        where = message.destination
        if where is not None and is_interpreted(where.physical_name or ""):
            self.obey(self.demand.heard(told_of(message.data_structure)))
            self._answer(message)
        elif self.canary.came_back(message):
            self._answer(message)
        else:
            self.inbound.take(message)

    def obey(self, effects: Iterable[DemandEffect]) -> None:
        """Do what the demand of the far side changes here, and at other bridges whose demand it replaces."""
        self.subscriptions.obey(effects)
        for bridge in list(self.neighbourhood.bridges):
            if bridge.demand.pending:
                waiting = list(bridge.demand.pending)
                bridge.demand.pending.clear()
                bridge.obey(waiting)

    def feed_of(self, demand: Demand, addresses: list[Destination]) -> BridgeFeed:
        """Return a feed whose messages are written in OpenWire."""
        rule = self.rule_of(demand, addresses[0])
        return WrittenFeed(self.link, self.names, self.origin, self.advising, demand, addresses, rule)

    def serve_again(self, where: Place) -> None:
        """A temporary destination is there again: what read the queue that was deleted with it reads the new one."""
        self.subscriptions.serve_again(where)

    def adopt_temporary(self, where: Place) -> bool:
        """Serve who is said to read ``where`` beyond us, if there is somebody; return whether there is."""
        return self.temporaries.adopt(where)

    # -- what the link asks of its dialect -----------------------------------------------------------------------------

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        """Write ``message`` as it arrives there."""
        wire = self.wire
        assert wire is not None
        assert isinstance(feed, WrittenFeed)
        return self.forwarding.forward(wire, feed, message, deliveries, doubtful)

    def probe(self) -> int:
        """Let a canary fly; 0 where the other end is known to answer nothing."""
        return self.canary.probe()

    def retired(self, feed: Feed) -> None:
        """All that ``feed`` had on its way arrived, and it is gone."""
        if isinstance(feed, BridgeFeed):
            self.subscriptions.retired(feed)

    def settled(self) -> None:
        """All arrived: the link closes at once."""
        self.watch()

    def failed_forward(self, feed: Feed, message: Message, why: str) -> None:
        """A message is a dead letter now: say so, if that is wanted."""
        self.say(f"a message of {message.address} cannot be forwarded: {why}")
        self._announce(FORWARD_FAILED, why)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        return report(self, self.inbound, self.canary, now)


def _nobody(bridge: Bridge, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
    """Nobody dials for a bridge that its peer opened."""
    raise Fault(f"the bridge {bridge.link.name} does not dial")


def _nothing() -> None:
    """Nobody waits for the end of a bridge."""


def _is_forbidden(exception: Throwable | None) -> bool:
    """Return whether this is about a right on a destination, and not about who we are (classic.md 7.3)."""
    if exception is None or not (exception.class_name or "").endswith("SecurityException"):
        return False
    return "not authorized to" in (exception.message or "")
