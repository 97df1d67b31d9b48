"""The brokers of nodes that host one another's copies, in the seeded world: a node's own, and those that it starts.

What decides in each is what `simulation/copies.py` has: the product. This is what differs from brokers of one store
alone: where other primaries answer as well, whose process ends with whose, and what a backup with ``<scale-down>``
does with what it took over.

The last is a model (`Empties`). It keeps the drain's promises and plays what may break them: nothing moves while no
other copy would know of it; a message is settled here once the target has confirmed it, under an id by which the target
knows one that comes again; what was on its way when its giver ended may be in both stores. It has not the drain's
bindings, its bridges over CORE, its notes in the journal, nor a target that changes: those are the product's in
`--clusters --drains` (`simulation/drained.py`), and processes that are killed in the middle of it in
`tests/shell/test_pair_scale_down.py`, with their host in `test_colocated.py`. Of the product here are the lease, the
replication, the journal, and who hosts. Why a model: the product's drain moves the queues of a whole broker over
sessions of CORE, and a broker here is a journal with a list of messages. With whole brokers each seed would be one of
`--clusters` with a lease and copies around it, which nobody has built; what only both together can show is how ids
outlive giver, host and target, and that is the journal's, which is here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration
from entrepot.cluster.clusters.hosted import Hosted
from entrepot.core.records import KIND_DUPLICATE
from entrepot.ha.follower import Follower
from entrepot.ha.lease import BACKUP, PRIMARY
from entrepot.ha.standing import Standing
from entrepot.simulation.copies import Copy, Primary
from entrepot.simulation.hosted_ledger import OneStore
from entrepot.simulation.producing import NUMBER_SHIFT
from entrepot.simulation.recovered import Found
from entrepot.simulation.shelves import SimulatedShelf
from entrepot.simulation.told import Told

RESTARTED_AFTER: Final = 2 * SECOND
GIVEN_UP: Final = 0.2  # of the deaths of a process that is hosted: they were too many in a row
ENDED_WITHIN: Final = 10 * SECOND  # a process whose host has ended; then it is killed
LOST_AFTER: Final = 2 * SECOND  # what was sent to the target and not answered is sent again
LIVE_MAX: Final = 60


class Host:
    """A machine, as brokers on it know it (`simulation/hosts.py`).

    ``guests``: by the identity of the store, whether their processes live or not; ``target``: where what they take over
    goes, if they serve nobody.
    """

    main: Own

    def __init__(self, name: str, shelf: SimulatedShelf) -> None:
        self.name: Final = name
        self.shelf = shelf
        self.guests: dict[str, Guest] = {}
        self.target = self

    def waits(self) -> None:
        """Its own broker has begun, and waits for its store."""
        raise NotImplementedError

    def serves(self) -> None:
        """Its own broker serves."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Its own broker has ended."""
        raise NotImplementedError

    def ended(self, hosted: Hosted, why: str) -> None:
        """A guest is not started again."""
        raise NotImplementedError


class Serves(Primary):
    """A primary with readers, and with room for what others give away."""

    def __init__(self, copy: Member, epoch: int) -> None:
        super().__init__(copy, epoch)
        self.store: Final = copy.store
        self.ids: dict[bytes, bool] = {}

    def recall(self, found: Found) -> None:
        """Know what is to be read yet, and what came from other stores."""
        super().recall(found)
        self.ids = {key: True for key, kind in found.documents.items() if kind == KIND_DUPLICATE}

    def work(self) -> None:
        """Take some messages, and let some be read, until all are; again and again."""
        if self.over or not self.open:
            return
        lots, journal = self.copy.lots, self.journal
        if self.all.producing and journal.refusal() is None and len(self.live) < LIVE_MAX:
            for _ in range(lots.between(1, 3)):
                self._store()
        for number in list(self.live)[: lots.between(0, 4)]:
            if lots.chance(0.5) or not self.all.producing:
                self._settle(number)
        journal.flush()
        if lots.chance(0.2) and self.all.producing:
            self._compact()
            journal.flush()
        self.copy.later(lots.skewed(5 * MILLISECOND, 500 * MILLISECOND), self.work)

    def _settle(self, number: int) -> None:
        """A reader has it."""
        self.store.ledger.asked[self.store.identity_of(number)] = True
        super()._settle(number)

    def take_over(self, key: bytes, identity: str, then: Callable[[], None]) -> None:
        """A message of another store comes; ``then`` once it is confirmed. One that came before is here.

        ``key``: of which store, and its number there: one that went to and fro is another one each time.
        """
        if self.over or not self.open or self.journal.refusal() is not None:
            return
        if key not in self.ids:
            self.journal.begin()
            self._store()
            self.store.came[(self.epoch << NUMBER_SHIFT) + self.numbers] = identity
            self.journal.put(KIND_DUPLICATE, key, b"")
            self.journal.end()
            self.ids[key] = True
        self.journal.confirm(Told(then), b"")
        self.journal.flush()


class Empties(Primary):
    """A backup with ``<scale-down>``: it serves nobody, and all goes to a node (`cluster/clusters/emptying.py`)."""

    def __init__(self, copy: Guest, epoch: int) -> None:
        super().__init__(copy, epoch)
        self.guest: Final = copy
        self.store: Final = copy.store
        self.target: Final = copy.node.target
        self.under_way: dict[int, bool] = {}

    def work(self) -> None:
        """Give away some of what is here, where another copy would know of it."""
        if self.over or not self.open:
            return
        lots = self.copy.lots
        if not self.replication.held:
            for number in [each for each in self.live if each not in self.under_way][: lots.between(1, 8)]:
                self._move(number)
        self.journal.flush()
        self.copy.later(lots.skewed(5 * MILLISECOND, 300 * MILLISECOND), self.work)

    def _move(self, number: int) -> None:
        self.under_way[number] = True
        self.store.moving[number] = self.guest.node.name
        self.copy.world.count("moves")
        if self.all.planted == "settled before the target has it":
            self._moved(number)
        self.copy.later(LOST_AFTER, partial(self._again, number))
        self._pass(self.target.main, lambda: self._arrive(number), back=False)

    def _again(self, number: int) -> None:
        self.under_way.pop(number, None)

    def _arrive(self, number: int) -> None:
        primary = self.target.main.primary
        if isinstance(primary, Serves):
            then = partial(self._pass, self.copy, partial(self._moved, number), back=True)
            primary.take_over(f"{self.store.name}:{number}".encode(), self.store.identity_of(number), then)

    def _pass(self, to: Copy, action: Callable[[], None], *, back: bool) -> None:
        """Do ``action`` there after a while, where anything passes between the two."""
        near, far = self.copy.name, self.target.main.name
        way = (far, near) if back else (near, far)
        if way not in self.all.network.cut:
            to.later(self.copy.lots.skewed(20 * MICROSECOND, 5 * MILLISECOND), action)

    def _moved(self, number: int) -> None:
        if self.copy.primary is self and not self.over and self.open and number in self.live:
            self._settle(number)
            self.journal.flush()

    def asked_back(self, follower: Follower) -> None:
        """The primary is in sync and wants its store: nobody is served, so it has it at once (`io/replicating.py`)."""
        if follower.since >= 0 and not self.returns.over:
            self.returns.over = True
            self.copy.lease.candidate.gave_back = True
            self.all.gives_back(self.copy, follower.copy)
            self.copy.later(self.copy.lots.skewed(MICROSECOND, 10 * MILLISECOND), self.copy.stop)


class Member(Copy):
    """A broker on one of the nodes."""

    def __init__(self, store: OneStore, node: Host, name: str, part: str) -> None:
        self.store: Final = store
        self.node: Final = node
        super().__init__(store, name, part)

    def serving(self, epoch: int) -> Primary:
        """Return what it does as primary."""
        return Serves(self, epoch)

    def lose_power(self) -> None:
        """The machine stops."""
        if self.alive:
            self.crash()
        else:
            self.boots += 1
            self.disk.crash()


class Own(Member):
    """A node's own broker. What it started ends when it does."""

    def __init__(self, store: OneStore, node: Host) -> None:
        super().__init__(store, node, node.name, PRIMARY)

    def start(self) -> None:
        """Begin as one that waits for its store."""
        super().start()
        self.later(0, self.node.waits)

    def die(self) -> None:
        """The process is gone."""
        super().die()
        self.node.abandon()

    def lose_disk(self) -> None:
        """There is a new one in its place, and nothing on it. The machine has stopped."""
        self.note = None
        self.disk.medium.view.clear()
        self.disk.medium.durable.clear()


class Guest(Member):
    """A process that a node has started: the backup of another one's store. ``orphan``: who started it is gone."""

    def __init__(self, store: OneStore, node: Host) -> None:
        self.hosted: Hosted | None = None
        self.orphan = False
        self._killed = False
        super().__init__(store, node, f"{node.name}-backup-of-{store.name}", BACKUP)

    def start(self) -> None:
        """Begin, unless who would have started it is gone by now."""
        if self.orphan or self.alive:
            return
        self._killed = False
        self.note = self.node.shelf.drawers[self.store.text].standing
        super().start()

    def serving(self, epoch: int) -> Primary:
        """Return what it does with what it takes over."""
        return Empties(self, epoch) if self.store.drains else super().serving(epoch)

    def persist(self, standing: Standing) -> None:
        """Have it in its directory."""
        super().persist(standing)
        self.node.shelf.drawers[self.store.text].standing = self.note

    def kill(self, back: Duration = RESTARTED_AFTER) -> None:
        """The process ends, and its host starts another one after a pause."""
        self._killed = True
        super().kill(back)

    def come_back(self, delay: Duration) -> None:
        """What began anew goes on; what died is started again, or given up."""
        hosted = self.hosted
        if self.orphan or hosted is None:
            return
        if self._killed and self.lots.chance(GIVEN_UP):
            self.hosted = None
            self.node.ended(hosted, "given up")
            return
        self.world.later(RESTARTED_AFTER if self._killed else delay, self.start)

    def leave(self) -> None:
        """Its input ends: it stops in good order, or is killed after a while."""
        self.orphan = True
        self.hosted = None
        if self.alive:
            life = self.life
            self.later(0, self.stop)
            self.world.later(ENDED_WITHIN, partial(self._put_an_end, life))

    def _put_an_end(self, life: int) -> None:
        if life == self.life:
            self.kill()
