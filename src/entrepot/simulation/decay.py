"""Records that rot on the disk of a simulated machine while a lease holds their messages.

A journal with a damaged record does not start (`journal/recovery.py`), so what rotted is restored whenever the broker
ends, as an operator does from a copy. Until then nobody is shown anything of the message but that it is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.simulation.checkers import Ledger, Record
from entrepot.simulation.machine import Machine
from entrepot.simulation.world import Lots, World

TRIES: Final = 150  # looks for messages that are leased
PAUSE: Final = 20 * MILLISECOND
MOST: Final = 4  # records that rot together


class Decay:
    """Lets records rot. ``numbers``: of the messages whose records did."""

    def __init__(self, world: World, machine: Machine, ledger: Ledger) -> None:
        self.world = world
        self.machine = machine
        self.ledger = ledger
        self.numbers: dict[int, None] = {}

    def begin(self, lots: Lots, is_reader: Callable[[str], bool], tries: int = TRIES) -> None:
        """Damage some of what readers hold by lease, as soon as they do; ``is_reader``: of the group of a lease."""
        held = self._held(is_reader)
        if held and lots.chance(0.5):  # or later, when more of it has been read
            for _ in range(lots.between(1, MOST)):
                self._damage(lots.one_of(held), lots)
        elif tries:
            self.world.later(PAUSE, lambda: self.begin(lots, is_reader, tries - 1))

    def _held(self, is_reader: Callable[[str], bool]) -> list[int]:
        broker = self.machine.broker
        if broker is None:
            return []
        return [
            number
            for _, lease in sorted(broker.leases.held.items())
            if is_reader(lease.group)
            for number in lease.numbers.values()
            if broker.journal.reading.on_disk(number)
        ]

    def _damage(self, number: int, lots: Lots) -> None:
        """Flip bits of one octet of a record that stands for one message in one queue."""
        broker = self.machine.broker
        assert broker is not None
        journal = broker.journal
        if number in self.numbers:
            return
        message = journal.reading.load(number)
        identity = message.fact("sim-id")
        assert isinstance(identity, str)
        record = self.ledger.records[identity]
        if not is_alone(record):
            return
        index = journal.tail.index
        segment = index.find(number)
        assert segment is not None
        at = int(segment.offsets[index.slot]) + lots.below(int(segment.lengths[index.slot]))
        if not self.machine.disk.decay(segment.name, at, lots.between(1, 255)):
            return
        self.numbers[number] = None
        self.ledger.rots(f"{broker.ids.prefix}{number}", record)
        self.world.note(f"the record of {identity}, message {number}, rots in {segment.name} at {at}")
        self.world.count("decay")


def is_alone(record: Record) -> bool:
    """Say whether nobody else has a message of the same record: that would need readers of another kind."""
    return len(record.queues) == 1 and not record.topics and not record.repeats
