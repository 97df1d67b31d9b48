"""Reading that removes nothing: the dispatcher of a non-destructive queue (artemis.md 4.5). [C]

Every consumer walks through all that waits, in delivery order, in memory and on disk, and through what comes; an
acknowledgement frees its credit and nothing else. A message leaves when it expires, when it is purged or taken by an
operator, or when a newer one of its key or ring replaces it. A consumer that comes anew begins at the head.

What a consumer has is a `Reference` of its own (``shown``), which holds the message in memory until it is settled. One
that comes back is shown to that consumer again, before all else, and when it was tried as often as the policy allows,
no more; for the others it stays. Deliveries are counted for all of them together, as in Artemis; the journal has no
count of them.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.queue.backlog import LEVELS, Reference
from entrepot.core.queue.consumer import Consumer, Source
from entrepot.core.queue.dispatcher import Dispatcher
from entrepot.core.queue.gate import Gate
from entrepot.core.queue.returns import Returns
from entrepot.core.queue.stock import Stock
from entrepot.model.message import Message


class Perusal:
    """How far one consumer has read: of each level the number of the last message, and where that stands."""

    def __init__(self) -> None:
        self.seen: list[int] = [0] * LEVELS
        self.at: list[Reference | None] = [None] * LEVELS
        self.again: list[Reference] = []  # came back, and is shown before all else
        self.tries: dict[int, int] = {}  # number -> how often the consumer gave it back


class Showing(Dispatcher):
    """Shows what waits in one queue to each of its consumers."""

    def __init__(self, source: Source, stock: Stock, gate: Gate, returns: Returns) -> None:
        super().__init__(source, stock, gate, returns)
        self.perusals: dict[int, Perusal] = {}  # by consumer
        stock.queued = True

    def dispatch(self) -> None:
        """Show each ready consumer what it has not seen, until that or its credit ends, or this turn did enough."""
        if self.gate.shut or self.stepping:
            return
        if len(self.perusals) > len(self.roster.consumers):
            self._forget_others()
        looks: i64 = 0
        for consumer in list(self.roster.ready):
            perusal = self._perusal(consumer)
            while consumer.listed:
                if not consumer.window.is_open():
                    self.roster.unlist(consumer)
                    break
                looks += 1
                if looks > self.effort.stride:
                    self.effort.spent += looks
                    self._step_later()
                    return
                if not self._show(consumer, perusal):
                    break
        self.effort.spent += looks

    def show_again(self, consumer: Consumer, reference: Reference, attempted: bool) -> None:
        """``consumer`` gave back what it was shown."""
        number = int(reference.number)
        perusal = self._perusal(consumer)
        most = self.source.policy.max_deliveries
        if attempted:
            perusal.tries[number] = perusal.tries.get(number, 0) + 1
            reference.deliveries += 1
        if 0 <= most <= perusal.tries.get(number, 0):
            perusal.tries.pop(number, 0)
            self.stock.finish(reference)
        else:
            perusal.again.append(reference)

    def _perusal(self, consumer: Consumer) -> Perusal:
        perusal = self.perusals.get(int(consumer.key))
        if perusal is None:
            perusal = Perusal()
            self.perusals[int(consumer.key)] = perusal
        return perusal

    def _forget_others(self) -> None:
        """Drop what is kept of consumers that have left."""
        here = {int(consumer.key): True for consumer in self.roster.consumers}
        for key in [key for key in self.perusals if key not in here]:
            for reference in self.perusals.pop(key).again:
                self.stock.finish(reference)

    def _show(self, consumer: Consumer, perusal: Perusal) -> bool:
        """Look at the next message for ``consumer``, and show it if that may have it; False when there is none."""
        exclusive = self.roster.exclusive
        if exclusive is not None and exclusive is not consumer:
            return False
        if perusal.again:
            reference = perusal.again.pop(0)
            self.hand(consumer, reference.message, reference)
            return True
        level: i64 = LEVELS - 1
        while level >= 0:
            seen: i64 = perusal.seen[level]
            following = self._following(perusal, level, seen)
            paged = self.backlog.behind(level)
            numbers: list[int] = [] if paged is None else paged.after(seen, 1)
            if following is not None and (not numbers or following.number < numbers[0]):
                perusal.seen[level] = int(following.number)
                perusal.at[level] = following
                if self.returns.is_live(following) and consumer.wants(following.message):
                    deliveries = following.deliveries
                    following.deliveries += 1
                    self._hand_shown(consumer, following.message, deliveries)
                return True
            if numbers:
                perusal.seen[level] = numbers[0]
                self._show_from_disk(consumer, level, numbers)
                return True
            level -= 1
        return False

    def _following(self, perusal: Perusal, level: i64, seen: i64) -> Reference | None:
        """Return the first of ``level`` in memory whose number is above ``seen``."""
        waiting = self.backlog.waiting(level)
        if waiting is None:
            return None
        at = perusal.at[level]
        if at is None or not at.linked or at.number > seen:
            at = waiting.head
        while at is not None and at.number <= seen:
            at = at.after
        return at

    def _show_from_disk(self, consumer: Consumer, level: i64, numbers: list[int]) -> None:
        stock = self.stock
        for message in stock.load(numbers):
            if stock.is_over(message) or stock.flaw(message):
                stock.strike(level, numbers)
                self.returns.is_sound(stock.draw(message))
            elif consumer.wants(message):
                deliveries = stock.attempts.get(int(message.number), 0)
                stock.note_attempts(int(message.number), deliveries + 1)
                self._hand_shown(consumer, message, deliveries)

    def _hand_shown(self, consumer: Consumer, message: Message, deliveries: i64) -> None:
        reference = Reference(message)
        reference.shown = True
        reference.deliveries = deliveries
        self.stock.memory.hold(message)
        self.hand(consumer, message, reference)
