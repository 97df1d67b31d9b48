"""A long message in memory on its way to one of many readers: it waits for a turn, and for room. [C]

It is in flight already, and its consumer gets nothing else meanwhile: `core/queue/measuring.py` holds it. What is
compressed counts as what it may become for readers of other languages, who get it inflated.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MIB
from entrepot.base.inflation import DEFLATE_RATIO_MAX, INFLATED_OCTETS_MAX
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.ports import Host
from entrepot.core.queue.consumer import Consumer, Measurement
from entrepot.core.queue.landing import Landing, is_to_land
from entrepot.core.room import Room
from entrepot.model.message import Message

COPY_OCTETS: Final = 1 << OCTETS_SHIFT  # what a delivery copies counts from here on
LONG_OCTETS: Final = 1 * MIB  # from here on a copy waits for room


class Copying(Measurement):
    """Waits until there is room for a copy of so many octets, which is work of the turn that makes it."""

    def __init__(self, room: Room, octets: i64) -> None:
        super().__init__()
        self.room = room
        self.octets: i64 = octets

    def step(self) -> bool:
        """Return whether there is."""
        room = self.room
        if room is None or not room.take():
            return False
        room.effort.spent += self.octets >> OCTETS_SHIFT
        return True


def copied(message: Message, speaks: i64) -> i64:
    """Return how many octets may be written of what is in memory of ``message``.

    ``speaks``: the code of the language whose messages this reader gets as they are; -1: of none, or not known.
    """
    octets: i64 = len(message.raw)
    rare = message.rare
    if rare is not None and rare.deflated and message.language.code != speaks:
        return min(octets * DEFLATE_RATIO_MAX, INFLATED_OCTETS_MAX)
    return octets


def to_find_out(host: Host, message: Message, consumer: Consumer) -> Measurement | None:
    """Return what comes before ``message`` is written to ``consumer``; None: nothing, and it is work of this turn."""
    found = _to_find_out(host, message, consumer)
    return Landing(host, message, found) if is_to_land(host, message, consumer) else found


def _to_find_out(host: Host, message: Message, consumer: Consumer) -> Measurement | None:
    rare = message.rare
    if rare is not None and rare.large_id != 0:
        return consumer.measure(message)
    octets = copied(message, consumer.speaks)
    effort = host.effort
    if octets >= LONG_OCTETS and (effort.is_over() or not host.room.is_there()):
        return Copying(host.room, octets)
    if octets >= COPY_OCTETS:
        effort.spent += octets >> OCTETS_SHIFT
    return None
