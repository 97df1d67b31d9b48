"""What the core announces, as advisories: queues, consumers of other protocols, and the fates of messages.

Advisories about single messages are made only where the policy of their destination asks for them (classic.md 1.14 and
4.16); expired and dead messages are always told of. Nothing is put into words before somebody reads it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.base.primitive import LONG, Primitive
from entrepot.core.addressing.policy import Policy
from entrepot.core.events.facts import (
    BINDING_ADDED,
    BINDING_REMOVED,
    BRIDGE_STARTED,
    BRIDGE_STOPPED,
    CONSUMER_ATTACHED,
    CONSUMER_DETACHED,
    CONSUMER_SLOW,
    FOLLOWER_ATTACHED,
    FOLLOWER_DETACHED,
    FORWARD_FAILED,
    MESSAGE_CONSUMED,
    MESSAGE_DEAD,
    MESSAGE_DELIVERED,
    MESSAGE_DISCARDED,
    MESSAGE_DISPATCHED,
    MESSAGE_EXPIRED,
    MESSAGE_UNREAD,
    QUEUE_ADDED,
    QUEUE_FULL,
    QUEUE_REMOVED,
    REMOTE_QUEUE,
    SUBSCRIPTION_REMOVED,
    TEMPORARY_TOPIC_ADDED,
    TEMPORARY_TOPIC_REMOVED,
    AddressFact,
    BindingFact,
    ConsumerFact,
    Fact,
    FollowerFact,
    Listener,
    MessageFact,
    MessageHandled,
    Place,
    QueueFact,
    QueueFull,
    Reader,
    SubscriptionFact,
)
from entrepot.core.events.neighbours import BridgeFact
from entrepot.core.owners import connection_of
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.openwire.advisories import (
    ADVISER_SESSION,
    PREFIX,
    Advisories,
    is_advisory,
    kind_word,
    recalls,
)
from entrepot.protocols.openwire.commands import (
    ActiveMQMessage,
    ActiveMQTempTopic,
    ActiveMQTopic,
    BrokerId,
    BrokerInfo,
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
)
from entrepot.protocols.openwire.convert import (
    OPENWIRE_LANGUAGE,
    message_of,
    named,
    presented,
    without_body,
)
from entrepot.protocols.openwire.ids import (
    DestinationOperation,
    foreign_producer,
    is_temporary,
    qualified_name,
    text_of,
)

WORDS: Final = {
    MESSAGE_EXPIRED: "Expired",
    MESSAGE_DEAD: "MessageDLQd",
    MESSAGE_DELIVERED: "MessageDelivered",
    MESSAGE_DISPATCHED: "MessageDispatched",
    MESSAGE_CONSUMED: "MessageConsumed",
    MESSAGE_DISCARDED: "MessageDiscarded",
}
"""Facts about messages -> the part of the topic's name that says what happened."""

TAKEN: Final = (
    QUEUE_ADDED
    | QUEUE_REMOVED
    | TEMPORARY_TOPIC_ADDED
    | TEMPORARY_TOPIC_REMOVED
    | CONSUMER_ATTACHED
    | CONSUMER_DETACHED
    | CONSUMER_SLOW
    | FOLLOWER_ATTACHED
    | FOLLOWER_DETACHED
    | SUBSCRIPTION_REMOVED
    | MESSAGE_EXPIRED
    | MESSAGE_DEAD
    | QUEUE_FULL
    | MESSAGE_UNREAD
    | MESSAGE_DELIVERED
    | MESSAGE_DISPATCHED
    | MESSAGE_CONSUMED
    | MESSAGE_DISCARDED
    | BRIDGE_STARTED
    | BRIDGE_STOPPED
    | FORWARD_FAILED
    | BINDING_ADDED
    | BINDING_REMOVED
)

OF_EITHER_KIND: Final = ("Expired", "NoConsumer")
"""What is told of a temporary destination as of any other; the rest names it TempQueue or TempTopic, as in Classic."""

NETWORK_ADVISORY: Final = "ActiveMQ.Advisory.NetworkBridge"
FAILURE_ADVISORY: Final = NETWORK_ADVISORY + ".ForwardFailure"
MESSAGE_ID: Final = "orignalMessageId"  # sic, both: this is how ActiveMQ writes them
DESTINATION: Final = "orignalDestination"
CONSUMER_ID: Final = "consumerId"


UNREAD_MAX: Final = 1_000
"""Places of which is remembered that nobody reads of them."""


TEMPORARY: Final = "ID:"
"""How names of temporary destinations of OpenWire and STOMP begin."""


class _Unread:
    """Whether ``topic`` was ``followed`` while the table had ``version``."""

    def __init__(self, topic: str, version: int, followed: bool) -> None:
        self.topic: Final = topic
        self.version: Final = version
        self.followed: Final = followed


class Announced(Listener):
    """Makes advisories of the facts that the broker announces."""

    def __init__(self, advisories: Advisories) -> None:
        super().__init__(TAKEN)
        self.advisories = advisories
        self.broker = advisories.broker
        self.temporaries: dict[str, ConnectionId] = {}  # queues of clients of other protocols
        self.unread: dict[tuple[int, str, str, int], _Unread] = {}

    def heard(self, fact: Fact) -> None:
        """Tell what ``fact`` means for readers of advisories."""
        if isinstance(fact, MessageFact):
            self._fate(fact)
        elif isinstance(fact, ConsumerFact):
            if fact.kind == CONSUMER_ATTACHED:
                self._attached(fact)
            elif fact.kind == CONSUMER_DETACHED:
                self._detached(str(fact.key))
            else:
                self._slow(fact)
        elif isinstance(fact, QueueFact):
            if fact.kind == QUEUE_ADDED:
                self._created(fact.place)
            else:
                self._deleted(fact.place)
        elif isinstance(fact, BindingFact):
            if fact.form == REMOTE_QUEUE and fact.address.startswith(TEMPORARY):
                self._elsewhere(fact)
        elif isinstance(fact, AddressFact):
            self._temporary_topic(fact)
        elif isinstance(fact, FollowerFact):
            if fact.kind == FOLLOWER_ATTACHED:
                self._follows(fact)
            else:
                self._detached(str(fact.key))
        elif isinstance(fact, SubscriptionFact):
            self._unsubscribed(fact)
        elif isinstance(fact, BridgeFact):
            self._bridge(fact)

    def _bridge(self, fact: BridgeFact) -> None:
        """A bridge began, ended, or could not forward a message (classic.md 4.16)."""
        if fact.kind == FORWARD_FAILED:
            if fact.advises:
                self.advisories.tell(FAILURE_ADVISORY, None, {"cause": fact.why})
            return
        info = BrokerInfo(broker_id=BrokerId(fact.broker_id), broker_name=fact.broker)
        told: dict[str, object] = {"started": fact.kind == BRIDGE_STARTED, "createdByDuplex": fact.accepted}
        self.advisories.tell(NETWORK_ADVISORY, info, told)

    def _temporary_topic(self, fact: AddressFact) -> None:
        if fact.kind == TEMPORARY_TOPIC_ADDED:
            self._heard_of(fact.address, True)
            return
        connection_id = self.temporaries.pop(fact.address, None)
        self.advisories.temporary_removed(named(fact.address, True, True), connection_id)

    def _elsewhere(self, fact: BindingFact) -> None:
        """Another node of a cluster has a temporary destination, or no more: a Java client answers to none unheard of.

        A queue is bound by its own name, what reads a topic by another one.
        """
        name = fact.address
        topic = fact.routing_name != name
        known = name in self.temporaries
        if fact.kind == BINDING_ADDED:
            if not known and named(name, topic, True) not in self.advisories.temporaries:
                self._heard_of(name, topic)
            return
        address = self.broker.table.addresses.get(name)
        if known and name not in self.broker.table.queues and (address is None or len(address.remotes()) == 0):
            self.advisories.temporary_removed(named(name, topic, True), self.temporaries.pop(name))

    def _deleted(self, place: Place) -> None:
        self.advisories.bridged.pop(place.name, None)
        connection_id = self.temporaries.pop(place.name, None)
        if connection_id is not None:
            self.advisories.temporary_removed(named(place.name, False, True), connection_id)
        elif place.routing == ANYCAST and not place.temporary:
            self._destination(place.name, DestinationOperation.REMOVE)
            self.advisories.queue_gone(named(place.name, False, False))

    def _fate(self, fact: MessageFact) -> None:
        """Tell about a message."""
        if fact.kind in WORDS and self._is_unread(int(fact.kind), fact.place):
            return
        where = self._where(fact.place)
        message = fact.message
        if message is None or is_advisory(where.physical_name or ""):
            return
        if isinstance(fact, QueueFull):
            self._full(where, message, fact.used, self.broker.policies.of(fact.place.address, int(fact.place.routing)))
        elif fact.kind == MESSAGE_UNREAD:
            self._unread(where, message)
        else:
            self._about(fact, where, message)

    def _is_unread(self, kind: int, place: Place) -> bool:
        """Say whether nobody reads what is told of ``kind`` and ``place``: a million messages may expire at a time."""
        table = self.broker.table
        key = (kind, place.name, place.address, int(place.routing))  # a topic is an address, and has no name
        found = self.unread.get(key)
        if found is None or found.version != table.version:
            topic = _topic(WORDS[kind], self._where(place))
            if len(self.unread) >= UNREAD_MAX:
                self.unread.clear()
            found = _Unread(topic, int(table.version), self.advisories.is_followed(topic))
            self.unread[key] = found
        return not found.followed and not recalls(self.broker, found.topic)

    def _where(self, place: Place) -> Destination:
        """Return the destination, a temporary topic as what it is."""
        if place.routing == MULTICAST:
            return self._topic_named(place.address)
        return named(place.called(), False, place.temporary)

    def _topic_named(self, name: str) -> Destination:
        return named(name, True, ActiveMQTempTopic(name) in self.advisories.temporaries)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _about(self, fact: MessageFact, where: Destination, message: Message) -> None:
        """Tell of a message, with its headers and properties, and its body if the policy says so."""
        word = WORDS[int(fact.kind)]
        topic = _topic(word, where)
        identity = self.broker.ids.identity_of(message)
        told: dict[str, object] = {}
        if word != "MessageDLQd":
            told[MESSAGE_ID] = identity
        if word not in ("MessageDLQd", "Expired"):
            told[DESTINATION] = qualified_name(where)
        if isinstance(fact, MessageHandled) and fact.kind != MESSAGE_CONSUMED:
            if fact.consumer:
                told[CONSUMER_ID] = self._consumer_text(str(fact.consumer))
            if fact.kind == MESSAGE_DISCARDED:
                told["discardedCount"] = int(fact.count)
        policy = self.broker.policies.of(fact.place.address, int(fact.place.routing))
        try:
            shown = presented(message, where, identity, self.broker.ids.node_id, None)
            if not policy.advises_bodies:
                shown = without_body(shown)
        except EntrepotError:
            shown = ActiveMQMessage(destination=where)
        self.advisories.later(topic, shown, told)

    def _unread(self, where: Destination, message: Message) -> None:
        """Nobody reads ``where``: its message goes to the advisory topic itself, whole."""
        topic = _topic("NoConsumer", where)
        if not self.advisories.is_read(topic):
            return
        try:
            made = presented(
                message, ActiveMQTopic(topic), self.broker.ids.identity_of(message), self.broker.ids.node_id, None
            )
            self.advisories.later_send(topic, message_of(made, topic))
        except EntrepotError:
            return  # one that cannot be said cannot be shown

    def _full(self, where: Destination, message: Message, octets: i64, policy: Policy) -> None:
        """A message comes for what is full: say so, and who sends it."""
        if policy.advises_full:
            used = Primitive(LONG, int(octets))
            told: dict[str, object] = {"usageName": usage_name(where), "usageCount": used}
            self.advisories.later(_topic("FULL", where), None, told)
        topic = _topic("FastProducer", where)
        if policy.advises_fast and self.advisories.is_read(topic):
            producer_id = self._sender(message)
            info = self.advisories.producers.get(producer_id) or ProducerInfo(producer_id=producer_id)
            self.advisories.later(topic, info, {"producerId": text_of(producer_id)})

    def _sender(self, message: Message) -> ProducerId:
        """Return who sent ``message``; all senders of other protocols are one."""
        producer_id: ProducerId | None = None
        if message.language is OPENWIRE_LANGUAGE:
            producer_id = OPENWIRE_LANGUAGE.opened(message).producer_id
        if producer_id is None:
            producer_id = foreign_producer(self.broker.ids.node_id)
        return producer_id

    # -- queues and topics --------------------------------------------------------------------------------------------

    def _created(self, queue: Place) -> None:
        if queue.routing == MULTICAST:
            if not is_pattern(queue.address, MIXED):
                self._topic_used(queue.address)
        elif queue.owner is not None:
            self._temporary(queue)
        elif not queue.temporary:
            self._destination(queue.name, DestinationOperation.ADD)
            self.advisories.queue_made(named(queue.name, False, False))

    def _temporary(self, queue: Place) -> None:
        """A client of another protocol made ``queue`` for itself. A Java client sends to none that it did not hear of.

        So it is told at once: whoever is given the name must know it already. Nothing else happens in its making.
        """
        connection, _, _ = queue.name.rpartition(":")
        if connection != connection_of(queue.owner) and queue.name not in self.advisories.bridged:
            # those of OpenWire are reported by their session
            self._heard_of(queue.name, False)

    def _heard_of(self, name: str, topic: bool) -> None:
        """Tell of the temporary destination ``name`` of a client of another protocol."""
        connection_id = ConnectionId(name.rpartition(":")[0])
        self.temporaries[name] = connection_id
        made = DestinationInfo(
            connection_id=connection_id,
            destination=named(name, topic, True),
            operation_type=int(DestinationOperation.ADD),
        )
        self.advisories.temporary_added(made)

    def _topic_used(self, name: str) -> None:
        """As `Advisories.topic_used`, for when the core is at work."""
        topics = self.advisories.topics
        if name not in topics and not is_advisory(name) and not name.startswith("ID:"):
            topics[name] = True
            info = DestinationInfo(destination=ActiveMQTopic(name), operation_type=int(DestinationOperation.ADD))
            self.advisories.later(PREFIX + "Topic", info, {})

    def _destination(self, name: str, operation: DestinationOperation) -> None:
        info = DestinationInfo(destination=named(name, False, False), operation_type=int(operation))
        self.advisories.later(PREFIX + "Queue", info, {})

    # -- consumers ----------------------------------------------------------------------------------------------------

    def _attached(self, fact: ConsumerFact) -> None:
        """A consumer came whose session does not report it: one of another protocol."""
        key = str(fact.key)
        if key in self.advisories.own or is_advisory(fact.place.address):
            return
        info = self._stranger(place_of(fact.place), fact.key, fact.reader)
        self.advisories.foreign[key] = info
        if any(pattern_matches(pattern, fact.place.name, MIXED) for pattern in fact.reader.patterns):
            return  # told of when it began to follow
        self._tell_of(info)

    def _follows(self, fact: FollowerFact) -> None:
        """Somebody reads all queues that a pattern covers: other brokers may have some that this one has not."""
        if fact.reader.announces or is_advisory(fact.pattern):
            return
        info = self._stranger(named(fact.pattern, False, False), fact.key, fact.reader)
        self.advisories.foreign[str(fact.key)] = info
        self._tell_of(info)

    def _tell_of(self, info: ConsumerInfo) -> None:
        assert info.consumer_id is not None
        assert info.destination is not None
        self.advisories.consumers[info.consumer_id] = info
        self.advisories.later_about_consumer(info.destination, info)

    def _stranger(self, where: Destination, key: i64, reader: Reader) -> ConsumerInfo:
        """Return what an OpenWire client would have said of itself."""
        return ConsumerInfo(
            consumer_id=ConsumerId(connection_id=self.broker.ids.node_id, session_id=ADVISER_SESSION, value=int(key)),
            destination=where,
            client_id=reader.client_id or reader.connection,
            subscription_name=reader.subscription or None,
            selector=reader.selector or None,
            prefetch_size=int(reader.prefetch),
            priority=int(reader.priority),
            exclusive=reader.exclusive,
            no_local=reader.no_local,
        )

    def _detached(self, key: str) -> None:
        self.advisories.own.pop(key, None)
        info = self.advisories.foreign.pop(key, None)
        if info is None or info.consumer_id is None or info.destination is None:
            return
        if self.advisories.consumers.pop(info.consumer_id, None) is not None:
            self.advisories.later_about_consumer(info.destination, RemoveInfo(object_id=info.consumer_id))

    def _slow(self, fact: ConsumerFact) -> None:
        place = fact.place
        if is_advisory(place.address) or not self.broker.policies.of(place.address, int(place.routing)).advises_slow:
            return
        key = str(fact.key)
        told: dict[str, object] = {CONSUMER_ID: self._consumer_text(key)}
        self.advisories.later(_topic("SlowConsumer", self._where(place)), self._consumer(key), told)

    def _unsubscribed(self, fact: SubscriptionFact) -> None:
        """A durable subscription is gone for good."""
        topic = fact.place.address
        if not is_advisory(topic):
            info = RemoveSubscriptionInfo(client_id=fact.client_id, subscription_name=fact.subscription)
            self.advisories.later_about_consumer(named(topic, True, False), info)

    def _consumer(self, key: str) -> ConsumerInfo | None:
        return self.advisories.own.get(key) or self.advisories.foreign.get(key)

    def _consumer_text(self, key: str) -> str:
        """Return the id of a consumer as advisories write it."""
        info = self._consumer(key)
        return key if info is None or info.consumer_id is None else text_of(info.consumer_id)


def place_of(place: Place) -> Destination:
    """Return the destination that clients know the queue ``place`` by."""
    topic = place.routing == MULTICAST
    return named(place.address if topic else place.name, topic, place.temporary and not topic)


def usage_name(where: Destination) -> str:
    """Return how ActiveMQ calls the memory of a destination, a part of the broker's."""
    return f"Main:memory:{qualified_name(where)}:memory"


def _topic(word: str, where: Destination) -> str:
    kind = kind_word(where)
    if word not in OF_EITHER_KIND and is_temporary(where):
        kind = f"Temp{kind}"
    return f"{PREFIX}{word}.{kind}.{where.physical_name}"
