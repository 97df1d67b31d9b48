"""Where is this message now? A search of everything that a broker holds, a bounded step at a time.

It finds a message by the id that clients know, by this broker's number for it, or as what a message with that id
became: a dead letter, an expired one, the copy of a divert. Between two steps the broker goes on; what moves meanwhile
may be seen at both places or, behind the search, at none: ask again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import EntrepotError
from entrepot.base.reasons import ABOUT
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.bereaved import DEAD_CAUSE
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import SCHEDULED_TARGET
from entrepot.model.message import Message

if TYPE_CHECKING:
    from entrepot.core.operators.census import Census

STEP_MESSAGES: Final = 500
LOAD_MESSAGES: Final = 64
FOUND_MOST: Final = 100  # a topic gives a copy to each subscription
ORIGINAL_ID: Final = "_AMQ_ORIG_MESSAGE_ID"
ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"


class Search:
    """A `Work`: its result is a list of places, each a dict; empty when this broker has no such message."""

    def __init__(self, broker: BrokerCore, census: Census, identity: str | int) -> None:
        self.broker: Final = broker
        self.census: Final = census
        self.identity: Final = identity
        self.found: list[dict[str, Any]] = []
        self._looking = self._look()

    def step(self) -> bool:
        """Look on; return whether that was all."""
        return next(self._looking, True) or len(self.found) >= FOUND_MOST

    def result(self) -> object:
        """Return the broker's name and what it knows."""
        return {
            "broker": self.broker.options.name,
            "node": self.broker.ids.node_id,
            "uuid": self.broker.ids.node.uuid_text,
            "url": self.census.url,
            "trace": self.census.trace,
            "places": self.found,
            "had": not self.found and self._had(),
            "repeated": self._repeated(),
        }

    def _look(self) -> Iterator[bool]:
        for queue in list(self.broker.table.queues.values()):
            self._held(queue)
            yield False
            walk = queue.stock.walk()
            position = 0
            while not walk.done:
                for each in walk.step(STEP_MESSAGES):
                    self._if_it(each.message, queue, "waiting", position=position)
                    position += 1
                yield False
        yield from self._leased()
        for number in list(self.broker.scheduled.schedules):
            self._scheduled(number)
            yield False
        for branch in list(self.broker.branches.prepared.values()):
            for hold in branch.holds:
                message = self._load(hold.number) if hold.reference is None else hold.reference.message
                if message is not None:
                    self._if_it(message, hold.queue, "in a prepared transaction", holder=branch.transaction.name)
            for message in branch.transaction.sends:
                self._if_it(message, None, "sent in a prepared transaction", holder=branch.transaction.name)
            yield False

    def _held(self, queue: Queue) -> None:
        """Look at what one queue has in memory besides its backlog."""
        for consumer in list(queue.roster.consumers):
            for number, reference in list(consumer.in_flight.items()):
                transaction = consumer.promised.get(number, "")
                state = "in a transaction" if transaction else ("crossing" if consumer.peer() else "in flight")
                self._if_it(
                    reference.message,
                    queue,
                    state,
                    holder=transaction or consumer.called(),
                    peer=consumer.peer(),
                    deliveries=int(reference.deliveries),
                )
        for reference in list(queue.returns.delayed.values()):
            due = max(0, int(reference.due - self.broker.now)) // MILLISECOND
            self._if_it(reference.message, queue, "delayed", due_ms=due, deliveries=int(reference.deliveries))
        for reference in list(queue.promised.values()):
            self._if_it(reference.message, queue, "in a transaction", holder="one whose consumer has left")

    def _leased(self) -> Iterator[bool]:
        for lease in list(self.broker.leases.held.values()):
            positions = list(range(lease.base, lease.tail))
            for at in range(0, len(positions), LOAD_MESSAGES):
                for position in positions[at : at + LOAD_MESSAGES]:
                    kept = lease.kept.get(position)
                    number = lease.numbers.get(position)
                    message = kept.message if kept is not None else None if number is None else self._load(number)
                    if message is not None:
                        self._if_it(message, lease.queue, "leased", holder=lease.group, position=position)
                yield False

    def _scheduled(self, number: int) -> None:
        if number not in self.broker.scheduled.schedules:
            return
        message = self.broker.scheduled.schedules[number] or self._load(number)
        if message is None:
            return
        rare = message.need_rare()
        due = max(0, int(rare.deliver_at) - int(self.broker.wall))
        self._if_it(message, None, "scheduled", holder=rare.annotations.get(SCHEDULED_TARGET, ""), due_ms=due)

    def _load(self, number: int) -> Message | None:
        """Return a message from disk; None for one that was settled meanwhile."""
        try:
            return self.broker.journal.reading.load(number)
        except EntrepotError:
            return None

    def _if_it(self, message: Message, queue: Queue | None, state: str, **more: object) -> None:
        rare = message.rare
        annotations = {} if rare is None else rare.annotations
        own = self.broker.ids.identity_of(message)
        if isinstance(self.identity, int):
            if message.number != self.identity:
                return
        elif self.identity not in (own, annotations.get(ORIGINAL_ID)):
            return
        cause = annotations.get(DEAD_CAUSE, "")
        wall = int(self.broker.wall)
        self.found.append(
            {
                "state": f"dead letter, {state}" if cause else state,
                "queue": "" if queue is None else queue.name,
                "id": own,
                "number": int(message.number),
                "path": self.census.path(message),
                "original": annotations.get(ORIGINAL_ADDRESS, ""),
                "cause": cause,
                "durable": message.durable,
                "size": len(message.raw),
                "age_ms": max(0, wall - int(message.timestamp)) if message.timestamp else -1,
                "expires_in_ms": int(message.expiration) - wall if message.expiration else -1,
                **more,
            }
        )

    def _repeated(self) -> list[dict[str, Any]]:
        """Return what was dropped here because it was a repetition of the message."""
        found = self.broker.sending.repetitions.last.get(str(self.identity))
        if found is None:
            return []
        age = max(0, int(self.broker.wall) - int(found.wall))
        return [
            {
                "address": found.address,
                "code": found.code,
                "why": ABOUT[found.code],
                "times": int(found.count),
                "age_ms": age,
            }
        ]

    def _had(self) -> bool:
        """Return whether this broker certainly had the message: it gave the id itself, or knows its producer's last.

        A message that is here no more was settled, was forwarded, or expired where nothing keeps what expires.
        """
        broker = self.broker
        if isinstance(self.identity, int):
            return 0 < self.identity <= int(broker.ids.number)
        number = self.identity.removeprefix(broker.ids.node.message_prefix)
        if number != self.identity and number.isdigit():
            return 0 < int(number) <= int(broker.ids.number)
        producer, _, sequence = self.identity.rpartition(":")
        return bool(producer and sequence.isdigit() and broker.sequences.had(producer, int(sequence)))
