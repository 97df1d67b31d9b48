"""Message groups over a cluster: all nodes bring the messages of a group to the same queue (artemis.md 1.21).

One node has the LOCAL handler: it decides, and keeps its decisions in the journal. The others have a REMOTE one, which
proposes a queue, takes what is decided instead, and remembers it. Both speak by notifications, so a real Artemis may
have either part.

Artemis lets the sender wait for a decision. Here the message is taken at once and waits in a queue of the broker's own,
on disk if it is persistent; what comes later of the same group waits behind it, and all goes on in its order when the
decision is there. While the queue that was decided for is not known here, they wait too, for ``timeout``.

Decided on purpose, where Artemis does otherwise: an answer to a proposal is given when the decision is on disk; when
nobody decides for ten times ``timeout`` all that waits of the group goes to one queue, not each message to another
(AMQ222209); a handler has at most `PINS_MAX` decisions (`agreeing.py`), and forgets the longest unused first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import InvalidDestination
from entrepot.cluster.clusters.agreeing import GROUP_CHARACTERS, Agreement, Tell
from entrepot.cluster.clusters.holding import Holder, Ring, ring_of
from entrepot.cluster.clusters.options import GroupingOptions
from entrepot.core.addressing.binding import Binding, LocalBinding, RemoteBinding
from entrepot.core.addressing.choice import Share
from entrepot.core.addressing.queues import QueueWatcher
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.sending.sending import Grouping
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import Message

TRIES: Final = 10  # times ``timeout``, before a group goes where it can
ASKED: Final = 5  # times within ``timeout``: a proposal is lost while the node that decides is not connected
ASKED_MIN: Final = 50 * MILLISECOND
ASKED_MAX: Final = SECOND
SAID_MAX: Final = 1_000  # different things, to an operator

Covers = Callable[[str], bool]
"""Whether any cluster connection is about an address."""


class Unit:
    """Messages of one group, sent to one address, that wait. ``rings``: among which queues it is not decided yet.

    ``own``: where they go since nobody decided.
    """

    def __init__(self, address: str, group: str, now: Instant) -> None:
        self.address: Final = address
        self.group: Final = group
        self.rings: dict[str, Ring] = {}
        self.own: dict[str, str] = {}
        self.count = 0
        self.tries = 0
        self.since = now
        self.ready = False
        self.open: dict[str, None] = {}  # of ``rings``, those that are decided
        self.alarm: _Due | None = None


class _Due(Alarm):
    def __init__(self, due: Instant, owner: GroupingHandler, unit: Unit) -> None:
        super().__init__(due)
        self._owner: Final = owner
        self._unit: Final = unit

    def ring(self, now: Instant) -> None:
        self._owner.ask_again(self._unit)


class _Look(Alarm):
    def __init__(self, due: Instant, owner: GroupingHandler) -> None:
        super().__init__(due)
        self._owner: Final = owner

    def ring(self, now: Instant) -> None:
        self._owner.look()


class _Closed(QueueWatcher):
    """Hears of queues that are deleted."""

    def __init__(self, gone: Callable[[str], None]) -> None:
        self._gone: Final = gone

    def closing(self, queue: Queue) -> None:
        self._gone(queue.name)


class GroupingHandler(Grouping):
    """That of one broker."""

    def __init__(
        self, broker: BrokerCore, options: GroupingOptions, say: Callable[[str], None], tell: Tell, covers: Covers
    ) -> None:
        """``say``: what an operator should know; ``tell``: other nodes, as a notification of that type."""
        self.options: Final = options
        self.units: dict[tuple[str, str], Unit] = {}
        self.given_up = 0
        self.agreement: Final = Agreement(broker, options, tell, self)
        self._broker: Final = broker
        self._say: Final = say
        self._covers: Final = covers
        self._node: Final = broker.ids.node.uuid_text
        self._waiting: dict[str, dict[Unit, None]] = {}  # key -> who waits for a decision about it
        self._gone: dict[str, None] = {}
        self._alarm: _Look | None = None
        self._said: dict[str, None] = {}
        self._holder: Final = Holder(broker, self)
        self._old = self._holder.count() > 0  # messages of before the start wait: all of a group goes behind them
        broker.sending.grouping = self
        broker.queues.watchers.append(_Closed(lambda name: self.gone(name + self._node)))
        if self._old:
            self._later()

    # -- what is sent --------------------------------------------------------------------------------------------------

    def choose(self, message: Message, target: Target) -> list[Queue]:
        """Return the queues that ``message`` goes to; ``target.choice.routes`` says where from there."""
        choice = target.choice
        group = "" if message.rare is None else message.rare.group
        if target.queue_name or not group or len(group) > GROUP_CHARACTERS:
            return choice.choose(message)
        found: list[Queue] = []
        choice.routes = None
        held: list[Ring] = []
        for one in choice.every:
            if choice.takes(one, message):
                picked = self._pick(message, group, [one], None, held)
                if picked is not None:
                    choice.lead(found, picked)
        for share in choice.shares:
            picked = self._pick(message, group, share.bindings, share, held)
            if picked is not None:
                choice.lead(found, picked)
        if held:
            unit = self._unit(message.address, group, held)
            unit.count += 1
            routes = choice.routes
            if routes is None:
                routes = choice.routes = {}
            self._holder.hold(held, found, routes)
        return found

    def _pick(
        self, message: Message, group: str, bindings: list[Binding], share: Share | None, held: list[Ring]
    ) -> Binding | None:
        """Return which of ``bindings`` gets ``message``; None: no one, or it waits, and is added to ``held``."""
        first = bindings[0]
        ring = ring_of(first)
        key = ring.key(group)
        if not self._concerns(first):
            return first if share is None else share.pick(message)
        unit = self.units.get((message.address, group))
        alone = share is None and first.routing == MULTICAST  # a subscription that is in one place: why wait
        if (self._old and not alone) or (unit is not None and key in unit.rings):
            held.append(ring)
            return None
        pin = self.agreement.get(key)
        agreed = None if pin is None else self._locate(ring, pin.name)
        if agreed is not None and agreed.passes(message):
            return agreed
        mine = first if share is None else share.pick(message)
        if mine is None or agreed is not None:
            return mine
        if pin is None:
            if self.options.local and self.agreement.decide(key, self._name(mine)):
                return mine
            self.agreement.propose(key, self._name(mine))
            if alone:
                return mine
        held.append(ring)
        return None

    def _concerns(self, binding: Binding) -> bool:
        """Return whether other nodes may have a queue beside ``binding``: theirs, or one that they are told of."""
        if isinstance(binding, RemoteBinding):
            return True
        queue = binding.queue
        return not queue.temporary and queue.address[:1] != "$" and self._covers(queue.address)

    def _name(self, binding: Binding) -> str:
        return binding.cluster_name if isinstance(binding, RemoteBinding) else binding.queue.name + self._node

    def _locate(self, ring: Ring, name: str) -> Binding | None:
        """Return the queue of the cluster name ``name`` among those of ``ring``."""
        return next((one for one in self._bindings(ring) if self._name(one) == name), None)

    def _bindings(self, ring: Ring) -> list[Binding]:
        address = self._broker.table.addresses.get(ring.address)
        if address is None:
            return []
        if ring.routing == ANYCAST:
            return address.anycasts.bindings
        group = address.multicasts.get(ring.routing_name)
        return [] if group is None else group.bindings

    # -- what is known ------------------------------------------------------------------------------------------------

    def gone(self, name: str) -> None:
        """The queue of the cluster name ``name`` is not there any more; perhaps it is at once again."""
        self._gone[name] = None
        self._later()

    def complete(self, node: str) -> None:
        """All queues of ``node`` are known: what was decided for others there is so no more."""
        names = {pin.name for pin in self.agreement.pins.values() if pin.name.endswith(node)}
        if names:
            self._gone.update(dict.fromkeys(names))
            self._later()

    def decided(self, key: str) -> None:
        """What waits for ``key`` can go on."""
        if key in self._waiting:
            self._later()

    def undecided(self, key: str) -> None:
        """What waits for ``key`` cannot go on."""
        for unit in self._waiting.get(key, ()):
            self._halt(unit)

    def changed(self) -> None:
        """A queue of another node is known."""
        if self.units or self._old:
            self._later()

    def _later(self) -> None:
        if self._alarm is None:
            self._alarm = _Look(int(self._broker.now), self)
            self._broker.timetable.add(self._alarm)

    def look(self) -> None:
        """See what changed: groups whose queue is gone are decided anew, what can go on does."""
        self._alarm = None
        gone, self._gone = self._gone, {}
        if gone:
            known = {self._name(one) for one in self._broker.table.remotes.values()}
            known.update(name + self._node for name in self._broker.table.queues)
            self.agreement.forget(name for name in gone if name not in known)
        for unit in self.units.values():
            self._judge(unit)
        self._holder.look_again()

    # -- what waits ----------------------------------------------------------------------------------------------------

    def _unit(self, address: str, group: str, rings: list[Ring]) -> Unit:
        unit = self.units.get((address, group))
        if unit is None:
            unit = self.units[address, group] = Unit(address, group, int(self._broker.now))
            self._wake(unit)
        for ring in rings:
            key = ring.key(group)
            if key not in unit.rings:
                unit.rings[key] = ring
                unit.ready = False
                self._waiting.setdefault(key, {})[unit] = None
        return unit

    def _wake(self, unit: Unit) -> None:
        due = int(self._broker.now) + min(max(self.options.timeout // ASKED, ASKED_MIN), ASKED_MAX)
        unit.alarm = _Due(due, self, unit)
        self._broker.timetable.add(unit.alarm)

    def is_ready(self, message: Message, rings: list[Ring]) -> bool:
        """Return whether ``message``, which waits, can go on."""
        group = "" if message.rare is None else message.rare.group
        unit = self.units.get((message.address, group))
        if unit is None or any(ring.key(group) not in unit.rings for ring in rings):
            unit = self._unit(message.address, group, rings)  # it waited before the start
            self._judge(unit)
        return unit.ready and any(ring.key(group) in unit.open for ring in rings)

    def place(self, message: Message, ring: Ring) -> Binding | None:
        """Return where ``message``, which waited, goes among the queues of ``ring``."""
        group = "" if message.rare is None else message.rare.group
        unit = self.units.get((message.address, group))
        found = None if unit is None else self._place(unit, ring.key(group), ring)
        if unit is not None and found is None and ring.key(group) in unit.open:
            self._halt(unit)
        return found

    def moved(self, message: Message) -> None:
        """``message`` waits no more."""
        group = "" if message.rare is None else message.rare.group
        unit = self.units.get((message.address, group))
        if unit is not None:
            unit.count -= 1
            if unit.count <= 0 and not self._old:
                self._drop(unit)
        if self._old and self._holder.count() == 0:
            self._old = False
            for one in [one for one in self.units.values() if one.count <= 0]:
                self._drop(one)

    def _drop(self, unit: Unit) -> None:
        self.units.pop((unit.address, unit.group), None)
        if unit.alarm is not None:
            unit.alarm.cancelled = True
        for key in unit.rings:
            waiting = self._waiting.get(key, {})
            waiting.pop(unit, None)
            if not waiting:
                self._waiting.pop(key, None)

    def _place(self, unit: Unit, key: str, ring: Ring) -> Binding | None:
        pin = self.agreement.pins.get(key)
        name = unit.own.get(key, "") if pin is None else pin.name
        return self._locate(ring, name) if name else None

    def _judge(self, unit: Unit) -> None:
        """See whether what waits in ``unit`` can go on. For a subscription that is nowhere now it waits by itself."""
        unit.open.clear()
        unit.ready = True
        for key, ring in unit.rings.items():
            if self._place(unit, key, ring) is not None:
                unit.open[key] = None
            elif ring.routing == ANYCAST or self._bindings(ring):
                unit.ready = False

    def _halt(self, unit: Unit) -> None:
        """What was decided about ``unit`` is so no more."""
        unit.ready = False
        self._later()

    def ask_again(self, unit: Unit) -> None:
        """Nobody decided about ``unit`` yet, or for a queue that is not known here."""
        if self.units.get((unit.address, unit.group)) is not unit:
            return
        if self._holder.count() == 0:
            self._drop(unit)  # what waited expired, or was refused
            self._old = False
            return
        now = int(self._broker.now)
        over = now - unit.since >= self.options.timeout
        if over:
            unit.since = now
            unit.tries += 1
        for key, ring in unit.rings.items():
            if self._place(unit, key, ring) is None:
                self._try(unit, key, ring, over)
        self._wake(unit)
        self._later()

    def _try(self, unit: Unit, key: str, ring: Ring, over: bool) -> None:
        pin = self.agreement.pins.get(key)
        if pin is not None and not over:
            return
        if pin is not None:
            self.agreement.dissolve(key)
        candidate = self._candidate(ring)
        if unit.tries >= TRIES and (self._gives_up(unit, key, ring, candidate) or candidate is None):
            return
        if candidate is None:
            return
        if self.options.local:
            self.agreement.decide(key, self._name(candidate))
        else:
            self.agreement.propose(key, self._name(candidate))

    def _candidate(self, ring: Ring) -> Binding | None:
        """Return the queue to propose: one that is read, one that is here, or any."""
        bindings = self._bindings(ring)
        wanted = [one for one in bindings if one.connected and one.consumers() > 0]
        here = [one for one in bindings if isinstance(one, LocalBinding)]
        return next(iter([*wanted, *here, *bindings]), None)

    def _gives_up(self, unit: Unit, key: str, ring: Ring, candidate: Binding | None) -> bool:
        """Let what waits in ``unit`` go where it can: to a queue that there is, or to a new one."""
        self.given_up += 1
        unit.tries = 0
        self.say(
            f"AMQ222209: nobody decided for {TRIES * self.options.timeout // MILLISECOND} ms where the group "
            f"{unit.group!r} goes: is the node with the LOCAL grouping-handler there? It goes where it can"
        )
        if candidate is None and ring.routing == ANYCAST:
            try:
                self._broker.queues.need(Destination(ring.address, ANYCAST))
            except InvalidDestination:
                return False  # nothing may be made here: it waits
            candidate = self._candidate(ring)
        if candidate is not None:
            unit.own[key] = self._name(candidate)
        return candidate is not None

    def say(self, what: str) -> None:
        """Tell an operator, once."""
        if what not in self._said and len(self._said) < SAID_MAX:
            self._said[what] = None
            self._say(what)
