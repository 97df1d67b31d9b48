"""Links over which another broker federates with this one: it fetches what is wanted there, or has it fetched. [C]

The broker that dialled opens a control link first, by the capability ``AMQ_FEDERATION_CONTROL_LINK``, which says that
the connection is one of a federation. Then it reads queues here by links with ``AMQ_FEDERATION_QUEUE_RECEIVER``, and
addresses by links with ``AMQ_FEDERATION_ADDRESS_RECEIVER``, and is told over a link of events of each that it asked for
in vain when that is made (artemis.md 4.13). A policy that comes over the control link, which Artemis calls a remote
one, is carried out here (`Obeying`): this broker asks for such links then, over the same connection.

A queue is read as it is, and nothing is made for it. An address is read by a durable queue that is made for it, which
stays while its reader is cut off, and goes when he says that he wants nothing more of it. What is read settles as for
any reader.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import AccessDenied
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.effort import Rest
from entrepot.core.events.facts import ADDRESS_ADDED, QUEUE_ADDED, AddressFact, Fact, Listener, QueueFact
from entrepot.core.observing import ignore, observe
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.core.queue.queue import MAYBE_DELIVERED, NONE_DELIVERED, Queue
from entrepot.core.security.access import CONSUME, SEND
from entrepot.model.address import MULTICAST, Destination
from entrepot.protocols.amqp.federated import (
    ADDRESS_NAME,
    ADDRESSES,
    BASE,
    CAME_FROM,
    CONTROL,
    EVENT,
    EVENTS,
    NAME,
    OPERATION,
    POLICY,
    PRIORITY,
    QUEUE_NAME,
    QUEUES,
    SOURCE,
    SPOKEN,
    VERSION,
    Federated,
    event_of,
    understood,
)
from entrepot.protocols.amqp.incoming import Arriving
from entrepot.protocols.amqp.large import LargeArrival
from entrepot.protocols.amqp.naming import filters_of, place
from entrepot.protocols.amqp.outgoing import Outgoing
from entrepot.protocols.amqp.performatives import Attach, Detach, Flow, Modified, Source, Target, Transfer
from entrepot.protocols.amqp.primitives import INT_4, UINT_MAX, Exact
from entrepot.protocols.amqp.refusals import (
    ILLEGAL_STATE,
    INVALID_FIELD,
    LIMIT,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    AmqpRefused,
)
from entrepot.protocols.amqp.session import AmqpConnection, AmqpSession, Link, Obeying

TOLD_A_TURN: Final = 500  # a millisecond or two
COMMAND_OCTETS_MOST: Final = 256 << 10  # of a policy
PRIORITY_MOST: Final = (1 << 31) - 1
OWN_QUEUES: Final = ("federation.", "federation-")
"""How the queues begin by which brokers read addresses; those of the second kind are named after their links."""


def attach_sender(session: AmqpSession, asked: Attach, target: Target) -> None:
    """The other broker attaches a link over which it says something. Raises Refused."""
    if EVENTS in asked.desired_capabilities:
        _attach_hearing(session, asked, target)
        return
    if CONTROL not in asked.desired_capabilities:
        raise AmqpRefused("a broker that federates says commands, and events, and nothing else", NOT_IMPLEMENTED)
    connection = session.connection
    access, subject = connection.broker.access, connection.subject
    if not access.has_right(subject, BASE, SEND):
        raise AccessDenied(
            f"User {subject.name} is not authorized to send to: queue://{BASE}, which a federation has to be",
            remedy="give its group that right, or federate as another user",
        )
    if not target.dynamic:
        raise AmqpRefused("the target of a control link is to be a dynamic node", INVALID_FIELD)
    if connection.federated:  # each keeps what it waits for
        raise AmqpRefused("this connection has the control link of a federation already", ILLEGAL_STATE)
    said = (asked.properties or {}).get(NAME)
    link = Control(session, asked, said if isinstance(said, str) else asked.name)
    session.links[int(asked.handle)] = link
    session.federated = link.federated
    connection.federated = True
    answer = _receiving(asked, target, CONTROL)
    answer.properties = {VERSION: Exact(INT_4, SPOKEN)}
    session.say(answer)
    link.replenish()


def attach_reader(session: AmqpSession, asked: Attach, source: Source) -> None:
    """The other broker attaches a link over which it is told, or reads. Raises Refused."""
    federated = session.federated
    if federated is None:
        raise AmqpRefused("a link of a federation comes where no control link is", ILLEGAL_STATE)
    if EVENTS in asked.desired_capabilities:
        _attach_events(session, federated, asked, source)
    elif QUEUES in asked.desired_capabilities:
        _attach_queue(session, federated, asked, source)
    elif ADDRESSES in asked.desired_capabilities:
        _attach_address(session, federated, asked, source)
    else:
        raise AmqpRefused("a federation reads queues and addresses, and nothing else", NOT_IMPLEMENTED)


def _receiving(asked: Attach, target: Target, capability: str) -> Attach:
    """Return the answer to a link over which something is said to this broker, by a node that is made for it."""
    made = Target(address=asked.name, dynamic=True, capabilities=target.capabilities)
    answer = Attach(name=asked.name, handle=asked.handle, role=True, source=asked.source, target=made)
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.offered_capabilities = [capability]
    return answer


class Served(Federated):
    """A federation of the broker that dialled: it may what its user may."""

    def __init__(self, name: str, connection: AmqpConnection) -> None:
        super().__init__(name, connection.other())
        self.connection: AmqpConnection = connection

    def admit(self, where: Destination, policy: str) -> None:
        """Raise AccessDenied for who may not read what is at an address: he hears nothing of its queues."""
        connection = self.connection
        broker = connection.broker
        if where.queue in broker.table.queues:
            broker.access.consume(connection.subject, [where], False)
        elif not broker.access.has_right(connection.subject, where.name, CONSUME):
            raise AccessDenied(
                f"User {connection.subject.name} is not authorized to read from: queue://{where.name}",
                remedy="give its group that right, or let no policy there name it",
            )

    def admit_making(self, where: Destination) -> None:
        """Raise AccessDenied for who may not make a queue."""
        self.connection.broker.access.create(self.connection.subject, where)


class Control(Arriving):
    """The link by which a connection is one of a federation."""

    def __init__(self, session: AmqpSession, asked: Attach, federation: str) -> None:
        super().__init__(session, asked.name, asked.handle, False, max(asked.initial_delivery_count, i64(0)))
        self.federated: Federated = Served(federation, session.connection)
        self.properties: dict[str, object] = {"name": federation, **(asked.properties or {})}
        self.obeying: Obeying | None = None

    def sends(self) -> bool:
        """Return False: what comes over it goes to no address."""
        return False

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """A command comes. Raises Refused where it cannot be carried out."""
        if large is not None:
            large.finish()
        if large is not None or len(octets) > COMMAND_OCTETS_MOST:
            raise AmqpRefused(f"a command has more than {COMMAND_OCTETS_MOST} octets", LIMIT)
        kind, said = understood(octets, OPERATION)
        obeying = self.obeying
        if obeying is None:
            make = self.connection.obeys
            obeying = Obeying() if make is None else make(self.session, self.properties)
            self.obeying = obeying
        obeying.order(kind, said)
        if not settled:
            self.session.accept(delivery, True)

    def mirrors(self) -> dict[str, object] | None:
        """Return what is carried out here for the other broker; None: nothing is."""
        return None if self.obeying is None else self.obeying.report()

    def end(self, last_delivered: i64) -> None:
        """The connection is none of a federation any more."""
        super().end(last_delivered)
        self.connection.federated = False
        self.session.federated = None
        self.federated.forget()
        obeying, self.obeying = self.obeying, None
        if obeying is not None:
            obeying.end()


# -- events ------------------------------------------------------------------------------------------------------------


class _Ears(Listener):
    """Hears of queues and addresses that are made. A part, as a class has one base."""

    def __init__(self, telling: Telling) -> None:
        super().__init__(QUEUE_ADDED | ADDRESS_ADDED)
        self.telling: Telling = telling

    def heard(self, fact: Fact) -> None:
        """One was made: perhaps one that was asked for."""
        telling = self.telling
        if isinstance(fact, QueueFact):
            if telling.federated.has_queue_now(fact.place.name):
                telling.add(fact.place.name, fact.place.address)
            if telling.federated.has_address_now(fact.place.address):  # an address is there with its first queue
                telling.add("", fact.place.address)
        elif isinstance(fact, AddressFact) and telling.federated.has_address_now(fact.address):
            telling.add("", fact.address)


class _Later(Rest):
    """Writes what is to be told when the queue is made in whole."""

    def __init__(self, telling: Telling) -> None:
        super().__init__()
        self.telling: Telling = telling

    def resume(self) -> None:
        self.telling.tell()


class Telling:
    """What the other broker is told over a link of events of this side. ``due``: queues, addresses, not told yet."""

    def __init__(self, link: Link, federated: Federated) -> None:
        self.link: Link = link
        self.federated: Federated = federated
        self.due: dict[tuple[str, str], None] = {}
        self.credit: i64 = 0
        self.count: i64 = 0
        self.ended: bool = False
        self.ears: _Ears = _Ears(self)
        self.later: _Later = _Later(self)

    def begin(self) -> None:
        """Hear of what is made."""
        self.federated.told = True
        observe(self.link.session.connection.broker, self.ears)

    def add(self, queue: str, address: str) -> None:
        """What was asked for is there."""
        self.due[queue, address] = None
        self.link.session.connection.broker.effort.later(self.later)

    def tell(self) -> None:
        """Write some of what is due, as far as credit and the session's window allow. What is told settles itself."""
        session = self.link.session
        left = TOLD_A_TURN
        while self.due and self.credit > 0 and session.window > 0 and not self.ended:
            if left == 0:
                session.connection.broker.effort.later(self.later)
                return
            left -= 1
            queue, address = next(iter(self.due))
            del self.due[queue, address]
            self.count = (self.count + 1) & UINT_MAX
            self.credit -= 1
            say_settled(self.link, event_of(queue, address))

    def end(self) -> None:
        """Nothing more is told."""
        if not self.ended:
            self.ended = True
            self.federated.told = False
            self.due.clear()
            ignore(self.link.session.connection.broker, self.ears)


def say_settled(link: Link, octets: bytes) -> None:
    """Write a message that nobody answers, in one frame. The link has credit, and the session a window."""
    session = link.session
    outlet = session.connection.outlet
    delivery = session.next_delivery
    session.next_delivery = (delivery + 1) & UINT_MAX
    session.connection.encoder.transfer(outlet.out, session.channel, link.handle, delivery, True, False, octets)
    session.sent_frame()
    outlet.note()


def _attach_events(session: AmqpSession, federated: Federated, asked: Attach, source: Source) -> None:
    if not source.dynamic:
        raise AmqpRefused("the source of a link of events is to be a dynamic node", INVALID_FIELD)
    if federated.told:
        raise AmqpRefused("there is a link of events already", ILLEGAL_STATE)
    link = Events(session, federated, asked.name, asked.handle)
    session.links[int(asked.handle)] = link
    link.telling.begin()
    said = Source(address=asked.name, dynamic=True, capabilities=source.capabilities)
    answer = Attach(name=asked.name, handle=asked.handle, role=False, source=said, target=asked.target)
    answer.initial_delivery_count = 0
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.offered_capabilities = [EVENTS]
    session.say(answer)


class Events(Link):
    """The link over which the other broker is told."""

    def __init__(self, session: AmqpSession, federated: Federated, name: str, handle: i64) -> None:
        super().__init__(session, name, handle)
        self.telling: Telling = Telling(self, federated)

    def flow(self, flow: Flow) -> None:
        """The other broker wants to be told so often."""
        telling = self.telling
        if flow.link_credit >= 0:
            base: i64 = 0 if flow.delivery_count < 0 else flow.delivery_count
            ahead = (telling.count - base) & UINT_MAX
            telling.credit = max(flow.link_credit - (0 if ahead > UINT_MAX // 2 else ahead), i64(0))
            telling.tell()
        if flow.echo:
            self.session.link_flow(self.handle, telling.count, telling.credit, -1, False)

    def relieved(self) -> None:
        """The session takes frames again."""
        self.telling.tell()

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Nothing may come here."""
        raise AmqpRefused("a transfer came over a link whose sender is this broker", NOT_ALLOWED)

    def detach(self, detach: Detach) -> None:
        """The other broker wants to hear no more."""
        self.end(0)
        self.session.answer()
        self.session.say(Detach(handle=self.handle, closed=True))

    def end(self, last_delivered: i64) -> None:
        """Nothing more is told."""
        self.telling.end()


def _attach_hearing(session: AmqpSession, asked: Attach, target: Target) -> None:
    """The other broker is to tell of what is made there: this one fetches for a policy of it. Raises AmqpRefused."""
    control = control_of(session)
    if control is None:
        raise AmqpRefused("a link of a federation comes where no control link is", ILLEGAL_STATE)
    if not target.dynamic:
        raise AmqpRefused("the target of a link of events is to be a dynamic node", INVALID_FIELD)
    link = Hearing(control, asked)
    session.links[int(asked.handle)] = link
    session.say(_receiving(asked, target, EVENTS))
    link.replenish()


def control_of(session: AmqpSession) -> Control | None:
    """Return the control link of a session; None: it is none of a federation that was brought here."""
    for link in session.links.values():  # it comes before all others
        if isinstance(link, Control) and not link.ended:
            return link
    return None


class Hearing(Arriving):
    """The link over which the other broker tells what was made there."""

    def __init__(self, control: Control, asked: Attach) -> None:
        super().__init__(control.session, asked.name, asked.handle, False, max(asked.initial_delivery_count, i64(0)))
        self.control: Control = control

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """Something was made there. Raises AmqpRefused for what is no event."""
        if large is not None:
            large.finish()
            raise AmqpRefused("an event is no large message", LIMIT)
        _, said = understood(octets, EVENT)
        address, queue = said.get(ADDRESS_NAME), said.get(QUEUE_NAME, "")
        if not isinstance(address, str) or not isinstance(queue, str):
            raise AmqpRefused("an event does not say what was made", INVALID_FIELD)
        obeying = self.control.obeying
        if obeying is not None:
            obeying.made(address, queue)
        if not settled:
            self.session.accept(delivery, True)


# -- queues ------------------------------------------------------------------------------------------------------------


def _attach_queue(session: AmqpSession, federated: Federated, asked: Attach, source: Source) -> None:
    where, queue = _wanted(session, federated, asked, source)
    filters = filters_of(source)
    if filters.selector is not None and filters.selector.text == queue.definition.selector:
        filters.selector = None  # the queue has let in nothing else
    link = Fetched(session, asked, where, federated)
    feed = link.feed
    feed.selector = filters.selector
    feed.priority = _priority_of(asked)
    _read(link, asked, source, QUEUES)


def _read(link: Fetched, asked: Attach, source: Source, capability: str) -> None:
    """Let the other broker read by ``link``, and answer what it asked."""
    session = link.session
    connection = session.connection
    feed = link.feed
    feed.kind = INCOMING_BRIDGE
    feed.origin = connection.number
    feed.connection = connection.client_id or connection.container_id or connection.peer
    feed.client_id = connection.container_id
    feed.peer = connection.peer
    feed.user = connection.subject.name
    feed.session_name = str(session.channel)
    feed.consumer_number = link.handle
    connection.broker.subscribe(feed)
    session.links[int(asked.handle)] = link
    session.feeds[feed] = None
    feed.outlet.feed(feed)
    said = Source(
        address=source.address, durable=source.durable, expiry_policy=source.expiry_policy, timeout=source.timeout,
        capabilities=source.capabilities, filter=filters_of(source).kept or None,
        default_outcome=Modified(delivery_failed=True), outcomes=source.outcomes,
    )  # fmt: skip
    answer = Attach(
        name=asked.name, handle=asked.handle, role=False, source=said, target=asked.target, initial_delivery_count=0
    )
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.rcv_settle_mode = asked.rcv_settle_mode
    answer.offered_capabilities = [capability]
    if link.made:
        link.answer_when_stored(answer)  # what is sent there from then on waits for him, whatever falls
    else:
        session.say(answer)


def _place(session: AmqpSession, source: Source) -> Destination:
    """Return what is to be read. Raises Refused."""
    connection = session.connection
    if connection.readers() >= connection.options.readers_max:
        raise AmqpRefused(f"{connection.options.readers_max} links read over this connection", LIMIT)
    return place(source.address, source.capabilities, connection.options, connection.broker)


def _wanted(session: AmqpSession, federated: Federated, asked: Attach, source: Source) -> tuple[Destination, Queue]:
    """Return the queue that is to be read, which must be there. Raises Refused."""
    broker = session.connection.broker
    where = _place(session, source)
    name = where.queue or where.name
    queue = broker.table.queues.get(name)
    found = where.name if where.queue or queue is None else queue.address
    federated.admit(Destination(found, where.routing, False, name), policy_of(asked))
    if queue is None or queue.temporary or (where.queue != "" and queue.address != where.name):
        federated.lacks(name)
        raise AmqpRefused(f"there is no queue {name!r} of the address {where.name!r}", NOT_FOUND)
    return Destination(queue.address, queue.routing, False, name), queue


def policy_of(asked: Attach) -> str:
    """Return the name of the policy that a link is for; "" where it says none."""
    said = (asked.properties or {}).get(POLICY)
    return said if isinstance(said, str) else ""


def _priority_of(asked: Attach) -> int:
    """Return the priority among the readers of a queue that the other broker wants. Raises AmqpRefused."""
    said = (asked.properties or {}).get(PRIORITY)
    if said is None:
        return 0
    if not isinstance(said, int) or not -PRIORITY_MOST <= said <= PRIORITY_MOST:
        raise AmqpRefused(f"{said!r} is no priority of a consumer", INVALID_FIELD)
    return said


class Fetched(Outgoing):
    """A link over which another broker reads a queue of this one. ``made``: for it, to read an address."""

    def __init__(self, session: AmqpSession, asked: Attach, where: Destination, federated: Federated) -> None:
        super().__init__(session, asked.name, asked.handle, where, False)
        self.federated: Federated = federated
        self.made: bool = False

    def took_away(self, why: str) -> None:
        """The queue was deleted: it is read again when it, or its address, is made anew."""
        if not self.ended:
            where = self.feed.destinations[0]
            if self.made:
                self.federated.lacks_address(where.name)
            else:
                self.federated.lacks(where.queue)
        super().took_away(why)

    def seen_when(self, detach: Detach) -> i64:
        """Return what the other broker had of what it has not settled: anything, where the link ends in the midst.

        Where nobody wants it any more, it has answered first what it took.
        """
        return NONE_DELIVERED if detach.error is None else MAYBE_DELIVERED

    def detach(self, detach: Detach) -> None:
        """The other broker reads no more; the queue that is here for it alone goes."""
        super().detach(detach)
        if self.made and detach.closed and detach.error is None:
            queues = self.session.connection.broker.queues
            queue = queues.table.queues.get(self.feed.destinations[0].queue)
            if queue is not None and not queue.roster.is_read():
                queues.delete(queue, "the broker that read its address by it wants nothing more of it")


# -- addresses ---------------------------------------------------------------------------------------------------------


def _attach_address(session: AmqpSession, federated: Federated, asked: Attach, source: Source) -> None:
    """Let an address be read: by a queue that the link names, or that is named after it. Raises Refused."""
    where = _place(session, source)
    name = where.queue or asked.name
    if not name.startswith(OWN_QUEUES):
        what = " or ".join(OWN_QUEUES)
        raise AmqpRefused(f"a queue by which an address is read begins with {what}, not as {name!r}", NOT_ALLOWED)
    federated.admit(Destination(where.name, MULTICAST), policy_of(asked))
    reading = Destination(where.name, MULTICAST, False, name)
    _need_address(session, federated, where.name)
    _need_queue(session, federated, asked, source, reading)
    link = Fetched(session, asked, reading, federated)
    link.made = True
    _read(link, asked, source, ADDRESSES)


def _need_address(session: AmqpSession, federated: Federated, name: str) -> None:
    """See that an address of multicast is there, or may be made. Raises AmqpRefused: it is told of when it is.

    One that only has queues of anycast is none unless it was made for those alone: it may have both.
    """
    broker = session.connection.broker
    types = broker.table.declared.get(name, 0)
    there = name in broker.table.addresses
    if there and (types == 0 or types & 1):
        return
    if not there and broker.queues.policies.of(name, MULTICAST).given.auto_create_addresses:
        return
    federated.lacks_address(name)
    raise AmqpRefused(f"there is no address {name!r} of multicast", NOT_FOUND)


def _need_queue(session: AmqpSession, federated: Federated, asked: Attach, source: Source, where: Destination) -> None:
    """See that the queue is there by which an address is read; it outlives the link. Raises Refused."""
    connection = session.connection
    broker = connection.broker
    queue = broker.table.queues.get(where.queue)
    if queue is not None:
        if queue.address != where.name or queue.routing != MULTICAST:
            raise AmqpRefused(f"the queue {where.queue!r} is of another address, {queue.address!r}", NOT_ALLOWED)
        return
    federated.admit_making(where)
    filters = filters_of(source)
    selector = "" if filters.selector is None else filters.selector.text
    if filters.no_local:
        peer = federated.peer.replace("'", "''")
        own = f'("m.{CAME_FROM}" IS NULL OR "m.{CAME_FROM}"<>\'{peer}\')'
        selector = f"({selector}) AND {own}" if selector else own
    said = (asked.properties or {}).get(SOURCE)
    ends = said if isinstance(said, dict) else {}
    broker.queues.create(
        QueueDefinition(
            name=where.queue,
            address=where.name,
            routing=MULTICAST,
            selector=selector,
            user=connection.subject.name,
            auto_delete=ends.get("auto-delete") is True,
            auto_delete_delay_ms=_whole(ends.get("auto-delete-delay")),
            auto_delete_messages=_whole(ends.get("auto-delete-msg-count")),
        )
    )


def _whole(said: object) -> int:
    return int(said) if isinstance(said, int) and -1 <= said <= 1 << 40 else 0
