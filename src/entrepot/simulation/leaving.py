"""Nodes of a simulated cluster that give all they have to others: their machines, what they promised, their operator.

`drained.py` draws what happens and judges it. What a message is doubted for is kept by its identity: it was on its way
when a drain was broken off for good, so the target may have it although it said nothing, and it is here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from entrepot.base.errors import Refused, StorageError
from entrepot.cluster.clusters.drain_notes import RUNNING, State
from entrepot.cluster.clusters.draining import Drain, obey
from entrepot.cluster.link import LinkCore
from entrepot.core.broker import BrokerCore
from entrepot.core.leases.lease import Lease
from entrepot.core.transactions.transaction import Transaction
from entrepot.journal.log import Waiter
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.artemis.headers import properties_in
from entrepot.simulation.clusters import Clustered, ClusteredSite
from entrepot.simulation.postings import IDENTITY, Settled
from entrepot.simulation.sites import Blueprint, Site
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.world import Lots

ORDERED: Final = "O"  # a queue that the cluster leaves alone, and nobody reads before the end
PROMISED: Final = "P"  # one that is read by transactions alone


class Promise:
    """A prepared branch: what it sends to `PROMISED`, and takes from there. ``said``: its client knows of it.

    ``ended``: somebody asked for its end; ``commits``: which one. ``site``: where it was prepared.
    """

    def __init__(self, site: str, key: bytes) -> None:
        self.site: Final = site
        self.key: Final = key
        self.sends: list[str] = []
        self.takes: list[str] = []
        self.said = False
        self.ended = False
        self.commits = False


class _Prepared(Waiter):
    def __init__(self, promise: Promise) -> None:
        self.promise = promise

    def stored(self, token: bytes) -> None:
        """It is on disk."""
        self.promise.said = True

    def store_failed(self, token: bytes, error: Exception) -> None:
        """It may never have been."""


class _Committed(Waiter):
    def __init__(self, network: Leaving, promise: Promise) -> None:
        self.network = network
        self.promise = promise

    def stored(self, token: bytes) -> None:
        """What it sends is promised now."""
        for identity in self.promise.sends:
            self.network.confirmed(identity, PROMISED)

    def store_failed(self, token: bytes, error: Exception) -> None:
        """It may be prepared still."""


class Hand(Reader):
    """Takes messages and keeps them, until a transaction has them."""

    def wake(self) -> None:
        """Nothing is settled."""


class Ranger:
    """A reader by lease of `PROMISED` at one node. What it settled came to it, as it comes to a consumer."""

    GROUP: Final = "ranger"

    def __init__(self, site: LeavingSite) -> None:
        self.site: Final = site
        self.epoch = 0

    def lease(self) -> Lease | None:
        """Return what the broker has of it, if it has anything."""
        broker = self.site.broker
        return None if broker is None else broker.leases.held.get((PROMISED, self.GROUP))

    def do(self, what: int, lots: Lots, *, firm: bool) -> None:
        """Do something, ``what`` of ten things.

        What a drain may have given to its target is here again where that was broken off, and may come twice to
        whoever reads here: in ``firm`` seeds he leaves it alone, as a transaction does.
        """
        if what < 5:
            self.attach_and_claim(lots.skewed(1, 30), lambda one: firm and one in self.site.ledger.doubted)
        elif what < 9:
            self.settle(lots.skewed(1, 30))
        else:
            self.release()
        self.site.world.count("drains: what a reader by lease did meanwhile")

    def attach_and_claim(self, most: int, avoids: Callable[[str], bool]) -> None:
        """Come again under a new epoch, and claim up to ``most``; give all back if ``avoids`` something of it."""

        def act() -> None:
            broker = self.site.need()
            lease = broker.leases.need(names.parse(f"queue://{PROMISED}")[0], self.GROUP, create=True)
            self.epoch = lease.attach(broker.journal, None)
            lease.claim(broker.journal, self.epoch, lease.base, lease.held + most)
            if any(avoids(one) for one in self.held()):
                broker.leases.release(lease)

        self.site.turn(act)

    def ask(self) -> None:
        """Ask for more, and get nothing: that is there, and is not at work with what it holds."""

        def act() -> None:
            lease, broker = self.lease(), self.site.need()
            if lease is not None and lease.epoch == self.epoch:
                lease.claim(broker.journal, self.epoch, lease.tail, 0)
                self.site.world.count("drains: a reader by lease asks for more")

        if self.site.broker is not None:
            self.site.turn(act)

    def held(self) -> list[str]:
        """Return what it holds: identities, in its order. The broker runs."""
        lease = self.lease()
        if lease is None:
            return []
        found = lease.read(self.site.need().journal, lease.epoch, lease.base, lease.tail)
        return [str(properties_in(one.raw)[IDENTITY]) for one in found]

    def settle(self, most: int) -> None:
        """Settle up to ``most`` of what it holds, unless it was fenced meanwhile."""

        def act() -> None:
            lease, broker = self.lease(), self.site.need()
            if lease is None or lease.epoch != self.epoch:
                return
            base, settled = lease.base, self.held()[:most]
            lease.settle(broker.journal, self.epoch, base + len(settled))
            for at, identity in enumerate(settled):  # behind it: what is confirmed before is what was done before
                key = f"{identity} {PROMISED}"
                self.site.ledger.came[key] = None
                place = f"{self.site.name} by lease {base + at}"
                broker.journal.confirm(Settled(self.site.ledger.firm, key, place), b"")

        self.site.turn(act)

    def release(self) -> int:
        """An operator takes it all from a reader that is gone; return how many messages that were."""
        given: list[int] = []

        def act() -> None:
            lease = self.lease()
            if lease is not None:
                given.append(self.site.need().leases.release(lease))

        self.site.turn(act)
        return sum(given)


class LeavingSite(ClusteredSite):
    """The machine of a node that may give all it has away."""

    ledger: Leaving

    def __init__(self, network: Leaving, name: str, blueprint: Blueprint) -> None:
        super().__init__(network, name, blueprint)
        self.given: dict[int, str] = {}  # number of a message that went to a target -> what it is
        self.ranger: Final = Ranger(self)

    @property
    def drain(self) -> Drain:
        """Return what gives all away. The broker runs."""
        assert self.made is not None
        assert self.made.draining is not None
        return self.made.draining

    def unsaid(self) -> str:
        """Return what a drain that is done does not say of the range that its node keeps; an operator frees it then."""
        lease = self.ranger.lease()
        if self.drain.state is not State.DONE or lease is None or not lease.held:
            return ""
        told = self.drain.report()["stays"]
        assert isinstance(told, list)
        said = [(row["queue"], row["messages"], row["who"]) for row in told]
        held = lease.held
        self.world.count("drains that end while a reader holds a range")
        self.ranger.release()
        if said == [(PROMISED, held, lease.group)]:
            return ""
        return f"{self.name} keeps {held} of {PROMISED} for a reader, and its drain says {said}"

    def order(self, verb: str, to: str = "") -> str:
        """Do as an operator says; return why not, "" where it was done."""
        said: list[str] = []

        def act() -> None:
            if verb == "abort":
                self.ledger.aborted.update(dict.fromkeys(self.doubt()))
            try:
                obey(self.drain, verb, to)
            except Refused as refused:
                said.append(refused.message)

        self.world.note(f"{self.name}: {verb} {to}")
        self.turn(act)
        self.world.count(f"drains: {verb}{' refused' if said else ''}")
        return said[0] if said else ""

    def crash(self, *, torn: bool) -> None:
        """The process dies, or the machine: of what was on its way nobody knows any more."""
        self.doubt()
        super().crash(torn=torn)

    def on_their_way(self) -> list[Message]:
        """Return what this node gave to a target that has not confirmed it."""
        if self.broker is None or self.made is None or self.made.draining is None:
            return []
        found = [taker.in_flight.get(number) for link in self._links() for taker, number in link.under_way.values()]
        return [one.message for one in found if one is not None]

    def _links(self) -> list[LinkCore]:
        return [one.link for way in self.drain.ways.ways.values() for one in way.connector.bridges.values()]

    def watch(self) -> None:
        """Note what goes to a target, and what comes back of it in doubt."""
        for link in self._links():
            for taker, number in reversed(link.under_way.values()):
                reference = taker.in_flight.get(number)
                if number in self.given or reference is None:
                    break
                self.given[number] = str(properties_in(reference.message.raw)[IDENTITY])
            for number in reversed(link.doubts):
                identity = self.given.get(number, "")
                if identity in self.ledger.doubted:
                    break
                self.ledger.doubted[identity] = None

    def doubt(self) -> list[str]:
        """Note what is on its way, and what arrived since the last drain ended: that is settled in memory alone."""
        found = [str(properties_in(message.raw)[IDENTITY]) for message in self.on_their_way()]
        found += self.given.values()
        self.ledger.doubted.update(dict.fromkeys(found))
        return found

    # -- prepared transactions -----------------------------------------------------------------------------------------

    def promise(self, promise: Promise, sends: list[Message], *, firm: bool = False) -> None:
        """Prepare a branch that sends ``sends`` to `PROMISED`, and takes what it gets there.

        Where it ends nobody knows before, so that nothing is said of the order of what it sends. ``firm``: it takes
        nothing that the target may have, as a reader of this node does.
        """
        self.ledger.promises.append(promise)
        hand = Hand(self, f"queue://{PROMISED}", 3, key="hand")

        def act() -> None:
            broker = self.need()
            broker.subscribe(hand)
            hand.window.reopen()
            transaction = Transaction(f"xa {promise.key.hex()}")
            for message in sends:
                transaction.send(message, broker.target(names.parse(f"queue://{PROMISED}")))
                promise.sends.append(str(properties_in(message.raw)[IDENTITY]))
            for taker, message, _ in hand.got:
                identity = str(properties_in(message.raw)[IDENTITY])
                if firm and identity in self.ledger.doubted:
                    continue
                transaction.settle(taker, int(message.number))
                promise.takes.append(identity)
            broker.branches.prepare(transaction, promise.key)
            hand.got.clear()
            broker.unsubscribe(hand)
            broker.journal.confirm(_Prepared(promise), b"")

        self.turn(act)

    def decide(self, promise: Promise, *, commits: bool) -> bool:
        """Commit a branch or roll it back, where it is still here; return whether it was."""
        broker = self.broker
        if broker is None or promise.key not in broker.branches.prepared:
            return False
        if promise.ended:  # the coordinator says the same again
            commits = promise.commits
        done: list[bool] = []

        def act() -> None:
            broker = self.need()
            try:
                if commits:
                    broker.branches.commit(promise.key)
                else:
                    broker.branches.roll_back(promise.key)
            except StorageError:  # it is on its way to another node, or may be there
                self.world.count("branches that are asked for on their way")
                return
            promise.ended = True
            promise.commits = commits
            done.append(True)
            if not commits:
                return
            for identity in promise.takes:
                key = f"{identity} {PROMISED}"
                self.ledger.came[key] = None
                broker.journal.confirm(Settled(self.ledger.firm, key, f"{self.name} branch"), b"")
            broker.journal.confirm(_Committed(self.ledger, promise), b"")

        self.turn(act)
        return bool(done)

    def can_end(self, promise: Promise) -> bool:
        """Return whether a coordinator may end the branch here."""
        branch = None if self.broker is None else self.broker.branches.prepared.get(promise.key)
        return branch is not None and not branch.leaving and not branch.record.given

    def need(self) -> BrokerCore:
        """Return the broker, which runs."""
        assert self.broker is not None
        return self.broker


class Leaving(Clustered):
    """The ledger. ``due``: message -> the wall time before which it may not come; ``doubted``: may come twice.

    ``aborted``: of these, what an operator had here again when he aborted a drain.
    """

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.due: dict[str, int] = {}
        self.doubted: dict[str, None] = {}
        self.aborted: dict[str, None] = {}
        self.promises: list[Promise] = []
        self.origins: dict[str, str] = {}  # message of `ORDERED` -> the node that took it
        self.sequences: dict[tuple[str, str], list[int]] = {}  # origin, reader's node -> numbers, as they came
        super().__init__(seed, blueprints, lines=lines)

    def site(self, name: str, blueprint: Blueprint) -> Site:
        """Return a new site."""
        return LeavingSite(self, name, blueprint)

    def machines(self) -> list[LeavingSite]:
        """Return the sites as what they are."""
        return [site for site in self.sites.values() if isinstance(site, LeavingSite)]

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        identity = str(properties_in(message.raw)[IDENTITY])
        if self.world.wall() < self.due.get(identity, 0):
            self.world.violation(f"{identity} came {self.due[identity] - self.world.wall()} ms before its date")
        origin = self.origins.get(identity)
        if origin is not None and reader.text.endswith(f"/{ORDERED}") and f"{identity} {ORDERED}" not in self.came:
            self.sequences.setdefault((origin, site.name), []).append(int(identity[1:]))
        super().consumed(site, reader, message, deliveries)

    def disordered(self) -> list[str]:
        """Return where a message of one node's `ORDERED` was read before one that was sent there earlier."""
        found: list[str] = []
        for (origin, where), numbers in self.sequences.items():
            late = [now for before, now in pairwise(numbers) if now < before]
            if late:
                found.append(f"m{late[0]} of {origin} came late at {where}, of {numbers[:40]}")
        return found

    def check(self) -> None:
        """Ask the drains for what no moment excuses, and note what their links doubt."""
        for name in self.touched:
            site = self.sites[name]
            assert isinstance(site, LeavingSite)
            if site.broker is not None and site.made is not None and site.made.draining is not None:
                self._check_drain(site)
        self._check_promises()
        super().check()

    def _check_promises(self) -> None:
        """See that no branch can be ended at two nodes."""
        for promise in self.promises:
            where = [site.name for site in self.machines() if site.can_end(promise)]
            if len(where) > 1:
                self.world.violation(f"the branch {promise.key.hex()} can be ended at {where}")

    def _check_drain(self, site: LeavingSite) -> None:
        drain = site.drain
        site.watch()
        if drain.state is State.DONE:
            site.given.clear()
        if drain.state not in RUNNING and drain.ways.ways:
            self.world.violation(f"{site.name} moves {list(drain.ways.ways)} though its drain is {drain.state.value}")
        if drain.state is State.FAILED and not drain.why:
            self.world.violation(f"the drain of {site.name} failed, and nobody knows why")
