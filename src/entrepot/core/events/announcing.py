"""The facts that the broker's verbs announce, made of queues, consumers and messages. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.base.reasons import ABOUT, Reason
from entrepot.core.events.facts import (
    ADDRESS_ADDED,
    ADDRESS_REMOVED,
    BINDING_ADDED,
    BINDING_REMOVED,
    CONSUMER_ATTACHED,
    CONSUMER_DETACHED,
    CONSUMER_SLOW,
    DIVERT,
    FOLLOWER_ATTACHED,
    FOLLOWER_DETACHED,
    LOCAL_QUEUE,
    MESSAGE_DEAD,
    MESSAGE_DELIVERED,
    MESSAGE_DROPPED,
    MESSAGE_DUPLICATE,
    MESSAGE_EXPIRED,
    MESSAGE_UNREAD,
    MESSAGE_UNROUTED,
    QUEUE_ADDED,
    QUEUE_REMOVED,
    SPACE_FREE,
    SPACE_SHORT,
    AddressFact,
    BindingFact,
    ConsumerFact,
    FollowerFact,
    Hub,
    JobFact,
    MessageDead,
    MessageFact,
    Place,
    QueueFact,
    SpaceFact,
    SubscriptionFact,
)
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import Subscription
from entrepot.model.address import MULTICAST
from entrepot.model.ids import NodeIdentity
from entrepot.model.message import Message
from entrepot.model.told import told_as


def created(hub: Hub, queue: Queue, node: NodeIdentity, known: bool) -> None:
    """Tell of a new queue with its binding, and of its address unless that was ``known``."""
    place = queue.place()
    if not known:
        hub.announce(AddressFact(ADDRESS_ADDED, place.address, place.routing))
    hub.announce(QueueFact(QUEUE_ADDED, place))
    if hub.kinds & BINDING_ADDED:
        hub.announce(local_binding(BINDING_ADDED, place, node))


def deleted(hub: Hub, queue: Queue, node: NodeIdentity, known: bool, messages: i64, why: str, renewed: bool) -> None:
    """Tell that what `created` told of is gone: the address unless it is still ``known``.

    A durable subscription too, unless it is ``renewed``: it goes on with another queue.
    """
    place = queue.place()
    if hub.kinds & BINDING_REMOVED:
        hub.announce(local_binding(BINDING_REMOVED, place, node))
    hub.announce(QueueFact(QUEUE_REMOVED, place, messages, why))
    subscription = queue.definition.subscription
    if subscription is not None and not renewed:
        hub.announce(SubscriptionFact(place, subscription[0], subscription[1]))
    if not known:
        hub.announce(AddressFact(ADDRESS_REMOVED, place.address, place.routing))


def local_binding(kind: i64, place: Place, node: NodeIdentity) -> BindingFact:
    """Return the binding of a queue that is here."""
    told = told_as(place.name, place.routing, place.temporary, place.began)
    fact = BindingFact(kind, LOCAL_QUEUE, place.address, routing_name(place, node), place.name + node.uuid_text, told)
    fact.filter = place.filter
    return fact


def routing_name(place: Place, node: NodeIdentity) -> str:
    """Return the name of the group that a queue is one of at its address, as all nodes call it (artemis.md 1.12).

    The queue of a plain subscriber has a name that its broker made up: with the node's id it is one for itself.
    """
    if place.routing != MULTICAST:
        return place.address
    return place.name + node.uuid_text if place.temporary and place.owner is None else place.name


def divert_binding(kind: i64, address: str, name: str, node: NodeIdentity) -> BindingFact:
    """Return the binding of a divert."""
    return BindingFact(kind, DIVERT, address, name, name + node.uuid_text, 0)


def diverts(hub: Hub, kind: i64, address: str, name: str, node: NodeIdentity) -> None:
    """Tell that the divert ``name`` of ``address`` is followed from now on (BINDING_ADDED), or no longer."""
    if hub.kinds & kind:
        hub.announce(divert_binding(kind, address, name, node))


# -- consumers ---------------------------------------------------------------------------------------------------------


def attached(hub: Hub, queue: Queue, consumer: Consumer) -> None:
    """Tell that ``consumer`` reads ``queue`` from now on."""
    _consumer(hub, CONSUMER_ATTACHED, queue, consumer)


def detached(hub: Hub, queue: Queue, consumer: Consumer) -> None:
    """Tell that ``consumer`` reads ``queue`` no longer."""
    _consumer(hub, CONSUMER_DETACHED, queue, consumer)


def slow(hub: Hub, queue: Queue, consumer: Consumer) -> None:
    """Tell that ``consumer`` does not keep up."""
    _consumer(hub, CONSUMER_SLOW, queue, consumer)


def follows(hub: Hub, pattern: str, key: i64, subscription: Subscription) -> None:
    """Tell that ``subscription`` reads all queues of ``pattern``."""
    hub.announce(FollowerFact(FOLLOWER_ATTACHED, pattern, key, subscription.reader()))


def follows_no_longer(hub: Hub, pattern: str, key: i64, subscription: Subscription) -> None:
    """Tell that ``subscription`` reads the queues of ``pattern`` no longer."""
    hub.announce(FollowerFact(FOLLOWER_DETACHED, pattern, key, subscription.reader()))


def _consumer(hub: Hub, kind: i64, queue: Queue, consumer: Consumer) -> None:
    if hub.kinds & kind:
        readers = queue.roster.readers()
        held = len(consumer.in_flight)
        hub.announce(ConsumerFact(kind, queue.place(), consumer.key, consumer.subscriber, readers, held))


# -- messages ----------------------------------------------------------------------------------------------------------


def arrived(hub: Hub, message: Message, topic: str, tells: i64, asked: i64, unread: bool) -> None:
    """Tell that ``message`` comes to ``topic``; ``tells`` and ``asked`` are those of its target."""
    place = Place("", topic, MULTICAST)
    if tells & MESSAGE_DELIVERED:
        _on_request(hub, MessageFact(MESSAGE_DELIVERED, place, message), asked)
    if tells & MESSAGE_UNREAD and unread and not message.durable:
        _on_request(hub, MessageFact(MESSAGE_UNREAD, place, message), asked)


def _on_request(hub: Hub, fact: MessageFact, asked: i64) -> None:
    fact.asked = asked & fact.kind != 0
    hub.announce(fact)


def unrouted(hub: Hub, message: Message | None, address: str, error: EntrepotError | None = None) -> None:
    """Tell that ``message`` is in no queue of ``address``: there is none, or ``error`` says why."""
    if hub.kinds & MESSAGE_UNROUTED:
        code = "" if error is None else error.code
        why = "" if error is None else str(error)
        hub.announce(MessageFact(MESSAGE_UNROUTED, Place("", address), message, code, why))


def repeated(hub: Hub, message: Message, address: str, identity: str, code: str) -> None:
    """Tell that ``message`` was dropped because ``address`` has or had it already."""
    if hub.kinds & MESSAGE_DUPLICATE:
        fact = MessageFact(MESSAGE_DUPLICATE, Place("", address), message, code, ABOUT[code])
        fact.identity = identity
        hub.announce(fact)


def refused_job(hub: Hub, target: str, refusal: EntrepotError) -> None:
    """Tell that a scheduled message could not be sent to ``target`` when its time came."""
    hub.announce(JobFact(target, refusal.code, str(refusal)))


def dropped(hub: Hub, place: Place, message: Message | None, identity: str, reason: Reason) -> None:
    """Tell that ``message`` was thrown away."""
    if hub.kinds & MESSAGE_DROPPED:
        fact = MessageFact(MESSAGE_DROPPED, place, message, reason.code, reason.text)
        fact.identity = identity
        hub.announce(fact)


def dead(hub: Hub, place: Place, message: Message, identity: str, reason: Reason, to: str, deliveries: i64) -> None:
    """Tell that ``message`` of ``place`` is in the dead-letter queue ``to`` now."""
    if hub.kinds & MESSAGE_DEAD:
        fact = MessageDead(place, message, reason.code, reason.text, to, deliveries)
        fact.identity = identity
        hub.announce(fact)


def expired(hub: Hub, place: Place, message: Message, identity: str) -> None:
    """Tell that the time to live of ``message`` is over."""
    if hub.kinds & MESSAGE_EXPIRED:
        fact = MessageFact(MESSAGE_EXPIRED, place, message)
        fact.identity = identity
        hub.announce(fact)


# -- space -------------------------------------------------------------------------------------------------------------


def short_of_space(hub: Hub, used: i64, why: str = "") -> None:
    """Tell that producers begin to wait."""
    hub.announce(SpaceFact(SPACE_SHORT, used, why))


def space_again(hub: Hub, used: i64) -> None:
    """Tell that producers go on."""
    hub.announce(SpaceFact(SPACE_FREE, used))
