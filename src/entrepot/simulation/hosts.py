"""A node that hosts copies of others in the seeded world: its machine, its own broker, and whom it asks for a host.

Who gets a backup, and from whom, is decided by the product's `Backups` and `Requester`, and by the notes of
`cluster/clusters/shelf.py`. This plays what `io/colocated.py` and the connections of a cluster do around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Instant
from entrepot.cluster.clusters.copied import Copy as Wanted
from entrepot.cluster.clusters.hosted import Backups, Hosted, Keeper
from entrepot.cluster.clusters.requesting import Circle, Fellow, Requester
from entrepot.cluster.clusters.shelf import Note, prepare, remember
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.packets import BackupRequest
from entrepot.simulation.hosted_brokers import Guest, Host, Own
from entrepot.simulation.hosted_bugs import BACKUPS, PREPARES, SHELVES
from entrepot.simulation.hosted_stores import HostedStore
from entrepot.simulation.shelves import PowerCut, SimulatedShelf
from entrepot.simulation.world import World

ASKS_EVERY: Final = SECOND
REMEMBERS_EVERY: Final = 5 * SECOND
STARTED_AFTER: Final = 1500 * MILLISECOND  # as `io/colocated.py: STARTING`


class Surroundings:
    """What all nodes have around them. `simulation/hosted.py` plays it.

    ``partitions``: (from, to) -> how many faults cut it.
    """

    def __init__(self, seed: int, planted: str, *, lines: bool) -> None:
        self.world: Final = World(seed, lines=lines)
        self.planted: Final = planted
        self.trouble = True
        self.partitions: dict[tuple[str, str], int] = {}
        self.nodes: Final[list[Node]] = []
        self.stores: Final[dict[str, HostedStore]] = {}

    def place_of(self, name: str) -> str:
        """Return where the replicas of a node connect."""
        raise NotImplementedError

    def doubted_note(self, name: str, store: str, error: Exception) -> None:
        """A node does not understand what it wrote."""
        raise NotImplementedError

    def cut_anew(self) -> None:
        """Let what passes between processes be what passes between their machines."""
        raise NotImplementedError


class Node(Host, Keeper):
    """One machine. ``most``: how many copies it hosts."""

    def __init__(self, world: Surroundings, store: HostedStore, name: str, most: int) -> None:
        self.all: Final = world
        self.most: Final = most
        self.lots: Final = world.world.lots(f"node/{name}")
        super().__init__(name, self._new_shelf())
        self.backups: Backups | None = None
        self.requester: Requester | None = None
        self.store: Final = store
        self.main = Own(store, self)
        store.copies.append(self.main)

    def _new_shelf(self) -> SimulatedShelf:
        return SHELVES.get(self.all.planted, SimulatedShelf)(self.lots.token)

    # -- what it hosts -------------------------------------------------------------------------------------------------

    def waits(self) -> None:
        """Its own broker has begun, and waits for its store: meanwhile it goes on with what it hosted."""
        made = BACKUPS.get(self.all.planted, Backups)
        self.backups = made(self.most, self, self.now, self.all.world.note, copies=True)
        self._remember()

    def _remember(self) -> None:
        """Go on with what was hosted, and look again and again whether all of it runs: nobody may be left who asks."""
        assert self.backups is not None
        doubt = partial(self.all.doubted_note, self.name)
        waits = self.requester is None
        forgets = self.all.planted == "notes are forgotten"
        forgets = forgets or (waits and self.all.planted == "hosts nothing while it waits")
        for one, node, number in [] if forgets else remember(self.shelf, doubt):
            self.backups.remember(one.text(), node, number)
        if self.all.planted != "tried once":
            self.main.later(REMEMBERS_EVERY, self._remember)

    def serves(self) -> None:
        """Its own broker serves: it asks for a host, and others may ask it."""
        asks = Wanted(self.main.standing.store, self.name, self.all.place_of(self.name)).text()
        self.requester = Requester(Around(self), asks, retries=-1, interval=ASKS_EVERY, say=self.all.world.note)
        self.requester.start()

    def abandon(self) -> None:
        """Its own broker has ended, and with it all that it started."""
        self.backups = self.requester = None
        for guest in self.guests.values():
            guest.leave()

    def start(self, hosted: Hosted) -> None:
        """Look at the directory, and start a broker on it."""
        self.main.later(self.lots.skewed(MILLISECOND, 300 * MILLISECOND), partial(self._begin, hosted))

    def _begin(self, hosted: Hosted) -> None:
        copy = hosted.copy
        assert copy is not None
        if self.all.trouble and self.lots.chance(0.03):
            self.shelf.steps = self.lots.below(4)
        try:
            make = PREPARES.get(self.all.planted, prepare)
            why = make(self.shelf, self.main.standing.store, Note(copy, hosted.node, hosted.number))
        except PowerCut:
            self.all.world.count("power cuts while a note is written")
            self.lose_power()
            return
        finally:
            self.shelf.steps = -1
        guest = self.guests.get(copy.store)
        if not why and guest is not None and guest.alive:
            why = "a process that ends has it"
        if why:
            self.ended(hosted, why)
            return
        if guest is None:
            guest = self.guests[copy.store] = Guest(self.all.stores[copy.owner], self)
            guest.store.copies.append(guest)
            self.all.cut_anew()
        guest.hosted, guest.orphan = hosted, False
        self.all.world.count("guests")
        guest.start()
        self.main.later(STARTED_AFTER, partial(self._look, hosted))

    def _look(self, hosted: Hosted) -> None:
        if self.backups is not None and self.backups.hosted.get(hosted.directory) is hosted and not hosted.runs:
            self.backups.started(hosted)

    def ended(self, hosted: Hosted, why: str) -> None:
        """There is no such backup: do not try again at once."""
        self.all.world.count("backups that ended")
        if self.backups is not None:
            self.main.mine(partial(self.backups.ended, hosted, why, refused=True))()

    # -- what befalls it -----------------------------------------------------------------------------------------------

    def processes(self) -> list[Own | Guest]:
        """Return all that may run here."""
        return [self.main, *self.guests.values()]

    def lose_power(self) -> None:
        """All stops, and what was not synced may be lost."""
        self.all.world.count("power cuts")
        guests = list(self.guests.values())
        for guest in guests:
            guest.orphan = True
        for each in [*guests, self.main]:
            each.lose_power()
        for store in self.shelf.crash():
            self._forget(store)

    def lose_disk(self) -> None:
        """The machine gets a new disk, with nothing on it."""
        self.lose_power()
        self.all.world.count("disks lost")
        for store in list(self.guests):
            self._forget(store)
        self.shelf = self._new_shelf()
        self.main.lose_disk()

    def _forget(self, store: str) -> None:
        guest = self.guests.pop(store, None)
        if guest is not None:
            guest.store.copies.remove(guest)

    def now(self) -> Instant:
        """Return the time of its machine."""
        return self.main.now()


class Around(Circle):
    """The other nodes, as one sees them."""

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    @property
    def own(self) -> str:
        """What this node is called."""
        return self._node.name

    def now(self) -> Instant:
        """Return the time of its machine."""
        return self._node.now()

    def fellows(self) -> Sequence[Fellow]:
        """Return all other nodes."""
        return [Neighbour(self._node, each) for each in self._node.all.nodes if each is not self._node]

    def wake(self, alarm: Alarm) -> None:
        """Ring it."""
        main = self._node.main
        main.later(max(0, alarm.due - main.now()), lambda: alarm.ring(main.now()))


class Neighbour(Fellow):
    """Another node, as one sees it."""

    def __init__(self, near: Node, far: Node) -> None:
        self.node = far.name
        self._near: Final = near
        self._far: Final = far

    @property
    def met(self) -> bool:
        """Say whether it serves, and anything passes."""
        return self._far.requester is not None and self._passes(self._near, self._far, both=True)

    def ask_to_host(self, request: BackupRequest, answered: Callable[[bool], None]) -> None:
        """Ask it."""
        asker = Asker(self, answered)
        self._send(self._near, self._far, partial(self._asked, asker, request))

    def _asked(self, asker: Asker, request: BackupRequest) -> None:
        if self._far.requester is not None and self._far.backups is not None:
            self._far.backups.asked(asker, request)

    def answer(self, action: Callable[[], None]) -> None:
        """Have ``action`` done at the node that asked."""
        self._send(self._far, self._near, action)

    def _send(self, sender: Node, to: Node, action: Callable[[], None]) -> None:
        if self._passes(sender, to):
            to.main.later(sender.lots.skewed(20 * MICROSECOND, 20 * MILLISECOND), action)

    def _passes(self, sender: Node, to: Node, *, both: bool = False) -> bool:
        cut = sender.all.partitions
        return (sender.name, to.name) not in cut and not (both and (to.name, sender.name) in cut)


class Asker(Onlooker):
    """A node that asked."""

    def __init__(self, neighbour: Neighbour, answered: Callable[[bool], None]) -> None:
        self._neighbour = neighbour
        self._answered = answered

    def called(self) -> str:
        """Return who asks."""
        return f"{self._neighbour.node}:1"

    def hosted(self, started: bool) -> None:
        """Tell it."""
        self._neighbour.answer(partial(self._answered, started))
