"""What waits in one durable subscription goes over to others, each message to those that cannot have had it. [C]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.taking import Pick
from entrepot.core.sending.handing import hand_out

POUR_STEP: Final = 200  # messages read at a time


def pour(
    broker: BrokerCore,
    source: Queue,
    targets: Sequence[tuple[Queue, int]],
    doubts: Mapping[int, None],
    poured: Sequence[tuple[int, int]] = (),
) -> int:
    """Move what waits in ``source`` to all of ``targets``; return how much. Raises StorageError.

    With each comes the number of the last message that it cannot have had itself; -1: nobody knows, so what it still
    has is left out, and what has left it already may come twice. ``doubts``: messages that may have arrived already;
    ``poured``: numbers of copies that were made here before, which no other queue can have had.
    """
    there: list[dict[int, None]] = [_numbers_in(target) if last < 0 else {} for target, last in targets]
    again = _repeated_in(broker, source)
    moved = 0
    walk = source.stock.walk()
    while not walk.done:
        for reference in source.taking.take(walk, POUR_STEP, POUR_STEP, Pick(None)):
            number = int(reference.number)
            broker.journal.begin()
            try:
                wanted = 0
                for (target, last), known in zip(targets, there, strict=True):
                    if number not in known and (last < 0 or number <= last or _is_within(poured, number)):
                        copy = broker.ids.renumbered(reference.message)
                        copy.redelivered = (
                            copy.redelivered
                            or number in doubts
                            or (bool(again) and broker.ids.identity_of(copy) in again)
                        )
                        hand_out(broker, copy, [target])
                        wanted = 1
                moved += wanted
                source.stock.finish(reference)
            finally:
                broker.journal.end()
    return moved


def _is_within(ranges: Sequence[tuple[int, int]], number: int) -> bool:
    return any(first <= number <= last for first, last in ranges)


def holds(queue: Queue, until: int) -> bool:
    """Return whether a message up to the number ``until`` waits in ``queue``."""
    walk = queue.stock.walk()
    while not walk.done:
        if any(int(one.message.number) <= until for one in walk.step(POUR_STEP)):
            return True
    return False


def _repeated_in(broker: BrokerCore, queue: Queue) -> dict[str, None]:
    """Return the identities of messages that came to ``queue`` as a repetition.

    The repetition may have crossed another way meanwhile: then what came first arrives second, and needs the mark.
    """
    found: dict[str, None] = {}
    walk = queue.stock.walk()
    while not walk.done:
        for one in walk.step(POUR_STEP):
            if one.message.redelivered:
                found[broker.ids.identity_of(one.message)] = None
    return found


def _numbers_in(queue: Queue) -> dict[int, None]:
    found: dict[int, None] = {}
    walk = queue.stock.walk()
    while not walk.done:
        for one in walk.step(POUR_STEP):
            found[int(one.message.number)] = None
    return found
