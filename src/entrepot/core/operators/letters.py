"""What became of the messages that left a queue without being acknowledged: dead letters by cause, and what expired.

Counts are of this broker since it started; the letters themselves are looked at where they wait, so that their causes
are known after a restart too. Nothing is changed by asking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from entrepot.base.environment import MIB
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.bereaved import DEAD_CAUSE
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message

LETTERS_LOOKED_AT: Final = 300  # at the head of a dead-letter queue
LETTERS_OCTETS: Final = 4 * MIB  # read from disk for it, at most with the last message above
STEP: Final = 100
CAUSES_SHOWN: Final = 5  # the most frequent
ORIGINAL_QUEUE: Final = "_AMQ_ORIG_QUEUE"
_NUMBER: Final = re.compile(r"\d+")


class Letters(msgspec.Struct):
    """Letters of one cause that wait in ``place``. ``cause`` and ``last`` (an id) are those of the newest of them."""

    place: str
    cause: str
    origin: str
    count: int = 0
    last: str = ""


class Looked(msgspec.Struct):
    """Letters by cause, the most frequent first. ``of``: how many messages were looked at; ``all``: these are all."""

    found: list[Letters]
    of: int
    all: bool


def letters_of(broker: BrokerCore, queue: Queue) -> Looked:
    """Return the dead letters that were in ``queue``, by cause, from where its policy sends them."""
    policy = queue.policy
    found: dict[tuple[str, str, str], Letters] = {}
    looked, complete = 0, True
    for name in dict.fromkeys(policy.letter_queues_of(queue.address, queue.routing)):
        place = broker.table.queues.get(name)
        if place is not None and place is not queue:
            count, whole = _count(broker, place, found, origin=queue.name)
            looked, complete = looked + count, complete and whole
    return Looked(_by_frequency(found), looked, complete)


def letters_in(broker: BrokerCore, place: Queue) -> Looked:
    """Return the dead letters that wait in ``place``, by the queue that they were in and by cause."""
    found: dict[tuple[str, str, str], Letters] = {}
    looked, complete = _count(broker, place, found, origin="")
    return Looked(_by_frequency(found), looked, complete)


def holds_letters(broker: BrokerCore, queue: Queue) -> bool:
    """Say whether what waits in ``queue`` are letters: the policy of some queue sends them there, and one came."""
    first = next(_walk(queue), None) if queue.routing == ANYCAST else None
    return first is not None and bool(_fact(first, ORIGINAL_QUEUE))


def _count(
    broker: BrokerCore, place: Queue, found: dict[tuple[str, str, str], Letters], origin: str
) -> tuple[int, bool]:
    """Add the letters in ``place`` to ``found``; return how many messages were looked at, and whether that is all."""
    looked = octets = 0
    for message in _walk(place):
        looked += 1
        octets += int(message.size)
        was_in = _fact(message, ORIGINAL_QUEUE)
        if was_in and origin in ("", was_in):
            cause = _fact(message, DEAD_CAUSE) or "expired"
            key = (place.name, was_in, _NUMBER.sub("#", cause))  # numbers and dates in a cause make no other cause
            letters = found.setdefault(key, Letters(place.name, cause, was_in))
            letters.count += 1
            letters.cause, letters.last = cause, broker.ids.identity_of(message)
        if looked >= LETTERS_LOOKED_AT or octets >= LETTERS_OCTETS:
            break
    return looked, looked >= int(place.backlog.count)


def _walk(queue: Queue) -> Iterator[Message]:
    walk = queue.stock.walk()
    while not walk.done:
        for each in walk.step(STEP):
            yield each.message


def _fact(message: Message, name: str) -> str:
    rare = message.rare
    return "" if rare is None else rare.annotations.get(name, "")


def _by_frequency(found: dict[tuple[str, str, str], Letters]) -> list[Letters]:
    return sorted(found.values(), key=lambda letters: -letters.count)[:CAUSES_SHOWN]
