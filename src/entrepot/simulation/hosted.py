"""Nodes that host copies of one another's stores, from one seed (``<replication><colocated>``, artemis.md 2.5).

Two to four nodes, each with a store and a lock of its own, ask one another for a host. Processes die, those that a node
started with it; the power of a machine fails in the middle of a note; directions between nodes are cut; processes and
machines stand still for longer than a lease; a node loses its disk while another has a copy that counts. In some worlds
a backup gives all that it took over to a node instead of serving (``scale-down``).

What is checked: nobody confirms once a younger epoch of the store began; what was confirmed is in every copy that
counts; no store is served as another one, and no two processes of a machine have the same number; each message that
was confirmed is delivered once, in whatever store it is by then. When it is calm each store is served by its node, is
confirmed, and has a copy in sync at another.

``planted`` names a bug of `hosted_bugs.py` that a run is to be made with, to see that it would be found.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration
from entrepot.ha.lease import LeaseOptions
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.standing import RECEIVED, SYNCED, read_standing
from entrepot.simulation.hosted_brokers import Guest, Own
from entrepot.simulation.hosted_bugs import PLANTED
from entrepot.simulation.hosted_ledger import Ledger
from entrepot.simulation.hosted_stores import HostedStore
from entrepot.simulation.hosts import Node, Surroundings
from entrepot.simulation.wires import Network

__all__ = ["PLANTED", "Hosts"]

STORM: Final = 40 * SECOND
CALM: Final = 70 * SECOND
"""Faults end this long before the run does: what was refused is asked for again after 30 s, and is made anew then."""

QUIET: Final = 12 * SECOND
"""Of the calm: nothing new is sent, and all that is there is read."""

NAMES: Final = ("amsterdam", "berlin", "cairo", "delhi")


class Hosts(Surroundings):
    """The nodes, their stores, the network and what befalls them."""

    def __init__(self, seed: int, planted: str = "", *, lines: bool = False) -> None:
        super().__init__(seed, planted, lines=lines)
        self.world.events_max = 8_000_000
        self.lots: Final = self.world.lots("faults")
        self.network: Final = Network(self.world, self.world.lots("network"))
        self.ledger: Final = Ledger(self.world.violation)
        names = NAMES[: self.lots.one_of((2, 2, 3, 4))]
        self._draw(names)
        for name in names:
            self.nodes.append(Node(self, self.stores[name], name, len(names) - 1))
        if self.drains and self.lots.chance(0.6):
            for node, other in zip(self.nodes, self.nodes[1:] + self.nodes[:1], strict=True):
                node.target = other
        self.world.after = self._check
        self.corners: Final = self.world.lots("corners")
        self.world.later(self.lots.between(2 * SECOND, 6 * SECOND), self._befall)
        self.world.later(self.corners.between(4 * SECOND, 12 * SECOND), self._corner)

    def _draw(self, names: tuple[str, ...]) -> None:
        """Decide what all nodes are told."""
        lots = self.lots
        self.drains = lots.chance(0.4)
        self.failback = self.drains or lots.chance(0.8)
        lease = LeaseOptions(lots.one_of((SECOND, 2 * SECOND)))
        options = ReplicationOptions(
            confirm=RECEIVED if lots.chance(0.2) else SYNCED,
            copies_min=1 if self.drains else lots.between(1, 2),
            patience=lots.between(1, 3) * SECOND,
            window=lots.skewed(500, 1_000_000),
        )
        for name in names:
            store = self.stores[name] = HostedStore(self.world, self.planted, name, self.network, self.ledger)
            store.lease, store.options = lease, options
            store.hosts = self.nodes
            store.drains, store.failback = self.drains, self.failback
            if self.planted == "one lock for all stores":
                store.service = self.stores[names[0]].service

    def run(self) -> list[str]:
        """Let it run, faults first, calm at the end; return what went wrong."""
        world = self.world
        end = world.time + STORM + CALM
        world.later(STORM, self._calm)
        world.later(STORM + CALM - QUIET, self._quiet)
        try:
            world.run(end)
        except Exception as error:
            if not self.planted:
                raise
            world.violation(f"{type(error).__name__}: {error}")
        if not world.violations:
            self._at_the_end()
        return world.violations

    # -- what nodes ask ------------------------------------------------------------------------------------------------

    def place_of(self, name: str) -> str:
        """Return where the replicas of a node connect."""
        return f"10.0.0.{1 + NAMES.index(name)}:61620"

    def doubted_note(self, name: str, store: str, error: Exception) -> None:
        """A node does not understand what it wrote."""
        self.world.violation(f"{name} has a note of {store} that makes no sense: {error!r}")

    def cut_anew(self) -> None:
        """Let what passes between processes be what passes between their machines."""
        cut = self.network.cut
        cut.clear()
        for near in self.nodes:
            for far in self.nodes:
                if (near.name, far.name) in self.partitions:
                    cut.update({(one.name, other.name): True for one in near.processes() for other in far.processes()})

    # -- what must hold ------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        for node in self.nodes:
            numbers = [each.hosted.number for each in node.guests.values() if each.alive and each.hosted is not None]
            if len(set(numbers)) < len(numbers):
                self.world.violation(f"{node.name} hosts two backups of the same number, on the same ports")

    def _at_the_end(self) -> None:
        for store in self.stores.values():
            store.look_at_all()
            self._judge(store)
        missing = self.ledger.missing()
        if missing and not self.world.violations:
            self.world.violation(f"{len(missing)} confirmed messages never came, {missing[0]} first")

    def _judge(self, store: HostedStore) -> None:
        serving = store.serving()
        if len(serving) != 1:
            self.world.violation(f"it is calm, and {len(serving)} serve the store of {store.name}")
            return
        if self.failback and not isinstance(serving[0], Own):
            self.world.violation(f"it is calm, and {store.name} does not have its store back")
        primary = serving[0].primary
        assert primary is not None
        record = store.service.record
        assert record is not None
        eligible = [each for each in store.copies if each.standing.copy in record.eligible]
        hosts = {each.node.name for each in eligible if isinstance(each, Own | Guest)}
        if len(hosts) < 2 and self._can_be_asked():
            stages = [each.stage.value for each in primary.replication.followers]
            self.world.violation(f"it is calm, and nobody else has the store of {store.name}: {stages}")

    def _see_that_it_is_confirmed(self) -> None:
        for store in self.stores.values():
            late = store.confirmed_at < self.world.time - 10 * SECOND
            if late and not self.world.violations and self._can_be_asked():
                self.world.violation(f"it is calm, and nothing of {store.name} is confirmed")

    def _can_be_asked(self) -> bool:
        """Say whether all nodes host for others: one that waits for a store that nobody gives back is not asked."""
        return self.failback or all(each.requester is not None for each in self.nodes)

    def _look(self) -> None:
        for store in self.stores.values():
            if not self.world.violations:
                store.look_at_all()

    # -- what befalls them ---------------------------------------------------------------------------------------------

    def _befall(self) -> None:
        if not self.trouble:
            return
        lots = self.lots
        if lots.chance(0.15):
            self._look()
        node = lots.one_of(self.nodes)
        process = lots.one_of(node.processes())
        what = lots.fraction()
        length = lots.skewed(10 * MILLISECOND, 8 * SECOND)
        if what < 0.14:
            process.kill()
        elif what < 0.26:
            node.lose_power()
        elif what < 0.42:
            process.pause(length)
        elif what < 0.5:
            for each in node.processes():
                each.pause(length)
        elif what < 0.56:
            process.stop()
        elif what < 0.74:
            self._part(node, length)
        elif what < 0.82:
            self._hide_lock(process, length)
        elif what < 0.88 and self.network.wires:
            lots.one_of(self.network.wires).reset()
        elif what < 0.94:
            process.disk.sync_delay_max = 4 * SECOND
            self.world.later(length, lambda: self._fast(process))
        elif self._may_lose_disk(node):
            node.lose_disk()
        self.world.later(lots.skewed(50 * MILLISECOND, 6 * SECOND), self._befall)

    def _corner(self) -> None:
        """Several things one behind the other, which chance alone brings together too rarely.

        A node's own broker stands still until another node serves its store. Then that one's own stands still as well,
        and each of the two may have the last copy of the other's store; or a node gets a new disk, and must not take
        the store that answers first for its own.
        """
        if not self.trouble:
            return
        node = self.corners.one_of(self.nodes)
        length = self.corners.between(4, 8) * self.stores[node.name].lease.duration
        node.main.pause(length)
        self._watch(node, self.world.time + length)
        self.world.later(self.corners.between(8 * SECOND, 16 * SECOND), self._corner)

    def _watch(self, node: Node, until: int) -> None:
        if not self.trouble or self.world.time > until:
            return
        hosts = [each.node for each in self.stores[node.name].serving() if isinstance(each, Guest)]
        if not hosts:
            self.world.later(50 * MILLISECOND, lambda: self._watch(node, until))
            return
        self.world.count("stores taken over beside one who stands still")
        others = [each for each in self.nodes if each not in (node, hosts[0]) and self._may_lose_disk(each)]
        if others and self.corners.chance(0.5):
            self.corners.one_of(others).lose_disk()
        else:
            hosts[0].main.pause(self.corners.between(4, 8) * self.stores[node.name].lease.duration)

    def _part(self, node: Node, length: Duration) -> None:
        """Cut one direction between two nodes, or both, for a while."""
        other = self.lots.one_of([each for each in self.nodes if each is not node])
        ways = [(node.name, other.name)]
        if self.lots.chance(0.6):
            ways.append((other.name, node.name))
        self.world.count("partitions")
        for way in ways:
            self.partitions[way] = self.partitions.get(way, 0) + 1
        self.cut_anew()
        if self.lots.chance(0.3):
            self._hide_lock(node.main, length)
        self.world.later(length, lambda: self._mend(ways))

    def _mend(self, ways: list[tuple[str, str]]) -> None:
        for way in ways:
            left = self.partitions.pop(way, 1) - 1
            if left > 0:
                self.partitions[way] = left
        self.cut_anew()

    def _hide_lock(self, process: Own | Guest, length: Duration) -> None:
        """Let a process not reach its lock for a while."""
        service = process.store.service
        service.cut[process.name] = True
        self.world.later(length, lambda: service.reach(process.name))

    def _may_lose_disk(self, node: Node) -> bool:
        """Say whether each store of which ``node`` has something has a copy that counts elsewhere, now and later."""
        return all(self._is_elsewhere(store, node) for store in self.stores.values())

    def _is_elsewhere(self, store: HostedStore, node: Node) -> bool:
        here = [each for each in store.copies if isinstance(each, Own | Guest) and each.node is node]
        record = store.service.record
        if not here:
            return True
        if record is None or store.options.confirm == RECEIVED:
            return False
        if any(each.alive and each.lease.candidate.proposals.open for each in here):
            return False  # what was asked of the lock may take the others out of its record
        others = [each for each in store.copies if each not in here and each.note is not None]
        standings = [
            read_standing(each.note or b"", part=each.part, boot=f"{each.name}.{each.boots}") for each in others
        ]
        return any(each.may_claim(record) for each in standings)

    def _fast(self, process: Own | Guest) -> None:
        process.disk.sync_delay_min = 100 * MICROSECOND
        process.disk.sync_delay_max = 2 * MILLISECOND

    def _calm(self) -> None:
        self.trouble = False
        self.partitions.clear()
        self.network.cut.clear()
        for store in self.stores.values():
            store.trouble = store.service.flaky = store.service.slow = False
            store.service.cut.clear()
        for node in self.nodes:
            for process in node.processes():
                self._fast(process)

    def _quiet(self) -> None:
        """Nothing is sent any more, so that all can be read."""
        self._see_that_it_is_confirmed()
        for store in self.stores.values():
            store.producing = False
