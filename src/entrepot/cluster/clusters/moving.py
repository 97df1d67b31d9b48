"""Readers of the broker itself, which bring messages of a queue into queues that lead to other nodes.

A `Mover` is a consumer like others, so order, paging, expiry and the bounds of a turn are those of the queue. What it
is given is in hand until it is moved: it comes back when the mover goes. Each message becomes a copy, in one batch of
the journal with the end of the original: after a crash there is one of the two.

The first pass moves a few, each further one twice as many, and between them is a breath: the disk has synced what was
moved, and it is on its way, before the next pass keeps the loop. [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MIB, MILLISECOND, SECOND, UNLIMITED, Duration, Instant
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.events import trace
from entrepot.core.events.facts import Reader
from entrepot.core.queue.consumer import REDISTRIBUTOR, Consumer, Window
from entrepot.core.queue.queue import NONE_DELIVERED, Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.sending.handing import hand_out
from entrepot.core.sending.sending import moved
from entrepot.model.message import Message

IN_HAND: Final = 1_000  # messages out of the queue and not moved yet: what comes back when a consumer comes
FIRST: Final = 8  # messages in hand, and moved in one turn, at first
IN_HAND_OCTETS: Final = 4 * MIB
BREATH: Final = 1 * MILLISECOND  # between the first passes
LOOK_AGAIN: Final = 2 * MILLISECOND  # while there is no room
DISK_AGAIN: Final = SECOND  # while the journal takes nothing
MOVE_UNITS: Final = 4  # of `core/effort.py`: a record of the journal, and a look at the targets
LOWEST: Final = -(1 << 30)  # a priority of consumers below every other


class _Pass(Rest):
    """Moves what is in hand."""

    def __init__(self, mover: Mover) -> None:
        super().__init__()
        self._mover: Mover = mover

    def resume(self) -> None:
        """Move some."""
        self._mover.move()


class _Again(Alarm):
    def __init__(self, due: Instant, mover: Mover) -> None:
        super().__init__(due)
        self._mover: Mover = mover

    def ring(self, now: Instant) -> None:
        self._mover.retry()


@mypyc_attr(allow_interpreted_subclasses=True)
class Mover(Consumer):
    """Reads one queue. Who extends it says in `wants` what it takes, and in `dispose` what becomes of that."""

    def __init__(self, broker: BrokerCore, source: Queue) -> None:
        super().__init__(broker.ids.consumer_key(), Window(FIRST, IN_HAND_OCTETS), True)
        self.kind = REDISTRIBUTOR
        self.priority = LOWEST
        self.connection = "the cluster"
        self.subscriber = Reader()
        self.subscriber.kind = REDISTRIBUTOR  # other nodes are told of no such consumer
        self.subscriber.connection = self.connection
        self.moved: i64 = 0
        self.broker: BrokerCore = broker
        self.source: Queue = source
        self._hand: list[Message] = []
        self._pass: _Pass = _Pass(self)
        self._waits: bool = False

    def dispose(self, message: Message) -> bool:
        """Move ``message``, by `hand_over`, or `give_back`; False: it has to wait, and `wait` says how long."""
        raise NotImplementedError

    # -- what its queue asks -------------------------------------------------------------------------------------------

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Take it in hand; it is moved once the queue is done."""
        self._hand.append(message)
        self.broker.effort.later(self._pass)

    def ended(self, why: str) -> None:
        """The queue was deleted."""
        self._hand.clear()

    # -- moving --------------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Let go of what is in hand, and of the queue: it takes that back, in its order."""
        self._hand.clear()
        if self.queue is not None:
            self.source.detach(self, NONE_DELIVERED)

    def look_again(self) -> None:
        """Look at everything that waits: what it wants is another now."""
        self.fresh = True
        self.cursor = None
        self.search = None
        self.source.dispatcher.dispatch()

    def retry(self) -> None:
        """Go on, after a wait."""
        self._waits = False
        self.move()

    def move(self) -> None:
        """Move what is in hand, as far as this turn reaches."""
        effort = self.broker.effort
        hand = self._hand
        window = self.window
        most: i64 = UNLIMITED if window.messages == IN_HAND else window.messages
        done: i64 = 0
        while done < len(hand) and self.queue is not None and not self._waits:
            if effort.is_over() or done >= most:
                effort.later(self._pass)
                break
            effort.spent += MOVE_UNITS
            if int(hand[done].number) in self.in_flight:
                if self.broker.journal.refusal() is not None:
                    self.wait(DISK_AGAIN)
                    break
                if not self.dispose(hand[done]):
                    break
            done += 1
        del hand[:done]
        if done > 0 and most != UNLIMITED:
            window.messages = min(2 * most, IN_HAND)
            window.reopen()
            if not self._waits:
                self.wait(BREATH)

    def give_back(self, message: Message) -> None:
        """Nobody wants ``message`` any more."""
        self.source.give_back(self, message.number, False)

    def hand_over(self, message: Message, queues: list[Queue], routes: dict[str, bytes]) -> None:
        """Bring a copy of ``message`` into ``queues``. ``routes``: annotation -> where it goes from there."""
        broker, source = self.broker, self.source
        copy = moved(broker.ids, message, source.stock.head.keeps(message))
        for key, ids in routes.items():
            copy.mark(key, ids)
        broker.journal.begin()
        try:
            hand_out(broker, copy, queues)
            source.note(trace.REMOVED, message.number, self.key, trace.MOVED)
            reference = source.hold(self, message.number)
            if reference is not None:
                source.unlease(1)
                source.stock.finish(reference)
        finally:
            broker.journal.end()
        self.moved += 1

    def wait(self, delay: Duration) -> None:
        """Move nothing for a while."""
        self._waits = True
        self.broker.timetable.add(_Again(int(self.broker.now) + delay, self))
