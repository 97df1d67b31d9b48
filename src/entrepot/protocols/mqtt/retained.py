"""Retained messages: of each topic the last one that came with the retain flag, for subscriptions to come. [C]

They lie in one last-value queue, `QUEUE`, with the topic as the key: so the journal has them over a restart, old ones
page to disk, and operators see them as they see any queue. Artemis has one queue a topic instead (artemis.md 5.3).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.values import LastValues
from entrepot.core.sending.flow import BLOCKED, SENT
from entrepot.core.sending.handing import hand_out
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.mqtt.convert import KEPT, KEY, RETAINS

QUEUE: Final = "$sys.mqtt.retain"


class Retained:
    """All retained messages of one broker."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: BrokerCore = broker

    def values(self) -> LastValues | None:
        """Return what is retained; None before there was anything."""
        queue = self.broker.table.queues.get(QUEUE)
        if queue is None:
            return None
        stock = queue.stock
        return stock if isinstance(stock, LastValues) else None

    def keep(self, message: Message) -> int:
        """Retain a copy of ``message`` in place of the earlier one; none, where it has no payload.

        Return SENT or BLOCKED. Raises AddressFull, StorageError.
        """
        if len(message.raw) == message.body_at:
            values = self.values()
            if values is not None:
                values.take_back(message.address)
            return SENT
        broker = self.broker
        queue = broker.table.queues.get(QUEUE)
        if queue is None:
            queue = broker.queues.create(
                QueueDefinition(name=QUEUE, address=QUEUE, routing=MULTICAST, last_value_key=KEY, auto_delete=False)
            )
        copy = message.twin(message.address)
        copy.durable = True
        copy.escaped = message.escaped
        if not message.durable:
            copy.mark(RETAINED_QOS_0, 1)
        copy.number = broker.ids.next_number()
        verdict = broker.flow.check_room([queue])
        if verdict == SENT and broker.journal.pages and not broker.flow.has_disk(copy, [queue]):
            verdict = BLOCKED
        hand_out(broker, copy, [queue])
        return verdict

    def count(self) -> int:
        """Return how many topics have one."""
        values = self.values()
        return 0 if values is None else len(values.newest)

    def give(self, queue: Queue, pattern: str) -> None:
        """Let what is retained for ``pattern`` enter ``queue``, as far as this turn reaches, and then the rest."""
        values = self.values()
        if values is None or not values.newest:
            return
        if not is_pattern(pattern, MIXED):
            names = [pattern] if pattern in values.newest else []
        else:
            names = list(values.newest)
            self.broker.effort.spent += len(names) >> 4
        if names:
            _Giving(self, queue, pattern, names).resume()

    def copy_for(self, name: str, queue: Queue, newest: i64) -> Message | None:
        """Return what is retained for ``name`` as a subscription gets it; None when there is nothing any more.

        ``newest``: the number of the last message before it subscribed. What is retained since it got when it came.
        """
        values = self.values()
        message = None if values is None else values.current(name)
        broker = self.broker
        if message is None or message.number > newest or (message.expiration > 0 and message.expiration <= broker.wall):
            return None
        if queue.filter_origin > 0 and message.origin == queue.filter_origin:
            return None
        copy = message.twin(message.address)
        if copy.marked(RETAINED_QOS_0) is not None:
            copy.durable = False
            copy.unmark(RETAINED_QOS_0)
        copy.number = broker.ids.next_number()
        copy.mark(RETAINS, KEPT)
        return copy


RETAINED_QOS_0: Final = "mqtt.qos0"  # internal annotation: it was published with QoS 0, and is kept all the same


class _Giving(Rest):
    """Gives a new subscription what its topics retain: of each what is the last then, so nothing old comes late."""

    def __init__(self, retained: Retained, queue: Queue, pattern: str, names: list[str]) -> None:
        super().__init__()
        self.retained: Retained = retained
        self.queue: Queue = queue
        self.pattern: str = pattern
        self.names: list[str] = names
        self.newest: i64 = retained.broker.ids.number
        self.at: i64 = 0

    def resume(self) -> None:
        """Give more."""
        broker = self.retained.broker
        effort = broker.effort
        names = self.names
        while self.at < len(names):
            if effort.is_over():
                effort.later(self)
                return
            if self.queue.deleted:
                return
            name = names[self.at]
            self.at += 1
            if name == self.pattern or covers(self.pattern, name):
                copy = self.retained.copy_for(name, self.queue, self.newest)
                effort.spent += 1
                if copy is not None:
                    hand_out(broker, copy, [self.queue])


def covers(pattern: str, name: str) -> bool:
    """Return whether a filter covers a topic, both as addresses: a wildcard does not begin a name with $ (5: 4.7.2)."""
    if name[:1] == "$" and pattern[:1] in ("*", ">", "#"):
        return False
    return pattern_matches(pattern, name, MIXED)
