"""The resources that an operator addresses by name, `broker`, `address.X` and `queue.X`: what each tells and does.

Names of attributes and operations are those of Artemis' management (artemis.md 7.2), so that what was written for it
finds them; those without a counterpart there begin with ``describe``, or are named like their neighbours. Arguments
and results are values of JSON. What may take long returns a `Work`, which the caller steps through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.core.addressing.binding import Address
from entrepot.core.addressing.configuration import configured, described
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.routing import default_routing
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.operators import upkeep, views
from entrepot.core.operators.census import Census
from entrepot.core.operators.explain import explain
from entrepot.core.operators.listing import Arguments, Listing, page_of
from entrepot.core.operators.upkeep import Burial, Count, Discard, Move, Progress, Purge, Removal, Retry
from entrepot.core.operators.views import UNBOUNDED
from entrepot.core.operators.where import Search
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, ROUTING_NAMES, UNTYPED, parse_one

DESCRIBED_MOST: Final = 500  # queues, consumers or schedules in one answer: each may cost a read from disk
LISTED_MOST: Final = 1_000  # messages in one answer
EXPLAINED_MOST: Final = 50  # queues of one topic
PAGE: Final = 200  # messages of a page when the caller does not say: Artemis' management-browse-page-size


class Work(Protocol):
    """An operation that goes on in steps: call `step` until it says True, then `result`."""

    def step(self) -> bool:
        """Do a bounded part; return whether that was the last one. Raises EntrepotError: it is over then."""

    def result(self) -> object:
        """Return what is answered."""


class _Steps(Protocol):
    progress: Progress

    def step(self) -> Progress: ...


class Counted:
    """Work whose answer is how many messages it was about."""

    def __init__(self, steps: _Steps, conclude: Callable[[], None] | None = None) -> None:
        self.steps = steps
        self.conclude = conclude

    def step(self) -> bool:
        """Do a part."""
        done = self.steps.step().done
        if done and self.conclude is not None:
            self.conclude()
        return done

    def result(self) -> object:
        """Return the count."""
        return self.steps.progress.messages


class Found(Counted):
    """Work on one message, whose answer is whether it was there."""

    def result(self) -> object:
        """Return whether it was."""
        return self.steps.progress.messages == 1


class Several:
    """Works one after the other; the answer is the sum of their counts."""

    def __init__(self, works: list[Counted]) -> None:
        self.works = works
        self.at = 0

    def step(self) -> bool:
        """Do a part of the next one."""
        if self.at < len(self.works) and self.works[self.at].step():
            self.at += 1
        return self.at >= len(self.works)

    def result(self) -> object:
        """Return the sum."""
        return sum(work.steps.progress.messages for work in self.works)


class Control:
    """One resource. ``attributes`` and ``operations`` by name; `get` and `call` use them."""

    kind = ""

    def __init__(self, broker: BrokerCore, census: Census) -> None:
        self.broker = broker
        self.census = census

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        raise NotImplementedError

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done."""
        raise NotImplementedError

    def get(self, name: str) -> object:
        """Return an attribute; the case of the first letter does not matter. Raises Refused for one that is not."""
        known = self.attributes()
        read = known.get(name) or known.get(name[:1].lower() + name[1:])
        if read is None:
            raise Refused(f"{self.kind} has no attribute {name!r}", remedy="it has " + ", ".join(known))
        return read()

    def call(self, name: str, values: list[Any]) -> object:
        """Begin an operation, ``getX`` and ``isX`` for attributes included; return its result or a `Work`.

        Raises EntrepotError.
        """
        known = self.operations()
        operation = known.get(name)
        if operation is not None:
            return operation(Arguments(name, values))
        for prefix in ("get", "is"):
            attribute = name.removeprefix(prefix)
            if attribute != name and not values and attribute[:1].lower() + attribute[1:] in self.attributes():
                return self.get(attribute)
        raise Refused(f"{self.kind} has no operation {name!r}", remedy="it has " + ", ".join(known))


# -- queues -----------------------------------------------------------------------------------------------------------

QUEUE_ATTRIBUTES: Final[dict[str, Callable[[Queue], object]]] = {
    "name": lambda queue: queue.name,
    "id": lambda queue: int(queue.identity),
    "address": lambda queue: queue.address,
    "routingType": lambda queue: ROUTING_NAMES[queue.routing],
    "filter": lambda queue: "" if queue.filter is None else queue.filter.text,
    "durable": lambda queue: queue.durable,
    "temporary": lambda queue: queue.temporary,
    "autoCreated": lambda queue: queue.definition.auto_created,
    "definition": lambda queue: msgspec.to_builtins(queue.definition),
    "paused": lambda queue: queue.gate.paused,
    "messageCount": lambda queue: int(queue.count),
    "deliveringCount": lambda queue: int(queue.in_flight),
    "scheduledCount": lambda queue: len(queue.returns.delayed),
    "leasedCount": lambda queue: int(queue.leased),
    "consumerCount": lambda queue: queue.roster.readers(),
    "maxConsumers": lambda queue: int(queue.policy.max_consumers),
    "persistentSize": lambda queue: int(queue.backlog.octets),
    "messagesAdded": lambda queue: int(queue.accepted),
    "messagesAcknowledged": lambda queue: int(queue.settled),
    "messagesAcked": lambda queue: int(queue.settled),
    "messagesExpired": lambda queue: int(queue.returns.expired),
    "messagesKilled": lambda queue: int(queue.returns.dead),
    "deadLetterAddress": lambda queue: queue.policy.dead_letter_address,
    "expiryAddress": lambda queue: queue.policy.expiry_address,
}


def find_queue(broker: BrokerCore, text: str) -> Queue:
    """Return the queue that ``text`` names: its own name, or a destination like ``/queue/orders`` or ``A::q``.

    Raises InvalidDestination when there is none.
    """
    queue = broker.table.queues.get(text)
    if queue is not None:
        return queue
    destination = parse_one(text, ANYCAST)
    if destination.routing == MULTICAST and not destination.queue:
        raise InvalidDestination(f"{text!r} is a topic", remedy="name one of its subscriptions' queues")
    address = broker.table.addresses.get(destination.name)
    if not destination.queue and address is not None and len(address.anycast) == 1:
        return address.anycast[0]
    return views.need(broker, destination.queue or destination.name)


class QueueControl(Control):
    """The resource ``queue.X``: one queue."""

    def __init__(self, broker: BrokerCore, census: Census, name: str) -> None:
        super().__init__(broker, census)
        self.queue = find_queue(broker, name)
        self.name = self.queue.name
        self.kind = f"the queue {self.name!r}"

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return those of `QUEUE_ATTRIBUTES`, and the age of the next message in ms."""
        known: dict[str, Callable[[], object]] = {
            name: partial(read, self.queue) for name, read in QUEUE_ATTRIBUTES.items()
        }
        known["firstMessageAge"] = lambda: views.queue_view(self.broker, self.queue).oldest_ms
        return known

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to a queue."""
        return {
            "describe": lambda given: _fields(views.queue_view(self.broker, self.queue)),
            "pause": lambda given: upkeep.pause(self.broker, self.name),
            "resume": lambda given: upkeep.resume(self.broker, self.name),
            "countMessages": self._count,
            "listMessages": self._list,
            "listMessagesAsJSON": lambda given: self._list(given, as_text=True),
            "browse": self._browse,
            "removeMessages": self._remove_several,
            "removeAllMessages": lambda given: Counted(Purge(self.broker, self.name)),
            "purge": lambda given: Counted(Purge(self.broker, self.name, _most(given, 0))),
            "moveMessages": lambda given: self._move_several(given, copies=False),
            "copyMessages": lambda given: self._move_several(given, copies=True),
            "retryMessages": self._retry_several,
            "sendMessagesToDeadLetterAddress": self._bury_several,
            "removeMessage": lambda given: Found(Removal(self.broker, self.name, given.identity(0))),
            "moveMessage": self._move_one,
            "retryMessage": lambda given: self._one(given, Retry(self.broker, self.name)),
            "sendMessageToDeadLetterAddress": lambda given: self._one(given, Burial(self.broker, self.name)),
            "listConsumersAsJSON": self._consumers,
            "resetGroup": lambda given: self.queue.dispatcher.close_group(given.text(0)),
            "resetAllGroups": lambda given: self.queue.dispatcher.close_group(""),
        }

    def _count(self, given: Arguments) -> object:
        selector = selector_or_none(given.text(0, ""))
        if selector is None:
            return int(self.queue.count)
        return Counted(Count(self.broker, self.name, selector))

    def _list(self, given: Arguments, *, as_text: bool = False) -> Listing:
        selector = selector_or_none(given.text(0, ""))
        return Listing(self.broker, self.queue, selector, most=LISTED_MOST, as_text=as_text)

    def _browse(self, given: Arguments) -> Listing:
        """Take (), (filter), (page, page size) or (page, page size, filter), pages from 1."""
        if given.is_number(0):
            page, size, text = given.number(0, 1), given.number(1, PAGE), given.text(2, "")
        else:
            page, size, text = 1, PAGE, given.text(0, "")
        size = min(max(1, size), LISTED_MOST)
        return Listing(self.broker, self.queue, selector_or_none(text), skip=(max(1, page) - 1) * size, most=size)

    def _remove_several(self, given: Arguments) -> Counted:
        """Take ([flush limit,] filter [, most])."""
        given.drop_leading_number()
        selector = selector_or_none(given.text(0, ""))
        most = _most(given, 1)
        if selector is None:
            return Counted(Purge(self.broker, self.name, most))
        return Counted(Discard(self.broker, self.name, selector, most))

    def _move_several(self, given: Arguments, *, copies: bool) -> Counted:
        """Take ([flush limit,] filter, target [, reject duplicates [, most]]); duplicates were looked at on arrival."""
        given.drop_leading_number()
        selector = selector_or_none(given.text(0, ""))
        most = _most(given, 3 if given.is_flag(2) else 2)
        return Counted(Move(self.broker, self.name, given.text(1), selector, most, copies))

    def _retry_several(self, given: Arguments) -> Counted:
        """Take ([filter [, most]])."""
        return Counted(Retry(self.broker, self.name, selector_or_none(given.text(0, "")), _most(given, 1)))

    def _bury_several(self, given: Arguments) -> Counted:
        return Counted(Burial(self.broker, self.name, selector_or_none(given.text(0, "")), _most(given, 1)))

    def _move_one(self, given: Arguments) -> Found:
        return self._one(given, Move(self.broker, self.name, given.text(1)))

    def _one(self, given: Arguments, work: Move) -> Found:
        return Found(Removal(self.broker, self.name, given.identity(0), work))

    def _consumers(self, given: Arguments) -> str:
        return _text([_fields(view) for view in views.list_consumers(self.broker, self.name)[:DESCRIBED_MOST]])


# -- addresses --------------------------------------------------------------------------------------------------------


class AddressControl(Control):
    """The resource ``address.X``: one address with its queues."""

    def __init__(self, broker: BrokerCore, census: Census, name: str) -> None:
        super().__init__(broker, census)
        address = broker.table.addresses.get(name)
        if address is None:
            raise InvalidDestination(f"there is no address {name!r}", remedy="ask the broker for addressNames")
        self.address: Address = address
        self.kind = f"the address {name!r}"

    def queues(self) -> list[Queue]:
        """Return what is bound to it."""
        return self.address.anycast + self.address.multicast

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        return {
            "address": lambda: self.address.name,
            "routingTypes": self._routing_types,
            "queueNames": lambda: [queue.name for queue in self.queues()],
            "bindingNames": lambda: [queue.name for queue in self.queues()],
            "queueCount": lambda: len(self.queues()),
            "messageCount": lambda: sum(int(queue.count) for queue in self.queues()),
            "numberOfMessages": lambda: sum(int(queue.count) for queue in self.queues()),
            "addressSize": lambda: sum(int(queue.backlog.octets) for queue in self.queues()),
            "paused": lambda: all(queue.gate.paused for queue in self.queues()),
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to all queues of an address."""
        return {"pause": self._pause, "resume": self._resume, "purge": self._purge}

    def _routing_types(self) -> list[str]:
        kinds = ((ANYCAST, self.address.anycast), (MULTICAST, self.address.multicast))
        return [ROUTING_NAMES[routing] for routing, queues in kinds if queues]

    def _pause(self, given: Arguments) -> None:
        for queue in self.queues():
            upkeep.pause(self.broker, queue.name)

    def _resume(self, given: Arguments) -> None:
        for queue in self.queues():
            upkeep.resume(self.broker, queue.name)

    def _purge(self, given: Arguments) -> Several:
        return Several([Counted(Purge(self.broker, queue.name)) for queue in self.queues()])


# -- why and where ----------------------------------------------------------------------------------------------------


def explained(broker: BrokerCore, census: Census, text: str) -> dict[str, Any]:
    """Return why the queues of a destination stand as they do, and what bridges do for it: `core/operators/explain.py`.

    A destination that this broker does not have is no error: others may have it. Raises InvalidDestination for text
    that names none.
    """
    queue = broker.table.queues.get(text)
    if queue is not None:
        name, topic, found = queue.address, queue.routing == MULTICAST, [queue]
    else:
        destination = parse_one(text)
        name = destination.name
        address = broker.table.addresses.get(name)
        routing = default_routing(broker.table, name) if destination.routing == UNTYPED else destination.routing
        topic = routing == MULTICAST
        found = [] if address is None else list(address.multicast if topic else address.anycast)
        if destination.queue:
            found = [one for one in found if one.name == destination.queue]
    return {
        "broker": broker.options.name,
        "node": broker.ids.node_id,
        "uuid": broker.ids.node.uuid_text,
        "url": census.url,
        "destination": name,
        "topic": topic,
        "queues": [msgspec.to_builtins(explain(broker, one, census)) for one in found[:EXPLAINED_MOST]],
        "more": max(0, len(found) - EXPLAINED_MOST),
        "near": [] if found or topic else views.near_names(broker, name),
        "bridges": census.outlook(name, topic),
    }


# -- the broker -------------------------------------------------------------------------------------------------------

NO_COLUMNS: Final = ("deadLetterAddress", "expiryAddress", "definition")
QUEUE_COLUMNS: Final = tuple(name for name in QUEUE_ATTRIBUTES if name not in NO_COLUMNS)


class BrokerControl(Control):
    """The resource ``broker``."""

    kind = "the broker"

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        broker = self.broker
        queues = broker.table.queues
        return {
            "name": lambda: broker.options.name,
            "version": lambda: broker.options.version,
            "nodeID": lambda: broker.ids.node_id,
            "nodeUUID": lambda: broker.ids.node.uuid_text,
            "active": lambda: True,
            "started": lambda: True,
            "addressCount": lambda: len(broker.table.addresses),
            "addressNames": lambda: list(broker.table.addresses),
            "queueCount": lambda: len(queues),
            "queueNames": lambda: list(queues),
            "connectionCount": self.census.count,
            "totalConsumerCount": lambda: sum(queue.roster.readers() for queue in queues.values()),
            "totalMessageCount": lambda: sum(int(queue.count) for queue in queues.values()),
            "totalMessagesAdded": lambda: sum(int(queue.accepted) for queue in queues.values()),
            "totalMessagesAcknowledged": lambda: sum(int(queue.settled) for queue in queues.values()),
            "addressMemoryUsage": lambda: int(broker.memory.used),
            "globalMaxSize": lambda: int(broker.memory.limit),
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to a broker."""
        broker = self.broker
        return {
            "getQueueNames": self._queue_names,
            "listQueues": self._list_queues,
            "listConsumers": self._list_consumers,
            "listAllConsumersAsJSON": lambda given: _text(self._consumers("")[:DESCRIBED_MOST]),
            "listConnectionsAsJSON": lambda given: _text(self.census.connections(0, DESCRIBED_MOST)),
            "closeConnectionWithID": lambda given: self.census.close(given.text(0), "an operator closed it"),
            "sendQueueInfoToQueue": lambda given: broker.informant.send_queue_info(given.text(0), given.text(1, "")),
            "createQueue": self._create,
            "destroyQueue": self._destroy,
            "describeQueues": self._describe_queues,
            "describeConsumers": lambda given: self._consumers(given.text(0, ""))[:DESCRIBED_MOST],
            "describeConnections": self._describe_connections,
            "describeBridges": lambda given: self.census.bridges(),
            "startConnector": lambda given: self._switch_connector(given, start=True),
            "stopConnector": lambda given: self._switch_connector(given, start=False),
            "describeLeases": lambda given: [_fields(view) for view in views.list_leases(self.broker)],
            "describeStages": lambda given: [
                _fields(view) for view in views.list_stages(self.broker, given.text(0, ""), DESCRIBED_MOST)
            ],
            "describeSinks": lambda given: [
                _fields(view) for view in views.list_sinks(self.broker, _described(given, 0))
            ],
            "dropStages": self._drop_stages,
            "explain": lambda given: explained(self.broker, self.census, given.text(0)),
            "where": lambda given: Search(self.broker, self.census, given.identity(0)),
            "describeScheduled": self._describe_scheduled,
            "cancelScheduled": lambda given: upkeep.cancel_scheduled(self.broker, given.number(0)),
        }

    def _switch_connector(self, given: Arguments, *, start: bool) -> None:
        name = given.text(0)
        if not self.census.switch_connector(name, start):
            raise InvalidDestination(
                f"there is no network connector {name!r}", remedy="`entrepot bridge list` shows those that there are"
            )

    def _drop_stages(self, given: Arguments) -> int:
        sink = given.text(0)
        batch = given.number(1, -1)
        part = given.text(2, "")
        if given.flag(3, False):
            return self.broker.stages.forget(sink)
        return upkeep.drop_stages(self.broker, sink, batch, part)

    def _queue_names(self, given: Arguments) -> list[str]:
        wanted = given.text(0, "")
        queues = self.broker.table.queues.values()
        return [queue.name for queue in queues if not wanted or ROUTING_NAMES[queue.routing] == wanted]

    def _list_queues(self, given: Arguments) -> str:
        queues = list(self.broker.table.queues.values())
        return _text(page_of(queues, QUEUE_ATTRIBUTES, QUEUE_COLUMNS, given))

    def _list_consumers(self, given: Arguments) -> str:
        rows = self._consumers("")
        names = list(rows[0]) if rows else []
        columns: dict[str, Callable[[dict[str, Any]], object]] = {name: itemgetter(name) for name in names}
        return _text(page_of(rows, columns, tuple(names), given))

    def _consumers(self, queue: str) -> list[dict[str, Any]]:
        name = find_queue(self.broker, queue).name if queue else ""
        return [_fields(view) for view in views.list_consumers(self.broker, name)]

    def _describe_queues(self, given: Arguments) -> list[dict[str, Any]]:
        """Take ([pattern [, name after which to go on [, most]]]); by name, at most `DESCRIBED_MOST`."""
        table = self.broker.table
        pattern, after = given.text(0, ""), given.text(1, "")
        most = _described(given, 2)
        found = table.matching(pattern) if pattern else list(table.queues.values())
        names = sorted(queue.name for queue in found if queue.name > after)
        return [_fields(views.queue_view(self.broker, table.queues[name])) for name in names[:most]]

    def _describe_scheduled(self, given: Arguments) -> list[dict[str, Any]]:
        return [_fields(view) for view in views.list_scheduled(self.broker, _described(given, 0))]

    def _describe_connections(self, given: Arguments) -> list[dict[str, str]]:
        """Take ([how many to skip [, most]])."""
        return self.census.connections(max(0, given.number(0, 0)), _described(given, 1))

    def _create(self, given: Arguments) -> str:
        """Make a queue; take one of Artemis' forms.

        (configuration as JSON [, ignore if it exists]), (address, name [, [durable,] routing type]),
        (address, routing type, name [, filter [, durable]]).
        """
        asked, minds = _asked_queue(given)
        if minds or asked.name not in self.broker.table.queues:
            place = parse_one(f"{asked.address}::{asked.name}", asked.routing)  # checks both names
            if asked.routing == ANYCAST and is_pattern(place.name, MIXED):
                raise InvalidDestination(f"{place.name!r} is a wildcard", remedy="only a topic may be one")
            self.broker.queues.create(replace(asked, name=place.queue, address=place.name))
        return _text({"name": asked.name, "address": asked.address, "routing-type": ROUTING_NAMES[asked.routing]})

    def _destroy(self, given: Arguments) -> Counted:
        """Take (name [, remove its consumers [, its address too, which always goes when empty [, only if empty]]])."""
        queue = find_queue(self.broker, given.text(0))
        if given.flag(3, False) and queue.count > 0:
            raise InvalidDestination(
                f"the queue {queue.name!r} holds {queue.count} messages", remedy="purge it first, or do not mind"
            )
        if not given.flag(1, False) and (queue.roster.is_read() or self.broker.leases.on(queue)):
            raise InvalidDestination(
                f"the queue {queue.name!r} has consumers or leases", remedy="close them, or ask to remove them too"
            )
        purge = Purge(self.broker, queue.name)

        def rest() -> None:
            if self.broker.table.queues.get(queue.name) is queue:
                purge.progress.messages += upkeep.delete(self.broker, queue.name)

        return Counted(purge, rest)


def _asked_queue(given: Arguments) -> tuple[QueueDefinition, bool]:
    """Return what a `createQueue` wants, and whether it minds when the queue exists."""
    first = given.text(0)
    if first.lstrip().startswith("{"):
        return configured(given.fields(0)), not given.flag(1, False)
    if given.text(1).upper() in ROUTING_NAMES[:2] and len(given) > 2:
        return described(first, given.text(2), given.text(1), given.text(3, ""), durable=given.flag(4, True)), True
    at = 3 if given.is_flag(2) else 2
    durable = given.flag(2, True) if at == 3 else True
    return described(first, given.text(1), given.text(at, "MULTICAST"), durable=durable), True


# -- all --------------------------------------------------------------------------------------------------------------


def control(broker: BrokerCore, census: Census, resource: str) -> Control:
    """Return the control of ``resource``. Raises InvalidDestination, Refused when there is no such resource."""
    if resource == "broker":
        return BrokerControl(broker, census)
    kind, _, name = resource.partition(".")
    if kind == "queue" and name:
        return QueueControl(broker, census, name)
    if kind == "address" and name:
        return AddressControl(broker, census, name)
    raise Refused(f"there is no resource {resource!r}", remedy="name broker, address.NAME or queue.NAME")


def _most(given: Arguments, at: int) -> int:
    """Return how many messages at most; -1, as Artemis says it, is all."""
    most = given.number(at, -1)
    return UNBOUNDED if most < 0 else most


def _described(given: Arguments, at: int) -> int:
    """Return how many rows at most."""
    return max(0, min(given.number(at, DESCRIBED_MOST), DESCRIBED_MOST))


def _fields(view: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(view)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


__all__ = ["Census", "Control", "Work", "control", "find_queue"]
