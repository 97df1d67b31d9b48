"""What must be found out about a large body before its message can be written, over as many turns as that takes. [C]

Most languages say the length of a body before it, and that of a body which has to be inflated or converted is only
known when all of it was read. The consumer has the message meanwhile and gets no other; if it leaves, or is stopped,
the message goes back as one that it never saw: a client that was told that nothing more comes forgets what it has, and
would take what comes behind that for a message that it has yet to see.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.reasons import UNSENDABLE, Reason
from entrepot.core.effort import Effort, Rest
from entrepot.core.ports import QueueAlarm
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.consumer import Consumer, Measurement, Pause, Source
from entrepot.core.room import Room


class _Overdue(QueueAlarm):
    """Lets one go on that has waited for room long enough."""

    def __init__(self, due: int, room: Room, rest: Rest) -> None:
        super().__init__(due)
        self.room = room
        self.rest = rest

    def ring(self, now: int) -> None:
        self.room.hurry(self.rest)


class Measuring(Rest):
    """Delivers ``reference``, which is in flight at ``consumer``, once ``measurement`` is over.

    ``mark``: an annotation that is for this consumer alone, or "". One that settles nothing has it settled then.
    """

    def __init__(
        self,
        source: Source,
        consumer: Consumer,
        reference: Reference,
        measurement: Measurement,
        deliveries: i64,
        mark: str,
    ) -> None:
        super().__init__()
        self.source: Source = source
        self.effort: Effort = source.host.effort
        self.consumer: Consumer = consumer
        self.reference: Reference = reference
        self.measurement: Measurement = measurement
        self.deliveries: i64 = deliveries
        self.mark: str = mark
        consumer.unwritten = reference.number
        consumer.window.pause(Pause.MEASURING)
        self.effort.later(self)

    def resume(self) -> None:
        """Measure as much as this turn allows."""
        consumer = self.consumer
        number = self.reference.number
        here = consumer.in_flight.get(int(number)) is self.reference
        while here and not self.measurement.step():
            room = self.measurement.room
            if room is not None:
                host = self.source.host
                host.timetable.add(_Overdue(room.wait(self, int(host.now)), room, self))
                return
            if self.effort.is_over():
                self.effort.later(self)
                return
        if consumer.unwritten == number:
            consumer.unwritten = 0
        window = consumer.window
        window.lift(Pause.MEASURING)  # not opened yet: what is written may make another pause
        if here:
            self._hand_over(number)
        elif self.mark:
            self.reference.message.need_rare().annotations.pop(self.mark, None)
        window.reopen()

    def _hand_over(self, number: i64) -> None:
        """Let the consumer write the message, or make one that has no form there a dead letter."""
        consumer = self.consumer
        message = self.reference.message
        flaw = self.measurement.flaw
        stopped = consumer.window.pauses & Pause.OPENING != 0
        if not flaw and not stopped:
            consumer.deliver(message, self.deliveries)
        if self.mark:
            message.need_rare().annotations.pop(self.mark, None)
        if flaw:
            self.source.reject(consumer, number, Reason(UNSENDABLE, flaw))
        elif stopped:
            self.source.give_back(consumer, number, False)
        elif not consumer.tracked:
            self.source.settle(consumer, number)
