"""Advisory messages: what happens in the broker, told on topics below ``ActiveMQ.Advisory.`` (classic.md 1.14).

Sessions report what they know better than the core (who connects, consumes, produces, with the commands that said so);
the rest comes from the core's facts (`announced.py`), from clients of every protocol. Advisories are not persistent,
are never made about advisory destinations themselves, and cost one look-up when nobody reads them.

What the core announces is told a moment later, by an alarm: it may speak in the middle of its work.
"""

from __future__ import annotations

from typing import Final

from entrepot.core.addressing.address_settings import RECALL_NONE
from entrepot.core.addressing.routing import Target
from entrepot.core.addressing.virtual import virtual_source
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED
from entrepot.model.message import Message
from entrepot.protocols.openwire.bodies import pack_properties
from entrepot.protocols.openwire.commands import (
    ActiveMQMessage,
    ActiveMQTopic,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
)
from entrepot.protocols.openwire.convert import message_of, named
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import DestinationOperation, components, is_queue, is_temporary, text_of

PREFIX: Final = "ActiveMQ.Advisory."
CONNECTION: Final = PREFIX + "Connection"
MASTER: Final = PREFIX + "MasterBroker"
ANONYMOUS: Final = PREFIX + "Producer.Anonymous"
VIRTUAL: Final = PREFIX + "VirtualDestination.Consumer."
ADVISORY_TYPE: Final = "Advisory"
ADVISER: Final = 2  # the producer of advisories, beside the one that stands for other protocols
ADVISER_SESSION: Final = -1
QUEUE_SESSION: Final = -2  # of the consumers that stand for queues: `Advisories.queue_made`
WAITING_MAX: Final = 10_000  # advisories between two turns; a purge of a million expired messages needs no million


def is_advisory(name: str) -> bool:
    """Return whether ``name`` is one of the broker's own topics."""
    return name.startswith(PREFIX)


def kind_word(where: Destination) -> str:
    """Return how topics about consumers, producers and messages call the kind of ``where``."""
    return "Queue" if is_queue(where) else "Topic"


class _Told(Alarm):
    def __init__(self, due: int, advisories: Advisories) -> None:
        super().__init__(due)
        self.advisories = advisories

    def ring(self, now: int) -> None:
        self.advisories.flush()


class Advisories:
    """Tells what happens, and remembers what a new reader must be told: connections, consumers, producers, names."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker = broker
        self.url = ""
        self.anonymous = False  # anonymousProducerAdvisorySupport: tell of producers that name no destination
        self.virtual = False  # readers of what a virtual destination fills are announced as its readers
        self.virtual_on_creation = False  # so are queues that it fills, whether somebody reads them or not
        self.connections: dict[str, ConnectionInfo] = {}
        self.consumers: dict[ConsumerId, ConsumerInfo] = {}
        self.producers: dict[ProducerId, ProducerInfo] = {}
        self.temporaries: dict[Destination, DestinationInfo] = {}
        self.bridged: dict[
            str, None
        ] = {}  # temporary queues that stand for another broker's: their bridge tells of them
        self.topics: dict[str, bool] = {}  # names that somebody used as a topic
        self.made: dict[str, list[ConsumerInfo]] = {}  # queue -> consumers that stand for it at virtual destinations
        self._made_count = 0
        self.own: dict[str, ConsumerInfo] = {}  # key of a consumer that its session reports itself -> what that says
        self.foreign: dict[str, ConsumerInfo] = {}  # the same of the others
        self.waiting: list[tuple[str, Message]] = []
        self.about: ConsumerInfo | None = None  # whose coming or going is being told: filters of readers look here
        self.sequence = 0

    # -- what sessions report -----------------------------------------------------------------------------------------

    def connected(self, info: ConnectionInfo) -> None:
        """A connection was opened."""
        shown = ConnectionInfo(
            connection_id=info.connection_id,
            client_id=info.client_id,
            password="",
            user_name=info.user_name,
            broker_path=info.broker_path,
            manageable=info.manageable,
            client_master=info.client_master,
            fault_tolerant=info.fault_tolerant,
            failover_reconnect=info.failover_reconnect,
            client_ip=info.client_ip,
        )
        self.connections[_text(info.connection_id)] = shown
        self.tell(CONNECTION, shown, {})

    def disconnected(self, connection_id: ConnectionId) -> None:
        """A connection is gone."""
        if self.connections.pop(_text(connection_id), None) is not None:
            self.tell(CONNECTION, RemoveInfo(object_id=connection_id), {})

    def consumer_added(self, info: ConsumerInfo) -> None:
        """A consumer was opened."""
        if info.consumer_id is not None and info.destination is not None:
            self.flush()  # what is told of it comes behind what happened before
            self.consumers[info.consumer_id] = info
            self.about = info
            self._about_consumer(info.destination, info)
            self.about = None

    def consumer_removed(self, consumer_id: ConsumerId) -> None:
        """A consumer is gone."""
        info = self.consumers.pop(consumer_id, None)
        if info is not None and info.destination is not None:
            self.about = info
            self._about_consumer(info.destination, RemoveInfo(object_id=consumer_id))
            self.about = None

    def producer_added(self, info: ProducerInfo) -> None:
        """A producer was opened."""
        if info.producer_id is not None and info.destination is not None:
            self.producers[info.producer_id] = info
            self._about_producer(info.destination, info)
        elif self.anonymous and info.producer_id is not None:
            self.producers[info.producer_id] = info
            self.tell(ANONYMOUS, info, {"producerCount": 0})  # ActiveMQ does not count them either

    def producer_removed(self, producer_id: ProducerId) -> None:
        """A producer is gone."""
        info = self.producers.pop(producer_id, None)
        if info is not None and info.destination is not None:
            self._about_producer(info.destination, RemoveInfo(object_id=producer_id))
        elif info is not None:
            self.tell(ANONYMOUS, RemoveInfo(object_id=producer_id), {"producerCount": 0})

    def temporary_added(self, info: DestinationInfo) -> None:
        """A temporary destination was made."""
        if info.destination is not None:
            self.temporaries[info.destination] = info
            self.tell(temporaries_of(info.destination), info, {})

    def temporary_removed(self, where: Destination, connection_id: ConnectionId | None) -> None:
        """A temporary destination is gone."""
        if self.temporaries.pop(where, None) is not None:
            info = DestinationInfo(
                connection_id=connection_id, destination=where, operation_type=int(DestinationOperation.REMOVE)
            )
            self.tell(temporaries_of(where), info, {})

    def topic_used(self, name: str) -> None:
        """Somebody sends to, or reads, the topic ``name``."""
        if name not in self.topics and not is_advisory(name):
            self.topics[name] = True
            info = DestinationInfo(destination=ActiveMQTopic(name), operation_type=int(DestinationOperation.ADD))
            self.tell(PREFIX + "Topic", info, {})

    def now_master(self) -> None:
        """This broker serves from now on: it has started, or taken over."""
        self.tell(MASTER, None, {})

    # -- telling ------------------------------------------------------------------------------------------------------

    def _about_consumer(self, where: Destination, said: Structure) -> None:
        for part in components(where):
            name = part.physical_name or ""
            if not is_advisory(name):
                topic = f"{PREFIX}Consumer.{kind_word(part)}.{name}"
                self.tell(topic, said, {"consumerCount": self.readers(part)})

        for source in self.sources(where):
            self.tell(virtual_readers_of(source), as_reader_of(said, source), self._count(said, source, where))

    def later_about_consumer(self, where: Destination, said: Structure) -> None:
        """As `consumer_added` and `consumer_removed` tell it, for when the core is at work."""
        topic = f"{PREFIX}Consumer.{kind_word(where)}.{where.physical_name}"
        self.later(topic, said, {"consumerCount": self.readers(where)})
        if isinstance(said, (ConsumerInfo, RemoveInfo)):
            for source in self.sources(where):
                self.later(virtual_readers_of(source), as_reader_of(said, source), self._count(said, source, where))

    def queue_made(self, where: Destination) -> None:
        """A queue is there: a consumer is announced that reads what fills it, if that is wanted."""
        name = where.physical_name or ""
        if not self.virtual_on_creation or name in self.made:
            return
        for source in self.sources(where):
            self._made_count += 1
            stands = ConsumerId(self.broker.ids.node_id, QUEUE_SESSION, self._made_count)
            info = ConsumerInfo(consumer_id=stands, destination=source)
            self.made.setdefault(name, []).append(info)
            self.later(virtual_readers_of(source), info, self._count(info, source, where))

    def founded(self) -> None:
        """All that the configuration and the journal say is there: queues and topics of before count as made now."""
        for queue in self.broker.table.queues.values():
            if queue.routing == ANYCAST and not queue.temporary and not queue.definition.owner:
                self.queue_made(named(queue.name, False, False))
        for address in self.broker.table.addresses.values():
            if address.created_by_operator or (address.has(MULTICAST) and not address.pattern):
                self.topic_used(address.name)

    def queue_gone(self, where: Destination) -> None:
        """A queue is no more, and nobody stands for it. ActiveMQ 5.17 lets them stay: demand for what is not there."""
        for info in self.made.pop(where.physical_name or "", []):
            if info.destination is not None:
                gone = RemoveInfo(object_id=info.consumer_id)
                self.later(virtual_readers_of(info.destination), gone, self._count(gone, info.destination, where))

    def _count(self, said: Structure, source: Destination, where: Destination) -> dict[str, object]:
        """Return how many read: ``source`` when one comes, ``where`` when one leaves, as ActiveMQ counts them."""
        return {"consumerCount": self.readers(source if isinstance(said, ConsumerInfo) else where)}

    def sources(self, where: Destination) -> list[Destination]:
        """Return the virtual destinations that fill ``where``, if their readers are announced.

        A reader of all that a wildcard covers counts for none of them, as in ActiveMQ. What two of them fill counts for
        both; ActiveMQ tells of one.
        """
        found: list[Destination] = []
        if not self.virtual:
            return found
        table = self.broker.table
        for part in components(where):
            name = part.physical_name or ""
            for virtual in table.virtual_topics if is_queue(part) else []:
                topic = virtual_source(virtual, name)
                if topic:
                    found.append(ActiveMQTopic(topic))
            routing = ANYCAST if is_queue(part) else MULTICAST
            for diverts in table.diverts.values():
                for one in diverts:
                    if one.routing != UNTYPED and one.fills(name, routing):  # those of Artemis are no destinations
                        found.append(named(one.address, one.routing == MULTICAST, False))
        return found

    def _about_producer(self, where: Destination, said: Structure) -> None:
        for part in components(where):
            name = part.physical_name or ""
            if not is_advisory(name):
                topic = f"{PREFIX}Producer.{kind_word(part)}.{name}"
                self.tell(topic, said, {"producerCount": self.writers(where)})

    def writers(self, where: Destination) -> int:
        """Return how many producers of OpenWire name ``where``."""
        return sum(1 for info in self.producers.values() if info.destination == where)

    def readers(self, where: Destination) -> int:
        """Return how many consumers read ``where``."""
        address = self.broker.table.addresses.get(where.physical_name or "")
        if address is None:
            return 0
        queues = address.anycast if is_queue(where) else address.multicast
        # a durable subscription counts as a reader of its topic while nobody reads it, too
        return sum(1 if one.definition.owner and not is_queue(where) else one.roster.readers() for one in queues)

    def is_read(self, topic: str) -> bool:
        """Return whether anybody reads ``topic``, or it remembers what is told for who reads it later."""
        return self.is_followed(topic) or recalls(self.broker, topic)

    def is_followed(self, topic: str) -> bool:
        """Return whether anybody reads ``topic``; the same until the routing table has another version."""
        return not self._target(topic).choice.is_empty()

    def _target(self, topic: str) -> Target:
        """Return who reads ``topic``. The name of a wildcard subscription is part of some, and means itself there."""
        target = Target(topic, MULTICAST)
        self.broker.table.resolve(target)
        return target

    def later(self, topic: str, said: Structure | None, properties: dict[str, object]) -> None:
        """Publish an advisory when the core is done with what it is at."""
        if self.is_read(topic):
            self.later_send(topic, self.message(topic, said, properties, None))

    def later_send(self, topic: str, message: Message) -> None:
        """Publish ``message`` on ``topic`` when the core is done with what it is at."""
        if len(self.waiting) >= WAITING_MAX:
            return
        if not self.waiting:
            self.broker.timetable.add(_Told(int(self.broker.now), self))
        self.waiting.append((topic, message))

    def flush(self) -> None:
        """Tell what waits for the core to be done."""
        waiting = self.waiting
        self.waiting = []
        for topic, message in waiting:
            self._send(topic, message)

    def tell(self, topic: str, said: Structure | None, properties: dict[str, object]) -> None:
        """Publish one advisory, if anybody reads ``topic``."""
        if self.is_read(topic):
            self._send(topic, self.message(topic, said, properties, None))

    def _send(self, topic: str, message: Message) -> None:
        target = self._target(topic)
        if recalls(self.broker, topic):
            target.version = -1  # `BrokerCore.send` looks up the policy too
        if not target.choice.is_empty() or target.version < 0:
            self.broker.send(message, target)

    def message(
        self, topic: str, said: Structure | None, properties: dict[str, object], reader: ConsumerId | None
    ) -> Message:
        """Return an advisory on ``topic``; ``reader``: it is for him alone."""
        broker = self.broker
        self.sequence += 1
        producer = ProducerId(connection_id=broker.ids.node_id, value=ADVISER, session_id=ADVISER_SESSION)
        told: dict[str, object] = {
            "originBrokerId": broker.ids.node_id,
            "originBrokerName": broker.options.name,
            "originBrokerURL": self.url,
        }
        told.update(properties)
        command = ActiveMQMessage(
            producer_id=producer,
            destination=ActiveMQTopic(topic),
            message_id=MessageId(producer_id=producer, producer_sequence_id=self.sequence),
            jms_type=ADVISORY_TYPE,
            data_structure=said,
            target_consumer_id=reader,
            marshalled_properties=pack_properties(told),
        )
        return message_of(command, topic)


def virtual_readers_of(source: Destination) -> str:
    """Return the topic that tells of readers of what the virtual destination ``source`` fills."""
    return f"{VIRTUAL}{kind_word(source)}.{source.physical_name}"


def as_reader_of(said: Structure, source: Destination) -> Structure:
    """Return what tells of a consumer of what ``source`` fills, said as if it read ``source`` itself."""
    if not isinstance(said, ConsumerInfo):
        return said
    return ConsumerInfo(
        consumer_id=said.consumer_id,
        destination=source,
        client_id=said.client_id,
        subscription_name=said.subscription_name,
        selector=said.selector,
        prefetch_size=said.prefetch_size,
        dispatch_async=said.dispatch_async,
        priority=said.priority,
        broker_path=said.broker_path,
        network_subscription=said.network_subscription,
        network_consumer_path=said.network_consumer_path,
    )


def about_each(word: str, where: Destination | None, said: Structure) -> list[tuple[str, Structure]]:
    """Return the topics that tell of a consumer or producer (``word``) of ``where``, one for each part, with it."""
    if where is None:
        return []
    parts = [part for part in components(where) if not is_advisory(part.physical_name or "")]
    return [(f"{PREFIX}{word}.{kind_word(part)}.{part.physical_name}", said) for part in parts]


def temporaries_of(where: Destination) -> str:
    """Return the topic that tells about temporary destinations of this kind."""
    assert is_temporary(where)
    return PREFIX + ("TempQueue" if is_queue(where) else "TempTopic")


def _text(identity: Structure | None) -> str:
    return "" if identity is None else text_of(identity)


def recalls(broker: BrokerCore, topic: str) -> bool:
    """Return whether ``topic`` remembers what is told for who reads it later."""
    return broker.policies.of(topic, MULTICAST).recall != RECALL_NONE
