"""Brokers in virtual time: the real cores on simulated disks and cables, in the hands of a test.

Nothing happens in them but while the test lets time pass (`VirtualCluster.advance`), and an hour takes milliseconds.
There are no sockets: a test uses the verbs of `VirtualBroker`, and its own code through them. The same test with the
same ``seed`` is the same run; another seed has other delays and another order where the order is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from msgspec import Struct

from entrepot.base.environment import SECOND
from entrepot.base.errors import EntrepotError, InvalidOption, OperatorError, Refused, TimedOut
from entrepot.client.message import Message
from entrepot.cluster.link import State
from entrepot.cluster.networks.connector import connector_of
from entrepot.config.model import BrokerConfig, BrokerSettings, NetworkConnector, PolicyEntry
from entrepot.core.addressing.address_settings import read_settings
from entrepot.core.broker import BrokerCore
from entrepot.core.operators import views
from entrepot.core.operators.explaining import explained
from entrepot.core.operators.queue_control import find_queue
from entrepot.core.operators.views import QueueView
from entrepot.journal.ports import Waiter
from entrepot.model import address as names
from entrepot.model import message as model
from entrepot.protocols.conversing.bodies import Body
from entrepot.protocols.conversing.content import Outgoing
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.bodies import properties_of
from entrepot.protocols.openwire.conversation.messages import body_of, compose
from entrepot.protocols.openwire.convert import decode, message_of
from entrepot.protocols.openwire.ids import text_of
from entrepot.simulation import networks
from entrepot.simulation.sites import Blueprint, Site, SiteCensus
from entrepot.simulation.subscribers import Reader

BRIDGE: Final = "?messageTTL=3&consumerTTL=1&initialReconnectDelay=50&maxReconnectDelay=1000"
EVENTS_MAX: Final = 5_000_000  # in one call of `advance`: beyond, the brokers will never be quiet
REST_MS: Final = 20  # as long as nothing happened for so long, nothing is under way
SETTLE_S: Final = 60.0  # of virtual time


class Arrived(Struct, frozen=True):
    """A message that a consumer took and settled. ``broker``: where; ``hops``: brokers that it came through before.

    ``deliveries``: how often it was handed out before, as far as its broker knows; ``redelivered``: marked as one that
    may have come before.
    """

    body: Body
    properties: dict[str, object]
    message_id: str
    broker: str
    hops: int
    deliveries: int
    redelivered: bool


class Sent:
    """What became of a send: ``confirmed`` when it is on the broker's disk, ``refused`` by the error."""

    def __init__(self, message_id: str) -> None:
        self.message_id: Final = message_id
        self.confirmed = False
        self.refused: EntrepotError | None = None


class Inbox:
    """A consumer at one broker; what it took, in order. It comes back when its broker does."""

    def __init__(self, site: Site, reader: Reader) -> None:
        self.messages: Final[list[Arrived]] = []
        self._site: Final = site
        self._reader: Final = reader

    @property
    def bodies(self) -> list[Body]:
        """Return what the messages said."""
        return [message.body for message in self.messages]

    def close(self) -> None:
        """End it. A durable subscription goes on collecting."""
        self._site.leave(self._reader.key)


class VirtualBroker:
    """One broker of a `VirtualCluster`, and what a test does there; the broker must run for it."""

    def __init__(self, cluster: VirtualCluster, site: Site) -> None:
        self.cluster: Final = cluster
        self.name: Final = site.name
        self._site: Final = site
        self._sent = 0
        self._consumers = 0

    @property
    def running(self) -> bool:
        """Return whether it runs."""
        return self._site.broker is not None

    def send(
        self,
        destination: str,
        message: Message | Body,
        *,
        persistent: bool = True,
        priority: int = 4,
        time_to_live: float = 0.0,
        properties: Mapping[str, object] | None = None,
    ) -> Sent:
        """Send to ``queue://NAME`` or ``topic://NAME``. It is confirmed when time has passed and the disk has it.

        ``time_to_live`` in s, 0 for ever. Raises InvalidOption on a broker that is down; InvalidDestination.
        """
        self._check()
        made = message if isinstance(message, Message) else Message(message)
        own = made.own_properties() or {}
        outgoing = Outgoing(made.body, {**own, **(properties or {})}, made.headers(), "", persistent, priority)
        command = compose(outgoing, None)
        self._sent += 1
        producer = commands.ProducerId(f"ID:{self.name}-test", 1, self._site.runs)
        command.producer_id = producer
        command.message_id = commands.MessageId(producer_id=producer, producer_sequence_id=self._sent)
        command.timestamp = self._site.world.wall()
        if time_to_live > 0:
            command.expiration = command.timestamp + int(time_to_live * 1000)
        sent = Sent(f"{producer.connection_id}:1:{self._site.runs}:{self._sent}")
        self._site.turn(lambda: self._put(destination, command, sent))
        if isinstance(sent.refused, (Refused, OperatorError)):
            raise sent.refused
        return sent

    def consumer(self, destination: str, *, selector: str = "", durable: str = "", prefetch: int = 1000) -> Inbox:
        """Read ``queue://NAME`` or ``topic://NAME`` from now on; every message is settled when it comes.

        ``durable``: name of a subscription to a topic that outlives its consumer. Raises InvalidSelector.
        """
        self._check()
        self._consumers += 1
        key = durable or f"{destination} {self._consumers}"
        self._site.read(destination, durable=durable, prefetch=prefetch, key=key, selector=selector)
        return self.cluster.inbox(self._site, key)

    def queue(self, name: str) -> QueueView:
        """Return what is known of a queue: ``.messages`` that wait, and more. Raises InvalidDestination."""
        broker = self._check()
        return views.queue_view(broker, find_queue(broker, name))

    def waiting(self, name: str) -> int:
        """Return how many messages wait in a queue; 0 where there is none of this name."""
        broker = self._check()
        queue = broker.table.queues.get(name)
        return 0 if queue is None else int(views.queue_view(broker, queue).messages)

    def why(self, name: str) -> list[str]:
        """Return why messages wait in a queue, as `entrepot explain` words it."""
        found = explained(self._check(), SiteCensus(self._site), name)
        return [str(reason["text"]) for queue in found["queues"] for reason in queue["reasons"]]

    def advance(self, seconds: float) -> None:
        """Let time pass, for all brokers of this world."""
        self.cluster.advance(seconds)

    def settle(self) -> None:
        """Let time pass until nothing is under way; see `VirtualCluster.settle`."""
        self.cluster.settle()

    def kill(self, *, power: bool = False) -> None:
        """End its process at once; with ``power`` its machine, too, and what was not synced is lost or torn."""
        self._site.crash(torn=power)

    def start(self) -> None:
        """Start it from its disk; nothing happens when it runs."""
        self._site.boot()

    def _put(self, destination: str, command: commands.Message, sent: Sent) -> None:
        broker = self._check()
        try:
            target = broker.target(names.parse(destination))
            kind = commands.ActiveMQTopic if destination.startswith("topic") else commands.ActiveMQQueue
            command.destination = kind(target.name)
            broker.send(message_of(command, target.name), target)
            broker.journal.confirm(_Told(sent), b"")
        except EntrepotError as error:
            sent.refused = error

    def _check(self) -> BrokerCore:
        broker = self._site.broker
        if broker is None:
            raise InvalidOption(f"{self.name} is down", remedy="start it first")
        return broker


class Chaos:
    """What may go wrong between and with the brokers of one `VirtualCluster`."""

    def __init__(self, network: _Network, brokers: Mapping[str, VirtualBroker]) -> None:
        self._network: Final = network
        self._brokers: Final = brokers

    def cut(self, one: str, other: str, *, silent: bool = False) -> None:
        """Break what joins two brokers until `heal`; ``silent``: octets just vanish, and nobody is told."""
        self._known(one, other)
        self._network.cut(one, other, silent=silent)

    def slow(self, one: str, other: str) -> None:
        """Make the connections between two brokers a hundred times slower, as long as they last."""
        self._known(one, other)
        self._network.slow(one, other)

    def kill(self, name: str, *, power: bool = False) -> None:
        """Kill one broker; see `VirtualBroker.kill`."""
        self._known(name)
        self._brokers[name].kill(power=power)

    def heal(self) -> None:
        """End every cut, and start every broker that is down."""
        self._network.heal()

    def _known(self, *given: str) -> None:
        for name in given:
            if name not in self._brokers:
                raise InvalidOption(f"there is no broker {name!r}", remedy=f"there are {', '.join(self._brokers)}")


class VirtualCluster:
    """Brokers by name, each joined to each: ``cluster["a"]``. All of them live in one time.

    ``policies``: address pattern -> setting -> value, for every broker. ``bridge``: the query of every connector.
    """

    def __init__(
        self,
        brokers: Sequence[str] = ("a", "b", "c"),
        *,
        seed: int = 1,
        policies: Mapping[str, Mapping[str, object]] | None = None,
        bridge: str = BRIDGE,
    ) -> None:
        """Raises InvalidOption, InvalidURI."""
        entries = tuple(
            PolicyEntry(pattern=pattern, settings=read_settings(settings))
            for pattern, settings in (policies or {}).items()
        )
        plans = {
            name: Blueprint(
                BrokerConfig(
                    broker=BrokerSettings(name=name, scheduler=True),
                    policies=entries,
                    networks=tuple(
                        NetworkConnector(
                            options=connector_of(f"static:(tcp://{other}:1){bridge}&name={other}", 1, duplex=True)
                        )
                        for other in brokers[:number]
                    ),
                )
            )
            for number, name in enumerate(brokers)
        }
        self._network: Final = _Network(seed, plans)
        self._brokers: Final = {name: VirtualBroker(self, site) for name, site in self._network.sites.items()}
        self.chaos: Final = Chaos(self._network, self._brokers)
        self._network.start()
        self.settle()

    def __getitem__(self, name: str) -> VirtualBroker:
        return self._brokers[name]

    @property
    def names(self) -> list[str]:
        """Return the names of all brokers."""
        return list(self._brokers)

    @property
    def time(self) -> float:
        """Return the virtual time, s."""
        return self._network.world.time / SECOND

    def advance(self, seconds: float) -> None:
        """Let so much time pass. Raises AssertionError when a bridge breaks one of its own rules."""
        self._network.world.events = 0
        self._network.world.events_max = EVENTS_MAX
        self._network.run(int(seconds * 1000))

    def settle(self) -> None:
        """Let time pass until every bridge that can be open is, and no message moves. Raises TimedOut.

        What waits for its own time, a redelivery delay or a time to live, is not waited for.
        """
        until = self.time + SETTLE_S
        before: object = None
        while self.time < until:
            self.advance(REST_MS / 1000)
            now = self._network.moved()
            if now == before and self._network.joined():
                return
            before = now
        raise TimedOut(
            f"the brokers did not come to rest within {SETTLE_S:g} s", remedy="is something sent in a circle?"
        )

    def inbox(self, site: Site, key: str) -> Inbox:
        """Return what the reader ``key`` of a site takes."""
        return self._network.inboxes[(site.name, key)]


class _Network(networks.Network):
    """Gives what readers settle to their inboxes; messages of a test may be alike, so nothing is counted by body."""

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint]) -> None:
        self.inboxes: dict[tuple[str, str], Inbox] = {}
        super().__init__(seed, blueprints)

    def site(self, name: str, blueprint: Blueprint) -> Site:
        return _Site(self, name, blueprint)

    def consumed(self, site: Site, reader: Reader, message: model.Message, deliveries: int) -> None:
        command = decode(message.raw)
        arrived = Arrived(
            body=cast(Body, body_of(command)),
            properties=properties_of(command),
            message_id="" if command.message_id is None else text_of(command.message_id),
            broker=site.name,
            hops=len(command.broker_path or ()),
            deliveries=deliveries,
            redelivered=deliveries > 0 or bool(message.redelivered),
        )
        self.inboxes[(site.name, reader.key)].messages.append(arrived)

    def moved(self) -> tuple[int, ...]:
        """Return figures that change while a message is under way."""
        found = [sum(len(inbox.messages) for inbox in self.inboxes.values()), self.octets_of_messages()]
        return tuple(found)

    def octets_of_messages(self) -> int:
        """Return what all queues ever did, as a number that only grows."""
        return sum(
            int(queue.accepted) + int(queue.dispatcher.delivered) + int(queue.settled)
            for site in self.sites.values()
            if site.broker is not None
            for queue in site.broker.table.queues.values()
        )

    def joined(self) -> bool:
        """Return whether every bridge is open whose two ends run and are not cut."""
        for site in self.sites.values():
            if site.broker is None:
                continue
            for connector in site.connectors:
                other = connector.options.name
                if self.sites[other].broker is None or self.is_cut(site.name, other):
                    continue
                if not connector.bridges or any(one.link.state is not State.OPEN for one in connector.bridges.values()):
                    return False
        return True


class _Site(Site):
    network: _Network

    def _seat(self, reader: Reader) -> None:
        known = self.network.inboxes.get((self.name, reader.key))
        if known is None:
            self.network.inboxes[(self.name, reader.key)] = Inbox(self, reader)
        super()._seat(reader)


class _Told(Waiter):
    def __init__(self, sent: Sent) -> None:
        self.sent = sent

    def stored(self, token: bytes) -> None:
        self.sent.confirmed = True

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        self.sent.refused = error


def _connector(other: str, query: str) -> NetworkConnector:
    """Return what joins a broker to another one, called like that."""
    return NetworkConnector(options=connector_of(f"static:(tcp://{other}:1){query}&name={other}", 1, duplex=True))
