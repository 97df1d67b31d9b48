"""What this broker tells those that it mirrors itself into: what is sent, what leaves its queues, which there are. [C]

All of it waits in one queue for each mirror, in its order, from where the link of its connection takes it (artemis.md
2.8). A message is in that queue beside its own ones, by the same record of the journal; that it has left is written in
the batch that takes it out. So no crash parts them.

What is about this broker alone is never told, nor what is temporary. What another broker brought is not told to that
one, and a message is not told to the broker where it was sent first; so two that mirror each other, or more in a ring,
do not echo. That a message was taken is told to all but the one that said so, for it may be where the message is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from entrepot.cluster.address_filter import AddressFilter
from entrepot.cluster.broker_connections.options import MirrorOptions
from entrepot.cluster.carrying.demand import is_own
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.events.facts import (
    ADDRESS_ADDED,
    ADDRESS_REMOVED,
    QUEUE_ADDED,
    QUEUE_REMOVED,
    AddressFact,
    Fact,
    Listener,
    QueueFact,
)
from entrepot.core.mirrors import events
from entrepot.core.mirrors.answers import Answers
from entrepot.core.mirrors.identity import DOER, MIRROR, NUMBER, ORIGIN, QUEUES, is_noted, note
from entrepot.core.observing import ignore, observe
from entrepot.core.operators.control import json_of
from entrepot.core.operators.traits import configuration
from entrepot.core.ports import Mirroring
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.queue import Queue
from entrepot.core.sending.handing import hand_out
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.amqp.calling.mirroring import SEPARATOR, acknowledgement, event_of
from entrepot.protocols.amqp.convert import message_of

MISSING_MOST: Final = 10_000  # of these; where more go round a ring, some do so again (`PASSED_MOST` times in all)
NAMED_MOST: Final = 100  # queues of a message that are named; one for more goes to those that the other side chooses


class Mirror:
    """One of them. ``queue``: what it was not told yet waits there; ``remote``: who it is, "" before it was met."""

    def __init__(self, name: str, options: MirrorOptions, queue: Queue) -> None:
        self.name: str = name
        self.options: MirrorOptions = options
        self.queue: Queue = queue
        self.remote: str = ""
        self.filter: AddressFilter = AddressFilter(options.address_filter)


class _Renewal(Rest):
    """An operator deleted the queue of a mirror: it gets another one."""

    def __init__(self, telling: Telling) -> None:
        super().__init__()
        self.telling: Telling = telling

    def resume(self) -> None:
        """Make it."""
        self.telling.renew()


class Telling(Mirroring):
    """All that one broker tells its ``mirrors``."""

    def __init__(self, broker: BrokerCore) -> None:
        super().__init__()
        self.broker: BrokerCore = broker
        self.own: str = broker.ids.node.uuid_text
        self.mirrors: list[Mirror] = []
        self.changes: Changes = Changes(self)
        self.renewal: _Renewal = _Renewal(self)
        self.answers: Answers = Answers(broker)
        self.missing: dict[tuple[str, str, int], None] = {}  # queue, origin and number of what `missed` told

    def follow(self, wanted: dict[str, MirrorOptions]) -> None:
        """Tell those that are ``wanted``, by the names of their connections, and no others from now on."""
        known = {mirror.name: mirror for mirror in self.mirrors}
        self.mirrors = []
        for name, options in wanted.items():
            mirror = Mirror(name, options, self._need(name, options.durable))
            had = known.get(name)
            if had is not None:
                mirror.remote = had.remote
            self.mirrors.append(mirror)
            if had is None and not mirror.queue.used and mirror.queue.accepted == 0:
                self.changes.tell_all(mirror)
        broker = self.broker
        if self.mirrors and broker.mirrors is None:
            broker.mirrors = self
            observe(broker, self.changes)
        elif not self.mirrors and broker.mirrors is not None:
            broker.mirrors = None
            ignore(broker, self.changes)
        self._wait_for()
        broker.table.version += 1

    def met(self, queue: str, remote: str) -> None:
        """The mirror whose events wait in ``queue`` leads to the broker ``remote``."""
        for mirror in self.mirrors:
            if mirror.queue.name == queue:
                mirror.remote = remote

    def renew(self) -> None:
        """Let those whose queue was deleted have another one; they are told what queues there are, as new ones are."""
        for mirror in self.mirrors:
            if mirror.queue.deleted:
                mirror.queue = self._need(mirror.name, mirror.options.durable)
                self.changes.tell_all(mirror)
        self._wait_for()

    def _wait_for(self) -> None:
        """Let answers wait for those that are in step, from now on, and for no others."""
        answers = self.answers
        answers.queues = [mirror.queue for mirror in self.mirrors if mirror.options.sync]
        if answers.queues:
            self.broker.journal.elsewhere = answers
        answers.look()
        if not answers.queues:
            self.broker.journal.elsewhere = None

    def _need(self, name: str, durable: bool) -> Queue:
        """Return the queue of the mirror ``name``, made if there is none.

        One that was ``durable``, or was not, and has to be told something yet, stays as it is until a restart finds it
        empty: what waits there would be lost.
        """
        where = MIRROR + name
        known = self.broker.table.queues.get(where)
        if known is not None and (known.durable == durable or known.count > 0):
            return known
        if known is not None:
            self.broker.queues.delete(known, "its mirror is of another kind")
        made = QueueDefinition(name=where, address=where, routing=MULTICAST, durable=durable)
        return self.broker.queues.create(made)

    # -- what the core tells -------------------------------------------------------------------------------------------

    def sent(self, message: Message, queues: Sequence[QueueHead]) -> list[QueueHead]:
        """Return the queues of mirrors that get ``message``, which is stored for ``queues`` next."""
        names: list[str] = []
        plain = True
        for queue in queues:
            if queue.temporary or is_own(queue.address):
                continue
            plain = plain and queue.name == message.address
            names.append(queue.name)
        if not names or is_own(message.address):
            return []
        noted = is_noted(message)
        origin = message.marked(ORIGIN) if noted else self.own
        found = self._told_of(message, str(origin))
        if found and not noted:
            note(message, self.own, message.number, message.number)
            message.unmark(QUEUES)
        if found and not (plain and len(names) == 1) and len(names) <= NAMED_MOST:
            message.mark(QUEUES, SEPARATOR.join(names))
        return found

    def _told_of(self, message: Message, origin: str) -> list[QueueHead]:
        """Return the queues of the mirrors that are told of ``message``, first sent at ``origin``."""
        found: list[QueueHead] = []
        for mirror in self.mirrors:
            knows = mirror.remote != "" and mirror.remote in (origin, self.bringing)
            if not knows and not mirror.queue.deleted and mirror.filter.covers(message.address):
                found.append(mirror.queue)
                if mirror.options.sync:
                    self.answers.told(0 if self.bringing else self.committing or message.origin, message.number)
        return found

    def left(self, queue: QueueHead, message: Message) -> None:
        """``message`` has left ``queue``: it was taken, has expired, or is somewhere else now."""
        if queue.deleted or queue.temporary or is_own(queue.address):
            if queue.name.startswith(MIRROR):
                self.answers.left()
            return
        origin, number = message.marked(ORIGIN), message.marked(NUMBER)
        if not isinstance(origin, str) or not isinstance(number, int):
            return  # it was here before there was a mirror
        self._acknowledged(message.address, queue.name, origin, number)

    def missed(self, address: str, queue: str, origin: str, number: i64, passed: i64) -> None:
        """What another broker says was taken is not here: those behind this one may have it, and are told, once."""
        key = (queue, origin, int(number))
        if key in self.missing:
            return  # it came round a ring
        self.missing[key] = None
        if len(self.missing) > MISSING_MOST:
            self.missing.clear()
        self._acknowledged(address, queue, origin, number, passed)

    def _acknowledged(self, address: str, queue: str, origin: str, number: i64, passed: i64 = 0) -> None:
        said = "" if origin == self.own else origin
        for mirror in self.mirrors:
            if mirror.options.acknowledgements and mirror.filter.covers(address) and self._hears(mirror):
                self.tell(mirror, acknowledgement(address, queue, int(number), said, self.doer, int(passed)))

    def change(self, kind: str, address: str, queue: str, body: str, *, adds: bool) -> None:
        """Tell that an address or a queue has come, or has gone."""
        for mirror in self.mirrors:
            wanted = mirror.options.creation if adds else mirror.options.removal
            if wanted and mirror.filter.covers(address) and self._hears(mirror):
                self.tell_of(mirror, kind, address, queue, body, self.doer)

    def again(self, owner: i64, address: str) -> None:
        """What ``owner`` says again may be on its way to a mirror still, for which its answer waits."""
        for mirror in self.mirrors:
            if mirror.options.sync and (address == "" or mirror.filter.covers(address)):
                self.answers.claim(owner)

    def waiting(self) -> i64:
        """Return how many answers wait."""
        return self.answers.waiting

    def tell_of(self, mirror: Mirror, kind: str, address: str, queue: str, body: str, doer: str = "") -> None:
        """Tell of an address or a queue, by a number: what is told again is not done again."""
        self.tell(mirror, event_of(kind, address, queue, body, doer=doer, number=self.broker.ids.next_number()))

    def tell(self, mirror: Mirror, octets: bytes) -> None:
        """Let an event wait for its turn."""
        broker = self.broker
        message = message_of(octets, broker.wall).message
        message.number = broker.ids.next_number()
        message.address = mirror.queue.name
        if self.acting:  # who said it is not told, though it is not known yet that the mirror leads there
            message.mark(ORIGIN, self.acting)
            message.mark(DOER, self.doer)
        hand_out(broker, message, [mirror.queue])
        if mirror.options.sync:
            self.answers.told(0 if self.acting else self.committing or self.settling, message.number)

    def _hears(self, mirror: Mirror) -> bool:
        """Return whether ``mirror`` is told of what happens now: not of what it said itself, nor without a queue."""
        knows = self.acting != "" and mirror.remote in (self.acting, self.doer)
        return not knows and not mirror.queue.deleted


class Changes(Listener):
    """Hears of addresses and queues."""

    def __init__(self, telling: Telling) -> None:
        super().__init__(QUEUE_ADDED | QUEUE_REMOVED | ADDRESS_ADDED | ADDRESS_REMOVED)
        self.telling: Telling = telling

    def heard(self, fact: Fact) -> None:
        """One comes or goes."""
        telling = self.telling
        if isinstance(fact, QueueFact):
            place = fact.place
            if fact.kind == QUEUE_REMOVED and place.name.startswith(MIRROR):
                telling.broker.effort.later(telling.renewal)
            if place.temporary or is_own(place.address):
                return
            if fact.kind == QUEUE_REMOVED:
                telling.change(events.DELETE_QUEUE, place.address, place.name, place.name, adds=False)
                return
            queue = telling.broker.table.queues.get(place.name)
            if queue is not None:
                telling.change(events.CREATE_QUEUE, place.address, place.name, configuration(queue), adds=True)
        elif isinstance(fact, AddressFact):
            self._address(fact.kind, fact.address)

    def _address(self, kind: i64, name: str) -> None:
        """One that makes itself is made there, too, with its first queue; that it is gone is told of all."""
        types = self.telling.broker.table.declared.get(name, 0)
        if is_own(name) or (kind == ADDRESS_ADDED and types == 0):
            return
        adds = kind == ADDRESS_ADDED
        event = events.ADD_ADDRESS if adds else events.DELETE_ADDRESS
        self.telling.change(event, name, "", described(name, types), adds=adds)

    def tell_all(self, mirror: Mirror) -> None:
        """Tell a new mirror what there is."""
        telling = self.telling
        if not mirror.options.creation:
            return
        table = telling.broker.table
        for name, types in table.declared.items():
            if not is_own(name) and mirror.filter.covers(name):
                telling.tell_of(mirror, events.ADD_ADDRESS, name, "", described(name, types))
        for queue in list(table.queues.values()):
            if not queue.temporary and not is_own(queue.address) and mirror.filter.covers(queue.address):
                telling.tell_of(mirror, events.CREATE_QUEUE, queue.address, queue.name, configuration(queue))


def described(name: str, types: int) -> str:
    """Return an address as Artemis describes one; ``types``: 1 multicast, 2 anycast."""
    routing = [kind for kind, bit in ((0, 1), (1, 2)) if types & bit]
    return json_of(
        {
            "id": 0,
            "name": name,
            "auto-created": False,
            "temporary": False,
            "internal": False,
            "routingTypes": routing or [1],
            "created-timestamp": 0,
        }
    )
