"""What comes back to a queue and what dies there: redelivery delays, dead letters, expiry. [C]

State: what is set aside for a later time, which of that is doomed, and the counts. Whether a message that waits may
still be delivered is decided here (`is_live`), and so is how often one is tried (`retry`).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.reasons import BODY_LOST, Reason, tries_used_up
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import MESSAGE_REDELIVERED
from entrepot.core.ports import Host, QueueAlarm
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.bereaved import without_body
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.stock import Stock
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message

EXPIRED_UNITS: Final = 12  # of `core/effort.py`: a message that expires, and may become a dead letter
MOVE_RETRY: Final = 1_000_000_000  # ns between two tries to move a message while the disk is full


class Onward:
    """Gives what waits to whoever is ready. `core/queue/dispatcher.py` does; this one gives nothing."""

    def dispatch(self) -> None:
        """Look what can be delivered."""


class _Retry(QueueAlarm):
    """Brings a reference back at its due time."""

    def __init__(self, returns: Returns, reference: Reference) -> None:
        super().__init__(int(reference.due))
        self.returns = returns
        self.reference = reference

    def ring(self, now: int) -> None:
        self.returns.due(self.reference)


class Returns:
    """What one queue has set aside, and what left it badly."""

    def __init__(self, host: Host, head: QueueHead, stock: Stock) -> None:
        self.host: Host = host
        self.journal: JournalCore = host.journal
        self.head: QueueHead = head
        self.stock: Stock = stock
        self.onward: Onward = Onward()
        self.delayed: dict[int, Reference] = {}
        self.doomed: dict[int, Reason] = {}  # set aside until the disk takes it as a dead letter: by number
        self.requeued: i64 = 0
        self.expired: i64 = 0
        self.dead: i64 = 0
        self.attempts: i64 = 0  # acknowledgements that were rolled back, and what was counted before a reset

    def retry(self, reference: Reference, attempted: bool) -> None:
        """Put ``reference`` back: at once, after its redelivery delay, or to the dead letters when tried too often.

        ``attempted`` counts a try.
        """
        head = self.head
        policy = head.policy
        self.requeued += 1
        head.note(facts.RETURNED, reference.number, 0, min(reference.deliveries + i64(attempted), facts.DETAIL_MAX))
        if attempted and not reference.shown:
            self.count(reference)
            if 0 <= policy.max_deliveries <= reference.deliveries:
                self.bury(reference, tries_used_up(reference.deliveries))
                return
            if head.fates.tells & MESSAGE_REDELIVERED or reference.message.watched:
                head.fates.redelivered(head.place(), reference.message, reference.deliveries)
            delay = policy.delay_after(int(reference.deliveries), self.host.fraction)
            if delay > 0:
                self._delay(reference, self.host.now + delay)
                return
        self.stock.put_back(reference)

    def count(self, reference: Reference) -> None:
        """Count one delivery more, here and in the journal."""
        reference.deliveries += 1
        if reference.shown:
            return
        if reference.paged or self.head.keeps(reference.message):
            self.journal.redelivered(reference.number, self.head.identity, reference.deliveries)

    def is_live(self, reference: Reference) -> bool:
        """Return whether ``reference``, which waits, may be delivered now. One whose time is over leaves for its expiry
        address, one that is damaged becomes a dead letter.
        """
        message = reference.message
        if message.expiration == 0 and message.rare is None:
            return True
        if not self.stock.is_over(message) and not self.stock.flaw(message):
            return True
        self.stock.remove(reference)
        self.is_sound(reference)
        return False

    def is_sound(self, reference: Reference) -> bool:
        """Return the same of ``reference``, which waits no longer, and let it leave in the same way."""
        if self.stock.is_over(reference.message):
            self.expire(reference)
            return False
        flaw = self.stock.flaw(reference.message)
        if flaw:
            self.doom(reference, flaw)
        return not flaw

    def expire(self, reference: Reference) -> None:
        """Send ``reference``, which waits no longer and whose time is over, to its expiry address."""
        if self._cannot_move(reference):
            return
        self.expired += 1
        self.host.effort.spent += EXPIRED_UNITS
        self.head.note(facts.EXPIRED, reference.number, 0, 0)
        self.journal.begin()
        try:
            self.host.expire(self.head, reference.message)
            self.stock.finish(reference)
        finally:
            self.journal.end()

    def doom(self, reference: Reference, flaw: str) -> None:
        """Make ``reference``, which waits no longer, a dead letter as soon as nothing else is being done here."""
        self.doomed[int(reference.number)] = Reason(BODY_LOST, flaw)
        self._delay(reference, self.host.now)

    def bereaved(self, message: Message) -> None:
        """A consumer that acknowledges nothing had a part of ``message`` when its body was found damaged."""
        flaw = self.stock.flaw(message)
        if flaw and not self.head.traits.non_destructive:  # there it is found when it is shown the next time
            self.doom(self.stock.reference(without_body(message, flaw), 1), flaw)

    def bury(self, reference: Reference, reason: Reason) -> None:
        """Make ``reference``, which waits no longer, a dead letter; later, while the journal takes no records.

        What one consumer of a non-destructive queue was shown stays in the queue for the others.
        """
        if reference.shown:
            self.stock.finish(reference)
            return
        if self._cannot_move(reference):
            self.doomed[int(reference.number)] = reason
            return
        self.journal.begin()
        try:
            self.bury_copy(reference.message, reason, reference.deliveries)
            self.stock.finish(reference)
        finally:
            self.journal.end()

    def bury_copy(self, message: Message, reason: Reason, deliveries: i64) -> None:
        """Make a dead letter of ``message``, with which the caller is then done here."""
        self.dead += 1
        self.head.note_dead(message.number, reason.text)
        self.host.dead_letter(self.head, message, reason, deliveries)

    def due(self, reference: Reference) -> None:
        """The time for which ``reference`` was set aside is over."""
        number = int(reference.number)
        if self.delayed.get(number) is not reference:
            return
        del self.delayed[number]
        if (reason := self.doomed.pop(number, None)) is not None:
            self.bury(reference, reason)
            return
        self.stock.put_back(reference)
        self.onward.dispatch()

    def purge(self, most: i64, why: i64) -> i64:
        """Remove up to ``most`` of what is set aside; return how many went."""
        gone: i64 = 0
        for reference in list(self.delayed.values()):
            if gone >= most:
                break
            del self.delayed[int(reference.number)]
            self.doomed.pop(int(reference.number), None)
            self.head.note(facts.REMOVED, reference.number, 0, why)
            self.stock.finish(reference)
            gone += 1
        return gone

    def _cannot_move(self, reference: Reference) -> bool:
        """While the journal takes no records, what should leave for another queue is set aside and tried again."""
        if self.journal.refusal() is None:
            return False
        self._delay(reference, self.host.now + MOVE_RETRY)
        return True

    def _delay(self, reference: Reference, due: i64) -> None:
        """Set ``reference``, which waits no longer, aside until ``due`` (ns)."""
        host = self.host
        reference.due = due
        self.delayed[int(reference.number)] = reference
        host.timetable.add(_Retry(self, reference))
        host.fraction = host.entropy.fraction()
