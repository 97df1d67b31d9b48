"""What is wanted here of one upstream, kept up to date by what happens in the broker (artemis.md 4.12).

Consumers make queues wanted, and bindings make addresses wanted: one wish for all that want the same. `Demand.look`
tells which wishes came and went since it was called last; it is called by an alarm, because a fact may be told in the
midst of what it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.cluster.carrying.demand import is_own
from entrepot.cluster.federation.options import QueuePolicy, UpstreamEntry
from entrepot.cluster.federation.policies import (
    Wish,
    can_pass_on,
    queue_for,
    takes_address,
    takes_queue,
)
from entrepot.core import observing
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import (
    BINDING_ADDED,
    BINDING_REMOVED,
    CONSUMER_ATTACHED,
    CONSUMER_DETACHED,
    DIVERT,
    QUEUE_ADDED,
    QUEUE_REMOVED,
    BindingFact,
    ConsumerFact,
    Fact,
    Listener,
    QueueFact,
    Reader,
)
from entrepot.core.queue.consumer import APPLICATION, INCOMING_BRIDGE, LEASE
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import MULTICAST
from entrepot.protocols.artemis.conversation.places import filter_of

Key = tuple[str, str, int]
Holder = tuple[str, object]

FACTS: Final = CONSUMER_ATTACHED | CONSUMER_DETACHED | QUEUE_ADDED | QUEUE_REMOVED | BINDING_ADDED | BINDING_REMOVED


class _Look(Alarm):
    def __init__(self, due: int, demand: Demand) -> None:
        super().__init__(due)
        self._demand: Final = demand

    def ring(self, now: int) -> None:
        self._demand.ring()


class _Ears(Listener):
    """Hears of consumers, queues and diverts. It is a part because a class has one compiled base at most."""

    def __init__(self, demand: Demand) -> None:
        super().__init__(FACTS)
        self._demand: Final = demand

    def heard(self, fact: Fact) -> None:
        """Note who wants what now."""
        self._demand.heard(fact)


class Demand:
    """Of one upstream. ``wishes``: by their keys; ``changed`` is called, by an alarm, when some came or went."""

    def __init__(self, broker: BrokerCore, entry: UpstreamEntry, changed: Callable[[], None]) -> None:
        self.broker: Final = broker
        self.entry: Final = entry
        self.wishes: dict[Key, Wish] = {}
        self._changed: Final = changed
        self._holders: dict[Key, dict[Holder, None]] = {}  # who wants it: consumers, queues, diverts
        self._held: dict[Holder, list[Key]] = {}
        self._bound: dict[str, dict[str, None]] = {}  # names of queues by address, whatever their routing type
        self._look: _Look | None = None
        self._ears: Final = _Ears(self)

    def begin(self) -> None:
        """Note all that is here, and hear what becomes of it."""
        observing.observe(self.broker, self._ears)
        for queue in list(self.broker.table.queues.values()):
            self._bind(queue.name, queue.address, int(queue.routing), _condition(queue))
            for consumer in () if queue.temporary else queue.roster.consumers:
                reader = consumer.subscriber
                self._attach(int(consumer.key), queue.name, queue.address, int(queue.routing), reader)
        self._follow_diverts()

    def end(self) -> None:
        """Hear nothing any more, and want nothing."""
        observing.ignore(self.broker, self._ears)
        look, self._look = self._look, None
        if look is not None:
            look.cancelled = True
        self.wishes.clear()
        self._holders.clear()
        self._held.clear()
        self._bound.clear()

    def ring(self) -> None:
        """Tell that there is something new."""
        self._look = None
        self._changed()

    def heard(self, fact: Fact) -> None:
        """Note who wants what now."""
        if isinstance(fact, ConsumerFact):
            place = fact.place
            if fact.kind == CONSUMER_ATTACHED:
                if not place.temporary:
                    self._attach(int(fact.key), place.name, place.address, int(place.routing), fact.reader)
            else:
                self._release(("consumer", int(fact.key)))
        elif isinstance(fact, QueueFact):
            place = fact.place
            if fact.kind == QUEUE_ADDED:
                self._bind(place.name, place.address, int(place.routing), place.filter)
            else:
                self._unbind(place.name, place.address)
            self._follow_diverts()
        elif isinstance(fact, BindingFact) and fact.form == DIVERT:
            self._follow_diverts()

    # -- queues --------------------------------------------------------------------------------------------------------

    def _attach(self, key: int, queue: str, address: str, routing: int, reader: Reader) -> None:
        """A consumer came."""
        for policy in self.entry.queues:
            if not takes_queue(policy, address, queue) or not _counts(policy, reader):
                continue
            wish = Wish(
                queue=queue,
                address=address,
                routing=routing,
                local=queue,
                selector=filter_of(reader.selector) if reader.selector and policy.selectors else "",
                priority=_priority(policy, reader, self.entry.options.priority),
                headers=policy.headers,
            )
            self._hold(("consumer", key), wish)

    # -- addresses -----------------------------------------------------------------------------------------------------

    def _bind(self, queue: str, address: str, routing: int, condition: str) -> None:
        """A queue came."""
        if not self.entry.addresses or is_own(address):
            return
        self._bound.setdefault(address, {})[queue] = None
        if routing == MULTICAST and can_pass_on(condition):
            self._want(("queue", queue), address)

    def _unbind(self, queue: str, address: str) -> None:
        self._release(("queue", queue))
        bound = self._bound.get(address)
        if bound is not None:
            bound.pop(queue, None)
            if not bound:
                del self._bound[address]

    def _follow_diverts(self) -> None:
        """See which diverts lead to queues now."""
        if not any(policy.diverts for policy in self.entry.addresses):
            return
        table = self.broker.table
        alive: dict[Holder, str] = {
            ("divert", divert.name): source
            for source, diverts in table.diverts.items()
            for divert in diverts
            if any(forward.target.name in self._bound for forward in divert.forwards)
        }
        for holder in [one for one in self._held if one[0] == "divert" and one not in alive]:
            self._release(holder)
        for holder, source in alive.items():
            if holder not in self._held:
                self._want(holder, source, diverted=True)

    def _want(self, holder: Holder, address: str, *, diverted: bool = False) -> None:
        entry = self.entry
        for policy in entry.addresses:
            if takes_address(policy, address) and (policy.diverts or not diverted):
                wish = Wish(
                    queue=queue_for(entry.federation, entry.options.name, address),
                    address=address,
                    priority=entry.options.priority,
                    policy=policy,
                    headers=policy.headers,
                )
                self._hold(holder, wish)
                return  # of two policies that mean one address the first counts: there is one queue

    # -- both ----------------------------------------------------------------------------------------------------------

    def _hold(self, holder: Holder, wish: Wish) -> None:
        key = wish.key
        holders = self._holders.setdefault(key, {})
        if not holders:
            self.wishes[key] = wish
            self._note()
        if holder not in holders:
            holders[holder] = None
            self._held.setdefault(holder, []).append(key)

    def _release(self, holder: Holder) -> None:
        for key in self._held.pop(holder, ()):
            holders = self._holders[key]
            holders.pop(holder, None)
            if not holders:
                del self._holders[key]
                del self.wishes[key]
                self._note()

    def _note(self) -> None:
        if self._look is None:
            self._look = _Look(int(self.broker.now), self)
            self.broker.timetable.add(self._look)

    def means(self, name: str, *, topic: bool) -> list[str]:
        """Return the names of the policies that mean the address ``name``, or a queue of it."""
        entry = self.entry
        address = self.broker.table.addresses.get(name)
        bound = [] if address is None else [*address.anycast, *address.multicast]
        queues = [queue.name for queue in bound if not queue.temporary] or [name]
        found = [one.name for one in entry.queues if any(takes_queue(one, name, queue) for queue in queues)]
        if topic:
            found += [one.name for one in entry.addresses if takes_address(one, name)]
        return found

    def about(self, name: str) -> list[Wish]:
        """Return the wishes that are about the queue, or the address, ``name``."""
        return [wish for wish in self.wishes.values() if name in (wish.address, wish.local)]


def _counts(policy: QueuePolicy, reader: Reader) -> bool:
    """Return whether a consumer makes its queue wanted: programs do; what other federations have here, if asked for.

    Whoever only looks does not, nor does what takes messages away from here to where others want them.
    """
    return reader.kind in (APPLICATION, LEASE) or (policy.federated and reader.kind == INCOMING_BRIDGE)


def _priority(policy: QueuePolicy, reader: Reader, upstream: int) -> int:
    if policy.keeps and reader.kind == INCOMING_BRIDGE:
        return int(reader.priority)
    return (int(reader.priority) if policy.priorities else 0) + upstream + policy.priority


def _condition(queue: Queue) -> str:
    return str(queue.definition.selector)
