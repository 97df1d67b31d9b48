"""Addresses and queues that a client of CORE asks about, makes and removes. [C]

What a queue is given is what `QueueDefinition` can say; the settings of its address decide the rest.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidSelector
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.routing import default_routing
from entrepot.core.addressing.traits import LAST_VALUE_KEY, Traits
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.owners import ConnectionOwner, Owner, connection_of
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.predicate import Predicate
from entrepot.protocols.artemis.packets import (
    BindingQuery,
    BindingQueryReply,
    CreateAddress,
    CreateQueue,
    CreateSharedQueue,
    DeleteQueue,
    QueueQuery,
    QueueQueryReply,
)
from entrepot.protocols.artemis.places import octet_of, place, queue_named, routing_of
from entrepot.protocols.artemis.refusals import (
    BAD_FILTER,
    ILLEGAL_STATE,
    NO_ADDRESS,
    NO_QUEUE,
    OTHER_SUBSCRIPTION,
    QUEUE_EXISTS,
    CoreRefused,
)
from entrepot.protocols.artemis.session import CoreSession

CONSUMER_WINDOW: Final = 1024 * 1024  # default-consumer-window-size
MULTICAST_BIT: Final = 1
ANYCAST_BIT: Final = 2


class Resources:
    """What one session says about addresses and queues."""

    def __init__(self, session: CoreSession) -> None:
        self.session: CoreSession = session
        self.broker: BrokerCore = session.broker

    # -- questions -----------------------------------------------------------------------------------------------------

    def query_queue(self, packet: QueueQuery) -> None:
        """Say what a queue is like, or would be."""
        session = self.session
        queue = queue_named(self.broker, packet.queue, session.options)
        if queue is not None:
            session.replies.answer(described(self.broker, queue), False)
            return
        where = place(packet.queue, UNTYPED, session.options)
        session.replies.answer(imagined(self.broker, where), False)

    def query_address(self, packet: BindingQuery) -> None:
        """Say which queues an address leads to."""
        session = self.session
        where = place(packet.address, UNTYPED, session.options)
        policy = self.broker.policies.of(where.name)
        traits = policy.of_created
        address = self.broker.table.addresses.get(where.name)
        names: list[str] = []
        exists = address is not None or self.broker.addresses.service_at(where.name) is not None
        multicast = anycast = False
        if address is not None:
            names = [queue.name for queue in [*address.anycast, *address.multicast]]
            declared = session.acceptor.routing_types.get(where.name, 0)
            multicast = len(address.multicast) > 0 or declared & MULTICAST_BIT != 0
            anycast = len(address.anycast) > 0 or declared & ANYCAST_BIT != 0
            if not multicast and not anycast:
                multicast = anycast = True
        reply = BindingQueryReply(
            exists=exists,
            queues=names,
            auto_create_queues=policy.auto_create,
            auto_create_addresses=policy.given.auto_create_addresses,
            default_purge_on_no_consumers=traits.purges,
            default_max_consumers=traits.max_consumers,
            default_exclusive=traits.exclusive,
            default_last_value=traits.last_value_key != "",
            default_last_value_key=named_key(traits),
            default_non_destructive=traits.non_destructive,
            default_consumers_before_dispatch=int(traits.consumers_before_dispatch),
            default_delay_before_dispatch=milliseconds(int(traits.delay_before_dispatch)),
            multicast=multicast,
            anycast=anycast,
        )
        session.replies.answer(reply, False)

    # -- making --------------------------------------------------------------------------------------------------------

    def create_address(self, packet: CreateAddress) -> None:
        """Make an address; one that exists is no error. Raises Refused and what is below it."""
        session = self.session
        where = place(packet.address, UNTYPED, session.options)
        table = self.broker.table
        types = 0
        for octet in packet.routing_types:
            types |= MULTICAST_BIT if routing_of(octet) == MULTICAST else ANYCAST_BIT
        routing = MULTICAST if types == MULTICAST_BIT else ANYCAST
        if where.name not in table.addresses:
            self.broker.access.create(session.subject, Destination(where.name, routing))
            table.address(where.name)
        elif types & ~table.declared.get(where.name, 0):
            self.broker.access.change(session.subject, Destination(where.name, routing))
        stays = not packet.auto_created and session.acceptor.has_room_for(where.name)
        if stays:
            self.broker.queues.declare(where.name, table.declared.get(where.name, 0) | types)
        else:
            session.acceptor.declare(where.name, types)
        session.replies.done(packet.require_response, stays)

    def create(self, packet: CreateQueue) -> None:
        """Make a queue. Raises Refused and what is below it."""
        session = self.session
        where = self._place(packet.address, int(packet.routing))
        if not packet.queue:
            raise CoreRefused("AMQ229205: Queue name cannot be empty", ILLEGAL_STATE)
        name = place(packet.queue, UNTYPED, session.options)
        queue = name.queue or name.name
        if queue in self.broker.table.queues:
            raise CoreRefused(f"AMQ229019: Queue {queue} already exists on address {where.name}", QUEUE_EXISTS)
        owner: Owner | None = None
        if packet.temporary:  # others may send there and read, as the rules for its name say: no more is private
            owner = ConnectionOwner(session.name)
        condition = filter_of(packet.filter)
        definition = replace(
            asked_of(packet),
            name=queue,
            address=where.name,
            routing=where.routing,
            selector="" if condition is None else condition.text,
            durable=packet.durable and not packet.temporary,
            auto_created=packet.auto_created,
            owner=owner,
        )
        self._make(definition, condition)
        if packet.temporary:
            session.need_temporaries()[queue] = None
        session.replies.done(packet.require_response, definition.durable)

    def create_shared(self, packet: CreateSharedQueue) -> None:
        """Make the queue of a shared subscription, unless it is there. Raises Refused and what is below it."""
        session = self.session
        where = self._place(packet.address, int(packet.routing))
        condition = filter_of(packet.filter)
        selector = "" if condition is None else condition.text
        existing = self.broker.table.queues.get(packet.queue)
        if existing is not None:
            had = existing.definition
            if had.address != where.name:
                text = f"AMQ229037: Queue subscription {packet.queue} belongs to a different address {had.address}"
                raise CoreRefused(text, OTHER_SUBSCRIPTION)
            if had.selector != selector:
                text = f"AMQ229038: Queue subscription {packet.queue} has a different filter"
                raise CoreRefused(text, OTHER_SUBSCRIPTION)
            session.replies.done(packet.require_response, existing.durable)
            return
        place(packet.queue, UNTYPED, session.options)
        definition = replace(
            asked_of(packet),
            name=packet.queue,
            address=where.name,
            routing=where.routing,
            selector=selector,
            durable=packet.durable,
            temporary=not packet.durable and where.routing == MULTICAST,  # it goes with its last consumer
        )
        self._make(definition, condition)
        session.replies.done(packet.require_response, definition.durable)

    def _place(self, address: str, octet: int) -> Destination:
        """Return the address of a queue that is to be made, with its routing type."""
        where = place(address, routing_of(octet), self.session.options)
        routing = where.routing
        if routing == UNTYPED:
            routing = default_routing(self.broker.table, where.name)
        return Destination(where.name, MULTICAST if routing == UNTYPED else routing)

    def _make(self, definition: QueueDefinition, condition: Predicate | None) -> None:
        broker = self.broker
        where = Destination(definition.address, definition.routing, False, definition.name)
        broker.access.create(self.session.subject, where)
        policy = broker.policies.of(definition.address, definition.routing)
        temporary = definition.temporary or connection_of(definition.owner) != ""
        if (
            not temporary
            and not policy.given.auto_create_addresses
            and definition.address not in broker.table.addresses
        ):
            raise CoreRefused(f"AMQ229203: Address Does Not Exist: {definition.address}", NO_ADDRESS)
        self.session.acceptor.check_queues(self.session.subject.name)
        broker.queues.create(replace(definition, user=self.session.subject.name), condition)

    def delete(self, packet: DeleteQueue) -> None:
        """Remove a queue that nobody reads. Raises Refused and what is below it."""
        session = self.session
        queue = queue_named(self.broker, packet.queue, session.options)
        if queue is None:
            raise CoreRefused("", NO_QUEUE)
        temporaries = session.temporaries
        mine = temporaries is not None and queue.name in temporaries
        if not mine:
            where = Destination(queue.address, queue.routing, False, queue.name)
            self.broker.access.delete(session.subject, where)
        if queue.roster.readers() > 0:
            text = f"AMQ229025: Cannot delete queue {queue.name} on binding {queue.name} - it has consumers"
            raise CoreRefused(text, ILLEGAL_STATE)
        durable = queue.durable
        self.broker.queues.delete(queue, "a client removed it")
        if temporaries is not None:
            temporaries.pop(queue.name, None)
        session.replies.done(True, durable)


def filter_of(text: str | None) -> Predicate | None:
    """Return the filter that ``text`` is. Raises CoreRefused for what cannot be read."""
    try:
        return selector_or_none(text or "")
    except InvalidSelector as error:
        raise CoreRefused(f"AMQ229020: Invalid filter: {text}: {error.message}", BAD_FILTER) from None


def asked_of(packet: CreateQueue | CreateSharedQueue) -> QueueDefinition:
    """Return the attributes that ``packet`` asks for; where it says nothing, the settings of the address decide.

    Not its name, where it is and whose. Two that every client sends as a number and a flag count as said (5.2.5).
    """
    return QueueDefinition(
        name="",
        address="",
        max_consumers=packet.max_consumers,
        exclusive=packet.exclusive,
        purge_on_no_consumers=packet.purge_on_no_consumers,
        consumers_before_dispatch=packet.consumers_before_dispatch,
        delay_before_dispatch_ms=packet.delay_before_dispatch,
        group_rebalance=packet.group_rebalance,
        group_rebalance_pause=packet.group_rebalance_pause_dispatch,
        group_buckets=packet.group_buckets,
        group_first_key=packet.group_first_key,
        last_value=packet.last_value,
        last_value_key=packet.last_value_key,
        non_destructive=packet.non_destructive,
        ring_size=packet.ring_size,
        enabled=packet.enabled is not False,
        auto_delete=packet.auto_delete,
        auto_delete_delay_ms=packet.auto_delete_delay,
        auto_delete_messages=packet.auto_delete_message_count,
    )


def milliseconds(nanoseconds: int) -> int:
    """Return ms; what is off stays so."""
    return nanoseconds if nanoseconds < 0 else nanoseconds // 1_000_000


def described(broker: BrokerCore, queue: Queue) -> QueueQueryReply:
    """Return what ``queue`` is like."""
    definition = queue.definition
    reply = answered(queue.traits)
    reply.exists = True
    reply.durable = queue.durable
    reply.temporary = connection_of(definition.owner) != "" or queue.temporary
    reply.consumer_count = queue.roster.readers()
    reply.message_count = int(queue.count)
    reply.filter = definition.selector or None
    reply.address = queue.address
    reply.name = queue.name
    reply.auto_create_queues = queue.policy.auto_create
    reply.auto_created = definition.auto_created
    reply.routing = octet_of(queue.routing)
    reply.enabled = definition.enabled
    reply.configuration_managed = definition.configured
    return reply


def imagined(broker: BrokerCore, where: Destination) -> QueueQueryReply:
    """Return what a queue would be like that does not exist."""
    policy = broker.policies.of(where.name)
    reply = answered(policy.of_auto_created)
    reply.durable = True
    reply.address = where.name
    reply.name = where.queue or where.name
    reply.auto_create_queues = policy.auto_create
    reply.routing = octet_of(MULTICAST)
    reply.enabled = None
    return reply


def named_key(traits: Traits) -> str | None:
    """Return the key of last values that somebody named."""
    key = traits.last_value_key
    return None if key in ("", LAST_VALUE_KEY) else key


def answered(traits: Traits) -> QueueQueryReply:
    """Return what a query says of ``traits``."""
    return QueueQueryReply(
        purge_on_no_consumers=traits.purges,
        max_consumers=int(traits.max_consumers),
        exclusive=traits.exclusive,
        last_value=traits.last_value_key != "",
        last_value_key=named_key(traits),
        default_consumer_window=CONSUMER_WINDOW,
        non_destructive=traits.non_destructive,
        consumers_before_dispatch=int(traits.consumers_before_dispatch),
        delay_before_dispatch=milliseconds(int(traits.delay_before_dispatch)),
        group_rebalance=traits.group_rebalance,
        group_rebalance_pause_dispatch=traits.group_rebalance_pause,
        group_buckets=int(traits.group_buckets),
        group_first_key=traits.group_first_key or None,
        auto_delete=traits.auto_delete,
        auto_delete_delay=milliseconds(int(traits.auto_delete_delay)),
        auto_delete_message_count=int(traits.auto_delete_messages),
        ring_size=int(traits.ring_size),
        configuration_managed=False,
    )
