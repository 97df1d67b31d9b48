"""Listeners that come and go while the broker runs: what is true now, and from then on what happens. [C]"""

from __future__ import annotations

from entrepot.core.broker import BrokerCore
from entrepot.core.events.announcing import divert_binding, local_binding
from entrepot.core.events.facts import (
    ADDRESS_ADDED,
    BINDING_ADDED,
    CONSUMER_ATTACHED,
    QUEUE_ADDED,
    AddressFact,
    ConsumerFact,
    Fact,
    Listener,
    QueueFact,
)
from entrepot.model.address import ANYCAST, MULTICAST


def observe(broker: BrokerCore, listener: Listener) -> None:
    """Let ``listener`` hear what happens from now on."""
    broker.hub.add(listener)
    _refresh(broker)


def ignore(broker: BrokerCore, listener: Listener) -> None:
    """Let ``listener`` hear nothing any more."""
    broker.hub.remove(listener)
    _refresh(broker)


def observe_all(broker: BrokerCore, listener: Listener) -> list[Fact]:
    """As `observe`; return what is true at this moment, as the facts of `snapshot` that ``listener`` takes.

    No fact is lost and none is in both: all of this happens in one turn of the one thread. The caller handles the facts
    that are returned before its turn ends.
    """
    facts = [fact for fact in snapshot(broker) if fact.kind & listener.kinds]
    observe(broker, listener)
    return facts


def snapshot(broker: BrokerCore) -> list[Fact]:
    """Return what there is: addresses, then queues with their bindings, then consumers, then diverts."""
    facts: list[Fact] = []
    table = broker.table
    for address in table.addresses.values():
        facts.append(AddressFact(ADDRESS_ADDED, address.name, ANYCAST if address.has(ANYCAST) else MULTICAST))
    for queue in table.queues.values():
        place = queue.place()
        facts.append(QueueFact(QUEUE_ADDED, place))
        facts.append(local_binding(BINDING_ADDED, place, broker.ids.node))
        for count, consumer in enumerate(queue.roster.consumers):
            facts.append(ConsumerFact(CONSUMER_ATTACHED, place, consumer.key, consumer.subscriber, count + 1))
    for diverts in table.diverts.values():
        for divert in diverts:
            facts.append(divert_binding(BINDING_ADDED, divert.address, divert.name, broker.ids.node))
    return facts


def _refresh(broker: BrokerCore) -> None:
    """Let queues and targets look again for which messages somebody listens."""
    for queue in broker.table.queues.values():
        queue.fates.refresh()
    broker.table.version += 1
