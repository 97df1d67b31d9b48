"""The last step of every send: the record of a message, then the message into its queues. [C]

Where there are very many queues, the record comes at once and the queues take turns: `Owing`. A queue that anything
else happens to first, another message or its end, takes what it is owed before that; so each sees what it would have
seen, a moment later, and what is durable is on disk with its send. A new subscriber that is told very much of before,
over turns, is told all of it before what is new: `Deferral`. What a large transaction sends is seen when all of it is
stored: `Postponement`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import i64

from entrepot.base.reasons import FULL, READER_BEHIND, Reason
from entrepot.core.addressing.address_settings import FULL_DROP, FULL_PAGE
from entrepot.core.effort import Rest
from entrepot.core.events import announcing
from entrepot.core.ports import Host, Postponed
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.owed import Owed
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.stock import has_paged_enough
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message


def hand_out(host: Host, message: Message, queues: list[Queue]) -> None:
    """Give a numbered message to ``queues``, whatever their policies say about being full. One record is for all."""
    mirrors = host.mirrors
    if mirrors is not None:
        queues = [*queues, *[queue for queue in mirrors.sent(message, queues) if isinstance(queue, Queue)]]
    if message.durable:
        durable = [int(queue.identity) for queue in queues if queue.durable]
        if durable:
            host.journal.store(message, durable)
    if message.watched and host.watch is not None:
        host.watch.routed(message, [queue.name for queue in queues])
    if host.postponed is not None:
        host.postponed.add(message, queues)
    else:
        spread(host, message, queues)


def spread(host: Host, message: Message, queues: list[Queue]) -> None:
    """Let ``message``, whose record is written, enter ``queues``."""
    rare = message.rare
    if len(queues) > host.effort.stride and (rare is None or rare.large_id == 0):  # large bodies are the sender's yet
        for queue in queues:
            owe(host, queue, message)
        Owing(host, queues).resume()
        return
    for queue in queues:
        enter(host, queue, message)


def enter(host: Host, queue: Queue, message: Message) -> None:
    """Let ``message``, whose record is written, enter ``queue``."""
    if queue.fates.careful and queue.routing == ANYCAST:
        queue.fates.arrived(queue.place(), message, queue.roster.is_read())
    queue.accept(message)
    if queue.pending_limit >= 0 and queue.taking.trim() > 0 and not queue.remembers:
        announcing.dropped(host.hub, queue.place(), None, "", Reason(READER_BEHIND))


def enter_late(host: Host, queue: Queue, message: Message) -> None:
    """Let ``message``, whose record was written earlier, enter ``queue``, if that has not to drop what is too much."""
    if queue.stock.is_full() and drops(queue):
        drop(host, queue, message)
        if message.stored and message.durable and queue.durable:
            host.journal.settle(message.number, queue.identity)
        return
    enter(host, queue, message)


def drops(queue: Queue) -> bool:
    """Return whether ``queue``, which is full, drops what comes."""
    policy = queue.policy
    if policy.full == FULL_PAGE and has_paged_enough(queue.backlog, policy):
        return policy.page_full == FULL_DROP
    return policy.full == FULL_DROP


def drop(host: Host, queue: Queue, message: Message) -> None:
    """``queue`` is full, and drops what comes: tell of it."""
    announcing.dropped(host.hub, queue.place(), message, host.ids.identity_of(message), Reason(FULL))
    queue.drop(message, queue.roster.last_key())


def owe(host: Host, queue: Queue, message: Message) -> None:
    """Let ``queue`` have ``message`` before anything else that comes to it."""
    owed = queue.backlog.owed
    if owed is None:
        owed = Debt(host, queue)
        queue.backlog.owed = owed
    if isinstance(owed, Debt):
        owed.waiting.append(message)
        host.memory.hold(message)
    else:
        enter(host, queue, message)


class Postponement(Postponed):
    """Messages that are stored, and what they are to enter: one queue, nearly always, or ``several``.

    A large body is held until its message has entered: the record that a prepared branch had of it is settled already.
    """

    def __init__(self, host: Host) -> None:
        self.host: Host = host
        self.messages: list[Message] = []
        self.queues: list[Queue | None] = []
        self.several: dict[int, list[Queue]] = {}
        self.at: i64 = 0

    def add(self, message: Message, queues: Sequence[QueueHead]) -> None:
        """Let ``message`` enter ``queues`` later."""
        own = [queue for queue in queues if isinstance(queue, Queue)]
        if len(own) == 1:
            self.put(message, own[0])
        elif own:
            self.several[len(self.messages)] = own
            self.put(message, None)

    def put(self, message: Message, queue: Queue | None) -> None:
        """Let ``message`` enter ``queue`` later; None: those that ``several`` has."""
        rare = message.rare
        if rare is not None and rare.large_id != 0:
            self.host.journal.overflow.hold(rare.large_id)
        self.messages.append(message)
        self.queues.append(queue)

    def hand_out(self, most: i64, patient: bool) -> bool:
        """Let the next ``most`` enter, fewer if the turn is over and ``patient``; return whether those were all."""
        host = self.host
        last: i64 = min(self.at + most, len(self.messages))
        while self.at < last:
            at = self.at
            self.at += 1
            queue = self.queues[at]
            message = self.messages[at]
            rare = message.rare
            large_id: i64 = 0 if rare is None else rare.large_id
            if queue is not None:
                enter_late(host, queue, message)
            else:
                self._spread(message, self.several.pop(int(at)))
            if large_id != 0:
                host.journal.overflow.release(large_id)
            if patient and host.effort.is_over():
                break
        return self.is_done()

    def is_done(self) -> bool:
        """Return whether all have entered."""
        return self.at == len(self.messages)

    def _spread(self, message: Message, queues: list[Queue]) -> None:
        if len(queues) > self.host.effort.stride:
            spread(self.host, message, queues)
            return
        for queue in queues:
            enter_late(self.host, queue, message)


class Debt(Owed):
    """What one queue is owed."""

    def __init__(self, host: Host, queue: Queue) -> None:
        self.host: Host = host
        self.queue: Queue = queue
        self.waiting: list[Message] = []

    def before(self, message: Message) -> bool:
        """Let all of it enter first.

        What is owed may get a number of its own where it waits (`Stock`), above that of ``message``, which was given
        before: then so does ``message``, unless a record of the journal has it under its number.
        """
        ids = self.host.ids
        newest = ids.number
        self.pay()
        if ids.number == newest or self.queue.stock.head.keeps(message):
            return False
        self.queue.accept(ids.renumbered(message))
        return True

    def pay(self) -> None:
        """Let all of it enter, oldest first."""
        host = self.host
        self.queue.backlog.owed = None
        for message in self.waiting:
            enter(host, self.queue, message)
            host.memory.release(message)

    def messages(self) -> list[Message]:
        """Return what is owed, oldest first."""
        return list(self.waiting)


class Deferral(Owed):
    """What comes to the queue of a new subscriber while he is told what was before: it waits behind that.

    For queues that keep nothing over a restart, where a message may have another number. `pay` ends it, and nobody
    calls that but who made it, or when the queue ends.
    """

    def __init__(self, host: Host, queue: Queue) -> None:
        self.host: Host = host
        self.queue: Queue = queue
        self.waiting: list[Message] = []
        self.renumbers: bool = False
        queue.backlog.complete()
        queue.backlog.owed = self

    def before(self, message: Message) -> bool:
        """Let it wait."""
        self.waiting.append(message)
        self.host.memory.hold(message)
        return True

    def let_in(self, message: Message) -> None:
        """Let a numbered message of before enter, if the queue is there yet.

        The first one that has a record in the journal would get a new number where it waits on disk: from there on all
        get one, so that they rise.
        """
        queue = self.queue
        if queue.backlog.owed is self:
            queue.backlog.owed = None
            self.renumbers = self.renumbers or message.stored
            enter(self.host, queue, self.host.ids.renumbered(message) if self.renumbers else message)
            queue.backlog.owed = self

    def pay(self) -> None:
        """Nothing of before is left: let enter what waits, under numbers behind those."""
        queue = self.queue
        if queue.backlog.owed is not self:
            return
        queue.backlog.owed = None
        for message in self.waiting:
            enter(self.host, queue, self.host.ids.renumbered(message))
            self.host.memory.release(message)
        self.waiting.clear()

    def messages(self) -> list[Message]:
        """Return what waits, oldest first."""
        return list(self.waiting)


class Owing(Rest):
    """Lets the queues of one message take it, in their order, as many in a turn as its allowance reaches."""

    def __init__(self, host: Host, queues: list[Queue]) -> None:
        super().__init__()
        self.host: Host = host
        self.queues: list[Queue] = queues
        self.at: i64 = 0

    def resume(self) -> None:
        """Pay the next."""
        effort = self.host.effort
        queues = self.queues
        while self.at < len(queues):
            if effort.is_over():
                effort.later(self)
                return
            debt = queues[self.at].backlog.owed
            self.at += 1
            if isinstance(debt, Debt):  # what is deferred has a time of its own
                debt.pay()
