"""Links over which another broker federates its queues with those of this one: it fetches what is wanted there. [C]

The broker that dialled opens a control link first, by the capability ``AMQ_FEDERATION_CONTROL_LINK``, which says that
the connection is one of a federation. Then it reads queues here by links with ``AMQ_FEDERATION_QUEUE_RECEIVER``, and is
told over a link of events of each queue that it asked for in vain when that is made (artemis.md 4.13).

Nothing is made here by such links, and what is read settles as for any reader. Policies that are to be carried out at
this broker, which Artemis calls remote ones, are not: a command that comes over the control link ends that, by name.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import AccessDenied
from entrepot.core.effort import Rest
from entrepot.core.events.facts import QUEUE_ADDED, Fact, Listener, QueueFact
from entrepot.core.observing import ignore, observe
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.core.queue.queue import Queue
from entrepot.core.security.access import CONSUME, SEND
from entrepot.model.address import Destination
from entrepot.protocols.amqp.incoming import Arriving
from entrepot.protocols.amqp.large import LargeArrival
from entrepot.protocols.amqp.naming import filters_of, place
from entrepot.protocols.amqp.outgoing import Outgoing
from entrepot.protocols.amqp.performatives import Attach, Detach, Flow, Modified, Source, Target, Transfer
from entrepot.protocols.amqp.primitives import INT_4, UINT_MAX, Exact, symbol
from entrepot.protocols.amqp.refusals import (
    ILLEGAL_STATE,
    INVALID_FIELD,
    LIMIT,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    AmqpRefused,
)
from entrepot.protocols.amqp.sections import MESSAGE_ANNOTATIONS, VALUE, put_descriptor, write_table
from entrepot.protocols.amqp.session import AmqpSession, Link
from entrepot.protocols.amqp.writing import write_value

BASE: Final = "$ACTIVEMQ_ARTEMIS_FEDERATION"
"""Who may send to this address may federate."""
CONTROL: Final = "AMQ_FEDERATION_CONTROL_LINK"
EVENTS: Final = "AMQ_FEDERATION_EVENT_LINK"
QUEUES: Final = "AMQ_FEDERATION_QUEUE_RECEIVER"
VERSION: Final = "federation_version"
NAME: Final = "federationName"
POLICY: Final = "federationPolicyName"
PRIORITY: Final = "priority"
SPOKEN: Final = 1
"""The version of this side: the second one has more about addresses. An Artemis takes nothing but an int for it."""
EVENT: Final = "x-opt-amq-federation-ev-type"
QUEUE_MADE: Final = "REQUESTED_QUEUE_ADDED_EVENT"
ADDRESS_NAME: Final = "REQUESTED_ADDRESS_NAME"
QUEUE_NAME: Final = "REQUESTED_QUEUE_NAME"
MISSING_MOST: Final = 10_000
"""Queues of one connection that are waited for; of others it is not told."""
MISSING_CHARACTERS: Final = 1 << 20
"""Of their names together."""
TOLD_A_TURN: Final = 500  # a millisecond or two
PRIORITY_MOST: Final = (1 << 31) - 1


def attach_sender(session: AmqpSession, asked: Attach, target: Target) -> None:
    """The other broker attaches a link over which it says something. Raises Refused."""
    if CONTROL not in asked.desired_capabilities:
        raise AmqpRefused("events are told by the side that was dialled, to the one that dialled", NOT_IMPLEMENTED)
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
    connection.federated = True
    made = Target(address=asked.name, dynamic=True, capabilities=target.capabilities)
    answer = Attach(name=asked.name, handle=asked.handle, role=True, source=asked.source, target=made)
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.offered_capabilities = [CONTROL]
    answer.properties = {VERSION: Exact(INT_4, SPOKEN)}
    session.say(answer)
    link.replenish()


def attach_reader(session: AmqpSession, asked: Attach, source: Source) -> None:
    """The other broker attaches a link over which it is told, or reads. Raises Refused."""
    control = control_of(session)
    if control is None:
        raise AmqpRefused("a link of a federation comes where no control link is", ILLEGAL_STATE)
    if EVENTS in asked.desired_capabilities:
        _attach_events(control, asked, source)
    elif QUEUES in asked.desired_capabilities:
        _attach_queue(control, asked, source)
    else:
        raise AmqpRefused("addresses are not federated over AMQP here", NOT_IMPLEMENTED, remedy="federate queues")


def control_of(session: AmqpSession) -> Control | None:
    """Return the control link of a session; None: it is none of a federation."""
    for link in session.links.values():  # it comes before all others
        if isinstance(link, Control) and not link.ended:
            return link
    return None


class Control(Arriving):
    """The link by which a connection is one of a federation.

    ``missing``: queues that are read as soon as they are; ``characters``: of their names.
    """

    def __init__(self, session: AmqpSession, asked: Attach, federation: str) -> None:
        super().__init__(session, asked.name, asked.handle, False, max(asked.initial_delivery_count, i64(0)))
        self.federation: str = federation
        self.missing: dict[str, None] = {}
        self.characters: i64 = 0
        self.events: Events | None = None

    def sends(self) -> bool:
        """Return False: what comes over it goes to no address."""
        return False

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """A command comes. Raises AmqpRefused: there is none that can be carried out."""
        if large is not None:
            large.finish()
        raise AmqpRefused(
            f"the federation {self.federation} has a policy that this broker is to carry out, which it cannot",
            NOT_IMPLEMENTED,
            remedy="take remote-queue-policy and remote-address-policy out, and write a local one at this broker",
        )

    def end(self, last_delivered: i64) -> None:
        """The connection is none of a federation any more."""
        super().end(last_delivered)
        self.connection.federated = False
        self.missing.clear()
        self.characters = 0

    def lacks(self, queue: str) -> None:
        """Tell of ``queue`` when it is made."""
        characters = self.characters + len(queue)
        if queue not in self.missing and len(self.missing) < MISSING_MOST and characters <= MISSING_CHARACTERS:
            self.missing[queue] = None
            self.characters = characters

    def has_now(self, queue: str) -> bool:
        """``queue`` was made; return whether it is to be told."""
        if queue not in self.missing:
            return False
        del self.missing[queue]
        self.characters -= len(queue)
        return True


# -- events ------------------------------------------------------------------------------------------------------------


def _attach_events(control: Control, asked: Attach, source: Source) -> None:
    if not source.dynamic:
        raise AmqpRefused("the source of a link of events is to be a dynamic node", INVALID_FIELD)
    if control.events is not None:
        raise AmqpRefused("there is a link of events already", ILLEGAL_STATE)
    session = control.session
    link = Events(control, asked.name, asked.handle)
    session.links[int(asked.handle)] = link
    control.events = link
    observe(session.connection.broker, link.ears)
    said = Source(address=asked.name, dynamic=True, capabilities=source.capabilities)
    answer = Attach(name=asked.name, handle=asked.handle, role=False, source=said, target=asked.target)
    answer.initial_delivery_count = 0
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.offered_capabilities = [EVENTS]
    session.say(answer)


class _Ears(Listener):
    """Hears of queues that are made. A part, as a class has one base."""

    def __init__(self, events: Events) -> None:
        super().__init__(QUEUE_ADDED)
        self.events: Events = events

    def heard(self, fact: Fact) -> None:
        """One was made: perhaps one that was asked for."""
        if isinstance(fact, QueueFact):
            self.events.made(fact.place.name, fact.place.address)


class _Later(Rest):
    """Writes what is to be told when the queue is made in whole."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self.events: Events = events

    def resume(self) -> None:
        self.events.tell()


class Events(Link):
    """The link over which the other broker is told. ``due``: addresses by the names of queues, not told yet."""

    def __init__(self, control: Control, name: str, handle: i64) -> None:
        super().__init__(control.session, name, handle)
        self.control: Control = control
        self.due: dict[str, str] = {}
        self.credit: i64 = 0
        self.count: i64 = 0
        self.ended: bool = False
        self.ears: _Ears = _Ears(self)
        self.later: _Later = _Later(self)

    def made(self, queue: str, address: str) -> None:
        """A queue was made."""
        if self.control.has_now(queue):
            self.due[queue] = address
            self.session.connection.broker.effort.later(self.later)

    def tell(self) -> None:
        """Write some of what is due, as far as credit and the session's window allow. What is told settles itself."""
        session = self.session
        outlet = session.connection.outlet
        left = TOLD_A_TURN
        while self.due and self.credit > 0 and session.window > 0 and not self.ended:
            if left == 0:
                session.connection.broker.effort.later(self.later)
                return
            left -= 1
            queue = next(iter(self.due))
            octets = event_of(queue, self.due.pop(queue))
            delivery = session.next_delivery
            session.next_delivery = (delivery + 1) & UINT_MAX
            self.count = (self.count + 1) & UINT_MAX
            self.credit -= 1
            session.connection.encoder.transfer(outlet.out, session.channel, self.handle, delivery, True, False, octets)
            session.sent_frame()
            outlet.note()

    def flow(self, flow: Flow) -> None:
        """The other broker wants to be told so often."""
        if flow.link_credit >= 0:
            base: i64 = 0 if flow.delivery_count < 0 else flow.delivery_count
            ahead = (self.count - base) & UINT_MAX
            self.credit = max(flow.link_credit - (0 if ahead > UINT_MAX // 2 else ahead), i64(0))
            self.tell()
        if flow.echo:
            self.session.link_flow(self.handle, self.count, self.credit, -1, False)

    def relieved(self) -> None:
        """The session takes frames again."""
        self.tell()

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
        if not self.ended:
            self.ended = True
            self.control.events = None
            self.due.clear()
            ignore(self.session.connection.broker, self.ears)


def event_of(queue: str, address: str) -> bytes:
    """Return the octets that tell that ``queue`` was made."""
    out = BytesWriter()
    write_table(out, MESSAGE_ANNOTATIONS, {EVENT: symbol(QUEUE_MADE)}, True)
    put_descriptor(out, VALUE)
    write_value(out, {ADDRESS_NAME: address, QUEUE_NAME: queue})
    return out.getvalue()


# -- queues ------------------------------------------------------------------------------------------------------------


def _attach_queue(control: Control, asked: Attach, source: Source) -> None:
    session = control.session
    connection = session.connection
    where, queue = _wanted(control, source)
    filters = filters_of(source)
    if filters.selector is not None and filters.selector.text == queue.definition.selector:
        filters.selector = None  # the queue has let in nothing else
    connection.broker.access.consume(connection.subject, [where], False)
    link = Fetched(session, asked, where, control)
    feed = link.feed
    feed.kind = INCOMING_BRIDGE
    feed.selector = filters.selector
    feed.priority = _priority_of(asked)
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
        capabilities=source.capabilities, filter=filters.kept or None,
        default_outcome=Modified(delivery_failed=True), outcomes=source.outcomes,
    )  # fmt: skip
    answer = Attach(
        name=asked.name, handle=asked.handle, role=False, source=said, target=asked.target, initial_delivery_count=0
    )
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.rcv_settle_mode = asked.rcv_settle_mode
    answer.offered_capabilities = [QUEUES]
    session.say(answer)


def _wanted(control: Control, source: Source) -> tuple[Destination, Queue]:
    """Return the queue that is to be read, which must be there. Raises Refused."""
    connection = control.session.connection
    broker = connection.broker
    if connection.readers() >= connection.options.readers_max:
        raise AmqpRefused(f"{connection.options.readers_max} links read over this connection", LIMIT)
    where = place(source.address, source.capabilities, connection.options, broker)
    name = where.queue or where.name
    queue = broker.table.queues.get(name)
    if queue is None or queue.temporary or (where.queue != "" and queue.address != where.name):
        _may_know(control, where.name)
        control.lacks(name)
        raise AmqpRefused(f"there is no queue {name!r} of the address {where.name!r}", NOT_FOUND)
    return Destination(queue.address, queue.routing, False, name), queue


def _may_know(control: Control, address: str) -> None:
    """Raise AccessDenied for who may not read what is at ``address``: he hears nothing of its queues."""
    connection = control.session.connection
    if not connection.broker.access.has_right(connection.subject, address, CONSUME):
        raise AccessDenied(
            f"User {connection.subject.name} is not authorized to read from: queue://{address}",
            remedy="give its group that right, or let no policy there name it",
        )


def _priority_of(asked: Attach) -> int:
    """Return the priority among the readers of a queue that the other broker wants. Raises AmqpRefused."""
    said = (asked.properties or {}).get(PRIORITY)
    if said is None:
        return 0
    if not isinstance(said, int) or not -PRIORITY_MOST <= said <= PRIORITY_MOST:
        raise AmqpRefused(f"{said!r} is no priority of a consumer", INVALID_FIELD)
    return said


class Fetched(Outgoing):
    """A link over which another broker reads a queue of this one."""

    def __init__(self, session: AmqpSession, asked: Attach, where: Destination, control: Control) -> None:
        super().__init__(session, asked.name, asked.handle, where, False)
        self.control: Control = control

    def took_away(self, why: str) -> None:
        """The queue was deleted: it is read again when it is made anew."""
        if not self.ended:
            self.control.lacks(self.feed.destinations[0].queue)
        super().took_away(why)
