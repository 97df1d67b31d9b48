"""What a new reader of advisory topics is told: what there is, over as many turns as that takes (classic.md 1.14).

It is what there was when he came. What happens meanwhile he is told behind it (`core/sending/handing.py`), so nothing
ends for him before it has begun. A reader whose queue outlives restarts is told all of it at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.base.patterns import MIXED
from entrepot.base.patterns import matches as pattern_matches
from entrepot.core.addressing.binding import passes
from entrepot.core.effort import Rest
from entrepot.core.queue.queue import Queue, queue_of
from entrepot.core.reading.subscription import Subscription
from entrepot.core.sending.handing import Deferral
from entrepot.model.address import ANYCAST
from entrepot.protocols.openwire.advisories import (
    ANONYMOUS,
    CONNECTION,
    PREFIX,
    Advisories,
    about_each,
    as_reader_of,
    is_advisory,
    temporaries_of,
    virtual_readers_of,
)
from entrepot.protocols.openwire.commands import ActiveMQTopic, ConsumerId, ConsumerInfo, DestinationInfo, ProducerInfo
from entrepot.protocols.openwire.convert import named
from entrepot.protocols.openwire.frames import Structure

LOOK_UNITS: Final = 1  # of `core/effort.py`: whether the reader asks for one of the things that there are
TELL_UNITS: Final = 20  # and to make an advisory of it: plain Python, some 10 us

Fact = tuple[str, Structure]


def replay(advisories: Advisories, subscription: Subscription, consumer_id: ConsumerId) -> None:
    """Tell a new reader of advisory topics what there is already, and nobody else."""
    reads: list[Reading] = []
    for read, consumer in zip(subscription.destinations, subscription.consumers, strict=False):
        queue = queue_of(consumer)
        if queue is not None and is_advisory(read.name):
            reads.append(Reading(read.name, queue))
    if reads:
        Replay(advisories, reads, consumer_id).resume()


class There:
    """What there is when a reader comes: as it is kept, for to make advisories of all of it takes long."""

    def __init__(self, advisories: Advisories) -> None:
        self.connections: Final = list(advisories.connections.values())
        self.queues: Final = list(advisories.broker.table.queues.values())
        self.topics: Final = list(advisories.topics)
        self.temporaries: Final = list(advisories.temporaries.items())
        self.producers: Final = list(advisories.producers.values())
        self.consumers: Final = list(advisories.consumers.values())
        self.made: Final = [list(stands) for stands in advisories.made.values()]


class Reading:
    """One of the topics that the new reader reads, a pattern too, and where it comes to him."""

    def __init__(self, pattern: str, queue: Queue) -> None:
        self.pattern: Final = pattern
        self.queue: Final = queue
        self.deferral: Deferral | None = None


class Replay(Rest):
    """Tells one new reader, and goes on where its turn was over."""

    def __init__(self, advisories: Advisories, reads: list[Reading], consumer_id: ConsumerId) -> None:
        super().__init__()
        self.advisories: Final = advisories
        self.reads: Final = reads
        self.consumer_id: Final = consumer_id
        self.broker: Final = advisories.broker
        self.whole: Final = any(one.queue.durable or one.queue.backlog.owed is not None for one in reads)
        self.facts: Final = self._facts(There(advisories))

    def resume(self) -> None:
        """Tell some more, and let in what waits behind it when that was all."""
        effort = self.broker.effort
        for topic, said in self.facts:
            effort.spent += LOOK_UNITS
            for read in self.reads:
                if pattern_matches(read.pattern, topic, MIXED):
                    self._tell(read, topic, said)
            if effort.is_over() and not self.whole:
                self._defer()
                return
        for read in self.reads:
            if read.deferral is not None:
                read.deferral.pay()

    def _defer(self) -> None:
        for read in self.reads:
            if read.deferral is None:
                read.deferral = Deferral(self.broker, read.queue)
        if any(not read.queue.deleted for read in self.reads):
            self.broker.effort.later(self)

    def _tell(self, read: Reading, topic: str, said: Structure) -> None:
        advisories = self.advisories
        effort = self.broker.effort
        effort.spent += TELL_UNITS
        properties: dict[str, object] = {}
        if isinstance(said, ConsumerInfo) and said.destination is not None:
            properties["consumerCount"] = advisories.readers(said.destination)
        elif isinstance(said, ProducerInfo) and said.destination is not None:
            properties["producerCount"] = advisories.writers(said.destination)
        message = advisories.message(topic, said, properties, self.consumer_id)
        advisories.about = said if isinstance(said, ConsumerInfo) else None
        wanted = passes(read.queue, message)
        advisories.about = None
        if not wanted:
            return
        message.number = self.broker.ids.next_number()
        if read.deferral is not None:
            read.deferral.let_in(message)
        elif not read.queue.deleted:
            read.queue.accept(message)

    def _facts(self, there: There) -> Iterator[Fact]:
        """Make of what there is what is told of it, as far as it is asked for."""
        for info in there.connections:
            yield CONNECTION, info
        for queue in there.queues:
            if queue.routing == ANYCAST and not queue.temporary and not queue.definition.owner:
                yield PREFIX + "Queue", DestinationInfo(destination=named(queue.name, False, False))
        for name in there.topics:
            yield PREFIX + "Topic", DestinationInfo(destination=ActiveMQTopic(name))
        for where, made in there.temporaries:
            yield temporaries_of(where), made
        for producer in there.producers:
            if producer.destination is None:
                yield ANONYMOUS, producer
            yield from about_each("Producer", producer.destination, producer)
        for consumer in there.consumers:
            yield from about_each("Consumer", consumer.destination, consumer)
            if consumer.destination is not None:
                for one in self.advisories.sources(consumer.destination):
                    yield virtual_readers_of(one), as_reader_of(consumer, one)
        for stands in there.made:
            for each in stands:
                if each.destination is not None:
                    yield virtual_readers_of(each.destination), each
