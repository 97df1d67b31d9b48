"""The queues of a node that gives all away, each on its way to the target: what moves, what stays, and how far it is.

A queue is asked about first: which number the target has for it, and where it has none, it is told to make one. Then a
core bridge of its own brings the messages there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.connector import CoreConnector
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.connection import Carry, ClusterConnection
from entrepot.cluster.clusters.dated import SCHEDULED, Dated
from entrepot.cluster.clusters.drain_notes import MOVED, Notebook, Receipt
from entrepot.cluster.clusters.drain_stays import Stays
from entrepot.cluster.clusters.finding import find_queue
from entrepot.cluster.clusters.stores import owner_of, stores_of
from entrepot.cluster.clusters.withheld import Withheld
from entrepot.core.addressing.binding import STORE_PREFIX
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.journal.ports import Waiter
from entrepot.protocols.artemis.linking.crossing import DATED, ONWARD

PARALLEL: Final = 8  # queues that move at once: each has a connection


class _Way:
    """One queue on its way."""

    def __init__(self, queue: Queue, connector: CoreConnector, before: int) -> None:
        self.queue: Final = queue
        self.connector: Final = connector
        self.before: Final = before  # as many were at the target

    def arrived(self) -> int:
        return self.before + sum(one.link.counts.confirmed for one in self.connector.bridges.values())


class _Begun(Waiter):
    """Hears that the disk has it that a queue is given away. Before that none of its messages goes to the target."""

    def __init__(self, ways: Ways, name: str) -> None:
        self._ways: Final = ways
        self._name: Final = name

    def stored(self, token: bytes) -> None:
        """It has."""
        self._ways.begun(self._name, self)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It has not, and is asked again."""
        self._ways.not_begun(self._name, self)


class _Kept(Waiter):
    """Hears that the disk here knows of what is at the target: from then on it has moved, whoever is killed."""

    def __init__(self, ways: Ways, name: str) -> None:
        self._ways: Final = ways
        self._name: Final = name
        self._receipt: Final = ways.receipts[name]
        self._arrived: Final = self._receipt.arrived

    def stored(self, token: bytes) -> None:
        """It does."""
        self._receipt.moved = max(self._receipt.moved, self._arrived)
        self._ways.kept(self._name, self)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It does not, and is asked again."""
        self._ways.kept(self._name, self)


class Ways:
    """Of one drain. ``node`` and ``place``: the target; ``receipts``: what became of each queue.

    ``refused``: queues that the target does not take, and why; ``asking``: what asks it, None while nobody can.
    """

    def __init__(self, connection: ClusterConnection, notebook: Notebook, tell: Callable[[str], None]) -> None:
        self.connection: Final = connection
        self.broker: Final[BrokerCore] = connection.broker
        self.node = ""
        self.place: Endpoint | None = None
        self.asking: Asking | None = None
        self.carry: Carry = lambda way: None
        self.receipts: dict[str, Receipt] = {}
        self.refused: dict[str, str] = {}
        self.ways: dict[str, _Way] = {}
        self.dated: Final = Dated(self.broker)
        self.withheld: Final = Withheld()
        self.stays: Final = Stays(self.broker, tell)
        self._asked: dict[str, None] = {}  # queues about which the target is asked
        self._beginning: dict[str, _Begun] = {}  # queues of which the disk gets that they are given away
        self._keeping: dict[str, _Kept] = {}  # queues of which the disk gets how much has moved
        self._notebook: Final = notebook
        self._tell: Final = tell

    def plan(self) -> list[dict[str, object]]:
        """Return what would move, and what would not, by queue."""
        held = held_in(self.broker)
        rows: list[dict[str, object]] = [
            planned(one.name, movable(one, held), int(one.backlog.octets), self.why_not(one))
            for one in self.broker.table.queues.values()
            if movable(one, held) > 0
        ]
        dated, kept = self.dated.numbers()
        if dated:
            rows.append(planned("(scheduled)", len(dated)))
        if kept:
            rows.append(planned("(scheduled)", kept, why="they repeat: cancel them, or let this node live"))
        return rows + self.stays.rows()

    def report(self) -> dict[str, object]:
        """Return how far each queue is. What is at the target, and not yet known on the disk here, is left."""
        held = held_in(self.broker)
        left = {one.name: movable(one, held) for one in self.sources(held)}
        for name, way in self.ways.items():
            self.receipts[name].arrived = way.arrived()
        for name, one in self.receipts.items():
            left[name] = left.get(name, 0) + one.arrived - one.moved
        return {
            "moved": self.moved,
            "left": sum(left.values()) + len(self.broker.scheduled.schedules) + self.passing(),
            "refused": dict(self.refused),
            "stays": self.stays.rows(),
            "prepared": len(self.broker.branches.prepared),
            "queues": [
                {"queue": name, "left": left[name], **msgspec.to_builtins(one)} for name, one in self.receipts.items()
            ],
        }

    @property
    def moved(self) -> int:
        """How many messages the target has, and the disk here knows that."""
        return sum(one.moved for one in self.receipts.values())

    def move(self) -> bool:
        """Go on with what can move; return whether nothing is left of that."""
        more = self.dated.take()
        held = held_in(self.broker)
        for name, way in list(self.ways.items()):
            self._see(name, way, held)
        sources = [one for one in self.sources(held) if one.name not in self.refused]
        for queue in sources:
            if len(self.ways) + len(self._asked) + len(self._beginning) >= PARALLEL:
                return False
            if queue.name in self.ways or queue.name in self._asked or queue.name in self._beginning:
                continue
            receipt = self.receipts.setdefault(queue.name, Receipt())
            if receipt.there:
                self._begin(queue.name)
            else:
                self._ask(queue)
        return not (sources or self.ways or self._asked or self._beginning or more)

    def unanswered(self) -> None:
        """Nobody can be asked: what was asked has no answer."""
        self.asking = None
        self._asked.clear()
        self._beginning.clear()

    def stop(self) -> None:
        """Move no more."""
        for name, way in list(self.ways.items()):
            self.receipts[name].arrived = way.arrived()
            self._keep(name)
            way.connector.stop(self._now())
        self.ways.clear()
        self.unanswered()
        self.withheld.pause(int(self.broker.ids.number))

    def sources(self, held: dict[int, int]) -> list[Queue]:
        """Return the queues that hold something that can move. ``held``: see `held_in`."""
        return [one for one in self.broker.table.queues.values() if movable(one, held) > 0 and not self.why_not(one)]

    def why_not(self, queue: Queue) -> str:
        """Return why ``queue`` stays, "" where it moves."""
        if queue.name.startswith(STORE_PREFIX):
            cluster, node = owner_of(queue.name)
            away = node not in ("", self.node) and not self.connection.reaches(node)
            return "" if away and cluster == self.connection.options.name else "it is emptied by sending to its node"
        if queue.definition.temporary:
            return "it is temporary, and ends with its connection"
        if queue.address.startswith("activemq."):
            return "it belongs to this broker"
        return ""

    def passing(self) -> int:
        """Return how many messages wait for the target, or nodes that are there: bridges of the cluster take them."""
        cluster = self.connection.options.name
        found = stores_of(self.broker)
        return sum(int(queue.count) for queue, of, node in found if node and of == cluster and self.why_not(queue))

    def awaited(self) -> str:
        """Return what is waited for, when nothing is left that moves; "" for nothing."""
        passing = self.passing()
        if passing:
            return f"{passing} messages wait for nodes of the cluster: the bridges there take them"
        return self.stays.awaited()

    def _ask(self, queue: Queue) -> None:
        """Ask the target which id its queue has; have it made first where there is none.

        Scheduled messages are for none: they are routed when their time has come. What waits for a third node, which
        is away, says by itself for which queues there it is, and the target sends it on.
        """
        name = queue.name
        receipt = self.receipts[name]
        if name == SCHEDULED or name.startswith(STORE_PREFIX):
            receipt.there = -1
            self._begin(name)
            return
        asking = self.asking
        if asking is None:
            return
        self._asked[name] = None

        def found(there: int, why: str) -> None:
            self._asked.pop(name, None)
            if why:
                self.refused[name] = why
                self._tell(f"the queue {name} stays: {why}")
            else:
                receipt.there = there

        find_queue(asking, queue.definition, found)

    def forgotten(self) -> None:
        """A drain begins anew, and what an earlier one was broken off in is noted again."""
        self.receipts.clear()
        for name in self.withheld.names():
            self.receipts[name] = Receipt()
            self._notebook.note(MOVED + name, "0")

    def recalled(self) -> None:
        """The broker was started again in the middle: what is here of queues that were given away may be there."""
        for name in self.receipts:
            self.withheld.begin(name)
        self.withheld.pause(int(self.broker.ids.number))

    def _begin(self, name: str) -> None:
        """Give the queue ``name`` away, once the disk knows of it: a crash would let redistribution have it, too."""
        if self.broker.journal.refusal() is not None:
            return
        self.withheld.begin(name)
        self._notebook.note(MOVED + name, str(self.receipts[name].arrived))
        begun = self._beginning[name] = _Begun(self, name)
        self.broker.journal.confirm(begun, b"")

    def begun(self, name: str, who: _Begun) -> None:
        """The disk has it."""
        if self._beginning.get(name) is who:
            del self._beginning[name]
            self._go(name)

    def not_begun(self, name: str, who: _Begun) -> None:
        """The disk does not take it."""
        if self._beginning.get(name) is who:
            del self._beginning[name]

    def _go(self, name: str) -> None:
        """Start the bridge of the queue ``name``, if it is still there."""
        queue, receipt = self.broker.table.queues.get(name), self.receipts[name]
        if queue is None or name in self.ways:
            return
        assert self.place is not None
        connection, credentials = self.connection, self.connection.credentials
        options = connection.options
        bridge = CoreBridgeOptions(
            name=f"drain {queue.name}",
            queue=queue.name,
            retry_interval=options.retry_ms * MILLISECOND,
            retry_interval_max=options.retry_ms_max * MILLISECOND,
            confirmation_window=options.confirmation_window,
            producer_window=options.producer_window,
            large_from=options.large_octets,
            check_period=options.check_ms * MILLISECOND,
            ttl=options.ttl_ms * MILLISECOND,
            user=credentials.user,
            password=credentials.password,
        )
        route = DATED if queue.name == SCHEDULED else receipt.there.to_bytes(8, "big", signed=True)
        if queue.name.startswith(STORE_PREFIX):
            route = ONWARD
            connection.let_go(owner_of(queue.name)[1])
        entry = CoreBridgeEntry(options=bridge, places=(self.place,), clustered=True, route=route)
        if not receipt.first:
            walk = queue.stock.walk().step(1)
            receipt.first = int(walk[0].message.number) if walk else 0
        way = _Way(queue, CoreConnector(entry), receipt.arrived)
        self.ways[queue.name] = way
        self.carry(way.connector)

    def _see(self, name: str, way: _Way, held: dict[int, int]) -> None:
        """Note how far a queue is; its bridge ends when nothing is left."""
        receipt = self.receipts[name]
        arrived = way.arrived()
        queue = self.broker.table.queues.get(name)
        over = queue is not way.queue or movable(way.queue, held) == 0
        if arrived != receipt.arrived or over:
            receipt.arrived = arrived
            receipt.last = int(self.broker.ids.number)
            self._notebook.note(MOVED + name, str(arrived))
        if over or name not in self._keeping:
            self._keep(name)
        if over:
            receipt.done = True
            way.connector.stop(self._now())
            del self.ways[name]
            if name == SCHEDULED and queue is way.queue:
                self.broker.queues.delete(queue, "what waited for its date is at the target")

    def _keep(self, name: str) -> None:
        """Have the disk know how much of the queue ``name`` is at the target: one asks that at a time, and at the end.

        What only this process knows would be here again after a crash, and served by whoever has the store then.
        """
        receipt = self.receipts[name]
        if receipt.moved == receipt.arrived or self.broker.journal.refusal() is not None:
            return
        keeping = self._keeping[name] = _Kept(self, name)
        self.broker.journal.confirm(keeping, b"")

    def kept(self, name: str, who: _Kept) -> None:
        """The disk has it, or does not take it."""
        if self._keeping.get(name) is who:
            del self._keeping[name]

    def _now(self) -> Instant:
        return int(self.broker.now)


def planned(queue: str, messages: int, octets: int = 0, why: str = "") -> dict[str, object]:
    """Return a row of a plan; ``why`` it stays."""
    return {"queue": queue, "messages": messages, "octets": octets, "who": "", "stays": why}


def held_in(broker: BrokerCore) -> dict[int, int]:
    """Return identity of a queue -> how many of its messages move with no bridge of it.

    What prepared branches hold goes with its branch; what readers hold by lease stays (`drain_stays.py`).
    """
    found: dict[int, int] = {}
    for lease in broker.leases.held.values():
        identity = int(lease.queue.identity)
        found[identity] = found.get(identity, 0) + lease.held
    for branch in broker.branches.prepared.values():
        for hold in branch.holds:
            identity = int(hold.queue.identity)
            found[identity] = found.get(identity, 0) + 1
    return found


def movable(queue: Queue, held: dict[int, int]) -> int:
    """Return how many messages of ``queue`` are in no branch's and no reader's hands."""
    return int(queue.count) - held.get(int(queue.identity), 0)
