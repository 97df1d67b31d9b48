"""What a simulated primary of copies does all the time: takes messages, lets some be read, compacts its store."""

from __future__ import annotations

from functools import partial
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import CorruptJournal
from entrepot.ha.follower import Host
from entrepot.ha.replication import Replication
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message, language
from entrepot.simulation.coinciding import is_copied, is_read_soon
from entrepot.simulation.shared import Process
from entrepot.simulation.told import Told
from entrepot.simulation.world import World

NUMBER_SHIFT: Final = 40
LANGUAGE: Final = 201
QUEUES: Final = 3
SCRATCH_STEPS: Final = 8  # of 2 KiB: more than what is left of a segment


class Stock:
    """What is produced for one store, and whether."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.producing = True
        self.coincide = False  # compactions wait for replicas that copy, and end while their files are read
        self.damaged = False  # an octet of a primary's store was changed
        self.settling: dict[int, bool] = {}  # messages whose settlement was asked for
        self.bodies: dict[int, int] = {}  # large ones -> octets

    def promised(self, name: str, epoch: int, number: int, what: str) -> None:
        """A broker confirms that it keeps a message, or that one is settled."""


class Producer(Host):
    """A primary as producers and readers see it."""

    copy: Process
    all: Stock
    journal: JournalCore
    replication: Replication

    def __init__(self, epoch: int) -> None:
        self.epoch: Final = epoch
        self.over = False
        self.open = False
        self.numbers = 0
        self.live: dict[int, int] = {}

    def work(self) -> None:
        """Take some messages, and let some be read; again and again."""
        if self.over or not self.open:
            return
        lots, journal = self.copy.lots, self.journal
        if self.all.coincide and self.all.producing and is_copied(self.replication):
            for number in list(self.live)[:20]:
                self._settle(number)
            journal.flush()
            self._compact()
        if journal.refusal() is None and len(self.live) < 120 and self.all.producing:
            for _ in range(lots.between(1, 4)):
                self._store()
        if self.all.producing:
            for number in list(self.live)[: lots.between(0, 5)]:
                if lots.chance(0.5):
                    self._settle(number)
        journal.flush()
        if lots.chance(0.4) and self.all.producing:  # else a file may go in the moment in which all are compared
            self._compact()
            journal.flush()
        self.copy.later(lots.skewed(MILLISECOND, 200 * MILLISECOND), self.work)

    def _end_compaction(self) -> None:
        """While a scratch file is read it gets its name, if the disk is quick."""
        if self.over or not self.open:
            return
        for _ in range(SCRATCH_STEPS):
            self._compact()
        self.journal.flush()

    def _compact(self) -> None:
        if self.all.coincide and is_read_soon(self.replication):
            return
        try:
            self.journal.compact(2048)
        except CorruptJournal:
            if not self.all.damaged:
                raise
            self.all.world.count("damage met by compaction")

    def _store(self) -> None:
        lots = self.copy.lots
        self.numbers += 1
        number = (self.epoch << NUMBER_SHIFT) + self.numbers
        made = Message(language(LANGUAGE), "orders", lots.token(lots.skewed(10, 3000)))
        made.number = number
        made.durable = True
        if lots.chance(0.05):
            self._large(made, number)
        queue = 1 + number % QUEUES
        self.journal.store(made, [queue])
        if number in self.all.bodies:
            self.journal.overflow.release(number)  # from here on the message holds it
        self._promise(number, "stored")
        self.live[number] = queue

    def _large(self, made: Message, number: int) -> None:
        octets = self.copy.lots.token(5000)
        overflow = self.journal.overflow
        overflow.create(number)
        overflow.write(number, octets)
        overflow.seal(number)
        rare = made.need_rare()
        rare.large_id, rare.large_length, rare.large_checked = number, len(octets), True
        self.all.bodies[number] = len(octets)

    def _settle(self, number: int) -> None:
        queue = self.live.pop(number)
        self.all.settling[number] = True
        self.journal.settle(number, queue)
        self._promise(number, "settled")

    def _promise(self, number: int, what: str) -> None:
        self.journal.confirm(Told(partial(self.all.promised, self.copy.name, self.epoch, number, what)), b"")
