"""Redistribution: what waits on this node, and somebody reads on another one, goes there (artemis.md 1.17).

What decides is how things are, not what happened last: a queue's messages move while another node has a consumer for
them and no consumer here would take them, once that has been so for the ``redistribution-delay`` of its address. So it
does not matter in which order a backlog, a consumer and the binding came, nor whether the queue was paused meanwhile.

A consumer that comes and goes again does not defeat it: the delay begins anew only after the condition did not hold for
as long as the delay. Readers with selectors do not either: what none of them would take moves, the rest is theirs.

A `Carriage` is a consumer of the queue, of the lowest priority (`cluster/clusters/moving.py`), and brings messages into
the store-and-forward queue of their new node. As few as `STORED_MAX` wait there because they were moved: the rest stays
where a consumer of this node finds it.

Decided on purpose, where Artemis does otherwise: messages of a group move too, all of one group to one node, as long as
the same nodes read it (Artemis leaves them, and so do we where there is a grouping handler); a queue whose name is not
its address moves; a node whose connection is lost gets nothing more; a consumer here that wants none of what waits does
not stop it. [C]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32

from mypy_extensions import i64

from entrepot.base.environment import MIB, Duration, Instant
from entrepot.cluster.clusters.moving import LOOK_AGAIN, MOVE_UNITS, Mover
from entrepot.cluster.clusters.withheld import EVERYTHING, Withheld
from entrepot.core.addressing.binding import OFF_WITH_REDISTRIBUTION, ON_DEMAND, RemoteBinding
from entrepot.core.addressing.queues import QueueWatcher
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import CONSUMER_ATTACHED, CONSUMER_DETACHED, ConsumerFact, Fact, Listener
from entrepot.core.queue.consumer import BROWSER, REDISTRIBUTOR, Objection
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.message import Message

MOVING: Final = (ON_DEMAND, OFF_WITH_REDISTRIBUTION)  # modes of a cluster connection that move messages
STORED_MAX: Final = 4_000  # messages that wait for one node because they were moved
STORED_OCTETS: Final = 16 * MIB
WITHHELD: Final = "a drain may have given it to another node already, and does not know it"
RELEASE: Final = "entrepot drain --resume, or --abort: then it may come twice"
OWN: Final = ("$", "activemq.notifications", "activemq.management")


class Carriage(Mover):
    """Moves one queue to consumers of other nodes. ``targets``: bindings that may get something."""

    def __init__(self, broker: BrokerCore, source: Queue, withheld: Withheld) -> None:
        super().__init__(broker, source)
        self.withheld: Withheld = withheld
        self.targets: list[RemoteBinding] = []
        self.keeps_groups: bool = False
        self.stored_max: i64 = STORED_MAX
        self._turn: i64 = 0

    def wants(self, message: Message) -> bool:
        """Return whether no consumer here would take ``message``, and one elsewhere would."""
        if message.number <= self.withheld.up_to(self.source.name):
            return False
        if self.keeps_groups and message.rare is not None and message.rare.group:
            return False
        for consumer in self.source.roster.consumers:
            if consumer.kind != REDISTRIBUTOR and consumer.would_take(message):
                return False
        for one in self.targets:  # noqa: SIM110 - a loop compiles to half the time of a generator
            if _takes(one, message):
                return True
        return False

    def objection(self, message: Message) -> Objection | None:
        """Return in words why `wants` says no."""
        if self.wants(message):
            return None
        if message.number <= self.withheld.up_to(self.source.name):
            return Objection("drained", WITHHELD, RELEASE)
        return Objection("not-moved", "a consumer here would take it, or none of another node would")

    def called(self) -> str:
        """Return who this is, for people."""
        return "the redistribution to other nodes"

    def dispose(self, message: Message) -> bool:
        """Move it to one of those who want it, or give it back; False: none of these has room."""
        wanted = [one for one in self.targets if _takes(one, message)]
        if not wanted:
            self.give_back(message)
            return True
        target = self._choose(message, wanted)
        if target is None:
            self.wait(LOOK_AGAIN)
            return False
        self.hand_over(message, [target.queue], {target.route_key: target.route})
        return True

    def _choose(self, message: Message, wanted: list[RemoteBinding]) -> RemoteBinding | None:
        """Return the next in turn that has room; of a group always the same. None: none has."""
        group = "" if message.rare is None else message.rare.group
        if group:
            names = sorted(wanted, key=_name)
            chosen = names[crc32(group.encode()) % len(names)]
            return chosen if self._has_room(chosen) else None
        for _ in self.targets:
            self._turn = (self._turn + 1) % len(self.targets)
            target = self.targets[self._turn]
            if target in wanted and self._has_room(target):
                return target
        return None

    def _has_room(self, binding: RemoteBinding) -> bool:
        store = binding.queue
        return store.count < self.stored_max and store.backlog.octets < STORED_OCTETS and not store.stock.is_full()


def _takes(binding: RemoteBinding, message: Message) -> bool:
    return binding.connected and binding.count > 0 and binding.passes(message) and binding.is_wanted(message)


def _name(binding: RemoteBinding) -> str:
    return binding.cluster_name


class Watch:
    """One queue that may have to be moved. ``since``: when that began; ``ceased``: when it ended, -1 while it lasts."""

    def __init__(self, queue: Queue, since: Instant) -> None:
        self.queue: Queue = queue
        self.since: Instant = since
        self.ceased: Instant = -1
        self.due: _Due | None = None
        self.mover: Carriage | None = None


class _Due(Alarm):
    """The delay of a queue may be over."""

    def __init__(self, due: Instant, owner: Redistribution, queue: Queue) -> None:
        super().__init__(due)
        self._owner: Redistribution = owner
        self._queue: Queue = queue

    def ring(self, now: Instant) -> None:
        self._owner.look(self._queue)


class _Look(Alarm):
    def __init__(self, due: Instant, owner: Redistribution) -> None:
        super().__init__(due)
        self._owner: Redistribution = owner

    def ring(self, now: Instant) -> None:
        self._owner.look_at_changed()


class _Readers(Listener):
    """Hears of consumers that come and go. It is a part because a class has one compiled base at most."""

    def __init__(self, owner: Redistribution) -> None:
        super().__init__(CONSUMER_ATTACHED | CONSUMER_DETACHED)
        self._owner: Redistribution = owner

    def heard(self, fact: Fact) -> None:
        if isinstance(fact, ConsumerFact):
            self._owner.read(fact.place.name)


class Redistribution(QueueWatcher):
    """Of one cluster connection. ``watches``: by the name of the queue.

    ``is_own``: whether a binding is of this cluster; what two clusters cover, both may move.
    """

    def __init__(self, broker: BrokerCore, is_own: Callable[[RemoteBinding], bool]) -> None:
        self.watches: dict[str, Watch] = {}
        self.moved: i64 = 0  # by movers that have gone
        self.keeps_groups: bool = False  # a grouping handler says where they are
        self.withheld: Withheld = Withheld()  # of no drain
        self.stored_max: i64 = STORED_MAX
        self._broker: BrokerCore = broker
        self._is_own: Callable[[RemoteBinding], bool] = is_own
        self._changed: dict[str, None] = {}
        self._alarm: _Look | None = None
        self._readers: _Readers = _Readers(self)
        broker.hub.add(self._readers)
        broker.queues.watchers.append(self)

    def respect(self, withheld: Withheld) -> None:
        """Leave alone what a drain has given to its target."""
        self.withheld = withheld
        withheld.watchers.append(self.read)

    # -- what happens --------------------------------------------------------------------------------------------------

    def read(self, name: str) -> None:
        """A consumer of the queue ``name`` came or went here, or a drain gives it away, or does so no more."""
        if self._broker.table.remotes:
            self._later(name)

    def added(self, queue: Queue) -> None:
        """A queue is there: it may have a backlog."""
        if self._broker.table.remotes:
            self._later(queue.name)

    def closing(self, queue: Queue) -> None:
        """A queue is deleted."""
        watch = self.watches.pop(queue.name, None)
        if watch is not None:
            self._halt(watch)
            if watch.due is not None:
                watch.due.cancelled = True

    def changed(self, binding: RemoteBinding) -> None:
        """Something about a queue of another node changed: its consumers, its filter, whether it is connected."""
        address = self._broker.table.addresses.get(binding.address)
        if address is None:
            return
        for one in address.group_of(binding).bindings:
            if one.distance == 0:
                self.look(one.queue)

    def stop(self) -> None:
        """Move nothing any more."""
        self._broker.hub.remove(self._readers)
        for watch in self.watches.values():
            self._halt(watch)
        self.watches.clear()

    def _later(self, name: str) -> None:
        """Look at the queue ``name`` when what happens now is over."""
        self._changed[name] = None
        if self._alarm is None:
            self._alarm = _Look(int(self._broker.now), self)
            self._broker.timetable.add(self._alarm)

    def look_at_changed(self) -> None:
        """Look at what changed, as far as this turn reaches."""
        self._alarm = None
        effort = self._broker.effort
        for name in list(self._changed):
            if effort.is_over():
                self._later(name)
                return
            effort.spent += MOVE_UNITS
            del self._changed[name]
            queue = self._broker.table.queues.get(name)
            if queue is not None:
                self.look(queue)

    # -- how things are ------------------------------------------------------------------------------------------------

    def targets_of(self, queue: Queue) -> list[RemoteBinding]:
        """Return the queues of other nodes that stand beside ``queue`` and have consumers now."""
        own = self._broker.table.bindings.get(queue.name)
        address = self._broker.table.addresses.get(queue.address)
        if own is None or address is None:
            return []
        return [
            one
            for one in address.group_of(own).bindings
            if isinstance(one, RemoteBinding) and one.connected and one.count > 0 and self._is_own(one)
        ]

    def look(self, queue: Queue) -> None:
        """See whether ``queue`` is to be moved, and since when."""
        delay = int(queue.policy.redistribution_delay)
        drained = self.withheld.up_to(queue.name) == EVERYTHING
        targets = self.targets_of(queue) if delay >= 0 and not drained and _may_move(queue) else []
        watch = self.watches.get(queue.name)
        now = int(self._broker.now)
        if not targets or _is_served(queue):
            if watch is not None:
                self._cease(watch, delay, now)
            return
        if watch is None:
            watch = self.watches[queue.name] = Watch(queue, now)
        elif watch.ceased >= 0:
            if now - watch.ceased >= delay:
                watch.since = now
            watch.ceased = -1
        if watch.since + delay > now:
            self._wake(watch, watch.since + delay)
        else:
            self._begin(watch, targets)

    def delay_left(self, queue: Queue) -> Duration:
        """Return how long it takes until ``queue`` begins to move, 0: it does, or is not to be moved."""
        watch = self.watches.get(queue.name)
        if watch is None or watch.ceased >= 0:
            return 0
        return max(0, watch.since + int(queue.policy.redistribution_delay) - int(self._broker.now))

    def _begin(self, watch: Watch, targets: list[RemoteBinding]) -> None:
        queue, mover = watch.queue, watch.mover
        if mover is None:
            mover = watch.mover = Carriage(self._broker, queue, self.withheld)
            mover.targets = targets
            mover.keeps_groups = self.keeps_groups
            mover.stored_max = self.stored_max
            queue.attach(mover)
            return
        mover.targets = targets
        mover.look_again()

    def _cease(self, watch: Watch, delay: Duration, now: Instant) -> None:
        """Nothing is to be moved now; the watch is kept as long as it may have to go on."""
        self._halt(watch)
        if watch.ceased < 0:
            watch.ceased = now
        if now - watch.ceased >= delay:
            self.watches.pop(watch.queue.name, None)
        else:
            self._wake(watch, watch.ceased + delay)

    def _halt(self, watch: Watch) -> None:
        mover, watch.mover = watch.mover, None
        if mover is not None:
            self.moved += mover.moved
            mover.leave()

    def _wake(self, watch: Watch, due: Instant) -> None:
        if watch.due is not None:
            if watch.due.due == due and not watch.due.cancelled:
                return
            watch.due.cancelled = True
        watch.due = _Due(due, self, watch.queue)
        self._broker.timetable.add(watch.due)


def _may_move(queue: Queue) -> bool:
    """Return whether messages of ``queue`` are anybody's: not what a broker keeps for itself, or only shows."""
    return not (queue.temporary or queue.deleted or queue.traits.non_destructive or queue.address.startswith(OWN))


def _is_served(queue: Queue) -> bool:
    """Return whether a consumer here takes everything that comes."""
    for consumer in queue.roster.consumers:
        if consumer.kind in (REDISTRIBUTOR, BROWSER):
            continue
        if consumer.selector is None and not consumer.no_local:
            return True
    return False
