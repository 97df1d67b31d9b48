"""Sums over the messages of one queue, in steps: what the broker has no counter of, because it would cost each message.

What waits is read, from disk too: who asks for these every second makes the broker read that queue every second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Final

from entrepot.base.errors import EntrepotError, LimitExceeded
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.control import json_of
from entrepot.core.operators.upkeep import STEP_LOOKS
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.queue import Queue
from entrepot.core.transactions.branches import Hold
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

GROUPS_MOST: Final = 10_000  # values of a property in one answer
GROUPS_CHARACTERS_MOST: Final = 1024 * 1024  # of these values together: each may be as long as a message
TOLD_MOST: Final = 10_000  # messages of prepared branches in one answer

Chunks = Iterator[list[Message]]


def waiting(queue: Queue) -> Chunks:
    """Return what waits in ``queue``, some at a time."""
    walk = queue.stock.walk()
    while not walk.done:
        yield [found.message for found in walk.step(STEP_LOOKS)]


def in_flight(queue: Queue) -> Chunks:
    """Return what consumers have and did not settle, consumer by consumer."""
    consumers = list(queue.roster.consumers)
    yield from _chunks(chain.from_iterable(list(consumer.in_flight.values()) for consumer in consumers))


def set_aside(queue: Queue) -> Chunks:
    """Return what waits for the time of its next delivery."""
    yield from _chunks(iter(list(queue.returns.delayed.values())))


def _chunks(held: Iterator[Reference]) -> Chunks:
    while some := list(islice(held, STEP_LOOKS)):
        yield [reference.message for reference in some]


def everything(queue: Queue) -> Chunks:
    """Return all of these."""
    for part in (in_flight, set_aside, waiting):
        yield from part(queue)


def one(message: Message) -> int:
    """Count ``message``."""
    return 1


def size(message: Message) -> int:
    """Return the octets of ``message``."""
    return int(message.size)


class Tally:
    """A `Work` that adds up ``value`` of messages; ``durable``: of those that outlive a restart."""

    def __init__(self, chunks: Chunks, value: Callable[[Message], int] = one, *, durable: bool = False) -> None:
        self.chunks: Final = chunks
        self.value: Final = value
        self.durable: Final = durable
        self.total = 0

    def step(self) -> bool:
        """Add some."""
        some = next(self.chunks, None)
        if some is None:
            return True
        self.total += sum(self.value(message) for message in some if message.durable or not self.durable)
        return False

    def result(self) -> object:
        """Return the sum."""
        return self.total


class Grouped:
    """A `Work` that counts messages which ``selector`` wants, by what they have as ``name``; "" counts all together."""

    def __init__(self, chunks: Chunks, selector: Predicate | None, name: str) -> None:
        self.chunks: Final = chunks
        self.selector: Final = selector
        self.name: Final = name
        self.counts: dict[str, int] = {}
        self.characters = 0

    def step(self) -> bool:
        """Count some. Raises LimitExceeded where there are too many values, or too long ones."""
        some = next(self.chunks, None)
        for message in some or ():
            if self.selector is None or self.selector.matches(message):
                self._add(_value(message, self.name) if self.name else "null")
        return some is None

    def _add(self, value: str) -> None:
        known = self.counts.get(value, 0)
        self.counts[value] = known + 1
        if known:
            return
        self.characters += len(value)
        if len(self.counts) > GROUPS_MOST or self.characters > GROUPS_CHARACTERS_MOST:
            raise LimitExceeded(
                f"{self.name!r} has more than {GROUPS_MOST} values, or {GROUPS_CHARACTERS_MOST} characters of them",
                remedy="count by a filter",
            )

    def result(self) -> object:
        """Return value -> count as JSON, or the count where nothing was to be told apart."""
        return json_of(self.counts) if self.name else self.counts.get("null", 0)


def _value(message: Message, name: str) -> str:
    """Return a property as text, "null" for none, as Artemis names the group of those without."""
    try:
        found = message.fact(name)
    except EntrepotError:
        found = None
    if found is None:
        return "null"
    return str(found).lower() if isinstance(found, bool) else str(found)


class Held:
    """A `Work` that counts which messages of ``queue`` prepared branches will settle when they commit."""

    def __init__(self, broker: BrokerCore, queue: Queue) -> None:
        branches = list(broker.branches.prepared.values())
        self.holds: Final[Iterator[Hold]] = chain.from_iterable(list(branch.holds) for branch in branches)
        self.queue: Final = queue
        self.total = 0

    def step(self) -> bool:
        """Count some."""
        some = list(islice(self.holds, STEP_LOOKS))
        self.total += sum(1 for hold in some if hold.queue is self.queue and not hold.ended)
        return not some

    def result(self) -> object:
        """Return how many."""
        return self.total


def figures(broker: BrokerCore, queue: Queue) -> Mapping[str, Callable[[], object]]:
    """Return attributes that take steps to read, each a `Work`; octets for sizes."""

    def summed(part: Callable[[Queue], Chunks], value: Callable[[Message], int] = one, durable: bool = True) -> Tally:
        return Tally(part(queue) if queue.durable or not durable else iter(()), value, durable=durable)

    return {
        "deliveringSize": partial(summed, in_flight, size, durable=False),
        "durableDeliveringCount": partial(summed, in_flight),
        "durableDeliveringSize": partial(summed, in_flight, size),
        "scheduledSize": partial(summed, set_aside, size, durable=False),
        "durableScheduledCount": partial(summed, set_aside),
        "durableScheduledSize": partial(summed, set_aside, size),
        "durableMessageCount": partial(summed, everything),
        "durablePersistentSize": partial(summed, everything, size),
        "preparedTransactionMessageCount": partial(Held, broker, queue),
    }


def prepared_json(broker: BrokerCore, most: int) -> str:
    """Return the branches that are prepared, each with what it sends and settles; "" for none, as Artemis answers.

    At most ``most`` branches, and `TOLD_MOST` messages of all of them together.
    """
    rows: list[dict[str, object]] = []
    left = TOLD_MOST
    for branch in islice(broker.branches.prepared.values(), most):
        told: list[dict[str, object]] = [{"message_operation_type": "(+) send"} for _ in branch.numbers[:left]]
        told += [
            {"message_operation_type": "(-) receive", "queue": hold.queue.name, "message_id": hold.number}
            for hold in branch.holds[: left - len(told)]
            if not hold.ended
        ]
        left -= len(told)
        rows.append({"xid_as_base64": branch.transaction.name, "tx_related_messages": told})
    return json_of(rows) if rows else ""
