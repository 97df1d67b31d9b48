"""Links over which another broker mirrors itself into this one: what it was sent, what was acknowledged there. [C]

The link goes to an address that begins with `MIRROR` and asks for the capability ``amq.mirror``; each side says who it
is by the property ``x-opt-amq-bkr-id``. A message that was sent there comes with delivery annotations that say what it
is called there; everything else is an event, with annotations that say which (artemis.md 2.8).

A message has delivery annotations only from the broker beside this one, so an application cannot make a message that is
taken for an event; Artemis looks at annotations that an application may write.

An event is accepted when what it makes is on disk. One that comes again changes nothing: a message is known by its
number there, of each queue that it can go to, and a queue that was deleted and made anew is another one.
"""

from __future__ import annotations

from typing import Final, TypeGuard

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    InvalidDestination,
    PeerError,
    Refused,
    ShuttingDown,
    StorageError,
    StorageFull,
)
from entrepot.core.addressing.binding import ROUTE_TO
from entrepot.core.addressing.routing import Target as Place
from entrepot.core.broker import BrokerCore
from entrepot.core.mirrors import identity
from entrepot.core.mirrors.events import carry_out
from entrepot.core.mirrors.removing import Acknowledged, Removing
from entrepot.core.queue.queue import Queue
from entrepot.core.security.access import MANAGE, SEND
from entrepot.core.sending.flow import BLOCKED
from entrepot.model.address import MULTICAST, UNTYPED, Destination
from entrepot.protocols.amqp.convert import Arrived, message_of
from entrepot.protocols.amqp.incoming import Arriving
from entrepot.protocols.amqp.large import LargeArrival
from entrepot.protocols.amqp.performatives import Attach, Rejected, Target
from entrepot.protocols.amqp.primitives import Source
from entrepot.protocols.amqp.refusals import ILLEGAL_STATE, INVALID_FIELD, NOT_ALLOWED, AmqpRefused, error_of
from entrepot.protocols.amqp.sections import Sections, map_in, scan
from entrepot.protocols.amqp.session import AmqpSession, Answer
from entrepot.protocols.serving.targets import keep_target

CAPABILITY: Final = "amq.mirror"
BROKER_ID: Final = "x-opt-amq-bkr-id"
MESSAGE_ID: Final = "x-opt-amq-mr-id"
DESTINATION: Final = "x-opt-amq-mr-dst"
TARGET_QUEUES: Final = "x-opt-amq-mr-trg-q"
EVENT: Final = "x-opt-amq-mr-ev-type"
ADDRESS: Final = "x-opt-amq-mr-adr"
QUEUE: Final = "x-opt-amq-mr-qu"
REASON: Final = "x-opt-amq-mr-ack-reason"
DOER: Final = "x-opt-entrepot-mr-doer"
"""The broker where it was done that an event tells of, where another one tells: to that one it is no news."""
EVENT_NUMBER: Final = "x-opt-entrepot-mr-event"
"""Of an event, among those of the broker that tells: it is told again after a crash there, and is not done again.

Among the properties of a link: its events have numbers.
"""
PASSED: Final = "x-opt-entrepot-mr-passed"
"""Of an acknowledgement: how many brokers told it on that did not have its message."""
PASSED_MOST: Final = 8  # then nobody tells it on: in a ring that the doer is no part of it would go round for ever
ACKNOWLEDGED: Final = "postAck"
PASSING: Final = (StorageError, StorageFull, AddressFull, ShuttingDown)
"""Why an event may not be taken that has nothing to do with what it is: it comes again."""
KNOWN: Final = 10_000  # messages and events of one broker that are known when they come again: it gets far less credit
PENDING_MOST: Final = 10_000  # acknowledgements that wait for their messages, until no more credit is given


def attach_mirror(session: AmqpSession, asked: Attach, target: Target) -> None:
    """Let a broker mirror itself into this one. Raises Refused.

    Who mirrors makes and deletes queues and takes messages out of them, so it takes the right to manage this broker,
    beside that to send to the address of the mirror; Artemis asks for the second alone.
    """
    connection = session.connection
    broker = connection.broker
    own = broker.ids.node.uuid_text
    if CAPABILITY not in asked.desired_capabilities:
        raise AmqpRefused(
            f"a link to {str(target.address)!r} does not ask for the capability {CAPABILITY}", ILLEGAL_STATE,
            remedy="send to another address: those that begin like this are for brokers that mirror themselves",
        )  # fmt: skip
    origin = (asked.properties or {}).get(BROKER_ID)
    if not isinstance(origin, str) or not origin:
        raise AmqpRefused(f"a mirror does not say by {BROKER_ID} which broker it is of", INVALID_FIELD)
    if origin == own:
        raise AmqpRefused("this broker would mirror itself into itself", NOT_ALLOWED, remedy="name another broker")
    access, subject = broker.access, connection.subject
    for place, right in ((str(target.address), SEND), (access.management, MANAGE)):
        if not access.has_right(subject, place, right):
            verb = "send to" if right == SEND else "manage"
            raise AccessDenied(
                f"User {subject.name} is not authorized to {verb}: queue://{place}, which a mirror has to be",
                remedy="give its group that right, or mirror as another user",
            )
    link = Mirrored(session, asked, origin, str(target.address))
    session.links[int(asked.handle)] = link
    said = Target(address=target.address, durable=target.durable, capabilities=target.capabilities)
    answer = Attach(name=asked.name, handle=asked.handle, role=True, source=asked.source, target=said)
    answer.snd_settle_mode = asked.snd_settle_mode
    answer.offered_capabilities = [CAPABILITY]
    answer.properties = {BROKER_ID: own}
    session.say(answer)
    link.replenish()


class _Acknowledged(Acknowledged):
    """One that is answered when it was carried out, and that is on disk."""

    def __init__(self, link: Mirrored, delivery: i64, settled: bool, origin: str, number: i64, doer: str) -> None:
        super().__init__(origin, number, doer)
        self.link: Mirrored = link
        self.delivery: i64 = delivery
        self.settled: bool = settled
        self.address: str = ""
        self.queue: str = ""
        self.passed: i64 = 0

    def done(self, found: bool) -> None:
        """Answer."""
        link = self.link
        if found:
            link.acknowledged += 1
        else:
            link.unmatched += 1
            self._pass_on()
        if not self.settled:
            link.confirm(self.delivery)
        link.replenish()

    def _pass_on(self) -> None:
        """Tell those behind this broker: a crash may have taken from it what they have."""
        mirrors = self.link.broker.mirrors
        if mirrors is None or self.passed >= PASSED_MOST:
            return
        mirrors.acting, mirrors.doer = self.link.origin, self.doer
        try:
            mirrors.missed(self.address, self.queue, self.key[0], i64(self.key[1]), self.passed + 1)
        finally:
            mirrors.acting = mirrors.doer = ""


class Mirrored(Arriving):
    """Such a link. ``origin``: the broker that it comes from.

    ``messages``, ``acknowledged``, ``events``: what was carried out. ``duplicates``: what had come before.
    ``unmatched``: acknowledgements of what is not here, or is with a consumer.
    """

    def __init__(self, session: AmqpSession, asked: Attach, origin: str, address: str) -> None:
        count = max(asked.initial_delivery_count, i64(0))
        super().__init__(session, asked.name, asked.handle, False, count)
        self.broker: BrokerCore = session.connection.broker
        self.origin: str = origin
        self.mirror: str = address
        self.numbers_events: bool = (asked.properties or {}).get(EVENT_NUMBER) is True
        self.removing: Removing = Removing(self.broker, origin)
        self.places: dict[str, Place] = {}
        self.messages: i64 = 0
        self.acknowledged: i64 = 0
        self.events: i64 = 0
        self.duplicates: i64 = 0
        self.unmatched: i64 = 0
        self.unrouted: i64 = 0
        self.since: i64 = self.broker.now
        self.why: str = ""  # why the last event was not taken that was not

    def sends(self) -> bool:
        """Return True: its peer sends messages over it."""
        return True

    def address(self) -> str:
        """Return where these go."""
        return self.mirror

    def mirrors(self) -> dict[str, object] | None:
        """Return what an operator wants to know of it."""
        return {
            "connector": self.mirror.removeprefix(identity.MIRROR),
            "kind": "mirror",
            "peer": "",
            "peer_id": self.origin,
            "peer_url": "",
            "place": "",
            "state": "open",
            "since_ms": (int(self.broker.now) - int(self.since)) // MILLISECOND,
            "initiator": False,
            "duplex": False,
            "received": int(self.messages + self.acknowledged + self.events),
            "messages": int(self.messages),
            "acknowledged": int(self.acknowledged),
            "duplicates": int(self.duplicates),
            "unmatched": int(self.unmatched),
            "unrouted": int(self.unrouted),
            "looked_for": int(self.removing.waiting),
            "error": self.why,
        }

    def replenish(self) -> None:
        """Let the peer send more, unless too many acknowledgements wait for their messages."""
        if self.removing.waiting <= PENDING_MOST:
            super().replenish()

    def end(self, last_delivered: i64) -> None:
        """Nothing comes any more: what is not answered comes again over another link."""
        super().end(last_delivered)
        self.removing.end()

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """A message, or an event, has come. Raises Refused, StorageError for what ends the link.

        What says nothing that can be understood is rejected, and the other broker keeps it among its dead letters. What
        cannot be stored now comes again when the link does.
        """
        try:
            sections = scan(octets) if large is None else scan(large.head)
            raw = octets if large is None else large.head
            said = map_in(raw, sections.delivery_at)
            number = said.get(MESSAGE_ID)
            if isinstance(number, int):
                self._message(octets, large, said, i64(number))
            elif large is None and self._event(octets, sections, delivery, settled):
                return
        except (PeerError, StorageError, Refused) as error:
            if large is not None:
                large.finish()
            if isinstance(error, PASSING):
                raise
            self.why = error.message
            if not settled:
                self.session.dispose(delivery, Rejected(error=error_of(error)))
            return
        if large is not None:
            large.finish()
        if not settled:
            self.confirm(delivery)

    def confirm(self, delivery: i64) -> None:
        """Accept ``delivery`` when all that was taken is on disk."""
        if not self.ended:
            self.session.confirmations.ask(Answer(self.session, delivery, None))

    # -- messages ------------------------------------------------------------------------------------------------------

    def _message(self, octets: bytes, large: LargeArrival | None, said: dict[object, object], number: i64) -> None:
        """A message was sent there. Raises Refused, StorageError, PeerError."""
        broker = self.broker
        wall = broker.wall
        arrived = message_of(octets, wall) if large is None else large.complete(wall)
        message = arrived.message
        origin = said.get(BROKER_ID)
        known = origin if isinstance(origin, str) and origin else self.origin
        if known == broker.ids.node.uuid_text:
            self.duplicates += 1  # it was sent here first, and came back
            return
        place = self._place(said.get(DESTINATION), arrived)
        message.address = place.name
        queues = self._queues(arrived, place, said.get(TARGET_QUEUES))
        if not queues:
            self.unrouted += 1
            return
        memory = identity.MIRROR + known
        mark = int(number).to_bytes(8, "big", signed=True)
        if not self.numbers_events:  # then a queue is deleted and made again, and gets its messages again
            mark += _mark_of(queues)
        if broker.sending.duplicates.seen(memory, mark):
            self.duplicates += 1
            return
        rare = message.need_rare()
        of_producer = rare.duplicate_id
        rare.duplicate_id = b""  # what was taken there is taken here, though it be known
        identity.note(message, known, number, broker.ids.number + 1)  # the number that `send` gives it
        told = [int(queue.told()).to_bytes(8, "big", signed=True) for queue in queues]
        message.mark(ROUTE_TO, b"".join(told))  # to these, and by no divert: what one made there comes by itself
        message.origin = self.connection.number
        mirrors = broker.mirrors
        broker.journal.begin()
        try:
            if mirrors is not None:
                mirrors.bringing = self.origin
            verdict = broker.sending.send(message, place)
            broker.sending.duplicates.remember(memory, mark, KNOWN, message.durable)
            if of_producer and place.policy is not None:  # who comes here after that broker is known by it
                cache = place.policy.id_cache
                broker.sending.duplicates.remember(place.name, of_producer, cache, message.durable)
        finally:
            broker.journal.end()
            if mirrors is not None:
                mirrors.bringing = ""
        self.messages += 1
        if verdict == BLOCKED:
            self.withhold(place)

    def _place(self, said: object, arrived: Arrived) -> Place:
        """Return where a message goes. Raises Refused."""
        to = said if isinstance(said, str) and said else arrived.to
        if not isinstance(to, str) or not to:
            raise AmqpRefused(f"a mirrored message has neither {DESTINATION} nor `to`", INVALID_FIELD)
        key = f"{arrived.routing}{to}"
        found = self.places.get(key)
        if found is None:
            table = self.broker.table
            routing = arrived.routing
            address = table.addresses.get(to)
            if routing != UNTYPED and address is not None and not address.has(routing):
                routing = UNTYPED  # as the queues are that stand there
            try:
                found = self.broker.target([Destination(to, routing)])
            except InvalidDestination:
                if routing != MULTICAST:
                    raise
                found = Place(to, MULTICAST)  # nothing is bound there
            keep_target(self.places, key, found)
        return found

    def _queues(self, arrived: Arrived, place: Place, wanted: object) -> list[Queue]:
        """Return the queues of this broker that a message goes to."""
        broker = self.broker
        if place.version != broker.table.version:
            broker.addresses.refresh(place)
        if not isinstance(wanted, list):
            return place.choice.choose_here(arrived.message)
        found: list[Queue] = []
        for name in wanted:
            queue = broker.table.queues.get(name) if isinstance(name, str) else None
            if queue is not None and queue.address == place.name:
                found.append(queue)
        return found

    # -- events --------------------------------------------------------------------------------------------------------

    def _event(self, octets: bytes, sections: Sections, delivery: i64, settled: bool) -> bool:
        """Something else happened there. Return whether it is answered later. Raises Refused, StorageError."""
        said = map_in(octets, sections.annotations_at)
        kind = said.get(EVENT)
        body = Source(octets, sections.bodies[0], len(octets)).value() if sections.bodies else None
        told = said.get(DOER)
        doer = told if isinstance(told, str) and told else self.origin
        if doer == self.broker.ids.node.uuid_text:
            self.duplicates += 1  # it was done here first, and came back
            return False
        if kind == ACKNOWLEDGED:
            return self._acknowledge(said, body, delivery, settled, doer)
        if not isinstance(kind, str):
            raise AmqpRefused(f"neither a message nor an event of a mirror: {MESSAGE_ID} and {EVENT} lack", NOT_ALLOWED)
        number = said.get(EVENT_NUMBER)
        self._carry_out(kind, said, body, doer, number.to_bytes(8, "big", signed=True) if _is_number(number) else b"")
        return False

    def _carry_out(self, kind: str, said: dict[object, object], body: object, doer: str, mark: bytes) -> None:
        """Do what happened there, once: what deletes a queue would take with it what came meanwhile.

        ``mark``: what it is known by, b"" from an Artemis. Raises Refused, StorageError.
        """
        broker = self.broker
        duplicates = broker.sending.duplicates
        memory = identity.MIRROR + self.origin
        if mark and duplicates.seen(memory, mark):
            self.duplicates += 1
            return
        mirrors = broker.mirrors
        broker.journal.begin()
        try:
            if mirrors is not None:
                mirrors.acting = self.origin
                mirrors.doer = doer
            carry_out(broker, kind, str(said.get(ADDRESS) or ""), str(said.get(QUEUE) or ""), body)
            if mark:
                duplicates.remember(memory, mark, KNOWN, True)
        finally:
            broker.journal.end()
            if mirrors is not None:
                mirrors.acting = mirrors.doer = ""
        self.events += 1

    def _acknowledge(self, said: dict[object, object], body: object, delivery: i64, settled: bool, doer: str) -> bool:
        name, origin = said.get(QUEUE), said.get(BROKER_ID)
        if not isinstance(name, str) or not isinstance(body, int):
            raise AmqpRefused("an acknowledgement of a mirror says no queue, or no number", INVALID_FIELD)
        known = origin if isinstance(origin, str) and origin else self.origin
        acknowledged = _Acknowledged(self, delivery, settled, known, i64(body), doer)
        acknowledged.address, acknowledged.queue = str(said.get(ADDRESS) or name), name
        passed = said.get(PASSED)
        acknowledged.passed = i64(passed) if _is_number(passed) else 0
        queue = self.broker.table.queues.get(name)
        if queue is None:
            acknowledged.done(False)
        else:
            self.removing.remove(queue, acknowledged)
        return True


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 63


def _mark_of(queues: list[Queue]) -> bytes:
    """Return what tells a queue from one of the same name that was deleted; b"" where there are several."""
    return int(queues[0].identity).to_bytes(8, "big", signed=True) if len(queues) == 1 else b""
