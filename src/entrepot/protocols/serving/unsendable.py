"""Messages that have no form in the protocol of their consumer: they become dead letters, soon. [C]

A queue that hands a message out cannot be told so in the middle of it: the refusal waits until octets are written.
"""

from __future__ import annotations

from entrepot.base.reasons import UNSENDABLE, Reason
from entrepot.core.queue.consumer import Consumer


class _Unsendable:
    """A message that could not be said to its consumer."""

    def __init__(self, consumer: Consumer, number: int, why: str) -> None:
        self.consumer: Consumer = consumer
        self.number: int = number
        self.why: str = why


class Unsendables:
    """Those of one connection since it wrote last."""

    def __init__(self) -> None:
        self.messages: list[_Unsendable] = []

    def add(self, consumer: Consumer, number: int, why: str) -> None:
        """Remember one that was delivered to ``consumer``."""
        self.messages.append(_Unsendable(consumer, number, why))

    def bury(self) -> None:
        """Reject them all: their queues make dead letters of them."""
        for each in self.messages:
            consumer = each.consumer
            queue = consumer.queue
            if queue is not None:
                queue.reject(consumer, each.number, Reason(UNSENDABLE, each.why))
