"""The resource ``queue.X``: what one queue tells, and what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from entrepot.base.errors import InvalidDestination
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.operators import queue_verbs as verbs
from entrepot.core.operators import upkeep, views
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import (
    DESCRIBED_MOST,
    LISTED_MOST,
    PAGE,
    Control,
    Counted,
    Found,
    fields_of,
    json_of,
    most_of,
)
from entrepot.core.operators.letters import letters_in
from entrepot.core.operators.listing import Arguments, Listing, message_row
from entrepot.core.operators.posting import post
from entrepot.core.operators.sampling_verbs import queue_sampling
from entrepot.core.operators.showing import Shown
from entrepot.core.operators.tables import Column, Columns
from entrepot.core.operators.tally import Chunks, Grouped, figures, in_flight, waiting
from entrepot.core.operators.traits import traits
from entrepot.core.operators.upkeep import Burial, Count, Discard, Expiry, Move, Purge, Removal, Retry
from entrepot.core.owners import connection_of
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, ROUTING_NAMES, Destination, parse_one


def acknowledge_attempts(queue: Queue) -> int:
    """Return how many messages were acknowledged, expired or made dead letters, in this run or not in the end.

    What an open transaction has acknowledged counts, and what was rolled back, as with Artemis.
    """
    returns = queue.returns
    kept = len(queue.promised) + sum(len(one.promised) for one in queue.roster.consumers)
    return int(queue.settled + returns.expired + returns.dead + returns.attempts) + kept


QUEUE_ATTRIBUTES: Final[dict[str, Callable[[Queue], object]]] = {
    "id": lambda queue: int(queue.identity),
    "name": lambda queue: queue.name,
    "address": lambda queue: queue.address,
    "filter": lambda queue: None if queue.filter is None else queue.filter.text,
    "durable": lambda queue: queue.durable,
    "paused": lambda queue: queue.gate.paused,
    "persistedPause": lambda queue: queue.gate.paused and queue.durable,
    "temporary": lambda queue: queue.temporary or connection_of(queue.definition.owner) != "",
    "purgeOnNoConsumers": lambda queue: traits(queue)["purge-on-no-consumers"],
    "consumerCount": lambda queue: queue.roster.readers(),
    "maxConsumers": lambda queue: traits(queue)["max-consumers"],
    "autoCreated": lambda queue: queue.definition.auto_created,
    "user": lambda queue: queue.definition.user or None,
    "routingType": lambda queue: ROUTING_NAMES[queue.routing],
    "messagesAdded": lambda queue: int(queue.accepted),
    "messageCount": lambda queue: int(queue.count),
    "messagesAcked": lambda queue: int(queue.settled),
    "messagesExpired": lambda queue: int(queue.returns.expired),
    "deliveringCount": lambda queue: int(queue.in_flight),
    "messagesKilled": lambda queue: int(queue.returns.dead),
    "exclusive": lambda queue: traits(queue)["exclusive"],
    "lastValue": lambda queue: traits(queue)["last-value"],
    "lastValueKey": lambda queue: traits(queue)["last-value-key"],
    "scheduledCount": lambda queue: len(queue.returns.delayed),
    "groupRebalance": lambda queue: traits(queue)["group-rebalance"],
    "groupRebalancePauseDispatch": lambda queue: traits(queue)["group-rebalance-pause-dispatch"],
    "groupBuckets": lambda queue: traits(queue)["group-buckets"],
    "groupFirstKey": lambda queue: traits(queue)["group-first-key"],
    "enabled": lambda queue: traits(queue)["enabled"],
    "ringSize": lambda queue: traits(queue)["ring-size"],
    "consumersBeforeDispatch": lambda queue: traits(queue)["consumers-before-dispatch"],
    "delayBeforeDispatch": lambda queue: traits(queue)["delay-before-dispatch"],
    "autoDelete": lambda queue: traits(queue)["auto-delete"],
    "internalQueue": lambda queue: queue.definition.internal,
    "leasedCount": lambda queue: int(queue.leased),
    "persistentSize": lambda queue: int(queue.backlog.octets),
}
"""What a list of queues has of each: Artemis' columns, and then ours."""
MORE_ATTRIBUTES: Final[dict[str, Callable[[Queue], object]]] = {
    "definition": lambda queue: msgspec.to_builtins(queue.definition),
    "messagesAcknowledged": lambda queue: int(queue.settled),
    "acknowledgeAttempts": acknowledge_attempts,
    "deadLetterAddress": lambda queue: queue.policy.dead_letter_address or None,
    "expiryAddress": lambda queue: queue.policy.expiry_address or None,
    "nonDestructive": lambda queue: traits(queue)["non-destructive"],
    "groupCount": lambda queue: sum(int(one.groups) for one in queue.roster.consumers),
    "configurationManaged": lambda queue: queue.definition.configured,
    "retroactiveResource": lambda queue: False,
}
"""What one queue tells beside these."""
QUEUES: Final[Columns] = {name: Column(read) for name, read in QUEUE_ATTRIBUTES.items()}


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
        known.update((name, partial(read, self.queue)) for name, read in MORE_ATTRIBUTES.items())
        known["firstMessageAge"] = lambda: views.queue_view(self.broker, self.queue).oldest_ms
        known["firstMessageTimestamp"] = self._first_timestamp
        known["firstMessageAsJSON"] = self._first
        return known

    def figures(self) -> Mapping[str, Callable[[], object]]:
        """Return what takes a look at each message."""
        return figures(self.broker, self.queue)

    def _more(self) -> dict[str, Callable[[Arguments], object]]:
        """Return the operations that are done elsewhere."""
        broker, queue = self.broker, self.queue
        place = Destination(queue.address, queue.routing, queue=queue.name)
        return {
            "sendMessage": lambda given: post(broker, place, given),
            "copyMessage": lambda given: Found(verbs.CopyOne(broker, self.name, given.text(1), given.identity(0))),
            "countDeliveringMessages": lambda given: self._grouped(given, in_flight(queue)),
            "deliverScheduledMessage": lambda given: verbs.Delivery(broker, queue, None, given.identity(0)),
            "deliverScheduledMessages": lambda given: verbs.Delivery(
                broker, queue, selector_or_none(given.text(0, ""))
            ),
            "listDeliveringMessages": lambda given: self._in_flight(),
            "listScheduledMessages": lambda given: self._set_aside(),
            "peekFirstScheduledMessageAsJSON": lambda given: verbs.FirstDelayed(broker, queue),
            "resetMessagesAdded": lambda given: verbs.reset_added(queue),
            "resetMessagesAcknowledged": lambda given: verbs.reset_acknowledged(queue),
            "resetMessagesExpired": lambda given: verbs.reset_expired(queue),
            "resetMessagesKilled": lambda given: verbs.reset_killed(queue),
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to a queue."""
        return (
            self._more()
            | queue_sampling(self.broker, self.census, self.queue)
            | {
                "describe": lambda given: fields_of(views.queue_view(self.broker, self.queue)),
                "describeMessage": lambda given: Shown(self.broker, self.census, self.queue, given.identity(0)),
                "describeLetters": lambda given: msgspec.to_builtins(letters_in(self.broker, self.queue)),
                "pause": lambda given: upkeep.pause(self.broker, self.name),
                "resume": lambda given: upkeep.resume(self.broker, self.name),
                "countMessages": self._count,
                "listMessages": self._list,
                "listMessagesAsJSON": lambda given: self._list(given, as_text=True),
                "browse": self._browse,
                "removeMessages": self._remove_several,
                "removeAllMessages": lambda given: Counted(Purge(self.broker, self.name)),
                "purge": lambda given: Counted(Purge(self.broker, self.name, most_of(given, 0))),
                "moveMessages": lambda given: self._move_several(given, copies=False),
                "copyMessages": lambda given: self._move_several(given, copies=True),
                "retryMessages": self._retry_several,
                "sendMessagesToDeadLetterAddress": self._bury_several,
                "removeMessage": lambda given: Found(Removal(self.broker, self.name, given.identity(0))),
                "moveMessage": self._move_one,
                "retryMessage": lambda given: self._one(given, Retry(self.broker, self.name)),
                "enable": lambda given: self._enable(enabled=True),
                "disable": lambda given: self._enable(enabled=False),
                "expireMessages": self._expire_several,
                "expireMessage": lambda given: self._one(given, Expiry(self.broker, self.name)),
                "listDeliveringMessagesAsJSON": lambda given: json_of(self._in_flight()),
                "listScheduledMessagesAsJSON": lambda given: json_of(self._set_aside()),
                "sendMessageToDeadLetterAddress": lambda given: self._one(given, Burial(self.broker, self.name)),
                "peekFirstMessageAsJSON": lambda given: json_of(self._first_row()),
                "listConsumersAsJSON": self._consumers,
                "listGroupsAsJSON": self._groups,
                "getGroupCount": lambda given: self.get("groupCount"),
                "flushExecutor": lambda given: None,
                "resetGroup": lambda given: self.queue.dispatcher.close_group(given.text(0)),
                "resetAllGroups": lambda given: self.queue.dispatcher.close_group(""),
            }
        )

    def _first_row(self) -> dict[str, Any] | None:
        found = self.queue.stock.walk().step(1)
        return message_row(self.broker, found[0].message) if found else None

    def _first(self) -> str:
        row = self._first_row()
        return json_of([] if row is None else [row])

    def _first_timestamp(self) -> int | None:
        row = self._first_row()
        return None if row is None else int(row["timestamp"])

    def _count(self, given: Arguments) -> object:
        if len(given) > 1 and given.text(1, ""):
            return self._grouped(given, waiting(self.queue))
        selector = selector_or_none(given.text(0, ""))
        if selector is None:
            return int(self.queue.count)
        return Counted(Count(self.broker, self.name, selector))

    def _grouped(self, given: Arguments, chunks: Chunks) -> Grouped:
        """Take ([filter [, property whose values are counted]])."""
        return Grouped(chunks, selector_or_none(given.text(0, "")), given.text(1, ""))

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
        most = most_of(given, 1)
        if selector is None:
            return Counted(Purge(self.broker, self.name, most))
        return Counted(Discard(self.broker, self.name, selector, most))

    def _move_several(self, given: Arguments, *, copies: bool) -> Counted:
        """Take ([flush limit,] filter, target [, reject duplicates [, most]]); duplicates were looked at on arrival."""
        given.drop_leading_number()
        selector = selector_or_none(given.text(0, ""))
        most = most_of(given, 3 if given.is_flag(2) else 2)
        return Counted(Move(self.broker, self.name, given.text(1), selector, most, copies))

    def _retry_several(self, given: Arguments) -> Counted:
        """Take ([filter [, most]])."""
        return Counted(Retry(self.broker, self.name, selector_or_none(given.text(0, "")), most_of(given, 1)))

    def _bury_several(self, given: Arguments) -> Counted:
        return Counted(Burial(self.broker, self.name, selector_or_none(given.text(0, "")), most_of(given, 1)))

    def _enable(self, *, enabled: bool) -> None:
        """Let messages be routed here, or not."""
        self.broker.queues.redefine(self.queue, replace(self.queue.definition, enabled=enabled))

    def _expire_several(self, given: Arguments) -> Counted:
        return Counted(Expiry(self.broker, self.name, selector_or_none(given.text(0, "")), most_of(given, 1)))

    def _in_flight(self) -> list[dict[str, Any]]:
        """Return what consumers have and did not settle, by consumer."""
        left = LISTED_MOST
        found: list[dict[str, Any]] = []
        for consumer in self.queue.roster.consumers:
            held = list(islice(consumer.in_flight.values(), left))
            left -= len(held)
            if held:
                rows = [message_row(self.broker, reference.message) for reference in held]
                found.append({"consumerName": str(consumer.key), "elements": rows})
        return found

    def _set_aside(self) -> list[dict[str, Any]]:
        """Return what waits for the time of its next delivery."""
        held = islice(self.queue.returns.delayed.values(), LISTED_MOST)
        return [message_row(self.broker, reference.message) for reference in held]

    def _move_one(self, given: Arguments) -> Found:
        return self._one(given, Move(self.broker, self.name, given.text(1)))

    def _one(self, given: Arguments, work: Move) -> Found:
        return Found(Removal(self.broker, self.name, given.identity(0), work))

    def _consumers(self, given: Arguments) -> str:
        return json_of([fields_of(view) for view in views.list_consumers(self.broker, self.name)[:DESCRIBED_MOST]])

    def _groups(self, given: Arguments) -> str:
        """Return which consumers own message groups, and how many; groups have no names once they are owned."""
        readers = self.queue.roster.consumers
        return json_of([{"consumer": int(one.key), "groups": int(one.groups)} for one in readers if one.groups])
