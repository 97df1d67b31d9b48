"""What waits for its date, when a node gives all that it has to another one (`draining.py`).

It is in no queue. So it is put into one, each message in one atomic batch, and crosses with its date; where the drain
is given up it is scheduled here again.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.bereaved import record_flaw
from entrepot.core.scheduling.timed import SCHEDULED_CRON, SCHEDULED_PERIOD, SCHEDULED_REPEAT, SCHEDULED_TARGET
from entrepot.core.sending.handing import hand_out
from entrepot.model import address as names
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message
from entrepot.protocols.artemis.linking.crossing import CROSSED, DATED, PASS, Crossing

REPEATS: Final = (SCHEDULED_PERIOD, SCHEDULED_REPEAT, SCHEDULED_CRON)
STEP_SCHEDULES: Final = 200  # in one turn
SCHEDULED: Final = "$.entrepot.drain.scheduled"
"""The queue where what waits for its date waits for the drain."""


class Dated:
    """That of one broker."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker

    def numbers(self) -> tuple[list[int], int]:
        """Return the numbers of the scheduled messages that move, and how many do not: those that repeat."""
        dated: list[int] = []
        kept = 0
        for number in list(self.broker.scheduled.schedules):
            try:
                message = self.broker.scheduled.load(number)
            except EntrepotError:
                continue
            if record_flaw(message):
                continue  # it becomes a dead letter here
            if any(name in message.need_rare().annotations for name in REPEATS):
                kept += 1
            else:
                dated.append(number)
        return dated, kept

    def take(self) -> bool:
        """Put some of what waits for its date into the queue that moves it; return whether there is more."""
        if not self.broker.scheduled.schedules:
            return False
        dated, _ = self.numbers()
        broker = self.broker
        if dated and broker.journal.refusal() is None:
            queue = broker.table.queues.get(SCHEDULED)
            if queue is None:
                queue = broker.queues.create(QueueDefinition(name=SCHEDULED, address=SCHEDULED, routing=ANYCAST))
            for number in dated[:STEP_SCHEDULES]:
                message = broker.scheduled.load(number)
                copy = broker.ids.renumbered(message)
                target = names.parse(copy.need_rare().annotations.pop(SCHEDULED_TARGET, ""))
                if len(target) == 1:
                    copy.address = target[0].name
                copy.durable = True
                broker.journal.parts.touch(number)  # of a commit that goes on: the copy is the commit's, too
                broker.journal.begin()
                try:
                    hand_out(broker, copy, [queue])
                    broker.scheduled.cancel(number)
                finally:
                    broker.journal.end()
        return len(dated) > STEP_SCHEDULES

    def give_back(self) -> None:
        """Give what waits for the drain its date here again."""
        queue = self.broker.table.queues.get(SCHEDULED)
        while queue is not None and queue.backlog.count > 0:
            for found in queue.stock.walk().step(STEP_SCHEDULES):
                reference = queue.taking.take_found(found)
                copy = self.broker.ids.renumbered(reference.message)
                if copy.marked(CROSSED) is None:
                    copy.mark(CROSSED, self._crossing(reference.message))
                self.broker.journal.begin()
                try:
                    self.broker.send(copy, self.broker.target(names.parse(copy.address)))
                    queue.stock.finish(reference)
                finally:
                    self.broker.journal.end()

    def _crossing(self, message: Message) -> bytes:
        """Return the id under which the target knows ``message``, if it came there before the drain was given up."""
        crossing = Crossing(self.broker, "", PASS, deduplicates=True, mark=SCHEDULED.encode(), route=DATED)
        return crossing.duplicate_id(message)
