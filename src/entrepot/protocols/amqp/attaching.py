"""Links: what an attach asks for, what it gets, and why not. [C]

An attach that is refused is answered by one without source, or without target, and a detach that says why (2.6.3).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import AccessDenied, EntrepotError, InvalidDestination, Refused, StorageError
from entrepot.core.addressing.definition import QueueDefinition, temporary
from entrepot.core.events.facts import TEMPORARY_TOPIC_ADDED, AddressFact
from entrepot.core.mirrors.identity import MIRROR
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.protocols.amqp.coordinating import Coordinating
from entrepot.protocols.amqp.incoming import Arriving, Incoming
from entrepot.protocols.amqp.naming import (
    COPY,
    NEVER,
    TEMPORARY_QUEUE,
    TEMPORARY_TOPIC,
    TOPIC,
    Filters,
    Subscribed,
    filters_of,
    is_topic,
    looked_up,
    place,
    priority_of,
    routing_of,
)
from entrepot.protocols.amqp.outgoing import Outgoing
from entrepot.protocols.amqp.performatives import Attach, Coordinator, Modified, Source, Target
from entrepot.protocols.amqp.refusals import (
    HANDLE_IN_USE,
    LIMIT,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    AmqpRefused,
)
from entrepot.protocols.amqp.session import AmqpSession

OUTCOMES: Final = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
FEDERATION: Final = "AMQ_FEDERATION_"  # capabilities of links
SETTLED: Final = 1  # snd-settle-mode
SECOND: Final = 1  # rcv-settle-mode
TRANSACTIONS: Final = ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"]


def attach(session: AmqpSession, asked: Attach) -> None:
    """Attach a link, or say why not. Raises AmqpRefused for what ends the session."""
    handle = int(asked.handle)
    if handle in session.links or handle in session.quiet:
        raise AmqpRefused(f"the handle {handle} is in use", HANDLE_IN_USE)
    options = session.connection.options
    if handle > options.handle_max:
        raise AmqpRefused(f"the handle {handle} is above {options.handle_max}", NOT_ALLOWED)
    try:
        if asked.unsettled:
            raise AmqpRefused("a link with unsettled deliveries cannot be resumed here", NOT_IMPLEMENTED)
        if asked.role:
            _reader(session, asked)
        elif isinstance(asked.target, Coordinator):
            _coordinator(session, asked)
        else:
            _sender(session, asked)
    except (Refused, StorageError) as error:
        refuse(session, asked, error)


def refuse(session: AmqpSession, asked: Attach, error: EntrepotError) -> None:
    """Answer with a link that leads nowhere, and take it away."""
    answer = Attach(name=asked.name, handle=asked.handle, role=not asked.role)
    if asked.role:
        answer.target = asked.target
        answer.initial_delivery_count = 0
    else:
        answer.source = asked.source
    session.say(answer)
    dead = Coordinating(session, asked.name, asked.handle, 0)
    session.links[int(asked.handle)] = dead
    dead.detach_for(error)


# -- the client sends ----------------------------------------------------------------------------------------------


def _coordinator(session: AmqpSession, asked: Attach) -> None:
    link = Coordinating(session, asked.name, asked.handle, max(asked.initial_delivery_count, i64(0)))
    session.links[int(asked.handle)] = link
    answer = Attach(name=asked.name, handle=asked.handle, role=True, source=asked.source)
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.target = Coordinator(capabilities=TRANSACTIONS)
    session.say(answer)
    link.replenish()


def _sender(session: AmqpSession, asked: Attach) -> None:
    """The client attaches a sender. Raises Refused, StorageError."""
    connection = session.connection
    target = asked.target
    if not isinstance(target, Target):
        raise AmqpRefused("a link to no target", NOT_ALLOWED, remedy="say where its messages go")
    if isinstance(target.address, str) and target.address.startswith(MIRROR):
        from entrepot.protocols.amqp.mirroring import attach_mirror  # noqa: PLC0415 - few brokers are mirrored

        attach_mirror(session, asked, target)
        return
    if is_federation(asked):
        from entrepot.protocols.amqp.federating import attach_sender  # noqa: PLC0415 - few brokers are federated

        attach_sender(session, asked, target)
        return
    where: Destination | None = None
    dynamic = ""
    said = Target(
        address=target.address, durable=target.durable, expiry_policy=target.expiry_policy,
        capabilities=target.capabilities, timeout=target.timeout,
    )  # fmt: skip
    if target.dynamic:
        dynamic, where = _make(session, target.capabilities, target.dynamic_node_properties)
        said.address = dynamic
        said.dynamic = True
        said.dynamic_node_properties = target.dynamic_node_properties
    elif target.address is not None and target.address != "":
        where = place(target.address, target.capabilities, connection.options, connection.broker)
    count = max(asked.initial_delivery_count, i64(0))
    second = asked.rcv_settle_mode == SECOND
    link: Arriving = Incoming(session, asked.name, asked.handle, second, count, where)
    link.dynamic = dynamic
    session.links[int(asked.handle)] = link
    answer = Attach(name=asked.name, handle=asked.handle, role=True, source=asked.source, target=said)
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.rcv_settle_mode = asked.rcv_settle_mode
    answer.offered_capabilities = [word for word in asked.desired_capabilities if word == "DELAYED_DELIVERY"]
    session.say(answer)
    link.replenish()


def is_federation(asked: Attach) -> bool:
    """Return whether another broker asks for the link, to federate with this one."""
    return any(word.startswith(FEDERATION) for word in asked.desired_capabilities)


def _make(
    session: AmqpSession, capabilities: list[str], properties: dict[str, object] | None
) -> tuple[str, Destination]:
    """Make a dynamic node: a temporary queue, or topic. Return its name, and what it is. Raises Refused."""
    connection = session.connection
    broker = connection.broker
    routing, _ = routing_of(capabilities)
    topic = routing == MULTICAST or TOPIC in capabilities
    name = broker.ids.temporary_name(connection.number, "amqp")
    where = Destination(name, MULTICAST if topic else ANYCAST, True)
    broker.access.create(connection.subject, where)
    if topic:
        broker.hub.announce(AddressFact(TEMPORARY_TOPIC_ADDED, name, MULTICAST))
    else:
        broker.queues.create(temporary(name, str(connection.number)))
    connection.temporaries[name] = where.routing
    return name, where


# -- the client reads ----------------------------------------------------------------------------------------------


def _reader(session: AmqpSession, asked: Attach) -> None:
    """The client attaches a receiver. Raises Refused, StorageError."""
    connection = session.connection
    broker = connection.broker
    if connection.readers() >= connection.options.readers_max:
        raise AmqpRefused(f"{connection.options.readers_max} links read over this connection", LIMIT)
    source = asked.source
    if source is None:
        _look_up(session, asked)
        return
    if not isinstance(source, Source):
        raise AmqpRefused("a link from no source", NOT_ALLOWED, remedy="say where its messages come from")
    if is_federation(asked):
        from entrepot.protocols.amqp.federating import attach_reader  # noqa: PLC0415 - few brokers are federated

        attach_reader(session, asked, source)
        return
    filters = filters_of(source)
    said = Source(
        address=source.address, durable=source.durable, expiry_policy=source.expiry_policy, timeout=source.timeout,
        distribution_mode=source.distribution_mode, capabilities=source.capabilities,
        filter=filters.kept or None, default_outcome=Modified(delivery_failed=True), outcomes=OUTCOMES,
    )  # fmt: skip
    dynamic = ""
    if source.dynamic:
        dynamic, where = _make(session, source.capabilities, source.dynamic_node_properties)
        said.address = dynamic
        said.dynamic = True
        said.dynamic_node_properties = source.dynamic_node_properties
    else:
        where = place(source.address, source.capabilities, connection.options, broker)
    _own(session, source, where)
    link = Outgoing(session, asked.name, asked.handle, where, asked.snd_settle_mode == SETTLED)
    link.dynamic = dynamic
    _describe(link, filters)
    topic = is_topic(where, broker)
    browses = source.distribution_mode == COPY and not topic
    if browses:
        broker.access.browse(connection.subject, where)
        link.feed.browser = broker.reading.browse([where], filters.selector)
    else:
        _subscribe(session, asked, source, link, topic)
    session.links[int(asked.handle)] = link
    session.feeds[link.feed] = None
    feed = link.feed
    feed.outlet.feed(feed)
    answer = Attach(
        name=asked.name, handle=asked.handle, role=False, source=said, target=asked.target, initial_delivery_count=0
    )
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.rcv_settle_mode = asked.rcv_settle_mode
    if link.durable:
        link.answer_when_stored(answer)  # what is sent from then on waits for the reader, whatever falls
    else:
        session.say(answer)


def _own(session: AmqpSession, source: Source, where: Destination) -> None:
    """Raise AccessDenied for a temporary destination that another connection made, however it is to be read.

    Where everybody may do everything its plain name is enough, as it is for Artemis, and InvalidDestination says what
    is gone; elsewhere nobody learns which there are.
    """
    connection = session.connection
    if not where.temporary or where.queue or where.name in connection.temporaries:
        return
    broker = connection.broker
    if not broker.access.guarded and where.name not in broker.table.addresses:
        raise InvalidDestination(f"the temporary destination {where.name!r} does not exist (any more)")
    said_so = TEMPORARY_QUEUE in source.capabilities or TEMPORARY_TOPIC in source.capabilities
    if said_so or broker.access.guarded:
        raise AccessDenied(f"the temporary destination {where.name!r} is read by the connection that made it")


def _describe(link: Outgoing, filters: Filters) -> None:
    """Say who reads, for operators and rights."""
    connection = link.session.connection
    feed = link.feed
    feed.selector = filters.selector
    feed.no_local = filters.no_local
    feed.priority = priority_of(feed.destinations[0])
    feed.origin = connection.number
    feed.connection = connection.client_id or connection.container_id or connection.peer
    feed.peer = connection.peer
    feed.user = connection.subject.name
    feed.session_name = str(link.session.channel)
    feed.consumer_number = link.handle


def _subscribe(session: AmqpSession, asked: Attach, source: Source, link: Outgoing, topic: bool) -> None:
    connection = session.connection
    broker = connection.broker
    feed = link.feed
    where = feed.destinations[0]
    feed.client_id = connection.container_id
    named = Subscribed(asked.name, source, connection.container_id) if topic else None
    durable = named is not None and named.durable and not where.temporary
    broker.access.consume(connection.subject, [where], durable)
    if named is not None and durable:
        broker.access.forget(connection.subject, broker.reading.durable(named.client_id, named.name))
        feed.durable_name = named.name
        feed.client_id = named.client_id
        feed.shared = named.shared
        link.durable = named.name
        link.client_id = named.client_id
    elif named is not None and named.shared:
        where = _volatile(session, named, link)
        feed.destinations[0] = where
        feed.selector = None
    broker.subscribe(feed)


def _volatile(session: AmqpSession, named: Subscribed, link: Outgoing) -> Destination:
    """Return the queue of a shared subscription that goes with its last reader, made if it is not there."""
    connection = session.connection
    broker = connection.broker
    where = link.feed.destinations[0]
    name = named.volatile_queue()
    selector = link.feed.selector
    text = "" if selector is None else selector.text
    existing = broker.table.queues.get(name)
    if existing is not None and (existing.definition.address != where.name or existing.definition.selector != text):
        raise AmqpRefused(
            f"the shared subscription {named.name!r} has another topic or selector, and readers", NOT_ALLOWED
        )
    if existing is None:
        definition = QueueDefinition(
            name=name, address=where.name, routing=MULTICAST, selector=text, durable=False, temporary=True,
            user=connection.subject.name,
        )  # fmt: skip
        broker.queues.create(definition, selector)
    return Destination(where.name, MULTICAST, False, name)


def _look_up(session: AmqpSession, asked: Attach) -> None:
    """A link without a source: the client asks what its durable subscription reads, to close it. Raises AmqpRefused."""
    connection = session.connection
    client_id, name = looked_up(asked.name, connection.container_id)
    queue = connection.broker.reading.durable(client_id, name)
    if queue is None:
        raise AmqpRefused(f"there is no durable subscription {name!r}", NOT_FOUND)
    where = Destination(queue.address, MULTICAST)
    link = Outgoing(session, asked.name, asked.handle, where, False)
    link.durable = name
    link.client_id = client_id
    session.links[int(asked.handle)] = link
    source = Source(
        address=queue.address, durable=2, expiry_policy=NEVER, distribution_mode=COPY, capabilities=[TOPIC],
        outcomes=OUTCOMES, default_outcome=Modified(delivery_failed=True),
    )  # fmt: skip
    answer = Attach(name=asked.name, handle=asked.handle, role=False, source=source, target=asked.target)
    answer.initial_delivery_count = 0
    session.say(answer)
