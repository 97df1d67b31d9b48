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

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError, LimitExceeded, Refused
from entrepot.cluster.channel import CensusPort
from entrepot.cluster.clients import ClientCluster
from entrepot.cluster.link import Effect, LinkCore, State
from entrepot.cluster.networks.admission import (
    ADVISORY,
    All,
    BrokerPath,
    Interpreted,
    Replay,
    Rule,
    is_interpreted,
    path_through,
)
from entrepot.cluster.networks.comparison import Comparison, audit_of
from entrepot.cluster.networks.crossing import Crossing
from entrepot.cluster.networks.demand import (
    DURABLE_PREFIX,
    SESSION,
    AdvisoryDemand,
    Demand,
    Drain,
    DropTemporary,
    ForgetDurable,
    HandOver,
    Interests,
    LookAgain,
    MakeTemporary,
    Names,
    StaticDemand,
    Subscribe,
    Unsubscribe,
    durables_of,
)
from entrepot.cluster.networks.demand import Effect as DemandEffect
from entrepot.cluster.networks.inbound import Inbound, address_of
from entrepot.cluster.networks.lists import Lists, destination_filter
from entrepot.cluster.networks.options import BridgeFilterOptions, NetworkConnectorOptions
from entrepot.cluster.networks.pouring import holds, pour
from entrepot.cluster.networks.properties import write_properties
from entrepot.cluster.networks.wires import ClientWire, Wire
from entrepot.cluster.source import Feed, LinkPort
from entrepot.cluster.zones import ZoneRules
from entrepot.core import trace as facts
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.consumer import Objection
from entrepot.core.directory import Subject
from entrepot.core.queue import Queue
from entrepot.core.subscription import durable_queue_name
from entrepot.core.timed import Alarm
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.address import Destination as Address
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import (
    ActiveMQTopic,
    BrokerId,
    BrokerInfo,
    BrokerSubscriptionInfo,
    Command,
    ConnectionControl,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    FlushCommand,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    Response,
    SessionId,
    SessionInfo,
)
from entrepot.protocols.openwire.convert import named, presented
from entrepot.protocols.openwire.frames import Throwable
from entrepot.protocols.openwire.ids import AckType, DestinationOperation, components, is_queue, is_temporary, text_of
from entrepot.protocols.session import NEVER

if TYPE_CHECKING:
    from entrepot.protocols.openwire.server import OpenWireSession

NETWORK_ADVISORY: Final = ADVISORY + "NetworkBridge"
FAILURE_ADVISORY: Final = ADVISORY + "NetworkBridge.ForwardFailure"
TARGETS_KEPT: Final = 10_000
DEMANDS_SHOWN: Final = 100
FRAME_OCTETS_MAX: Final = 100 * 1024 * 1024  # what is agreed with brokers as they are shipped
# Two brokers that take whole chunks work in turns: each waits while the other one takes what its window holds. Portions
# let both work at once (measured: 80 k against 137 k messages of 100 octets a second).
MESSAGES_PORTION: Final = 16 * 1024  # of messages, some 80 small ones
ANSWERS_PORTION: Final = 2 * 1024  # of answers, 14 octets each
LOOP: Final = "it leads back to this broker"
CANARY: Final = "Canary"
CANARY_PRODUCER: Final = 2
CANARY_TOPIC: Final = ADVISORY + "Canary."
# Readers that are there are told of in moments, and one that another bridge serves must not be sent what waits here.
RESTORE_AFTER: Final = SECOND
ADOPT_AFTER: Final = SECOND  # far longer than the news that something is gone takes through a network
COMPRESS_FROM: Final = 64  # octets; below, zlib makes bodies longer
ADD: Final = int(DestinationOperation.ADD)
GONE: Final = ("InvalidDestinationException", "DestinationDoesNotExistException")


class Neighbourhood:
    """What all bridges of one broker share. ``filters``: what may go back, for a queue or topic by name and kind."""

    def __init__(
        self,
        acceptor: Acceptor,
        *,
        filters: Callable[[str, bool], BridgeFilterOptions | None] = lambda name, topic: None,
        interval: Duration = 0,
        zone: str = "",
        rules: ZoneRules | None = None,
        say: Callable[[str, str], None] = lambda who, what: None,
    ) -> None:
        """``interval``: of supervision, for all bridges; 0: each connector has its own. ``zone``, ``rules``: where this
        broker is, and where its clients are.

        ``say``: what an operator should know, for the log."""
        self.acceptor: Final = acceptor
        self.broker: Final[BrokerCore] = acceptor.broker
        self.filters: Final = filters
        self.interval: Final = interval
        self.say: Final = say
        # What a peer may have without having said so before it was lost: whoever sends it next says so (`LinkCore`).
        self.doubts: dict[int, None] = {}
        self.clients: Final = ClientCluster(acceptor, zone=zone, rules=rules)
        acceptor.cluster = self.clients
        self.arrivals: dict[str, OpenWireSession] = {}  # client id -> the accepted connection of another broker
        self.interests: Final = Interests()
        # Durable subscription of a bridge -> number of the last message before it was made; not after a restart.
        self.began: dict[str, int] = {}
        # Numbers, first and last, of what was handed over: those copies are in one durable subscription alone.
        self.poured: list[tuple[int, int]] = []
        self.bridges: dict[Bridge, None] = {}
        self.duplex: dict[tuple[str, str], Bridge] = {}  # connector's name and the initiator -> the end that we are
        self._serial = 0

    def enter(self, bridge: Bridge) -> int:
        """Take ``bridge`` in; return a number for its identities."""
        self.bridges[bridge] = None
        self._serial += 1
        return self._serial

    def leave(self, bridge: Bridge) -> None:
        """``bridge`` is no more."""
        self.bridges.pop(bridge, None)
        for key, known in list(self.duplex.items()):
            if known is bridge:
                del self.duplex[key]


class _BridgeCensus(CensusPort):
    """Tells the other broker over the connection of a bridge."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def tell_census(self, token: bytes) -> None:
        self.wire.post(ConnectionControl(token=token))


class _Watch(Alarm):
    def __init__(self, due: int, bridge: Bridge) -> None:
        super().__init__(due)
        self.bridge = bridge

    def ring(self, now: int) -> None:
        self.bridge.ring(now)


class _Restore(Alarm):
    def __init__(self, due: int, bridge: Bridge, run: int) -> None:
        super().__init__(due)
        self.bridge = bridge
        self.run = run

    def ring(self, now: int) -> None:
        self.bridge.restore(self.run)


class _Drained(Alarm):
    def __init__(self, due: int, bridge: Bridge, run: int) -> None:
        super().__init__(due)
        self.bridge = bridge
        self.run = run

    def ring(self, now: int) -> None:
        self.bridge.drained(self.run)


class _Adopt(Alarm):
    def __init__(self, due: int, neighbourhood: Neighbourhood, where: Destination) -> None:
        super().__init__(due)
        self.neighbourhood = neighbourhood
        self.where = where

    def ring(self, now: int) -> None:
        for bridge in list(self.neighbourhood.bridges):
            if bridge.adopt_temporary(self.where):
                return


class BridgeFeed(Feed):
    """The local subscription of one demand."""

    def __init__(self, bridge: Bridge, demand: Demand, addresses: list[Address], rule: Rule) -> None:
        super().__init__(bridge.link, addresses, int(demand.info.prefetch_size))
        self.bridge = bridge
        self.demand = demand
        self.rule = rule
        self.temporary = is_temporary(demand.where)
        self.topic = addresses[0].routing == MULTICAST
        self.counted = not is_interpreted(demand.name)
        self.where: Destination | None = None  # of the last message
        self.forget = False  # a durable one goes with all that it holds when it is retired
        self.instead: Demand | None = None  # who has what it holds then
        self.priority = int(demand.info.priority)
        self.selector = selector_or_none(demand.info.selector or "")
        self.connection = bridge.link.name
        self.far = f"{bridge.names.there_id}\t{bridge.names.there}"
        self.origin = bridge.origin
        self.announces = True  # as its demand: the core's own word would lack the path
        # Not meant for no-local, but the queue then asks `wants` for every message, also where nobody has a selector.
        self.no_local = addresses[0].routing == ANYCAST
        if demand.durable_name:
            self.durable_name = demand.durable_name
            self.client_id = bridge.names.local_client

    def admits(self, message: Message, queue: Queue | None) -> bool:
        """Ask the bridge's rules."""
        return not self.rule.refusal(message, queue)

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Ask the same rules for their reasons."""
        return self.rule.objection(message, queue)

    def named(self, key: str) -> None:
        """The advisory about us is made from the demand: the core's own would lack the path."""
        self.bridge.neighbourhood.acceptor.advisories.own[key] = self.demand.info


class Bridge(LinkPort):
    """One end of one connection. ``origin`` marks what came in over it; it is no connection's number."""

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
        self.neighbourhood: Final = neighbourhood
        self.broker: Final = neighbourhood.broker
        self.advisories: Final = neighbourhood.acceptor.advisories
        self.options: Final = options
        self.lists: Final = lists
        self.link: Final = link
        self.initiator: Final = initiator
        self.driver: Final = driver
        self._watch: _Watch | None = None
        self.serial: Final = neighbourhood.enter(self)
        self.origin: Final = -self.serial
        kind = StaticDemand if options.static else AdvisoryDemand
        self.demand: Final = kind(options, lists, neighbourhood.interests)
        self.names = Names("", "", "", "", "", "")
        self.peer_url = ""  # where the other broker says that it is reached
        self.subject: Subject | None = None  # for whom the peer came in; None: we dialled, as the operator wants it
        self.wire: Wire | None = None
        self.feeds: dict[Demand, BridgeFeed] = {}
        self.temporaries: dict[Destination, DestinationInfo] = {}
        self._implied: dict[Destination, None] = {}  # those that only a consumer has told of so far
        self._draining: dict[str, BridgeFeed] = {}  # durable subscription -> what reads it although it is suppressed
        self._fresh: dict[str, None] = {}  # durable subscriptions that were made on this connection
        self.inbound: Final = Inbound(self)
        self.told: list[str] = []  # what the operator should know, newest last
        self.answers_probes = not options.duplex
        self.canary = ""  # topic over which canaries come back, once one did; see `probe`
        self._trial = 0
        self._canary_topic = ""
        self._listed: BrokerSubscriptionInfo | None = None
        self._canaries = 0
        self._flying = 0  # the number under which the link waits for a canary
        self._peer: BrokerInfo | None = None
        self.parted: Callable[[], object] = _nothing  # the connector's: called when the bridge has ended for good
        self.census: CensusPort | None = None
        self._producer = ProducerId("", 1, SESSION)
        self._listener = ConsumerId("", SESSION, 1)
        self._runs = 0
        self._introduced = 0  # the answer to our ConnectionInfo
        self.forbidden: dict[str, str] = {}  # where our user may not send there -> what the other broker said
        self._listening = 0  # and to our ConsumerInfo for advisories, if it comes: a duplex end of ActiveMQ gives none
        self._unacknowledged = 0
        self._here = BrokerId(self.broker.ids.node_id)
        self._sync: bool = options.always_sync_send
        self._compressing: bool = options.compress
        self._crossing = Crossing(self._producer, self.broker.ids.node_id, self.broker.ids.node.message_prefix)
        link.port = self

    @property
    def duplex(self) -> bool:
        """Whether messages go both ways on this connection."""
        return self.options.duplex

    def perform(self, effects: list[Effect]) -> None:
        """Have done what the link decided, and see when it wants to be called again."""
        if effects:
            self.driver(self, effects)
        self.watch()

    def watch(self) -> None:
        """Call `LinkCore.advance` when its deadline has come."""
        due = self.link.deadline()
        watch = self._watch
        if watch is not None and not watch.cancelled:
            if watch.due <= due:
                return  # it looks again when it rings
            watch.cancelled = True
        self._watch = None
        if due < NEVER:
            self._watch = _Watch(due, self)
            self.broker.timetable.add(self._watch)

    def ring(self, now: Instant) -> None:
        """The link's time may have come."""
        self._watch = None
        self.perform(self.link.advance(now) if self.link.deadline() <= now else [])

    # -- the life of a connection (classic.md 1.3) ---------------------------------------------------------------------

    def meet(self, wire: Wire, peer: BrokerInfo, now: Instant) -> None:
        """The initiator hears who the other broker is: introduce ourselves."""
        there = text_of(peer.broker_id) if peer.broker_id is not None else ""
        if there == self.broker.ids.node_id:
            self.perform(self.link.give_up(LOOP, now))
            return
        self._name(wire, peer.broker_name or "", there)
        self.peer_url = peer.broker_url or ""
        self._peer = peer
        options = self.options
        acceptor = self.neighbourhood.acceptor
        wire.post(
            BrokerInfo(
                broker_id=self._here,
                broker_url=acceptor.url,
                broker_name=self.names.here,
                duplex_connection=self.duplex,
                network_connection=True,
                network_properties=write_properties(options, self.lists) + (acceptor.introduction or ""),
            )
        )
        info = ConnectionInfo(
            connection_id=ConnectionId(self._connection()),
            client_id=self.names.remote_client,
            user_name=options.remote_user or options.user or None,
            password=options.remote_password or options.password or None,
        )
        if self.duplex:  # Classic's end of a duplex connection answers nothing before there are messages
            wire.post(info)
            self._open(now)
        else:
            self._introduced = wire.ask(info)

    def accept(self, wire: Wire, peer: BrokerInfo, now: Instant) -> None:
        """The other broker opened a duplex connection and is let in: be its other end."""
        there = text_of(peer.broker_id) if peer.broker_id is not None else ""
        key = (self.options.name, there)
        before = self.neighbourhood.duplex.get(key)
        if before is not None and before is not self:  # a half-open connection: the new one counts
            before.perform(before.link.close("the other broker came in again", now))
        self.neighbourhood.duplex[key] = self
        self._name(wire, peer.broker_name or "", there)
        self.peer_url = peer.broker_url or ""
        self._peer = peer
        self.link.connected(0, now)
        wire.post(
            ConnectionInfo(
                connection_id=ConnectionId(self._connection()),
                client_id=self.names.remote_client,
                user_name=self.options.user or None,  # the other broker said who may come in to it
                password=self.options.password or None,
            )
        )
        self._open(now)

    def _name(self, wire: Wire, there: str, there_id: str) -> None:
        self.wire = wire
        here = self.broker.options.name
        self._runs += 1
        self._fresh.clear()
        token = self.broker.entropy.token(4).hex()
        self.names = Names(
            self.options.name,
            here,
            self.broker.ids.node_id,
            there,
            there_id,
            f"{there}->{here}-{token}-{self.serial}:{self._runs}",
            self.options.client_id_token,
        )
        if self.initiator:
            self.inbound.comparison = Comparison(self.broker, "", there_id, wire.program, audit_of(self.options))
        if self.broker.trace is not None:
            self.broker.trace.define(facts.NAME_ORIGIN, self.origin, f"{there_id}\t{there}")
        connection = f"{here}->{there}-{token}-{self.serial}:{self._runs}"
        self._producer = ProducerId(connection, 1, SESSION)
        self._listener = ConsumerId(connection, SESSION, 1)
        self._canaries = 0
        self._crossing = Crossing(self._producer, self.broker.ids.node_id, self.broker.ids.node.message_prefix)

    def _connection(self) -> str:
        return self._producer.connection_id or ""

    def _open(self, now: Instant) -> None:
        """Say the rest of the introduction, and let messages flow."""
        wire = self.wire
        assert wire is not None
        wire.post(SessionInfo(session_id=SessionId(self._connection(), SESSION)))
        wire.post(ProducerInfo(producer_id=self._producer, dispatch_async=True))
        if not self.options.static:
            self._canary_topic = canary_topic(self.options.name, self.names.here)
            topics = f"{destination_filter(self.options, self.lists)},{self._canary_topic}"
            self._listening = wire.ask(
                ConsumerInfo(
                    consumer_id=self._listener,
                    destination=ActiveMQTopic(topics),
                    prefetch_size=self.options.advisory_window,
                    dispatch_async=True,
                )
            )
        if self.duplex:
            self._trial = wire.ask(FlushCommand())
        if self._canary_topic:
            self._release_canary(wire)
        self._unacknowledged = 0
        self.link.opened(now)
        self.watch()
        self.say(f"the bridge to {self.names.there} ({self.names.there_id}) is open")
        self._advise(started=True)
        if self._peer is not None:
            self.census = _BridgeCensus(wire)
            self.neighbourhood.clients.joined(self.census, self._peer)
        self._obey(self.demand.begin(self.names))
        self.broker.timetable.add(_Restore(int(self.broker.now) + RESTORE_AFTER, self, self._runs))
        listed, self._listed = self._listed, None
        if listed is not None:
            self._reconcile(listed)
        if self.options.sync_durable_subscriptions and self.duplex and self.initiator:
            self._list_durables()

    def restore(self, run: int) -> None:
        """Serve durable subscriptions of before whose readers are away, if the connection is still the same."""
        if run == self._runs and self.link.state is State.OPEN:
            queues = [(queue.owner, queue.address) for queue in self.broker.table.queues.values() if queue.owner]
            self._obey(self.demand.restore(durables_of(queues, self.names.local_client), self._fresh))

    def lost(self, why: str) -> None:
        """The link gave the connection up."""
        wire, self.wire = self.wire, None
        census, self.census = self.census, None
        if census is not None:
            self.neighbourhood.clients.left(census)
        ended = self.demand.end()
        self._introduced = self._listening = self._trial = self._flying = 0
        self.forbidden.clear()
        self.answers_probes = not self.duplex
        self.canary = self._canary_topic = ""
        ended_feeds = list(self.feeds.values())
        self._draining.clear()
        for demand in list(self.feeds):
            self.feeds.pop(demand)
            if demand.info.consumer_id is not None:
                self.advisories.consumer_removed(demand.info.consumer_id)
        for feed in ended_feeds:  # nothing is on its way any more
            self._release(feed)
        for where in list(self.temporaries):
            self._drop_temporary(where)
        self.inbound.clear()
        if ended or wire is not None:
            self._advise(started=False)
        if wire is not None:
            self.say(f"the bridge to {self.names.there} ended: {why}")
            wire.end(why)
        if not self.initiator or self.link.state is State.CLOSED:
            self.neighbourhood.leave(self)
            self.parted()
        self._obey([])  # others may serve now what this bridge served

    def _advise(self, *, started: bool) -> None:
        info = BrokerInfo(broker_id=BrokerId(self.names.there_id), broker_name=self.names.there)
        told: dict[str, object] = {"started": started, "createdByDuplex": not self.initiator}
        self.advisories.tell(NETWORK_ADVISORY, info, told)

    def say(self, what: str) -> None:
        """Tell the operator."""
        self.neighbourhood.say(self.link.name, what)
        self.told.append(what)
        del self.told[:-20]

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
        elif isinstance(command, ConnectionError) and _is_forbidden(command.exception):
            self.say("the other broker refused a message that asked for no answer: our user may not send there")
        elif isinstance(command, ConnectionError):
            why = "" if command.exception is None else f"{command.exception.class_name}: {command.exception.message}"
            self.perform(self.link.failed(self.link.attempt, f"the other broker reports an error: {why}", now))
        elif not self.duplex:
            return False
        elif isinstance(command, commands.Message):
            self._received(command)
        elif isinstance(command, ConsumerInfo):
            self._obey(self.demand.subscribed(command))
            self._answer(command)
        elif isinstance(command, (ConnectionInfo, SessionInfo, ProducerInfo, FlushCommand, MessageAck)):
            self._answer(command)
        else:
            return False
        return True

    def _reconcile(self, told: BrokerSubscriptionInfo) -> None:
        """The other broker lists its durable subscriptions (``syncDurableSubs``); the other end of a duplex answers."""
        if self.link.state is not State.OPEN:
            self._listed = told  # a one-way peer says it before it answers our introduction
            return
        self.restore(self._runs)  # what is not in the list goes
        self._obey(self.demand.reconciled([one for one in told.subscription_infos or () if one is not None]))
        if self.duplex and not self.initiator:
            self._list_durables()

    def _list_durables(self) -> None:
        wire = self.wire
        if wire is not None:
            wire.post(durable_list(self.neighbourhood.acceptor, self.options, self.lists))

    def _answer(self, command: Command) -> None:
        if command.response_required and self.wire is not None:
            self.wire.post(Response(correlation_id=command.command_id))

    def responded(self, response: Response, now: Instant) -> None:
        """The other broker answered."""
        number = int(response.correlation_id)
        if number == self._trial and number:
            self._trial = 0
            self.answers_probes = True
        exception = response.exception if isinstance(response, ExceptionResponse) else None
        if number == self._flying and number:
            self._canary_answered(number, refused=isinstance(response, ExceptionResponse), now=now)
            return
        if number == self._introduced and number:
            self._introduced = 0
            if isinstance(response, ExceptionResponse):
                why = "" if exception is None else f"{exception.class_name}: {exception.message}"
                self.perform(self.link.failed(self.link.attempt, f"the other broker does not let us in: {why}", now))
            else:
                self._open(now)
            return
        if number == self._listening and number:
            self._listening = 0
            if isinstance(response, ExceptionResponse):  # open, it would carry nothing, and nobody would know why
                why = "" if exception is None else f"{exception.class_name}: {exception.message}"
                said = f"the other broker lets us hear of no consumers: {why}"
                self.perform(self.link.failed(self.link.attempt, said, now))
            return
        if not isinstance(response, ExceptionResponse):
            self.link.confirmed(number, now)
            return
        if _is_forbidden(exception):
            self._give_up(number, exception, now)
            return
        name = "" if exception is None else (exception.class_name or "").rpartition(".")[2]
        found = self.link.under_way.get(number)
        gone = found is not None and isinstance(found[0].feed, BridgeFeed) and found[0].feed.temporary and name in GONE
        why = name if exception is None else f"{name}: {exception.message}"
        self.perform(self.link.rejected(number, why, for_good=gone, now=now))

    def _give_up(self, number: int, exception: Throwable | None, now: Instant) -> None:
        """The other broker lets our user not send there: stop trying, or one destination would break all others."""
        feed = self.link.forbidden(number, now)
        if not isinstance(feed, BridgeFeed) or feed.demand not in self.demand.demands:
            return
        self.demand.demands.pop(feed.demand)
        self.neighbourhood.interests.gone(feed.demand)
        if feed.demand.info.consumer_id is not None:
            self.advisories.consumer_removed(feed.demand.info.consumer_id)
        why = "" if exception is None else exception.message or ""
        self.forbidden[feed.demand.name] = why
        self.say(f"nothing more is forwarded for {feed.demand.name}: the other broker says: {why}")

    def _dispatched(self, dispatch: MessageDispatch) -> None:
        message = dispatch.message
        if message is None:
            return
        if not self._canary_back(message):
            self._obey(self.demand.heard(message.data_structure))
        self._unacknowledged += 1
        prefetch = self.options.advisory_window
        if self._unacknowledged * 100 >= prefetch * self.options.advisory_ack_percentage and self.wire is not None:
            self.wire.post(
                MessageAck(
                    destination=message.destination,
                    consumer_id=self._listener,
                    ack_type=int(AckType.STANDARD),
                    last_message_id=message.message_id,
                    message_count=self._unacknowledged,
                )
            )
            self._unacknowledged = 0

    def _received(self, message: commands.Message) -> None:
        where = message.destination
        if where is not None and is_interpreted(where.physical_name or ""):
            self._obey(self.demand.heard(message.data_structure))
            self._answer(message)
            return
        if self._canary_back(message):
            self._answer(message)
            return
        self.inbound.take(message)

    # -- demand --------------------------------------------------------------------------------------------------------

    def _obey(self, effects: Iterable[DemandEffect]) -> None:
        """Do what the demand of the far side changes here, and at other bridges whose demand it replaces."""
        for effect in effects:
            if isinstance(effect, Subscribe):
                self._subscribe(effect.demand)
            elif isinstance(effect, Unsubscribe):
                self._unsubscribe(effect)
            elif isinstance(effect, LookAgain):
                self.broker.timetable.add(_Restore(int(self.broker.now) + RESTORE_AFTER, self, self._runs))
            elif isinstance(effect, HandOver):
                self._hand_over(effect.before, effect.to)
            elif isinstance(effect, Drain):
                self._drain(effect.waiting, effect.serving)
            elif isinstance(effect, ForgetDurable):
                self._forget_durable(effect.name)
            elif isinstance(effect, MakeTemporary):
                self._temporary_told(effect.info)
            elif isinstance(effect, DropTemporary) and effect.info.destination is not None:
                self._drop_temporary(effect.info.destination)
        for bridge in list(self.neighbourhood.bridges):
            if bridge.demand.pending:
                waiting = list(bridge.demand.pending)
                bridge.demand.pending.clear()
                bridge._obey(waiting)

    def _subscribe(self, demand: Demand) -> None:
        if self.link.state is State.DRAINING:  # it ends; another way may serve them
            self._refuse(demand)
            return
        before = self.feeds.get(demand)
        if before is not None and self.link.revive(before):  # suppressed and wanted again before all was answered
            before.forget = False
            before.instead = None
            self.advisories.consumer_added(demand.info)
            return
        self._vacate(demand.durable_name)
        if is_temporary(demand.where):
            self._imply_temporary(demand.where, demand.info.broker_path or ())
        addresses = [address_of(part) for part in components(demand.where)]
        feed = BridgeFeed(self, demand, addresses, self._rule(demand, addresses[0]))
        self.feeds[demand] = feed
        if demand.durable_name and self._durable_queue(demand) is None:
            self.neighbourhood.began[subscription_of(demand)] = int(self.broker.ids.number)
            self._fresh[demand.durable_name] = None
        try:
            self._ask_leave(addresses, durable=bool(demand.durable_name))
            self.link.add(feed)
        except EntrepotError as error:
            self._refuse(demand)
            self.say(f"no subscription to {demand.name}: {error}")
            return
        if demand.durable_name:  # no client waits for it, and a crash would take what is sent before it is made again
            self.broker.ids.secure()
        self.advisories.consumer_added(demand.info)
        if addresses[0].name.startswith(ADVISORY) and demand.info.consumer_id is not None:
            self.advisories.replay(feed, demand.info.consumer_id)

    def _refuse(self, demand: Demand) -> None:
        self.feeds.pop(demand, None)
        self.demand.demands.pop(demand, None)
        self.neighbourhood.interests.gone(demand)

    def _vacate(self, durable: str) -> None:
        """Remove what still reads, or waits for answers on, a durable subscription that another demand takes over now.

        What is on its way goes back and crosses again, marked; waiting would leave the new demand without any.
        """
        self._stop_draining(durable)
        for feed in list(self.feeds.values()):
            replaced = feed.retiring or feed.demand not in self.demand.demands
            if durable and replaced and feed.durable_name == durable:
                self.link.remove(feed)
                self.feeds.pop(feed.demand, None)

    def _ask_leave(self, addresses: list[Address], *, durable: bool) -> None:
        """Raise AccessDenied where the peer came in for somebody who may not read here."""
        if self.subject is not None:
            self.broker.access.consume(self.subject, addresses, durable)

    def _stop_draining(self, durable: str) -> None:
        feed = self._draining.pop(durable, None)
        if feed is not None:
            self.link.remove(feed)

    def _rule(self, demand: Demand, first: Address) -> Rule:
        path = BrokerPath(self.names.there_id, self.options.message_ttl, self.names.here_id)
        topic = first.routing == MULTICAST
        back = self.neighbourhood.filters(first.name, topic)
        rules: list[Rule] = [path if back is None else Replay(path, back)]
        if topic:
            rules.append(Interpreted(self.names.there_id, self.options.consumer_ttl, for_network=demand.for_network))
        return All(rules)

    def _unsubscribe(self, effect: Unsubscribe) -> None:
        demand = effect.demand
        feed = self.feeds.get(demand)
        if feed is None:
            if effect.forget and demand.durable_name:
                self._forget_durable(demand.durable_name)
            elif effect.instead is not None:
                self._hand_over(demand, (effect.instead,))
            return
        feed.forget = effect.forget
        feed.instead = effect.instead
        if demand.info.consumer_id is not None:
            self.advisories.consumer_removed(demand.info.consumer_id)
        if self.link.retire(feed):
            self.retired(feed)
        if demand.where in self._implied and not any(one.where == demand.where for one in self.demand.demands):
            self._drop_temporary(demand.where)

    def retired(self, feed: Feed) -> None:
        """All that ``feed`` had on its way arrived, and it is gone."""
        if isinstance(feed, BridgeFeed):
            if self.feeds.get(feed.demand) is feed:
                del self.feeds[feed.demand]
            self._release(feed)

    def settled(self) -> None:
        """All arrived: the link closes at once."""
        self.watch()

    def _release(self, feed: BridgeFeed) -> None:
        """``feed`` reads no more: do with its durable subscription what was asked for when it was unsubscribed."""
        if feed.forget and feed.durable_name:
            self._forget_durable(feed.durable_name)
        elif feed.instead is not None:
            self._hand_over(feed.demand, (feed.instead,))

    def _durable_queue(self, demand: Demand) -> Queue | None:
        """Return what holds the messages of a durable demand of any bridge here."""
        return self.broker.table.queues.get(subscription_of(demand))

    def _hand_over(self, before: Demand, to: Sequence[Demand]) -> None:
        """Give those in ``to`` what the durable subscription of ``before`` still holds, and forget that subscription.

        Classic leaves it: it fills for ever, its messages do not arrive, and when its turn comes again all that went
        the other way meanwhile arrives twice (a decision of ours). What came after a new one was made is in both.
        """
        self._stop_draining(before.durable_name)
        source = self._durable_queue(before)
        if source is None or source.roster.consumers:
            return
        beside = [bridge.names.there_id for bridge in self.neighbourhood.bridges for one in to if one in bridge.feeds]
        if before.durable_name not in self._fresh and any(there != self.names.there_id for there in beside):
            # It is older than this connection: somebody who is away since before may be reached this way only.
            self.broker.timetable.add(_Restore(int(self.broker.now) + RESTORE_AFTER, self, self._runs))
            return
        targets: list[tuple[Queue, int]] = []
        for demand in to:
            target = self._durable_queue(demand)
            if target is None or target is source:
                return
            targets.append((target, self.neighbourhood.began.get(target.name, -1)))
        first = int(self.broker.ids.number) + 1
        moved = pour(self.broker, source, targets, self.link.doubts, self.neighbourhood.poured)
        if moved:
            self.neighbourhood.poured.append((first, int(self.broker.ids.number)))
        said = ", ".join(target.name for target, _ in targets)
        self.say(f"{moved} messages of the durable subscription {source.name} go over to {said}")
        self.neighbourhood.began.pop(source.name, None)
        self.broker.delete_queue(source, "another bridge serves its subscribers")
        self.broker.ids.secure()

    def _drain(self, waiting: Demand, serving: Sequence[Demand]) -> None:
        """Let what `Drain` names cross until nothing of it is left. What came since stays."""
        source = self._durable_queue(waiting)
        until = max(-1 if target is None else int(target.began) for target in map(self._durable_queue, serving))
        if source is None or waiting.durable_name in self._draining or not holds(source, until):
            return
        where = Address(source.address, MULTICAST, False, source.name)
        feed = BridgeFeed(self, waiting, [where], self._rule(waiting, where))
        feed.durable_name = feed.client_id = ""  # it reads what is there, and is not the subscription
        feed.no_local = True  # so that it is asked what it wants
        feed.selector = None
        feed.until = until
        try:
            self._ask_leave([address_of(waiting.where)], durable=True)
            self.link.add(feed)
        except EntrepotError as error:
            self.say(f"what waits in {source.name} stays: {error}")
            return
        if not self._draining:
            self.broker.timetable.add(_Drained(int(self.broker.now) + RESTORE_AFTER, self, self._runs))
        self._draining[waiting.durable_name] = feed

    def drained(self, run: int) -> None:
        """End what `_drain` began where it is done, if the connection is still the same; look again at the rest."""
        if run != self._runs:
            return
        for name, feed in list(self._draining.items()):
            source = self._durable_queue(feed.demand)
            left = source is not None and feed in self.link.feeds and (feed.under_way or holds(source, feed.until))
            if not left:
                self._stop_draining(name)
        if self._draining:
            self.broker.timetable.add(_Drained(int(self.broker.now) + RESTORE_AFTER, self, run))

    def _forget_durable(self, name: str) -> None:
        self._stop_draining(name)
        for feed in self.feeds.values():
            if feed.retiring and feed.durable_name == name:
                feed.forget = True  # once all that it sent is answered for
                return
        try:
            self.broker.forget_durable(self.names.local_client, name)
            self.broker.ids.secure()  # one that came back after a crash would fill for nobody
        except Refused as refusal:
            self.say(f"the durable subscription {name} stays: {refusal}")

    def _imply_temporary(self, where: Destination, path: Sequence[object]) -> None:
        """Make a temporary destination known here because somebody beyond reads it; it is told on by nobody but him.

        Advisories of different topics may overtake one another, so a reader may come before his destination; and he may
        be reached another way than the one over which his destination was told of.
        """
        if where not in self.temporaries:
            self._implied[where] = None
            known = [one for one in path if isinstance(one, BrokerId)]
            self._make_temporary(DestinationInfo(destination=where, operation_type=ADD, broker_path=list(known)))
            if where not in self.temporaries:
                del self._implied[where]  # it is here already

    def _temporary_told(self, info: DestinationInfo) -> None:
        """The other broker tells of a temporary destination."""
        where = info.destination
        if where is None:
            return
        if where in self._implied:
            del self._implied[where]
            self.temporaries[where].broker_path = info.broker_path
            self.advisories.temporary_added(self.temporaries[where])
        else:
            self._make_temporary(info)

    def _make_temporary(self, info: DestinationInfo) -> None:
        where = info.destination
        if where is None or where in self.temporaries:
            return
        name = where.physical_name or ""
        acceptor = self.neighbourhood.acceptor
        if name in acceptor.temporaries or name in self.broker.table.queues:
            return  # it came along another way, or is our own
        if self.subject is not None:
            try:
                self.broker.access.create(self.subject, address_of(where))
            except Refused as refusal:
                self.say(f"a temporary destination of the other broker is not made: {refusal}")
                return
        acceptor.temporaries[name] = self.names.connection
        if is_queue(where):
            self.advisories.bridged[name] = None
            queue = self.broker.queues.create(name, name, ANYCAST, durable=False, owner=self.names.connection)
            queue.temporary = True
        info.connection_id = ConnectionId(self.names.connection)
        self.temporaries[where] = info
        if where not in self._implied:
            self.advisories.temporary_added(info)
        for bridge in list(self.neighbourhood.bridges):
            bridge._serve_again(where)

    def _serve_again(self, where: Destination) -> None:
        """A temporary destination is there again: what read the queue that was deleted with it reads the new one."""
        for demand in [one for one in self.feeds if one.where == where]:
            if demand in self.demand.demands and self.link.state is State.OPEN:
                self.link.remove(self.feeds.pop(demand))
                self._subscribe(demand)

    def _drop_temporary(self, where: Destination) -> None:
        self._implied.pop(where, None)
        info = self.temporaries.pop(where, None)
        if info is None:
            return
        name = where.physical_name or ""
        self.neighbourhood.acceptor.temporaries.pop(name, None)
        queue = self.broker.table.queues.get(name)
        if queue is not None and queue.temporary:
            self.broker.delete_queue(queue, "it is gone on the other broker")
        self.advisories.temporary_removed(where, info.connection_id)
        self.broker.timetable.add(_Adopt(int(self.broker.now) + ADOPT_AFTER, self.neighbourhood, where))

    def adopt_temporary(self, where: Destination) -> bool:
        """The way by which ``where`` was told of is gone; if somebody is said to read it beyond us, serve him.

        Classic refuses replies until its own way is back (a decision of ours). A while lies between: who is gone is
        gone everywhere before anybody believes in a way around.
        """
        if self.link.state is not State.OPEN:
            return False
        for demand in self.demand.demands:
            if demand.where == where:
                self._imply_temporary(where, demand.info.broker_path or ())
                return True
        return False

    # -- forwarding (classic.md 1.11) ----------------------------------------------------------------------------------

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        """Write ``message`` as it arrives there: the path longer by us, the producer ours, the rest as it was."""
        wire = self.wire
        assert wire is not None
        assert isinstance(feed, BridgeFeed)
        # A queue's messages may have been sent to another name, a virtual topic for one: they go where they were found.
        name = message.address if feed.topic or feed.source is None else feed.source.name
        where = feed.where
        if where is None or where.physical_name != name:
            where = named(name, feed.topic, feed.temporary)
            feed.where = where
        counter = max(int(message.redelivered), deliveries) + int(doubtful)
        advisory = feed.topic and message.address.startswith(ADVISORY)
        answered = (message.durable or self._sync) and not advisory
        if not self._compressing:
            number = wire.cross(self._crossing, message, where, answered, counter, self.broker.wall)
            if number >= 0:
                return number
        made = self._anew(message, where, counter)
        if not answered:
            wire.post(made)
            return 0
        return wire.ask(made)

    def _anew(self, message: Message, where: Destination, counter: int) -> commands.Message:
        """Return ``message`` as a command with all that crossing changes."""
        broker = self.broker
        made = presented(message, where, broker.ids.identity_of(message), broker.ids.node_id, self._large_body(message))
        made.broker_path = path_through(self._here, made.broker_path)
        made.producer_id = self._producer
        if made.original_transaction_id is None:
            made.original_transaction_id = made.transaction_id
        made.transaction_id = None
        made.target_consumer_id = None
        made.redelivery_counter = counter
        made.broker_out_time = broker.wall
        if self._compressing:
            _compress(made)
        return made

    def _large_body(self, message: Message) -> bytes | None:
        rare = message.rare
        if rare is None or rare.large_id == 0:
            return None
        if rare.large_length > FRAME_OCTETS_MAX:
            raise LimitExceeded(f"its body of {rare.large_length} octets is larger than a frame may be")
        return self.broker.journal.overflow.whole(message)

    # -- the canary ----------------------------------------------------------------------------------------------------

    def probe(self) -> int:
        """Let a canary fly; 0 where the other end is known to answer nothing.

        It is a message to a topic that this bridge reads on the far side, together with the advisories: it goes the way
        that messages go, through the other broker itself, and comes back the way that advisories come. Until the first
        one came back an answer to a FlushCommand has to do: who may not write to that topic, or a broker that does not
        bring such a message back, has a link all the same.
        """
        wire = self.wire
        if wire is None:
            return 0
        if self.canary:
            return self._release_canary(wire)
        return wire.ask(FlushCommand()) if self.answers_probes else 0

    def _release_canary(self, wire: Wire) -> int:
        made = commands.ActiveMQMessage()
        made.producer_id = self._producer
        made.destination = ActiveMQTopic(self._canary_topic)
        made.jms_type = CANARY
        made.timestamp = self.broker.wall
        self._canaries += 1
        # Of a producer of its own, from 1 on each connection: messages that came without an id are numbered by the
        # bridge's producer, and an audit of ActiveMQ takes all ids below -63 for one (BitArrayBin.getBin).
        origin = ProducerId(self._connection(), CANARY_PRODUCER, SESSION)
        made.message_id = MessageId(producer_id=origin, producer_sequence_id=self._canaries)
        self._flying = wire.ask(made)
        return self._flying

    def _canary_answered(self, number: int, *, refused: bool, now: Instant) -> None:
        """The other broker has the canary, or wants none."""
        if refused:
            self._flying = 0
            self._canary_topic = self.canary = ""
            self.link.confirmed(number, now)

    def _canary_back(self, message: commands.Message) -> bool:
        """Return whether ``message`` is a canary; note that it came back."""
        where = message.destination
        if not self._canary_topic or where is None or where.physical_name != self._canary_topic:
            return False
        self.canary = self._canary_topic
        number, self._flying = self._flying, 0
        if number:
            self.link.confirmed(number, int(self.broker.now))
        return True

    def failed_forward(self, feed: Feed, message: Message, why: str) -> None:
        """A message is a dead letter now: say so, if that is wanted."""
        self.say(f"a message of {message.address} cannot be forwarded: {why}")
        if self.options.advise_failed_forward:
            self.advisories.tell(FAILURE_ADVISORY, None, {"cause": why})

    # -- for people ----------------------------------------------------------------------------------------------------

    def peer(self) -> str:
        """Return the name of the other broker."""
        return self.names.there

    def reads(self, queue: Queue) -> bool:
        """Return whether a demand of the other broker takes messages of ``queue``."""
        return any(consumer.queue is queue for feed in self.feeds.values() for consumer in feed.consumers)

    def permits(self, name: str, *, topic: bool) -> bool:
        """Return whether the lists of the connector let demand for this queue or topic cross."""
        where: Destination = commands.ActiveMQTopic(name) if topic else commands.ActiveMQQueue(name)
        return self.lists.permits(where, temporary=self.options.bridge_temporary)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        link = self.link
        counts = link.counts
        watch = link.supervision
        due = link.deadline()
        return {
            "connector": self.options.name,
            "peer": self.names.there,
            "peer_id": self.names.there_id,
            "peer_url": self.peer_url,
            "place": "" if link.place is None else link.place.masked(),
            "state": "stalled" if link.supervision.stalled_since and link.state is State.OPEN else link.state.value,
            "since_ms": (now - link.since) // MILLISECOND,
            "initiator": self.initiator,
            "duplex": self.duplex,
            "demand": [demand.name for demand in self.demand.demands][:DEMANDS_SHOWN],
            "demands": len(self.demand.demands),
            "sent": counts.forwarded,
            "confirmed": counts.confirmed,
            "received": self.inbound.accepted,
            "under_way": len(link.under_way),
            "requeued": counts.requeued,
            "dead": counts.dead,
            "duplicates": self.inbound.duplicates,
            "connections": counts.connections,
            "failures": counts.failures,
            "error": link.why,
            "error_ms": (now - link.failed_at) // MILLISECOND if link.failed_at else -1,
            "down_ms": (now - link.down_since) // MILLISECOND if link.down_since else -1,
            "next_attempt_ms": max(0, due - now) // MILLISECOND if link.state is State.WAITING else -1,
            "canary": "message" if self.canary else ("answer" if self.answers_probes else "none"),
            "canary_us": watch.round_trip // 1000 if watch.round_trip_at else -1,
            "canary_age_ms": (now - watch.round_trip_at) // MILLISECOND if watch.round_trip_at else -1,
        }

    def check(self) -> None:
        """Assert the invariants of link and demand, and that they agree."""
        self.link.check()
        self.demand.check()
        for demand in self.demand.demands:
            assert demand in self.feeds, f"{self.link.name}: no feed serves the demand for {demand.name}"


def _nothing() -> None:
    """Nobody waits for the end of a bridge."""


def _is_forbidden(exception: Throwable | None) -> bool:
    """Return whether this is about a right on a destination, and not about who we are (classic.md 7.3)."""
    if exception is None or not (exception.class_name or "").endswith("SecurityException"):
        return False
    return "not authorized to" in (exception.message or "")


class Opening(ClientPort):
    """Hears one dialled connection for its bridge. ``attempt``: the link's number for it."""

    def __init__(self, bridge: Bridge, attempt: int) -> None:
        self.bridge = bridge
        self.attempt = attempt
        self.wire: ClientWire | None = None

    def agreed(self, client: OpenWireClient) -> None:
        """Both sides speak the same format."""
        bridge = self.bridge
        self.wire = ClientWire(client)
        client.portion = MESSAGES_PORTION if bridge.duplex else ANSWERS_PORTION
        bridge.perform(bridge.link.connected(self.attempt, self._now()))

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        """An advisory."""
        self._take(dispatch)

    def responded(self, client: OpenWireClient, response: Response) -> None:
        """An answer."""
        bridge = self.bridge
        if bridge.link.attempt == self.attempt and bridge.wire is self.wire:
            bridge.responded(response, self._now())

    def told(self, client: OpenWireClient, command: Command) -> None:
        """All else; the first is who the other broker is."""
        bridge = self.bridge
        if isinstance(command, BrokerInfo):
            if bridge.wire is None and self._current() and bridge.link.state is State.OPENING:
                assert self.wire is not None
                bridge.meet(self.wire, command, self._now())
            return
        self._take(command)

    def settled(self, client: OpenWireClient) -> None:
        """A chunk was read."""
        if self._current():
            self.bridge.link.supervision.heard(self._now())

    def writable(self, client: OpenWireClient, ready: bool) -> None:
        """Back-pressure."""
        if self._current():
            self.bridge.link.flow.writable(ready)

    def lost(self, client: OpenWireClient, why: str) -> None:
        """The connection ended."""
        self.bridge.perform(self.bridge.link.failed(self.attempt, why, self._now()))

    def _take(self, command: Command) -> None:
        if self._current() and self.bridge.wire is self.wire:
            self.bridge.take(command, self._now())

    def _current(self) -> bool:
        return self.bridge.link.attempt == self.attempt

    def _now(self) -> Instant:
        return int(self.bridge.broker.now)


def canary_topic(connector: str, broker: str) -> str:
    """Return the topic of one bridge's canaries: no broker announces who reads or writes a topic with such a name."""
    word = "".join(one if one.isalnum() or one in "-_" else "_" for one in f"{connector}_{broker}")
    return CANARY_TOPIC + word


def durable_list(acceptor: Acceptor, options: NetworkConnectorOptions, lists: Lists) -> BrokerSubscriptionInfo:
    """Return the durable subscriptions of our broker that its peer should serve (classic.md 1.10).

    Classic lists only what its dynamicallyIncludedDestinations name; without such a list all are (a decision of ours).
    Those that stand for other brokers' subscriptions are listed only where subscriptions travel on.
    """
    broker = acceptor.broker
    found: list[ConsumerInfo] = []
    for queue in broker.table.queues.values():
        client, tab, name = queue.owner.partition("\t")
        where = ActiveMQTopic(queue.address)
        if not tab or not name or not lists.permits(where, temporary=False) or options.consumer_ttl == 0:
            continue
        if name.startswith(DURABLE_PREFIX) and (options.consumer_ttl == 1 or client.startswith(options.name)):
            continue
        found.append(
            ConsumerInfo(
                consumer_id=ConsumerId(f"{client}:{name}", SESSION, 0),
                destination=where,
                client_id=client,
                subscription_name=name,
                selector=None if queue.filter is None else queue.filter.text,
            )
        )
    return BrokerSubscriptionInfo(
        broker_id=BrokerId(broker.ids.node_id), broker_name=broker.options.name, subscription_infos=found
    )


def subscription_of(demand: Demand) -> str:
    """Return the name of the queue that holds what waits for a durable demand."""
    return durable_queue_name(demand.info.client_id or "", demand.durable_name)


def _compress(made: commands.Message) -> None:
    """Deflate the body (classic.md 5.6), unless it is, or is too short to gain by it."""
    content = made.content
    if content is None or made.compressed or len(content) < COMPRESS_FROM:
        return
    packed = zlib.compress(content)
    if isinstance(made, commands.ActiveMQBytesMessage):
        packed = len(content).to_bytes(4, "big") + packed
    made.content = packed
    made.compressed = True
