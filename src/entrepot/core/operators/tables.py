"""What management lists: queues, addresses, connections, sessions, consumers, producers; the columns are Artemis'.

A list is filtered, sorted and cut into pages (artemis.md 7.2) by a `Page`, in steps: it may be about 100,000 queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from entrepot.base.environment import MILLISECOND, UNLIMITED
from entrepot.base.errors import Refused
from entrepot.core.addressing.binding import Address
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import json_of
from entrepot.core.operators.listing import PAGE_MOST, Arguments, comparison, ranked, written
from entrepot.core.operators.pace import Pace
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.stock import messages_held, octets_held
from entrepot.model.address import ANYCAST, MULTICAST, ROUTING_NAMES
from entrepot.model.connected import ConnectionView, SessionView

T = TypeVar("T")

LOOKED_A_STEP: Final = 1_000  # rows that are compared: 3 ms; between messages a `Pace` of it
ROWS_A_STEP: Final = 100  # rows that are written
SORTED_MOST: Final = 100_000  # a sort is one step; more rows keep their order


class Column(Generic[T]):
    """One column. ``text``: its value is listed as text, as Artemis does with most."""

    def __init__(self, read: Callable[[T], object], *, text: bool = True) -> None:
        self.read: Final = read
        self.text: Final = text

    def value(self, item: T) -> object:
        """Return what is listed of ``item``."""
        return written(self.read(item)) if self.text else self.read(item)


Columns = dict[str, Column[Any]]


class Page(Generic[T]):
    """A `Work` that makes one page of ``items``, from (options as JSON, page from 1, page size; -1 for the most).

    Raises Refused for an unknown field or operation.
    """

    def __init__(self, items: Iterable[T], columns: Columns, given: Arguments, pace: Pace) -> None:
        options = given.fields(0)
        self.columns: Final = columns
        field, value = str(options.get("field") or ""), str(options.get("value") or "")
        self.column = _column(columns, field) if field and value else None
        self.holds = comparison(str(options.get("operation") or "EQUALS"), value)
        order = str(options.get("sortColumn") or options.get("sortField") or "")
        self.order = _column(columns, order) if order else None
        self.down = str(options.get("sortOrder") or "").lower().startswith("desc")
        size = given.number(2, PAGE_MOST)
        self.size = PAGE_MOST if size < 1 else min(size, PAGE_MOST)
        self.at = (max(1, given.number(1, 1)) - 1) * self.size
        self.left: Iterator[T] | None = iter(items)
        self.found: list[T] = []
        self.rows: list[dict[str, object]] = []
        self.pace: Final = pace

    def step(self) -> bool:
        """Compare some, or write some."""
        if self.left is not None:
            self._look(self.left)
            return False
        start = self.at + len(self.rows)
        end = min(self.at + self.size, start + self.pace.of(ROWS_A_STEP))
        for item in self.found[start:end]:
            self.rows.append({name: column.value(item) for name, column in self.columns.items()})
        return len(self.rows) >= min(self.size, max(0, len(self.found) - self.at))

    def _look(self, left: Iterator[T]) -> None:
        column = self.column
        for _ in range(self.pace.of(LOOKED_A_STEP)):
            item = next(left, None)
            if item is None:
                self.left = None
                self._sort()
                return
            if column is None or self.holds(written(column.read(item))):
                self.found.append(item)

    def _sort(self) -> None:
        order = self.order
        if order is not None and len(self.found) <= SORTED_MOST:
            self.found.sort(key=lambda item: ranked(order.read(item)), reverse=self.down)

    def result(self) -> object:
        """Return the page, and how many there are in all, as JSON."""
        return json_of({"data": self.rows, "count": len(self.found)})


def _column(columns: Columns, name: str) -> Column[Any]:
    found = columns.get(name)
    if found is None:
        head, *rest = name.lower().split("_")  # older consoles write MESSAGE_COUNT
        found = columns.get(head + "".join(word.capitalize() for word in rest))
    if found is None:
        raise Refused(f"there is no field {name!r}", remedy="use one of " + ", ".join(columns))
    return found


def date_of(wall: int) -> str:
    """Return ms since 1970 as Java writes a date."""
    return datetime.fromtimestamp(wall / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


# -- addresses ---------------------------------------------------------------------------------------------------------


def address_columns(broker: BrokerCore) -> Columns:
    """Return what is listed of an `Address`."""
    return {
        "id": Column(lambda one: one.name),
        "name": Column(lambda one: one.name),
        "routingTypes": Column(lambda one: json_of(routing_types(broker, one))),
        "queueCount": Column(lambda one: len(queues_of(one))),
        "internal": Column(lambda one: False),
        "temporary": Column(lambda one: any(queue.temporary for queue in queues_of(one))),
        "autoCreated": Column(lambda one: not one.created_by_operator),
        "paused": Column(is_paused),
        "currentDuplicateIdCacheSize": Column(lambda one: remembered_ids(broker, one)),
        "retroactiveResource": Column(lambda one: False),
        "messageCount": Column(lambda one: sum(int(queue.count) for queue in queues_of(one))),
        "addressLimitPercent": Column(lambda one: max((filled(queue) for queue in queues_of(one)), default=0)),
        "addressSize": Column(lambda one: sum(int(queue.backlog.octets) for queue in queues_of(one))),
        "paging": Column(is_paging),
    }


def queues_of(address: Address) -> list[Queue]:
    """Return what is bound to ``address`` here."""
    return address.anycast + address.multicast


def is_paused(address: Address) -> bool:
    """Return whether nothing goes out of any queue of ``address``."""
    queues = queues_of(address)
    return bool(queues) and all(queue.gate.paused for queue in queues)


def is_paging(address: Address) -> bool:
    """Return whether some of what waits is on disk only."""
    return any(queue.backlog.paged_count > 0 for queue in queues_of(address))


def filled(queue: Queue) -> int:
    """Return how much ``queue`` holds of what it may, in octets or in messages; 0 where it has no limit."""
    backlog, policy = queue.backlog, queue.policy
    found = 0
    if 0 < policy.max_octets < UNLIMITED:
        found = 100 * int(octets_held(backlog, policy)) // int(policy.max_octets)
    if policy.counts and 0 < policy.max_messages < UNLIMITED:
        found = max(found, 100 * int(messages_held(backlog, policy)) // int(policy.max_messages))
    return found


def remembered_ids(broker: BrokerCore, address: Address) -> int:
    """Return how many duplicate ids are remembered at ``address``."""
    known = broker.sending.duplicates.addresses.get(address.name)
    return 0 if known is None else len(known.ids)


def routing_types(broker: BrokerCore, address: Address) -> list[str]:
    """Return the routing types of ``address``: those that were declared, and those of its queues; Artemis' order."""
    declared = broker.table.declared.get(address.name, 0)
    kinds = ((MULTICAST, 1, address.multicast), (ANYCAST, 2, address.anycast))
    found = [ROUTING_NAMES[routing] for routing, bit, queues in kinds if queues or declared & bit]
    return found or [ROUTING_NAMES[MULTICAST]]


# -- who is there ------------------------------------------------------------------------------------------------------

CONNECTIONS: Final[Columns] = {
    "connectionID": Column(lambda one: one.id),
    "remoteAddress": Column(lambda one: one.peer),
    "users": Column(lambda one: one.users),
    "creationTime": Column(lambda one: date_of(one.opened)),
    "implementation": Column(lambda one: "entrepot"),
    "protocol": Column(lambda one: one.protocol),
    "clientID": Column(lambda one: one.client_id),
    "localAddress": Column(lambda one: one.local),
    "sessionCount": Column(lambda one: len(one.sessions), text=False),
}
SESSIONS: Final[Columns] = {
    "id": Column(lambda one: one.id),
    "user": Column(lambda one: one.user),
    "validatedUser": Column(lambda one: one.user),
    "creationTime": Column(lambda one: date_of(one.opened)),
    "consumerCount": Column(lambda one: one.consumers, text=False),
    "producerCount": Column(lambda one: len(one.producers), text=False),
    "connectionID": Column(lambda one: one.connection),
    "clientID": Column(lambda one: one.client_id),
}


class Producing:
    """One producer, and the connection that it is on."""

    def __init__(self, connection: ConnectionView, session: SessionView, number: str, address: str) -> None:
        self.connection: Final = connection
        self.session: Final = session
        self.number: Final = number
        self.address: Final = address


PRODUCERS: Final[Columns] = {
    "id": Column(lambda one: one.number),
    "name": Column(lambda one: ""),
    "session": Column(lambda one: one.session.id),
    "clientID": Column(lambda one: one.session.client_id),
    "user": Column(lambda one: one.session.user),
    "validatedUser": Column(lambda one: one.session.user),
    "protocol": Column(lambda one: one.connection.protocol),
    "address": Column(lambda one: one.address),
    "localAddress": Column(lambda one: one.connection.local),
    "remoteAddress": Column(lambda one: one.connection.peer),
    "creationTime": Column(lambda one: one.session.opened),
}


def sessions(census: Census) -> Iterator[SessionView]:
    """Return every open session."""
    for connection in census.views():
        yield from connection.sessions


def producers(census: Census) -> Iterator[Producing]:
    """Return every producer that said that it is one."""
    for connection in census.views():
        for session in connection.sessions:
            for number, address in session.producers.items():
                yield Producing(connection, session, number, address)


class Consuming:
    """One consumer, its queue, and the connection that it is on, if that is known."""

    def __init__(self, queue: Queue, consumer: Consumer, connection: ConnectionView | None) -> None:
        self.queue: Final = queue
        self.consumer: Final = consumer
        self.reader: Final = consumer.subscriber
        self.connection: Final = connection


def client_of(one: Consuming) -> str:
    """Return the client id of a consumer: its own, else that of its connection."""
    return one.reader.client_id or ("" if one.connection is None else one.connection.client_id)


def consumers(broker: BrokerCore, census: Census) -> Iterator[Consuming]:
    """Return every consumer, queue by queue."""
    known = {one.id: one for one in census.views()}
    for queue in list(broker.table.queues.values()):
        for consumer in list(queue.roster.consumers):
            yield Consuming(queue, consumer, known.get(str(consumer.subscriber.origin)))


def consumer_columns(broker: BrokerCore) -> Columns:
    """Return what is listed of a `Consuming`. Artemis' columns, and then ours."""

    def wall(nanoseconds: int) -> int:
        return int(broker.wall) - (int(broker.now) - nanoseconds) // MILLISECOND if nanoseconds else 0

    return {
        "id": Column(lambda one: int(one.consumer.key)),
        "session": Column(lambda one: one.reader.session or str(one.reader.origin)),
        "clientID": Column(client_of),
        "user": Column(lambda one: one.reader.user),
        "validatedUser": Column(lambda one: one.reader.user),
        "protocol": Column(lambda one: "" if one.connection is None else one.connection.protocol),
        "queue": Column(lambda one: one.queue.name),
        "queueType": Column(lambda one: ROUTING_NAMES[one.queue.routing].lower()),
        "filter": Column(lambda one: one.reader.selector),
        "address": Column(lambda one: one.queue.address),
        "localAddress": Column(lambda one: "" if one.connection is None else one.connection.local),
        "remoteAddress": Column(lambda one: one.reader.peer),
        "creationTime": Column(lambda one: date_of(wall(int(one.consumer.opened_at)))),
        "messagesInTransit": Column(lambda one: len(one.consumer.in_flight)),
        "messagesDelivered": Column(lambda one: int(one.consumer.delivered)),
        "lastAcknowledgedTime": Column(lambda one: wall(int(one.consumer.settled_at)), text=False),
        "status": Column(lambda one: "SLOW" if one.consumer.slow else "OK"),
        "connection": Column(lambda one: one.consumer.connection),
        "priority": Column(lambda one: int(one.consumer.priority)),
        "groups": Column(lambda one: int(one.consumer.groups)),
    }
