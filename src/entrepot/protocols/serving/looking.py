"""A large body that is read before its message is shown, over as many turns as that takes. [C]

What is delivered is measured by the queue (`core/queue/measuring.py`). What is shown, to a browser or to a reader by
lease, is in nobody's hands: its body is held here, so that a consumer who settles it meanwhile does not take it away.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.queue.consumer import Measurement
from entrepot.model.message import Message


class Looking(Rest):
    """Finishes ``measurement`` as long as it is ``wanted``, and gives what flaw was found, or "", to ``then``."""

    def __init__(
        self,
        broker: BrokerCore,
        message: Message,
        measurement: Measurement,
        wanted: Callable[[], bool],
        then: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.broker: BrokerCore = broker
        self.message: Message = message
        self.measurement: Measurement = measurement
        self.wanted: Callable[[], bool] = wanted
        self.then: Callable[[str], None] = then
        broker.journal.overflow.hold(message.need_rare().large_id)
        broker.effort.later(self)

    def resume(self) -> None:
        """Read as much as this turn allows."""
        effort = self.broker.effort
        wanted = self.wanted()
        while wanted and not self.measurement.step():
            if effort.is_over():
                effort.later(self)
                return
        if wanted:
            self.then(self.measurement.flaw)
        self.broker.journal.overflow.release(self.message.need_rare().large_id)
